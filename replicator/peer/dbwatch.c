/*
 * dbwatch.c
 *	  Checking once a second that a database of a node is still the one that was
 *	  attached.
 *
 * In a database whose extension was dropped, or that was replaced by another of the
 * same name, writes would succeed and not be replicated.  So the OID must stay the
 * same, the extension must exist, and the cluster's identity must be this
 * cluster's; otherwise the node is dropped with that as the reason.
 *
 * The query uses a connection of its own, which lives as long as the database's
 * pool of apply connections.
 */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "metadata.h"
#include "peer.h"

#define LOOK_MS 1000

struct DbWatch
{
	Pool	   *pool;
	Timer	   *timer;
	PgClient   *client;			/* NULL: not connected */
	bool		told;			/* that it can't be connected to */
	char		oid[16];		/* at the first look; '': there was none yet */
	Deferred	bury;
};

static const char look_query[] =
"SELECT d.oid, EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'lockstep') "
"AND pg_catalog.to_regclass('lockstep.progress') IS NOT NULL, (SELECT cluster FROM lockstep.cluster LIMIT 1) "
"FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";

static void look_later(DbWatch *w);

/* What is wrong with it, or DROP_NONE. */
static DropCause
what_is_wrong(DbWatch *w, const PGresult *r)
{
	const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

	/* there is no such schema, or table */
	if (sqlstate != NULL && (strcmp(sqlstate, "3F000") == 0 || strcmp(sqlstate, "42P01") == 0))
		return DROP_EXTENSION_GONE;
	if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
		return DROP_NONE;		/* that it can't be asked is found out
								 * elsewhere */
	if (w->oid[0] == '\0')
		snprintf(w->oid, sizeof(w->oid), "%s", PQgetvalue(r, 0, 0));
	if (strcmp(w->oid, PQgetvalue(r, 0, 0)) != 0)
		return DROP_DATABASE_REPLACED;
	if (PQgetvalue(r, 0, 1)[0] != 't')
		return DROP_EXTENSION_GONE;
	if (PQgetvalue(r, 0, 2)[0] == '\0')
		return DROP_IDENTITY_GONE;
	if (strcmp(PQgetvalue(r, 0, 2), node_cluster) != 0)
		return DROP_IDENTITY_CHANGED;
	return DROP_NONE;
}

static void
on_answer(void *arg, const PGresult *r)
{
	DbWatch    *w = arg;
	DropCause	wrong = r != NULL ? what_is_wrong(w, r) : DROP_NONE;

	if (wrong != DROP_NONE)
		node_out(w->pool->node, wrong, FACTS(.database = w->pool->database,.expected = w->oid,
											 .found = wrong == DROP_DATABASE_REPLACED ? PQgetvalue(r, 0, 0) : wrong == DROP_IDENTITY_CHANGED ? PQgetvalue(r, 0, 2) : NULL));
	else if (r != NULL)
		look_later(w);			/* else on_lost() comes */
}

static void
on_lost(void *arg, const char *error)
{
	DbWatch    *w = arg;

	w->client = NULL;			/* closes itself */
	look_later(w);
}

static void
on_connected(void *arg, const char *error)
{
	DbWatch    *w = arg;

	if (error != NULL)
	{
		/* a database that is gone has lost its apply connections, too */
		if (!w->told)
			log_message(LOG_WARNING, w->pool->node->config->name, "could not check database \"%s\": %s",
						w->pool->database, error);
		w->told = true;
		w->client = NULL;		/* closes itself */
		look_later(w);
		return;
	}
	w->told = false;
	pgclient_limit(w->client, node_stall_timeout());
	pgclient_on_lost(w->client, on_lost, w);
	pgclient_query(w->client, look_query, 0, NULL, on_answer, w);
}

/* Not while it is being attached, added or dropped. */
static bool
is_replicated(const Pool *p)
{
	return (p->node->state == NODE_CATCHUP || p->node->state == NODE_ONLINE) && !p->closing &&
		metadata_has_database(p->database);
}

static void
look(void *arg)
{
	DbWatch    *w = arg;
	Pool	   *p = w->pool;

	w->timer = NULL;
	if (!is_replicated(p))
		look_later(w);
	else if (w->client != NULL)
		pgclient_query(w->client, look_query, 0, NULL, on_answer, w);
	else
		w->client = pgclient_open(p->node->config, p->database, "lockstep control",
								  pgclient_control_options, node_stall_timeout(), on_connected, w);
}

static void
look_later(DbWatch *w)
{
	if (w->timer == NULL)		/* a connection may be lost between two looks */
		w->timer = loop_after(LOOK_MS, look, w);
}

static void
on_bury(void *arg)
{
	free(arg);
}

DbWatch *
dbwatch_begin(Pool *p)
{
	DbWatch    *w = xcalloc(1, sizeof(DbWatch));

	w->pool = p;
	w->bury.callback = on_bury;
	w->bury.arg = w;
	look_later(w);
	return w;
}

/* Its memory stays until the round is over: a callback of its may have ended it. */
void
dbwatch_end(DbWatch *w)
{
	loop_cancel(w->timer);
	w->timer = NULL;
	pgclient_close(w->client);
	w->client = NULL;
	loop_defer(&w->bury);
}
