/*
 * ctl_node.c
 *	  What makes a server a node: lockstep.conf, the lines of pg_hba.conf, and the copy of the
 *	  secret.
 *
 * lockstep.conf is in conf.d, where postgresql.conf includes that directory (Debian), else beside
 * postgresql.conf, which gets an include at its end.  Lines that somebody else has written into
 * it stay.  Not postgresql.auto.conf: nobody looks there, and it overrides the files that people edit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buffer.h"
#include "ctl_setup.h"
#include "pgclient.h"

#define HEADER "# lockstep: the settings of this node, written by lockstepctl.  Lines may be changed and added.\n"
#define FREE_RESERVED 3			/* superuser_reserved_connections for
								 * superusers, beside the replicator */

static char *
moved(const char *path, const char *from, const char *to)
{
	size_t		len = from != NULL ? strlen(from) : 0;

	if (len > 0 && strncmp(path, from, len) == 0 && path[len] == '/')
		return xasprintf("%s%s", to, path + len);
	return xstrdup(path);
}

bool
node_files(NodeFiles *f, const Setup *s, const Server *v, const char *from, const char *to)
{
	char	   *directory = directory_of(v->config_file);
	char	   *text;
	char	   *conf;

	if (!setup_read(s, v->config_file, OWNER_SERVER, &text))
		return false;
	conf = path_in(directory, text != NULL && conf_includes(text, "include_dir", "conf.d") ? "conf.d/lockstep.conf" : "lockstep.conf");
	f->secret_final = path_in(directory, "lockstep.secret");
	f->config_file = moved(v->config_file, from, to);
	f->hba_file = moved(v->hba_file, from, to);
	f->lockstep_conf = moved(conf, from, to);
	f->secret = moved(f->secret_final, from, to);
	f->tls_final = path_in(directory, "lockstep.tls");
	f->tls = moved(f->tls_final, from, to);
	free(conf);
	free(text);
	free(directory);
	return true;
}

char *
node_conf_value(const Setup *s, const NodeFiles *f, const char *name)
{
	char	   *text;
	char	   *value;

	if (!setup_read(s, f->lockstep_conf, OWNER_SERVER, &text) || text == NULL)
		return NULL;
	value = conf_get(text, name);
	free(text);
	return value;
}

/* What lockstep.conf says, else what is in force; NULL: neither. */
static char *
setting_to_be(const Setup *s, const Server *v, const NodeFiles *f, const char *name)
{
	char	   *value = node_conf_value(s, f, name);

	return value != NULL ? value : server_setting(v, name);
}

static int
number_to_be(const Setup *s, const Server *v, const NodeFiles *f, const char *name)
{
	char	   *value = setting_to_be(s, v, f, name);
	int			n = value != NULL ? atoi(value) : 0;

	free(value);
	return n;
}

/* ---------- settings */

/* NULL: it listens there already. */
static char *
listen_to_be(const Setup *s, const Server *v, const NodeFiles *f, const char *host)
{
	char	   *now = setting_to_be(s, v, f, "listen_addresses");
	bool		loopback = strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
	char	   *wanted;
	int			n;
	char	  **items = config_list(now != NULL ? now : "", &n);
	bool		there = false;

	for (int i = 0; i < n; i++)
		there |= strcmp(items[i], "*") == 0 || strcmp(items[i], host) == 0 || (loopback && strcmp(items[i], "localhost") == 0) ||
			(strcmp(items[i], "0.0.0.0") == 0 && strchr(host, ':') == NULL);
	config_list_free(items, n);
	if (there)
		wanted = NULL;
	else if (loopback || address_is_number(host))
		wanted = list_with(now != NULL ? now : "", host);
	else
		wanted = xstrdup("*");	/* a name may mean another address here */
	free(now);
	return wanted;
}

/* Clients may know the certificate that the server has now. */
static bool
may_set_certificate(const Server *v, const NodeFiles *f)
{
	char	   *ssl = server_setting(v, "ssl");
	char	   *now = server_setting(v, "ssl_cert_file");
	char	   *ours = path_in(f->tls_final, "cert.pem");
	bool		ok = ssl == NULL || now == NULL || strcmp(ssl, "on") != 0 || strcmp(now, ours) == 0 || strstr(now, "ssl-cert-snakeoil") != NULL;

	if (!ok)
		setup_fail("Set it up by hand, with certificates of that authority (\"TLS\" in docs/operating.md); or turn ssl off, and the server gets a certificate of the cluster's authority.",
				   "this server has a certificate of its own: ssl_cert_file = '%s'", now);
	free(ssl);
	free(now);
	free(ours);
	return ok;
}

bool
node_settings(NodeSettings *n, const Setup *s, const Server *v, const NodeFiles *f, const SetupNode *node,
			  const char *replicator, const char *libraries, int needed, int max_connections, bool tls)
{
	char	   *now = setting_to_be(s, v, f, "shared_preload_libraries");
	char	   *wal_level = server_setting(v, "wal_level");
	char	   *senders = server_setting(v, "max_wal_senders");
	int			n_items;
	char	  **items = config_list(libraries, &n_items);

	*n = (NodeSettings) {.node_name = node->name,.replicator = xstrdup(replicator),.tls = tls,.libraries = now != NULL ? now : xstrdup("")};
	for (int i = 0; i < n_items; i++)
		n->libraries = list_with(n->libraries, items[i]);
	config_list_free(items, n_items);
	n->listen_addresses = listen_to_be(s, v, f, node->host);
	n->max_connections = number_to_be(s, v, f, "max_connections");
	n->reserved = number_to_be(s, v, f, "superuser_reserved_connections");
	if (n->reserved < needed)
	{
		/* so that clients keep as many as they have now */
		n->max_connections += needed + FREE_RESERVED - n->reserved;
		n->reserved = needed + FREE_RESERVED;
	}
	if (n->max_connections < max_connections)
		n->max_connections = max_connections;
	n->raise_wal_level = wal_level != NULL && strcmp(wal_level, "minimal") == 0;
	n->raise_wal_senders = senders != NULL && atoi(senders) < 2;
	free(wal_level);
	free(senders);
	return !tls || may_set_certificate(v, f);
}

#define MAX_PAIRS 13

typedef struct Pair
{
	const char *name;
	const char *value;
} Pair;

/* name and value, in the order of lockstep.conf; numbers: room for them. */
static int
pairs_of(const NodeSettings *n, const NodeFiles *f, Pair *pairs, char numbers[2][16])
{
	static char *certificate;
	static char *key;
	int			i = 0;

	snprintf(numbers[0], 16, "%d", n->max_connections);
	snprintf(numbers[1], 16, "%d", n->reserved);
	pairs[i++] = (Pair) {"shared_preload_libraries", n->libraries};
	pairs[i++] = (Pair) {"lockstep.node_name", n->node_name};
	pairs[i++] = (Pair) {"lockstep.replicator", n->replicator};
	pairs[i++] = (Pair) {"lockstep.secret_file", f->secret_final};
	pairs[i++] = (Pair) {"max_connections", numbers[0]};
	pairs[i++] = (Pair) {"superuser_reserved_connections", numbers[1]};
	if (n->listen_addresses != NULL)
		pairs[i++] = (Pair) {"listen_addresses", n->listen_addresses};
	if (n->tls)
	{
		free(certificate);
		free(key);
		certificate = path_in(f->tls_final, "cert.pem");
		key = path_in(f->tls_final, "key.pem");
		pairs[i++] = (Pair) {"lockstep.tls_directory", f->tls_final};
		pairs[i++] = (Pair) {"ssl", "on"};
		pairs[i++] = (Pair) {"ssl_cert_file", certificate};
		pairs[i++] = (Pair) {"ssl_key_file", key};
	}
	else
		pairs[i++] = (Pair) {"lockstep.require_tls", "remote"};
	if (n->raise_wal_level)
		pairs[i++] = (Pair) {"wal_level", "replica"};
	if (n->raise_wal_senders)
		pairs[i++] = (Pair) {"max_wal_senders", "10"};
	return i;
}

static bool
write_lockstep_conf(Setup *s, const NodeFiles *f, const NodeSettings *n)
{
	Pair		pairs[MAX_PAIRS];
	char		numbers[2][16];
	int			npairs = pairs_of(n, f, pairs, numbers);
	char	   *text;
	char	   *lines = xstrdup("");
	bool		ok;

	if (!setup_read(s, f->lockstep_conf, OWNER_SERVER, &text))
		return false;
	if (text == NULL)
		text = xstrdup(HEADER);
	for (int i = 0; i < npairs; i++)
	{
		char	   *now = conf_get(text, pairs[i].name);
		char	   *edited = conf_set(text, pairs[i].name, pairs[i].value);

		if (now == NULL || strcmp(now, pairs[i].value) != 0)
		{
			char	   *longer = xasprintf("%s%s = '%s'\n", lines, pairs[i].name, pairs[i].value);

			free(lines);
			lines = longer;
		}
		free(now);
		free(text);
		text = edited;
	}
	ok = setup_write(s, f->lockstep_conf, text, 0644, OWNER_SERVER, lines);
	free(text);
	free(lines);
	return ok;
}

bool
node_include(Setup *s, const char *config_file, const char *file)
{
	char	   *text;
	char	   *line = xasprintf("include '%s'", file);
	bool		ok = true;

	if (!setup_read(s, config_file, OWNER_SERVER, &text))
		return false;
	if (text == NULL)
		return setup_fail("Its configuration is elsewhere: make a server (pg_createcluster) and use a join file.", "there is no \"%s\"", config_file);
	if (!conf_includes(text, "include", file) && !conf_includes(text, "include_if_exists", file))
	{
		size_t		len = strlen(text);
		char	   *with = xasprintf("%s%s%s\n", text, len > 0 && text[len - 1] != '\n' ? "\n" : "", line);

		ok = setup_write(s, config_file, with, 0644, OWNER_SERVER, line);
		free(with);
	}
	free(text);
	free(line);
	return ok;
}

/* ---------- pg_hba.conf */

static char *
hba_lines(const SetupNode *nodes, int nnodes, const char *replicator_host, bool tls)
{
	const char *type = tls ? "hostssl" : "host";
	char	   *lines = xasprintf("%s all,replication " SETUP_ROLE " samehost scram-sha-256\n", type);

	for (int i = 0; i <= nnodes; i++)
	{
		const char *host = i < nnodes ? nodes[i].host : replicator_host;
		char	   *line = xasprintf("%s all,replication " SETUP_ROLE " %s%s scram-sha-256\n", type, host,
									 !address_is_number(host) ? "" : strchr(host, ':') != NULL ? "/128" : "/32");

		if (strstr(lines, line) == NULL)
		{
			char	   *longer = xasprintf("%s%s", lines, line);

			free(lines);
			lines = longer;
		}
		free(line);
	}
	return lines;
}

static bool
write_hba(Setup *s, const NodeFiles *f, const SetupNode *nodes, int nnodes, const char *replicator_host, bool tls)
{
	char	   *text;
	char	   *lines = hba_lines(nodes, nnodes, replicator_host, tls);
	char	   *with;
	bool		ok;

	if (!setup_read(s, f->hba_file, OWNER_SERVER, &text))
		return false;
	with = hba_with(text != NULL ? text : "", lines);
	ok = setup_write(s, f->hba_file, with, 0640, OWNER_SERVER, lines);
	free(with);
	free(lines);
	free(text);
	return ok;
}

static bool
write_certificates(Setup *s, const NodeFiles *f, const CertsFiles *certs)
{
	bool		ok;

	if (certs->certificate == NULL)
		return true;
	setup_become_server(s);
	ok = s->dry_run || mkdir(f->tls, 0700) == 0 || errno == EEXIST;
	setup_become_self(s);
	if (!ok)
		return setup_fail(NULL, "could not create \"%s\": %s", f->tls, strerror(errno));
	return certs_write(s, f->tls, certs, OWNER_SERVER, 0600);
}

bool
node_write(Setup *s, const NodeFiles *f, const NodeSettings *n, const SetupNode *nodes, int nnodes,
		   const char *replicator_host, const char *secret, const CertsFiles *certs)
{
	char	   *line = xasprintf("%s\n", secret);
	bool		ok = setup_write(s, f->secret, line, 0600, OWNER_SERVER, NULL) && write_certificates(s, f, certs) &&
	write_lockstep_conf(s, f, n) &&
	(strstr(f->lockstep_conf, "/conf.d/") != NULL || node_include(s, f->config_file, "lockstep.conf")) && write_hba(s, f, nodes, nnodes, replicator_host, n->tls);

	free(line);
	return ok;
}

/* ---------- looking at it */

static int
line_of_include(const char *text)
{
	int			line = 1;

	for (const char *p = text; *p != '\0'; line++)
	{
		size_t		len = strcspn(p, "\n");
		char	   *one = xstrndup(p, len);
		bool		here = conf_includes(one, "include_dir", "conf.d");

		free(one);
		if (here)
			return line;
		p += len + (p[len] == '\n');
	}
	return 0;
}

/* Is what this line of this file says read after lockstep.conf?  include_line: 0 if that is at the end. */
static bool
is_read_later(const NodeFiles *f, const char *file, int line, int include_line)
{
	const char *name = strrchr(file, '/');
	size_t		directory = (size_t) (strrchr(f->lockstep_conf, '/') - f->lockstep_conf);

	if (name != NULL && strcmp(name, "/postgresql.auto.conf") == 0)
		return true;
	if (include_line == 0)
		return false;
	if (strcmp(file, f->config_file) == 0)
		return line > include_line;
	return name != NULL && (size_t) (name - file) == directory && strncmp(file, f->lockstep_conf, directory) == 0 &&
		strcmp(name, "/lockstep.conf") > 0;
}

static bool
check_override(const NodeFiles *f, const Pair *pairs, int npairs, const char *name, const char *value, const char *file, int line)
{
	char	   *hint;

	for (int i = 0; i < npairs; i++)
	{
		if (strcmp(pairs[i].name, name) != 0 || strcmp(pairs[i].value, value) == 0)
			continue;
		hint = strstr(file, "/postgresql.auto.conf") != NULL ? xasprintf("ALTER SYSTEM RESET %s;", name) :
			xasprintf("Remove line %d of \"%s\".", line, file);
		setup_fail(hint, "\"%s\" sets %s to '%s', and overrides \"%s\" ('%s')", file, name, value, f->lockstep_conf, pairs[i].value);
		free(hint);
		return false;
	}
	return true;
}

bool
node_settings_win(const Setup *s, const Server *v, const NodeFiles *f, const NodeSettings *n)
{
	Pair		pairs[MAX_PAIRS];
	char		numbers[2][16];
	int			npairs = pairs_of(n, f, pairs, numbers);
	char	   *text;
	int			include_line;
	PGresult   *r;
	bool		ok;

	if (!setup_read(s, f->config_file, OWNER_SERVER, &text))
		return false;
	include_line = text != NULL ? line_of_include(text) : 0;
	free(text);
	r = PQexec(v->conn, "SELECT name, setting, sourcefile, sourceline FROM pg_file_settings ORDER BY seqno");
	ok = PQresultStatus(r) == PGRES_TUPLES_OK ||
		setup_fail(NULL, "could not read the server's files: %s", pgclient_message(PQresultErrorMessage(r)));
	for (int i = 0; ok && i < PQntuples(r); i++)
	{
		int			line = atoi(PQgetvalue(r, i, 3));

		if (is_read_later(f, PQgetvalue(r, i, 2), line, include_line))
			ok = check_override(f, pairs, npairs, PQgetvalue(r, i, 0), PQgetvalue(r, i, 1), PQgetvalue(r, i, 2), line);
	}
	PQclear(r);
	return ok;
}

bool
node_settings_in_force(const Server *v, const NodeFiles *f, const NodeSettings *n)
{
	Pair		pairs[MAX_PAIRS];
	char		numbers[2][16];
	int			npairs = pairs_of(n, f, pairs, numbers);
	bool		same = true;

	for (int i = 0; i < npairs; i++)
	{
		char	   *now = server_setting(v, pairs[i].name);

		same = same && now != NULL && strcmp(now, pairs[i].value) == 0;
		free(now);
	}
	return same;
}
