/*
 * adopt.c
 *	  A new journal that begins where the nodes are.
 *
 * When the journal is lost, or only an old copy is left, the nodes are the truth.
 * Commits are in one order on all of them, and a client that was told that a transaction
 * is committed was told so by a node that had committed it: so the one that has
 * come furthest has everything that was acknowledged anywhere, unless a server has
 * crashed and lost the end of its WAL (lockstep.local_flush).  The new journal
 * has no transaction; it begins behind that node's place, with the chain that is
 * stored there, so that every node of the same place goes on with it at once, and
 * none of another.  Those that are behind have to be cloned.
 *
 *	 1. every node of replicator.conf is looked at, or nothing is done
 *	 2. none may have gone on since its server was started: it could still hand
 *		out values of sequences that the old journal leased, or have backends that
 *		wait for a turn that the old journal gave them
 *	 3. positions of sequences are made equal on the nodes that go on
 *	 4. the journal, with the databases that are replicated
 *
 * Runs instead of the replicator, in the foreground, with blocking connections.
 * Failing at any step leaves nothing that doing it again would mind.
 */
#include "adopt.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "journal.h"
#include "metadata.h"
#include "node_certificate.h"
#include "offline.h"

typedef struct FoundNode
{
	const NodeConfig *config;
	char		cluster[33];
	uint64_t	seq;
	uint64_t	chain;
	uint64_t	generation;		/* the highest that it has followed, and its
								 * run */
	uint64_t	run;
	bool		forgetful;		/* its server crashed, and may have lost
								 * commits */
	int			ndatabases;
	char	  **databases;
} FoundNode;

static FoundNode found[CONFIG_MAX_NODES];
static int	nfound;

/* ---------- asking a node */

/* What users give the role or the database must not matter (usersettings.c of the extension). */
static const char session_options[] =
"-c role=none -c session_preload_libraries= -c local_preload_libraries= "
"-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 "
"-c idle_session_timeout=0 -c search_path=pg_catalog -c lockstep.replicate=off";

/* The value of a connection option set for the session; NULL: why has been said. */
static PGconn *
open_database(const Config *config, const NodeConfig *node, const char *database)
{
	char		timeout[16];
	const char *keywords[] = {"connect_timeout", "dbname", "dbname", "application_name", "options", NULL};
	const char *values[] = {timeout, node->conninfo, database, "lockstep adopt", session_options, NULL};
	PGconn	   *conn;
	char	   *wrong;

	snprintf(timeout, sizeof(timeout), "%d", config->node_timeout / 1000 > 2 ? config->node_timeout / 1000 : 2);
	conn = PQconnectdbParams(keywords, values, 1);
	wrong = PQstatus(conn) == CONNECTION_OK ? node_certificate_check(conn, node->name) : NULL;
	if (PQstatus(conn) == CONNECTION_OK && wrong == NULL)
		return conn;
	offline_refuse("Every node of replicator.conf is needed, as it may be the one that has come furthest. Take out the line of "
				   "one that is gone for good: what only that one had is lost.",
				   "node \"%s\", database \"%s\": %s", node->name, database, wrong != NULL ? wrong : PQerrorMessage(conn));
	free(wrong);
	PQfinish(conn);
	return NULL;
}

/* Rows of a query; NULL: why has been said. */
static PGresult *
rows_of(const NodeConfig *node, PGconn *conn, const char *query)
{
	PGresult   *r = PQexec(conn, query);

	if (PQresultStatus(r) == PGRES_TUPLES_OK)
		return r;
	offline_refuse(NULL, "node \"%s\", database \"%s\": %s", node->name, PQdb(conn), PQerrorMessage(conn));
	PQclear(r);
	return NULL;
}

static bool
take_place(FoundNode *f, const char *database, const PGresult *r)
{
	const char *cluster = PQgetvalue(r, 0, 1);
	uint64_t	seq = strtoull(PQgetvalue(r, 0, 3), NULL, 10);

	if (strcmp(PQgetvalue(r, 0, 0), f->config->name) != 0)
		return offline_refuse(NULL, "node \"%s\": the server calls itself \"%s\"", f->config->name, PQgetvalue(r, 0, 0));
	if (cluster[0] == '\0')
		return true;			/* the extension is there, but it was never
								 * replicated */
	if (strlen(cluster) != sizeof(f->cluster) - 1)
		return offline_refuse(NULL, "node \"%s\", database \"%s\": the identity of its cluster is malformed", f->config->name, database);
	if (f->cluster[0] != '\0' && strcmp(f->cluster, cluster) != 0)
		return offline_refuse(NULL, "node \"%s\": its databases belong to several clusters", f->config->name);
	if (PQgetvalue(r, 0, 2)[0] == 't')
		return offline_refuse("It may hold values of sequences that the old journal leased, and transactions that wait for their turn.",
							  "node \"%s\" has been attached since its server was started: restart the server first",
							  f->config->name);
	memcpy(f->cluster, cluster, sizeof(f->cluster));
	f->databases = xrealloc(f->databases, (size_t) (f->ndatabases + 1) * sizeof(char *));
	f->databases[f->ndatabases++] = xstrdup(database);
	if (seq > f->seq)
	{
		f->seq = seq;
		f->chain = (uint64_t) strtoll(PQgetvalue(r, 0, 4), NULL, 10);
	}
	return true;
}

/* The new journal's first start takes one above all of them. */
static bool
take_generation(FoundNode *f, PGconn *conn)
{
	PGresult   *r = rows_of(f->config, conn, "SELECT to_regprocedure('lockstep.known_generation()') IS NOT NULL");
	bool		ok = r != NULL;

	if (ok && PQgetvalue(r, 0, 0)[0] == 't')
	{
		PQclear(r);
		r = rows_of(f->config, conn, "SELECT generation, run FROM lockstep.known_generation()");
		ok = r != NULL;
		if (ok && strtoull(PQgetvalue(r, 0, 0), NULL, 10) > f->generation)
		{
			f->generation = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
			f->run = (uint64_t) strtoll(PQgetvalue(r, 0, 1), NULL, 10);
		}
	}
	PQclear(r);
	return ok;
}

/* COMMIT relies on the journal, which is lost, and not on the server's own WAL. */
static bool
look_at_crash(FoundNode *f, PGconn *conn)
{
	PGresult   *r = rows_of(f->config, conn, "SELECT to_regprocedure('lockstep.recovered()') IS NOT NULL");
	bool		known = r != NULL && PQgetvalue(r, 0, 0)[0] == 't';
	bool		ok = r != NULL;

	PQclear(r);
	if (!known)
		return ok;				/* SQL objects of version 1.0 */
	r = rows_of(f->config, conn, "SELECT lockstep.recovered()");
	ok = r != NULL;
	f->forgetful |= ok && PQgetvalue(r, 0, 0)[0] == 'f';
	PQclear(r);
	return ok;
}

static bool
look_at_progress(FoundNode *f, const char *database, PGconn *conn)
{
	PGresult   *r = rows_of(f->config, conn, "SELECT i.node, i.cluster, i.turn_open, coalesce(p.seq, 0), "
							"coalesce(to_jsonb(p) ->> 'chain', '0') FROM lockstep.node_info() i LEFT JOIN "
							"(SELECT * FROM lockstep.progress ORDER BY seq DESC LIMIT 1) p ON true");
	bool		ok = r != NULL && take_place(f, database, r);

	PQclear(r);
	return ok && take_generation(f, conn) && look_at_crash(f, conn);
}

static bool
look_at_database(const Config *config, FoundNode *f, const char *database)
{
	PGconn	   *conn = open_database(config, f->config, database);
	PGresult   *r;
	bool		ok;

	if (conn == NULL)
		return false;
	r = rows_of(f->config, conn, "SELECT to_regclass('lockstep.progress') IS NOT NULL");
	ok = r != NULL && (PQgetvalue(r, 0, 0)[0] == 'f' || look_at_progress(f, database, conn));
	PQclear(r);
	PQfinish(conn);
	return ok;
}

static bool
look_at_node(const Config *config, FoundNode *f)
{
	PGconn	   *conn = open_database(config, f->config, config->maintenance_database);
	PGresult   *r;
	bool		ok;

	if (conn == NULL)
		return false;
	r = rows_of(f->config, conn, "SELECT datname FROM pg_database WHERE datallowconn AND NOT pg_is_in_recovery() ORDER BY datname");
	PQfinish(conn);
	ok = r != NULL;
	if (ok && PQntuples(r) == 0)
		ok = offline_refuse(NULL, "node \"%s\" is a standby", f->config->name);
	for (int i = 0; ok && i < PQntuples(r); i++)
		ok = look_at_database(config, f, PQgetvalue(r, i, 0));
	PQclear(r);
	if (ok && f->ndatabases == 0)
		ok = offline_refuse("Take its line out of replicator.conf for now.",
							"node \"%s\" has no database that was ever replicated", f->config->name);
	if (ok)
		printf("node %s: seq %" PRIu64 ", chain %016" PRIx64 ", %d database%s\n", f->config->name, f->seq, f->chain,
			   f->ndatabases, f->ndatabases == 1 ? "" : "s");
	return ok;
}

/* ---------- which of them goes on */

static bool
goes_on(const FoundNode *f, const FoundNode *furthest)
{
	return f->seq == furthest->seq;
}

static bool
same_databases(const FoundNode *a, const FoundNode *b)
{
	if (a->ndatabases != b->ndatabases)
		return false;
	for (int i = 0; i < a->ndatabases; i++)
	{
		if (strcmp(a->databases[i], b->databases[i]) != 0)
			return false;
	}
	return true;
}

/* NULL: they don't fit together. */
static const FoundNode *
find_furthest(void)
{
	const FoundNode *furthest = &found[0];

	for (int i = 1; i < nfound; i++)
	{
		if (strcmp(found[i].cluster, furthest->cluster) != 0)
		{
			offline_refuse("Remove the lines of nodes that do not belong to it from replicator.conf.",
						   "nodes \"%s\" and \"%s\" belong to different clusters", furthest->config->name, found[i].config->name);
			return NULL;
		}
		if (found[i].seq > furthest->seq)
			furthest = &found[i];
	}
	for (int i = 0; i < nfound; i++)
	{
		const char *hint = "Choose: take the line of the other one out of replicator.conf, and clone it anew later.";

		if (!goes_on(&found[i], furthest))
			continue;
		if (found[i].chain != furthest->chain)
			offline_refuse(hint, "nodes \"%s\" and \"%s\" have different transactions %" PRIu64 ": their histories differ",
						   furthest->config->name, found[i].config->name, furthest->seq);
		else if (!same_databases(&found[i], furthest))
			offline_refuse(hint, "nodes \"%s\" and \"%s\" have different replicated databases", furthest->config->name, found[i].config->name);
		else
			continue;
		return NULL;
	}
	return furthest;
}

/* ---------- sequences */

static const char positions_query[] =
"SELECT format('%I.%I', n.nspname, c.relname), s.seqincrement > 0 AS up, pg_sequence_last_value(s.seqrelid) AS value "
"FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
"WHERE c.relpersistence <> 't' AND NOT s.seqcycle AND pg_sequence_last_value(s.seqrelid) IS NOT NULL ORDER BY 1";

/* Move the sequences of one node to these positions, where they are behind. */
static bool
move_sequences(const NodeConfig *node, PGconn *conn, const PGresult *positions)
{
	PGresult   *r = rows_of(node, conn, "SELECT set_config('lockstep.replicate', 'off', false)");
	bool		ok = r != NULL;

	PQclear(r);
	for (int i = 0; ok && i < PQntuples(positions); i++)
	{
		const char *params[] = {PQgetvalue(positions, i, 0), PQgetvalue(positions, i, 2), PQgetvalue(positions, i, 1)};

		r = PQexecParams(conn, "SELECT setval($1::text::regclass, $2::bigint) WHERE CASE "
						 "WHEN pg_sequence_last_value($1::text::regclass) IS NULL THEN true "
						 "WHEN $3::bool THEN pg_sequence_last_value($1::text::regclass) < $2::bigint "
						 "ELSE pg_sequence_last_value($1::text::regclass) > $2::bigint END",
						 3, NULL, params, NULL, NULL, 0);
		ok = PQresultStatus(r) == PGRES_TUPLES_OK;
		if (!ok)
			offline_refuse(NULL, "node \"%s\", sequence %s: %s", node->name, params[0], PQerrorMessage(conn));
		else if (PQntuples(r) > 0)
			printf("node %s: sequence %s of database %s moves to %s, as far as another node has handed it out\n",
				   node->name, params[0], PQdb(conn), params[1]);
		PQclear(r);
	}
	return ok;
}

/* Each of those that go on gets the positions of each. */
static bool
level_sequences(const Config *config, const FoundNode *furthest, const char *database)
{
	PGconn	   *conns[CONFIG_MAX_NODES] = {NULL};
	bool		ok = true;

	for (int i = 0; ok && i < nfound; i++)
	{
		if (goes_on(&found[i], furthest))
			ok = (conns[i] = open_database(config, found[i].config, database)) != NULL;
	}
	for (int i = 0; ok && i < nfound; i++)
	{
		PGresult   *positions = conns[i] != NULL ? rows_of(found[i].config, conns[i], positions_query) : NULL;

		ok = conns[i] == NULL || positions != NULL;
		for (int to = 0; ok && positions != NULL && to < nfound; to++)
		{
			if (to != i && conns[to] != NULL)
				ok = move_sequences(found[to].config, conns[to], positions);
		}
		PQclear(positions);
	}
	for (int i = 0; i < nfound; i++)
		PQfinish(conns[i]);
	return ok;
}

/* ---------- the journal */

static bool
make_journal(const Config *config, const FoundNode *furthest)
{
	Buffer		head = {0};
	char		text[CHAIN_TEXT_SIZE];
	char		generation[GENERATION_TEXT_SIZE];
	const FoundNode *latest = furthest;
	const char *error;
	LsSlice		bytes;
	bool		ok;

	if (furthest->chain != 0)
	{
		journal_chain_text(text, furthest->chain);
		metadata_encode_record(&head, RECORD_CHAIN, furthest->seq, ls_slice_of(text));
	}
	for (int i = 0; i < nfound; i++)
	{
		if (found[i].generation > latest->generation)
			latest = &found[i];
	}
	if (latest->generation != 0)
	{
		metadata_generation_text(generation, latest->generation, latest->run);
		metadata_encode_record(&head, RECORD_GENERATION, furthest->seq, ls_slice_of(generation));
	}
	for (int i = 0; i < furthest->ndatabases; i++)
		metadata_encode_record(&head, RECORD_DATABASE_ADDED, furthest->seq, ls_slice_of(furthest->databases[i]));
	bytes.data = head.data;
	bytes.len = head.len;
	ok = journal_create(config->journal_directory, (size_t) config->journal_segment_size, furthest->cluster,
						furthest->seq + 1, bytes, &error);
	buffer_free(&head);
	if (!ok)
		offline_refuse("Move away what is left of the old journal: this makes a new one.", "could not make a journal: %s", error);
	return ok;
}

/* Is there one that acknowledged transactions may have been lost with? */
static bool
find_forgetful(bool accept_loss)
{
	for (int i = 0; i < nfound; i++)
	{
		if (!found[i].forgetful)
			continue;
		if (!accept_loss)
			return offline_refuse("If no copy of the lost journal has them, add --accept-loss to go on without.",
								  "the server of node \"%s\" crashed, and may have lost commits that only the lost journal has",
								  found[i].config->name);
		printf("node %s crashed, and may have lost its last commits: accepted\n", found[i].config->name);
	}
	return true;
}

bool
adopt_nodes(const Config *config, bool accept_loss)
{
	const FoundNode *furthest;

	for (int i = 0; i < config->nnodes; i++)
	{
		FoundNode  *f = &found[nfound];

		f->config = &config->nodes[i];
		if (!look_at_node(config, f))
			return false;
		nfound++;
	}
	if (nfound == 0)
		return offline_refuse(NULL, "replicator.conf names no node");
	furthest = find_furthest();
	if (furthest == NULL || !find_forgetful(accept_loss))
		return false;
	for (int i = 0; i < furthest->ndatabases; i++)
	{
		if (!level_sequences(config, furthest, furthest->databases[i]))
			return false;
	}
	if (!make_journal(config, furthest))
		return false;
	printf("journal of cluster %s made in %s: it begins at seq %" PRIu64 "\n", furthest->cluster,
		   config->journal_directory, furthest->seq + 1);
	for (int i = 0; i < nfound; i++)
	{
		if (goes_on(&found[i], furthest))
			printf("node %s goes on\n", found[i].config->name);
		else
			printf("node %s lacks %" PRIu64 " transactions: clone it anew, when the others are online\n",
				   found[i].config->name, furthest->seq - found[i].seq);
	}
	return true;
}
