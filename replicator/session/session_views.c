/*
 * session_views.c
 *	  Rows of the extension's views; and conflicts that a node has found by itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conflict_log.h"
#include "events.h"
#include "membership.h"
#include "node.h"
#include "sequencer.h"
#include "session_private.h"

#define CELL_HEAD 8				/* of a packed text: more than enough */

static void
add_cell(Buffer *cells, const char *text)
{
	size_t		len = text != NULL ? strlen(text) : 0;

	buffer_reserve(cells, len + CELL_HEAD);
	cells->len += ls_put_param(cells->data + cells->len, len + CELL_HEAD, text, len);
}

static void
add_rows(Buffer *cells, uint32_t ncolumns, bool (*row) (size_t i, const char **cells))
{
	const char *texts[FACTS_MAX_COLUMNS];

	for (size_t i = 0; row(i, texts); i++)
		for (uint32_t j = 0; j < ncolumns; j++)
			add_cell(cells, texts[j]);
}

static uint32_t
add_winner(Buffer *cells, uint64_t seq)
{
	const char *node;
	uint32_t	pid;
	char		text[16];

	if (sequencer_winner(seq, &node, &pid))
	{
		snprintf(text, sizeof(text), "%" PRIu32, pid);
		add_cell(cells, node);
		add_cell(cells, text);
	}
	return 2;
}

/* Numbers of a row as text: there are at most so many. */
static const char *
number(int64_t n)
{
	static char texts[FACTS_MAX_COLUMNS][24];
	static size_t next;
	char	   *text = texts[next++ % FACTS_MAX_COLUMNS];

	snprintf(text, sizeof(texts[0]), "%" PRId64, n);
	return text;
}

#define NODE_COLUMNS 11

static bool
node_row(size_t i, const char **cells)
{
	static char hint[DROP_TEXT_SIZE];
	NodeStatus	n;
	bool		has_hint;

	if (i >= (size_t) nodes_count())
		return false;
	n = node_status((int) i);
	has_hint = node_hint(&n, hint);
	cells[0] = n.name;
	cells[1] = node_state_name(n.state);
	cells[2] = number(n.state_ms);
	cells[3] = number((int64_t) n.applied);
	cells[4] = number(sequencer_last_durable() > n.applied ? (int64_t) (sequencer_last_durable() - n.applied) : 0);
	cells[5] = number((int64_t) n.lag_bytes);
	cells[6] = n.silent_ms >= 0 ? number(n.silent_ms) : NULL;
	cells[7] = number(n.waiting);
	cells[8] = n.reason != NULL && n.reason[0] != '\0' ? n.reason : NULL;
	cells[9] = n.cause != DROP_NONE ? drop_rule(n.cause)->name : NULL;
	cells[10] = has_hint ? hint : NULL;
	return true;
}

#define EVENT_COLUMNS 5

static bool
event_row(size_t i, const char **cells)
{
	const Event *e = event_get(i);

	if (e == NULL)
		return false;
	cells[0] = number((int64_t) e->time_us);
	cells[1] = e->name;
	cells[2] = e->node[0] != '\0' ? e->node : NULL;
	cells[3] = e->text;
	cells[4] = e->detail[0] != '\0' ? e->detail : NULL;
	return true;
}

static uint32_t
add_last_decided(Buffer *cells)
{
	char		text[24];

	snprintf(text, sizeof(text), "%" PRIu64, sequencer_last_decided());
	add_cell(cells, text);
	return 1;
}

static void
send_facts(Session *s, uint64_t question, uint32_t ncolumns, Buffer *cells)
{
	LsFacts		facts = {
		.question = question,
		.ncolumns = ncolumns,
		.cells = {cells->data, cells->len}
	};
	size_t		size = ls_put_facts(NULL, 0, &facts);
	uint8_t    *message = xmalloc(size);

	ls_put_facts(message, size, &facts);
	session_send(s, message, size);
	free(message);
	buffer_free(cells);
}

/* ---------- who waits for whom: the nodes are asked first */

static void (*refresh_waits) (void (*done) (void *arg), void *arg);
static uint32_t waits_ncolumns;
static bool (*waits_row) (size_t i, const char **cells);

typedef struct WaitsAsker
{
	int			node;
	uint32_t	pid;
	uint64_t	boot;
	uint64_t	question;
} WaitsAsker;

void
sessions_tell_waits(void (*refresh) (void (*done) (void *arg), void *arg), uint32_t ncolumns,
					bool (*row) (size_t i, const char **cells))
{
	refresh_waits = refresh;
	waits_ncolumns = ncolumns;
	waits_row = row;
}

/* It may have gone meanwhile. */
static void
waits_are_known(void *arg)
{
	WaitsAsker *a = arg;
	Session    *s = session_table_find(a->node, a->pid);
	Buffer		cells = {0};

	if (s != NULL && s->state == SESSION_READY && s->boot == a->boot)
	{
		add_rows(&cells, waits_ncolumns, waits_row);
		send_facts(s, a->question, waits_ncolumns, &cells);
	}
	free(a);
}

static void
ask_for_waits(const Session *s, uint64_t question)
{
	WaitsAsker *a = xmalloc(sizeof(WaitsAsker));

	*a = (WaitsAsker) {s->node, s->pid, s->boot, question};
	refresh_waits(waits_are_known, a);
}

void
session_handle_facts(Session *s, LsSlice payload)
{
	LsFactsQuestion q;
	uint32_t	ncolumns = 0;
	Buffer		cells = {0};
	const char *wrong = ls_get_facts_question(payload, &q);

	if (!session_decoded(s, "question for facts", wrong))
		return;
	switch (q.kind)
	{
		case LS_FACTS_CONFLICTS:
			add_rows(&cells, ncolumns = CONFLICT_COLUMNS, conflict_log_row);
			break;
		case LS_FACTS_COUNTS:
			add_rows(&cells, ncolumns = CONFLICT_COUNT_COLUMNS, conflict_count_row);
			break;
		case LS_FACTS_WINNER:
			ncolumns = add_winner(&cells, q.seq);
			break;
		case LS_FACTS_NODES:
			add_rows(&cells, ncolumns = NODE_COLUMNS, node_row);
			break;
		case LS_FACTS_EVENTS:
			add_rows(&cells, ncolumns = EVENT_COLUMNS, event_row);
			break;
		case LS_FACTS_LOCAL_CHANGE:
			sequencer_local_change(node_get(s->node), s->database);
			ncolumns = add_last_decided(&cells);
			break;
		case LS_FACTS_WAITS:
			ask_for_waits(s, q.question);
			return;
	}
	send_facts(s, q.question, ncolumns, &cells);
}

static const char *
reason_text(LsConflictReason reason)
{
	switch (reason)
	{
		case LS_LOST_UPDATE:
			return "concurrent update";
		case LS_LOST_QUEUE:
			return "queue timeout";
		case LS_LOST_DOUBT:
			return "doubt";
	}
	return "unknown";
}

void
session_handle_conflict_report(Session *s, LsSlice payload)
{
	LsConflictReport m;
	Conflict	c = {0};
	const char *wrong = ls_get_conflict_report(payload, &m);
	char	   *detail;

	if (!session_decoded(s, "report of a conflict", wrong))
		return;
	detail = xstrndup(m.detail.data, m.detail.len);
	c.database = s->database;
	c.node = node_name(s->node);
	c.pid = s->pid;
	c.xcount = m.xcount;
	c.winner_seq = m.seq;
	(void) sequencer_winner(m.seq, &c.winner_node, &c.winner_pid);
	c.reason = reason_text(m.reason);
	c.sqlstate = m.reason == LS_LOST_QUEUE ? "40P01" : "40001";
	c.queued = m.reason == LS_LOST_QUEUE;
	c.key = m.key;
	c.detail = detail;
	conflict_log_add(&c);
	free(detail);
}
