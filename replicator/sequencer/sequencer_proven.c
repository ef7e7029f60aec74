/*
 * sequencer_proven.c
 *	  Which tables have all online nodes been able to change, as they are now?
 *
 * With commit_wait = certified a transaction is decided before it is executed if no node can
 * refuse its rows.  That a node has the same table is not known but by trying: a table is
 * proven once a transaction that changed it has been executed by every online node before it
 * was decided.  DDL, and a node that comes online, forget all of them.  A table of which a node
 * has refused a decided row is barred until the next DDL.
 *
 * A table of fixed size, by hash.  Tables that share a place push each other out, which costs
 * an execution; one that is barred stays, and the others are executed first.  Loop's thread.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "log.h"
#include "node.h"
#include "sequencer_private.h"

#define PLACES 4096				/* a power of two */
#define CERTAIN_LAG 256			/* transactions that a node has not applied */
#define CERTAIN_LAG_US 300000	/* the oldest of them */

typedef struct Place
{
	uint64_t	table;
	uint64_t	proven;			/* epoch in which it was, 0: never */
	uint64_t	barred;			/* DDL epoch in which it is, 0: never */
} Place;

static Place places[PLACES];
static uint64_t epoch = 1;
static uint64_t ddl_epoch = 1;

static Place *
place_of(uint64_t table)
{
	return &places[table & (PLACES - 1)];
}

static bool
is_changed_table(const LsKey *k)
{
	return k->mode == LS_TABLE_IX && !is_database_key(k);
}

uint64_t
proven_epoch(void)
{
	return epoch;
}

void
proven_forget(bool ddl)
{
	epoch++;
	if (ddl)
		ddl_epoch++;
}

void
sequencer_node_came_online(Node *n)
{
	n->local_change = false;
	proven_forget(false);
}

void
sequencer_local_change(Node *n, const char *database)
{
	char	   *message;

	if (n->local_change)
		return;
	n->local_change = true;
	message = xasprintf("database \"%s\" is changed on this node only (lockstep.replicate = off)", database);
	log_full(LOG_NOTICE, n->config->name, message,
			 "Until the node is attached again, transactions are executed on all nodes before they are decided, as it may refuse them.",
			 "Compare the nodes with \"lockstepctl verify\".");
	free(message);
}

bool
proven_has(const KeyList *list)
{
	bool		any = false;

	for (size_t i = 0; i < list->n; i++)
	{
		const Place *place = place_of(list->keys[i].hash);

		if (!is_changed_table(&list->keys[i]))
			continue;
		if (place->table != list->keys[i].hash || place->proven != epoch || place->barred == ddl_epoch)
			return false;
		any = true;
	}
	return any;
}

/* All online nodes have executed it. */
void
proven_note(const Transaction *tx)
{
	KeyList		list;

	if (!tx->certain || tx->spill != NULL || tx->proof != epoch || tx->wait == LS_WAIT_ORDERED)
		return;
	list = keys_of(tx);
	for (size_t i = 0; i < list.n; i++)
	{
		Place	   *place = place_of(list.keys[i].hash);

		if (!is_changed_table(&list.keys[i]) || place->barred == ddl_epoch)
			continue;
		place->table = list.keys[i].hash;
		place->proven = epoch;
	}
}

void
sequencer_refused_decided(const Transaction *tx, int node)
{
	KeyList		list;

	if (!tx->certain || tx->wait != LS_WAIT_ORDERED || tx->spill != NULL)
		return;
	list = keys_of(tx);
	for (size_t i = 0; i < list.n; i++)
	{
		Place	   *place = place_of(list.keys[i].hash);

		if (!is_changed_table(&list.keys[i]))
			continue;
		place->table = list.keys[i].hash;
		place->barred = ddl_epoch;
		log_message(LOG_WARNING, node_name(node), "a row of table \"%.*s\" was refused here after seq %" PRIu64
					" was decided: until the next DDL its changes are executed on all nodes before they are decided",
					(int) list.keys[i].name.len, (const char *) list.keys[i].name.data, tx->seq);
	}
}

/*
 * Is a node so far behind that its clients would read what is too old, or may it have other
 * rows than the others?
 */
bool
proven_nodes_go_first(void)
{
	uint64_t	now = loop_now_us();

	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *n = node_get(i);
		const TxRing *ring = &n->applying;

		if (n->state != NODE_ONLINE)
			continue;
		if (n->local_change)
			return true;
		if (ring->count == 0)
			continue;
		if (ring->count > CERTAIN_LAG || now - tx_ring_first(ring)->since_us > CERTAIN_LAG_US)
			return true;
	}
	return false;
}
