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
 *
 * A table whose rows cannot be sent, as its owner's functions fail, is left out, and stays missing where it is.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "capture.h"
#include "compat.h"
#include "effectcall.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "newestscan.h"
#include "relation.h"
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

/* ---------- a table that cannot be sent */

/* Indexes that compute something of a row. */
static List *
computing_indexes(Relation rel)
{
	List	   *infos = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		IndexInfo  *info = BuildIndexInfo(index);

		if (info->ii_ReadyForInserts && (info->ii_Expressions != NIL || info->ii_Predicate != NIL))
			infos = lappend(infos, info);
		index_close(index, NoLock);
	}
	return infos;
}

static void
compute_row(List *infos, EState *estate, TupleTableSlot *slot)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	ListCell   *lc;

	GetPerTupleExprContext(estate)->ecxt_scantuple = slot;
	foreach(lc, infos)
	{
		IndexInfo  *info = lfirst(lc);

		if (info->ii_PredicateState == NULL)
			info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, estate);
		if (ExecQual(info->ii_PredicateState, GetPerTupleExprContext(estate)))
			FormIndexDatum(info, slot, estate, values, nulls);
	}
	ResetPerTupleExprContext(estate);
}

/*
 * What a node has to compute when it inserts the rows.  Here it may fail; a node that is catching up could
 * not go on.
 */
static void
compute_indexes(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	List	   *infos = computing_indexes(rel);
	NewestScan	scan;
	TupleTableSlot *slot;
	EState	   *estate;
	Oid			user;
	int			context;

	if (infos != NIL)
	{
		scan = newestscan_begin(rel);
		estate = CreateExecutorState();
		GetUserIdAndSecContext(&user, &context);
		SetUserIdAndSecContext(rel->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
		while ((slot = newestscan_next(&scan)) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			compute_row(infos, estate, slot);
		}
		/* after an error the end of the subtransaction does this */
		SetUserIdAndSecContext(user, context);
		FreeExecutorState(estate);
		newestscan_end(&scan);
	}
	table_close(rel, NoLock);
}

/* Of the moment, and not of the table. */
static bool
is_passing(int sqlstate)
{
	int			category = ERRCODE_TO_CATEGORY(sqlstate);

	return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_CONNECTION_EXCEPTION) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_TRANSACTION_ROLLBACK) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION) ||
		category == ERRCODE_TO_CATEGORY(LS_ERRCODE_OUTDATED);
}

/* The other tables do not depend on it. */
static void
refill_or_leave_out(Oid relid)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		compute_indexes(relid);
		refill_table(relid);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error == NULL)
		return;
	if (is_passing(error->sqlerrcode))
		ReThrowError(error);
	ereport(WARNING,
			(errmsg("the rows of unlogged table \"%s\" cannot be sent to nodes that have lost them", get_rel_name(relid)),
			 errdetail_internal("%s", error->message),
			 errhint("Mend what fails, usually a function of an index, and have the node attached again; or TRUNCATE the table.")));
	FreeErrorData(error);
}

/* ---------- all of them */

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
 * Of those that this node lacks, what it has lost.  One that has rows here is from before unlogged tables were
 * replicated (the upgrade from 1.0 lists these), and it is for people to say what becomes of them.
 */
static List *
lost(List *missing)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, missing)
	{
		if (get_rel_persistence(lfirst_oid(lc)) != RELPERSISTENCE_UNLOGGED)
			continue;
		if (!relation_has_rows(lfirst_oid(lc)))
			relids = lappend_oid(relids, lfirst_oid(lc));
		else
			ereport(LOG,
					(errmsg("unlogged table \"%s\" is from before unlogged tables were replicated, and is not emptied", get_rel_name(lfirst_oid(lc))),
					 errhint("It cannot be changed on a node before TRUNCATE has emptied it on all nodes.")));
	}
	return relids;
}

/*
 * Send what is here; with truncate, delete everywhere what this node has lost, as no other node has it
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
		run_on("TRUNCATE", lost(missing), " CASCADE");
	else
	{
		run_on("LOCK TABLE", here, " IN SHARE ROW EXCLUSIVE MODE");
		foreach(lc, here)
		{
			if (get_rel_persistence(lfirst_oid(lc)) != RELPERSISTENCE_UNLOGGED)
				continue;
			require_lock(lfirst_oid(lc));
			refill_or_leave_out(lfirst_oid(lc));
		}
	}
}
