/*
 * drop_cause.h
 *	  Why a node is dropped: the causes, and what the operator is told of each.
 *
 * drop_cause.c has the one table.  Callers of node_out() pass the cause and its
 * facts (node_out() in node.h); no caller composes a text.  docs/dropped.md
 * has the same table (tests/lint/node_out).  Pure.
 */
#ifndef LOCKSTEP_DROP_CAUSE_H
#define LOCKSTEP_DROP_CAUSE_H

#include <stdint.h>

#include "log.h"

/* What clients of a node that is not online get for a write, whatever the cause. */
#define DROP_SQLSTATE "57P03"

typedef enum DropCause
{
	DROP_NONE,					/* the node is not out */
	/* decided by people */
	DROP_COMMAND,
	DROP_RETIRED,
	DROP_MOVED,
	/* its server */
	DROP_RESTARTED,
	DROP_HUNG,
	DROP_HEARTBEAT,
	DROP_CONNECT,
	DROP_CONTROL_LOST,
	DROP_CONTROL_CONNECT,
	/* what it applies */
	DROP_APPLY_CONNECT,
	DROP_APPLY_BEGIN,
	DROP_APPLY_LOST,
	DROP_APPLY_FAILED,
	DROP_EXECUTE_FAILED,
	DROP_COMMIT_STALLED,
	DROP_APPLY_STOPPED,
	DROP_APPLY_STALLED,
	DROP_BLOCKER_STOPPED,
	DROP_CANCEL_FAILED,
	DROP_SESSION_STAYS,
	DROP_ROLLBACK_COMMITTED,
	DROP_LAG,
	DROP_LAG_AGAIN,
	/* its past and the journal's */
	DROP_DIVERGED,
	DROP_OTHER_PAST,
	DROP_BEYOND_JOURNAL,
	DROP_OTHER_BEYOND_JOURNAL,
	DROP_TOO_OLD,
	DROP_JOURNAL_UNREADABLE,
	DROP_OTHER_REPLICATOR,
	/* its databases, when it is attached */
	DROP_ATTACH_LOST,
	DROP_ATTACH_QUESTION,
	DROP_TURN_NOT_OPENED,
	DROP_STANDBY,
	DROP_NO_SUPERUSER,
	DROP_NO_NODE,
	DROP_OTHER_NAME,
	DROP_PROPERTIES,
	DROP_NO_EXTENSION,
	DROP_OTHER_CLUSTER,
	DROP_NO_CLUSTER,
	DROP_OUTSIDE_RUN,
	DROP_PREPARED,
	DROP_WRITER,
	DROP_CONTENT_UNREADABLE,
	DROP_CONTENT_SILENT,
	DROP_CONTENT_DIFFERS,
	DROP_CONTENT_UNKNOWN,
	DROP_DATABASE_READDED,
	DROP_DATABASES_CHANGED,
	DROP_DATABASE_STEP,
	DROP_DATABASE_MISSING,
	/* its databases, later */
	DROP_EXTENSION_GONE,
	DROP_DATABASE_REPLACED,
	DROP_IDENTITY_GONE,
	DROP_IDENTITY_CHANGED,
	NDROP_CAUSES
} DropCause;

/* How the node comes back. */
typedef enum DropReturn
{
	RETURNS_ALONE,				/* it is tried again every reconnect_interval,
								 * and the cause may pass */
	RETURNS_MENDED,				/* the same, but an operator has to repair the
								 * cause */
	RETURNS_REPAIRED,			/* lockstepctl verify --repair, or a clone */
	RETURNS_CLONED,
	RETURNS_BY_COMMAND
} DropReturn;

typedef struct DropRule
{
	const char *name;			/* stable: lockstepctl status --json */
	LogLevel	level;
	DropReturn	returns;
	const char *noticed_by;
	const char *after;			/* a setting; NULL: at once */
	const char *text;			/* {fact}: see DropFacts */
	const char *hint;			/* the same; NULL: that of the return */
} DropRule;

/* Each has the name that the texts have for it, but for the times. */
typedef struct DropFacts
{
	const char *self;			/* the node: node_out() knows it */
	const char *node;			/* another one */
	const char *database;
	const char *what;
	const char *error;
	const char *sqlstate;
	const char *found;
	const char *expected;
	uint64_t	seq;
	uint64_t	journal;		/* a seq of the journal */
	uint64_t	chain;
	uint64_t	journal_chain;
	uint64_t	generation;
	uint64_t	run;
	uint64_t	transactions;
	uint64_t	megabytes;
	int			pid;
	int			blocker;		/* a pid */
	int			times;
	int			ms;				/* {seconds}, {tenths} */
} DropFacts;

/* FACTS(.seq = 1,.error = "...") */
#define FACTS(...) ((DropFacts) {__VA_ARGS__})

#define DROP_TEXT_SIZE 512

/* A cause with its facts in words. */
typedef struct DropReason
{
	DropCause	cause;
	char		text[DROP_TEXT_SIZE];
} DropReason;

extern const DropRule *drop_rule(DropCause cause);
extern DropReason drop_reason(DropCause cause, DropFacts facts);
extern const char *drop_return_name(DropReturn returns);	/* in words, for the
															 * docs */

/* What the operator can do, for a node of that name; writes DROP_TEXT_SIZE bytes. */
extern void drop_hint(DropCause cause, const char *self, char *hint);

#endif
