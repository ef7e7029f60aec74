/*
 * apply_rows.c
 *	  Sending changes of rows in one call of lockstep.apply_transaction().
 *
 * Consecutive changes of rows can share a call if only their texts and parameters
 * matter.  The server executes them in order and checks their numbers of rows
 * (extension/apply/applybatch.c), which saves the cost of a message per query on
 * both sides.  An error in one of them is an error of the call.
 *
 * The scratch buffer is for one call: everything added is sent before send_more()
 * returns.
 */
#include "apply_private.h"

#include <string.h>

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
	return c->has_work && q->pieces == 0 && !c->unprepared && !c->task->looked_twice && q->form == LS_FORM_ROW && !q->ddl && q->settings.len == 0 &&
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
	buffer_reserve(&packed, LS_WORK_FIXED_SIZE + LS_ROW_FIXED_SIZE + row.text.len + row.params.len);
	if (queries == 0)
		packed.len = LS_WORK_FIXED_SIZE;
	packed.len += ls_put_row(packed.data + packed.len, packed.cap - packed.len, &row);
	if (row.text.len > 0)
	{
		last_text = packed.len - q->params.len - q->text.len;
		last_text_len = q->text.len;
	}
	queries++;
}

bool
rows_send(ApplyConn *c)
{
	if (queries == 0)
		return false;
	send_work(c, &packed, queries);
	packed.len = 0;
	queries = 0;
	return true;
}
