/*
 * ctl_server.c
 *	  The PostgreSQL server of this machine: where it says that its files are, how it was
 *	  started, and so how to restart it.
 *
 * It is asked, so that no layout has to be known: Debian's (/etc/postgresql/15/main), Red Hat's
 * and that of plain initdb differ in the answers only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"
#include "pgclient.h"

#define OLDEST 15
#define NEWEST 19

/* ---------- connections */

static PGconn *
connect_as_server(const Setup *s, const char *conninfo, const char *database)
{
	/*
	 * what is done here is this server's own affair, and
	 * shared_preload_libraries may lack lockstep
	 */
	const char *keywords[] = {"dbname", "dbname", "application_name", "options", "connect_timeout", NULL};
	const char *values[] = {conninfo != NULL ? conninfo : "", database, "lockstepctl", "-c lockstep.replicate=off -c client_min_messages=warning", "10", NULL};
	PGconn	   *conn;

	setup_become_server(s);
	conn = PQconnectdbParams(keywords, values, 1);
	setup_become_self(s);
	return conn;
}

char *
conn_ask(PGconn *conn, const char *sql, const char *p1, const char *p2)
{
	const char *params[] = {p1, p2};
	const Oid	types[] = {25, 25}; /* text */
	PGresult   *r = PQexecParams(conn, sql, p2 != NULL ? 2 : p1 != NULL ? 1 : 0, types, params, NULL, NULL, 0);
	char	   *value = NULL;

	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
		setup_fail(NULL, "a query of the server failed: %s", pgclient_message(PQresultErrorMessage(r)));
	else
		value = xstrdup(PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
	PQclear(r);
	return value;
}

char *
server_ask(const Server *v, const char *sql, const char *p1, const char *p2)
{
	return conn_ask(v->conn, sql, p1, p2);
}

char *
server_setting(const Server *v, const char *name)
{
	char	   *value = server_ask(v, "SELECT setting FROM pg_settings WHERE name = $1", name, NULL);

	if (value != NULL && value[0] == '\0')
	{
		char	   *known = server_ask(v, "SELECT 't' FROM pg_settings WHERE name = $1", name, NULL);

		if (known == NULL || known[0] == '\0')
		{
			free(value);
			value = NULL;
		}
		free(known);
	}
	return value;
}

/* ---------- how it was started */

/* Another machine may have a server with the same paths. */
static bool
is_child(pid_t child, pid_t parent)
{
	char	   *path = xasprintf("/proc/%d/status", (int) child);
	FILE	   *f = fopen(path, "re");
	char		line[256];
	long		found = 0;

	free(path);
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		if (strncmp(line, "PPid:", 5) == 0)
			found = atol(line + 5);
	}
	if (f != NULL)
		fclose(f);
	return found == (long) parent;
}

/* pid, and standard error, of the postmaster of this data directory. */
static bool
find_process(Server *v, const Setup *s)
{
	char	   *path = path_in(v->data, "postmaster.pid");
	char	   *text;
	char		log[4096];
	ssize_t		n;
	bool		ok = setup_read(s, path, OWNER_SERVER, &text);

	free(path);
	if (!ok)
		return false;
	v->pid = text != NULL ? (pid_t) atol(text) : 0;
	free(text);
	path = xasprintf("/proc/%d/fd/2", (int) v->pid);
	n = readlink(path, log, sizeof(log) - 1);
	free(path);
	if (v->pid <= 0 || !is_child(PQbackendPID(v->conn), v->pid))
		return setup_fail("Run lockstepctl on the machine of the server, or see --server.",
						  "the server that answers does not run on this machine in \"%s\"", v->data);
	v->log = n > 0 && log[0] == '/' && strncmp(log, "/dev/", 5) != 0 && memchr(log, ':', (size_t) n) == NULL ?
		xstrndup(log, (size_t) n) : xstrdup("/dev/null");
	return true;
}

/* What it was started with beside -D, as a shell takes it. */
static void
find_options(Server *v, const Setup *s)
{
	char	   *path = path_in(v->data, "postmaster.opts");
	char	   *text;
	char	   *p;

	if (setup_read(s, path, OWNER_SERVER, &text) && text != NULL && (p = strstr(text, " \"-D\" \"")) != NULL)
	{
		p += strlen(" \"-D\" \"");
		v->relative = *p != '/';
		p += strcspn(p, "\"");
		v->options = xstrndup(p + (*p == '"'), strcspn(p + (*p == '"'), "\n"));
		if (strspn(v->options, " ") == strlen(v->options))
		{
			free(v->options);
			v->options = NULL;
		}
		free(text);
	}
	free(path);
}

/* The unit of systemd whose cgroup the postmaster is in. */
static void
find_unit(Server *v)
{
	char	   *path = xasprintf("/proc/%d/cgroup", (int) v->pid);
	FILE	   *f = access("/run/systemd/system", F_OK) == 0 ? fopen(path, "re") : NULL;
	char		line[4096];

	free(path);
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		char	   *name = strrchr(line, '/');
		size_t		len = name != NULL ? strcspn(name + 1, "\n") : 0;

		if (len > 8 && strncmp(name + 1, "postgresql", 10) == 0 && strncmp(name + 1 + len - 8, ".service", 8) == 0)
		{
			free(v->unit);
			v->unit = xstrndup(name + 1, len);
		}
	}
	if (f != NULL)
		fclose(f);
}

/* pg_createcluster has made /etc/postgresql/VERSION/NAME, with a file start.conf. */
static void
find_debian_cluster(Server *v)
{
	char	   *directory = directory_of(v->config_file);
	char	   *start = path_in(directory, "start.conf");

	if (strcmp(directory, v->data) != 0 && access(start, F_OK) == 0)
		v->cluster = xstrdup(strrchr(directory, '/') + 1);
	free(start);
	free(directory);
}

/* ---------- what it says */

static const char facts[] =
"SELECT current_setting('server_version_num'), current_setting('data_directory'), current_setting('config_file'), "
"current_setting('hba_file'), current_setting('ident_file'), current_setting('port'), "
"(SELECT setting FROM pg_config WHERE name = 'BINDIR'), (SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'), "
"(SELECT system_identifier::text FROM pg_control_system()), rolsuper FROM pg_roles WHERE rolname = current_user";

static bool
take_facts(Server *v)
{
	PGresult   *r = PQexec(v->conn, facts);
	char	  **fields[] = {&v->data, &v->config_file, &v->hba_file, &v->ident_file, &v->port, &v->bindir, &v->pkglibdir, &v->identifier};
	bool		ok = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;

	if (!ok)
		setup_fail("Connect as a superuser: see --server.", "the server does not say where its files are: %s", pgclient_message(PQresultErrorMessage(r)));
	for (size_t i = 0; ok && i < sizeof(fields) / sizeof(fields[0]); i++)
		*fields[i] = xstrdup(PQgetvalue(r, 0, (int) i + 1));
	if (ok)
		v->version = atoi(PQgetvalue(r, 0, 0)) / 10000;
	if (ok && PQgetvalue(r, 0, 9)[0] != 't')
		ok = setup_fail("Connect as a superuser: see --server.", "role \"%s\" is no superuser", PQuser(v->conn));
	PQclear(r);
	return ok;
}

static bool
check_owner(const Server *v, const Setup *s)
{
	struct stat st;

	if (stat(v->data, &st) == 0 && st.st_uid != s->uid)
		return setup_fail(NULL, "the data directory \"%s\" does not belong to user \"%s\": run lockstepctl as its owner", v->data, s->user);
	return true;
}

bool
server_open(Server *v, const Setup *s, const char *conninfo)
{
	*v = (Server) {.conninfo = conninfo};
	v->conn = connect_as_server(s, conninfo, NULL);
	if (PQstatus(v->conn) == CONNECTION_OK && strcmp(PQdb(v->conn), "postgres") != 0)
	{
		PQfinish(v->conn);
		v->conn = connect_as_server(s, conninfo, "postgres");
	}
	else if (PQstatus(v->conn) != CONNECTION_OK)
	{
		/* a user has no database of its own name */
		PQfinish(v->conn);
		v->conn = connect_as_server(s, conninfo, "postgres");
	}
	if (PQstatus(v->conn) != CONNECTION_OK)
		return setup_fail("Start the server; --server='host=... port=... user=...' says which, PGHOST and PGPORT do, too.",
						  "could not connect to the server of this machine: %s", pgclient_message(PQerrorMessage(v->conn)));
	if (!take_facts(v) || !find_process(v, s) || !check_owner(v, s))
		return false;
	find_options(v, s);
	find_unit(v);
	find_debian_cluster(v);
	v->description = v->cluster != NULL ? xasprintf("PostgreSQL %d, cluster %s, port %s", v->version, v->cluster, v->port) :
		xasprintf("PostgreSQL %d, %s, port %s", v->version, v->data, v->port);
	return true;
}

/* It is on the data directory itself, so it is gone when a join has put another one in its place. */
bool
server_lock(const Server *v, const Setup *s)
{
	int			fd;

	if (s->dry_run)
		return true;
	setup_become_server(s);
	fd = open(v->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	setup_become_self(s);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	if (fd >= 0 && errno == EWOULDBLOCK)
		return setup_fail("Wait until it has ended.", "another lockstepctl sets up the server in \"%s\"", v->data);
	return setup_fail(NULL, "could not lock \"%s\": %s", v->data, strerror(errno));
}

bool
server_reopen(Server *v, const Setup *s, int timeout_s)
{
	double		end = setup_now() + timeout_s;

	for (;;)
	{
		PQfinish(v->conn);
		v->conn = connect_as_server(s, v->conninfo, "postgres");
		if (PQstatus(v->conn) == CONNECTION_OK)
			return true;
		if (setup_now() >= end)
			return setup_fail("See the server's log.", "the server does not answer: %s", pgclient_message(PQerrorMessage(v->conn)));
		usleep(100 * 1000);
	}
}

void
server_close(Server *v)
{
	PQfinish(v->conn);
	v->conn = NULL;
}

PGconn *
server_try_database(const Server *v, const Setup *s, const char *database)
{
	return connect_as_server(s, v->conninfo, database);
}

PGconn *
server_database(const Server *v, const Setup *s, const char *database)
{
	PGconn	   *conn = connect_as_server(s, v->conninfo, database);

	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	setup_fail(NULL, "could not connect to database \"%s\": %s", database, pgclient_message(PQerrorMessage(conn)));
	PQfinish(conn);
	return NULL;
}

bool
server_check(const Server *v)
{
	char	   *library = path_in(v->pkglibdir, "lockstep.so");
	char	   *extension = server_ask(v, "SELECT default_version FROM pg_available_extensions WHERE name = 'lockstep'", NULL, NULL);
	char	   *standby = server_ask(v, "SELECT 't' WHERE pg_is_in_recovery()", NULL, NULL);
	bool		ok = extension != NULL && standby != NULL;

	if (ok && (v->version < OLDEST || v->version > NEWEST))
		ok = setup_fail(NULL, "the server is PostgreSQL %d: lockstep is for %d to %d", v->version, OLDEST, NEWEST);
	else if (ok && standby[0] != '\0')
		ok = setup_fail("Run lockstepctl on the primary's machine, or promote it.", "the server is a standby");
	else if (ok && (access(library, F_OK) != 0 || extension[0] == '\0'))
	{
		char	   *hint = xasprintf("Install the package postgresql-%d-lockstep, or run \"make install\" with this server's pg_config.", v->version);

		ok = setup_fail(hint, "lockstep is not installed for this server: there is no %s", access(library, F_OK) != 0 ? library : "extension lockstep");
		free(hint);
	}
	free(library);
	free(extension);
	free(standby);
	return ok;
}

/* 1, 0; -1: an error. */
static int
is_replicated(const Server *v, const Setup *s, const char *database)
{
	PGconn	   *conn = server_database(v, s, database);
	char	   *there = conn != NULL ? conn_ask(conn, "SELECT 't' WHERE to_regclass('lockstep.cluster') IS NOT NULL", NULL, NULL) : NULL;
	char	   *member = there == NULL ? NULL : there[0] == '\0' ? xstrdup("") :
	conn_ask(conn, "SELECT 't' FROM lockstep.cluster LIMIT 1", NULL, NULL);
	int			result = member == NULL ? -1 : member[0] == 't';

	free(there);
	free(member);
	PQfinish(conn);
	return result;
}

bool
server_databases(const Server *v, const Setup *s, Databases *d)
{
	PGresult   *r = PQexec(v->conn, "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1");
	bool		ok = PQresultStatus(r) == PGRES_TUPLES_OK ||
	setup_fail(NULL, "could not list the databases: %s", pgclient_message(PQresultErrorMessage(r)));

	*d = (Databases) {0};
	if (ok && PQntuples(r) > SERVER_MAX_DATABASES)
		ok = setup_fail(NULL, "the server has more than %d databases", SERVER_MAX_DATABASES);
	for (int i = 0; ok && i < PQntuples(r); i++)
	{
		const char *name = PQgetvalue(r, i, 0);
		int			replicated = is_replicated(v, s, name);

		ok = replicated >= 0;
		if (!ok || (strcmp(name, "postgres") == 0 && replicated == 0))
			continue;
		d->names[d->n] = xstrdup(name);
		d->replicated[d->n] = replicated > 0;
		if (replicated > 0 && d->nreplicated++ == 0)
			d->first = d->names[d->n];
		d->n++;
	}
	PQclear(r);
	return ok;
}

/* ---------- starting and stopping */

Run
server_command(const Server *v, const Setup *s, const char *action)
{
	char	   *a = (char *) action;

	if (v->unit != NULL)
		return (Run)
	{
		.argv =
		{
			"systemctl", a, v->unit
		}
	};
	if (v->cluster != NULL)
		return (Run)
	{
		.argv =
		{
			"pg_ctlcluster", xasprintf("%d", v->version), v->cluster, a
		}
	};
	if (strcmp(a, "stop") == 0)
		return (Run)
	{
		.argv =
		{
			path_in(v->bindir, "pg_ctl"), "-D", v->data, "-m", "fast", "-w", "-t", "3600", "-s", a
		},.as_server = s
	};

	/*
	 * pg_ctl restart takes the options from postmaster.opts, with a relative
	 * -D, which would be relative to another directory now.
	 */
	if (strcmp(a, "restart") == 0 ? v->relative : v->options != NULL)
		return (Run)
	{
		.argv =
		{
			path_in(v->bindir, "pg_ctl"), "-D", v->data, "-o", v->options != NULL ? v->options : (char *) " ",
				"-l", v->log, "-w", "-t", "3600", "-s", a
		},.as_server = s
	};
	return (Run)
	{
		.argv =
		{
			path_in(v->bindir, "pg_ctl"), "-D", v->data, "-l", v->log, "-w", "-t", "3600", "-s", a
		},.as_server = s
	};
}

bool
server_control(const Server *v, Setup *s, const char *action)
{
	Run			run = server_command(v, s, action);
	char	   *text = run_text(&run);
	bool		ok;

	setup_step(s, action, "%s", text);
	ok = s->dry_run || run_program(&run) == 0 ||
		setup_fail("See the server's log; run the same lockstepctl again afterwards: it goes on from here.", "\"%s\" failed", text);
	free(text);
	return ok;
}
