/*
 * ls_link.h
 *	  This backend's connection to the replicator.  (link.h would hide the system's.)
 */
#ifndef LOCKSTEP_LS_LINK_H
#define LOCKSTEP_LS_LINK_H

#include "lockstep.h"
#include "monotonic.h"

typedef enum LinkResult
{
	LINK_MESSAGE,				/* *type and *payload are set */
	LINK_NOTHING,				/* timeout, or the latch was set: look for
								 * interrupts, then wait on */
	LINK_LOST					/* closed; link_report_lost() says why */
} LinkResult;

extern bool link_is_open(void);

/* Called when the session ends, before the link is closed; may send (hooks.c). */
extern void (*link_before_exit) (void);

extern uint64 link_number(void);
extern void link_open(void);	/* connect, authenticate; ERROR 57P03 ... */
extern void link_open_until(MonoTime deadline); /* the same, in less time than
												 * lockstep.connect_timeout */
extern void link_connect(void); /* the same, unless a live connection exists */

/* The same, but waits, interruptibly, while lockstep.failover_wait allows it and the
 * replicator may soon be back, until it is and this node takes writes (turn_is_open(), which
 * the caller checks: it need not be so when the time is over). */
extern void link_connect_or_wait(void);

/* For loops of one's own until a deadline: waits for the latch or until the next attempt, after a
 * pause that grows from ms (0 at first), and returns the pause; and the attempt. */
extern long link_pause(long ms, MonoTime deadline);
extern void link_open_again(MonoTime deadline);

/* Was it lost, or refused, for a reason that may soon be over? */
extern bool link_loss_is_passing(void);
extern void link_close(void);

/* Open and alive?  Discards what arrived late; closes it if it is dead. */
extern bool link_is_alive(bool in_transaction);

/* Send without waiting: what does not fit now is kept, and goes while
 * link_drain or link_receive waits.  False when lost: then not all was sent. */
extern bool link_send_later(const void *data, size_t len);

/* Wait, interruptibly, until all is sent.  False when lost. */
extern bool link_drain(void);

/* Send at once or close: for the end of a transaction that failed. */
extern void link_send_or_close(const void *data, size_t len);

/* Next message.  Processes no interrupts.  timeout_ms < 0: for ever.  *payload
 * is valid until the next call in here. */
extern LinkResult link_receive(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event);

/* The same while the replicator owes an answer to what was sent last: LINK_LOST,
 * too, when it is silent for longer than lockstep.replicator_timeout. */
extern LinkResult link_await(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event);

/* ERROR with what the replicator said at last, or 57P03 and the cause. */
LS_NORETURN extern void link_report_lost(void);
extern const char *link_lost_message(void);

/* The same while this node is to apply something, for which the replicator owes no answer.  It may
 * return LINK_NOTHING earlier than that. */
extern LinkResult link_receive_applying(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event);

/* The peer broke the protocol: log, close. */
extern void link_protocol_violation(const char *what);

/* These raise what link_report_lost() does when the connection is lost. */
extern bool link_has_message(LinkResult result);
extern void link_send(const void *data, size_t len);	/* now; waits */
LS_NORETURN extern void link_report_violation(const char *what);

#endif							/* LOCKSTEP_LS_LINK_H */
