/*
 * apply_trouble.c
 *	  The decided transaction that a node can't apply: its seq, statement and error.
 *
 * The node is attached again after growing pauses (node_pause_ms()); if the error
 * may be transient, only the transaction is retried and the node stays in.  The log
 * reports it once, with the remedies, until the error changes, the node gets past
 * that seq, or the node is attached by command; lockstepctl status shows it for as
 * long as it lasts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "peer.h"
#include "querytext.h"

static void
forget(Node *n)
{
	NodeTrouble *t = n->trouble;

	n->trouble = NULL;
	if (t == NULL)
		return;
	free(t->database);
	free(t->statement);
	free(t->message);
	free(t->detail);
	free(t);
}

/* The statement as people are shown it; NULL: it failed in none, or can't be told. */
static char *
statement_text(const Transaction *tx, size_t at)
{
	Buffer		copy = {0};
	LsSlice		payload;
	LsQuery		query;
	char	   *text = NULL;

	if (at != APPLY_NO_STATEMENT && tx_find_statement(tx, at, &copy, &payload) && ls_get_query(payload, &query) == NULL)
		text = query_shown(&query, NULL, true);
	buffer_free(&copy);
	return text;
}

static bool
is_same(const NodeTrouble *t, const Transaction *tx, const ApplyError *e)
{
	return t != NULL && t->seq == tx->seq && strcmp(t->sqlstate, e->sqlstate) == 0 && strcmp(t->message, e->message) == 0;
}

static void
tell(const Node *n, const NodeTrouble *t)
{
	char	   *message = xasprintf("seq %" PRIu64 " of database \"%s\" cannot be applied here: %s (%s)", t->seq, t->database,
									t->message, t->sqlstate);
	char	   *detail = xasprintf("%s%s%s%s", t->statement != NULL ? "Statement: " : "It failed at its commit, or its statement is unknown.",
								   t->statement != NULL ? t->statement : "", t->detail != NULL ? "; " : "",
								   t->detail != NULL ? t->detail : "");
	char	   *hint = node_trouble_is_servers(t) ?
	xasprintf("Mend what the server says (disk, memory, connections); nothing else is needed: it is tried again, ever more rarely, or now by "
			  "\"lockstepctl attach %s\".", n->config->name) :
	xasprintf("It is tried again, ever more rarely. Mend the cause on that node (with lockstep.replicate = off) and "
			  "\"lockstepctl attach %s\"; or \"lockstepctl verify --repair %s\" gives it what the others have, past that seq; "
			  "or clone it (lockstepctl join).", n->config->name, n->config->name);

	log_full(LOG_WARNING, n->config->name, message, detail, hint);
	free(message);
	free(detail);
	free(hint);
}

void
apply_trouble_note(Node *n, const Transaction *tx, const ApplyError *e)
{
	NodeTrouble *t = n->trouble;

	if (!is_same(t, tx, e))
	{
		forget(n);
		t = n->trouble = xcalloc(1, sizeof(NodeTrouble));
		t->seq = tx->seq;
		t->database = xstrdup(tx->database);
		t->statement = statement_text(tx, e->statement);
		snprintf(t->sqlstate, sizeof(t->sqlstate), "%s", e->sqlstate);
		t->message = xstrdup(e->message);
		t->detail = e->detail != NULL ? xstrdup(e->detail) : NULL;
	}
	t->times++;
	if (!t->told)
		tell(n, t);
	t->told = true;
}

bool
apply_trouble_is_told(const Node *n, NodeState to)
{
	return n->trouble != NULL && to != NODE_ONLINE && n->trouble->times > (to == NODE_CATCHUP ? 0 : 1);
}

void
apply_trouble_passed(Node *n, uint64_t seq)
{
	if (n->trouble == NULL || seq < n->trouble->seq)
		return;
	log_message(LOG_NOTICE, n->config->name, "node is past seq %" PRIu64 ", which could not be applied", n->trouble->seq);
	forget(n);
}

void
apply_trouble_tell_again(Node *n)
{
	if (n->trouble == NULL)
		return;
	n->trouble->told = false;
	n->trouble->times = 0;
}
