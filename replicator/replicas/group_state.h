/*
 * group_state.h
 *	  What a member of a group of replicators has to remember: the file "group" in the journal's
 *	  directory.
 *
 * A journal with this file has been part of a group, and never starts without etcd's consent.
 */
#ifndef LOCKSTEP_GROUP_STATE_H
#define LOCKSTEP_GROUP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#define GROUP_HISTORY 64

/* A place in the journal: a segment, by the first seq it may hold, and a number of bytes in it. */
typedef struct JournalPlace
{
	uint64_t	segment;		/* 0: the journal is empty */
	uint64_t	offset;
} JournalPlace;

/* Bytes from that place on were written in that epoch. */
typedef struct EpochStart
{
	uint64_t	epoch;
	JournalPlace place;
} EpochStart;

typedef struct GroupState
{
	char		name[CONFIG_NAME_SIZE];
	uint64_t	promised;		/* no leader of a lower epoch is followed */
	uint64_t	copy_epoch;		/* the journal is a copy of that leader's; 0:
								 * it is incomplete */
	uint64_t	etcd_cluster;	/* 0: not met yet */
	int64_t		etcd_revision;
	int			n;
	EpochStart	history[GROUP_HISTORY]; /* the last ones, ascending */
} GroupState;

/* false: it can't be read, *error says why (malloc'ed).  Without a file: all zero. */
extern bool group_state_read(const char *dir, GroupState *state, char **error);

/* Durable when it returns; false: errno. */
extern bool group_state_write(const char *dir, const GroupState *state);

extern void group_state_begin_epoch(GroupState *state, uint64_t epoch, JournalPlace place);

extern int	journal_place_compare(JournalPlace a, JournalPlace b);

/*
 * Up to which place is a copy that ends at `end`, and was made in epoch `epoch`, the same as the
 * journal with this history?  false: not known, it has to be copied anew.
 */
extern bool group_state_common(const GroupState *state, uint64_t epoch, JournalPlace end, JournalPlace *common);

#endif
