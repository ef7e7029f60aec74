/*
 * ctl_join_server.c
 *	  lockstepctl join with a join file: the server of this machine, which is empty, becomes a node.
 *
 * The server gets the data of another node and keeps its own configuration:
 *
 *	 1. everything is checked; a server with data of its own is refused
 *	 2. a node is cloned into DATA.joining-PID, beside the data directory DATA, while this server
 *		runs; what an interrupted join has left is removed.  Each has a name of its own: when
 *		lockstepctl is killed, a child of pg_basebackup may go on for a while
 *	 3. the clone gets this server's configuration files, if they are in DATA, and the settings
 *		of a node
 *	 4. the server is stopped, DATA and the clone change places, and it is started
 *	 5. the replicator attaches the node
 *
 * Until 4 nothing has happened to the server.  After it the server is a node, and running join
 * again only waits for 5.  The old data stay in DATA.before-join.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"
#include "pgclient.h"

#define CONNECT_TIMEOUT_S 5
#define NO_FILE "/nonexistent/client.crt"	/* libpq looks in ~/.postgresql
											 * else */

typedef struct Join
{
	const JoinOptions *o;
	Setup		setup;
	JoinFile	file;
	Server		server;
	const SetupNode *self;
	const SetupNode *donor;
	PGconn	   *donor_conn;
	NodeFiles	files;			/* of the running server */
	NodeFiles	prepared;		/* the same, of the clone */
	NodeSettings settings;
	char	   *place;			/* DATA, without symbolic links */
	char	   *joining;		/* DATA.joining-PID */
	char	   *before;			/* DATA.before-join */
	char	   *log_directory;	/* of this server; NULL: unknown */
	bool		is_node;		/* the data are there */
	char	   *authorities;	/* file with their certificates; NULL: no TLS */
} Join;

/* ---------- this server */

static bool
find_self(Join *j)
{
	for (int i = 0; i < j->file.nnodes; i++)
	{
		if (strcmp(j->file.nodes[i].name, j->o->name) == 0)
			j->self = &j->file.nodes[i];
	}
	return j->self != NULL || setup_fail("On the first node's machine run init again with this node too, and copy the join file again.",
										 "there is no node \"%s\" in the join file", j->o->name);
}

static bool
check_version_and_port(Join *j)
{
	if (j->server.version != j->file.server_version)
		return setup_fail("Install the same major version on all machines.", "this server is PostgreSQL %d, and the cluster's are %d",
						  j->server.version, j->file.server_version);
	if (atoi(j->server.port) != j->self->port)
		return setup_fail("Change the server's port, or node.NAME in replicator.conf and the join file; --server='port=...' names another server of this machine.",
						  "this server has port %s, and the cluster expects node \"%s\" at %s", j->server.port, j->self->name, address_join(j->self->host, j->self->port));
	return true;
}

static bool
check_libraries(const Join *j)
{
	int			n;
	char	  **items = config_list(j->file.libraries, &n);
	bool		ok = true;

	for (int i = 0; i < n && ok; i++)
	{
		char	   *path = xasprintf("%s/%s.so", j->server.pkglibdir, items[i]);

		if (strpbrk(items[i], "/\"$.") == NULL && access(path, F_OK) != 0)
			ok = setup_fail("Install it: the nodes' data may need it.", "the other nodes load the library \"%s\", which is not installed here", items[i]);
		free(path);
	}
	config_list_free(items, n);
	return ok;
}

/* What a fresh server has not. */
static bool
check_empty(Join *j)
{
	static const char relations[] = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
	"WHERE c.oid >= 16384 AND n.nspname NOT IN ('information_schema', 'lockstep') AND n.nspname !~ '^pg_' ORDER BY 1 LIMIT 1";
	char	   *database = server_ask(&j->server, "SELECT datname FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1') ORDER BY 1 LIMIT 1", NULL, NULL);
	char	   *tablespace = server_ask(&j->server, "SELECT spcname FROM pg_tablespace WHERE oid >= 16384 ORDER BY 1 LIMIT 1", NULL, NULL);
	char	   *relation = server_ask(&j->server, relations, NULL, NULL);
	const char *hint = "The node's data replace those of this server.  Drop what is here, or make an empty server (pg_createcluster, initdb).";
	bool		ok = database != NULL && tablespace != NULL && relation != NULL;

	if (ok && database[0] != '\0')
		ok = setup_fail(hint, "this server has data of its own: database \"%s\"", database);
	else if (ok && tablespace[0] != '\0')
		ok = setup_fail(hint, "this server has data of its own: tablespace \"%s\"", tablespace);
	else if (ok && relation[0] != '\0')
		ok = setup_fail(hint, "this server has data of its own: %s in database \"postgres\"", relation);
	free(database);
	free(tablespace);
	free(relation);
	return ok;
}

/* Of another cluster, or under another name, or already this node. */
static bool
check_membership(Join *j, const char *donor_identifier)
{
	char	   *name = server_setting(&j->server, "lockstep.node_name");
	char	   *at = server_setting(&j->server, "lockstep.replicator");
	bool		named = name != NULL && name[0] != '\0';
	bool		ok = true;

	j->is_node = named && strcmp(j->server.identifier, donor_identifier) == 0;
	if (named && (strcmp(name, j->self->name) != 0 || at == NULL || strcmp(at, j->file.replicator) != 0))
		ok = setup_fail("See \"Moving and retiring a node\" in docs/operating.md.",
						"this server is already node \"%s\" of the cluster whose replicator is at \"%s\"", name, at != NULL ? at : "");
	else if (!named && strcmp(j->server.identifier, donor_identifier) == 0)
		ok = setup_fail("It has the same system identifier, as servers of machines that were made from one image have: make an empty server anew (pg_dropcluster and pg_createcluster, or initdb); "
						"if it is a copy to be kept, set lockstep.node_name by hand (docs/operating.md, \"A new node\").",
						"this server is the donor, or a copy of it, and not a node");
	free(name);
	free(at);
	return ok;
}

/* ---------- the others */

/* Programs that are called inherit the file. */
static bool
open_authorities(Join *j)
{
	const char *pem = j->file.certs.authorities;
	int			fd;

	if (j->file.certs.certificate == NULL)
		return true;
	fd = memfd_create("ca.pem", 0);
	if (pem == NULL || fd < 0 || write(fd, pem, strlen(pem)) != (ssize_t) strlen(pem))
		return setup_fail(NULL, "could not store the authority's certificate: %s", strerror(errno));
	j->authorities = xasprintf("/proc/self/fd/%d", fd);
	return true;
}

static char *
donor_conninfo(const Join *j, const SetupNode *n)
{
	char	   *encrypted = j->authorities != NULL ?
	xasprintf(" sslmode=verify-full ssl_min_protocol_version=TLSv1.3 sslrootcert=%s sslcert=" NO_FILE, j->authorities) : xstrdup("");
	char	   *conninfo = xasprintf("host=%s port=%d user=" SETUP_ROLE "%s", n->host, n->port, encrypted);

	free(encrypted);
	return conninfo;
}

static bool
try_donor(Join *j, const SetupNode *n, char **why)
{
	char	   *conninfo = donor_conninfo(j, n);
	const char *keywords[] = {"dbname", "dbname", "password", "connect_timeout", "application_name", NULL};
	const char *values[] = {conninfo, "postgres", j->file.password, "5", "lockstepctl", NULL};
	PGconn	   *conn = PQconnectdbParams(keywords, values, 1);

	free(conninfo);
	if (PQstatus(conn) == CONNECTION_OK)
	{
		j->donor = n;
		j->donor_conn = conn;
		return true;
	}
	free(*why);
	*why = xstrdup(pgclient_message(PQerrorMessage(conn)));
	PQfinish(conn);
	return false;
}

/* The one that was named, or the first that answers. */
static bool
find_donor(Join *j)
{
	char	   *why = NULL;
	bool		found = false;
	bool		named = false;

	for (int i = 0; i < j->file.nnodes && !found; i++)
	{
		const SetupNode *n = &j->file.nodes[i];

		if (n == j->self || (j->o->donor != NULL && strcmp(j->o->donor, n->name) != 0))
			continue;
		named = true;
		found = try_donor(j, n, &why);
	}
	if (!named)
		return setup_fail(NULL, "there is no other node \"%s\" in the join file", j->o->donor != NULL ? j->o->donor : "");
	if (!found)
		setup_fail("A node has to be online, and reachable from here: listen_addresses, pg_hba.conf and firewall there.", "no node can be cloned: %s", why);
	free(why);
	return found;
}

static bool
check_donor(const Join *j)
{
	char	   *name = conn_ask(j->donor_conn, "SELECT current_setting('lockstep.node_name', true)", NULL, NULL);
	bool		ok = name != NULL;

	if (ok && strcmp(name, j->donor->name) != 0)
		ok = setup_fail("Correct the addresses in replicator.conf and in the join file.", "the server at %s:%d is not node \"%s\" (its lockstep.node_name is \"%s\")",
						j->donor->host, j->donor->port, j->donor->name, name);
	free(name);
	return ok;
}

/* As the server's user: can pg_basebackup make a tablespace there, as the donor has it? */
static bool
is_place_for_tablespace(const Join *j, const char *location)
{
	size_t		data = strlen(j->server.data);
	DIR		   *dir;
	struct dirent *entry;
	bool		empty = true;

	if (strncmp(location, j->server.data, data) == 0 && (location[data] == '/' || location[data] == '\0'))
		return false;
	dir = opendir(location);
	if (dir == NULL && errno == ENOENT)
	{
		char	   *above = directory_of(location);
		bool		ok = faccessat(AT_FDCWD, above, W_OK | X_OK, AT_EACCESS) == 0 ||
		(errno == ENOENT && strcmp(above, location) != 0 && is_place_for_tablespace(j, above));

		free(above);
		return ok;
	}
	while (dir != NULL && empty && (entry = readdir(dir)) != NULL)
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	if (dir != NULL)
		closedir(dir);
	return dir != NULL && empty && faccessat(AT_FDCWD, location, W_OK | X_OK, AT_EACCESS) == 0;
}

static bool
check_tablespaces(const Join *j)
{
	PGresult   *r = PQexec(j->donor_conn, "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE pg_tablespace_location(oid) LIKE '/%' ORDER BY 1");
	bool		ok = PQresultStatus(r) == PGRES_TUPLES_OK ||
	setup_fail(NULL, "could not list the donor's tablespaces: %s", pgclient_message(PQresultErrorMessage(r)));

	for (int i = 0; ok && i < PQntuples(r); i++)
	{
		const char *location = PQgetvalue(r, i, 1);

		setup_become_server(&j->setup);
		ok = is_place_for_tablespace(j, location);
		setup_become_self(&j->setup);
		if (!ok)
			setup_fail("A clone has it in the same place: make that an empty directory of the server's user, outside of the data directory.  Two servers of one "
					   "machine cannot share it.  What an interrupted join has left there may be removed.",
					   "tablespace \"%s\" of node \"%s\" is in \"%s\", which is no empty directory here, and cannot be made",
					   PQgetvalue(r, i, 0), j->donor->name, location);
	}
	PQclear(r);
	return ok;
}

/* Without it the node could not work: better to know before. */
static bool
check_replicator(const Join *j)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	struct timeval limit = {.tv_sec = CONNECT_TIMEOUT_S};
	char	   *host;
	int			port = 0;
	char		service[16];
	bool		ok = false;

	if (!address_split(j->file.replicator, &host, &port))
		return setup_fail(NULL, "the join file has an invalid address of the replicator: \"%s\"", j->file.replicator);
	snprintf(service, sizeof(service), "%d", port);
	errno = EHOSTUNREACH;
	if (getaddrinfo(host, service, &hints, &list) == 0)
	{
		for (struct addrinfo *a = list; a != NULL && !ok; a = a->ai_next)
		{
			int			fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);

			ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0;
			if (fd >= 0)
				close(fd);
		}
		freeaddrinfo(list);
	}
	free(host);
	return ok || setup_fail("See listen_addresses in replicator.conf, and the firewall there.", "could not reach the replicator at %s: %s", j->file.replicator,
							errno == EINPROGRESS ? "no answer" : strerror(errno));
}

static bool
look(Join *j)
{
	char	   *identifier;
	bool		ok;

	if (!setup_begin(&j->setup, j->o->dry_run, NULL) || !join_file_read(&j->file, j->o->join_file) || !find_self(j) ||
		!server_open(&j->server, &j->setup, j->o->server) || !server_lock(&j->server, &j->setup) || !server_check(&j->server) || !check_version_and_port(j) ||
		!check_libraries(j) || !open_authorities(j) || !find_donor(j) || !check_donor(j) || !check_replicator(j))
		return false;
	identifier = conn_ask(j->donor_conn, "SELECT system_identifier::text FROM pg_control_system()", NULL, NULL);
	ok = identifier != NULL && check_membership(j, identifier) && (j->is_node || (check_empty(j) && check_tablespaces(j)));
	free(identifier);
	return ok;
}

static bool
plan(Join *j)
{
	struct stat st;

	j->place = realpath(j->server.data, NULL);
	if (j->place == NULL)
		return setup_fail(NULL, "could not find \"%s\": %s", j->server.data, strerror(errno));
	j->log_directory = server_setting(&j->server, "log_directory");
	j->joining = xasprintf("%s.joining-%d", j->place, (int) getpid());
	j->before = xasprintf("%s.before-join", j->place);
	if (!j->is_node && stat(j->before, &st) == 0)
		return setup_fail("They are the data of this server before an earlier join: remove them if nobody needs them.", "\"%s\" exists", j->before);
	if (!j->is_node && strcmp(directory_of(j->server.config_file), j->server.data) != 0 && j->server.cluster == NULL && j->server.unit == NULL)
		return setup_fail("Use a server made by pg_createcluster or initdb, or one that systemd runs.",
						  "the server's configuration is in \"%s\": it is unknown how to start it", j->server.config_file);
	return node_files(&j->files, &j->setup, &j->server, NULL, NULL) &&
		node_files(&j->prepared, &j->setup, &j->server, j->server.data, j->joining) &&
		node_settings(&j->settings, &j->setup, &j->server, &j->files, j->self, j->file.replicator, j->file.libraries,
					  j->file.reserved - 3, j->file.max_connections, j->file.certs.certificate != NULL) &&
		(j->is_node || node_settings_win(&j->setup, &j->server, &j->files, &j->settings));
}

/* ---------- the clone */

static bool
run_as_server(Join *j, Run run)
{
	char	   *text;
	bool		ok;

	run.as_server = &j->setup;
	ok = run_program(&run) == 0;
	if (!ok)
	{
		text = run_text(&run);
		setup_fail(NULL, "\"%s\" failed", text);
		free(text);
	}
	return ok;
}

static bool
remove_from_clone(Join *j, const char *path)
{
	Run			remove = {.argv = {"rm", "-rf", "--", (char *) path}};

	return run_as_server(j, remove);
}

/* What interrupted joins have left. */
static bool
remove_leftovers(Join *j)
{
	char	   *above = directory_of(j->place);
	char	   *prefix = xasprintf("%s.joining-", strrchr(j->place, '/') + 1);
	DIR		   *dir;
	struct dirent *entry;
	bool		ok = true;

	setup_become_server(&j->setup);
	dir = opendir(above);
	setup_become_self(&j->setup);
	if (dir == NULL)
		return setup_fail(NULL, "could not read \"%s\": %s", above, strerror(errno));
	while (ok && (entry = readdir(dir)) != NULL)
	{
		const char *number = entry->d_name + strlen(prefix);
		char	   *path;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || number[strspn(number, "0123456789")] != '\0')
			continue;
		path = path_in(above, entry->d_name);
		setup_step(&j->setup, "remove", "%s, which an interrupted join has left", path);
		ok = j->setup.dry_run || remove_from_clone(j, path);
		free(path);
	}
	closedir(dir);
	free(above);
	free(prefix);
	return ok;
}

static bool
clone(Join *j)
{
	char	   *donor = donor_conninfo(j, j->donor);
	Run			backup = {.argv = {path_in(j->server.bindir, "pg_basebackup"), "-d", donor, "-D", j->joining, "-X", "stream", "-c", "fast", "-P",
	"-l", (char *) "lockstepctl join"},.password = j->file.password};
	bool		ok;

	setup_step(&j->setup, "clone", "node %s into %s", j->donor->name, j->joining);
	ok = j->setup.dry_run || run_as_server(j, backup) ||
		setup_fail("max_wal_senders of the donor must be above 1, and the directory above the data directory must belong to the server's user.",
				   "node \"%s\" could not be cloned", j->donor->name);
	free(donor);
	return ok;
}

/* The same of a directory: of configuration files, certificates and keys, whatever its name. */
static bool
is_own_directory(const Join *j, const char *name)
{
	static const char *const others[] = {"base", "global", "log", "lost+found"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
	{
		if (strcmp(name, others[i]) == 0)
			return false;
	}
	return strncmp(name, "pg_", 3) != 0 && name[0] != '.' && (j->log_directory == NULL || strcmp(name, j->log_directory) != 0);
}

/* Of a data directory: is the file the administrator's, not PostgreSQL's? */
static bool
is_configuration(const char *name)
{
	static const char *const postgres[] = {"PG_VERSION", "postmaster.pid", "postmaster.opts", "backup_manifest", "current_logfiles",
	"standby.signal", "recovery.signal"};
	size_t		len = strlen(name);

	for (size_t i = 0; i < sizeof(postgres) / sizeof(postgres[0]); i++)
	{
		if (strcmp(name, postgres[i]) == 0)
			return false;
	}
	return strncmp(name, "lockstep_", 9) != 0 && strncmp(name, "backup_label", 12) != 0 && strncmp(name, "tablespace_map", 14) != 0 &&
		!(len > 4 && strcmp(name + len - 4, ".log") == 0) && strcmp(name, "logfile") != 0 && name[0] != '.';
}

/* What is the donor's in the clone, or this server's in its own directory. */
static bool
each_configuration_file(Join *j, const char *directory, bool (*act) (Join *j, const char *path))
{
	DIR		   *dir;
	struct dirent *entry;
	bool		ok = true;

	setup_become_server(&j->setup);
	dir = opendir(directory);
	setup_become_self(&j->setup);
	if (dir == NULL)
		return setup_fail(NULL, "could not read \"%s\": %s", directory, strerror(errno));
	while (ok && (entry = readdir(dir)) != NULL)
	{
		char	   *path = path_in(directory, entry->d_name);
		struct stat st;

		/* pg_wal may be a link to a directory */
		if (stat(path, &st) == 0 && (S_ISDIR(st.st_mode) ? is_own_directory(j, entry->d_name) : is_configuration(entry->d_name)))
			ok = act(j, path);
		free(path);
	}
	closedir(dir);
	return ok;
}

static bool
copy_to_clone(Join *j, const char *path)
{
	Run			copy = {.argv = {"cp", "-Rp", "--", (char *) path, j->joining}};

	return run_as_server(j, copy);
}

static bool
prepare(Join *j)
{
	setup_step(&j->setup, "keep", "the configuration of this server");
	if (!j->setup.dry_run && (!each_configuration_file(j, j->joining, remove_from_clone) || !each_configuration_file(j, j->server.data, copy_to_clone)))
		return false;
	return node_write(&j->setup, j->setup.dry_run ? &j->files : &j->prepared, &j->settings, j->file.nodes, j->file.nnodes,
					  "127.0.0.1", j->file.secret, &j->file.certs);
}

/* ---------- the change */

/* The copies of configuration files, and the names of the directories, as well as the clone. */
static bool
flush_file_system(const char *directory)
{
	int			fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = fd >= 0 && syncfs(fd) == 0;
	int			cause = errno;

	if (fd >= 0)
		close(fd);
	errno = cause;
	return ok;
}

static bool
exchange(Join *j)
{
	bool		ok;

	setup_step(&j->setup, "replace", "%s; the old data stay in %s", j->place, j->before);
	if (j->setup.dry_run)
		return true;
	setup_become_server(&j->setup);
	ok = flush_file_system(j->joining);
	if (!ok)
	{
		setup_become_self(&j->setup);
		return setup_fail("Start the server again.", "could not flush \"%s\": %s", j->joining, strerror(errno));
	}
	ok = renameat2(AT_FDCWD, j->place, AT_FDCWD, j->joining, RENAME_EXCHANGE) == 0;
	if (ok)
		ok = rename(j->joining, j->before) == 0;
	else if (errno == EINVAL || errno == ENOSYS)	/* not of this file system */
	{
		ok = rename(j->place, j->before) == 0;
		if (ok && rename(j->joining, j->place) != 0)
		{
			int			cause = errno;

			ok = false;
			(void) rename(j->before, j->place);
			errno = cause;
		}
	}
	if (ok)
		ok = flush_file_system(j->place);
	setup_become_self(&j->setup);
	return ok || setup_fail("The data directory must not be a mount point itself; the directory above must belong to the server's user.  Start the server again.",
							"could not replace \"%s\": %s", j->place, strerror(errno));
}

/* ---------- online? */

/* A node that takes writes; else *why. */
static bool
takes_writes(const Join *j, const char *database, char **why)
{
	PGconn	   *conn = server_try_database(&j->server, &j->setup, database);
	PGresult   *r;
	bool		ok;

	PQclear(PQexec(conn, "SET lockstep.replicate = on; SET lockstep.failover_wait = 0"));
	r = PQexec(conn, "SELECT lockstep.transaction_token()");
	ok = PQresultStatus(r) == PGRES_TUPLES_OK;
	if (!ok)
	{
		const char *detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);

		free(*why);
		*why = xasprintf("%s%s%s", pgclient_message(PQerrorMessage(conn)), detail != NULL ? ": " : "", detail != NULL ? detail : "");
	}
	PQclear(r);
	PQfinish(conn);
	return ok;
}

static bool
wait_until_online(Join *j)
{
	Databases	d;
	char	   *why = NULL;
	double		begun = setup_now();
	bool		online = false;

	if (!server_databases(&j->server, &j->setup, &d))
		return false;
	if (d.nreplicated == 0)
	{
		printf("\nNode %s runs.  No database is replicated yet: \"lockstepctl nodes\", on the replicator's machine, shows whether it is online.\n", j->self->name);
		return true;
	}
	setup_step(&j->setup, "wait", "until node %s is online", j->self->name);
	j->setup.changes--;
	while (!(online = takes_writes(j, d.first, &why)) && (j->o->timeout_s == 0 || setup_now() - begun < j->o->timeout_s))
		usleep(100 * 1000);
	if (online)
		printf("\nNode %s is online, with %d database%s.\n", j->self->name, d.nreplicated, d.nreplicated == 1 ? "" : "s");
	else
		setup_fail("See \"lockstepctl nodes\" and \"lockstepctl doctor\" on the replicator's machine.  Running join again goes on waiting.",
				   "node \"%s\" runs, and is not online: %s", j->self->name, why != NULL ? why : "");
	free(why);
	return online;
}

/* ---------- the command */

static bool
become_node(Join *j)
{
	return remove_leftovers(j) && clone(j) && prepare(j) && server_control(&j->server, &j->setup, "stop") && exchange(j) &&
		server_control(&j->server, &j->setup, "start") &&
		(j->setup.dry_run || (server_reopen(&j->server, &j->setup, 60) && node_settings_win(&j->setup, &j->server, &j->files, &j->settings)));
}

static bool
run_join(Join *j)
{
	if (!look(j) || !plan(j))
		return false;
	printf("Node %s: %s.%s\n", j->self->name, j->server.description, j->setup.dry_run ? "  Nothing is changed (--dry-run)." : "");
	if (j->is_node)
		printf("Nothing to do: this server is a node of the cluster already.\n");
	else
		printf("max_connections will be %d, of which %d are reserved for the replicator and superusers.\n", j->settings.max_connections, j->settings.reserved);
	fflush(stdout);
	return (j->is_node || become_node(j)) && (j->setup.dry_run || wait_until_online(j));
}

int
join_server(const JoinOptions *o)
{
	Join		j = {.o = o};
	bool		ok = run_join(&j);

	PQfinish(j.donor_conn);
	server_close(&j.server);
	return ok ? CTL_OK : CTL_FAILED;
}
