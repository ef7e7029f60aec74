/*
 * walwitness.c
 *	  At PRE_COMMIT: is every effect of the transaction accounted for?
 *
 *  effect					accounted for by
 *  rows					capture: every change to a heap passes it
 *  other access methods	refused when a command names such a table (executor.c)
 *  sequences, large objects, notifications: handled as they happen
 *  catalogs				a forwarded command, or one that is local by nature;
 *							detected by the invalidations that they cause.  Workers of
 *							subscriptions store their position there
 *  C functions			the SELECT that called them; see cfunctions.c
 *
 * Anything else is refused.  Temporary tables, row locks, hint bits, pruning and a
 * transaction ID without a change are no effects.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "replication/logicalworker.h"
#include "storage/ipc.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "capture.h"
#include "guc.h"
#include "session.h"

static uint64 commands = 0;		/* that account for something, in this session */
static bool commands_in_transaction = false;
static uint64 sequence_values = 0;	/* taken in this session */

/* Lowest nesting level of a transaction with an unexplained effect, 0 = none. */
static int	unexplained_level = 0;

/* ---------- what accounts for effects */

void
walwitness_note_command(void)
{
	commands++;
	commands_in_transaction = true;
}

bool
walwitness_has_commands(void)
{
	return commands_in_transaction;
}

uint64
walwitness_commands(void)
{
	return commands;
}

void
walwitness_note_sequence_value(void)
{
	sequence_values++;
}

uint64
walwitness_sequence_values(void)
{
	return sequence_values;
}

/* ---------- effects that nothing accounts for */

void
walwitness_note_unexplained(void)
{
	int			level = GetCurrentTransactionNestLevel();

	if (unexplained_level == 0 || level < unexplained_level)
		unexplained_level = level;
}

bool
walwitness_is_unexplained(void)
{
	return unexplained_level > 0;
}

void
walwitness_explained(void)
{
	unexplained_level = 0;
}

void
walwitness_on_subxact(SubXactEvent event, int level)
{
	if (unexplained_level < level)
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		unexplained_level = 0;
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		unexplained_level = level - 1;
}

/* ---------- the check */

/*
 * How far a subscription has come is known to the server that has it: CREATE
 * SUBSCRIPTION is local, and so is what its workers note without a command.  But sequences that a
 * worker sets, past our hooks, would be set on this node only.
 */
static bool
is_notes_of_subscription(int cache)
{
	return IsLogicalWorker() && !ls_is_sequence_worker() &&
		(cache == SUBSCRIPTIONRELMAP || cache == SUBSCRIPTIONOID || cache == SUBSCRIPTIONNAME ||
		 cache == REPLORIGIDENT || cache == REPLORIGNAME);
}

/*
 * With pg_temp first in search_path a mere look at the path makes the session's schema for temporary
 * tables, once for each slot of a backend.  It is local by nature.
 */
static bool
made_temporary_schema(void)
{
	Oid			namespace;
	Oid			toast;
	HeapTuple	tuple;
	bool		made;

	GetTempNamespaceState(&namespace, &toast);
	if (!OidIsValid(namespace))
		return false;
	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(toast));
	made = HeapTupleIsValid(tuple) && TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return made;
}

static bool
is_local_by_nature(int cache)
{
	return is_notes_of_subscription(cache) ||
		((cache == NAMESPACEOID || cache == NAMESPACENAME) && made_temporary_schema());
}

/*
 * Rows of catalogs that have a cache: all that a change of a schema can't do
 * without.  Relation cache messages alone are no change.
 */
static bool
changed_catalogs(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;
	int			n = xactGetCommittedInvalidationMessages(&messages, &init_file);
	int			i;

	for (i = 0; i < n; i++)
	{
		if ((messages[i].id >= 0 && !is_local_by_nature(messages[i].cc.id)) ||
			messages[i].id == SHAREDINVALCATALOG_ID)
			return true;
	}
	return false;
}

static void
refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot commit a transaction with an effect that is not replicated"),
			 errdetail_internal("%s", detail),
			 errhint("Leave it out, or set lockstep.unreplicated to allow to keep the effect on this node only.")));
}

void
walwitness_check(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	if (ls_unreplicated == LS_UNREPLICATED_ALLOW)
		return;
	if (walwitness_is_unexplained())
		refuse("A function written in C has written to the database in a way that cannot be captured.");

	/* a session that ends drops its temporary tables */
	if (!commands_in_transaction && !utility_is_local() && !proc_exit_inprogress &&
		changed_catalogs())
		refuse("Catalogs were changed by something else than a command.");
}

void
walwitness_at_xact_end(void)
{
	commands_in_transaction = false;
	unexplained_level = 0;
}
