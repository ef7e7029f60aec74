/*
 * sequencer_conflict.c
 *	  Descriptions of conflicts: the winner, the key, the query.  The client of the loser
 *	  gets them as DETAIL; the log and lockstep.conflicts have them, too.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "masked_text.h"
#include "node.h"
#include "querytext.h"
#include "sequencer_private.h"
#include "spill.h"
#include "waitgraph.h"

#define WINNERS 65536			/* a power of two */
#define CYCLE 16

typedef struct Winner
{
	uint64_t	seq;
	uint32_t	pid;
	uint32_t	origin;
} Winner;

static Winner winners[WINNERS];

void
winners_remember(uint64_t seq, uint32_t origin, uint32_t pid)
{
	Winner	   *w = &winners[seq & (WINNERS - 1)];

	w->seq = seq;
	w->origin = origin;
	w->pid = pid;
}

bool
sequencer_winner(uint64_t seq, const char **node, uint32_t *pid)
{
	const Winner *w = &winners[seq & (WINNERS - 1)];

	if (seq == 0 || w->seq != seq)
		return false;
	*node = node_name((int) w->origin);
	*pid = w->pid;
	return true;
}

/* ---------- lost by a key */

/* Is that byte in the query? */
static bool
is_in(const uint8_t *at, LsSlice bytes)
{
	return at >= bytes.data && at <= bytes.data + bytes.len;
}

/*
 * The query that has key i of its transaction, as text for the message (malloc'ed); its form;
 * and the key with its name, which may be in *copy.
 */
static char *
query_of_key(const Transaction *tx, const KeyList *list, size_t i, Buffer *copy, LsKey *key, LsForm *form)
{
	LsSlice		rest = {tx->queries.data, tx->queries.len};
	LsQuery		query = {0};
	char	   *shown;
	char	   *part;
	char	   *hidden;

	*key = list->keys[i];
	if (tx->spill != NULL)
	{
		if (!tx_find_key(tx, i, copy, &query, key))
			memset(&query, 0, sizeof(query));
	}
	else
	{
		while (next_query(&rest, &query) && !is_in(key->name.data, query.keys))
			;
	}
	*form = query.form;
	shown = query_shown(&query, key, true);
	part = xasprintf(" of query \"%s\"", shown);
	hidden = masked_part(part, &query);
	free(shown);
	free(part);
	return hidden;
}

static const char *
reason_of(const Certificate *c, bool read)
{
	if (c->kind == CONFLICT_TOO_OLD)
		return "forgotten";
	if (read)
		return "read";
	return c->kind == CONFLICT_DECIDED ? "changed" : "reserved";
}

/* Fills in the winner in conflict, too. */
static char *
winner_words(const Certificate *c, const Transaction *winner, Conflict *conflict)
{
	switch (c->kind)
	{
		case CONFLICT_DECIDED:
			conflict->winner_seq = c->winner_seq;
			if (sequencer_winner(c->winner_seq, &conflict->winner_node, &conflict->winner_pid))
				return xasprintf("was changed by a transaction of node \"%s\" (pid %" PRIu32 ", seq %" PRIu64 ")",
								 conflict->winner_node, conflict->winner_pid, c->winner_seq);
			return xasprintf("was changed by a transaction of another node (seq %" PRIu64 ")", c->winner_seq);
		case CONFLICT_RESERVED:
			if (winner == NULL)
				return xstrdup("is being changed by a transaction that asked to commit first");
			conflict->winner_node = winner->node;
			conflict->winner_pid = winner->pid;
			return xasprintf("is being changed by a transaction of node \"%s\" (pid %" PRIu32 ") that asked to commit first",
							 winner->node, winner->pid);
		case CONFLICT_TOO_OLD:
			break;
	}
	return xstrdup("was read longer ago than the replicator remembers");
}

void
describe_key_conflict(const Transaction *loser, const KeyList *list, const Certificate *c, const Transaction *winner,
					  ConflictDetail *w)
{
	LsKey		key;
	LsForm		form;
	char	   *query;
	char	   *words;
	char	   *name;

	memset(w, 0, sizeof(*w));
	query = query_of_key(loser, list, c->key_index, &w->copy, &key, &form);
	words = winner_words(c, winner, &w->conflict);
	name = text_printable(key.name.data, key.name.len);
	w->detail = form == LS_FORM_KEYS ?
		xasprintf("Key %s, which this transaction has %s, %s.", name,
				  ls_mode_is_read(key.mode) ? "read" : "locked", words) :
		xasprintf("Key %s%s %s.", name, query, words);
	w->conflict.key = key.name;
	w->conflict.whole_table = ls_mode_is_table(key.mode);
	w->conflict.row = w->conflict.whole_table ? 0 : key.hash;
	w->conflict.reason = reason_of(c, ls_mode_is_read(key.mode));
	w->conflict.detail = w->detail;
	free(name);
	free(query);
	free(words);
}

void
describe_sequence_conflict(const LsKey *key, uint64_t seq, ConflictDetail *w)
{
	Certificate c = {.kind = CONFLICT_DECIDED,.winner_seq = seq};
	char	   *words;
	char	   *name = text_printable(key->name.data, key->name.len);

	memset(w, 0, sizeof(*w));
	words = winner_words(&c, NULL, &w->conflict);
	w->detail = xasprintf("Sequence %s, of which this transaction has used a value, %s.", name, words);
	w->conflict.key = key->name;
	w->conflict.whole_table = true;
	w->conflict.reason = reason_of(&c, false);
	w->conflict.detail = w->detail;
	free(name);
	free(words);
}

/* ---------- waiting in a cycle */

static void
append_link(Buffer *out, const Transaction *from, const Transaction *to, bool first)
{
	char	   *text;
	const char *key = from != NULL && from->asked_for != NULL ? from->asked_for : "a table or row";

	if (to == NULL)
		text = xasprintf("%s waits for %s", first ? "This transaction" : ", which", key);
	else
		text = xasprintf("%s waits for %s behind a transaction of node \"%s\" (pid %" PRIu32 ")",
						 first ? "This transaction" : ", which", key, to->node, to->pid);
	buffer_append(out, text, strlen(text));
	free(text);
}

Transaction *
deadlock_victim(Transaction *closes, const Certifier *certifier)
{
	uint64_t	tickets[CYCLE];
	size_t		n = certifier_cycle(certifier, tickets, CYCLE);
	Transaction *loser = closes;
	WaitGraph	g = {0};
	uint32_t	losing = sequencer_party(&g, closes);

	g.parties[losing].loses = LOSES_HERE;	/* it is about to wait */
	for (size_t i = 0; i < n; i++)
	{
		Transaction *tx = certifier_lock_owner(certifier, tickets[i]);
		uint32_t	party = tx != NULL ? sequencer_party(&g, tx) : losing;

		if (g.parties[party].loses == LOSES_HERE && party != losing &&
			waitgraph_loses_before(&g.parties[party], &g.parties[losing]))
		{
			loser = tx;
			losing = party;
		}
	}
	waitgraph_free(&g);
	return loser;
}

void
describe_deadlock(const Transaction *loser, const Transaction *closes, const Certifier *certifier, ConflictDetail *w)
{
	uint64_t	tickets[CYCLE];
	size_t		n = certifier_cycle(certifier, tickets, CYCLE);
	const Transaction *from = loser;
	Buffer		text = {0};
	size_t		at = 0;			/* of the loser in the cycle */

	memset(w, 0, sizeof(*w));
	while (at < n && tickets[at] != loser->lock_ticket)
		at++;
	for (size_t i = 1; i < n; i++)
	{
		uint64_t	ticket = tickets[(at + i) % n];
		const Transaction *to = ticket == closes->lock_ticket ? closes : certifier_lock_owner(certifier, ticket);

		append_link(&text, from, to, i == 1);
		if (i == 1 && to != NULL)
		{
			w->conflict.winner_node = to->node;
			w->conflict.winner_pid = to->pid;
		}
		from = to;
	}
	if (n < 2)
		append_link(&text, loser, NULL, true);
	else
		buffer_append(&text, ", which waits for this one", strlen(", which waits for this one"));
	buffer_append(&text, ".", 2);
	w->detail = (char *) text.data;
	w->conflict.key = ls_slice_of(loser->asked_for);
	w->conflict.reason = "deadlock";
	w->conflict.sqlstate = "40P01";
	w->conflict.detail = w->detail;
}
