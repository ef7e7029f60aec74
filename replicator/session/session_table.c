/*
 * session_table.c
 *	  The authenticated sessions, by (node, pid).
 */
#include <stdlib.h>

#include "node.h"
#include "session_private.h"

#define BUCKETS 16384

const Config *session_config;

static Session *buckets[BUCKETS];
static Session *sessions;
static int	nsessions;
static int	nsessions_of[CONFIG_MAX_NODES];

static Session **
bucket_of(int node, uint32_t pid)
{
	return &buckets[((uint32_t) node * 2654435761u + pid) % BUCKETS];
}

void
session_table_add(Session *s)
{
	Session   **bucket = bucket_of(s->node, s->pid);

	s->next_same_hash = *bucket;
	*bucket = s;
	s->prev = NULL;
	s->next = sessions;
	if (sessions != NULL)
		sessions->prev = s;
	sessions = s;
	nsessions++;
	nsessions_of[s->node]++;
}

void
session_table_remove(Session *s)
{
	Session   **link = bucket_of(s->node, s->pid);

	while (*link != s)
		link = &(*link)->next_same_hash;
	*link = s->next_same_hash;
	*(s->prev != NULL ? &s->prev->next : &sessions) = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	nsessions--;
	nsessions_of[s->node]--;
}

Session *
session_table_find(int node, uint32_t pid)
{
	Session    *s = *bucket_of(node, pid);

	while (s != NULL && (s->node != node || s->pid != pid))
		s = s->next_same_hash;
	return s;
}

int
sessions_count(void)
{
	return nsessions;
}

int
sessions_of_node(int node)
{
	return nsessions_of[node];
}

Session *
sessions_next(Session *previous)
{
	return previous == NULL ? sessions : previous->next;
}

SessionStatus
session_status(const Session *s)
{
	SessionStatus status = {
		.node = node_name(s->node),
		.database = s->database,
		.application = s->application,
		.pid = s->pid,
		.boot = s->boot,
		.state = s->tx != NULL ? tx_state_name(s->tx->state) : "idle",
		.statements = s->tx != NULL ? s->tx->nstatements : 0,
		.bytes = s->tx != NULL ? tx_bytes(s->tx) : 0,
		.tls = s->tls != NULL
	};

	return status;
}

Transaction *
session_transaction(int node, uint32_t pid)
{
	Session    *s = session_table_find(node, pid);

	if (s == NULL)
		return NULL;
	if (s->tx != NULL)
		return s->tx;
	if (s->unconfirmed != NULL && s->unconfirmed->seq > node_applied(node))
		return s->unconfirmed;
	return NULL;
}

uint64_t
sessions_oldest_seen(void)
{
	uint64_t	oldest = UINT64_MAX;

	for (Session *s = sessions; s != NULL; s = s->next)
	{
		if (s->tx != NULL && s->tx->oldest_seen < oldest)
			oldest = s->tx->oldest_seen;
	}
	return oldest;
}

bool
sessions_busy(int node)
{
	for (Session *s = sessions; s != NULL; s = s->next)
	{
		if (s->node == node && (s->tx != NULL || s->owed != NULL || s->questions > 0 ||
								(s->unconfirmed != NULL && s->unconfirmed->seq > node_applied(node))))
			return true;
	}
	return false;
}
