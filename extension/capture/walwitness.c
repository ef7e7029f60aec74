/*
 * walwitness.c
 *	  Nothing escapes: at PRE_COMMIT, is every effect of the transaction
 *	  accounted for?
 *
 *	 effect					accounted for by
 *	 rows					capture: every change to a heap passes it
 *	 other access methods	refused when a command names such a table (executor.c)
 *	 sequences, large objects, notifications: refused as they happen (sequence.c)
 *	 catalogs				a forwarded command, or one that is local by nature;
 *							seen in the invalidations that they cause.  Workers
 *							of subscriptions note there how far they are
 *	 C functions			the SELECT that called them; see cfunctions.c
 *
 * What is left over is refused.  Temporary tables, row locks, hint bits,
 * pruning and a transaction id that was merely asked for are no effects.
 */
#include "postgres.h"

#include "access/xact.h"
#include "replication/logicalworker.h"
#include "storage/ipc.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "lockstep.h"

static uint64 commands = 0;		/* that account for something, in this session */
static bool commands_in_transaction = false;

void
witness_note_command(void)
{
	commands++;
	commands_in_transaction = true;
}

bool
witness_has_commands(void)
{
	return commands_in_transaction;
}

uint64
witness_commands(void)
{
	return commands;
}

/*
 * How far a subscription has come is known to the server that has it: CREATE
 * SUBSCRIPTION is local, and so is what its workers note without a command.
 */
static bool
is_notes_of_subscription(int cache)
{
	return IsLogicalWorker() &&
		(cache == SUBSCRIPTIONRELMAP || cache == SUBSCRIPTIONOID || cache == SUBSCRIPTIONNAME ||
		 cache == REPLORIGIDENT || cache == REPLORIGNAME);
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
		if ((messages[i].id >= 0 && !is_notes_of_subscription(messages[i].cc.id)) ||
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
witness_check(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	if (ls_unreplicated == LS_UNREPLICATED_ALLOW)
		return;
	if (callwatch_is_unexplained())
		refuse("A function written in C has written to the database in a way that can't be captured.");

	/* a session that ends drops its temporary tables */
	if (!commands_in_transaction && !utility_is_local() && !proc_exit_inprogress &&
		changed_catalogs())
		refuse("Catalogs were changed by something else than a command.");
}

void
witness_at_xact_end(void)
{
	commands_in_transaction = false;
}
