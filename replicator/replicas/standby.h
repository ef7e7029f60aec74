/*
 * standby.h
 *	  A standby's side of the journal's copies: it follows the leader, and has on disk what it
 *	  acknowledges.
 */
#ifndef LOCKSTEP_STANDBY_H
#define LOCKSTEP_STANDBY_H

#include <stdatomic.h>

#include "group_key.h"
#include "group_state.h"
#include "member_channel.h"

typedef enum StandbyEnd
{
	STANDBY_ABSENT,				/* nobody listens where the leader should be */
	STANDBY_UNREACHED,			/* no leader is there */
	STANDBY_LOST,				/* the connection has ended */
	STANDBY_SILENT,				/* it is there, and nothing came by it */
	STANDBY_REFUSED,			/* by the leader, or we refuse it */
	STANDBY_HANDOVER,			/* the leader has ended, and this one has
								 * everything */
	STANDBY_FAILED,				/* this one's disk */
	STANDBY_STOPPED
} StandbyEnd;

/* For people; one thread writes. */
typedef struct StandbyView
{
	_Atomic bool connected;
	_Atomic uint64_t segment;
	_Atomic uint64_t offset;
	_Atomic int64_t heard_ms;	/* the leader, last, by CLOCK_MONOTONIC; 0:
								 * never */
} StandbyView;

extern StandbyView standby_view;

/*
 * What of a journal is in the directory, after a crash at any point: cuts off what was not
 * complete.  cluster "": there is none.  false: it can't be used, *error says why (static), and
 * journal_open_found_damage() whether that will stay so.
 */
extern bool standby_look(const Config *config, JournalPlace *end, char cluster[33], const char **error);

/* The leader is followed (both NULL), or it says that the key is that, or that of the nodes. */
typedef void (*StandbyNews) (const GroupKey *key, const char *nodes);

/*
 * Follow the leader that the key names, until that ends.  end: of the journal here; it and state
 * are kept up to date.  *stop ends it; why: of the end, in words.
 */
extern StandbyEnd standby_follow(const Config *config, const MemberKeys *keys, GroupState *state, const GroupKey *key,
								 JournalPlace *end, const atomic_bool * stop, StandbyNews news, char why[300]);

#endif
