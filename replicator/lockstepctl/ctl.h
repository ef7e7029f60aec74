/*
 * ctl.h
 *	  The parts of lockstepctl, the operator's command.
 *
 *	 lockstepctl.c	command line, the replicator's socket, exit codes
 *	 ctl_format.c	answers of the replicator as text
 *	 ctl_setup.h	servers become nodes: init, join
 *	 ctl_restart.c	restarting the servers of nodes, one after the other
 *	 ctl_switchover.c	who leads after a switchover
 *	 ctl_doctor.c	what is wrong with the set-up, and what to do
 *	 ctl_check.c	one line for a monitoring system
 *	 ctl_verify.c	are all nodes equal?  (its parts: ctl_verify.h)
 *	 ctl_journal.c	the journal as text, read from its directory
 *	 ctl_journal_json.c	one record of it as JSON
 */
#ifndef LOCKSTEP_CTL_H
#define LOCKSTEP_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes; documented in lockstepctl.1. */
#define CTL_OK 0
#define CTL_FAILED 1
#define CTL_USAGE 2
#define CTL_UNREACHABLE 3

#define ANSWER_TIMEOUT_S 10		/* of the replicator, beyond what a command
								 * takes */

/* ---------- in ctl_format.c: answer is what admin_command.c sends */

extern void format_nodes(FILE *out, const json_t *answer);
extern void format_sessions(FILE *out, const json_t *answer);
extern void format_waits(FILE *out, const json_t *answer);
extern void format_conflicts(FILE *out, const json_t *answer);
extern void format_replicators(FILE *out, const json_t *answer);
extern void format_status(FILE *out, const json_t *answer);
extern void format_config(FILE *out, const json_t *answer);

/* ---------- in ctl_switchover.c */

extern void format_switchover(FILE *out, const json_t *answer);

/*
 * answer: the leader's, when it was told to step down for the replicator of that name ("": any).  Takes it, and returns one that
 * names who leads now, or an error, after timeout_s (0: never).  ask: of the replicator at path, {"ok": false} if it cannot be reached.
 */
extern json_t *switchover_outcome(json_t *answer, const char *name, long timeout_s,
								  json_t *(*ask) (const char *path, const char *request), const char *path);

/* ---------- in ctl_run.c */

/* A program of the same installation as this one. */
extern char *program_path(const char *name);

/* ---------- in ctl_join.c */

#define JOIN_MAX_SETTINGS 64

typedef struct JoinOptions
{
	const char *name;			/* of the new node */
	const char *donor;			/* connection string */
	const char *pgdata;
	const char *settings[JOIN_MAX_SETTINGS];	/* NAME=VALUE */
	int			nsettings;
	const char *join_file;		/* NULL: none, so donor and pgdata are given */
	const char *server;			/* connection string of the empty server */
	bool		dry_run;
	long		timeout_s;
} JoinOptions;

/* Clone, name, start; says what goes wrong. */
extern bool join_clone(const JoinOptions *options);

/* ---------- in ctl_doctor.c */

struct Config;

/* status: the replicator's answer, or {"ok": false, "error": ...}.  Prints; an exit code. */
extern int	doctor(const struct Config *config, const char *config_file, const json_t *status, bool json);

/* ---------- in ctl_check.c */

/* Its exit codes, as of all monitoring plugins. */
#define CHECK_OK 0
#define CHECK_WARNING 1
#define CHECK_CRITICAL 2
#define CHECK_UNKNOWN 3

/* status: as above.  Prints a line; an exit code. */
extern int	check(const json_t *status);

/* ---------- in ctl_verify.c */

#define VERIFY_MAX_JOBS 64

/* Its exit codes, as diff's. */
#define VERIFY_EQUAL 0
#define VERIFY_DIFFERENT 1
#define VERIFY_NOT_DONE 2

typedef struct VerifyOptions
{
	const char *database;		/* only that one, NULL: all */
	const char *table;			/* only that one */
	int			jobs;			/* tables at a time */
	int			rows;			/* differing rows that are shown of a table */
	long		timeout_s;		/* 0: none */
	bool		indexes;		/* each against its table, too */
	const char *repair;			/* make that node equal to the others */
	const char *source;			/* this one is right, NULL: the others agree */
	const char *socket;			/* of the replicator, which is told how far it
								 * is */
	bool		json;
} VerifyOptions;

/* One request to the replicator. */
typedef json_t *(*AskReplicator) (void *arg, const char *request, long timeout_s);

/* status: the replicator's answer. */
extern int	verify(const VerifyOptions *options, const struct Config *config, const json_t *status,
				   AskReplicator ask, void *ask_arg);

/* ---------- in ctl_journal.c */

typedef struct JournalOptions
{
	const char *directory;
	uint64_t	from;			/* first seq to print; 0: from the start */
	uint64_t	limit;			/* transactions to print; 0: all */
	bool		follow;			/* wait for more at the end */
	bool		keys;			/* print keys, too */
	bool		json;			/* for programs */
} JournalOptions;

struct JournalRecord;

extern void print_record(FILE *out, const char *directory, const struct JournalRecord *r, bool keys);
extern const char *journal_wait_text(int wait);
extern const char *journal_metadata_text(int record_type);
extern int	print_journal(FILE *out, const JournalOptions *options);	/* an exit code */

/* ---------- in ctl_journal_json.c */

extern void print_record_json(FILE *out, const char *directory, const struct JournalRecord *r, bool keys);

#endif
