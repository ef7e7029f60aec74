/*
 * kept_progress.c
 *	  The progress of a database that a node loses.
 */
#include <string.h>

#include "dbcheck.h"
#include "kept_progress.h"

const char *
progress_keeper(const Node *n, const char *database)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		if (!p->closing && strcmp(p->database, database) != 0)
			return p->database;
	}
	return NULL;
}

/* The column chain came with version 1.1. */
void
progress_ask(PgClient *client, PgDone done, void *arg)
{
	pgclient_query(client, "SELECT p.seq, to_jsonb(p) ->> 'chain' FROM lockstep.progress p ORDER BY p.seq DESC LIMIT 1",
				   0, NULL, done, arg);
}

bool
progress_has_no_extension(const PGresult *r)
{
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

	return sqlstate != NULL && (strcmp(sqlstate, "42P01") == 0 || strcmp(sqlstate, "3F000") == 0);
}

/* If the first command fails, so does the second, or the row is there and says more. */
void
progress_keep(PgClient *client, const char *seq, const char *chain, PgDone done, void *arg)
{
	const char *params[] = {seq, chain};

	pgclient_query(client, "SET synchronous_commit = local", 0, NULL, NULL, NULL);
	pgclient_query(client, "DELETE FROM lockstep.progress WHERE slot = " KEPT_SLOT " AND seq < $1", 1, params, NULL, NULL);
	pgclient_query(client, "INSERT INTO lockstep.progress SELECT (jsonb_populate_record(p, jsonb_build_object('slot', " KEPT_SLOT
				   ", 'seq', $1::bigint, 'chain', $2::bigint))).* FROM (SELECT NULL::lockstep.progress) AS n (p) ON CONFLICT DO NOTHING",
				   2, params, done, arg);
}
