/*
 * notify.c
 *	  NOTIFY and pg_notify: delivered on every node at commit, in commit order.
 *
 * Each is forwarded as a call of pg_notify.  PostgreSQL itself queues it, folds
 * duplicates, and delivers it at the commit of the transaction that applies it;
 * the apply session knows no savepoints, but those that were rolled back are
 * gone from the queue.  Listeners see the process that applied it as the
 * sender.  It has no key: a notification depends on nothing, and the turn gives
 * it its place.
 *
 * PreCommit_Notify, which runs after our PRE_COMMIT, serializes notifying
 * transactions by a lock on "database 0" that is held until the locks are
 * released.  It is taken inside of the turn and nowhere else, by those who need
 * no other lock afterwards, so the next in turn waits for it no longer than for
 * the commit record of the one before it.
 *
 * It fails when the server's queue is full, because a listener has not read for
 * very long.  That would be after the verdict, so the queue is looked at before
 * the question, and on the other nodes when they execute the call.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "nodes/parsenodes.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

#include "capture.h"
#include "compat.h"
#include "effectcall.h"
#include "guc.h"
#include "mode.h"
#include "patch.h"

/* Leaves room for those that are looking at the queue at the same time. */
#define FULL_ENOUGH 0.99

#define CALL "SELECT pg_catalog.pg_notify("

static const char call_text[] =
CALL "$1::pg_catalog.text, $2::pg_catalog.text)";

static PGFunction original_pg_notify;

/* The transaction that forwarded a notification, or applied one. */
static LocalTransactionId notifies_in = InvalidLocalTransactionId;

static void
check_room(void)
{
	if (DatumGetFloat8(DirectFunctionCall1(pg_notification_queue_usage, (Datum) 0)) < FULL_ENOUGH)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many notifications in the NOTIFY queue of node \"%s\"", ls_node_name),
			 errdetail("A session there listens, and has been in one transaction for very long."),
			 errhint("End that transaction. The server's log names the process.")));
}

/* Before the question. */
void
notify_check(void)
{
	if (LocalTransactionIdIsValid(notifies_in) && notifies_in == ls_lxid(MyProc))
		check_room();
}

static void
forward(const char *channel, const char *payload)
{
	EffectCall	call;

	effectcall_begin(&call, call_text);
	effectcall_add_param(&call, channel, strlen(channel));
	effectcall_add_param(&call, payload, strlen(payload));
	effectcall_forward(&call);
	notifies_in = ls_lxid(MyProc);
}

static char *
text_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? pstrdup("") : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* True: it is to happen here, too. */
static bool
apply(void)
{
	if (!effectcall_is_forwarded(CALL))
		return false;
	if (notifies_in != ls_lxid(MyProc))
		check_room();
	notifies_in = ls_lxid(MyProc);
	return true;
}

static Datum
instead_of_pg_notify(PG_FUNCTION_ARGS)
{
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			forward(text_argument(fcinfo, 0), text_argument(fcinfo, 1));
			break;
		case LS_MODE_APPLY:
			if (!apply())
				PG_RETURN_VOID();
			break;
		case LS_MODE_OFF:
			break;
	}
	return original_pg_notify(fcinfo);
}

/* The command.  False: it has no effect here. */
bool
notify_command(NotifyStmt *stmt)
{
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			forward(stmt->conditionname, stmt->payload != NULL ? stmt->payload : "");
			break;
		case LS_MODE_APPLY:
			return false;		/* calls are forwarded, not commands */
		case LS_MODE_OFF:
			break;
	}
	return true;
}

/*
 * Functions in C that notify by themselves pass nothing that we see.  One is
 * known: the trigger of contrib/tcn.
 */
bool
notify_is_hidden_in(Form_pg_proc proc, HeapTuple tuple)
{
	bool		isnull;
	Datum		source;

	if (proc->prorettype != TRIGGEROID)
		return false;
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	return !isnull && strcmp(TextDatumGetCString(source), "triggered_change_notification") == 0;
}

void
notify_refuse_hidden(void)
{
	bool		allowed = ls_unreplicated == LS_UNREPLICATED_ALLOW;

	ereport(allowed ? WARNING : ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 allowed ? errmsg("notifications of triggered_change_notification are not replicated") :
			 errmsg("cannot run triggered_change_notification on a node"),
			 errdetail("It notifies in a way that cannot be captured."),
			 errhint("Use a trigger function that calls pg_notify.")));
}

void
notify_replace_functions(void)
{
	ls_replace_function(F_PG_NOTIFY, instead_of_pg_notify, &original_pg_notify, "pg_notify");
}
