/*
 * pgclient.c
 *	  A libpq connection on the event loop, one query at a time.
 *
 * A client is CONNECTING, then READY, then LOST or closed.  Callbacks may do anything with the
 * client, including closing it: its memory remains until the loop's round is over, and every
 * function here checks `closed` after a callback.
 */
#include "pgclient.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "buffer.h"
#include "conninfo.h"
#include "log.h"
#include "loop.h"
#include "resolve.h"

typedef struct Query
{
	struct Query *next;
	char	   *sql;
	int			nparams;
	char	  **params;
	PgDone		done;
	void	   *arg;
	PGresult   *result;			/* the last one that came */
} Query;

struct PgClient
{
	PGconn	   *conn;
	Watch	   *watch;
	Timer	   *patience;		/* of connecting, then of the query under way */
	int			connect_ms;		/* of connecting */
	int			limit_ms;		/* of queries, 0 = none */
	Resolve    *resolving;		/* the host's name, before conn is there */
	char	   *conninfo;
	char	   *node;
	char	   *database;
	char	   *application;
	const char *options;
	bool		ready;
	bool		closed;
	bool		finishing;		/* to be closed when idle */
	PgConnected connected;
	void	   *connected_arg;
	PgLost		lost;
	void	   *lost_arg;
	Query	   *first;			/* the one under way, if sent */
	Query	  **end;
	bool		sent;
	Deferred	broken;			/* libpq would not send */
	Deferred	bury;
};

static PgCheckServer check_server;
static uint64_t heard_us;		/* any server */

/*
 * The extension resets what users have set for the role or the database (as lockstep.replicate
 * is off); the first three take effect before it can.  Older extensions do not.
 */
#define COMMON_OPTIONS \
	"-c role=none -c session_preload_libraries= -c local_preload_libraries= -c exit_on_error=off " \
	"-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 " \
	"-c idle_session_timeout=0 -c default_transaction_isolation=read\\ committed " \
	"-c default_transaction_read_only=off -c default_transaction_deferrable=off -c row_security=off -c jit=off -c search_path=pg_catalog " \
	"-c extra_float_digits=1 -c standard_conforming_strings=on "

const char	pgclient_control_options[] = COMMON_OPTIONS "-c lockstep.replicate=off";

/*
 * synchronous_commit is off because the journal is the redo log: what a node loses in a crash it
 * gets again, from the position that its progress states.  lockstep.replicate is off until
 * lockstep.apply_start(), as login triggers (PostgreSQL 17) fire before that.  A session that waits for
 * another's commit must notice that we have given it up: its node could not apply something, and
 * is tried again and again.
 */
const char	pgclient_apply_options[] = COMMON_OPTIONS "-c session_replication_role=replica -c lockstep.replicate=off "
"-c plan_cache_mode=force_generic_plan -c synchronous_commit=off -c client_connection_check_interval=1s";

static void step_connecting(PgClient *c, bool readable);
static void on_patience(void *arg);
static void on_socket(void *arg, uint32_t events);

const char *
pgclient_message(const char *libpq_message)
{
	static char text[1024];
	static const char *const prefixes[] = {"ERROR:  ", "FATAL:  "};
	size_t		len = 0;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
	{
		if (strncmp(libpq_message, prefixes[i], strlen(prefixes[i])) == 0)
			libpq_message += strlen(prefixes[i]);
	}
	for (const char *line = libpq_message; *line != '\0';)
	{
		size_t		line_len = strcspn(line, "\n");

		/*
		 * after a tab follows libpq's advice, not an error; more lines are of
		 * the host's other addresses
		 */
		for (size_t i = 0; *line != '\t' && i < line_len + 1 && len < sizeof(text) - 1; i++)
			text[len++] = i == line_len || line[i] == '\t' ? ' ' : line[i];
		line += line_len + (line[line_len] != '\0');
	}
	while (len > 0 && text[len - 1] == ' ')
		len--;
	text[len] = '\0';
	return text;
}

/* ---------- ending */

static void
query_free(Query *q)
{
	PQclear(q->result);
	for (int i = 0; i < q->nparams; i++)
		free(q->params[i]);
	free(q->params);
	free(q->sql);
	free(q);
}

static Query *
take_first(PgClient *c)
{
	Query	   *q = c->first;

	c->first = q->next;
	if (c->first == NULL)
		c->end = &c->first;
	c->sent = false;
	return q;
}

static void
on_bury(void *arg)
{
	PgClient   *c = arg;

	free(c->conninfo);
	free(c->node);
	free(c->database);
	free(c->application);
	free(c);
}

static void
stop_watching(PgClient *c)
{
	loop_unwatch(c->watch);
	c->watch = NULL;
	loop_cancel(c->patience);
	c->patience = NULL;
}

void
pgclient_close(PgClient *c)
{
	if (c == NULL || c->closed)
		return;
	c->closed = true;
	loop_undefer(&c->broken);
	stop_watching(c);
	resolve_cancel(c->resolving);
	c->resolving = NULL;
	if (c->conn != NULL)
		PQfinish(c->conn);
	c->conn = NULL;
	while (c->first != NULL)
		query_free(take_first(c));
	loop_defer(&c->bury);
}

void
pgclient_close_at(PgClient **c)
{
	pgclient_close(*c);
	*c = NULL;
}

void
pgclient_finish(PgClient *c)
{
	c->lost = NULL;
	c->finishing = true;
	if (c->first == NULL)
		pgclient_close(c);
}

PGconn *
pgclient_release(PgClient *c)
{
	PGconn	   *conn = c->conn;

	c->conn = NULL;
	pgclient_close(c);
	return conn;
}

/* Report it to all callers, then close. */
static void
fail(PgClient *c, const char *error)
{
	char	   *text = xstrdup(pgclient_message(error));

	stop_watching(c);
	if (!c->ready)
		c->connected(c->connected_arg, text);
	while (!c->closed && c->first != NULL)
	{
		Query	   *q = take_first(c);

		if (q->done != NULL)
			q->done(q->arg, NULL);
		query_free(q);
	}
	if (!c->closed && c->ready && c->lost != NULL)
		c->lost(c->lost_arg, text);
	pgclient_close(c);
	free(text);
}

/* ---------- queries */

static void
on_broken(void *arg)
{
	PgClient   *c = arg;

	fail(c, PQerrorMessage(c->conn));
}

static void
flush(PgClient *c)
{
	int			rc = PQflush(c->conn);

	/*
	 * Not from within pgclient_query(): it could drop the node, and remove
	 * its tasks while the caller walks through them.
	 */
	if (rc < 0)
		loop_defer(&c->broken);
	else
		loop_change(c->watch, rc == 1 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void
send_first(PgClient *c)
{
	Query	   *q = c->first;

	if (q == NULL || c->sent || !c->ready || c->closed)
		return;
	if (PQsendQueryParams(c->conn, q->sql, q->nparams, NULL, (const char *const *) q->params, NULL, NULL, 0) == 0)
	{
		loop_defer(&c->broken);
		return;
	}
	c->sent = true;
	if (c->limit_ms > 0)
		c->patience = loop_after(c->limit_ms, on_patience, c);
	flush(c);
}

/* client_encoding is not set: the server uses its own. */
char *
pgclient_acceptable(const PgClient *c, const char *text)
{
	const char *encoding = PQparameterStatus(c->conn, "server_encoding");
	char	   *copy = xstrdup(text);

	if (encoding == NULL || strcmp(encoding, "UTF8") != 0 || !text_is_utf8(text, strlen(text)))
		text_make_ascii(copy, strlen(copy));
	return copy;
}

void
pgclient_limit(PgClient *c, int ms)
{
	c->limit_ms = ms;
}

void
pgclient_query(PgClient *c, const char *sql, int nparams, const char *const *params,
			   PgDone done, void *arg)
{
	Query	   *q = xcalloc(1, sizeof(Query));

	q->sql = xstrdup(sql);
	q->nparams = nparams;
	q->params = xcalloc((size_t) nparams + 1, sizeof(char *));
	for (int i = 0; i < nparams; i++)
		q->params[i] = params[i] != NULL ? xstrdup(params[i]) : NULL;
	q->done = done;
	q->arg = arg;
	*c->end = q;
	c->end = &q->next;
	send_first(c);
}

static void
finish_first(PgClient *c)
{
	Query	   *q = take_first(c);

	loop_cancel(c->patience);
	c->patience = NULL;
	if (q->done != NULL)
		q->done(q->arg, q->result);
	query_free(q);
	if (c->finishing && c->first == NULL)
		pgclient_close(c);
	else
		send_first(c);
}

static void
read_results(PgClient *c)
{
	if (PQconsumeInput(c->conn) == 0)
	{
		fail(c, PQerrorMessage(c->conn));
		return;
	}
	heard_us = loop_now_us();
	while (!c->closed && c->sent && !PQisBusy(c->conn))
	{
		PGresult   *result = PQgetResult(c->conn);

		if (result == NULL)
		{
			finish_first(c);
			continue;
		}
		PQclear(c->first->result);
		c->first->result = result;
	}
	if (!c->closed && PQstatus(c->conn) == CONNECTION_BAD)
		fail(c, PQerrorMessage(c->conn));
}

static void
on_socket(void *arg, uint32_t events)
{
	PgClient   *c = arg;

	if (!c->ready)
	{
		step_connecting(c, (events & EPOLLIN) != 0);
		return;
	}
	if (events & EPOLLOUT)
		flush(c);
	if (!c->closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		read_results(c);
}

/* ---------- connecting */

static void
on_patience(void *arg)
{
	PgClient   *c = arg;

	c->patience = NULL;
	if (c->ready)
	{
		char		text[64];

		snprintf(text, sizeof(text), "no answer for %d ms", c->limit_ms > 0 ? c->limit_ms : c->connect_ms);
		log_message(LOG_INFO, NULL, "database \"%s\" gave %s", PQdb(c->conn), text);
		fail(c, text);
	}
	else
		fail(c, c->resolving != NULL ? "timeout while looking for the host's address" : "timeout while connecting");
}

static void
ignore_notice(void *arg, const char *message)
{
	log_message(LOG_DEBUG, NULL, "%s", pgclient_message(message));
}

static void
connection_made(PgClient *c)
{
	loop_cancel(c->patience);
	c->patience = NULL;
	c->ready = true;
	PQsetnonblocking(c->conn, 1);
	c->watch = loop_watch(PQsocket(c->conn), EPOLLIN, on_socket, c);

	/* not among the options, as servers before 17 do not know it */
	if (PQserverVersion(c->conn) >= 170000)
	{
		int			limit_ms = c->limit_ms;

		c->limit_ms = c->connect_ms;
		pgclient_query(c, "SET transaction_timeout = 0", 0, NULL, NULL, NULL);
		c->limit_ms = limit_ms;
	}
	c->connected(c->connected_arg, NULL);
	send_first(c);
}

uint64_t
pgclient_heard_us(void)
{
	return heard_us;
}

void
pgclient_check_servers(PgCheckServer check)
{
	check_server = check;
}

/* libpq may use another socket after each step: watch again. */
static void
step_connecting(PgClient *c, bool readable)
{
	PostgresPollingStatusType status;
	char	   *wrong;

	loop_unwatch(c->watch);
	c->watch = NULL;
	status = PQconnectPoll(c->conn);

	/*
	 * a server that refuses has answered, too: one that has authenticated us
	 * means it
	 */
	if (readable && (status == PGRES_POLLING_OK || (status != PGRES_POLLING_FAILED && PQstatus(c->conn) == CONNECTION_AUTH_OK)))
		heard_us = loop_now_us();
	if (status == PGRES_POLLING_OK && check_server != NULL && (wrong = check_server(c->conn, c->node)) != NULL)
	{
		fail(c, wrong);
		free(wrong);
	}
	else if (status == PGRES_POLLING_OK)
		connection_made(c);
	else if (status == PGRES_POLLING_FAILED)
		fail(c, PQerrorMessage(c->conn));
	else
		c->watch = loop_watch(PQsocket(c->conn),
							  status == PGRES_POLLING_READING ? EPOLLIN : EPOLLOUT, on_socket, c);
}

static void
on_start(void *arg)
{
	PgClient   *c = arg;

	c->patience = NULL;
	fail(c, c->conn != NULL ? PQerrorMessage(c->conn) : "out of memory");
}

/* libpq would resolve a name itself, and block */
static void
start(PgClient *c, const char *hosts, const char *addresses)
{
	const char *keywords[] = {
		CONNINFO_ALIVE_KEYWORDS,
		"dbname", "dbname", "application_name", "options",
		addresses != NULL ? "host" : NULL, "hostaddr", NULL
	};
	const char *values[] = {
		CONNINFO_ALIVE_VALUES,
		c->conninfo, c->database, c->application, c->options,
		hosts, addresses, NULL
	};

	/*
	 * the first dbname is expanded, the second overrides it; what precedes it
	 * are defaults
	 */
	c->conn = PQconnectStartParams(keywords, values, 1);
	if (c->conn != NULL)
		PQsetNoticeProcessor(c->conn, ignore_notice, NULL);
	if (c->conn != NULL && PQstatus(c->conn) != CONNECTION_BAD)
		c->watch = loop_watch(PQsocket(c->conn), EPOLLOUT, on_socket, c);
}

static void
on_resolved(void *arg, const char *hosts, const char *addresses, const char *error)
{
	PgClient   *c = arg;

	c->resolving = NULL;
	if (error == NULL)
		start(c, hosts, addresses);
	if (c->watch == NULL)
		fail(c, error != NULL ? error : c->conn != NULL ? PQerrorMessage(c->conn) : "out of memory");
}

/* The host's name, if it has to be resolved (malloc'ed), or NULL. */
static char *
name_to_resolve(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	const char *host = NULL;
	bool		has_address = false;
	char	   *name;

	for (PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, "host") == 0)
			host = o->val;
		else if (strcmp(o->keyword, "hostaddr") == 0)
			has_address = o->val != NULL;
	}
	name = host != NULL && !has_address && resolve_is_needed(host) ? xstrdup(host) : NULL;
	PQconninfoFree(options);
	return name;
}

PgClient *
pgclient_open(const NodeConfig *node, const char *database, const char *application,
			  const char *options, int timeout_ms, PgConnected connected, void *arg)
{
	PgClient   *c = xcalloc(1, sizeof(PgClient));
	char	   *name = name_to_resolve(node->conninfo);

	c->conninfo = xstrdup(node->conninfo);
	c->node = xstrdup(node->name);
	c->database = xstrdup(database);
	c->application = xstrdup(application);
	c->options = options;
	c->connect_ms = timeout_ms;
	c->end = &c->first;
	c->connected = connected;
	c->connected_arg = arg;
	c->broken.callback = on_broken;
	c->broken.arg = c;
	c->bury.callback = on_bury;
	c->bury.arg = c;

	if (name != NULL)
		c->resolving = resolve_start(name, on_resolved, c);
	else
		start(c, NULL, NULL);
	free(name);
	if (c->watch != NULL || c->resolving != NULL)
		c->patience = loop_after(timeout_ms, on_patience, c);
	else
		c->patience = loop_after(0, on_start, c);	/* not from within this
													 * call */
	return c;
}

void
pgclient_on_lost(PgClient *c, PgLost lost, void *arg)
{
	c->lost = lost;
	c->lost_arg = arg;
}
