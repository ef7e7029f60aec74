/*
 * session_private.h
 *	  What the session*.c share.
 */
#ifndef LOCKSTEP_SESSION_PRIVATE_H
#define LOCKSTEP_SESSION_PRIVATE_H

#include "log.h"
#include "loop.h"
#include "session.h"
#include "tls_channel.h"

typedef enum SessionState
{
	SESSION_HELLO,				/* connected, has sent nothing */
	SESSION_PROOF,				/* has said who it is, and was challenged */
	SESSION_READY,				/* has proved it; in the table */
	SESSION_ENDED				/* closed; freed at the end of the loop's
								 * round */
} SessionState;

typedef enum SessionTransport
{
	SESSION_UNDECIDED,			/* the first byte it sends says which */
	SESSION_CLEAR,
	SESSION_TLS
} SessionTransport;

/* Queries are counted only: the transaction is refused when it asks. */
typedef enum Discarded
{
	DISCARDED_NOT,
	DISCARDED_UNSTORED,			/* tx_failure() */
	DISCARDED_TRANSACTION,		/* outgrew max_transaction_size */
	DISCARDED_ROLE_SIZE,		/* its role has more than max_role_size */
	DISCARDED_ROLE_MEMORY
} Discarded;

struct Session
{
	SessionState state;
	int			fd;
	Watch	   *watch;
	Deferred	flush;			/* one write per round */
	Deferred	bury;			/* free, at the end of the loop's round */
	Timer	   *patience;		/* until READY */
	Buffer		in;				/* the part of a message that has arrived */
	Buffer		out;
	SessionTransport transport;
	bool		may_be_clear;	/* no TLS is required where it comes from */
	bool		challenged;		/* see session_unauthenticated.c */
	TlsChannel *tls;			/* SESSION_TLS; `out` is encrypted */
	uint64_t	tls_context;	/* by which of the certificates it began */
	uint64_t	tls_until_us;	/* its certificate counts; 0: in the clear, or
								 * not seen yet */
	Buffer		plain;			/* not encrypted yet, for the next write */
	uint64_t	address;		/* where it comes from, without the port */
	uint64_t	since_us;		/* connected */
	char		name[96];		/* for the log: node/pid, or where it comes
								 * from */

	/* who it is, from PROOF on */
	Buffer		hello_bytes;	/* hello's slices point into it */
	LsHello		hello;
	uint8_t		nonce[LS_NONCE_SIZE];
	uint8_t		binding[TLS_BINDING_SIZE];	/* hello.channel */
	bool		proved;			/* it has the secret */
	void		(*before_refusal) (Session *s); /* unless NULL: session_fail()
												 * calls it */
	int			node;
	uint32_t	pid;
	uint64_t	boot;
	char		database[LS_MAX_NAME + 1];
	char		application[LS_MAX_NAME + 1];
	const char *role;			/* see role_names.h */

	/* READY */
	Session    *next_same_hash;
	Session    *next;			/* all that are READY; before, see
								 * session_unauthenticated.c */
	Session    *prev;
	uint64_t	last_xcount;	/* of the latest transaction begun, or, before
								 * the first, what it said is over */
	Transaction *tx;			/* open, up to its verdict; a reference */
	Transaction *unconfirmed;	/* decided, and its node has not confirmed
								 * that it has committed it; a reference */
	Transaction *owed;			/* committed at the origin; 'applied' is still
								 * to be told; a reference */
	bool		asked;			/* tx has been asked for */
	int			questions;		/* leases and queries on their own, not
								 * answered yet */
	bool		granting;		/* the backend waits for what it asked last */
	uint64_t	locks_asked;	/* messages 'L' of tx */
	Discarded	discarded;		/* of tx, and why */
	uint64_t	input_charged;	/* of in, to the role */
	uint64_t	statements;		/* of tx, as the backend counts */
};

/* ---------- in session_send.c */

/* Send an encoded message; one write per round sends all of them. */
extern void session_send(Session *s, const void *message, size_t len);

/* Tell the backend, log it once, close. */
extern void session_fail(Session *s, const char *sqlstate, const char *hint,
						 const char *fmt,...) __attribute__((format(printf, 4, 5)));
extern void session_end(Session *s);	/* close, without a word */

/* A limited number of lines of each. */
extern void session_log(const Session *s, LogLevel level, const char *fmt,...) __attribute__((format(printf, 3, 4)));

/* False: the message was malformed, as wrong says, and the session has been ended. */
extern bool session_decoded(Session *s, const char *what, const char *wrong);

extern void session_flush(Session *s);	/* write now what the socket takes */

/* What is kept of messages is the role's. */
extern void session_charge_input(Session *s, size_t len);

/* The transaction is not this session's any more. */
extern void session_let_go(Transaction **tx);

/* ---------- in session_transaction.c */

extern void session_handle(Session *s, LsMsgType type, LsSlice payload,
						   const uint8_t *message, size_t len);

/* Now and then: lets go of a transaction that its node is known to have committed. */
extern void session_look_at_progress(Session *s);

extern void session_verdict(Transaction *tx, const LsVerdict *verdict);
extern void session_granted(Transaction *tx, uint64_t seq);
extern void session_applied(Transaction *tx);

/* ---------- in session_views.c */

extern void session_handle_facts(Session *s, LsSlice payload);
extern void session_handle_conflict_report(Session *s, LsSlice payload);

/* ---------- in session_outcome.c */

extern void session_handle_outcome_question(Session *s, LsSlice payload);
extern LsPastOutcome session_past(const LsIdentity *id, uint64_t since, uint64_t *seq); /* SessionOps.past */
extern bool session_connected(const LsIdentity *id);	/* SessionOps.connected */

/* ---------- in session_lease.c */

extern void session_lease(Session *s, LsSlice payload);
extern void session_single_query(Session *s, LsSlice payload);
extern void session_database(Session *s, LsSlice payload);
extern void session_now(Session *s, uint64_t question);
extern void session_tell_outcome(Session *s, const LsOutcomeAnswer *answer);

/* ---------- in session_tls.c */

#define READ_SIZE (256 * 1024)

/*
 * What has arrived, as the messages' bytes: in place, or decrypted, up to *len of them.  Called
 * again, with n = 0, until it returns false.  It may end the session.
 */
extern bool session_tls_open(Session *s, uint8_t **bytes, size_t *n);

/* Is its certificate that of the node?  Both end a session otherwise. */
extern bool session_tls_is_node(Session *s, LsSlice node);
extern void session_tls_check_expiry(Session *s);

/* What the proofs of this connection are bound to; empty in the clear. */
extern LsSlice session_tls_binding(Session *s);

/* ---------- in session_seal.c */

/* From `plain` to `out`.  False: tls_error() says why not. */
extern bool session_seal(Session *s);

/* ---------- in session_handshake.c */

extern void handshake_init(const Config *config, const char *cluster, const Secret *secret);
extern void handshake_message(Session *s, LsMsgType type, LsSlice payload);

/* ---------- in session_unauthenticated.c */

/* HELLO.  The one that is to be closed, as its address has too many; NULL: none. */
extern Session *unauthenticated_add(Session *s);

/* *oldest: to be closed for another, if set. */
extern bool unauthenticated_have_room(Session **oldest);
extern void unauthenticated_challenged(Session *s); /* it has been answered:
													 * by a challenge, or the
													 * first part of a TLS
													 * handshake */
extern void unauthenticated_remove(Session *s); /* is going from HELLO or
												 * PROOF elsewhere */

/* ---------- in session_table.c */

extern void session_table_add(Session *s);
extern void session_table_remove(Session *s);
extern Session *session_table_find(int node, uint32_t pid);

extern Transaction *session_transaction(int node, uint32_t pid);
extern uint64_t sessions_oldest_seen(void);
extern bool sessions_busy(int node);
extern const Config *session_config;

#endif
