/*
 * apply_private.h
 *	  What apply.c (a transaction on a connection), apply_send.c, apply_result.c,
 *	  apply_cancel.c and apply_connection.c share.
 */
#ifndef LOCKSTEP_APPLY_PRIVATE_H
#define LOCKSTEP_APPLY_PRIVATE_H

#include "apply.h"
#include "prepared.h"

typedef enum ExpectKind
{
	EXPECT_OTHER,				/* only its success counts */
	EXPECT_PREPARE,
	EXPECT_QUERY,
	EXPECT_ROWS,				/* several queries in one call, which looks at
								 * their numbers of rows */
	EXPECT_SYNC
} ExpectKind;

typedef struct Expected
{
	ExpectKind	kind;
	bool		was_prepared;	/* by an earlier transaction */
	bool		copy;			/* the number of rows is the value returned */
	int64_t		rows;
	size_t		queries;		/* of the transaction */
	size_t		bytes;
	Statement  *statement;		/* of EXPECT_PREPARE */
} Expected;

struct ApplyConn
{
	Pool	   *pool;
	PgClient   *client;			/* while connecting */
	PGconn	   *conn;
	Watch	   *watch;
	Deferred	flush;
	Deferred	bury;
	bool		closed;
	ApplyConn  *next_idle;
	ApplyTask  *task;
	Holder		holder;			/* of the queue's connection */
	int			executing_ms;	/* the task has been seen executing so long */
	int			cancels;		/* under way */
	Timer	   *insist;			/* the next cancel request, while the task is
								 * being undone */
	int			insist_pause_ms;	/* the last pause */
	int			insisted_ms;	/* all of them */
	uint64_t	progress_us;
	ApplyStill	still;
	ApplyBlocked blocked;
	bool		broken;			/* libpq would not send */
	char	   *read_error;		/* of the queries on disk */
	Statements	statements;
	bool		has_chain;		/* the database stores the chain with a seq */
	bool		has_work;		/* it has lockstep.apply_transaction(), ... */
	bool		has_pieces;		/* it has lockstep.apply_piece() */
	bool		prepare_anew;	/* forget all statements before the next task */
	uint64_t	ddl_seen;		/* sequencer_last_ddl(), ... */
	uint64_t	ddl_tasks_seen; /* ... and the node's ddl_tasks_gone, when the
								 * statements were begun */
	bool		unprepared;		/* the transaction that runs doesn't use them */

	Expected   *expected;		/* a ring */
	size_t		expected_cap;
	size_t		expected_head;
	size_t		expected_count;
	size_t		window_bytes;	/* of queries without result */

	/* the transaction that runs */
	TxCursor	cursor;			/* statements to send */
	LsSlice		held;			/* read, and has to wait until the transaction
								 * is reserved; data NULL: none */
	uint64_t	waited_for;		/* it began, or went on, when the node had
								 * applied it */
	uint64_t	wait_first;		/* the same, and still to be told; 0: no */
	bool		settings_on;
	Buffer		settings;		/* if they are, which */
	Buffer		pieces;			/* of parameters, for a database that can't
								 * put them together */
	bool		claim_due;		/* it is decided, and what is sent first
								 * claims its seqs */
	bool		seq_sent;		/* that has been sent */
	bool		counts;			/* numbers of rows are compared here */
	bool		commit_sent;	/* and the Sync */
	bool		sync_sent;
	bool		failed;			/* the first error: */
	bool		retry;
	char		sqlstate[6];
	char	   *message;
	char	   *detail;
	char	   *hint;
	size_t		failed_at;		/* statement, or APPLY_NO_STATEMENT */
};

/* ---------- in apply.c */

extern const ApplyOps *to_tasks;

extern void apply_tell_lost(ApplyConn *c);

/* ---------- in apply_send.c */

extern void send_verdict(ApplyConn *c); /* to the backend that may wait for it */
extern bool send_claim(ApplyConn *c);	/* by itself, and the wait, if it is
										 * still due */
extern void wait_there(ApplyConn *c, uint64_t seq); /* before what is sent
													 * next, until the node
													 * has applied it */
extern bool send_wait(ApplyConn *c);	/* by itself, if it is still to be
										 * told */
extern void send_statement(ApplyConn *c, const LsQuery *q);
extern void send_piece(ApplyConn *c, const LsQuery *q);

/* Rows, LS_WORK_FIXED_SIZE bytes behind the start, with the wait and the claim, without settings. */
extern void send_work(ApplyConn *c, Buffer *work, size_t queries);
extern void send_end(void);		/* no more of them for now */
extern void send_flush_request(ApplyConn *c);
extern void send_plain(ApplyConn *c, const char *command);

extern void send_commit(ApplyConn *c);	/* what was executed is decided now */
extern void send_sync(ApplyConn *c);	/* once */
extern void send_rollback(ApplyConn *c);	/* with the Sync */

/* ---------- in apply_rows.c */

extern bool rows_take(const ApplyConn *c, const LsQuery *q);	/* may it be one of
																 * them? */
extern void rows_add(ApplyConn *c, const LsQuery *q);	/* sends those that are
														 * enough */
extern bool rows_send(ApplyConn *c);	/* the rest; false: there is none */

/* ---------- in apply_result.c */

extern void apply_read_results(ApplyConn *c);
extern void apply_forget_error(ApplyConn *c);

/* ---------- in apply_cancel.c */

extern void apply_stop_insisting(ApplyConn *c); /* it has obeyed, or is closed */

#endif
