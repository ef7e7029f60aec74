/*
 * config.h
 *	  replicator.conf: PostgreSQL's `name = value` syntax ('quoted', # comment,
 *	  units ms s min h d and kB MB GB).  One table in config.c drives the
 *	  parser, --describe-config, `lockstepctl config` and the sample's check.
 */
#ifndef LOCKSTEP_CONFIG_H
#define LOCKSTEP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

#define CONFIG_MAX_NODES 16
#define CONFIG_MAX_REPLICATORS 7	/* also in the table of settings */
#define CONFIG_NAME_SIZE 64		/* of a node or a replicator, NUL included */

typedef struct NodeConfig
{
	char		name[CONFIG_NAME_SIZE];
	char	   *written;		/* the line's value: libpq, without dbname */
	char	   *conninfo;		/* the same, with TLS */
	int			moves;			/* reloads that have changed it */
	bool		retired;		/* a reload no longer found it: it stays out,
								 * and is gone at the next start */
} NodeConfig;

/* A member of a group of replicators. */
typedef struct ReplicatorConfig
{
	char		name[CONFIG_NAME_SIZE];
	char	   *address;		/* HOST:PORT where the others reach it */
} ReplicatorConfig;

typedef enum SlowNode
{
	SLOW_NODE_THROTTLE,			/* writers wait for it */
	SLOW_NODE_DROP
} SlowNode;

typedef enum RequireTls
{
	REQUIRE_TLS_ALL,			/* of each connection but by Unix sockets */
	REQUIRE_TLS_REMOTE			/* and but from or to this machine */
} RequireTls;

typedef struct Config
{
	char	   *listen_addresses;	/* listen_addresses = '127.0.0.1' ('' = no
									 * TCP) */
	int			port;			/* port = 6432 */
	char	   *unix_socket;	/* unix_socket = '' path for backends */
	char	   *admin_socket;	/* admin_socket = '/run/lockstep/admin.sock' */
	char	   *http_listen;	/* address:port, '' = no HTTP; see http.h */
	char	   *http_certificate;	/* '' = no TLS */
	char	   *http_key;
	char	   *http_token_file;	/* '' = no token */
	char	   *tls_directory;	/* see tls_context.h; '' = no TLS */
	RequireTls	require_tls;
	char	   *secret_file;
	char	   *journal_directory;
	int64_t		journal_segment_size;	/* bytes, 16MB */
	int64_t		journal_keep;	/* bytes of journal kept for dropped nodes,
								 * 1GB */
	char	   *pid_file;
	LogDestination log_destination;
	char	   *log_file;
	LogLevel	log_level;
	LogLevel	log_sessions;
	LogLevel	log_conflicts;
	int			apply_connections;	/* per node and database, 8 (2..64) */
	int			reserved_connections;	/* beside these, 4 (0..62): see
										 * apply_queue.h */
	int			idle_ddl_timeout;	/* ms, 10000, 0 = never: see idle_ddl.c */
	int			key_history;	/* ms, 60000, 0 = none: see sequencer.c */
	int			apply_patience; /* ms, 3000, 0 = without end: see
								 * apply_patience.c */
	int			early_connections;	/* of them, 2 (0..62): see early_apply.c */
	int64_t		early_size;		/* bytes queued until it begins early, 1MB */
	int			max_apply_delay;	/* ms a reader may hold up DDL, 1000 */
	int			yield_delay;	/* ms before blockers are looked for, 2 */
	int			node_timeout;	/* ms a silent node is waited for, 5000 */
	int			stall_timeout;	/* ms one that answers and does not go on is;
								 * 0: see node_stall_timeout() */
	int			wait_warning;	/* ms until the log says who waits for whom,
								 * 2000; 0: never */
	int			reconnect_interval; /* ms between tries to reach a node, 1000 */
	int			max_sessions;	/* 10000 */
	int64_t		max_transaction_size;	/* bytes queued for one, 64GB */
	int64_t		max_role_size;	/* of all of one role, 128GB */
	int64_t		max_role_memory;	/* of these in memory, 2GB */
	int64_t		max_apply_lag;	/* bytes decided and not applied by a node,
								 * 64MB */
	SlowNode	slow_node;		/* what happens to one that lags more */
	int64_t		transaction_memory; /* of these in memory, 8MB */
	char	   *maintenance_database;	/* 'postgres' */
	char	   *databases;		/* replicated when the journal is created, 'a,
								 * b' */
	char	   *replicator_name;	/* '' = there is no other replicator */
	char	   *etcd_endpoints; /* see etcd.h */
	char	   *etcd_key;
	int			copies;			/* of the journal, 2: see copies.h */
	int			min_copies;		/* without which nothing is decided, 2 */
	int			nreplicators;
	ReplicatorConfig replicators[CONFIG_MAX_REPLICATORS];	/* replicator.NAME =
															 * 'host:port' */
	int			nnodes;
	NodeConfig	nodes[CONFIG_MAX_NODES];	/* node.NAME = 'conninfo' */
} Config;

/*
 * Parse a file.  NULL on an error: *error then names file, line and cause
 * (malloc'ed).  Unknown names and bad values are errors.
 */
extern Config *config_load(const char *path, char **error);
extern void config_free(Config *c);

/* Of the node of that name; NULL: there is none. */
extern const char *config_conninfo(const Config *c, const char *name);

/* The index of the replicator of that name; -1: there is none. */
extern int	config_replicator(const Config *c, const char *name);

/*
 * Take from fresh what may change while running; returns the names of settings
 * that differ but need a restart (malloc'ed, "" if none).
 */
extern char *config_reload(Config *current, Config *fresh);

/* name = value lines with a sentence each, for --describe-config; written to stdout. */
extern void config_describe(void);

/* Value of the i-th setting as text ("" past the end gives NULL); for SHOW. */
extern const char *config_show(const Config *c, int i, const char **value, const char **help);

/* The items of a comma-separated value, blanks around them removed; *n = 0 and NULL if
 * there are none.  For `databases` and `listen_addresses`. */
extern char **config_list(const char *value, int *n);
extern void config_list_free(char **items, int n);

#endif
