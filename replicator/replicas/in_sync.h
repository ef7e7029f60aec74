/*
 * in_sync.h
 *	  Which members of a group are to be put in sync, and which are to be taken out: what the leader's thread of
 *	  group.c decides by.  i: the index in Config.replicators.
 */
#ifndef LOCKSTEP_IN_SYNC_H
#define LOCKSTEP_IN_SYNC_H

#include "config.h"
#include "group_key.h"

#define IN_SYNC_SILENT_MS 1000	/* a copy is out of sync */

/* The pointers stay; the key is that of now. */
extern void in_sync_begin(const Config *config, const GroupKey *key);

extern bool in_sync_is_self(int i);
extern bool in_sync_has(int i);

/*
 * One that has everything, and is not in sync; one whose disk has room, if there is one, and of these the preferred
 * one.  -1: none.  writers_run: they would have to wait for one that is slow.
 */
extern int	in_sync_candidate(int preferred, bool writers_run, bool *has_room);

/* In sync, connected, and its disk is full; -1: none. */
extern int	in_sync_full(void);

/* In sync, and in the place of the preferred one; -1: none. */
extern int	in_sync_other(void);

/* In sync, and silent, or connected and without the journal that it had (*anew), as its disk was lost; -1: none. */
extern int	in_sync_lost(bool *anew);

/* It was too slow: it is no candidate for a while, which grows each time, while writers run. */
extern void in_sync_put_off(int i);
extern void in_sync_is_fast(int i);

#endif
