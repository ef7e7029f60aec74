/*
 * ctl_init.c
 *	  lockstepctl init: makes the server of this machine the first node of a cluster, with its
 *	  databases as they are, and makes and starts the replicator.
 *
 * In this order, so that an interruption leaves nothing that the next run does not take up:
 *
 *	 1. everything is checked, and planned
 *	 2. files: the secret, the password of the replicator's role, replicator.conf, the node's
 *		settings, pg_hba.conf, the join file; and the role
 *	 3. the server is restarted, and the replicator started, if --restart allows it
 *	 4. the node is attached, and the databases are added
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "conninfo.h"
#include "ctl_certs.h"
#include "pgclient.h"
#include "version.h"

#define SECRET_BYTES 32
#define PASSWORD_BYTES 24
#define JOIN_FILE "join"

typedef struct Init
{
	const InitOptions *o;
	Setup		setup;
	Server		server;
	SetupNode	nodes[CONFIG_MAX_NODES];
	int			nnodes;
	NodeFiles	files;
	ReplicatorPlan replicator;
	NodeSettings settings;
	char	   *databases[INIT_MAX_DATABASES];	/* to be replicated */
	int			ndatabases;
	Databases	there;			/* that this server has */
	int			needed;			/* connections of the replicator to each node */
	char	   *secret;
	char	   *password;
	char	   *join_file;
	CertsFiles	certs[CONFIG_MAX_NODES];	/* of the nodes */
} Init;

/* ---------- what was asked for */

static bool
parse_node(const char *text, SetupNode *node, int default_port)
{
	const char *equals = strchr(text, '=');
	size_t		len = equals != NULL ? (size_t) (equals - text) : 0;

	node->port = default_port;
	if (equals == NULL)
		return setup_fail("For example: lockstepctl init n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.3", "a node is given as NAME=HOST or NAME=HOST:PORT: \"%s\"", text);
	if (len == 0 || len >= sizeof(node->name) || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") < len)
		return setup_fail(NULL, "invalid node name \"%.*s\" (1 to 63 of a-z, 0-9 and _)", (int) len, text);
	snprintf(node->name, sizeof(node->name), "%.*s", (int) len, text);
	if (!address_split(equals + 1, &node->host, &node->port))
		return setup_fail(NULL, "invalid address of node \"%s\": \"%s\" (HOST or HOST:PORT)", node->name, equals + 1);
	return true;
}

static bool
resolves(const char *host)
{
	struct addrinfo *list = NULL;
	int			rc = getaddrinfo(host, NULL, NULL, &list);

	if (rc == 0)
		freeaddrinfo(list);
	return rc == 0 || setup_fail("Correct the name, or add it to DNS or to /etc/hosts of all machines; addresses are fine, too.",
								 "could not resolve \"%s\": %s", host, gai_strerror(rc));
}

static bool
parse_nodes(Init *in)
{
	int			own_port = atoi(in->server.port);

	if (in->o->nnodes > CONFIG_MAX_NODES)
		return setup_fail(NULL, "more than %d nodes", CONFIG_MAX_NODES);
	for (int i = 0; i < in->o->nnodes; i++)
	{
		SetupNode  *n = &in->nodes[i];

		if (!parse_node(in->o->nodes[i], n, i == 0 ? own_port : 5432) || !resolves(n->host))
			return false;
		for (int j = 0; j < i; j++)
		{
			if (strcmp(in->nodes[j].name, n->name) == 0)
				return setup_fail(NULL, "node \"%s\" is given twice", n->name);
			if (strcmp(in->nodes[j].host, n->host) == 0 && in->nodes[j].port == n->port)
				return setup_fail(NULL, "nodes \"%s\" and \"%s\" have the same address", in->nodes[j].name, n->name);
		}
		in->nnodes++;
	}
	if (in->nodes[0].port != own_port)
		return setup_fail("The first node is the server of this machine; --server='port=...' names another one.",
						  "node \"%s\" has port %d, and the server of this machine has port %d", in->nodes[0].name, in->nodes[0].port, own_port);
	return true;
}

static bool
add_database(Init *in, const char *name)
{
	for (int i = 0; i < in->ndatabases; i++)
	{
		if (strcmp(in->databases[i], name) == 0)
			return true;
	}
	if (in->ndatabases == INIT_MAX_DATABASES)
		return setup_fail("Name some of them: --database.", "more than %d databases", INIT_MAX_DATABASES);
	if (name[0] == '\0' || strlen(name) > 63 || strchr(name, '\n') != NULL)
		return setup_fail(NULL, "invalid name of a database: \"%s\"", name);
	in->databases[in->ndatabases++] = xstrdup(name);
	return true;
}

/*
 * Those that were named; else all that are there, or, in a cluster, those that it has: the
 * others may have been left out on purpose.
 */
static bool
choose_databases(Init *in)
{
	const Databases *d = &in->there;

	for (int i = 0; i < in->o->ndatabases; i++)
	{
		if (!add_database(in, in->o->databases[i]))
			return false;
	}
	for (int i = 0; i < d->n; i++)
	{
		if (d->replicated[i] || (in->o->ndatabases == 0 && d->nreplicated == 0))
		{
			if (!add_database(in, d->names[i]))
				return false;
		}
	}
	return true;
}

static bool
is_chosen(const Init *in, const char *name)
{
	for (int i = 0; i < in->ndatabases; i++)
	{
		if (strcmp(in->databases[i], name) == 0)
			return true;
	}
	return false;
}

static void
show_other_databases(const Init *in)
{
	for (int i = 0; i < in->there.n; i++)
	{
		if (!is_chosen(in, in->there.names[i]))
			printf("Database %s is not replicated: --database=%s would add it.\n", in->there.names[i], in->there.names[i]);
	}
}

/* ---------- may this server be the first node? */

static bool
check_membership(Init *in)
{
	char	   *name = server_setting(&in->server, "lockstep.node_name");
	char	   *at = server_setting(&in->server, "lockstep.replicator");
	struct stat st;
	bool		ok = true;

	if (name != NULL && name[0] != '\0' && strcmp(name, in->nodes[0].name) != 0)
		ok = setup_fail("Give it that name, or see \"Moving and retiring a node\" in docs/operating.md.",
						"this server is node \"%s\" of the cluster whose replicator is at \"%s\"", name, at != NULL ? at : "");
	else if (in->there.first != NULL && stat(in->replicator.config->journal_directory, &st) != 0)
		ok = setup_fail("Run init where that cluster's replicator is; or, if it is gone for good, SELECT lockstep.leave_cluster() in that database.",
						"database \"%s\" belongs to a cluster already, whose replicator is not on this machine (no journal in \"%s\")",
						in->there.first, in->replicator.config->journal_directory);
	free(name);
	free(at);
	return ok;
}

static bool
plan_connections(Init *in)
{
	const Config *c = in->replicator.config;
	int			each = c->apply_connections + c->reserved_connections + 1;

	in->needed = (in->ndatabases > 0 ? in->ndatabases : 1) * each + 2;
	return node_settings(&in->settings, &in->setup, &in->server, &in->files, &in->nodes[0], in->replicator.address, "lockstep", in->needed, 0, in->replicator.tls);
}

static void
show_connections(const Init *in)
{
	char	   *now = server_setting(&in->server, "max_connections");

	printf("The replicator uses %d connections of each node (%d database%s).  max_connections %s -> %d, of which %d are reserved.\n",
		   in->needed, in->ndatabases, in->ndatabases == 1 ? "" : "s", now != NULL ? now : "?", in->settings.max_connections, in->settings.reserved);
	free(now);
}

/* Within one machine it does without, unless it was asked for. */
static bool
needs_tls(const Init *in, const char *known_address)
{
	const char *replicator = in->o->replicator != NULL ? in->o->replicator : known_address;
	bool		needs = in->o->tls;
	char	   *host = NULL;
	int			port = 0;

	for (int i = 0; i < in->nnodes; i++)
		needs |= host_place(in->nodes[i].host) == CONNINFO_REMOTE;
	if (replicator != NULL && address_split(replicator, &host, &port))
		needs |= host_place(host) == CONNINFO_REMOTE;
	free(host);
	return needs;
}

/* Connects, too. */
static bool
look_and_plan(Init *in)
{
	char	   *known;

	if (!setup_begin(&in->setup, in->o->dry_run, in->o->config_file) || !server_open(&in->server, &in->setup, in->o->server) ||
		!server_lock(&in->server, &in->setup) || !server_check(&in->server) ||
		!parse_nodes(in) || !node_files(&in->files, &in->setup, &in->server, NULL, NULL) ||
		!server_databases(&in->server, &in->setup, &in->there) || !choose_databases(in))
		return false;
	known = node_conf_value(&in->setup, &in->files, "lockstep.replicator");
	if (!replicator_plan(&in->replicator, &in->setup, in->o, in->nodes, in->nnodes, known, needs_tls(in, known)) ||
		!resolves(in->replicator.host) || !check_membership(in) || !plan_connections(in) ||
		!node_settings_win(&in->setup, &in->server, &in->files, &in->settings))
		return false;
	free(known);
	in->join_file = path_in(in->replicator.directory, JOIN_FILE);
	return true;
}

/* ---------- files */

static bool
make_directory(Init *in)
{
	const char *directory = in->replicator.directory;
	bool		installed = strcmp(in->o->config_file, LOCKSTEP_CONFIG_FILE) == 0;	/* its journal is
																					 * elsewhere */
	struct stat st;

	if (stat(directory, &st) == 0)
		return true;
	setup_step(&in->setup, "create", "%s", directory);
	if (in->setup.dry_run)
		return true;
	if (mkdir(directory, in->setup.root ? 0750 : 0700) != 0 ||
		(in->setup.root && chown(directory, installed ? 0 : in->setup.replicator_uid, in->setup.replicator_gid) != 0))
		return setup_fail(NULL, "could not create \"%s\": %s", directory, strerror(errno));
	return true;
}

static char *
first_line(char *text)
{
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* The replicator takes all of the file but a last line break; here it has to be a line of text. */
static bool
check_secret(const char *path, char *text)
{
	size_t		len = strlen(first_line(text));
	struct stat st;

	if (len >= 16 && stat(path, &st) == 0 && (size_t) st.st_size <= len + 1)
		return true;
	return setup_fail("If no node uses it yet remove it, and init makes another one; else set up the nodes by hand.",
					  "the secret in \"%s\" is not one line of at least 16 bytes of text", path);
}

/* The cluster's secret, that of a file that is there, or a new one. */
static bool
choose_secret(Init *in)
{
	const char *path = in->replicator.config->secret_file;
	char	   *text;
	char	   *line;
	bool		ok;
	bool		there;

	if (!setup_read(&in->setup, path, OWNER_OF_DIRECTORY, &text))
		return false;
	there = text != NULL;
	if (!there && !setup_read(&in->setup, in->files.secret, OWNER_SERVER, &text))
		return false;
	if (text != NULL && !check_secret(there ? path : in->files.secret, text))
		return false;
	in->secret = text;
	if (there)
		return setup_protect(&in->setup, path, in->setup.root ? 0640 : 0600, OWNER_ROOT_READ_BY_REPLICATOR);
	if (text == NULL && !setup_random(&in->secret, SECRET_BYTES))
		return false;
	line = xasprintf("%s\n", in->secret);
	ok = setup_write(&in->setup, path, line, in->setup.root ? 0640 : 0600, OWNER_ROOT_READ_BY_REPLICATOR, NULL);
	free(line);
	return ok;
}

/* The password is written before the role has it: a run that is interrupted goes on with it. */
static bool
choose_password(Init *in)
{
	char	   *text;
	char	   *colon;
	char	   *role;
	bool		ok;

	if (!setup_read(&in->setup, in->replicator.pgpass, OWNER_OF_DIRECTORY, &text))
		return false;
	colon = text != NULL ? strstr(text, ":" SETUP_ROLE ":") : NULL;
	if (colon != NULL)
	{
		in->password = xstrdup(first_line(colon + strlen(":" SETUP_ROLE ":")));
		free(text);
		return setup_protect(&in->setup, in->replicator.pgpass, 0600, OWNER_REPLICATOR);
	}
	role = server_ask(&in->server, "SELECT 't' FROM pg_roles WHERE rolname = $1", SETUP_ROLE, NULL);
	if (role == NULL)
		return false;
	if (role[0] != '\0')
		return setup_fail("Write a line *:*:*:" SETUP_ROLE ":PASSWORD into that file (mode 600), or drop the role.",
						  "there is a role \"" SETUP_ROLE "\", and \"%s\" has no password for it", in->replicator.pgpass);
	free(role);
	if (!setup_random(&in->password, PASSWORD_BYTES))
		return false;
	text = xasprintf("*:*:*:" SETUP_ROLE ":%s\n", in->password);
	ok = setup_write(&in->setup, in->replicator.pgpass, text, 0600, OWNER_REPLICATOR, NULL);
	free(text);
	return ok;
}

static bool
create_role(Init *in, PGconn *conn)
{
	char	   *verifier = PQencryptPasswordConn(conn, in->password, SETUP_ROLE, "scram-sha-256");
	char	   *sql = xasprintf("CREATE ROLE " SETUP_ROLE " SUPERUSER REPLICATION LOGIN PASSWORD '%s'", verifier != NULL ? verifier : "");
	char	   *done = verifier != NULL ? conn_ask(conn, sql, NULL, NULL) : NULL;

	if (verifier == NULL)
		setup_fail(NULL, "could not encrypt a password: %s", pgclient_message(PQerrorMessage(conn)));
	PQfreemem(verifier);
	free(sql);
	free(done);
	return done != NULL;
}

/* In a cluster it is created on all nodes, through a replicated database. */
static bool
make_role(Init *in)
{
	char	   *super = server_ask(&in->server, "SELECT rolsuper AND rolreplication AND rolcanlogin FROM pg_roles WHERE rolname = $1", SETUP_ROLE, NULL);
	PGconn	   *conn;
	bool		ok;

	if (super == NULL)
		return false;
	if (super[0] == 't')
		return true;
	if (super[0] == 'f')
		return setup_fail("ALTER ROLE " SETUP_ROLE " SUPERUSER REPLICATION LOGIN, if it is the replicator's.",
						  "there is a role \"" SETUP_ROLE "\" that may not do what the replicator does");
	free(super);
	setup_step(&in->setup, "create", "role " SETUP_ROLE ": superuser, for the replicator and for new nodes; its password is in %s", in->replicator.pgpass);
	if (in->setup.dry_run)
		return true;
	if (in->there.first == NULL)
		return create_role(in, in->server.conn);
	conn = server_database(&in->server, &in->setup, in->there.first);
	ok = conn != NULL && (PQclear(PQexec(conn, "SET lockstep.replicate = on")), create_role(in, conn));
	PQfinish(conn);
	return ok;
}

static bool
write_replicator_conf(Init *in)
{
	char	   *lines = xstrdup("");
	bool		ok;

	for (int i = 0; i < in->nnodes; i++)
	{
		const char *conninfo = config_conninfo(in->replicator.config, in->nodes[i].name);
		char	   *longer;

		if (strstr(conninfo, in->replicator.pgpass) == NULL)
			continue;			/* an older line, which may have a password */
		longer = xasprintf("%snode.%s = '%s'\n", lines, in->nodes[i].name, conninfo);
		free(lines);
		lines = longer;
	}
	ok = setup_write(&in->setup, in->o->config_file, in->replicator.text, in->setup.root ? 0640 : 0600, OWNER_ROOT_READ_BY_REPLICATOR, lines);
	free(lines);
	return ok;
}

/* By the cluster's own authority, which is kept beside replicator.conf. */
static bool
write_certificates(Init *in)
{
	char	   *authority = path_in(in->replicator.directory, "ca");
	char	   *directory = path_in(in->replicator.directory, "tls");
	const char *host = in->replicator.host;
	int			before;
	CertsFiles	own;
	bool		ok;

	if (!in->replicator.tls)
		return true;
	ok = certs_files(&in->setup, authority, NULL, &host, 1, &own);
	if (ok && !in->setup.dry_run && mkdir(directory, 0755) != 0 && errno != EEXIST)
		ok = setup_fail(NULL, "could not create \"%s\": %s", directory, strerror(errno));
	before = in->setup.changes;
	ok = ok && certs_write(&in->setup, directory, &own, OWNER_ROOT_READ_BY_REPLICATOR, in->setup.root ? 0640 : 0600);
	in->replicator.changed |= in->setup.changes > before;	/* it has to read them */
	for (int i = 0; ok && i < in->nnodes; i++)
	{
		host = in->nodes[i].host;
		ok = certs_files(&in->setup, authority, in->nodes[i].name, &host, 1, &in->certs[i]);
	}
	free(authority);
	free(directory);
	return ok;
}

/* With TLS each node has one of its own, as each has its own certificate. */
static char *
join_file_of(const Init *in, const SetupNode *node)
{
	return in->replicator.tls ? xasprintf("%s-%s", in->join_file, node->name) : xstrdup(in->join_file);
}

static bool
write_join_file(Init *in, int node)
{
	JoinFile	f = {.server_version = in->server.version,.replicator = in->replicator.address,.secret = in->secret,
		.password = in->password,.libraries = in->settings.libraries,.max_connections = in->settings.max_connections,
	.reserved = in->settings.reserved,.nnodes = in->nnodes};
	char	   *text;
	char	   *path;
	bool		ok;

	memcpy(f.nodes, in->nodes, sizeof(f.nodes));
	f.certs = in->certs[node];
	text = join_file_text(&f);
	path = join_file_of(in, &in->nodes[node]);
	ok = setup_write(&in->setup, path, text, 0600, OWNER_OF_DIRECTORY, NULL);
	free(path);
	free(text);
	return ok;
}

static bool
write_join_files(Init *in)
{
	bool		ok = in->replicator.tls || write_join_file(in, 0);

	for (int i = 1; ok && in->replicator.tls && i < in->nnodes; i++)
		ok = write_join_file(in, i);
	return ok;
}

static bool
write_files(Init *in)
{
	return make_directory(in) && choose_secret(in) && choose_password(in) && write_certificates(in) && write_replicator_conf(in) &&
		node_write(&in->setup, &in->files, &in->settings, in->nodes, in->nnodes, in->replicator.host, in->secret, &in->certs[0]) &&
		make_role(in) && write_join_files(in);
}

/* ---------- processes */

/* pg_hba.conf and the certificate.  What an interrupted run has written is not read yet, either.  (Times of files are full seconds.) */
static bool
read_files(const Init *in)
{
	char	   *certificate = path_in(in->files.tls, "cert.pem");
	char	   *done = server_ask(&in->server, "SELECT pg_reload_conf() WHERE EXISTS (SELECT FROM unnest(ARRAY[$1, $2]) path, pg_stat_file(path, true) f "
								  "WHERE f.modification >= date_trunc('second', pg_conf_load_time()))",
								  in->files.hba_file, certificate);

	free(certificate);
	free(done);
	return done != NULL;
}

/* 1: it runs with its settings; 0: the operator has to restart it; -1: an error. */
static int
restart_server(Init *in)
{
	Run			run = server_command(&in->server, &in->setup, "restart");

	if (node_settings_in_force(&in->server, &in->files, &in->settings))
		return in->setup.dry_run || read_files(in) ? 1 : -1;
	if (!in->o->restart)
	{
		printf("\nThe server has to be restarted, which ends its connections:\n    %s\n", run_text(&run));
		return 0;
	}
	if (!server_control(&in->server, &in->setup, "restart") ||
		(!in->setup.dry_run && !server_reopen(&in->server, &in->setup, 60)))
		return -1;
	return 1;
}

static json_t *
status_of(const Init *in)
{
	json_t	   *status = in->o->status(in->replicator.config->admin_socket);

	if (json_is_true(json_object_get(status, "ok")))
		return status;
	json_decref(status);
	return NULL;
}

static bool
ask(Init *in, const char *verb, const char *command, long timeout_s)
{
	char	   *request = xasprintf("timeout=%ld %s\n", timeout_s * 1000, command);
	json_t	   *answer;
	const char *error;
	bool		ok;

	setup_step(&in->setup, verb, "%s", command);
	if (in->setup.dry_run)
		return true;
	answer = in->o->ask((void *) in->replicator.config->admin_socket, request, timeout_s == 0 ? 0 : timeout_s + ANSWER_TIMEOUT_S);
	ok = json_is_true(json_object_get(answer, "ok"));
	error = json_string_value(json_object_get(answer, "error"));
	if (!ok)
		setup_fail(json_string_value(json_object_get(answer, "hint")), "\"%s\" failed: %s", command, error != NULL ? error : "no reason was given");
	json_decref(answer);
	free(request);
	return ok;
}

/* As restart_server(). */
static int
start_replicator(Init *in)
{
	json_t	   *status = status_of(in);
	bool		runs = status != NULL;
	char	   *text;

	json_decref(status);
	if (runs)
		return !in->replicator.changed || ask(in, "tell", "reload", ANSWER_TIMEOUT_S) ? 1 : -1;
	if (in->o->restart)
		return replicator_start(&in->setup, in->o, &in->replicator) ? 1 : -1;
	text = replicator_start_text(&in->setup, in->o);
	printf("\nThe replicator has to be started:\n    %s\n", text);
	free(text);
	return 0;
}

static bool
has_database(const json_t *status, const char *name)
{
	const json_t *database;
	size_t		i;

	json_array_foreach(json_object_get(status, "databases"), i, database)
	{
		const char *there = json_is_string(database) ? json_string_value(database) : json_string_value(json_object_get(database, "name"));

		if (there != NULL && strcmp(there, name) == 0)
			return true;
	}
	return false;
}

static bool
is_online(const json_t *status, const char *name)
{
	const json_t *node;
	size_t		i;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		const char *there = json_string_value(json_object_get(node, "name"));
		const char *state = json_string_value(json_object_get(node, "state"));

		if (there != NULL && strcmp(there, name) == 0)
			return state != NULL && strcmp(state, "online") == 0;
	}
	return false;
}

static bool
add_databases(Init *in)
{
	json_t	   *status = in->setup.dry_run ? NULL : status_of(in);
	char	   *attach = xasprintf("attach %s", in->nodes[0].name);
	bool		ok = true;

	if (!is_online(status, in->nodes[0].name))
		ok = ask(in, "tell", attach, in->o->timeout_s);
	for (int i = 0; ok && i < in->ndatabases; i++)
	{
		char	   *add = xasprintf("database add %s", in->databases[i]);

		if (!has_database(status, in->databases[i]))
			ok = ask(in, "tell", add, 0);
		free(add);
	}
	json_decref(status);
	free(attach);
	return ok;
}

/* ---------- the command */

static void
print_summary(Init *in)
{
	json_t	   *status = status_of(in);
	int			left = 0;
	char	   *file;

	printf("\nNode %s is online, %d database%s replicated:", in->nodes[0].name, in->ndatabases, in->ndatabases == 1 ? " is" : "s are");
	for (int i = 0; i < in->ndatabases; i++)
		printf("%s %s", i > 0 ? "," : "", in->databases[i]);
	printf("\n");
	for (int i = 1; i < in->nnodes; i++)
	{
		if (in->certs[i].anew)
			printf("Node %s has a new certificate: copy the files of %s/ca/node-%s to its lockstep.tls_directory, and there: SELECT pg_reload_conf()\n",
				   in->nodes[i].name, in->replicator.directory, in->nodes[i].name);
		if (is_online(status, in->nodes[i].name))
			continue;
		file = join_file_of(in, &in->nodes[i]);
		if (left++ == 0 && in->replicator.tls)
			printf("Next, copy to each of the other machines its join file (mode 600: it has secrets), and there:\n");
		else if (left == 1)
			printf("Next, copy %s to the other machines (mode 600: it has the secrets), and there:\n", file);
		if (in->replicator.tls)
			printf("    lockstepctl join %s --join-file=FILE          # on %s, with %s\n", in->nodes[i].name, in->nodes[i].host, file);
		else
			printf("    lockstepctl join %s --join-file=FILE          # on %s\n", in->nodes[i].name, in->nodes[i].host);
		free(file);
	}
	if (left > 0)
		printf("Remove the copies afterwards.  \"lockstepctl status\" shows the nodes, \"lockstepctl doctor\" what is wrong.\n");
	json_decref(status);
}

static int
run_init(Init *in)
{
	int			server;
	int			replicator;

	if (!look_and_plan(in))
		return CTL_FAILED;
	printf("Node %s: %s.%s\n", in->nodes[0].name, in->server.description, in->setup.dry_run ? "  Nothing is changed (--dry-run)." : "");
	show_connections(in);
	show_other_databases(in);
	if (!write_files(in))
		return CTL_FAILED;
	server = restart_server(in);
	replicator = server < 0 ? -1 : start_replicator(in);
	if (server < 0 || replicator < 0)
		return CTL_FAILED;
	if (!in->setup.dry_run && (server == 0 || replicator == 0))
	{
		printf("\nNot finished: do this, then run the same lockstepctl init again (or at once with --restart, which does it).\n");
		return CTL_OK;
	}
	if (!add_databases(in))
		return CTL_FAILED;
	if (in->setup.changes == 0)
		printf("Nothing to do: everything is as it should be.\n");
	if (!in->setup.dry_run)
		print_summary(in);
	return CTL_OK;
}

int
init_cluster(const InitOptions *o)
{
	Init		in = {.o = o};
	int			code = run_init(&in);

	server_close(&in.server);
	return code;
}
