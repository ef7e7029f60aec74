/*
 * unlogged_tables.c
 *	  The rows of unlogged tables for a node whose server has lost them in a crash, before the node goes
 *	  online.
 *
 *	 catches up -> complete -> each database: is anything missing? -> no -> online
 *									| yes
 *		another node is online: it sends the rows of all of them, in a transaction that is
 *		ordered like any other (extension/capture/refill.c); when the node has applied that, it
 *		goes on with the next database
 *		no other one is: the node goes online, and truncates them, on all nodes; or fetches them, if
 *		another one has come online before it could
 *
 * While the second is being done no other node goes online, as it may have rows; but not for long, as
 * an open transaction may be in the way: then the rows are deleted there while it is online.  One that has
 * them and is about to come online is waited for, and one that was online a moment ago.
 *
 * A database may be dropped or renamed meanwhile, and its successors in the list of databases move: then all of
 * them are asked again, of which those that are complete say so at once.
 *
 * When nothing is missing in any of them the node is told, as its readers wait for that.
 *
 * The node knows what is missing (extension/node/unlogged.c) and leaves out changes of it, so nothing
 * here is remembered: whatever fails is done again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "membership_private.h"
#include "metadata.h"
#include "sequencer.h"

#define LOOK_MS 200
#define RETRY_MS 5000
#define GRACE_US (10 * UINT64_C(1000000))	/* for a node that has just been
											 * lost: a network fails for a
											 * moment */
#define PATIENCE_US (30 * UINT64_C(1000000))	/* of other nodes */

typedef enum UnloggedState
{
	UNLOGGED_UNKNOWN,			/* of database `at` */
	UNLOGGED_ASKING,
	UNLOGGED_MISSING,			/* who has it is not known yet */
	UNLOGGED_SENDING,			/* `from` does */
	UNLOGGED_APPLYING,			/* up to `until`, then the next database */
	UNLOGGED_NOWHERE,			/* nobody has it: to be truncated when the
								 * node is online, by `from`, the node; or to
								 * be fetched from a later one */
	UNLOGGED_SETTLED
} UnloggedState;

struct UnloggedTables
{
	Node	   *node;
	UnloggedState state;
	int			at;				/* of metadata_databases(), or their number:
								 * all are done */
	uint64_t	moves;			/* metadata_database_moves(), with that */
	char	   *database;		/* the last one that was connected to */
	PgClient   *client;			/* to the node, or to the sender */
	Node	   *from;
	uint64_t	until;
	bool		fetched;		/* from another node, of database `at` */
	int			lacks;			/* tables that no other one could send */
	Timer	   *timer;
};

static void look_for_sender(struct UnloggedTables *u);
static void begin_sending(struct UnloggedTables *u, Node *from);
static void begin_online(struct UnloggedTables *u);

void
unlogged_tables_forget(Node *n)
{
	struct UnloggedTables *u = n->unlogged;

	if (u == NULL)
		return;
	if (u->state == UNLOGGED_NOWHERE)
		nodes_look_again();
	n->unlogged = NULL;
	loop_cancel(u->timer);
	pgclient_close(u->client);
	free(u->database);
	free(u);
}

static void
end_client(struct UnloggedTables *u)
{
	pgclient_close(u->client);
	u->client = NULL;
}

/* NULL: they are done. */
static const char *
current(const struct UnloggedTables *u)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	return u->at < count ? names[u->at] : NULL;
}

static void
connect_to(struct UnloggedTables *u, const Node *n, const char *database, void (*done) (void *, const char *))
{
	free(u->database);
	u->database = xstrdup(database);
	u->client = pgclient_open(n->config, u->database, "lockstep control", pgclient_control_options, node_stall_timeout(), done, u);
}

/* Then it is at the first one. */
static bool
databases_have_moved(struct UnloggedTables *u)
{
	if (u->moves == metadata_database_moves())
		return false;
	u->moves = metadata_database_moves();
	u->at = 0;
	u->fetched = false;
	u->lacks = 0;
	end_client(u);
	u->from = NULL;
	return true;
}

static bool
begin_anew_if_moved(struct UnloggedTables *u)
{
	if (!databases_have_moved(u))
		return false;
	if (u->state == UNLOGGED_NOWHERE)
		begin_online(u);
	else
	{
		u->state = UNLOGGED_UNKNOWN;
		node_pump(u->node);
	}
	return true;
}

static void
look_again_later(struct UnloggedTables *u, int ms, void (*what) (void *))
{
	loop_cancel(u->timer);
	u->timer = loop_after(ms, what, u);
}

static void
on_retry(void *arg)
{
	struct UnloggedTables *u = arg;

	u->timer = NULL;
	if (u->state == UNLOGGED_NOWHERE)
		begin_online(u);
	else
	{
		u->state = UNLOGGED_UNKNOWN;
		node_pump(u->node);
	}
}

static void
failed(struct UnloggedTables *u, const char *what, const char *error)
{
	if (begin_anew_if_moved(u))
		return;
	log_message(LOG_WARNING, u->node->config->name, "%s in database \"%s\": %s; it is tried again", what, u->database, error);
	end_client(u);
	u->from = NULL;
	if (u->state != UNLOGGED_NOWHERE)
		u->state = UNLOGGED_MISSING;
	look_again_later(u, RETRY_MS, on_retry);
}

static const char *
error_of(const PGresult *r)
{
	return r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost";
}

static bool
is_unknown_function(const PGresult *r)
{
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

	return sqlstate != NULL && strcmp(sqlstate, "42883") == 0;
}

/* ---------- one database after the other */

static void
next_database(struct UnloggedTables *u)
{
	if (begin_anew_if_moved(u))
		return;
	end_client(u);
	u->from = NULL;
	u->at++;
	u->fetched = false;
	u->state = UNLOGGED_UNKNOWN;
	node_pump(u->node);
}

/* ---------- nothing is missing any more */

static void
on_settled(void *arg, const PGresult *r)
{
	struct UnloggedTables *u = arg;

	if ((r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK) && !is_unknown_function(r))
	{
		failed(u, "the node could not be told that its unlogged tables are complete", error_of(r));
		return;
	}
	end_client(u);
	u->state = UNLOGGED_SETTLED;
	nodes_look_again();			/* others may have waited for it */
}

static void
tell_settled(struct UnloggedTables *u)
{
	pgclient_query(u->client, "SELECT lockstep.unlogged_settled()", 0, NULL, on_settled, u);
}

static void
on_connected_to_settle(void *arg, const char *error)
{
	struct UnloggedTables *u = arg;

	if (error == NULL)
	{
		tell_settled(u);
		return;
	}
	u->client = NULL;			/* closes itself */
	failed(u, "the node could not be told that its unlogged tables are complete", error);
}

/* In any database. */
static void
settle(struct UnloggedTables *u)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	if (count == 0)
	{
		u->state = UNLOGGED_SETTLED;
		nodes_look_again();
		return;
	}
	connect_to(u, u->node, names[0], on_connected_to_settle);
	pgclient_limit(u->client, node_stall_timeout());
}

/* ---------- sending, or truncating */

/* What comes behind it fails, too. */
static void
on_ignored(void *arg, const PGresult *r)
{
}

/* The next database, when the node is online already. */
static void
next_online(struct UnloggedTables *u)
{
	end_client(u);
	u->from = NULL;
	u->at++;
	begin_online(u);
}

static void
on_look_at_applied(void *arg)
{
	struct UnloggedTables *u = arg;

	u->timer = NULL;
	if (u->node->applied >= u->until)
		next_online(u);
	else
		look_again_later(u, LOOK_MS, on_look_at_applied);
}

static void
on_committed(void *arg, const PGresult *r)
{
	struct UnloggedTables *u = arg;

	if (r == NULL || PQresultStatus(r) != PGRES_COMMAND_OK || strcmp(PQcmdStatus((PGresult *) r), "COMMIT") != 0)
	{
		failed(u, "unlogged tables could not be restored", r == NULL || PQresultStatus(r) == PGRES_FATAL_ERROR ? error_of(r) : "rolled back");
		return;
	}
	end_client(u);
	u->from = NULL;
	u->until = sequencer_last_decided();
	if (u->state == UNLOGGED_NOWHERE)
	{
		look_again_later(u, 0, on_look_at_applied);
		return;
	}
	u->state = UNLOGGED_APPLYING;
	node_pump(u->node);
}

static void
on_sent(void *arg, const PGresult *r)
{
	struct UnloggedTables *u = arg;

	if (r != NULL && PQresultStatus(r) == PGRES_TUPLES_OK)
	{
		pgclient_query(u->client, "COMMIT", 0, NULL, on_committed, u);
		return;
	}
	if (is_unknown_function(r) && u->state == UNLOGGED_SENDING)
		next_database(u);		/* version 1.0 there */
	else if (is_unknown_function(r) && u->from != u->node)
		next_online(u);
	else
		failed(u, "unlogged tables could not be restored", error_of(r));
}

static void
on_prepared(void *arg, const PGresult *r)
{
	struct UnloggedTables *u = arg;

	if (r == NULL || PQresultStatus(r) != PGRES_COMMAND_OK)
		failed(u, "unlogged tables could not be restored", error_of(r));
	else
		pgclient_query(u->client, u->from == u->node ? "SELECT lockstep.send_unlogged(true)" : "SELECT lockstep.send_unlogged(false)",
					   0, NULL, on_sent, u);
}

/* As a client like others, but for triggers. */
static void
on_sender(void *arg, const char *error)
{
	struct UnloggedTables *u = arg;

	if (error != NULL)
	{
		u->client = NULL;		/* closes itself */
		failed(u, "unlogged tables could not be restored", error);
		return;
	}
	pgclient_query(u->client, "SET session_replication_role = replica", 0, NULL, on_ignored, u);
	pgclient_query(u->client, "SET lockstep.replicate = on", 0, NULL, on_ignored, u);
	pgclient_query(u->client, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", 0, NULL, on_prepared, u);
}

/* The sender may have left meanwhile, or the database. */
static void
on_look_at_sender(void *arg)
{
	struct UnloggedTables *u = arg;

	u->timer = NULL;
	if (u->from == NULL)
		return;
	if (!metadata_has_database(u->database))
		(void) begin_anew_if_moved(u);
	else if (u->from->state != NODE_ONLINE)
		failed(u, "unlogged tables could not be restored", "the node that sent them is not online any more");
	else
		look_again_later(u, LOOK_MS, on_look_at_sender);
}

static void
begin_sending(struct UnloggedTables *u, Node *from)
{
	if (u->state == UNLOGGED_NOWHERE)
		(void) databases_have_moved(u);
	else if (begin_anew_if_moved(u))
		return;
	if (current(u) == NULL)
	{
		settle(u);
		return;
	}
	u->from = from;
	if (u->state != UNLOGGED_NOWHERE)
		u->state = UNLOGGED_SENDING;
	if (from != u->node)
		log_message(LOG_NOTICE, u->node->config->name, "its unlogged tables in database \"%s\" are fetched from node \"%s\"",
					current(u), from->config->name);
	else
		log_message(LOG_NOTICE, u->node->config->name, "unlogged tables in database \"%s\" that its server has lost in a crash are emptied on all nodes, as no other node was online",
					current(u));
	connect_to(u, from, current(u), on_sender);
	look_again_later(u, LOOK_MS, on_look_at_sender);
}

/* ---------- who has it? */

static bool
is_unsettled(const Node *n)
{
	return n->state == NODE_ONLINE && n->unlogged != NULL && n->unlogged->state == UNLOGGED_NOWHERE &&
		loop_now_us() - n->online_since < PATIENCE_US;
}

/* It has not all that it should have, either. */
static bool
lacks(const Node *n)
{
	return n->unlogged != NULL && (n->unlogged->lacks > 0 || n->unlogged->state == UNLOGGED_NOWHERE);
}

static Node *
find_sender(const struct UnloggedTables *u)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *other = node_get(i);

		if (other != u->node && other->state == NODE_ONLINE && !other->draining && !lacks(other))
			return other;
	}
	return NULL;
}

/*
 * TRUNCATE may not have been possible at once.  What another node has that has come online since, clients
 * may have written.
 */
static void
begin_online(struct UnloggedTables *u)
{
	Node	   *other = find_sender(u);

	begin_sending(u, other != NULL ? other : u->node);
}

/* Will it be a sender soon? */
static bool
is_coming(const Node *n)
{
	if (n->administrative)
		return false;
	if (n->state == NODE_DROPPED && loop_now_us() - n->state_since < GRACE_US)
		return true;
	return n->state == NODE_CATCHUP ?
		n->unlogged == NULL || n->unlogged->state == UNLOGGED_UNKNOWN || n->unlogged->state == UNLOGGED_ASKING ||
		n->unlogged->state == UNLOGGED_SETTLED :
		n->attach != NULL;
}

static void
on_look(void *arg)
{
	struct UnloggedTables *u = arg;

	u->timer = NULL;
	look_for_sender(u);
}

static void
look_for_sender(struct UnloggedTables *u)
{
	Node	   *from = find_sender(u);
	Node	   *some = NULL;	/* can send what it does not lack itself */
	bool		coming = false;

	for (int i = 0; from == NULL && i < nodes_count(); i++)
	{
		Node	   *other = node_get(i);

		if (other == u->node)
			continue;
		if (other->state == NODE_ONLINE && !is_unsettled(other) && !other->draining)
			some = other;
		else
			coming |= other->state == NODE_ONLINE || is_coming(other);
	}
	if (from == NULL && !coming)
		from = some;
	if (from != NULL)
	{
		begin_sending(u, from);
		return;
	}
	if (coming)
	{
		look_again_later(u, LOOK_MS, on_look);
		return;
	}
	u->state = UNLOGGED_NOWHERE;
	node_pump(u->node);
}

/* ---------- is anything missing? */

static void
on_missing(void *arg, const PGresult *r)
{
	struct UnloggedTables *u = arg;
	int			count;

	if (begin_anew_if_moved(u))
		return;
	(void) metadata_databases(&count);
	if ((r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK) && !is_unknown_function(r))
		failed(u, "unlogged tables could not be asked for", error_of(r));
	else if (PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "0") != 0 && !u->fetched)
	{
		end_client(u);
		u->state = UNLOGGED_MISSING;
		look_for_sender(u);
	}
	else
	{
		if (PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "0") != 0)
		{
			u->lacks += atoi(PQgetvalue(r, 0, 0));
			log_message(LOG_WARNING, u->node->config->name, "%s of its unlogged tables in database \"%s\" could not be fetched, and stay empty until they are, or are truncated",
						PQgetvalue(r, 0, 0), u->database);
		}
		if (u->at < count - 1)
			next_database(u);
		else
			tell_settled(u);
	}
}

static void
on_connected(void *arg, const char *error)
{
	struct UnloggedTables *u = arg;

	if (error == NULL)
	{
		pgclient_query(u->client, "SELECT lockstep.missing_unlogged()", 0, NULL, on_missing, u);
		return;
	}
	u->client = NULL;			/* closes itself */
	failed(u, "unlogged tables could not be asked for", error);
}

static void
ask(struct UnloggedTables *u)
{
	(void) databases_have_moved(u);
	u->state = UNLOGGED_ASKING;
	if (current(u) == NULL)
	{
		settle(u);
		return;
	}
	connect_to(u, u->node, current(u), on_connected);
	pgclient_limit(u->client, node_stall_timeout());
}

/* ---------- called by catchup.c */

static bool
others_are_settled(const Node *n)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (node_get(i) != n && is_unsettled(node_get(i)))
			return false;
	}
	return true;
}

/* It ends without an event. */
static void
on_patience(void *arg)
{
	struct UnloggedTables *u = arg;

	u->timer = NULL;
	node_pump(u->node);
}

bool
unlogged_tables_may_go_online(Node *n)
{
	struct UnloggedTables *u = n->unlogged;

	if (u == NULL)
	{
		u = n->unlogged = xcalloc(1, sizeof(struct UnloggedTables));
		u->node = n;
	}
	if (u->state == UNLOGGED_APPLYING && n->applied >= u->until)
	{
		u->fetched = true;
		u->state = UNLOGGED_UNKNOWN;
	}
	if (u->state == UNLOGGED_UNKNOWN)
		ask(u);
	if (u->state != UNLOGGED_SETTLED && u->state != UNLOGGED_NOWHERE)
		strcpy(n->reason, "waits for its unlogged tables");
	else if (others_are_settled(n))
		return true;
	else
	{
		strcpy(n->reason, "waits until unlogged tables are emptied");
		look_again_later(u, LOOK_MS, on_patience);
	}
	return false;
}

static void
on_told(void *arg, const PGresult *r)
{
	const Node *n = arg;

	/* if the connection is lost, the node is out */
	if (r != NULL && PQresultStatus(r) == PGRES_FATAL_ERROR && !is_unknown_function(r))
		log_message(LOG_WARNING, n->config->name, "could not tell the node that readers need not wait for its unlogged tables: %s", error_of(r));
}

/*
 * Readers who have waited since the crash go on at once, as nothing is left: the locks that they have would
 * keep TRUNCATE out.
 */
void
unlogged_tables_online(Node *n)
{
	if (n->unlogged != NULL && n->unlogged->lacks > 0)
		snprintf(n->reason, sizeof(n->reason), "came online without the rows of %d unlogged tables", n->unlogged->lacks);
	if (n->unlogged == NULL || n->unlogged->state != UNLOGGED_NOWHERE)
		return;
	pgclient_query(n->control, "SELECT lockstep.unlogged_settled()", 0, NULL, on_told, n);
	begin_online(n->unlogged);
}
