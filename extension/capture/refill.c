/*
 * refill.c
 *	  All rows of an unlogged table, for the nodes on which it is missing (unlogged.c).
 *
 *	 SELECT lockstep.apply_refill('public', 't', true)
 *	 COPY public.t ...								as many as it takes
 *	 SELECT lockstep.apply_refill('public', 't', false)
 *
 * A transaction that locks out writers of the table on all nodes sends this, and changes nothing
 * here.  What the rows are then, they are at the transaction's place in the journal: a
 * node that has them leaves them out.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "executor/spi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timeout.h"

#include "capture.h"
#include "effectcall.h"
#include "keyset.h"
#include "mode.h"
#include "unlogged.h"

#define LOCK_MS 5000

static void
forward_call(const char *schema, const char *table, bool begins)
{
	EffectCall	call;
	LsKey		key = keyset_table_key(schema, table, LS_TABLE_X);

	effectcall_begin(&call, "SELECT lockstep.apply_refill($1, $2, $3)");
	effectcall_add_param(&call, schema, strlen(schema));
	effectcall_add_param(&call, table, strlen(table));
	effectcall_add_param(&call, begins ? "t" : "f", 1);
	effectcall_add_key(&call, &key);
	effectcall_forward(&call);
}

void
refill_table(Oid relid)
{
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *table = get_rel_name(relid);

	forward_call(schema, table, true);
	capture_table(relid);
	capture_flush();
	forward_call(schema, table, false);
}

/*
 * "TRUNCATE ONLY a.b, c.d ...".  Writers wait behind locks that are waited for, here and in the
 * cluster: so not for long.  The session is the replicator's, and has no statement_timeout.
 */
static void
run_on(const char *command, List *relids, const char *end)
{
	StringInfoData text;
	ListCell   *lc;

	if (relids == NIL)
		return;
	initStringInfo(&text);
	appendStringInfoString(&text, command);
	foreach(lc, relids)
	{
		char	   *schema = get_namespace_name(get_rel_namespace(lfirst_oid(lc)));
		char	   *table = get_rel_name(lfirst_oid(lc));

		if (schema != NULL && table != NULL)
			appendStringInfo(&text, "%s ONLY %s", text.len > strlen(command) ? "," : "",
							 quote_qualified_identifier(schema, table));
	}
	appendStringInfoString(&text, end);
	SPI_connect();
	enable_timeout_after(STATEMENT_TIMEOUT, LOCK_MS);
	if (SPI_execute(text.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute: %s", text.data);
	disable_timeout(STATEMENT_TIMEOUT, false);
	SPI_finish();
}

/*
 * LOCK TABLE goes by name, and what has it now may not be what had it when the lock was asked
 * for.
 */
static void
require_lock(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);

	if (!CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("unlogged table \"%s\" has got its name while unlogged tables were locked", RelationGetRelationName(rel)),
				 errdetail("Their rows are sent again.")));
	table_close(rel, NoLock);
}

/*
 * Send what is here; with truncate, delete everywhere what is missing here, as no other node has it
 * either.
 */
void
refill_all(bool truncate)
{
	List	   *missing = unlogged_missing();
	List	   *here = list_difference_oid(unlogged_all(), missing);
	ListCell   *lc;

	if (ls_mode() != LS_MODE_ORIGIN || !IsTransactionBlock())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("unlogged tables are sent from a transaction block that is replicated")));
	if (truncate)
		run_on("TRUNCATE", missing, " CASCADE");
	else
	{
		run_on("LOCK TABLE", here, " IN SHARE ROW EXCLUSIVE MODE");
		foreach(lc, here)
		{
			if (get_rel_persistence(lfirst_oid(lc)) != RELPERSISTENCE_UNLOGGED)
				continue;
			require_lock(lfirst_oid(lc));
			refill_table(lfirst_oid(lc));
		}
	}
}
