/*
 * commit.h
 *	  The end of a transaction: what its files offer each other, and hooks.c.
 */
#ifndef LOCKSTEP_COMMIT_H
#define LOCKSTEP_COMMIT_H

#include "xact_state.h"

/* ---------- in commit.c */

extern void commit_before(void);	/* PRE_COMMIT: may fail */
extern void commit_done(void);	/* COMMIT */
extern void commit_failed(void);	/* ABORT */

/* ---------- in verdict.c */

/* The place of the transaction, committed by the cluster; or does not return. */
extern JournalPosition verdict_ask(void);
extern void verdict_begin_doubt(void);	/* it may be committed elsewhere;
										 * before the locks go */
LS_NORETURN extern void verdict_report_outdated(void);

/* False: it is not known to be decided at that place by the replicator that leads now. */
extern bool verdict_outlast_generation(JournalPosition position);

extern void verdict_committed(uint64 seq);
extern void verdict_abandon(void);	/* let the replicator forget a transaction
									 * that it has heard of */

/* ---------- in interrupts.c */

extern bool interrupts_wants_out(void);
extern void interrupts_absorb(void);	/* those that others wait for, and
										 * that can't fail */
extern void interrupts_arm_timeout(void);	/* statement_timeout, once more */
extern bool interrupts_disarm_timeout(void);	/* true: it came */
extern bool interrupts_timed_out(void);
extern void interrupts_forget_timeout(void);

/* ---------- in aftercommit.c */

extern void aftercommit_on_release(bool isCommit);

/* What follows commits asynchronously; what the session wishes is done behind the commit. */
extern void aftercommit_begin(void);
extern void aftercommit_restore(void);	/* synchronous_commit is what it was */
extern void aftercommit_wait_applied(uint64 xcount);
extern void aftercommit_forget(void);

/* ---------- in retry.c: after a conflict was lost */

extern void retry_note(const LsVerdict *verdict);
extern void retry_wait(void);	/* rolled back, locks released: until a retry
								 * can succeed */

/* LS001: already applied; LS004: not all of several can be claimed. */
extern void commit_claim_for_apply(uint64 first, JournalPosition position);
extern void commit_claim_ahead(JournalPosition position);	/* a repair: this node
															 * is what the others
															 * are there */

/* LS001, if the node has applied it; an error if it has another one at that seq. */
extern void commit_check_not_applied(JournalPosition position);
extern bool commit_is_claimed(void);	/* an apply session's: it is decided */
extern void commit_explain_error(ErrorData *edata); /* past the verdict? */

extern void verdict_confirm(void);
extern uint64 verdict_last_seq(void);	/* of this session, 0 = none */

#endif							/* LOCKSTEP_COMMIT_H */
