/*
 * apply_rows.c
 *	  Sending several changes of rows in one call of lockstep.apply_rows().
 *
 * Consecutive changes of rows can share a call if only their texts and parameters
 * matter.  The server executes them in order and checks their numbers of rows
 * (extension/apply/applybatch.c), which saves the cost of a message per query on
 * both sides.  An error in one of them is an error of the call.
 *
 * A call costs the server as much as it saves on two or three queries (measured:
 * docs/benchmarks.md), so fewer are sent separately, unless the node has to wait for
 * another transaction first, which needs a call anyway.
 *
 * The scratch buffers are for one call: everything added is sent before send_more()
 * returns.
 */
#include "apply_private.h"

#include <string.h>

#define MIN_QUERIES 3
#define MAX_QUERIES 256
#define MAX_BYTES (64 * 1024)
#define MAX_PARAMS (16 * 1024)	/* of a query; what has more has other costs */

static Buffer packed;
static size_t queries;
static size_t last_text;		/* where it is in packed */
static size_t last_text_len;

bool
rows_take(const ApplyConn *c, const LsQuery *q)
{
	/* what has failed goes by itself, so that it is known which one fails */
	return c->has_rows && q->pieces == 0 && !c->unprepared && !c->task->looked_twice && q->form == LS_FORM_ROW && !q->ddl && q->settings.len == 0 &&
		q->params.len <= MAX_PARAMS && q->text.len > 0 && q->text.len <= STATEMENT_TEXT_MAX;
}

static bool
is_last_text(LsSlice text)
{
	return queries > 0 && last_text_len == text.len && memcmp(packed.data + last_text, text.data, text.len) == 0;
}

void
rows_add(ApplyConn *c, const LsQuery *q)
{
	LsRow		row = {q->text, q->rows, q->params};

	if (queries >= MAX_QUERIES || packed.len >= MAX_BYTES)
		rows_send(c);
	if (is_last_text(q->text))
		row.text.len = 0;
	buffer_reserve(&packed, LS_ROW_FIXED_SIZE + row.text.len + row.params.len);
	packed.len += ls_put_row(packed.data + packed.len, packed.cap - packed.len, &row);
	if (row.text.len > 0)
	{
		last_text = packed.len - q->params.len - q->text.len;
		last_text_len = q->text.len;
	}
	queries++;
}

static void
send_one_by_one(ApplyConn *c, LsSlice rows)
{
	LsRow		row = {{NULL, 0}, 0, {NULL, 0}};

	while (ls_next_row(&rows, &row))
	{
		LsQuery		q = {.text = row.text,.params = row.params,.rows = row.rows,.form = LS_FORM_ROW};

		send_statement(c, &q);
	}
}

bool
rows_send(ApplyConn *c)
{
	LsSlice		rows = {packed.data, packed.len};

	if (queries == 0)
		return false;
	if (queries < MIN_QUERIES && c->wait_first == 0)
		send_one_by_one(c, rows);
	else
		send_rows(c, rows, queries);
	packed.len = 0;
	queries = 0;
	return true;
}
