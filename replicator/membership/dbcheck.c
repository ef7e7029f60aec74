/*
 * dbcheck.c
 *	  Looking at one database of one node before anything is changed.
 *
 * What must be equal on all nodes is in dbfacts.c.  The content is compared by
 * fingerprints: one line per object, its name and a hash of what
 * lockstep.fingerprint() says of it.
 *
 * Before the content is read, transactions that may have changed something
 * before the extension was there have to end: what they did is not captured,
 * and no other session has it until they commit.  A transaction that has not yet locked
 * a table for writing will find the extension when it does.
 *
 * Every question must be answered in stall_timeout.  Reading the content may
 * take as long as it needs: meanwhile new connections are tried, to see whether
 * the server is there.
 */
#include "dbcheck.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "dbfacts.h"
#include "log.h"
#include "sequencer.h"

struct DbCheck
{
	Node	   *node;
	char	   *database;
	PgClient   *client;
	bool		create;
	bool		plain;
	DbCheckDone done;
	void	   *arg;
	bool		has_cluster;
	uint64_t	boot;
	uint64_t	progress;
	uint64_t	own_progress;
	uint64_t	chain;
	uint64_t	applied;		/* see dbcheck_report_leases() */
	char	   *reported_as;	/* the same */
	bool		knows_chains;
	bool		knows_generations;
	bool		knows_server_key;
	KnownGeneration known;
	bool		has_extension;
	bool		made_extension;
	char	   *fingerprint;
	Timer	   *timer;			/* to look again for writers; to try a
								 * connection */
	PgClient   *probe;			/* that connection */
	char	   *since;			/* transactions that began before have to end */
	int			waited_ms;		/* for them */
};

#define WRITERS_POLL_MS 50

static const char writers_query[] =
"SELECT clock_timestamp()::text, "
"(SELECT min(a.pid) FROM pg_stat_activity a JOIN pg_locks l USING (pid) "
"WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() "
"AND a.xact_start <= coalesce($1::timestamptz, clock_timestamp()) AND l.granted "
"AND ((l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock') OR (l.locktype = 'relation' "
"AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')))), "
"(SELECT min(gid) FROM pg_prepared_xacts WHERE database = current_database())";

/* ---------- telling the caller */

static void
finish(DbCheck *d)
{
	d->done(d->arg, NULL);
}

static void
fail(DbCheck *d, DropCause cause, DropFacts facts)
{
	DropReason	reason;

	facts.database = d->database;
	reason = drop_reason(cause, facts);
	d->done(d->arg, &reason);
}

/* A result with one row, or the caller has been told why not. */
static bool
has_row(DbCheck *d, const PGresult *r, const char *what)
{
	if (r == NULL)
		fail(d, DROP_ATTACH_LOST, FACTS(.what = what));
	else if (PQresultStatus(r) != PGRES_TUPLES_OK)
		fail(d, DROP_ATTACH_QUESTION, FACTS(.what = what,.error = pgclient_message(PQresultErrorMessage(r))));
	else if (PQntuples(r) != 1)
		fail(d, DROP_ATTACH_QUESTION, FACTS(.what = what,.error = "it found nothing"));
	else
		return true;
	return false;
}

/* ---------- the checks, one after the other */

/* Hexadecimal; the same in all databases. */
static bool
take_server_key(DbCheck *d, const char *hex)
{
	uint8_t		key[LS_SERVER_KEY_SIZE];
	bool		ok = strlen(hex) == 2 * LS_SERVER_KEY_SIZE;

	for (int i = 0; ok && i < LS_SERVER_KEY_SIZE; i++)
		ok = sscanf(hex + 2 * i, "%2" SCNx8, &key[i]) == 1;
	if (ok)
	{
		memcpy(d->node->server_key, key, sizeof(key));
		d->node->server_key_boot = d->boot;
	}
	return ok;
}

static void
on_server_key(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "asking for the key of its server"))
		return;
	if (take_server_key(d, PQgetvalue(r, 0, 0)))
		finish(d);
	else
		fail(d, DROP_ATTACH_QUESTION, FACTS(.what = "asking for the key of its server",.error = "it is no key"));
}

/* Of the start that node_info() has told: another one has other connections. */
static void
ask_server_key(DbCheck *d)
{
	if (d->knows_server_key)
		pgclient_query(d->client, "SELECT encode(lockstep.server_key(), 'hex')", 0, NULL, on_server_key, d);
	else
		finish(d);
}

static void
on_generation(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "asking for the replicator that it follows"))
		return;
	d->known.number = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
	d->known.run = (uint64_t) strtoll(PQgetvalue(r, 0, 1), NULL, 10);
	d->known.silent_ms = PQgetisnull(r, 0, 2) ? -1 : strtoll(PQgetvalue(r, 0, 2), NULL, 10);
	ask_server_key(d);
}

static void
ask_generation(DbCheck *d)
{
	if (d->knows_generations)
		pgclient_query(d->client, "SELECT generation, run, silent_ms FROM lockstep.known_generation()", 0, NULL, on_generation, d);
	else
		ask_server_key(d);
}

/* One that has applied nothing yet is compared with the others as a whole. */
static void
on_outside(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "asking whether it has run without lockstep"))
		return;
	if (PQgetvalue(r, 0, 0)[0] != '\0')
		fail(d, DROP_OUTSIDE_RUN, FACTS(.error = PQgetvalue(r, 0, 0)));
	else
		ask_generation(d);
}

static void
on_info(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;
	const char *cluster;
	bool		knows_outside;

	if (!has_row(d, r, "asking for the node's state"))
		return;
	cluster = PQgetvalue(r, 0, 1);
	d->has_cluster = cluster[0] != '\0';
	d->boot = strtoull(PQgetvalue(r, 0, 2), NULL, 10);
	d->progress = strtoull(PQgetvalue(r, 0, 3), NULL, 10);
	d->chain = (uint64_t) strtoll(PQgetvalue(r, 0, 4), NULL, 10);
	d->knows_chains = PQgetvalue(r, 0, 5)[0] == 't';
	d->knows_generations = PQgetvalue(r, 0, 6)[0] == 't';
	knows_outside = PQgetvalue(r, 0, 7)[0] == 't';
	d->knows_server_key = PQgetvalue(r, 0, 8)[0] == 't';
	d->own_progress = strtoull(PQgetvalue(r, 0, 9), NULL, 10);
	if (strcmp(PQgetvalue(r, 0, 0), d->node->config->name) != 0)
		fail(d, DROP_OTHER_NAME, FACTS(.self = d->node->config->name,.found = PQgetvalue(r, 0, 0)));
	else if (d->has_cluster && strcmp(cluster, node_cluster) != 0)
		fail(d, DROP_OTHER_CLUSTER, FACTS(.found = cluster));
	else if (!d->has_cluster && d->progress > 0)
		fail(d, DROP_NO_CLUSTER, FACTS(.seq = d->progress));
	else if (knows_outside && d->has_cluster && d->progress > 0)
		pgclient_query(d->client, "SELECT coalesce(lockstep.outside_run(), '')", 0, NULL, on_outside, d);
	else
		ask_generation(d);
}

/* Both halves of its place come from one row; the column is there from 1.1 on. */
static void
ask_info(DbCheck *d)
{
	pgclient_query(d->client, "SELECT i.node, i.cluster, i.boot, coalesce(p.seq, 0), coalesce(to_jsonb(p) ->> 'chain', '0'), "
				   "to_regprocedure('lockstep.turn_open(bigint,bigint)') IS NOT NULL, "
				   "to_regprocedure('lockstep.enter_generation(bigint,bigint)') IS NOT NULL, "
				   "to_regprocedure('lockstep.outside_run()') IS NOT NULL, "
				   "to_regprocedure('lockstep.server_key()') IS NOT NULL, "
				   "coalesce((SELECT max(seq) FROM lockstep.progress WHERE slot <> " KEPT_SLOT "), 0) "
				   "FROM lockstep.node_info() i LEFT JOIN "
				   "(SELECT * FROM lockstep.progress ORDER BY seq DESC LIMIT 1) p ON true", 0, NULL, on_info, d);
}

static void
on_cleared(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "canceling what is in the way of its state"))
		return;
	if (strcmp(PQgetvalue(r, 0, 0), "0") != 0)
		log_message(LOG_INFO, d->node->config->name, "canceled %s commands that waited for lockstep.progress in database \"%s\"",
					PQgetvalue(r, 0, 0), d->database);
	ask_info(d);
}

/*
 * VACUUM FULL and REINDEX of a database come to lockstep.progress.  There they wait for a transaction that waits for its turn, for
 * which the node has to be attached; and the next question would wait behind them.
 */
static void
clear_the_way(DbCheck *d)
{
	pgclient_query(d->client, "SELECT count(pg_catalog.pg_cancel_backend(pid)) FROM pg_catalog.pg_locks "
				   "WHERE relation = pg_catalog.to_regclass('lockstep.progress') AND NOT granted "
				   "AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) "
				   "AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')", 0, NULL, on_cleared, d);
}

static void
on_created(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	d->made_extension = r != NULL && PQresultStatus(r) == PGRES_COMMAND_OK;
	if (!d->made_extension)
		fail(d, DROP_ATTACH_QUESTION, FACTS(.what = "creating the extension",
											.error = r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost"));
	else
		ask_info(d);
}

static void
next_after_facts(DbCheck *d)
{
	if (d->plain)
		finish(d);
	else if (d->has_extension)
		clear_the_way(d);
	else if (d->create)
		pgclient_query(d->client, "CREATE EXTENSION lockstep", 0, NULL, on_created, d);
	else
		fail(d, DROP_NO_EXTENSION, FACTS());
}

/* What the operator had better know; nothing depends on it. */
static void
on_advice(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (r == NULL)
		fail(d, DROP_ATTACH_LOST, FACTS(.what = "asking for its properties"));
	else
	{
		dbfacts_advise(d->node, d->database, r);
		next_after_facts(d);
	}
}

static void
on_facts(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;
	char	   *difference;

	if (!has_row(d, r, "asking for its properties"))
		return;
	difference = dbfacts_difference(d->node, d->database, r);
	if (difference != NULL)
	{
		fail(d, DROP_PROPERTIES, FACTS(.error = difference));
		free(difference);
		return;
	}
	dbfacts_remember(d->node, d->database, r);
	d->has_extension = dbfacts_value(r, DBFACTS_EXTENSION)[0] != '\0';
	if (dbfacts_value(r, DBFACTS_RECOVERY)[0] == 't')
		fail(d, DROP_STANDBY, FACTS());
	else if (dbfacts_value(r, DBFACTS_SUPERUSER)[0] != 't')
		fail(d, DROP_NO_SUPERUSER, FACTS());
	else if (!d->plain && dbfacts_value(r, DBFACTS_NODE_NAME)[0] == '\0')
		fail(d, DROP_NO_NODE, FACTS());
	else
		pgclient_query(d->client, dbfacts_advice_query, 0, NULL, on_advice, d);
}

static void
on_connected(void *arg, const char *error)
{
	DbCheck    *d = arg;

	if (error != NULL)
		d->client = NULL;		/* closes itself */
	if (error != NULL)
		fail(d, DROP_CONNECT, FACTS(.error = error));
	else
		pgclient_query(d->client, dbfacts_query, 0, NULL, on_facts, d);
}

static void
stop_probing(DbCheck *d)
{
	loop_cancel(d->timer);
	d->timer = NULL;
	pgclient_close(d->probe);
	d->probe = NULL;
}

static void
on_client_lost(void *arg, const char *error)
{
	((DbCheck *) arg)->client = NULL;	/* closes itself */
}

/* false: it was lost, between two questions; the caller has been told. */
static bool
has_client(DbCheck *d)
{
	if (d->client == NULL)
		fail(d, DROP_ATTACH_LOST, FACTS(.what = "it was being attached"));
	return d->client != NULL;
}

DbCheck *
dbcheck_open(Node *n, const char *database, bool create, bool plain, DbCheckDone done, void *arg)
{
	DbCheck    *d = xcalloc(1, sizeof(DbCheck));

	d->node = n;
	d->database = xstrdup(database);
	d->create = create;
	d->plain = plain;
	d->done = done;
	d->arg = arg;
	d->client = pgclient_open(n->config, database, "lockstep control",
							  pgclient_control_options, node_stall_timeout(), on_connected, d);
	pgclient_limit(d->client, node_stall_timeout());
	pgclient_on_lost(d->client, on_client_lost, d);
	return d;
}

void
dbcheck_free(DbCheck *d)
{
	if (d == NULL)
		return;
	stop_probing(d);
	pgclient_close(d->client);
	free(d->since);
	free(d->fingerprint);
	free(d->reported_as);
	free(d->database);
	free(d);
}

/* ---------- content */

static void look_for_writers(void *arg);
static void try_connection(void *arg);

static void
append_object(Buffer *b, const char *object, const char *value)
{
	XXH128_hash_t hash = XXH3_128bits(value, strlen(value));
	char		line[40];

	for (const char *p = object; *p != '\0'; p++)
		buffer_append(b, *p == '\n' || *p == '\t' ? " " : p, 1);
	snprintf(line, sizeof(line), "\t%016" PRIx64 "%016" PRIx64 "\n", (uint64_t) hash.high64, (uint64_t) hash.low64);
	buffer_append(b, line, strlen(line));
}

static void
on_fingerprint(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;
	Buffer		text = {0};

	stop_probing(d);
	pgclient_limit(d->client, node_stall_timeout());
	if (r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK)
	{
		fail(d, DROP_CONTENT_UNREADABLE, FACTS(.error = r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost"));
		return;
	}
	for (int i = 0; i < PQntuples(r); i++)
		append_object(&text, PQgetvalue(r, i, 0), PQgetvalue(r, i, 1));
	buffer_append(&text, "", 1);
	free(d->fingerprint);
	d->fingerprint = (char *) text.data;
	finish(d);
}

/* Is the server there still? */
static void
on_probed(void *arg, const char *error)
{
	DbCheck    *d = arg;
	PgClient   *probe = d->probe;

	d->probe = NULL;
	if (error != NULL)
	{
		pgclient_close_at(&d->client);	/* nothing is heard of it any more */
		fail(d, DROP_CONTENT_SILENT, FACTS(.error = error));
	}
	else
	{
		pgclient_close(probe);
		d->timer = loop_after(node_stall_timeout(), try_connection, d);
	}
}

static void
try_connection(void *arg)
{
	DbCheck    *d = arg;

	d->timer = NULL;
	d->probe = pgclient_open(d->node->config, d->database, "lockstep control",
							 pgclient_control_options, node_stall_timeout(), on_probed, d);
}

static void
read_content(DbCheck *d)
{
	pgclient_limit(d->client, 0);
	pgclient_query(d->client, "SELECT object, value FROM lockstep.fingerprint() ORDER BY object COLLATE \"C\"",
				   0, NULL, on_fingerprint, d);
	d->timer = loop_after(node_stall_timeout(), try_connection, d);
}

static void
on_writers(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "looking for transactions that write"))
		return;
	if (d->since == NULL)
		d->since = xstrdup(PQgetvalue(r, 0, 0));
	if (!PQgetisnull(r, 0, 2))
		fail(d, DROP_PREPARED, FACTS(.found = PQgetvalue(r, 0, 2)));
	else if (PQgetisnull(r, 0, 1))
		read_content(d);
	else if (d->waited_ms > node_stall_timeout())
		fail(d, DROP_WRITER, FACTS(.pid = atoi(PQgetvalue(r, 0, 1))));
	else
		d->timer = loop_after(WRITERS_POLL_MS, look_for_writers, d);
}

static void
look_for_writers(void *arg)
{
	DbCheck    *d = arg;
	const char *params[] = {d->since};

	d->timer = NULL;
	if (!has_client(d))
		return;
	d->waited_ms += WRITERS_POLL_MS;
	pgclient_query(d->client, writers_query, 1, params, on_writers, d);
}

void
dbcheck_fingerprint(DbCheck *d, DbCheckDone done, void *arg)
{
	d->done = done;
	d->arg = arg;
	free(d->since);
	d->since = NULL;
	d->waited_ms = 0;
	look_for_writers(d);
}

/* Both are sorted by object: the line that one of them lacks names it. */
char *
fingerprint_difference(const char *a, const char *b)
{
	while (*a != '\0' || *b != '\0')
	{
		size_t		a_line = strcspn(a, "\n");
		size_t		b_line = strcspn(b, "\n");
		const char *object = *a == '\0' || (*b != '\0' && strcmp(b, a) < 0) ? b : a;

		if (a_line != b_line || memcmp(a, b, a_line) != 0)
			return xstrndup(object, strcspn(object, "\t\n"));
		a += a_line + (a[a_line] == '\n');
		b += b_line + (b[b_line] == '\n');
	}
	return NULL;
}

/* ---------- identity */

static void
on_cluster_set(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (!has_row(d, r, "setting the cluster's identity"))
		return;
	d->has_cluster = true;
	finish(d);
}

void
dbcheck_set_cluster(DbCheck *d, DbCheckDone done, void *arg)
{
	d->done = done;
	d->arg = arg;
	if (!has_client(d))
		return;
	pgclient_query(d->client, "SELECT lockstep.set_cluster($1)", 1, &node_cluster, on_cluster_set, d);
}

/* ---------- the replicator that it follows */

static void
on_entered(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	/* the server that we looked at: it has followed us, and does no more */
	if (d->node->entered_boot == d->boot)
		generation_check_result(d->node, r);
	if (!has_row(d, r, "entering the replicator's generation"))
		return;
	d->node->entered_boot = d->boot;
	finish(d);
}

void
dbcheck_enter_generation(DbCheck *d, DbCheckDone done, void *arg)
{
	GenerationParams text = generation_params(d->node);
	const char *params[] = {text.number, text.run};

	d->done = done;
	d->arg = arg;
	if (!has_client(d))
		return;
	pgclient_query(d->client, "SELECT lockstep.enter_generation($1, $2)", 2, params, on_entered, d);
}

/* ---------- leases of sequences */

static void
report_lease(const DbCheck *d, const PGresult *r, int row)
{
	size_t		len = 0;
	unsigned char *bytes = PQunescapeBytea((const unsigned char *) PQgetvalue(r, row, 3), &len);
	LsSlice		keys = {bytes, bytes != NULL ? len : 0};

	sequencer_lease_reported(ls_slice_of(d->reported_as), ls_slice_of(PQgetvalue(r, row, 0)), d->applied,
							 strtoll(PQgetvalue(r, row, 1), NULL, 10), strtoll(PQgetvalue(r, row, 2), NULL, 10), keys);
	PQfreemem(bytes);
}

static void
on_leases(void *arg, const PGresult *r)
{
	DbCheck    *d = arg;

	if (r == NULL)
		fail(d, DROP_ATTACH_LOST, FACTS(.what = "asking for its leases of sequences"));
	else if (PQresultStatus(r) != PGRES_TUPLES_OK)
		fail(d, DROP_ATTACH_QUESTION, FACTS(.what = "asking for its leases of sequences",.error = pgclient_message(PQresultErrorMessage(r))));
	else
	{
		for (int i = 0; i < PQntuples(r); i++)
			report_lease(d, r, i);
		finish(d);
	}
}

#define LEASES "SELECT name, value, increment, keys FROM lockstep.sequence_leases()"

/*
 * With a journal that may be an old copy, what the sequences themselves say, too: a
 * server that was started anew has forgotten its leases, but may have handed out
 * values that no transaction has told anybody.
 */
#define POSITIONS LEASES \
" UNION ALL SELECT format('%I.%I', n.nspname, c.relname), pg_sequence_last_value(s.seqrelid), s.seqincrement, ''::bytea " \
"FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace " \
"WHERE c.relpersistence <> 't' AND NOT s.seqcycle AND pg_sequence_last_value(s.seqrelid) IS NOT NULL"

void
dbcheck_report_leases(DbCheck *d, const char *name, uint64_t applied, DbCheckDone done, void *arg)
{
	free(d->reported_as);
	d->reported_as = xstrdup(name);
	d->done = done;
	d->arg = arg;
	d->applied = applied;
	if (!has_client(d))
		return;
	if (!d->knows_generations)
		finish(d);
	else
		pgclient_query(d->client, history_doubts_journal() ? POSITIONS : LEASES, 0, NULL, on_leases, d);
}

/* ---------- what was found */

bool
dbcheck_knows_generations(const DbCheck *d)
{
	return d->knows_generations;
}

const KnownGeneration *
dbcheck_generation(const DbCheck *d)
{
	return &d->known;
}

bool
dbcheck_made_extension(const DbCheck *d)
{
	return d->made_extension;
}

const char *
dbcheck_database(const DbCheck *d)
{
	return d->database;
}

bool
dbcheck_has_cluster(const DbCheck *d)
{
	return d->has_cluster;
}

uint64_t
dbcheck_boot(const DbCheck *d)
{
	return d->boot;
}

uint64_t
dbcheck_progress(const DbCheck *d)
{
	return d->progress;
}

uint64_t
dbcheck_own_progress(const DbCheck *d)
{
	return d->own_progress;
}

uint64_t
dbcheck_chain(const DbCheck *d)
{
	return d->chain;
}

bool
dbcheck_knows_chains(const DbCheck *d)
{
	return d->knows_chains;
}

const char *
dbcheck_found(const DbCheck *d)
{
	return d->fingerprint;
}

PgClient *
dbcheck_client(const DbCheck *d)
{
	return d->client;
}

PgClient *
dbcheck_take_client(DbCheck *d)
{
	PgClient   *client = d->client;

	pgclient_limit(client, 0);	/* control_connection.c has its own */
	d->client = NULL;
	return client;
}
