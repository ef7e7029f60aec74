/*
 * drop_cause.c
 *	  The table that decides what is said, and what is to be done, when a node is
 *	  dropped.
 *
 * One row for each DropCause.  A row says who notices the cause and after how long
 * (the setting), how the node comes back, and the text; `{fact}` in a text stands
 * for a field of DropFacts.  The text becomes the node's reason in lockstepctl
 * status, in the log, and in the 57P03 that clients of the node get.  tests/lint/node_out
 * reads the table, too: keep the form that its rows have.  After a change of it:
 * tests/lint/node_out --fix.
 */
#include "drop_cause.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEE_JOURNAL "see \"The journal is lost, or old\" in docs/operating.md"
#define SEE_REPLICATORS "see \"Two replicators\" in docs/operating.md"
#define SAVE_AND_CLONE \
	"What was written to it there since is on node {self} only: save what is wanted of it, and clone the node."

#define LOOK_AT_SERVER \
	"Is its server running, has it connections left (max_connections), and what does its log say? If so: is it reachable from here, as the node's line in replicator.conf says (lockstepctl doctor)? " \
	"It is tried again by itself."
#define LOOK_AT_MACHINE \
	"Look at its machine: is it overloaded, stopped or cut off, do its disks answer? It comes back by itself when it answers."
#define LOOK_AT_ERROR \
	"Mend what its server says, if that lasts (disk, memory, connections), and look at its log. It is tried again by itself."

static const DropRule rules[NDROP_CAUSES] = {
	[DROP_COMMAND] = {"command", LOG_NOTICE, RETURNS_BY_COMMAND, "lockstepctl drop", NULL,
	"dropped by command", NULL},
	[DROP_RETIRED] = {"retired", LOG_NOTICE, RETURNS_BY_COMMAND, "lockstepctl reload", NULL,
		"retired: it is not in replicator.conf any more",
	"Put its line back and run: lockstepctl reload"},
	[DROP_MOVED] = {"moved", LOG_NOTICE, RETURNS_ALONE, "lockstepctl reload", NULL,
	"its connection string has changed", NULL},

	[DROP_RESTARTED] = {"restarted", LOG_NOTICE, RETURNS_ALONE, "a backend of the node that connects", NULL,
	"its server has restarted", NULL},
	[DROP_HUNG] = {"hung", LOG_NOTICE, RETURNS_ALONE, "an empty query on a connection of its own", "node_timeout",
		"has not answered for {seconds} s",
	LOOK_AT_MACHINE},
	[DROP_HEARTBEAT] = {"heartbeat", LOG_NOTICE, RETURNS_ALONE, "the heartbeat on the control connection", "stall_timeout",
		"has not answered a heartbeat for {seconds} s",
	LOOK_AT_MACHINE},
	[DROP_CONNECT] = {"connect", LOG_NOTICE, RETURNS_ALONE, "attaching", "stall_timeout",
		"could not connect to database \"{database}\": {error}",
	LOOK_AT_SERVER " A new node has to join first: lockstepctl join, on its machine."},
	[DROP_CONTROL_LOST] = {"control_lost", LOG_NOTICE, RETURNS_ALONE, "the control connection", NULL,
		"lost the control connection: {error}",
	LOOK_AT_SERVER},
	[DROP_CONTROL_CONNECT] = {"control_connect", LOG_NOTICE, RETURNS_ALONE, "lockstepctl database drop", "stall_timeout",
		"could not open another control connection: {error}",
	LOOK_AT_SERVER},

	[DROP_APPLY_CONNECT] = {"apply_connect", LOG_NOTICE, RETURNS_ALONE, "attaching, or replacing an apply connection", "stall_timeout",
		"could not open an apply connection to database \"{database}\": {error}",
	LOOK_AT_SERVER},
	[DROP_APPLY_BEGIN] = {"apply_begin", LOG_NOTICE, RETURNS_ALONE, "the same", NULL,
		"could not begin to apply in database \"{database}\": {error}",
	LOOK_AT_ERROR},
	[DROP_APPLY_LOST] = {"apply_lost", LOG_NOTICE, RETURNS_ALONE, "an apply connection, lost again and again", NULL,
		"lost a connection to database \"{database}\": {error}",
	LOOK_AT_SERVER},
	[DROP_APPLY_FAILED] = {"apply_failed", LOG_NOTICE, RETURNS_REPAIRED, "the result of a statement that is committed elsewhere", NULL,
	"could not apply seq {seq}: {error} ({sqlstate})", NULL},
	[DROP_EXECUTE_FAILED] = {"execute_failed", LOG_NOTICE, RETURNS_ALONE, "the result of a statement, an error of the server's own", NULL,
		"could not execute a transaction: {error} ({sqlstate})",
	LOOK_AT_ERROR},
	[DROP_COMMIT_STALLED] = {"commit_stalled", LOG_NOTICE, RETURNS_ALONE, "the heartbeat: its turn stands still", "stall_timeout",
		"has not committed seq {seq} for {seconds} s",
	LOOK_AT_MACHINE},
	[DROP_APPLY_STOPPED] = {"apply_stopped", LOG_NOTICE, RETURNS_ALONE, "looking at silent apply sessions", "stall_timeout",
		"apply session {pid} has been stopped for {seconds} s",
	LOOK_AT_MACHINE},
	[DROP_APPLY_STALLED] = {"apply_stalled", LOG_NOTICE, RETURNS_ALONE, "the same", "stall_timeout",
		"apply session {pid} has neither run nor waited for anybody for {seconds} s",
	LOOK_AT_MACHINE},
	[DROP_BLOCKER_STOPPED] = {"blocker_stopped", LOG_NOTICE, RETURNS_ALONE, "the same", "stall_timeout",
		"process {blocker}, which is in the way of apply session {pid}, has been stopped for {seconds} s",
	"Continue or end that process on node {self}."},
	[DROP_CANCEL_FAILED] = {"cancel_failed", LOG_NOTICE, RETURNS_ALONE, "the result of pg_cancel_backend()", NULL,
	"could not cancel a query: {error}", NULL},
	[DROP_SESSION_STAYS] = {"session_stays", LOG_WARNING, RETURNS_ALONE, "rolling back an apply session", "stall_timeout",
		"apply session {pid} cannot be ended: it has been terminated, and is there after {seconds} s",
	"Look on node {self} what keeps that process from ending."},
	[DROP_ROLLBACK_COMMITTED] = {"rollback_committed", LOG_WARNING, RETURNS_REPAIRED, "the result of a rollback", NULL,
	"a transaction that was to be rolled back was committed", NULL},
	[DROP_LAG] = {"lag", LOG_NOTICE, RETURNS_ALONE, "counting what it has not applied, with slow_node = drop", "max_apply_lag",
		"lags {transactions} transactions ({megabytes} MB) behind, more than max_apply_lag; it is tried again after {tenths} s",
	"See \"A slow node\" in docs/operating.md."},
	[DROP_LAG_AGAIN] = {"lag_again", LOG_NOTICE, RETURNS_ALONE, "the same", "max_apply_lag",
		"lags {transactions} transactions ({megabytes} MB) behind, more than max_apply_lag, {times} times without ten minutes "
		"of being online between; it is tried again after {tenths} s",
	"Make that node faster, raise max_apply_lag, or set slow_node = throttle."},

	[DROP_DIVERGED] = {"diverged", LOG_WARNING, RETURNS_CLONED, "the heartbeat", NULL,
	"{error}", NULL},
	[DROP_OTHER_PAST] = {"other_past", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
		"its transaction {seq} is not the journal's (chain {chain} there, {journal_chain} in the journal): it followed another "
	"copy of the journal; clone it anew from another node, or " SEE_JOURNAL, NULL},
	[DROP_BEYOND_JOURNAL] = {"beyond_journal", LOG_WARNING, RETURNS_MENDED, "attaching, the heartbeat", NULL,
		"it has applied seq {seq}, but the journal ends at {journal}: the journal is an old copy, or not the one that it "
	"followed; " SEE_JOURNAL, "Do not go on with this journal, unless that node is to be cloned."},
	[DROP_OTHER_BEYOND_JOURNAL] = {"other_beyond_journal", LOG_WARNING, RETURNS_MENDED, "attaching of another node", NULL,
		"node \"{node}\" has applied seq {seq}, but the journal ends at {journal}: to go on without it would lose what was "
	"acknowledged; " SEE_JOURNAL, "Do not go on with this journal, unless node {node} is to be cloned (lockstepctl drop {node})."},
	[DROP_TOO_OLD] = {"too_old", LOG_WARNING, RETURNS_REPAIRED, "attaching", "journal_keep",
		"it lacks the transactions from seq {seq} on, but the journal begins at {journal}: clone it anew from another node "
	"(how much is kept meanwhile: journal_keep)", NULL},
	[DROP_JOURNAL_UNREADABLE] = {"journal_unreadable", LOG_WARNING, RETURNS_MENDED, "reading the journal for the node", NULL,
		"could not read seq {seq} in the journal: {error}",
	"Mend the replicator's storage; what the other nodes get is not touched by it."},
	[DROP_OTHER_REPLICATOR] = {"other_replicator", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"it follows another replicator, which is running (generation {generation}, run {run}): only one may run; " SEE_REPLICATORS,
	"Stop the other replicator, or this one."},

	[DROP_ATTACH_LOST] = {"attach_lost", LOG_NOTICE, RETURNS_ALONE, "attaching", "stall_timeout",
		"lost the connection to database \"{database}\" while {what}",
	LOOK_AT_SERVER},
	[DROP_ATTACH_QUESTION] = {"attach_question", LOG_NOTICE, RETURNS_MENDED, "attaching", "stall_timeout",
	"{what} in database \"{database}\" failed: {error}", NULL},
	[DROP_TURN_NOT_OPENED] = {"turn_not_opened", LOG_NOTICE, RETURNS_ALONE, "attaching", "stall_timeout",
	"could not open its turn: {error}", NULL},
	[DROP_STANDBY] = {"standby", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"the server is a standby",
	"Let the node's line in replicator.conf lead to the primary."},
	[DROP_NO_SUPERUSER] = {"no_superuser", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"the role that the replicator connects as is no superuser",
	"Name a superuser in the node's line in replicator.conf."},
	[DROP_NO_NODE] = {"no_node", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
	"the server is not a node: shared_preload_libraries must contain lockstep, and lockstep.node_name be set", NULL},
	[DROP_OTHER_NAME] = {"other_name", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"the server calls itself \"{found}\" (lockstep.node_name)",
	"Set lockstep.node_name = '{self}' there, or correct the node's line in replicator.conf."},
	[DROP_PROPERTIES] = {"properties", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"{error}",
	"See \"What must be equal\" in docs/operating.md."},
	[DROP_NO_EXTENSION] = {"no_extension", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"database \"{database}\" does not have the extension lockstep: on a new node run CREATE EXTENSION lockstep there; "
	"one that had it must be cloned anew", NULL},
	[DROP_OTHER_CLUSTER] = {"other_cluster", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
		"database \"{database}\" belongs to another cluster ({found}); if that's this one's, and its journal was lost: "
	SEE_JOURNAL, NULL},
	[DROP_NO_CLUSTER] = {"no_cluster", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
	"database \"{database}\" has progress {seq} but belongs to no cluster", NULL},
	[DROP_OUTSIDE_RUN] = {"outside_run", LOG_WARNING, RETURNS_REPAIRED, "attaching", NULL,
	"{error}", NULL},
	[DROP_PREPARED] = {"prepared", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
	"database \"{database}\" has a prepared transaction (\"{found}\"): end it", NULL},
	[DROP_WRITER] = {"writer", LOG_WARNING, RETURNS_MENDED, "attaching", "stall_timeout",
		"database \"{database}\" has a transaction that may have written before it was looked at: end that of process {pid}",
	NULL},
	[DROP_CONTENT_UNREADABLE] = {"content_unreadable", LOG_WARNING, RETURNS_MENDED, "attaching", NULL,
	"could not read the content of database \"{database}\": {error}", NULL},
	[DROP_CONTENT_SILENT] = {"content_silent", LOG_NOTICE, RETURNS_ALONE, "attaching", "stall_timeout",
		"could not read the content of database \"{database}\": the server does not answer any more: {error}",
	LOOK_AT_MACHINE},
	[DROP_CONTENT_DIFFERS] = {"content_differs", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
	"database \"{database}\" differs from that of the node that came first: {error}", NULL},
	[DROP_CONTENT_UNKNOWN] = {"content_unknown", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
		"database \"{database}\" has not been replicated on it, and what the others held in the beginning is not known any "
	"more: clone it from another node", NULL},
	[DROP_DATABASE_READDED] = {"database_readded", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
		"database \"{database}\" was dropped and added anew while the node was out: make it anew there, as the others had it "
	"then, or clone the node", NULL},
	[DROP_DATABASES_CHANGED] = {"databases_changed", LOG_NOTICE, RETURNS_ALONE, "attaching, catching up", NULL,
	"a database was {what} while the node was being attached", NULL},
	[DROP_DATABASE_STEP] = {"database_step", LOG_WARNING, RETURNS_MENDED, "CREATE, DROP, ALTER DATABASE RENAME, catching up", NULL,
	"could not {what} database \"{database}\": {error}", NULL},
	[DROP_DATABASE_MISSING] = {"database_missing", LOG_WARNING, RETURNS_CLONED, "attaching", NULL,
	"it has no database \"{database}\", which it had made by CREATE DATABASE", NULL},

	[DROP_EXTENSION_GONE] = {"extension_gone", LOG_WARNING, RETURNS_CLONED, "looking at each database once a second", NULL,
	"database \"{database}\" does not have the extension lockstep any more", SAVE_AND_CLONE},
	[DROP_DATABASE_REPLACED] = {"database_replaced", LOG_WARNING, RETURNS_CLONED, "the same", NULL,
		"database \"{database}\" is not the one that was attached: its OID was {expected}, and is {found} now",
	SAVE_AND_CLONE},
	[DROP_IDENTITY_GONE] = {"identity_gone", LOG_WARNING, RETURNS_CLONED, "the same", NULL,
		"database \"{database}\" does not belong to this cluster any more (table lockstep.cluster is empty)",
	SAVE_AND_CLONE},
	[DROP_IDENTITY_CHANGED] = {"identity_changed", LOG_WARNING, RETURNS_CLONED, "the same", NULL,
	"database \"{database}\" belongs to another cluster now ({found})", SAVE_AND_CLONE},
};

static const struct
{
	const char *name;
	const char *hint;
}			returns[] = {
	[RETURNS_ALONE] = {"by itself", "It is tried again every reconnect_interval."},
	[RETURNS_MENDED] = {"when the cause is mended", "Mend that; it is tried again every reconnect_interval."},
	[RETURNS_REPAIRED] = {"after `verify --repair`, or a clone",
	"Mend the cause there, and it is tried again; or run: lockstepctl verify --repair {self}; or clone it: lockstepctl join {self}"},
	[RETURNS_CLONED] = {"after a clone", "Clone it from another node: lockstepctl join {self}"},
	[RETURNS_BY_COMMAND] = {"by command", "Run: lockstepctl attach {self}"},
};

typedef enum FactType
{
	FACT_TEXT,
	FACT_NUMBER,				/* uint64_t */
	FACT_HEX,
	FACT_INT,
	FACT_SECONDS,				/* int, ms */
	FACT_TENTHS
} FactType;

static const struct
{
	const char *name;
	FactType	type;
	size_t		offset;
}			fact_types[] = {
	{"self", FACT_TEXT, offsetof(DropFacts, self)},
	{"node", FACT_TEXT, offsetof(DropFacts, node)},
	{"database", FACT_TEXT, offsetof(DropFacts, database)},
	{"what", FACT_TEXT, offsetof(DropFacts, what)},
	{"error", FACT_TEXT, offsetof(DropFacts, error)},
	{"sqlstate", FACT_TEXT, offsetof(DropFacts, sqlstate)},
	{"found", FACT_TEXT, offsetof(DropFacts, found)},
	{"expected", FACT_TEXT, offsetof(DropFacts, expected)},
	{"seq", FACT_NUMBER, offsetof(DropFacts, seq)},
	{"journal", FACT_NUMBER, offsetof(DropFacts, journal)},
	{"chain", FACT_HEX, offsetof(DropFacts, chain)},
	{"journal_chain", FACT_HEX, offsetof(DropFacts, journal_chain)},
	{"generation", FACT_NUMBER, offsetof(DropFacts, generation)},
	{"run", FACT_HEX, offsetof(DropFacts, run)},
	{"transactions", FACT_NUMBER, offsetof(DropFacts, transactions)},
	{"megabytes", FACT_NUMBER, offsetof(DropFacts, megabytes)},
	{"pid", FACT_INT, offsetof(DropFacts, pid)},
	{"blocker", FACT_INT, offsetof(DropFacts, blocker)},
	{"times", FACT_INT, offsetof(DropFacts, times)},
	{"seconds", FACT_SECONDS, offsetof(DropFacts, ms)},
	{"tenths", FACT_TENTHS, offsetof(DropFacts, ms)},
};

const DropRule *
drop_rule(DropCause cause)
{
	return &rules[cause];
}

const char *
drop_return_name(DropReturn r)
{
	return returns[r].name;
}

/* ---------- texts */

static int
put_fact(char *to, size_t room, FactType type, const void *fact)
{
	switch (type)
	{
		case FACT_TEXT:
			return snprintf(to, room, "%s", *(const char *const *) fact != NULL ? *(const char *const *) fact : "");
		case FACT_NUMBER:
			return snprintf(to, room, "%" PRIu64, *(const uint64_t *) fact);
		case FACT_HEX:
			return snprintf(to, room, "%016" PRIx64, *(const uint64_t *) fact);
		case FACT_INT:
			return snprintf(to, room, "%d", *(const int *) fact);
		case FACT_SECONDS:
			return snprintf(to, room, "%d", *(const int *) fact / 1000);
		case FACT_TENTHS:
			return snprintf(to, room, "%.1f", *(const int *) fact / 1000.0);
	}
	abort();
}

/* name is up to its brace; an unknown one is a mistake in the tables, which unit tests walk. */
static int
put_named(char *to, size_t room, const char *name, size_t len, const DropFacts *facts)
{
	for (size_t i = 0; i < sizeof(fact_types) / sizeof(fact_types[0]); i++)
	{
		if (strlen(fact_types[i].name) == len && memcmp(fact_types[i].name, name, len) == 0)
			return put_fact(to, room, fact_types[i].type, (const char *) facts + fact_types[i].offset);
	}
	abort();
}

/* What does not fit is cut off. */
static void
put_text(char *to, const char *text, const DropFacts *facts)
{
	size_t		used = 0;

	while (*text != '\0' && used < DROP_TEXT_SIZE - 1)
	{
		size_t		len = strcspn(text, *text == '{' ? "}" : "{");

		if (*text == '{')
		{
			used += (size_t) put_named(to + used, DROP_TEXT_SIZE - used, text + 1, len - 1, facts);
			text += len + 1;
		}
		else
		{
			used += (size_t) snprintf(to + used, DROP_TEXT_SIZE - used, "%.*s", (int) len, text);
			text += len;
		}
	}
	to[used < DROP_TEXT_SIZE ? used : DROP_TEXT_SIZE - 1] = '\0';
}

DropReason
drop_reason(DropCause cause, DropFacts facts)
{
	DropReason	r = {.cause = cause};

	put_text(r.text, rules[cause].text, &facts);
	return r;
}

void
drop_hint(DropCause cause, const char *self, char *hint)
{
	DropFacts	facts = {.self = self};

	if (cause == DROP_NONE)
	{
		hint[0] = '\0';
		return;
	}
	put_text(hint, rules[cause].hint != NULL ? rules[cause].hint : returns[rules[cause].returns].hint, &facts);
}
