/*
 * xact.h
 *	  The current transaction as the replicator knows it: its number and its queue of queries.
 */
#ifndef LOCKSTEP_XACT_H
#define LOCKSTEP_XACT_H

#include "lockstep.h"
#include "ls_link.h"

/* ---------- its number, which announces it to this node */

/*
 * Before the first effect of a transaction is forwarded: it gets its number.  Connects
 * if there is no connection.  ERROR 57P03 if the node cannot take writes, 40001 if a
 * transaction was in doubt meanwhile.  Cheap when repeated.
 */
extern void xact_writes(void);

/* The same before the first lock of a command. */
extern void xact_announce(void);

/* Has it a number? */
extern bool xact_is_known(void);
extern bool xact_is_told(void); /* and the replicator knows of it */

/* A new number in this session, also for a query that is ordered on its own. */
extern uint64 xact_new_number(void);

/* Transactions up to this number have ended, or cannot ask by a new connection. */
extern uint64 xact_last_finished(void);

/* Send what is queued, or an empty message, so that the replicator knows the transaction. */
extern void xact_tell(void);

/* ---------- its queue */

/*
 * Append a query, which is copied and gets its xcount.  May send, and wait for the
 * socket.  ERROR 57P03 if the link is lost, 54000 if the query is too large.
 */
extern void xact_forward(LsQuery *query);

/* Queries in the queue now, sent or not. */
extern uint64 xact_nstatements(void);

/* A query may fail on other nodes only: they execute it before it is decided. */
extern void xact_may_fail_elsewhere(void);

/* A row may be refused elsewhere, or was changed without looking at that. */
extern void xact_may_be_refused(void);

/* commit_wait = certified: small, and nothing but rows that no node refuses. */
extern bool xact_is_certain(void);

/*
 * The queries so far, as 'Q' messages one after the other; the first LS_FORWARDED_KEPT
 * bytes of them (*truncated: there were more).  Valid until the next call here.
 */
#define LS_FORWARDED_KEPT (256 * 1024)
extern LsSlice xact_forwarded(bool *truncated);

/* In an apply session: where the current transaction commits. */
extern void xact_set_apply_position(JournalPosition position);

/* ---------- messages of the replicator (xact_messages.c) */

/*
 * A message other than the awaited one.  A grant raises *seq to what must be applied
 * before the lock may be used.  ERROR if it ends the transaction.
 */
extern void xact_message(LsMsgType type, LsSlice payload, uint64 *seq);

/* Wait, interruptibly, until this node has applied seq.  ERROR if it is dropped meanwhile. */
extern void xact_wait_applied(uint64 seq);

/* Text of the replicator for the client, palloc'ed, valid in the database's encoding. */
extern char *xact_text_of(LsSlice s);

LS_NORETURN extern void xact_report_error(const LsErrorFields *e);
extern void xact_connect(void); /* to a replicator that has opened this node:
								 * waits for lockstep.failover_wait, else
								 * ERROR 57P03 */
LS_NORETURN extern void xact_report_lost(void); /* the link, of one that was
												 * told and has not asked:
												 * 40001, or why the
												 * replicator refuses */

/* Has a message come?  ERROR as above: the link was lost. */
extern bool xact_has_message(LinkResult result);

/* ---------- from hooks.c */

extern void xact_init(void);

typedef enum XactPostpone
{
	XACT_POSTPONE_NOTHING,
	XACT_POSTPONE_LOSS,			/* a lost connection to the replicator is no
								 * error, but ends the transaction later */
	XACT_POSTPONE_WAIT			/* that, and the socket is waited for later:
								 * nothing fails */
} XactPostpone;

/* Until it is called again. */
extern void xact_postpone(XactPostpone what);

extern void xact_at_subxact_start(int level);
extern void xact_at_subxact_commit(int level);
extern void xact_at_subxact_abort(int level);
extern void xact_at_xact_end(void);

#endif							/* LOCKSTEP_XACT_H */
