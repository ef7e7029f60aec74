/*
 * apply_send.c
 *	  What does a transaction become on the wire of an apply connection: which
 *	  commands, prepared or not, with which parameters?  Each that is sent is
 *	  noted in `expected`.
 *
 * The scratch below is for one statement at a time: nothing of it is needed once
 * libpq has taken the command.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply_private.h"

#define TEXTS_KEPT (1024 * 1024)	/* scratch beyond is given back */

/* Scratch for one statement's texts and parameters. */
static Buffer texts;
static const char **values;
static size_t values_cap;

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
	c->counts |= e.kind == EXPECT_QUERY;
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

/* ---------- commands */

/* Whether libpq took a command.  It goes out, or the connection is given up, at
 * the end of the round. */
static void
sent(ApplyConn *c, int ok)
{
	if (!ok)
		c->broken = true;
	loop_defer(&c->flush);
}

void
send_sync(ApplyConn *c)
{
	if (c->sync_sent)
		return;
	c->sync_sent = true;
	sent(c, PQpipelineSync(c->conn));
	expect(c, of_kind(EXPECT_SYNC, NULL));
}

void
send_flush_request(ApplyConn *c)
{
	sent(c, PQsendFlushRequest(c->conn));
}

void
send_plain(ApplyConn *c, const char *command)
{
	sent(c, PQsendQueryParams(c->conn, command, 0, NULL, NULL, NULL, NULL, 0));
	expect(c, of_kind(EXPECT_OTHER, NULL));
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

/* As libpq has them, beside the values: NULL, they are texts. */
typedef struct Params
{
	int			n;
	const int  *lengths;
	const int  *formats;
} Params;

static Params
texts_only(int n)
{
	Params		p = {n, NULL, NULL};

	return p;
}

/*
 * Send one command with parameters, prepared if the cache says so.  values
 * point into texts or elsewhere; text_at is the text's place there.
 */
static void
send_command(ApplyConn *c, LsSlice text, LsSlice settings, bool prepare, Params p, Expected e)
{
	Statement  *st = prepare ? statements_find(&c->statements, text, settings) : NULL;
	size_t		text_at;

	if (st == NULL)
	{
		const char *command;

		text_at = keep_text(text);
		command = (const char *) texts.data + text_at;
		sent(c, PQsendQueryParams(c->conn, command, p.n, NULL, values, p.lengths, p.formats, 0));
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
	sent(c, PQsendQueryPrepared(c->conn, st->name, p.n, values, p.lengths, p.formats, 0));
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

/* ---------- calls */

static const LsSlice nothing = {NULL, 0};

/* SELECT lockstep.function($1), or ($1, $2). */
static void
send_call(ApplyConn *c, const char *command, int n, const char *first, const char *second)
{
	need_values(2);
	values[0] = first;
	values[1] = second;
	texts.len = 0;
	send_command(c, ls_slice_of(command), nothing, true, texts_only(n), of_kind(EXPECT_OTHER, NULL));
}

void
wait_there(ApplyConn *c, uint64_t seq)
{
	if (seq <= c->waited_for)
		return;
	c->waited_for = c->wait_first = seq;
}

bool
send_wait(ApplyConn *c)
{
	char		text[24];

	if (c->wait_first == 0)
		return false;
	snprintf(text, sizeof(text), "%" PRIu64, c->wait_first);
	c->wait_first = 0;
	send_call(c, "SELECT lockstep.apply_wait($1)", 1, text, NULL);
	return true;
}

/* The place in the journal; SQL has the chain as an int8. */
static void
send_position(ApplyConn *c, const char *with_chain, const char *without)
{
	const Transaction *tx = c->task->tx;
	bool		both = c->has_chain && tx->chain != 0;
	char		seq[24];
	char		chain[24];

	snprintf(seq, sizeof(seq), "%" PRIu64, tx->seq);
	snprintf(chain, sizeof(chain), "%" PRId64, (int64_t) tx->chain);
	send_call(c, both ? with_chain : without, both ? 2 : 1, seq, chain);
}

/* SQL has boot and chain as int8. */
void
send_verdict(ApplyConn *c)
{
	const Transaction *tx = c->task->tx;
	char		text[5][24];

	snprintf(text[0], sizeof(text[0]), "%" PRIu32, tx->pid);
	snprintf(text[1], sizeof(text[1]), "%" PRId64, (int64_t) tx->boot);
	snprintf(text[2], sizeof(text[2]), "%" PRIu64, tx->xcount);
	snprintf(text[3], sizeof(text[3]), "%" PRIu64, tx->seq);
	snprintf(text[4], sizeof(text[4]), "%" PRId64, (int64_t) tx->chain);
	need_values(5);
	for (int i = 0; i < 5; i++)
		values[i] = text[i];
	texts.len = 0;
	send_command(c, ls_slice_of("SELECT lockstep.deliver_verdict($1, $2, $3, $4, $5)"), nothing, true, texts_only(5),
				 of_kind(EXPECT_OTHER, NULL));
}

static void
send_begin_several(ApplyConn *c)
{
	const Transaction *tx = c->task->tx;
	char		first[24];
	char		last[24];
	char		chain[24];

	snprintf(first, sizeof(first), "%" PRIu64, tx_first_seq(tx));
	snprintf(last, sizeof(last), "%" PRIu64, tx->seq);
	snprintf(chain, sizeof(chain), "%" PRId64, (int64_t) tx->chain);
	need_values(3);
	values[0] = first;
	values[1] = last;
	values[2] = chain;
	texts.len = 0;
	send_command(c, ls_slice_of("SELECT lockstep.apply_begin($1, $2, $3)"), nothing, true, texts_only(3),
				 of_kind(EXPECT_OTHER, NULL));
}

bool
send_claim(ApplyConn *c)
{
	if (!c->claim_due)
		return false;
	send_wait(c);
	c->claim_due = false;
	c->seq_sent = true;
	if (c->task->tx->nmembers > 0)
		send_begin_several(c);
	else
		send_position(c, "SELECT lockstep.apply_begin($1, $2)", "SELECT lockstep.apply_begin($1)");
	return true;
}

/* One argument, of which nothing is text. */
static void
send_bytes(ApplyConn *c, const char *command, const uint8_t *bytes, size_t len, Expected e)
{
	const int	lengths[] = {(int) len};
	const int	formats[] = {1};
	Params		p = {1, lengths, formats};

	need_values(1);
	values[0] = (const char *) bytes;
	texts.len = 0;
	send_command(c, ls_slice_of(command), nothing, true, p, e);
}

void
send_commit(ApplyConn *c)
{
	LsWork		w = {.seq = c->task->tx->seq,.chain = c->task->tx->chain};
	uint8_t		bytes[LS_WORK_FIXED_SIZE];

	if (!c->has_work)
	{
		send_position(c, "SELECT lockstep.apply_commit($1, $2)", "SELECT lockstep.apply_commit($1)");
		return;
	}
	ls_put_work(bytes, &w);
	send_bytes(c, "CALL lockstep.commit_transaction($1)", bytes, sizeof(bytes), of_kind(EXPECT_OTHER, NULL));
}

/* Raise an error there, so that the transaction is rolled back at the Sync. */
void
send_rollback(ApplyConn *c)
{
	if (c->sync_sent)
		return;
	send_plain(c, "SELECT lockstep.apply_rollback()");
	send_sync(c);
}

/* ---------- statements */

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

/* Parameters of q as C strings, from values[first] on; how many values there are. */
static int
keep_params(const LsQuery *q, size_t first)
{
	LsSlice		rest = q->params;
	LsSlice		param;
	size_t		n = first;
	size_t		need = 0;

	for (; ls_next_param(&rest, &param); n++)
		need += param.len + 1;
	need_values(n + 1);
	buffer_reserve(&texts, need);	/* so that it does not move below */
	n = first;
	rest = q->params;
	while (ls_next_param(&rest, &param))
		values[n++] = param.data == NULL ? NULL : (const char *) texts.data + keep_text(param);
	return (int) n;
}

static void
send_copy(ApplyConn *c, const LsQuery *q, Expected e)
{
	size_t		text_at;

	buffer_reserve(&texts, q->text.len + q->params.len + 64);	/* the command's text,
																 * too */
	text_at = keep_text(q->text);
	(void) keep_params(q, 1);
	values[0] = (const char *) texts.data + text_at;
	e.copy = true;
	send_command(c, ls_slice_of("SELECT lockstep.apply_copy($1, $2)"), nothing, true, texts_only(2), e);
}

/*
 * What a query means does not depend on the other settings, if it changes a row: they
 * are for the functions that it calls, and may be others with every row.  The path
 * comes first.
 */
static LsSlice
settings_of_meaning(const LsQuery *q)
{
	LsSlice		rest = q->settings;
	LsSlice		name;
	LsSlice		value;

	if (q->form != LS_FORM_ROW || !ls_next_setting(&rest, &name, &value))
		return q->settings;
	if (name.len != strlen("search_path") || memcmp(name.data, "search_path", name.len) != 0)
		return nothing;
	rest.data = q->settings.data;
	rest.len = (size_t) (value.data + value.len + 1 - q->settings.data);
	return rest;
}

/* Its parameters came in pieces before it, and are there. */
static void
send_pieced(ApplyConn *c, const LsQuery *q, Expected e)
{
	char		length[24];
	char		rows[24];
	const int	lengths[] = {(int) q->text.len, 0, 0};
	const int	formats[] = {1, 0, 0};
	Params		p = {q->form == LS_FORM_COPY ? 2 : 3, lengths, formats};

	snprintf(length, sizeof(length), "%" PRIu64, q->pieces);
	snprintf(rows, sizeof(rows), "%" PRId64, q->rows);
	need_values(3);
	values[0] = (const char *) q->text.data;
	values[1] = q->form == LS_FORM_COPY ? length : rows;
	values[2] = length;
	e.copy = q->form == LS_FORM_COPY;
	if (!e.copy)
		e.kind = EXPECT_ROWS;
	send_command(c, ls_slice_of(e.copy ? "SELECT lockstep.apply_pieced_copy($1, $2)" : "SELECT lockstep.apply_pieced_row($1, $2, $3)"),
				 nothing, true, p, e);
}

void
send_piece(ApplyConn *c, const LsQuery *q)
{
	LsSlice		rest = q->params;
	LsSlice		piece;
	Expected	e = {.kind = EXPECT_ROWS,.queries = 1,.bytes = q->params.len};

	if (!ls_next_param(&rest, &piece))
		return;
	if (c->has_pieces)
	{
		const int	lengths[] = {(int) piece.len};
		const int	formats[] = {1};
		Params		p = {1, lengths, formats};

		need_values(1);
		values[0] = (const char *) piece.data;
		texts.len = 0;
		send_command(c, q->text, nothing, true, p, e);
	}
	else
		buffer_append(&c->pieces, piece.data, piece.len);
}

/* The same where it is this side that puts them together. */
static void
send_put_together(ApplyConn *c, const LsQuery *q)
{
	LsQuery		whole = *q;
	LsSlice		param;
	bool		malformed = c->pieces.len != q->pieces;

	whole.params = (LsSlice) {c->pieces.data, c->pieces.len};
	whole.pieces = 0;
	for (LsSlice rest = whole.params; !malformed && rest.len > 0;)
		malformed = !ls_next_param(&rest, &param) || (param.len > 0 && memchr(param.data, 0, param.len) != NULL);
	if (!malformed)
		send_statement(c, &whole);
	else if (c->read_error == NULL)
	{
		c->read_error = xstrdup("parameters that came in pieces are malformed");
		loop_defer(&c->flush);
	}
	buffer_free(&c->pieces);
}

void
send_statement(ApplyConn *c, const LsQuery *q)
{
	Expected	e = {.kind = EXPECT_QUERY,.rows = q->rows,.queries = 1,.bytes = q->text.len + q->params.len};
	int			nparams;

	texts.len = 0;
	if (q->pieces > 0 && !c->has_pieces)
	{
		send_put_together(c, q);
		return;
	}
	send_settings(c, q->settings);
	if (q->pieces > 0)
	{
		send_pieced(c, q, e);
		return;
	}
	if (q->form == LS_FORM_COPY)
	{
		send_copy(c, q, e);
		return;
	}
	buffer_reserve(&texts, q->text.len + q->params.len + 2);
	nparams = keep_params(q, 0);
	send_command(c, q->text, settings_of_meaning(q), nparams > 0 && !q->ddl && !c->unprepared, texts_only(nparams), e);
}

void
send_work(ApplyConn *c, Buffer *work, size_t queries)
{
	const Transaction *tx = c->task->tx;
	LsWork		w = {.wait_for = c->wait_first};
	Expected	e = {.kind = EXPECT_ROWS,.queries = queries,.bytes = work->len};

	if (c->claim_due)
	{
		w.first = tx_first_seq(tx);
		w.seq = tx->seq;
		w.chain = tx->chain;
	}
	send_settings(c, nothing);
	c->seq_sent |= c->claim_due;
	c->claim_due = false;
	c->wait_first = 0;
	ls_put_work(work->data, &w);
	send_bytes(c, "CALL lockstep.apply_transaction($1)", work->data, work->len, e);
}

void
send_end(void)
{
	if (texts.cap > TEXTS_KEPT)
		buffer_free(&texts);
}
