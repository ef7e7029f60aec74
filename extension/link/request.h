/*
 * request.h
 *	  Requests to the replicator that are not part of the transaction.
 */
#ifndef LOCKSTEP_REQUEST_H
#define LOCKSTEP_REQUEST_H

#include "monotonic.h"
#include "outcome.h"

extern LsLeased request_lease(LsLease *request);	/* id is filled in here */
extern uint64 request_order_alone(LsQuery *query);	/* returns its seq */
extern void request_database(LsDatabase *request);	/* id is filled in here */
extern void request_facts(LsFactsKind kind, LsFacts *facts);	/* in this memory
																 * context */

/*
 * What became of a transaction?  The link must be open.  gave_up: its backend has rolled
 * it back.  *seq: its seq, or the last that was decided.
 */
extern LsPastOutcome request_outcome(const Token *token, bool gave_up, uint64 *seq);

/* The same, for callers that hold interrupts: false at the deadline, or when one is pending. */
extern bool request_past(const Token *token, MonoTime deadline, LsPastOutcome *outcome, uint64 *seq);

/*
 * Who committed seq?  False: not told in time, or not connected, which is no error.
 * The answer is in the link's buffer.
 */
extern bool request_winner(uint64 seq, long patience_ms, LsFacts *facts);

/*
 * This transaction changes rows or tables of this node only (lockstep.replicate = off), so it may
 * refuse the rows of others from now on.  If the replicator can't be told, the node is not online.
 */
extern void request_note_local_change(void);

#endif							/* LOCKSTEP_REQUEST_H */
