/*
 * catchup_estimate.h
 *	  How long will a node that catches up need?  Pure.
 */
#ifndef LOCKSTEP_CATCHUP_ESTIMATE_H
#define LOCKSTEP_CATCHUP_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct CatchupSoFar
{
	uint64_t	us;				/* since it began */
	uint64_t	applied;		/* transactions, since then */
	uint64_t	came;			/* decided meanwhile by those who go on */
	uint64_t	lag;			/* decided, not applied */
} CatchupSoFar;

/*
 * If things stay as they were: rate, in transactions a second, and the seconds
 * until there is no lag.  false: can't say; rate is 0 if it is too early for that,
 * too.
 */
extern bool catchup_time_left(const CatchupSoFar *sofar, uint64_t *rate, uint64_t *seconds);

#endif
