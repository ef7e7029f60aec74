/*
 * catchup_estimate.c
 *	  How long will a node that catches up need?
 *
 * The lag shrinks by what it applies less what comes meanwhile.  Pure; in floating
 * point, as a lag of days times microseconds is more than 64 bits hold.
 */
#include "catchup_estimate.h"

#define TOO_EARLY_US 300000
#define US_PER_SECOND 1e6

bool
catchup_time_left(const CatchupSoFar *sofar, uint64_t *rate, uint64_t *seconds)
{
	double		elapsed = (double) sofar->us / US_PER_SECOND;

	*rate = 0;
	if (sofar->us < TOO_EARLY_US)
		return false;
	*rate = (uint64_t) ((double) sofar->applied / elapsed);
	if (sofar->applied <= sofar->came)
		return false;			/* it falls behind */
	*seconds = (uint64_t) ((double) sofar->lag * elapsed / (double) (sofar->applied - sofar->came));
	return true;
}
