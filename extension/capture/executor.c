/*
 * executor.c
 *	  Executor handlers: SELECT that writes, and tables that may not be changed.
 *
 * A SELECT whose functions change rows is captured by its rows.  If a function has
 * another effect, which cfunctions.c has detected, the SELECT itself is forwarded, provided
 * that it is what the client sent, that it ran from beginning to end, and that none of its effects is
 * in the queue already.  What it touched is unknown, so it takes a key on the whole database.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "executor/executor.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/rel.h"

#include "capture.h"
#include "compat.h"
#include "guc.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "relation.h"
#include "session.h"
#include "turn.h"
#include "xact.h"

/* ---------- targets */

static void
check_target(Relation rel)
{
	if (RelationGetNamespace(rel) == ls_schema_oid())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change table \"%s\" of the extension lockstep",
						RelationGetRelationName(rel)),
				 errdetail("Lockstep keeps its own state in it.")));
	if (rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		rel->rd_tableam != GetHeapamTableAmRoutine() &&
		ls_unreplicated != LS_UNREPLICATED_ALLOW)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change table \"%s\" on a node", RelationGetRelationName(rel)),
				 errdetail("Changes of rows can be captured in access method heap only."),
				 errhint("Use ALTER TABLE ... SET ACCESS METHOD heap.")));
}

void
executor_check_targets(QueryDesc *desc)
{
	ListCell   *lc;

	foreach(lc, desc->estate->es_opened_result_relations)
	{
		Relation	target = ((ResultRelInfo *) lfirst(lc))->ri_RelationDesc;

		check_target(target);
		if (unlikely(relation_some_read_settings()))
			relation_evaluate_anew(target);
	}
}

/* ---------- one run of a plan */

/* For oldrow.c.  NULL: rows come from a join, or from several tables. */
static TupleTableSlot *
changed_scan(const QueryDesc *desc)
{
	PlanState  *scan;

	if ((desc->operation != CMD_UPDATE && desc->operation != CMD_DELETE) || !IsA(desc->planstate, ModifyTableState))
		return NULL;
	scan = outerPlanState(desc->planstate);
	switch (nodeTag(scan))
	{
		case T_SeqScanState:
		case T_IndexScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			{
				TupleTableSlot *slot = ((ScanState *) scan)->ss_ScanTupleSlot;

				return TTS_IS_BUFFERTUPLE(slot) ? slot : NULL;
			}
		default:
			return NULL;
	}
}

static void
run(ExecutorRun_hook_type next, QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	TupleTableSlot *outer = oldrow_set_scan(changed_scan(desc));

	nesting.executor++;
	shippable_start(desc);
	PG_TRY();
	{
		next(desc, direction, count LS_ONCE_ARG);
	}
	PG_FINALLY();
	{
		nesting.executor--;
		(void) oldrow_set_scan(outer);
		shippable_stop(desc);
	}
	PG_END_TRY();
	shippable_forward(desc);
}

/* ---------- SELECT that writes */

/*
 * Not one of a function that runs without a query around it: a deferred trigger, a login trigger, a call by the function
 * protocol. Its parameters may be PL/pgSQL's variables.
 */
bool
executor_is_clients(const QueryDesc *desc)
{
	return nesting.executor == 0 && !utility_is_running() &&
		ActivePortal != NULL && ActivePortal->sourceText == desc->sourceText &&
		(desc->params == NULL || desc->params->paramFetch == NULL);
}

static bool
may_be_forwarded(QueryDesc *desc, ScanDirection direction, uint64 count)
{
	return executor_is_clients(desc) &&
		desc->operation == CMD_SELECT && !desc->plannedstmt->hasModifyingCTE &&
		direction == ForwardScanDirection && count == 0;
}

void
executor_run(ExecutorRun_hook_type next, QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	bool		forwardable = may_be_forwarded(desc, direction, count) && !walwitness_is_unexplained();
	uint64		rows = capture_rows_seen();
	uint64		commands = walwitness_commands();
	uint64		statements = xact_nstatements();
	LsKey		key;

	run(next, desc, direction, count LS_ONCE_ARG);

	if (!forwardable || likely(!walwitness_is_unexplained()) ||
		capture_rows_seen() != rows || walwitness_commands() != commands ||
		xact_nstatements() != statements)
		return;
	key = keyset_database_key(LS_TABLE_X);
	key.seen = turn_seen_by(desc->snapshot);
	statement_forward(desc, LS_REASON_SELECT_WROTE, -1, &key, 1);
	walwitness_explained();
	walwitness_note_command();
}

/* AFTER triggers run in here. */
void
executor_finish(ExecutorFinish_hook_type next, QueryDesc *desc)
{
	nesting.executor++;
	PG_TRY();
	{
		next(desc);
	}
	PG_FINALLY();
	{
		nesting.executor--;
	}
	PG_END_TRY();
}
