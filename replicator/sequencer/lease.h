/*
 * lease.h
 *	  Leases of int8 values of a named thing in a database: which values of a
 *	  sequence a node may hand out without asking.  Pure: no I/O, no clock.
 *
 * Each thing has a position: the last value that was leased, or set.  A lease is a run of the values behind it (increment,
 * bounds and cycle as the asker says), and moves the position to its end.
 * No other lease has a value of it, whether it is used or not, until the
 * position is set to something else.
 *
 *		 value	called		lease of 3, increment 1		position then
 *		 1		false		1, 2, 3						3, called
 *		 3		true		4, 5, 6						6, called
 *
 * The size adapts: a node that asks again within BUSY_US gets twice as many values as
 * last time, a node that asks after IDLE_US half of them.
 *
 * Positions are set, things renamed and dropped, by decided transactions only
 * (lease_effect()), so that each has a seq.  A node that has not applied that
 * seq yet does not know what it asks for: LEASE_LATER.
 *
 * ALTER SEQUENCE without RESTART continues where the sequence is.  The node that executes it
 * knows that only if nobody else has leases; otherwise the end of the leases stays the position.
 *
 * The state of one thing is one journal record (lease_encode(), lease_decode()).
 * Replaying records and decided transactions in the journal's order gives the
 * table; replaying them twice is harmless.
 */
#ifndef LOCKSTEP_LEASE_H
#define LOCKSTEP_LEASE_H

#include "buffer.h"
#include "protocol.h"

typedef struct LeaseTable LeaseTable;

typedef enum LeaseStatus
{
	LEASE_GRANTED,
	LEASE_EXHAUSTED,			/* its limit is reached */
	LEASE_LATER					/* ask again when seq is applied */
} LeaseStatus;

typedef struct LeaseGrant
{
	int64_t		first;
	uint64_t	count;
	uint64_t	seq;			/* LEASE_LATER */
} LeaseGrant;

extern LeaseTable *lease_table_create(void);
extern void lease_table_free(LeaseTable *t);
extern size_t lease_count(const LeaseTable *t);

extern LeaseStatus lease_request(LeaseTable *t, LsSlice database, const LsLease *request,
								 LsSlice node, uint64_t now_us, LeaseGrant *grant);

/*
 * A node that has applied seq has leases up to value: no node gets those, or what comes
 * before, again.  True: that was not known.
 */
extern bool lease_reported(LeaseTable *t, LsSlice database, LsSlice name, uint64_t seq,
						   int64_t value, int64_t increment, LsSlice keys);

/*
 * What a decided transaction's query does to positions; true if anything.  Only
 * queries with LS_REASON_SEQUENCE do.  node: that executed it; empty if not known.
 */
extern bool lease_effect(LeaseTable *t, LsSlice database, uint64_t seq, LsSlice node, const LsQuery *query);

/* The same of all queries, as 'Q' messages one after the other. */
extern bool lease_effects(LeaseTable *t, LsSlice database, uint64_t seq, LsSlice node, LsSlice queries);

/*
 * True if the transaction's queries, as 'Q' messages, report values that were used of a sequence before its
 * position was set, by a transaction that their node had not applied then (seen of their key), and beyond
 * that: the position would be back where it was.  The key of that query, and the seq that has set it.
 */
extern bool lease_outdated(const LeaseTable *t, LsSlice database, LsSlice queries, LsKey *key, uint64_t *seq);

/* The node's server has been started anew: its pages may lack values that it has handed out. */
extern void lease_node_restarted(LeaseTable *t, LsSlice node);

/* Each thing of which values are leased, and the keys that came with a request. */
typedef void (*LeaseEach) (void *arg, LsSlice name, int64_t value, LsSlice keys);
extern void lease_each(const LeaseTable *t, LsSlice database, LeaseEach each, void *arg);
extern void lease_forget_database(LeaseTable *t, LsSlice database);

/* What an event of database_event.h means for the leases in that database. */
extern void lease_database_event(LeaseTable *t, LsSlice text);

/* Things that are gone are remembered until every node has applied that. */
extern void lease_forget_gone(LeaseTable *t, uint64_t applied);

/* Text of the record of one thing; empty if it is unknown or gone. */
extern void lease_encode(const LeaseTable *t, LsSlice database, LsSlice name, Buffer *text);

/* The same of all; calls record() for each. */
extern void lease_encode_all(const LeaseTable *t, void (*record) (void *arg, LsSlice text), void *arg);

/* A record that was read counts from now on.  false: malformed, nothing changed. */
extern bool lease_decode(LeaseTable *t, LsSlice text);

#endif
