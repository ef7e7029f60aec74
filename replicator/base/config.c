/*
 * config.c
 *	  Settings of the replicator: one table that defines each, and the reader of
 *	  replicator.conf.
 *
 * The table `settings` drives parsing, defaults, ranges, SHOW, reload and
 * --describe-config; tests/lint/settings reads it too, so keep one line per
 * setting in the form it has.  To add a setting: a row here, a field of Config in
 * config.h, and what that check then asks for.  Only the families of names `node.NAME = 'conninfo'`
 * and `replicator.NAME = 'host:port'` are not in it.
 *
 * A file is taken as a whole or not at all: config_load() returns a complete,
 * checked Config or an error that names file and line.  Called by main and
 * lockstepctl; the modules get a const Config.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <libpq-fe.h>

#include "buffer.h"
#include "config.h"
#include "conninfo.h"

#define KB INT64_C(1024)
#define MB (1024 * KB)
#define GB (1024 * MB)
#define TB (1024 * GB)
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

typedef enum SettingType
{
	SETTING_STRING,
	SETTING_PATH,				/* absolute */
	SETTING_SOCKET,				/* absolute or '', short enough for sun_path */
	SETTING_INT,				/* int */
	SETTING_SIZE,				/* int64_t, bytes */
	SETTING_TIME,				/* int, milliseconds */
	SETTING_LEVEL,				/* LogLevel */
	SETTING_DESTINATION,		/* LogDestination */
	SETTING_SLOW_NODE,			/* SlowNode */
	SETTING_REQUIRE_TLS			/* RequireTls */
} SettingType;

/* What a change requires, and whether the setting is for developers. */
#define RESTART 0
#define RELOAD 1
#define DEVELOPER 2				/* for tests and for finding faults: not in
								 * the sample */

typedef struct Setting
{
	const char *name;
	SettingType type;
	size_t		offset;			/* in Config */
	const char *preset;			/* the default, as it would be written */
	int64_t		min;
	int64_t		max;
	int			flags;
	const char *help;			/* one sentence */
} Setting;

#define AT(field) offsetof(Config, field)

/* name, type, where, default, min, max, flags, help */
static const Setting settings[] = {
	{"listen_addresses", SETTING_STRING, AT(listen_addresses), "127.0.0.1", 0, 0, RESTART,
	"Comma-separated TCP addresses to listen on for backends; empty for none."},
	{"port", SETTING_INT, AT(port), "6432", 1, 65535, RESTART,
	"TCP port to listen on for backends."},
	{"unix_socket", SETTING_SOCKET, AT(unix_socket), "", 0, 0, RESTART,
	"Path of the Unix socket to listen on for backends; empty for none."},
	{"admin_socket", SETTING_SOCKET, AT(admin_socket), "/run/lockstep/admin.sock", 0, 0, RESTART,
	"Path of the Unix socket to listen on for lockstepctl."},
	{"http_listen", SETTING_STRING, AT(http_listen), "", 0, 0, RESTART,
	"Address and port (127.0.0.1:8432) to listen on for HTTP: pages, metrics, health checks; empty for none."},
	{"http_certificate", SETTING_PATH, AT(http_certificate), "", 0, 0, RESTART,
	"File with the certificate for HTTPS, in PEM; empty for HTTP without TLS, which is for loopback addresses only."},
	{"http_key", SETTING_PATH, AT(http_key), "", 0, 0, RESTART,
	"File with the private key of http_certificate, in PEM."},
	{"http_token_file", SETTING_PATH, AT(http_token_file), "", 0, 0, RESTART,
	"File with the token that each HTTP request must have; empty for none, which is for loopback addresses only."},
	{"tls_directory", SETTING_PATH, AT(tls_directory), "", 0, 0, RESTART,
	"Directory with cert.pem, key.pem, ca.pem and, if there is one, crl.pem for TLS with the nodes; empty for no TLS."},
	{"require_tls", SETTING_REQUIRE_TLS, AT(require_tls), "all", 0, 0, RESTART,
	"Which connections with the nodes must use TLS: all, or remote, which excepts those within this machine; Unix sockets need none."},
	{"secret_file", SETTING_PATH, AT(secret_file), "/etc/lockstep/secret", 0, 0, RESTART,
	"File with the secret of the cluster, at least 16 bytes."},
	{"journal_directory", SETTING_PATH, AT(journal_directory), "/var/lib/lockstep/journal", 0, 0, RESTART,
	"Directory of the journal; it is created if its parent directory exists."},
	{"journal_segment_size", SETTING_SIZE, AT(journal_segment_size), "16MB", 64 * KB, GB, RESTART | DEVELOPER,
	"Size at which a new journal file is started."},
	{"journal_keep", SETTING_SIZE, AT(journal_keep), "1GB", 0, 1024 * TB, RELOAD,
	"Size of the journal that is kept so that dropped nodes can catch up."},
	{"pid_file", SETTING_PATH, AT(pid_file), "/run/lockstep/replicator.pid", 0, 0, RESTART,
	"File that contains the process ID of the replicator, which locks it."},
	{"log_destination", SETTING_DESTINATION, AT(log_destination), "stderr", 0, 0, RESTART,
	"Form of the log: stderr (lines as PostgreSQL's), jsonlog or syslog."},
	{"log_file", SETTING_PATH, AT(log_file), "", 0, 0, RESTART,
	"File to log to, reopened on SIGHUP; empty for standard error."},
	{"log_level", SETTING_LEVEL, AT(log_level), "info", 0, 0, RELOAD,
	"Lowest severity of messages that are logged: debug, info, notice, warning or error."},
	{"log_sessions", SETTING_LEVEL, AT(log_sessions), "debug", 0, 0, RELOAD,
	"Severity at which each session of a node that has authenticated itself is logged."},
	{"log_conflicts", SETTING_LEVEL, AT(log_conflicts), "debug", 0, 0, RELOAD,
	"Severity at which each conflict (40001, 40P01) is logged."},
	{"apply_connections", SETTING_INT, AT(apply_connections), "8", 2, 64, RESTART,
	"Connections that the replicator keeps to each database of each node."},
	{"reserved_connections", SETTING_INT, AT(reserved_connections), "4", 0, 62, RESTART,
	"Further connections to each database of each node, for roles and tables that use few of them."},
	{"apply_patience", SETTING_TIME, AT(apply_patience), "3s", 0, DAY, RELOAD,
	"Time that a node may execute a transaction, beyond four times the time at its origin, while other transactions wait for the connection; 0 means no limit."},
	{"idle_ddl_timeout", SETTING_TIME, AT(idle_ddl_timeout), "10s", 0, DAY, RELOAD,
	"Time that a transaction which has run DDL may be idle while other DDL waits for it; 0 means no limit."},
	{"early_connections", SETTING_INT, AT(early_connections), "2", 0, 62, RELOAD,
	"Connections to each database of each node that may execute large transactions before they reach COMMIT."},
	{"early_size", SETTING_SIZE, AT(early_size), "1MB", 64 * KB, TB, RELOAD | DEVELOPER,
	"Size of queued queries from which a transaction may be executed on the other nodes before it reaches COMMIT."},
	{"max_apply_delay", SETTING_TIME, AT(max_apply_delay), "1s", 0, DAY, RELOAD,
	"Time that a reading session may block the execution of replicated DDL before it is canceled."},
	{"key_history", SETTING_TIME, AT(key_history), "1min", 0, DAY, RELOAD | DEVELOPER,
	"Time for which keys of committed transactions are remembered, if they are not too many, for those that have read or locked rows before and have not reached COMMIT."},
	{"yield_delay", SETTING_TIME, AT(yield_delay), "2ms", 0, 60 * SECOND, RELOAD | DEVELOPER,
	"Time that a replicated transaction may be blocked on a node before the replicator looks for the blocking sessions."},
	{"node_timeout", SETTING_TIME, AT(node_timeout), "5s", 100, DAY, RELOAD,
	"Time after which a node whose server does not respond is dropped."},
	{"stall_timeout", SETTING_TIME, AT(stall_timeout), "0ms", 0, DAY, RELOAD,
	"Time after which a node whose server responds but makes no progress is dropped; 0 means six times node_timeout."},
	{"wait_warning", SETTING_TIME, AT(wait_warning), "2s", 0, DAY, RELOAD,
	"Time after which a wait without progress is logged with what it waits for; 0 disables this."},
	{"reconnect_interval", SETTING_TIME, AT(reconnect_interval), "1s", 10, HOUR, RELOAD,
	"Time between attempts to connect to a node."},
	{"max_sessions", SETTING_INT, AT(max_sessions), "10000", 1, 1000000, RELOAD,
	"Maximum number of connected backends."},
	{"max_transaction_size", SETTING_SIZE, AT(max_transaction_size), "64GB", 64 * KB, 1024 * TB, RELOAD,
	"Maximum size of the queries of one transaction."},
	{"max_role_size", SETTING_SIZE, AT(max_role_size), "128GB", 64 * KB, 1024 * TB, RELOAD,
	"Maximum size of the queries of the uncommitted transactions of one role."},
	{"max_role_memory", SETTING_SIZE, AT(max_role_memory), "2GB", 64 * KB, 1024 * TB, RELOAD,
	"Maximum memory of the replicator that the uncommitted transactions of one role use."},
	{"transaction_memory", SETTING_SIZE, AT(transaction_memory), "8MB", 64 * KB, GB, RELOAD,
	"Size of the queries of one transaction that is kept in memory; the queries of a larger one are stored in a file."},
	{"max_apply_lag", SETTING_SIZE, AT(max_apply_lag), "64MB", 64 * KB, 1024 * TB, RELOAD,
	"Maximum size of committed transactions that an online node has not applied."},
	{"slow_node", SETTING_SLOW_NODE, AT(slow_node), "throttle", 0, 0, RELOAD,
	"What happens when a node exceeds max_apply_lag: throttle or drop."},
	{"replicator_name", SETTING_STRING, AT(replicator_name), "", 0, 0, RESTART,
	"Name of this replicator in a group of several; empty if it is the only one."},
	{"etcd_endpoints", SETTING_STRING, AT(etcd_endpoints), "", 0, 0, RESTART,
	"Comma-separated URLs of etcd, which decides who leads a group of replicators."},
	{"etcd_key", SETTING_STRING, AT(etcd_key), "/lockstep", 0, 0, RESTART,
	"Key of the group in etcd."},
	{"copies", SETTING_INT, AT(copies), "2", 1, 7, RESTART,
	"Number of replicators that have a transaction on disk before it is acknowledged, if there are so many."},
	{"min_copies", SETTING_INT, AT(min_copies), "2", 1, 7, RESTART,
	"Number of replicators that must have a transaction on disk before it is acknowledged: with fewer, writers wait."},
	{"maintenance_database", SETTING_STRING, AT(maintenance_database), "postgres", 0, 0, RESTART,
	"Database to connect to for commands that concern a whole node."},
	{"databases", SETTING_STRING, AT(databases), "", 0, 0, RESTART,
	"Databases that are replicated when the journal is created."},
};

#define NSETTINGS ((int) (sizeof(settings) / sizeof(settings[0])))
#define NODE_PREFIX "node."
#define REPLICATOR_PREFIX "replicator."

static const char *const level_names[] = {"debug", "info", "notice", "warning", "error", NULL};
static const char *const destination_names[] = {"stderr", "jsonlog", "syslog", NULL};
static const char *const slow_node_names[] = {"throttle", "drop", NULL};
static const char *const require_tls_names[] = {"all", "remote", NULL};

typedef struct Unit
{
	SettingType type;
	const char *name;
	int64_t		factor;
} Unit;

/* Largest first, so that values are shown in the largest that fits. */
static const Unit units[] = {
	{SETTING_SIZE, "TB", TB},
	{SETTING_SIZE, "GB", GB},
	{SETTING_SIZE, "MB", MB},
	{SETTING_SIZE, "kB", KB},
	{SETTING_SIZE, "B", 1},
	{SETTING_TIME, "d", DAY},
	{SETTING_TIME, "h", HOUR},
	{SETTING_TIME, "min", 60 * SECOND},
	{SETTING_TIME, "s", SECOND},
	{SETTING_TIME, "ms", 1},
};

#define NUNITS (sizeof(units) / sizeof(units[0]))

/* ---------- values */

static bool
is_text(SettingType type)
{
	return type == SETTING_STRING || type == SETTING_PATH || type == SETTING_SOCKET;
}

static void *
field_of(const Config *c, const Setting *s)
{
	return (char *) c + s->offset;
}

static int64_t
number_of(const Config *c, const Setting *s)
{
	const void *field = field_of(c, s);

	if (s->type == SETTING_SIZE)
		return *(const int64_t *) field;
	if (s->type == SETTING_LEVEL)
		return *(const LogLevel *) field;
	if (s->type == SETTING_DESTINATION)
		return *(const LogDestination *) field;
	if (s->type == SETTING_SLOW_NODE)
		return *(const SlowNode *) field;
	if (s->type == SETTING_REQUIRE_TLS)
		return *(const RequireTls *) field;
	return *(const int *) field;
}

static char *
format_number(SettingType type, int64_t value)
{
	for (size_t i = 0; i < NUNITS; i++)
	{
		if (units[i].type == type && value % units[i].factor == 0 &&
			(value != 0 || units[i].factor == 1))
			return xasprintf("%lld%s", (long long) (value / units[i].factor), units[i].name);
	}
	return xasprintf("%lld", (long long) value);
}

/* NULL, or what is wrong with value. */
static char *
parse_number(const Setting *s, const char *value, int64_t *out)
{
	char	   *end;
	int64_t		n;
	int64_t		factor = 1;
	bool		overflow;

	errno = 0;
	n = strtoll(value, &end, 10);
	overflow = errno == ERANGE;
	if (end == value)
		return xasprintf("invalid value for setting \"%s\": \"%s\"", s->name, value);
	while (*end == ' ' || *end == '\t')
		end++;

	if (*end != '\0')
	{
		size_t		i = 0;

		while (i < NUNITS && (units[i].type != s->type || strcmp(units[i].name, end) != 0))
			i++;
		if (i == NUNITS)
			return xasprintf("invalid value for setting \"%s\": \"%s\"%s", s->name, value,
							 s->type == SETTING_SIZE ? " (units are B, kB, MB, GB and TB)" :
							 s->type == SETTING_TIME ? " (units are ms, s, min, h and d)" : "");
		factor = units[i].factor;
	}

	if (overflow || __builtin_mul_overflow(n, factor, &n) || n < s->min || n > s->max)
	{
		char	   *low = format_number(s->type, s->min);
		char	   *high = format_number(s->type, s->max);
		char	   *error = xasprintf("\"%s\" is outside the valid range for setting \"%s\" (%s .. %s)",
									  value, s->name, low, high);

		free(low);
		free(high);
		return error;
	}
	*out = n;
	return NULL;
}

static char *
check_path(const Setting *s, const char *value)
{
	if (value[0] != '\0' && value[0] != '/')
		return xasprintf("setting \"%s\" must be an absolute path: \"%s\"", s->name, value);
	if (s->type == SETTING_SOCKET && strlen(value) >= sizeof(((struct sockaddr_un *) 0)->sun_path))
		return xasprintf("path of setting \"%s\" is longer than a Unix socket's may be (%zu bytes): \"%s\"",
						 s->name, sizeof(((struct sockaddr_un *) 0)->sun_path) - 1, value);
	return NULL;
}

/* The names of an enum's values, in their order; NULL: it is none. */
static const char *const *
choices_of(SettingType type)
{
	return type == SETTING_LEVEL ? level_names : type == SETTING_DESTINATION ? destination_names : type == SETTING_SLOW_NODE ? slow_node_names :
		type == SETTING_REQUIRE_TLS ? require_tls_names : NULL;
}

static char *
set_choice(Config *c, const Setting *s, const char *value)
{
	const char *const *names = choices_of(s->type);
	char	   *list = xstrdup("");
	char	   *error;

	for (int i = 0; names[i] != NULL; i++)
	{
		char	   *longer;

		if (strcmp(names[i], value) == 0)
		{
			if (s->type == SETTING_LEVEL)
				*(LogLevel *) field_of(c, s) = (LogLevel) i;
			else if (s->type == SETTING_DESTINATION)
				*(LogDestination *) field_of(c, s) = (LogDestination) i;
			else if (s->type == SETTING_REQUIRE_TLS)
				*(RequireTls *) field_of(c, s) = (RequireTls) i;
			else
				*(SlowNode *) field_of(c, s) = (SlowNode) i;
			free(list);
			return NULL;
		}
		longer = xasprintf("%s%s%s", list, i > 0 ? ", " : "", names[i]);
		free(list);
		list = longer;
	}
	error = xasprintf("invalid value for setting \"%s\": \"%s\" (one of %s)", s->name, value, list);
	free(list);
	return error;
}

static char *
set_value(Config *c, const Setting *s, const char *value)
{
	char	   *error = NULL;
	int64_t		n = 0;

	if (is_text(s->type))
	{
		char	  **field = field_of(c, s);

		if (s->type != SETTING_STRING && (error = check_path(s, value)) != NULL)
			return error;
		free(*field);
		*field = xstrdup(value);
		return NULL;
	}
	if (choices_of(s->type) != NULL)
		return set_choice(c, s, value);
	if ((error = parse_number(s, value, &n)) != NULL)
		return error;
	if (s->type == SETTING_SIZE)
		*(int64_t *) field_of(c, s) = n;
	else
		*(int *) field_of(c, s) = (int) n;
	return NULL;
}

/* ---------- nodes */

static bool
valid_node_name(const char *name)
{
	size_t		n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return n > 0 && n == strlen(name) && n < sizeof(((NodeConfig *) 0)->name);
}

/* NULL, or what is wrong with it. */
static char *
check_conninfo(const char *conninfo)
{
	/* What the replicator itself decides for every connection. */
	static const char *const ours[] = {"dbname", "options", "replication", "client_encoding"};
	char	   *message = NULL;
	char	   *error = NULL;
	PQconninfoOption *options = PQconninfoParse(conninfo, &message);

	if (options == NULL)
	{
		error = xasprintf("invalid connection string: %s", message ? message : "out of memory");
		error[strcspn(error, "\n")] = '\0';
		PQfreemem(message);
		return error;
	}
	for (PQconninfoOption *o = options; o->keyword != NULL && error == NULL; o++)
	{
		for (size_t i = 0; o->val != NULL && i < sizeof(ours) / sizeof(ours[0]); i++)
		{
			if (strcmp(o->keyword, ours[i]) == 0)
				error = xasprintf("connection string must not contain \"%s\": the replicator sets it",
								  ours[i]);
		}
	}
	PQconninfoFree(options);
	return error;
}

static NodeConfig *
find_node(Config *c, const char *name)
{
	for (int i = 0; i < c->nnodes; i++)
	{
		if (strcmp(c->nodes[i].name, name) == 0)
			return &c->nodes[i];
	}
	return NULL;
}

static char *
set_node(Config *c, const char *name, const char *conninfo)
{
	char	   *error;
	NodeConfig *node;

	if (!valid_node_name(name))
		return xasprintf("invalid node name \"%s\" (1 to 63 of a-z, 0-9 and _)", name);
	if (find_node(c, name) != NULL)
		return xasprintf("node \"%s\" is set twice", name);
	if (c->nnodes == CONFIG_MAX_NODES)
		return xasprintf("more than %d nodes", CONFIG_MAX_NODES);
	if ((error = check_conninfo(conninfo)) != NULL)
	{
		char	   *full = xasprintf("node \"%s\": %s", name, error);

		free(error);
		return full;
	}
	node = &c->nodes[c->nnodes++];
	snprintf(node->name, sizeof(node->name), "%s", name);
	node->written = xstrdup(conninfo);
	return NULL;
}

/* ---------- replicators */

int
config_replicator(const Config *c, const char *name)
{
	for (int i = 0; i < c->nreplicators; i++)
	{
		if (strcmp(c->replicators[i].name, name) == 0)
			return i;
	}
	return -1;
}

static char *
set_replicator(Config *c, const char *name, const char *address)
{
	const char *colon = strrchr(address, ':');
	ReplicatorConfig *r;

	if (!valid_node_name(name))
		return xasprintf("invalid replicator name \"%s\" (1 to 63 of a-z, 0-9 and _)", name);
	if (config_replicator(c, name) >= 0)
		return xasprintf("replicator \"%s\" is set twice", name);
	if (c->nreplicators == CONFIG_MAX_REPLICATORS)
		return xasprintf("more than %d replicators", CONFIG_MAX_REPLICATORS);
	if (colon == NULL || colon == address || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
		atoi(colon + 1) < 1 || atoi(colon + 1) > 65535)
		return xasprintf("invalid address of replicator \"%s\": \"%s\" (HOST:PORT)", name, address);
	r = &c->replicators[c->nreplicators++];
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->address = xstrdup(address);
	return NULL;
}

/* The connection string with its password hidden, for SHOW. */
static char *
shown_conninfo(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	char	   *shown = xstrdup("");

	for (PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
	{
		bool		hidden = strcmp(o->dispchar, "*") == 0;
		char	   *longer;

		if (o->val == NULL)
			continue;
		longer = xasprintf("%s%s%s=%s", shown, shown[0] ? " " : "", o->keyword,
						   hidden ? "********" : o->val);
		free(shown);
		shown = longer;
	}
	PQconninfoFree(options);
	return shown;
}

/* ---------- the file */

static char *
skip_blanks(char *p)
{
	while (isspace((unsigned char) *p))
		p++;
	return p;
}

/*
 * Take a value off *p, in place: 'quoted' ('' and \' are a quote, \\ is a
 * backslash) or bare, up to a blank or a comment.  NULL if it has no end.
 */
static char *
take_value(char **p)
{
	char	   *value;
	char	   *to;
	char	   *from = *p;

	if (*from != '\'')
	{
		value = from;
		from += strcspn(from, " \t\r#'\"");
		*p = from;
		return from == value ? NULL : xstrndup(value, (size_t) (from - value));
	}

	value = to = ++from;
	for (;; from++)
	{
		if (*from == '\0')
			return NULL;
		if (from[0] == '\'' && from[1] != '\'')
			break;
		if ((from[0] == '\'' && from[1] == '\'') ||
			(from[0] == '\\' && (from[1] == '\'' || from[1] == '\\')))
			from++;
		*to++ = *from;
	}
	*p = from + 1;
	return xstrndup(value, (size_t) (to - value));
}

static char *
set_by_name(Config *c, const char *name, const char *value)
{
	if (strncmp(name, NODE_PREFIX, strlen(NODE_PREFIX)) == 0)
		return set_node(c, name + strlen(NODE_PREFIX), value);
	if (strncmp(name, REPLICATOR_PREFIX, strlen(REPLICATOR_PREFIX)) == 0)
		return set_replicator(c, name + strlen(REPLICATOR_PREFIX), value);
	for (int i = 0; i < NSETTINGS; i++)
	{
		if (strcmp(settings[i].name, name) == 0)
			return set_value(c, &settings[i], value);
	}
	return xasprintf("unrecognized setting \"%s\"", name);
}

/* NULL, or what is wrong with the line.  Changes the line. */
static char *
parse_line(Config *c, char *line)
{
	char	   *name = skip_blanks(line);
	char	   *p = name;
	char	   *value;
	char	   *error;

	if (*p == '\0' || *p == '#')
		return NULL;
	while (isalnum((unsigned char) *p) || *p == '_' || *p == '.' || *p == '-')
		p++;
	if (p == name)
		return xasprintf("syntax error near \"%.20s\"", name);
	name = xstrndup(name, (size_t) (p - name));

	p = skip_blanks(p);
	if (*p == '=')
		p = skip_blanks(p + 1);
	value = take_value(&p);
	if (value == NULL)
		error = xasprintf("setting \"%s\" has %s", name,
						  *p == '\'' ? "a value with no closing quote" :
						  "no value (quote it if it is empty or contains blanks)");
	else if (p = skip_blanks(p), *p != '\0' && *p != '#')
		error = xasprintf("syntax error near \"%.20s\" (quote values that contain blanks)", p);
	else
		error = set_by_name(c, name, value);
	free(name);
	free(value);
	return error;
}

static char *
check_group(const Config *c)
{
	if (c->replicator_name[0] == '\0' && c->nreplicators == 0)
		return NULL;
	if (config_replicator(c, c->replicator_name) < 0)
		return xasprintf("setting \"replicator_name\" must be the name of one of the %d replicators (" REPLICATOR_PREFIX "NAME = 'host:port'): \"%s\"",
						 c->nreplicators, c->replicator_name);
	if (c->etcd_endpoints[0] == '\0')
		return xstrdup("setting \"etcd_endpoints\" must not be empty: etcd decides which replicator leads");
	if (strstr(c->etcd_endpoints, "://") == NULL)
		return xasprintf("invalid value for setting \"etcd_endpoints\": \"%s\" (http://HOST:PORT, ...)", c->etcd_endpoints);
	if (c->min_copies > c->copies)
		return xasprintf("setting \"min_copies\" (%d) must not be larger than \"copies\" (%d)", c->min_copies, c->copies);
	if (c->copies > c->nreplicators)
		return xasprintf("setting \"copies\" (%d) must not be larger than the number of replicators (%d)", c->copies, c->nreplicators);
	return NULL;
}

/* Checks that concern several settings, when all lines have been read. */
static char *
check_config(const Config *c)
{
	char	  **names;
	char	   *error = NULL;
	int			n;

	if (c->nnodes == 0)
		return xstrdup("no node is set (node.NAME = 'host=... port=...')");
	if (c->admin_socket[0] == '\0')
		return xstrdup("setting \"admin_socket\" must not be empty");
	if (c->secret_file[0] == '\0')
		return xstrdup("setting \"secret_file\" must not be empty");
	if (c->journal_directory[0] == '\0')
		return xstrdup("setting \"journal_directory\" must not be empty");
	if (c->listen_addresses[0] == '\0' && c->unix_socket[0] == '\0')
		return xstrdup("one of \"listen_addresses\" and \"unix_socket\" must not be empty");
	if ((error = check_group(c)) != NULL)
		return error;

	names = config_list(c->databases, &n);
	for (int i = 0; i < n && error == NULL; i++)
	{
		if (names[i][0] == '\0' || strlen(names[i]) > 63)
			error = xasprintf("invalid name in setting \"databases\": \"%s\"", names[i]);
	}
	config_list_free(names, n);
	return error;
}

static char *
read_file(Config *c, const char *path, FILE *file)
{
	char	   *line = NULL;
	size_t		cap = 0;
	ssize_t		len;
	char	   *error = NULL;

	for (int number = 1; error == NULL && (len = getline(&line, &cap, file)) >= 0; number++)
	{
		char	   *cause;
		bool		text = strlen(line) == (size_t) len;

		while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
			line[--len] = '\0';
		if (!text)
			cause = xstrdup("a zero byte is not text");
		else
			cause = parse_line(c, line);
		if (cause != NULL)
			error = xasprintf("%s:%d: %s", path, number, cause);
		free(cause);
	}
	if (error == NULL && ferror(file))
		error = xasprintf("could not read \"%s\": %s", path, strerror(errno));
	free(line);
	return error;
}

static Config *
config_presets(void)
{
	Config	   *c = xcalloc(1, sizeof(Config));

	for (int i = 0; i < NSETTINGS; i++)
	{
		char	   *error = set_value(c, &settings[i], settings[i].preset);

		assert(error == NULL);
		free(error);
	}
	return c;
}

static bool
needs_tls(const Config *c, const char *conninfo)
{
	ConninfoPlace place = conninfo_place(conninfo);

	return place != CONNINFO_UNIX && (place != CONNINFO_LOOPBACK || c->require_tls != REQUIRE_TLS_REMOTE);
}

/* With tls_directory, connections to nodes are encrypted as require_tls says. */
static char *
conninfo_of(const Config *c, const char *written)
{
	return c->tls_directory[0] != '\0' && needs_tls(c, written) ? conninfo_with_tls(written, c->tls_directory) : xstrdup(written);
}

Config *
config_load(const char *path, char **error)
{
	FILE	   *file = fopen(path, "re");
	Config	   *c;
	char	   *cause;

	*error = NULL;
	if (file == NULL)
	{
		*error = xasprintf("could not open \"%s\": %s", path, strerror(errno));
		return NULL;
	}
	c = config_presets();
	*error = read_file(c, path, file);
	fclose(file);
	if (*error == NULL && (cause = check_config(c)) != NULL)
	{
		*error = xasprintf("%s: %s", path, cause);
		free(cause);
	}
	if (*error != NULL)
	{
		config_free(c);
		return NULL;
	}
	for (int i = 0; i < c->nnodes; i++)
		c->nodes[i].conninfo = conninfo_of(c, c->nodes[i].written);
	return c;
}

void
config_free(Config *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < NSETTINGS; i++)
	{
		if (is_text(settings[i].type))
			free(*(char **) field_of(c, &settings[i]));
	}
	for (int i = 0; i < c->nnodes; i++)
	{
		free(c->nodes[i].written);
		free(c->nodes[i].conninfo);
	}
	for (int i = 0; i < c->nreplicators; i++)
		free(c->replicators[i].address);
	free(c);
}

const char *
config_conninfo(const Config *c, const char *name)
{
	const NodeConfig *node = find_node((Config *) c, name);

	return node != NULL ? node->conninfo : NULL;
}

/* ---------- reload */

static void
add_name(char **list, const char *name)
{
	char	   *longer = xasprintf("%s%s%s", *list, (*list)[0] ? ", " : "", name);

	free(*list);
	*list = longer;
}

/* false: with the TLS settings in force the connection would be in the clear. */
static bool
reload_node(Config *current, NodeConfig *to, const char *written)
{
	char	   *conninfo = conninfo_of(current, written);

	if (needs_tls(current, written) && !conninfo_is_verified(conninfo))
	{
		free(conninfo);
		return false;
	}
	free(to->written);
	free(to->conninfo);			/* who connects has a copy */
	to->written = xstrdup(written);
	to->conninfo = conninfo;
	return true;
}

/*
 * Nodes may be added and removed: new ones are added at the end, as other code holds pointers
 * and indexes; missing ones are retired.  tls_directory and require_tls stay, so lines are compared as they
 * are written.
 */
static void
reload_nodes(Config *current, Config *fresh, char **need_restart)
{
	for (int i = 0; i < current->nnodes; i++)
		current->nodes[i].retired = find_node(fresh, current->nodes[i].name) == NULL;
	for (int i = 0; i < fresh->nnodes; i++)
	{
		const NodeConfig *from = &fresh->nodes[i];
		NodeConfig *to = find_node(current, from->name);
		NodeConfig	added = {0};
		bool		ok = true;

		if (to == NULL)
		{
			memcpy(added.name, from->name, sizeof(added.name));
			ok = current->nnodes < CONFIG_MAX_NODES && reload_node(current, &added, from->written);
			if (ok)
				current->nodes[current->nnodes++] = added;
		}
		else if (strcmp(to->written, from->written) != 0)
		{
			ok = reload_node(current, to, from->written);
			to->moves += ok;
		}
		if (!ok)
		{
			char	   *name = xasprintf(NODE_PREFIX "%s", from->name);

			add_name(need_restart, name);
			free(name);
		}
	}
}

static bool
same_replicators(const Config *a, const Config *b)
{
	bool		same = a->nreplicators == b->nreplicators;

	for (int i = 0; i < a->nreplicators && same; i++)
		same = strcmp(a->replicators[i].name, b->replicators[i].name) == 0 &&
			strcmp(a->replicators[i].address, b->replicators[i].address) == 0;
	return same;
}

char *
config_reload(Config *current, Config *fresh)
{
	char	   *need_restart = xstrdup("");

	if (!same_replicators(current, fresh))
		add_name(&need_restart, REPLICATOR_PREFIX "NAME");

	for (int i = 0; i < NSETTINGS; i++)
	{
		const Setting *s = &settings[i];
		void	   *to = field_of(current, s);
		const void *from = field_of(fresh, s);

		if (is_text(s->type))
		{
			/* Other code may hold the pointer: no text is reloadable. */
			assert((s->flags & RELOAD) == 0);
			if (strcmp(*(char *const *) to, *(char *const *) from) != 0)
				add_name(&need_restart, s->name);
		}
		else if (number_of(current, s) == number_of(fresh, s))
			continue;
		else if ((s->flags & RELOAD) == 0)
			add_name(&need_restart, s->name);
		else if (s->type == SETTING_SIZE)
			*(int64_t *) to = *(const int64_t *) from;
		else if (s->type == SETTING_LEVEL)
			*(LogLevel *) to = *(const LogLevel *) from;
		else if (s->type == SETTING_SLOW_NODE)
			*(SlowNode *) to = *(const SlowNode *) from;
		else
			*(int *) to = *(const int *) from;
	}
	reload_nodes(current, fresh, &need_restart);
	return need_restart;
}

/* ---------- for people */

void
config_describe(void)
{
	for (int i = 0; i < NSETTINGS; i++)
	{
		const Setting *s = &settings[i];
		const char *quote = is_text(s->type) ? "'" : "";

		if (s->flags & DEVELOPER)
			continue;
		printf("# %s%s\n#%s = %s%s%s\n\n", s->help, s->flags & RELOAD ? "" : "  Needs a restart.",
			   s->name, quote, s->preset, quote);
	}
	printf("# Connection string of each node, without dbname; one line per node.\n"
		   "# A reload takes lines that are new, missing or changed.\n"
		   "#" NODE_PREFIX "n1 = 'host=127.0.0.1 port=5432 user=postgres'\n"
		   "\n# Address of each replicator of a group for the others; one line per replicator.\n"
		   "#" REPLICATOR_PREFIX "r1 = 'host1:6433'\n");
}

const char *
config_show(const Config *c, int i, const char **value, const char **help)
{
	static char *shown;
	static char name[sizeof(NODE_PREFIX) + sizeof(((NodeConfig *) 0)->name)];
	const Setting *s;

	free(shown);
	shown = NULL;
	if (i >= NSETTINGS + c->nnodes)
		return NULL;
	if (i >= NSETTINGS)
	{
		const NodeConfig *node = &c->nodes[i - NSETTINGS];

		*value = shown = shown_conninfo(node->conninfo);
		*help = "Connection string of a node.";
		snprintf(name, sizeof(name), NODE_PREFIX "%s", node->name);
		return name;
	}
	s = &settings[i];
	if (is_text(s->type))
		*value = *(char **) field_of(c, s);
	else if (choices_of(s->type) != NULL)
		*value = choices_of(s->type)[number_of(c, s)];
	else
		*value = shown = format_number(s->type, number_of(c, s));
	*help = s->help;
	return s->name;
}

/* ---------- lists */

char **
config_list(const char *value, int *n)
{
	char	  **items = NULL;
	const char *p = value;

	*n = 0;
	if (value[strspn(value, " \t")] == '\0')
		return NULL;
	for (;;)
	{
		size_t		len;
		const char *start = p + strspn(p, " \t");

		p = start + strcspn(start, ",");
		len = (size_t) (p - start);
		while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
			len--;
		items = xrealloc(items, (size_t) (*n + 1) * sizeof(char *));
		items[(*n)++] = xstrndup(start, len);
		if (*p == '\0')
			return items;
		p++;
	}
}

void
config_list_free(char **items, int n)
{
	for (int i = 0; i < n; i++)
		free(items[i]);
	free(items);
}
