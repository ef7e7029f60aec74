/*
 * ctl_doctor.c
 *	  lockstepctl doctor: looks for what is wrong with the set-up, and says what to do.
 *
 * It reads only.  It looks at the replicator's files, asks the replicator for its status, and asks
 * each node, by the replicator's own connection string, the questions of the table below.  Each
 * question is a query that returns what is wrong: a text, what to do about it, and whether it is
 * a problem or a warning.  No row: all is well.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "buffer.h"
#include "config_tls.h"
#include "ctl.h"
#include "journal_usage.h"
#include "json_text.h"
#include "pgclient.h"
#include "tls_context.h"

#define CLOCK_TOLERANCE_S 2.0
#define EXPIRY_WARNING_DAYS 30
#define MIN_FREE_BYTES (INT64_C(1) << 30)

typedef struct Doctor
{
	const Config *config;
	const char *config_file;
	json_t	   *findings;		/* objects */
	int			problems;
	int			warnings;
} Doctor;

/*
 * $1: name of the node, $2: connections that the replicator needs there.  Result: text, remedy,
 * is it a problem?
 */
typedef struct Question
{
	const char *about;			/* what the query looks at */
	bool		each_database;	/* else in the maintenance database */
	const char *sql;
} Question;

static const Question questions[] = {
	{"lockstep is loaded", false,
		"SELECT 'the server has not loaded lockstep', "
		"'Add lockstep to shared_preload_libraries in its postgresql.conf, set lockstep.node_name, lockstep.replicator and lockstep.secret_file, and restart it.', true "
	"WHERE current_setting('lockstep.node_name', true) IS NULL"},
	{"name", false,
		"SELECT format('lockstep.node_name of that server is %L', current_setting('lockstep.node_name', true)), "
		"format('Set lockstep.node_name = %L there and restart it, or correct node.%s in replicator.conf.', $1, $1), true "
	"WHERE current_setting('lockstep.node_name', true) <> $1"},
	{"role", false,
		"SELECT format('role %I is no superuser', current_user), "
		"format('Name a superuser in node.%s, or: ALTER ROLE %I SUPERUSER.', $1, current_user), true "
	"WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"},
	{"standby", false,
	"SELECT 'the server is a standby', 'Name the primary in replicator.conf.', true WHERE pg_is_in_recovery()"},
	{"connections", false,
		"SELECT format('max_connections is %s, and the replicator alone needs %s', m, $2), "
		"format('Set max_connections to %s or more, and restart the server.', $2::int + 100), m < $2::int + 3 "
	"FROM (SELECT current_setting('max_connections')::int AS m) s WHERE m < $2::int + 20"},
	{"reserved connections", false,
		"SELECT format('superuser_reserved_connections is %s: clients can take the connections that the replicator needs (%s)', r, $2), "
		"format('Set superuser_reserved_connections to %s, and restart the server.', $2), false "
		"FROM (SELECT current_setting('superuser_reserved_connections')::int AS r) s "
	"WHERE r < $2::int"},
	{"durability", false,
		"SELECT format('%s is off', name), 'A crash of the machine may corrupt this server: set it on.', false "
	"FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'"},
	{"settings that need a restart", false,
		"SELECT format('%s was changed, and waits for a restart', string_agg(name, ', ')), 'Restart the server.', false "
	"FROM pg_settings WHERE pending_restart HAVING count(*) > 0"},
	{"extension", true,
		"SELECT CASE WHEN e.extversion IS NULL THEN format('database %I has no extension lockstep', current_database()) "
		"ELSE format('database %I has version %s of the extension, and %s is installed', current_database(), e.extversion, a.default_version) END, "
		"CASE WHEN e.extversion IS NULL THEN format('lockstepctl attach %s', $1) ELSE 'ALTER EXTENSION lockstep UPDATE' END, e.extversion IS NULL "
		"FROM (SELECT max(default_version) AS default_version FROM pg_available_extensions WHERE name = 'lockstep') a "
	"LEFT JOIN pg_extension e ON e.extname = 'lockstep' WHERE e.extversion IS DISTINCT FROM a.default_version"},
	{"way to the replicator", true,
	"SELECT NULL, NULL, true FROM (SELECT count(*) AS n FROM lockstep.conflicts) s WHERE n < 0"},
	{"invalid indexes", true,
		"SELECT format('index %s of database %I is invalid', indexrelid::regclass, current_database()), "
	"format('REINDEX INDEX CONCURRENTLY %s; or drop it', indexrelid::regclass), false FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE NOT indisvalid AND c.relkind = 'i' LIMIT 10"},
};

#define NQUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* ---------- findings */

/* Users choose names: what a terminal would obey is escaped. */
static void
set_printable(json_t *finding, const char *field, const char *text)
{
	char	   *printable = text_printable(text, strlen(text));

	json_object_set_new(finding, field, json_from_text(printable));
	free(printable);
}

static void __attribute__((format(printf, 5, 6)))
find(Doctor *d, bool problem, const char *where, const char *remedy, const char *fmt,...)
{
	char		text[2048];
	va_list		args;
	json_t	   *finding = json_object();

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_object_set_new(finding, "level", json_string(problem ? "problem" : "warning"));
	json_object_set_new(finding, "where", json_string(where));
	set_printable(finding, "text", text);
	if (remedy != NULL)
		set_printable(finding, "remedy", remedy);
	json_array_append_new(d->findings, finding);
	*(problem ? &d->problems : &d->warnings) += 1;
}

/* ---------- files */

static bool
has_password(const Config *c)
{
	for (int i = 0; i < c->nnodes; i++)
	{
		if (strstr(c->nodes[i].conninfo, "password") != NULL)
			return true;
	}
	return false;
}

static void
look_at_tls(Doctor *d)
{
	const char *directory = d->config->tls_directory;
	const char *hint;
	char	   *error = config_tls_check(d->config, &hint);
	char		why[TLS_WHY_SIZE];
	TlsContext *context;
	int			days;

	if (error != NULL)
		find(d, true, "replicator", hint, "%s", error);
	free(error);
	if (directory[0] == '\0')
		return;
	context = tls_context_load(directory, NULL, why);
	if (context == NULL)
		find(d, true, "replicator", "Correct it, then lockstepctl reload; \"lockstepctl certs\" makes certificates.",
			 "tls_directory \"%s\" cannot be used: %s", directory, why);
	else if (tls_context_expires(context, &days), days < EXPIRY_WARNING_DAYS)
		find(d, false, "replicator", "Put a new one there, then lockstepctl reload (\"TLS\" in docs/operating.md).",
			 "the certificate in \"%s\" expires in %d days", directory, days);
	tls_context_free(context);
}

static void
look_at_files(Doctor *d)
{
	const Config *c = d->config;
	struct stat st;
	uint64_t	used;
	uint64_t	free_bytes;

	if (stat(d->config_file, &st) == 0 && (st.st_mode & S_IRWXO) != 0 && has_password(c))
		find(d, true, "replicator", "chmod 640 the file, owned by root and the replicator's group.",
			 "\"%s\" has passwords, and everybody can read it", d->config_file);
	if (stat(c->secret_file, &st) != 0)
		find(d, true, "replicator", "See secret_file in replicator.conf: the same content on all hosts.",
			 "could not look at the secret \"%s\": %s", c->secret_file, strerror(errno));
	else if ((st.st_mode & S_IRWXO) != 0)
		find(d, true, "replicator", "chmod 600 the file (or 640, if a group needs it), on all hosts.",
			 "everybody can read the secret \"%s\"", c->secret_file);
	look_at_tls(d);
	if (!journal_usage(c->journal_directory, &used, &free_bytes))
		find(d, true, "replicator", "See journal_directory in replicator.conf.",
			 "could not look at the journal's directory \"%s\": %s", c->journal_directory, strerror(errno));
	else
	{
		double		left = (double) free_bytes;
		double		need = c->journal_keep > MIN_FREE_BYTES ? (double) c->journal_keep : MIN_FREE_BYTES;

		if (left < need)
			find(d, left < (double) JOURNAL_LITTLE_ROOM, "replicator", "Give the journal more room, or lower journal_keep: when its disk is full, nothing commits.",
				 "%.1f GB are free for the journal, and journal_keep allows it %.1f GB", left / (1 << 30), (double) c->journal_keep / (1 << 30));
	}
}

/* ---------- what the replicator says */

/* Of several replicators; NULL: there is one. */
static void
look_at_group(Doctor *d, const json_t *group)
{
	static const char *const see = "Look at its log, and at \"When something is wrong\" in docs/replicators.md.";
	const char *trouble = json_string_value(json_object_get(group, "trouble"));
	size_t		i;
	json_t	   *member;

	if (!json_is_object(group))
		return;
	if (trouble != NULL && trouble[0] != '\0')
		find(d, true, "replicator", see, "%s", trouble);
	json_array_foreach(json_object_get(group, "members"), i, member)
	{
		const char *name = json_string_value(json_object_get(member, "name"));
		const char *state = json_string_value(json_object_get(member, "state"));

		if (name == NULL || state == NULL)
			continue;
		if (strcmp(state, "not connected") == 0)
			find(d, true, name, see, "the replicator is not connected to the one that leads");
		else if (strcmp(state, "copying") == 0)
			find(d, false, name, "Wait: lockstepctl replicators shows how far it is.", "the replicator is getting the journal, and could not take over");
	}
}

static void
look_at_status(Doctor *d, const json_t *status)
{
	const json_t *node;
	size_t		i;

	if (!json_is_true(json_object_get(status, "ok")))
	{
		/* a standby's: who leads */
		const char *hint = json_string_value(json_object_get(status, "hint"));

		find(d, hint == NULL, "replicator", hint != NULL ? hint : "Look at its log: log_file in replicator.conf, or journalctl -u lockstep-replicator.",
			 "%s", json_string_value(json_object_get(status, "error")));
		return;
	}
	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		const char *name = json_string_value(json_object_get(node, "name"));
		const char *state = json_string_value(json_object_get(node, "state"));
		const char *reason = json_string_value(json_object_get(node, "reason"));

		if (name == NULL || state == NULL || strcmp(state, "online") == 0)
			continue;
		find(d, true, name, "See docs/dropped.md for each cause, and \"lockstepctl status\".",
			 "the node is %s%s%s", state, reason != NULL ? ": " : "", reason != NULL ? reason : "");
	}
	look_at_group(d, json_object_get(status, "group"));
	if (json_array_size(json_object_get(status, "databases")) == 0)
		find(d, false, "replicator", "lockstepctl database add NAME", "no database is replicated");
}

/* ---------- what the nodes say */

static PGconn *
open_node(Doctor *d, const NodeConfig *n, const char *database)
{
	/* as a client's session, or it would not ask the replicator */
	char	   *options = xasprintf("%s -c statement_timeout=10s -c default_transaction_read_only=on -c lockstep.replicate=on "
									"-c lockstep.causal_reads=off -c lockstep.max_staleness=-1", pgclient_control_options);
	const char *keywords[] = {"connect_timeout", "dbname", "dbname", "application_name", "options", NULL};
	const char *values[] = {"5", n->conninfo, database, "lockstepctl", options, NULL};
	PGconn	   *conn = PQconnectdbParams(keywords, values, 1);

	free(options);
	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	find(d, true, n->name, "See node.NAME in replicator.conf, pg_hba.conf and listen_addresses of that server.",
		 "could not connect to database \"%s\": %s", database, pgclient_message(PQerrorMessage(conn)));
	PQfinish(conn);
	return NULL;
}

static void
ask_question(Doctor *d, const NodeConfig *n, PGconn *conn, const Question *q, int needed)
{
	char		number[16];
	const char *values[] = {n->name, number};
	const Oid	types[] = {25, 25}; /* text */
	PGresult   *r;
	int			nparams = strstr(q->sql, "$2") != NULL ? 2 : strstr(q->sql, "$1") != NULL ? 1 : 0;

	snprintf(number, sizeof(number), "%d", needed);
	r = PQexecParams(conn, q->sql, nparams, types, values, NULL, NULL, 0);
	if (PQresultStatus(r) != PGRES_TUPLES_OK)
	{
		const char *detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
		const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);

		find(d, true, n->name, hint, "%s: %s%s%s", q->about, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) != NULL ?
			 PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : pgclient_message(PQerrorMessage(conn)), detail != NULL ? " " : "", detail != NULL ? detail : "");
	}
	else
	{
		for (int i = 0; i < PQntuples(r); i++)
			find(d, PQgetvalue(r, i, 2)[0] == 't', n->name, PQgetvalue(r, i, 1), "%s", PQgetvalue(r, i, 0));
	}
	PQclear(r);
}

static double
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts); /* wall clock */
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* Half of the way there and back counts as the network's. */
static void
compare_clocks(Doctor *d, const NodeConfig *n, PGconn *conn)
{
	double		before = now_s();
	PGresult   *r = PQexec(conn, "SELECT extract(epoch FROM clock_timestamp())");
	double		after = now_s();
	double		ahead;

	if (PQresultStatus(r) == PGRES_TUPLES_OK)
	{
		ahead = strtod(PQgetvalue(r, 0, 0), NULL) - (before + after) / 2;
		if (fabs(ahead) > CLOCK_TOLERANCE_S + (after - before) / 2)
			find(d, false, n->name, "Run an NTP client (chrony) on all machines: times in logs and now() differ.",
				 "its clock is %.1f s %s that of this machine", fabs(ahead), ahead > 0 ? "ahead of" : "behind");
	}
	PQclear(r);
}

/* False: it can't be asked. */
static bool
look_at_database(Doctor *d, const NodeConfig *n, const char *database, bool maintenance, int needed)
{
	PGconn	   *conn = open_node(d, n, database);
	int			before = d->problems;

	if (conn == NULL)
		return false;
	for (size_t i = 0; i < NQUESTIONS; i++)
	{
		if (questions[i].each_database == !maintenance)
			ask_question(d, n, conn, &questions[i], needed);
		if (maintenance && i == 0 && d->problems > before)
			break;				/* not loaded: no answer means anything */
	}
	if (maintenance)
		compare_clocks(d, n, conn);
	PQfinish(conn);
	return d->problems == before;
}

static void
look_at_nodes(Doctor *d, const json_t *databases)
{
	const Config *c = d->config;
	size_t		ndatabases = json_array_size(databases);
	int			needed = (int) (ndatabases > 0 ? ndatabases : 1) * (c->apply_connections + c->reserved_connections + 1) + 2;
	const json_t *database;
	size_t		at;

	for (int i = 0; i < c->nnodes; i++)
	{
		if (!look_at_database(d, &c->nodes[i], c->maintenance_database, true, needed))
			continue;
		json_array_foreach(databases, at, database)
		{
			const char *name = json_is_string(database) ? json_string_value(database) :
			json_string_value(json_object_get(database, "name"));

			if (name != NULL)
				(void) look_at_database(d, &c->nodes[i], name, false, needed);
		}
	}
}

/* ---------- the result */

static void
print_findings(FILE *out, const Doctor *d)
{
	const json_t *f;
	size_t		i;

	json_array_foreach(d->findings, i, f)
	{
		const char *remedy = json_string_value(json_object_get(f, "remedy"));

		fprintf(out, "%-8s %s: %s\n", strcmp(json_string_value(json_object_get(f, "level")), "problem") == 0 ? "PROBLEM" : "warning",
				json_string_value(json_object_get(f, "where")), json_string_value(json_object_get(f, "text")));
		if (remedy != NULL)
			fprintf(out, "         %s\n", remedy);
	}
	fprintf(out, "%d nodes: %d problem%s, %d warning%s\n", d->config->nnodes, d->problems, d->problems == 1 ? "" : "s",
			d->warnings, d->warnings == 1 ? "" : "s");
}

int
doctor(const Config *config, const char *config_file, const json_t *status, bool json)
{
	Doctor		d = {.config = config,.config_file = config_file,.findings = json_array()};

	look_at_files(&d);
	look_at_status(&d, status);
	look_at_nodes(&d, json_object_get(status, "databases"));
	if (json)
	{
		json_t	   *answer = json_pack("{s:b, s:i, s:i, s:O}", "ok", d.problems == 0, "problems", d.problems,
									   "warnings", d.warnings, "findings", d.findings);

		json_dumpf(answer, stdout, JSON_INDENT(2));
		printf("\n");
		json_decref(answer);
	}
	else
		print_findings(stdout, &d);
	json_decref(d.findings);
	return d.problems == 0 ? CTL_OK : CTL_FAILED;
}
