/*
 * apply.c
 *	  One apply connection: a transaction's queries in a libpq pipeline, their
 *	  results, its COMMIT.
 *
 *	  CONNECTING --> idle --run--> running --all results--> executed
 *					   ^			  |						 |
 *					   |			  error, undo			 commit, undo
 *					   |			  v						 v
 *					   +--- Sync ---- ending <---------------+
 *
 * On the wire, one implicit transaction up to the Sync:
 *
 *	  [apply_wait] [apply_begin] q1 ... qn Flush	-> results	-> work_executed
 *	  apply_commit Sync				-> commits	-> work_committed
 *	  or: apply_rollback Sync		-> raises	-> work_undone
 *
 * apply_begin is for transactions that are decided already: it claims their
 * seq, or says (LS001) that the node has applied it, which is as good.  Several
 * that are executed as one (tx_together) claim all of theirs.
 *
 * The COMMIT never goes out before all results are in, even of a transaction
 * that is decided: a query that changes another number of rows than at its
 * origin must not be committed here.
 *
 * `expected` is the list of results to come, in order; libpq's own queue
 * mirrors it.  Large transactions go in windows, so that neither side has to
 * buffer all of one.
 *
 * A cancel request (sent by the control connection) must have been delivered
 * before the connection gets other work: until then it is not given back.
 *
 * A connection that is lost while its node is in - somebody ended that one
 * session there - is replaced by another, and what it was doing is done again:
 * if its COMMIT was under way and arrived, apply_begin says so.  The node goes
 * out when the control connection says that it does not answer, when no other
 * connection can be opened, or when they are lost again and again.
 */
#include "apply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "log.h"
#include "sequencer.h"
#include "spill.h"
#include "statements.h"

#define WINDOW_QUERIES 512
#define WINDOW_BYTES (1024 * 1024)	/* libpq's buffer is not much larger */
#define TEXTS_KEPT (1024 * 1024)	/* scratch beyond is given back */
#define MAX_TIMES_LOST 3		/* a work that loses so many connections ends
								 * them */

typedef enum ExpectKind
{
	EXPECT_OTHER,				/* only its success counts */
	EXPECT_PREPARE,
	EXPECT_QUERY,
	EXPECT_SYNC
} ExpectKind;

typedef struct Expected
{
	ExpectKind	kind;
	bool		was_prepared;	/* by an earlier transaction */
	bool		copy;			/* the number of rows is the value returned */
	int64_t		rows;
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
	Work	   *work;
	int			cancels;		/* under way */
	uint64_t	progress_us;
	ApplyStill	still;
	bool		broken;			/* libpq would not send */
	char	   *read_error;		/* of the queries on disk */
	Statements	statements;
	bool		has_chain;		/* the database stores the chain with a seq */
	bool		prepare_anew;	/* forget all statements before the next work */
	uint64_t	ddl_seen;		/* sequencer_last_ddl(), ... */
	uint64_t	ddl_works_seen; /* ... and the node's ddl_works_gone, when the
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
	bool		settings_on;
	Buffer		settings;		/* if they are, which */
	bool		seq_sent;		/* apply_begin */
	bool		commit_sent;	/* and the Sync */
	bool		sync_sent;
	bool		failed;			/* the first error: */
	bool		retry;
	char		sqlstate[6];
	char	   *message;
	char	   *detail;
	char	   *hint;
};

/* Scratch for one statement's texts and parameters. */
static Buffer texts;
static const char **values;
static size_t values_cap;

int
apply_backend_pid(const ApplyConn *c)
{
	return c->conn != NULL ? PQbackendPID(c->conn) : 0;
}

Work *
apply_work(const ApplyConn *c)
{
	return c->work;
}

uint64_t
apply_progress_us(const ApplyConn *c)
{
	return c->progress_us;
}

ApplyStill *
apply_still(ApplyConn *c)
{
	return &c->still;
}

size_t
apply_current_statement(const ApplyConn *c)
{
	size_t		at = c->cursor.next - (c->held.data != NULL ? 1 : 0);

	for (size_t i = 0; i < c->expected_count; i++)
	{
		if (c->expected[(c->expected_head + i) & (c->expected_cap - 1)].kind == EXPECT_QUERY)
			at--;
	}
	return at;
}

size_t
apply_position(const ApplyConn *c)
{
	return c->cursor.next;
}

bool
apply_is_idle(const ApplyConn *c)
{
	return c->expected_count == 0;
}

ApplyConn *
apply_next_idle(const ApplyConn *c)
{
	return c->next_idle;
}

void
apply_set_next_idle(ApplyConn *c, ApplyConn *next)
{
	c->next_idle = next;
}

/* ---------- what is to come */

static void
expect(ApplyConn *c, Expected e)
{
	if (c->expected_count == c->expected_cap)
	{
		size_t		cap = c->expected_cap > 0 ? c->expected_cap * 2 : 16;
		Expected   *bigger = xmalloc(cap * sizeof(Expected));

		for (size_t i = 0; i < c->expected_count; i++)
			bigger[i] = c->expected[(c->expected_head + i) & (c->expected_cap - 1)];
		free(c->expected);
		c->expected = bigger;
		c->expected_cap = cap;
		c->expected_head = 0;
	}
	c->expected[(c->expected_head + c->expected_count++) & (c->expected_cap - 1)] = e;
	c->window_bytes += e.bytes;
}

/* Nothing but a kind, and the statement if it is being prepared. */
static Expected
of_kind(ExpectKind kind, Statement *st)
{
	Expected	e;

	memset(&e, 0, sizeof(e));
	e.kind = kind;
	e.statement = st;
	return e;
}

static Expected
expected_pop(ApplyConn *c)
{
	Expected	e = c->expected[c->expected_head];

	c->expected_head = (c->expected_head + 1) & (c->expected_cap - 1);
	c->expected_count--;
	c->window_bytes -= e.bytes;
	return e;
}

/* ---------- sending */

static void
lost(ApplyConn *c)
{
	Pool	   *p = c->pool;
	Node	   *n = p->node;
	Work	   *w = c->work;
	char		message[400];

	snprintf(message, sizeof(message), "lost a connection to database \"%s\": %s", p->database,
			 pgclient_message(c->conn != NULL ? PQerrorMessage(c->conn) : "out of memory"));
	if ((n->state != NODE_CATCHUP && n->state != NODE_ONLINE) || !pool_may_replace(p) ||
		(w != NULL && ++w->times_lost >= MAX_TIMES_LOST))
	{
		node_out(n, "%s", message);
		return;
	}
	log_message(LOG_WARNING, n->config->name, "%s; opening another one", message);
	pool_replace(p, c);
	if (w != NULL)
		work_lost(w);
	node_pump(n);
}

/*
 * Its queries can't be read from the replicator's disk.  One that is not decided
 * is rolled back; for the others this node has to wait until they can.
 */
static void
cannot_read(ApplyConn *c)
{
	Transaction *tx = c->work->tx;
	char	   *error = c->read_error;

	c->read_error = NULL;
	if (c->work->early)
		work_undo(c->work, false);	/* it will be found out again, or not */
	else if (tx->state == TX_RESERVED)
		sequencer_refuse(tx, "58030", error, NULL);
	else
		node_out(c->pool->node, "could not apply seq %" PRIu64 ": %s", tx->seq, error);
	free(error);
}

static void
on_flush(void *arg)
{
	ApplyConn  *c = arg;
	int			rc;

	if (c->read_error != NULL)
		cannot_read(c);
	if (c->closed)
		return;
	rc = c->broken ? -1 : PQflush(c->conn);

	if (rc < 0)
		lost(c);
	else
		loop_change(c->watch, rc == 1 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Whether libpq took a command.  It goes out, or the connection is given up, at
 * the end of the round. */
static void
sent(ApplyConn *c, int ok)
{
	if (!ok)
		c->broken = true;
	loop_defer(&c->flush);
}

static void
send_sync(ApplyConn *c)
{
	if (c->sync_sent)
		return;
	c->sync_sent = true;
	sent(c, PQpipelineSync(c->conn));
	expect(c, of_kind(EXPECT_SYNC, NULL));
}

/* A NUL-terminated copy in texts; its offset, as texts may move. */
static size_t
keep_text(LsSlice text)
{
	size_t		at = texts.len;

	buffer_append(&texts, text.data, text.len);
	buffer_append(&texts, "", 1);
	return at;
}

/*
 * Send one command with parameters, prepared if the cache says so.  values
 * point into texts or elsewhere; text_at is the text's place there.
 */
static void
send_command(ApplyConn *c, LsSlice text, LsSlice settings, bool prepare, int nparams, Expected e)
{
	Statement  *st = prepare ? statements_find(&c->statements, text, settings) : NULL;
	size_t		text_at;

	if (st == NULL)
	{
		const char *command;

		text_at = keep_text(text);
		command = (const char *) texts.data + text_at;
		sent(c, PQsendQueryParams(c->conn, command, nparams, NULL, values, NULL, NULL, 0));
		expect(c, e);
		return;
	}
	if (st->state == STATEMENT_NEW)
	{
		char	   *command = xstrndup(text.data, text.len);

		sent(c, PQsendPrepare(c->conn, st->name, command, 0, NULL));
		free(command);
		expect(c, of_kind(EXPECT_PREPARE, st));
		st->state = STATEMENT_SENT;
	}
	else
		e.was_prepared = st->state == STATEMENT_READY;
	sent(c, PQsendQueryPrepared(c->conn, st->name, nparams, values, NULL, NULL, 0));
	expect(c, e);
}

static void
need_values(size_t n)
{
	if (n <= values_cap)
		return;
	values_cap = n * 2;
	values = xrealloc(values, values_cap * sizeof(char *));
}

static const LsSlice nothing = {NULL, 0};

/* SELECT lockstep.function($1), or ($1, $2). */
static void
send_call(ApplyConn *c, const char *command, int n, const char *first, const char *second)
{
	need_values(2);
	values[0] = first;
	values[1] = second;
	texts.len = 0;
	send_command(c, ls_slice_of(command), nothing, true, n, of_kind(EXPECT_OTHER, NULL));
}

/* The place in the journal; SQL has the chain as an int8. */
static void
send_place(ApplyConn *c, const char *with_chain, const char *without, const Transaction *tx)
{
	bool		both = c->has_chain && tx->chain != 0;
	char		seq[24];
	char		chain[24];

	snprintf(seq, sizeof(seq), "%" PRIu64, tx->seq);
	snprintf(chain, sizeof(chain), "%" PRId64, (int64_t) tx->chain);
	send_call(c, both ? with_chain : without, both ? 2 : 1, seq, chain);
}

/* Claim the seqs of what is decided already. */
static void
send_begin(ApplyConn *c, const Transaction *tx)
{
	char		first[24];
	char		last[24];
	char		chain[24];

	c->seq_sent = true;
	if (tx->nmembers == 0)
	{
		send_place(c, "SELECT lockstep.apply_begin($1, $2)", "SELECT lockstep.apply_begin($1)", tx);
		return;
	}
	snprintf(first, sizeof(first), "%" PRIu64, tx_first_seq(tx));
	snprintf(last, sizeof(last), "%" PRIu64, tx->seq);
	snprintf(chain, sizeof(chain), "%" PRId64, (int64_t) tx->chain);
	need_values(3);
	values[0] = first;
	values[1] = last;
	values[2] = chain;
	texts.len = 0;
	send_command(c, ls_slice_of("SELECT lockstep.apply_begin($1, $2, $3)"), nothing, true, 3, of_kind(EXPECT_OTHER, NULL));
}

static void
send_settings(ApplyConn *c, LsSlice settings)
{
	static const char command[] = "SELECT lockstep.apply_settings($1)";
	Buffer		array = {0};

	if (settings.len == 0)
	{
		if (c->settings_on)
			send_call(c, command, 1, NULL, NULL);
		c->settings_on = false;
		return;
	}
	if (c->settings_on && c->settings.len == settings.len &&
		memcmp(c->settings.data, settings.data, settings.len) == 0)
		return;
	c->settings.len = 0;
	buffer_append(&c->settings, settings.data, settings.len);
	apply_settings_array(&array, settings);
	send_call(c, command, 1, (const char *) array.data, NULL);
	buffer_free(&array);
	c->settings_on = true;
}

/* Parameters of q as C strings, from values[first] on. */
static void
keep_params(const LsQuery *q, size_t first)
{
	LsSlice		rest = q->params;
	LsSlice		param;
	size_t		n = first;
	size_t		need = 0;

	need_values(first + q->nparams + 1);
	while (ls_next_param(&rest, &param))
		need += param.len + 1;
	buffer_reserve(&texts, need);	/* so that it does not move below */
	rest = q->params;
	while (ls_next_param(&rest, &param))
		values[n++] = param.data == NULL ? NULL : (const char *) texts.data + keep_text(param);
}

static void
send_copy(ApplyConn *c, const LsQuery *q, Expected e)
{
	size_t		text_at;

	buffer_reserve(&texts, q->text.len + q->params.len + 64);	/* the command's text,
																 * too */
	text_at = keep_text(q->text);
	keep_params(q, 1);
	values[0] = (const char *) texts.data + text_at;
	e.copy = true;
	send_command(c, ls_slice_of("SELECT lockstep.apply_copy($1, $2)"), nothing, true, 2, e);
}

static void
send_statement(ApplyConn *c, const LsQuery *q)
{
	Expected	e = {.kind = EXPECT_QUERY,.rows = q->rows,.bytes = q->text.len + q->params.len};

	texts.len = 0;
	send_settings(c, q->settings);
	if (q->form == LS_FORM_COPY)
	{
		send_copy(c, q, e);
		return;
	}
	buffer_reserve(&texts, q->text.len + q->params.len + 2);
	keep_params(q, 0);
	send_command(c, q->text, q->settings, q->nparams > 0 && !q->ddl && !c->unprepared, (int) q->nparams, e);
}

static void
wait_there(ApplyConn *c, uint64_t seq)
{
	char		text[24];

	if (seq <= c->waited_for)
		return;
	c->waited_for = seq;
	snprintf(text, sizeof(text), "%" PRIu64, seq);
	send_call(c, "SELECT lockstep.apply_wait($1)", 1, text, NULL);
	sent(c, PQsendFlushRequest(c->conn));
}

/* How many statements of its transaction may be sent by now. */
static size_t
sendable(const ApplyConn *c)
{
	const Work *w = c->work;

	if (w->empty)
		return 0;
	if (!w->early)
		return w->tx->nstatements;
	if (c->held.data != NULL || sequencer_last_ddl() != w->last_ddl)
		return 0;
	return w->tx->spill->nstatements;
}

/* An early one: is it a row's change, which nothing can make mean anything else? */
static bool
may_be_early(const LsQuery *query)
{
	return (query->form == LS_FORM_ROW || query->form == LS_FORM_COPY) &&
		query->settings.len == 0 && !query->ddl;
}

static bool
next_payload(ApplyConn *c, LsSlice *payload, const char **error)
{
	*payload = c->held;
	c->held = nothing;
	return payload->data != NULL || tx_next(&c->cursor, c->work->tx, payload, error);
}

/* All that there is room for. */
static void
send_more(ApplyConn *c)
{
	size_t		n = sendable(c);
	bool		any = false;

	if (c->work->early && c->cursor.next < n && sequencer_last_decided() > c->pool->node->applied)
		wait_there(c, sequencer_last_decided());	/* see early.c */
	while ((c->cursor.next < n || c->held.data != NULL) && n > 0 &&
		   !c->failed && !c->sync_sent && c->read_error == NULL &&
		   c->expected_count < WINDOW_QUERIES && c->window_bytes < WINDOW_BYTES)
	{
		LsSlice		payload;
		LsQuery		query;
		const char *error;

		if (!next_payload(c, &payload, &error))
		{
			/* told at the end of the round, as somebody may walk the works */
			c->read_error = xstrdup(error);
			loop_defer(&c->flush);
			return;
		}
		/* what came in was checked when it came in */
		if (ls_get_query(payload, &query) != NULL)
			abort();
		if (query.form == LS_FORM_KEYS)
			continue;
		if (c->work->early && !may_be_early(&query))
		{
			c->held = payload;	/* in the cursor's chunk, which stays */
			break;
		}
		send_statement(c, &query);
		any = true;
	}
	if (any)
		sent(c, PQsendFlushRequest(c->conn));
	if (texts.cap > TEXTS_KEPT)
		buffer_free(&texts);
}

static bool
all_is_executed(const ApplyConn *c)
{
	return c->expected_count == 0 && c->held.data == NULL && !c->work->early &&
		(c->work->empty || c->cursor.next == c->work->tx->nstatements);
}

void
apply_go_on(ApplyConn *c)
{
	if (c->sync_sent || c->failed)
		return;					/* work_failed() will come */
	wait_there(c, c->work->wait_for);
	send_more(c);
	if (c->work->state == WORK_RUNNING && !c->failed && all_is_executed(c))
		work_executed(c->work);
}

/*
 * The types of a prepared statement's parameters are those of the columns when
 * it was prepared, and a name in it may mean another object since.  So what was
 * prepared before DDL is forgotten; and while it can't be told which side of a
 * DDL a transaction is on (one is decided and not applied here, as far as is
 * known), or it has DDL in it, it neither uses nor makes any.
 */
static void
mind_ddl(ApplyConn *c, const Work *w)
{
	const Node *n = c->pool->node;
	uint64_t	last = sequencer_last_ddl();

	c->unprepared = tx_has_ddl(w->tx) || work_decided_ddl(n) || (n->state == NODE_ONLINE && last > n->applied);
	if (c->unprepared || (last == c->ddl_seen && n->ddl_works_gone == c->ddl_works_seen))
		return;
	c->prepare_anew |= c->statements.n > 0;
	c->ddl_seen = last;
	c->ddl_works_seen = n->ddl_works_gone;
}

void
apply_run(ApplyConn *c, Work *w)
{
	assert(c->work == NULL && c->expected_count == 0 && !c->closed);
	c->work = w;
	w->connection = c;
	tx_cursor_start(&c->cursor);
	c->settings_on = c->seq_sent = c->commit_sent = c->sync_sent = c->failed = c->retry = false;
	c->held = nothing;
	c->waited_for = 0;
	c->progress_us = loop_now_us();
	mind_ddl(c, w);
	if (c->prepare_anew || statements_full(&c->statements))
	{
		c->prepare_anew = false;
		statements_clear(&c->statements);
		sent(c, PQsendQueryParams(c->conn, "DEALLOCATE ALL", 0, NULL, NULL, NULL, NULL, 0));
		expect(c, of_kind(EXPECT_OTHER, NULL));
	}
	wait_there(c, w->wait_for);
	if (w->tx->seq != 0)
	{
		send_begin(c, w->tx);
		sent(c, PQsendFlushRequest(c->conn));
	}
	send_more(c);
	if (all_is_executed(c))
		work_executed(w);
}

void
apply_commit(ApplyConn *c)
{
	assert(c->work->tx->seq != 0 && !c->commit_sent && !c->sync_sent);
	c->commit_sent = true;
	if (!c->seq_sent)
		send_place(c, "SELECT lockstep.apply_commit($1, $2)", "SELECT lockstep.apply_commit($1)", c->work->tx);
	send_sync(c);
}

/* The connection is looked up: it may have been replaced meanwhile. */
static void
on_cancelled(void *arg, const PGresult *result)
{
	Node	   *n = arg;
	ApplyConn  *c;

	if (result == NULL)
		return;					/* the node goes out */
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		node_out(n, "could not cancel a query: %s", pgclient_message(PQresultErrorMessage(result)));
		return;
	}
	c = pools_find_connection(n, atoi(PQgetvalue(result, 0, 0)));
	if (c == NULL || c->cancels == 0)
		return;
	c->cancels--;
	if (c->work == NULL && c->cancels == 0)
		pool_give_back(c->pool, c);
}

void
apply_cancel(ApplyConn *c)
{
	char		pid[16];
	const char *params[] = {pid};

	if (c->cancels > 0)
		return;
	snprintf(pid, sizeof(pid), "%d", apply_backend_pid(c));
	c->cancels++;
	pgclient_query(c->pool->node->control, "SELECT $1::int, pg_cancel_backend($1::int)", 1, params,
				   on_cancelled, c->pool->node);
}

/* Raise an error there, so that the transaction is rolled back at the Sync. */
static void
send_rollback(ApplyConn *c)
{
	if (c->sync_sent)
		return;
	sent(c, PQsendQueryParams(c->conn, "SELECT lockstep.apply_rollback()", 0, NULL, NULL, NULL, NULL, 0));
	expect(c, of_kind(EXPECT_OTHER, NULL));
	send_sync(c);
}

void
apply_undo(ApplyConn *c)
{
	bool		running = c->expected_count > 0;

	assert(!c->commit_sent);
	send_rollback(c);
	if (running)
		apply_cancel(c);
}

/* ---------- results */

static char *
copy_field(const char *text)
{
	return text != NULL ? xstrdup(text) : NULL;
}

/* The first error of a transaction is the one that counts. */
static void
note_error(ApplyConn *c, const char *sqlstate, const char *message, const char *detail, const char *hint)
{
	if (c->failed)
		return;
	c->failed = true;
	snprintf(c->sqlstate, sizeof(c->sqlstate), "%s", sqlstate != NULL ? sqlstate : "08006");
	c->message = xstrdup(message != NULL ? message : "unknown error");
	c->detail = copy_field(detail);
	c->hint = copy_field(hint);
}

static void
forget_error(ApplyConn *c)
{
	free(c->message);
	free(c->detail);
	free(c->hint);
	c->message = c->detail = c->hint = NULL;
	c->failed = false;
}

/* The Sync has been answered: the transaction is over on this connection. */
static void
conclude(ApplyConn *c)
{
	Work	   *w = c->work;
	bool		undone = w->state == WORK_UNDOING;
	bool		failed = c->failed;
	char		sqlstate[6];
	char	   *message = c->message;
	char	   *detail = c->detail;
	char	   *hint = c->hint;
	ApplyError	error = {sqlstate, message, detail, hint, c->retry};

	memcpy(sqlstate, c->sqlstate, sizeof(sqlstate));
	if (undone && !failed)
	{
		node_out(c->pool->node, "a transaction that was to be rolled back was committed");
		return;
	}

	/* what is called below may close the connection */
	c->message = c->detail = c->hint = NULL;
	c->failed = c->sync_sent = false;
	free(c->read_error);
	c->read_error = NULL;
	tx_cursor_free(&c->cursor);
	c->work = NULL;
	w->connection = NULL;
	if (undone)
		work_undone(w);
	else if (failed ? strcmp(sqlstate, "LS001") == 0 : c->commit_sent)
		work_committed(w);
	else
		work_failed(w, &error);

	/* not before: a pool that is closing goes with its last work */
	if (!c->closed && c->cancels == 0)
		pool_give_back(c->pool, c);
	free(message);
	free(detail);
	free(hint);
}

static void
handle_error(ApplyConn *c, const PGresult *r)
{
	const Expected *head = &c->expected[c->expected_head];
	const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	bool		is_plan = sqlstate != NULL && (strcmp(sqlstate, "0A000") == 0 || strcmp(sqlstate, "26000") == 0);

	if (!c->failed && is_plan && head->kind == EXPECT_QUERY && head->was_prepared)
	{
		/* its plan returns other columns now: prepare anew, all of them */
		c->retry = c->prepare_anew = true;
	}
	note_error(c, sqlstate, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY),
			   PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL), PQresultErrorField(r, PG_DIAG_MESSAGE_HINT));
}

static void
check_rows(ApplyConn *c, const Expected *e, const PGresult *r)
{
	const char *count = e->copy ? PQgetvalue(r, 0, 0) : PQcmdTuples((PGresult *) r);
	int64_t		rows = count[0] != '\0' ? strtoll(count, NULL, 10) : 0;
	char	   *message;

	if (e->rows < 0 || rows == e->rows || c->failed)
		return;
	message = xasprintf("a query changed %" PRId64 " rows on node \"%s\", %" PRId64 " at its origin",
						rows, c->pool->node->config->name, e->rows);
	note_error(c, "LS003", message, "The nodes differ, or the query depends on something that is not replicated.", NULL);
	free(message);
	send_rollback(c);
}

static void
handle_result(ApplyConn *c, const PGresult *r)
{
	ExecStatusType status = PQresultStatus(r);
	Expected	e;

	if (status == PGRES_PIPELINE_SYNC)
	{
		do
			e = expected_pop(c);
		while (e.kind != EXPECT_SYNC);
		conclude(c);
		return;
	}
	if (status == PGRES_FATAL_ERROR)
		handle_error(c, r);
	if (c->expected[c->expected_head].kind == EXPECT_SYNC)
		return;					/* an error at COMMIT itself: the Sync's
								 * answer follows */
	e = expected_pop(c);
	if (status == PGRES_FATAL_ERROR || status == PGRES_PIPELINE_ABORTED)
	{
		if (e.kind == EXPECT_PREPARE)
			statements_failed(&c->statements, e.statement);
		send_sync(c);
		return;
	}
	if (e.kind == EXPECT_PREPARE)
		e.statement->state = STATEMENT_READY;
	else if (e.kind == EXPECT_QUERY)
		check_rows(c, &e, r);
}

static void
read_results(ApplyConn *c)
{
	bool		ok = PQconsumeInput(c->conn) != 0;
	int			nulls = 0;		/* in a row; several: nothing comes any more */

	c->progress_us = loop_now_us();
	while (!c->closed && c->expected_count > 0 && nulls < 3 && !PQisBusy(c->conn))
	{
		PGresult   *r = PQgetResult(c->conn);

		nulls = r == NULL ? nulls + 1 : 0;
		if (r == NULL)
			continue;			/* the end of one command's results */
		if (PQstatus(c->conn) == CONNECTION_BAD)
			ok = false;
		else
			handle_result(c, r);
		PQclear(r);
		if (!ok)
			break;
	}
	if (c->closed)
		return;
	if (!ok || PQstatus(c->conn) == CONNECTION_BAD)
	{
		lost(c);
		return;
	}
	if (c->work != NULL)
		apply_go_on(c);
}

static void
on_socket(void *arg, uint32_t events)
{
	ApplyConn  *c = arg;

	if (events & EPOLLOUT)
		on_flush(c);
	if (!c->closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		read_results(c);
}

/* ---------- opening and closing */

static void
on_bury(void *arg)
{
	free(arg);
}

void
apply_close(ApplyConn *c)
{
	if (c->closed)
		return;
	c->closed = true;
	pgclient_close(c->client);
	loop_undefer(&c->flush);
	loop_unwatch(c->watch);
	if (c->conn != NULL)
		PQfinish(c->conn);
	c->conn = NULL;
	c->work = NULL;
	forget_error(c);
	statements_clear(&c->statements);
	buffer_free(&c->settings);
	tx_cursor_free(&c->cursor);
	free(c->read_error);
	c->read_error = NULL;
	free(c->expected);
	c->expected = NULL;
	c->expected_count = c->expected_cap = 0;
	loop_defer(&c->bury);
}

static void
ignore_notice(void *arg, const char *message)
{
	log_message(LOG_DEBUG, "apply", "%s", pgclient_message(message));
}

static void
on_started(void *arg, const PGresult *result)
{
	ApplyConn  *c = arg;
	Node	   *n = c->pool->node;

	if (result == NULL || PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		node_out(n, "could not begin to apply in database \"%s\": %s", c->pool->database,
				 result != NULL ? pgclient_message(PQresultErrorMessage(result)) : "connection lost");
		return;
	}
	c->has_chain = PQgetvalue(result, 0, 1)[0] == 't';
	c->conn = pgclient_release(c->client);
	c->client = NULL;
	if (PQenterPipelineMode(c->conn) == 0)
	{
		lost(c);
		return;
	}
	PQsetNoticeProcessor(c->conn, ignore_notice, NULL);
	c->watch = loop_watch(PQsocket(c->conn), EPOLLIN, on_socket, c);
	c->pool->lane.capacity++;
	c->pool->lane.taken++;
	pool_give_back(c->pool, c);
	attach_pool_ready(n);
}

static void
on_connected(void *arg, const char *error)
{
	ApplyConn  *c = arg;

	if (error != NULL)
		node_out(c->pool->node, "could not open an apply connection to database \"%s\": %s",
				 c->pool->database, error);
	else
		pgclient_query(c->client, "SELECT lockstep.apply_start($1), "
					   "pg_catalog.to_regprocedure('lockstep.apply_commit(bigint,bigint)') IS NOT NULL",
					   1, &node_cluster, on_started, c);
}

ApplyConn *
apply_open(Pool *pool)
{
	ApplyConn  *c = xcalloc(1, sizeof(ApplyConn));

	c->pool = pool;
	c->flush.callback = on_flush;
	c->flush.arg = c;
	c->bury.callback = on_bury;
	c->bury.arg = c;
	c->client = pgclient_open(pool->node->config->conninfo, pool->database, "lockstep apply",
							  pgclient_apply_options, node_config->node_timeout, on_connected, c);
	return c;
}
