/*
 * request.h
 *	  Requests to the replicator that are not part of the transaction.
 */
#ifndef LOCKSTEP_REQUEST_H
#define LOCKSTEP_REQUEST_H

#include "protocol.h"

extern LsLeased request_lease(LsLease *request);	/* id is filled in here */
extern uint64 request_order_alone(LsQuery *query);	/* returns its seq */
extern void request_facts(LsFactsKind kind, LsFacts *facts);	/* in this memory
																 * context */

/*
 * Who committed seq?  False: not told in time, or not connected, which is no error.
 * The answer is in the link's buffer.
 */
extern bool request_winner(uint64 seq, long patience_ms, LsFacts *facts);

#endif							/* LOCKSTEP_REQUEST_H */
