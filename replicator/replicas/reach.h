/*
 * reach.h
 *	  Can any node be reached from this replicator?  Asked only while the leader reaches none:
 *	  see membership/stranded.c.
 */
#ifndef LOCKSTEP_REACH_H
#define LOCKSTEP_REACH_H

#include "config.h"

/* As numbers in messages, too. */
typedef enum Reach
{
	REACH_UNKNOWN = 0,
	REACH_NONE = 1,
	REACH_SOME = 2
} Reach;

/* Once, on the loop's thread. */
extern void reach_begin(const Config *config);

/* For the next two seconds it is tried; any thread. */
extern void reach_wanted(void);

/* What the last round of attempts has shown; any thread. */
extern Reach reach_known(void);

#endif
