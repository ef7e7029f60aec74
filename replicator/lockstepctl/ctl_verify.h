/*
 * ctl_verify.h
 *	  Between the parts of lockstepctl verify.
 *
 *	 ctl_verify.c	rounds of comparing
 *	 ctl_findings.c	what has been found: differences, numbers, the error
 *	 ctl_peers.c	connections to the nodes, one query to all of them
 *	 ctl_snapshot.c	snapshots of all nodes at one seq
 *	 ctl_tables.c	rows: checksums, several tables at a time
 *	 ctl_rows.c		the rows that differ in a table
 *	 ctl_sequences.c	values of sequences
 *	 ctl_schema.c	what databases are made of
 *	 ctl_facts.c	roles, settings, large objects' owners
 *	 ctl_indexes.c	indexes, each against its own table
 *	 ctl_repair.c	making a node equal to the others
 *	 ctl_behind.c	... one that is not online, and can't get there by itself
 *	 ctl_report.c	the result as text
 *	 ctl_progress.c	how far it is, on a terminal and in the status
 */
#ifndef LOCKSTEP_CTL_VERIFY_H
#define LOCKSTEP_CTL_VERIFY_H

#include <libpq-fe.h>
#include <pthread.h>

#include "config.h"
#include "ctl.h"

#define VERIFY_MAX_DATABASES 64

typedef struct Verify
{
	const VerifyOptions *options;
	int			nnodes;
	const char *names[CONFIG_MAX_NODES];
	const char *conninfos[CONFIG_MAX_NODES];
	int			behind;			/* a node that is not online, to be repaired:
								 * ctl_behind.c; -1: none */
	uint64_t	behind_until;	/* and a seq that it can't apply, 0: none */
	int			ndatabases;
	const char *databases[VERIFY_MAX_DATABASES];

	pthread_mutex_t lock;		/* of all below */
	json_t	   *differences;	/* objects */
	json_t	   *facts;			/* of each database: what was compared */
	json_t	   *not_checked;	/* objects: indexes that were not, and why */
	char	   *error;			/* NULL, or why it could not be done */
} Verify;

/* ---------- in ctl_findings.c */

/* It can't be done; the first reason counts.  Returns false. */
extern bool verify_fail(Verify *v, const char *fmt,...) __attribute__((format(printf, 2, 3)));
extern bool verify_failed(Verify *v);
extern char *verify_take_error(Verify *v);

/* Something differs; takes nodes (name -> value) over. */
extern json_t *verify_difference(const char *database, const char *kind, const char *object, json_t *nodes);
extern void verify_add(Verify *v, json_t *difference);
extern void verify_count(Verify *v, const char *database, const char *what, long long n);	/* more of it */
extern void verify_counted(Verify *v, const char *database, const char *what, long long n); /* so many in all */
#define VERIFY_GLOBAL "*"		/* what belongs to no database */

/*
 * Threads that run lane(arg), at most --jobs and n pieces of work; how many there
 * are, to be joined.  If none can be started it has been run here.
 */
extern int	verify_start_lanes(const Verify *v, pthread_t *threads, int n, void *(*lane) (void *), void *arg);

/* ---------- in ctl_progress.c */

/* What text says, for programs. */
typedef struct ProgressFacts
{
	const char *phase;
	const char *database;		/* NULL: all */
	const char *object;			/* NULL: none in particular */
	int			done;			/* objects, of so many; all 0: not known */
	int			all;
	long long	done_bytes;
	long long	all_bytes;
} ProgressFacts;

/* what: this command.  From here on the replicator at that socket is told; once in a process. */
extern void progress_begin(const char *socket_path, const char *what);
extern void progress_say(const ProgressFacts *f, const char *fmt,...) __attribute__((format(printf, 2, 3)));
extern void progress_clear(void);	/* nothing is on the terminal now */
extern void progress_end(void);

/* ---------- in ctl_peers.c */

#define ANSWER_MAX 6

/* What a node said to one string of statements. */
typedef struct Answer
{
	int			n;
	PGresult   *rows[ANSWER_MAX];	/* of those that return rows, in order */
	char	   *error;			/* NULL, or the first one */
	char		sqlstate[6];
} Answer;

/* A connection to every node, to one database. */
typedef struct Peers
{
	Verify	   *v;
	const char *database;
	PGconn	   *conns[CONFIG_MAX_NODES];
} Peers;

extern bool peers_open(Peers *p, Verify *v, const char *database);
extern void peers_close(Peers *p);
extern PGconn *peer_connect(Verify *v, int node, const char *database);

/* In which texts are exchanged: that of a database without one may be no UTF-8. */
extern const char *peer_encoding(PGconn *conn);

extern void peers_send(Peers *p, int node, const char *sql);
extern void peers_receive(Peers *p, int node, Answer *a);	/* a lost connection is
															 * verify_fail()'s */
extern void answer_free(Answer *a);
extern const char *answer_value(const Answer *a, int result);	/* first field of the
																 * first row */

/* The same to all; false, and said: one has failed.  Else to be freed. */
extern bool peers_ask(Peers *p, const char *sql, Answer *answers);
extern void answers_free(Answer *answers, int n);

/* ---------- in ctl_snapshot.c */

typedef struct Snapshots
{
	Verify	   *v;
	uint64_t	seq;
	double		held_ms;		/* how long commits were held, at most */
	int			keep;			/* this node goes on being held, without an
								 * end; -1: none */
	Peers		control;		/* these hold commits */
	Peers		leaders[VERIFY_MAX_DATABASES];	/* these have the snapshots */
	char		ids[VERIFY_MAX_DATABASES][CONFIG_MAX_NODES][64];
} Snapshots;

extern bool snapshots_open(Snapshots *s, Verify *v);
extern bool snapshots_take(Snapshots *s);	/* gives up those of before */
extern void snapshots_close(Snapshots *s);

/* Statements with which another session reads by that snapshot. */
extern char *snapshot_begin(const Snapshots *s, int database, int node);

/* ---------- in ctl_tables.c */

#define LARGE_OBJECTS "pg_catalog.pg_largeobject"	/* is compared as a table */

typedef struct Table
{
	char	   *name;			/* as SQL wants it */
	char	   *key;			/* list of columns, "" if there is none */
	char	   *columns;		/* what they are, of the first node */
	bool		same_columns;
	long long	bytes;
	char	   *oids[CONFIG_MAX_NODES];
	bool		pending;		/* to be compared (again) */
	char	   *why;			/* it could not be, NULL: it was changed */
} Table;

typedef struct Tables
{
	int			database;
	int			n;
	Table	   *tables;
	int			next;			/* to be looked at; under the lock */
	long long	all_bytes;		/* of those to be compared */
	long long	done_bytes;		/* under the lock, as the next */
	int			all;
	int			begun;
	int			done;
	const Snapshots *snapshots;
} Tables;

/* before: a list whose pending tables are wanted, NULL: all */
extern bool tables_list(Tables *t, const Snapshots *s, int database, const Tables *before);
extern void tables_free(Tables *t);
extern bool tables_compare(Tables *t, const Snapshots *s);	/* those pending */
extern int	tables_pending(const Tables *t);

/* ---------- in ctl_rows.c: begun on all peers is a transaction at the seq */

/* A row that some other node has not, or less often. */
typedef struct RowRef
{
	int64_t		digest;
	int			node;
	char		ctid[32];
} RowRef;

/* The same without showing them; of at most so many rows. */
extern bool rows_find(Peers *p, const char *name, long long rows, long long most, RowRef **refs, size_t *n,
					  bool *complete);
extern bool rows_differ(Peers *p, const char *database, const Table *table, long long rows);

/* ---------- in ctl_sequences.c */

extern bool sequences_compare(Verify *v, const char *database);

/* ---------- in ctl_schema.c, ctl_facts.c: what differs is added to found */

extern void schema_compare(const Snapshots *s, int database, json_t *found, char **why);
extern bool facts_compare_large_objects(const Snapshots *s, int database, json_t *found);
extern bool facts_compare_globals(const Snapshots *s, json_t *found);

/* ---------- in ctl_indexes.c */

extern bool indexes_possible(Verify *v);	/* false: why not is said */
extern void indexes_check(Verify *v);

/* ---------- in ctl_repair.c */

/* The node to be repaired, and the one that is right. */
extern bool repair_parts(Verify *v, int *target, int *source);
extern json_t *repair(Verify *v, const json_t *differences, AskReplicator ask, void *ask_arg);

/* Which node is out, if one is; for handlers of signals that end lockstepctl. */
extern void repair_say_out(void);

/* ---------- in ctl_behind.c */

/* Takes the node out, and holds it where it is (at); behind_end() lets it in again. */
extern bool behind_begin(Verify *v, Snapshots *s, bool administrative, AskReplicator ask, void *ask_arg);

/* What was done; after the nodes have been compared by these snapshots. */
extern json_t *behind_repair(Verify *v, const Snapshots *s, const json_t *differences, json_t **stood);
extern void behind_end(Verify *v);

/* ---------- in ctl_report.c */

extern void verify_report(FILE *out, const json_t *result);

#endif
