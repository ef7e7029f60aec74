/*
 * ctl_setup.h
 *	  The parts of lockstepctl that make a server a node: init and join.
 *
 *	 ctl_setup_text.c	what becomes of the text of a configuration file (pure)
 *	 ctl_setup_files.c	reading and writing files as the right user, and telling it
 *	 ctl_run.c			running other programs
 *	 ctl_server.c		the PostgreSQL server of this machine: what it says of itself, and
 *						how it is started and stopped
 *	 ctl_node.c			the settings and pg_hba.conf lines that make a server a node
 *	 ctl_join_file.c	what init tells join
 *	 ctl_init.c			lockstepctl init
 *	 ctl_init_replicator.c	its part that makes and starts the replicator
 *	 ctl_join_server.c	lockstepctl join, of an empty server that is there
 *	 ctl_join.c			lockstepctl join, of a data directory that is not there yet
 *
 * Each step looks first whether it is done, so a command that was interrupted is continued by
 * running it again.  Functions that return bool have said what is wrong when they return false.
 */
#ifndef LOCKSTEP_CTL_SETUP_H
#define LOCKSTEP_CTL_SETUP_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "config.h"
#include "ctl.h"

#define SETUP_ROLE "lockstep"	/* the replicator's, on the nodes */
#define SETUP_NOBODY ((uid_t) -1)

/* ---------- in ctl_setup_text.c: results are malloc'ed */

/* The value of the last line that sets it; NULL: none does. */
extern char *conf_get(const char *text, const char *name);

/* The text with this value, in the place of the first line that sets it. */
extern char *conf_set(const char *text, const char *name, const char *value);
extern char *conf_without(const char *text, const char *name);

/* Is there a line "directive 'file'"? */
extern bool conf_includes(const char *text, const char *directive, const char *file);

/* A comma-separated list with this item, which may be in it. */
extern char *list_with(const char *list, const char *item);

/* pg_hba.conf with a block of these lines at its top, instead of the one that is there. */
extern char *hba_with(const char *text, const char *lines);

/* HOST, HOST:PORT or [HOST]:PORT; *port stays if there is none. */
extern bool address_split(const char *text, char **host, int *port);
extern char *address_join(const char *host, int port);
extern bool address_is_number(const char *host);

/* ---------- in ctl_setup_files.c */

typedef struct Setup
{
	bool		dry_run;
	bool		root;
	int			changes;		/* that were made, or would be */
	uid_t		uid;			/* of the server's user */
	gid_t		gid;
	char	   *user;
	uid_t		replicator_uid; /* of the replicator's; SETUP_NOBODY: ours */
	gid_t		replicator_gid;
	char	   *replicator_user;
	char	   *replicator_home;
} Setup;

typedef enum FileOwner
{
	OWNER_OF_DIRECTORY,			/* it is read and written as that user, too */
	OWNER_SERVER,				/* the same, as the server's user: of paths
								 * that the server has told */
	OWNER_ROOT_READ_BY_REPLICATOR,
	OWNER_REPLICATOR
} FileOwner;

/* config_file: the replicator's, NULL if it is not concerned. */
extern bool setup_begin(Setup *s, bool dry_run, const char *config_file);

/* "ERROR:" and "HINT:" as PostgreSQL's programs have them; return false. */
extern bool setup_fail(const char *hint, const char *fmt,...) __attribute__((format(printf, 2, 3)));

/* One line for a step: what is done, to what. */
extern void setup_step(Setup *s, const char *verb, const char *fmt,...) __attribute__((format(printf, 3, 4)));
extern void setup_detail(const char *fmt,...) __attribute__((format(printf, 1, 2)));

/* Seconds, of a clock that nobody sets. */
extern double setup_now(void);

/* Act as the server's user, and as ourselves again. */
extern void setup_become_server(const Setup *s);
extern void setup_become_self(const Setup *s);

/* False with an error; *text is NULL if there is no such file. */
extern bool setup_read(const Setup *s, const char *path, FileOwner owner, char **text);

/* A step, unless the file is already so; lines: what is shown of it, NULL for nothing. */
extern bool setup_write(Setup *s, const char *path, const char *text, mode_t mode, FileOwner owner, const char *lines);

/* A secret that is there: a step, unless only those can read it who may. */
extern bool setup_protect(Setup *s, const char *path, mode_t mode, FileOwner owner);
extern char *path_in(const char *directory, const char *name);
extern char *directory_of(const char *path);

/* A secret of so many random bytes, in hexadecimal. */
extern bool setup_random(char **hex, size_t bytes);

/* ---------- in ctl_run.c */

typedef struct Run
{
	char	   *argv[20];
	const Setup *as_server;		/* run as the server's user, NULL: as ours */
	const char *password;		/* of the role, NULL: none */
	const char *sslpassword;	/* of its key, see conninfo.h; NULL: none */
	const char *output;			/* file for what it prints, NULL: ours */
} Run;

/* Its exit code; 127, and an error, when it could not be run. */
extern int	run_program(const Run *run);

/* In a child that is to run a program of libpq, which gets them unseen.  false: it can't be. */
extern bool run_give_passwords(const char *password, const char *sslpassword);
extern char *run_text(const Run *run);

/* ---------- in ctl_server.c */

typedef struct Server
{
	PGconn	   *conn;
	const char *conninfo;		/* as given */
	int			version;		/* major */
	pid_t		pid;
	char	   *data;			/* directories and files */
	char	   *config_file;
	char	   *hba_file;
	char	   *ident_file;
	char	   *bindir;
	char	   *pkglibdir;
	char	   *port;
	char	   *identifier;		/* pg_control_system()'s */
	char	   *unit;			/* of systemd, that runs it; NULL */
	char	   *cluster;		/* Debian's name for it; NULL */
	char	   *options;		/* that pg_ctl has given it; NULL */
	bool		relative;		/* so was its data directory given */
	char	   *log;			/* where its standard error goes */
	char	   *description;
} Server;

extern bool server_open(Server *v, const Setup *s, const char *conninfo);

/* Against other inits and joins, until we end. */
extern bool server_lock(const Server *v, const Setup *s);
extern bool server_reopen(Server *v, const Setup *s, int timeout_s);
extern void server_close(Server *v);
extern char *server_setting(const Server *v, const char *name); /* NULL: unknown */

/* One value (malloc'ed); NULL on an error, "" if there is no row. */
extern char *server_ask(const Server *v, const char *sql, const char *p1, const char *p2);
extern char *conn_ask(PGconn *conn, const char *sql, const char *p1, const char *p2);

/* Can it be a node? */
extern bool server_check(const Server *v);

/* action: start, stop, restart. */
extern Run	server_command(const Server *v, const Setup *s, const char *action);
extern bool server_control(const Server *v, Setup *s, const char *action);

/* A connection to another database of it. */
extern PGconn *server_database(const Server *v, const Setup *s, const char *database);

/* Its databases that clients may use, but postgres; and whether each belongs to a cluster. */
#define SERVER_MAX_DATABASES 256

typedef struct Databases
{
	int			n;
	int			nreplicated;
	char	   *names[SERVER_MAX_DATABASES];
	bool		replicated[SERVER_MAX_DATABASES];
	char	   *first;			/* of the replicated; NULL */
} Databases;

extern bool server_databases(const Server *v, const Setup *s, Databases *d);

/* Quietly: its status says whether it worked. */
extern PGconn *server_try_database(const Server *v, const Setup *s, const char *database);

/* ---------- certificates for TLS, in PEM: see ctl_certs.h */

typedef struct CertsFiles
{
	char	   *certificate;	/* NULL: no TLS */
	char	   *key;
	char	   *authorities;
	char	   *revoked;		/* NULL: none */
	bool		anew;			/* an earlier one has expired, or is for
								 * another host */
} CertsFiles;

/* Into a directory that is there; in ctl_setup_files.c. */
extern bool certs_write(Setup *s, const char *directory, const CertsFiles *certs, FileOwner owner, mode_t key_mode);

/* ---------- in ctl_node.c */

typedef struct SetupNode
{
	char		name[64];
	char	   *host;
	int			port;
} SetupNode;

typedef struct NodeSettings
{
	const char *node_name;
	char	   *replicator;
	char	   *libraries;		/* shared_preload_libraries */
	char	   *listen_addresses;	/* NULL: as they are */
	int			max_connections;
	int			reserved;		/* superuser_reserved_connections */
	bool		raise_wal_level;
	bool		raise_wal_senders;
	bool		tls;
} NodeSettings;

/* The files of a server; write at: the same, or where they are prepared. */
typedef struct NodeFiles
{
	char	   *config_file;
	char	   *hba_file;
	char	   *lockstep_conf;
	char	   *secret;			/* its final name is in lockstep.conf */
	char	   *secret_final;
	char	   *tls;			/* directory of the certificate */
	char	   *tls_final;
} NodeFiles;

/* from, to: a directory of the server that is prepared elsewhere, or NULL. */
extern bool node_files(NodeFiles *f, const Setup *s, const Server *v, const char *from, const char *to);

/* What is in lockstep.conf; NULL: nothing is. */
extern char *node_conf_value(const Setup *s, const NodeFiles *f, const char *name);

/* The settings that this server needs, beyond what it has. */
extern bool node_settings(NodeSettings *n, const Setup *s, const Server *v, const NodeFiles *f, const SetupNode *node,
						  const char *replicator, const char *libraries, int needed_connections, int max_connections, bool tls);
extern bool node_write(Setup *s, const NodeFiles *f, const NodeSettings *n, const SetupNode *nodes, int nnodes,
					   const char *replicator_host, const char *secret, const CertsFiles *certs);

/* postgresql.conf with an include of this file at its end. */
extern bool node_include(Setup *s, const char *config_file, const char *file);

/* False, with an error: what another file says would override lockstep.conf. */
extern bool node_settings_win(const Setup *s, const Server *v, const NodeFiles *f, const NodeSettings *n);

/* Does the server run with these? */
extern bool node_settings_in_force(const Server *v, const NodeFiles *f, const NodeSettings *n);

/* ---------- in ctl_join_file.c */

typedef struct JoinFile
{
	int			server_version;
	char	   *replicator;		/* host:port */
	char	   *secret;
	char	   *password;
	char	   *libraries;
	int			max_connections;
	int			reserved;
	int			nnodes;
	SetupNode	nodes[CONFIG_MAX_NODES];
	CertsFiles	certs;			/* of the node that joins by it */
} JoinFile;

extern char *join_file_text(const JoinFile *f);
extern bool join_file_parse(JoinFile *f, const char *path, const char *text);
extern bool join_file_read(JoinFile *f, const char *path);

/* ---------- in ctl_init.c */

#define INIT_MAX_DATABASES 64

typedef struct InitOptions
{
	char	  **nodes;			/* NAME=HOST[:PORT], the first on this machine */
	int			nnodes;
	const char *databases[INIT_MAX_DATABASES];
	int			ndatabases;		/* 0: all */
	const char *server;			/* connection string */
	const char *replicator;		/* HOST:PORT that nodes connect to; NULL */
	bool		restart;		/* what needs it */
	bool		tls;			/* even within this machine */
	bool		dry_run;
	long		timeout_s;
	const char *config_file;
	AskReplicator ask;
	json_t	   *(*status) (const char *path);
} InitOptions;

/* An exit code. */
extern int	init_cluster(const InitOptions *o);

/* ---------- in ctl_init_replicator.c */

typedef struct ReplicatorPlan
{
	char	   *directory;		/* of replicator.conf */
	char	   *text;			/* of it */
	char	   *pgpass;			/* file with the role's password */
	char	   *address;		/* that the nodes connect to */
	char	   *host;			/* of it */
	Config	   *config;			/* what the text says */
	bool		tls;
	bool		changed;		/* it is not so yet */
} ReplicatorPlan;

extern bool replicator_plan(ReplicatorPlan *p, const Setup *s, const InitOptions *o, const SetupNode *nodes, int nnodes,
							const char *known_address, bool tls);
extern bool replicator_start(Setup *s, const InitOptions *o, const ReplicatorPlan *p);
extern char *replicator_start_text(const Setup *s, const InitOptions *o);

/* ---------- in ctl_join_server.c */

extern int	join_server(const JoinOptions *o);

/* ---------- in ctl_setup_help.c: of init and join; false: another command */

extern bool setup_help(const char *command);

#endif
