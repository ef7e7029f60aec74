/*
 * executor.c
 *	  Executor hooks: SELECT that writes, and tables that nobody may write.
 *
 * A SELECT whose functions change rows is captured by its rows.  One whose
 * functions do something else, which cfunctions.c has noticed, is forwarded
 * itself, if it can be: it is what the client sent, it ran from beginning to
 * end, and none of its effects is in the queue already.  As nobody knows what
 * it touched, it takes the whole database.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "executor/executor.h"
#include "utils/rel.h"

#include "compat.h"
#include "lockstep.h"

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;

static int	nesting = 0;		/* executions going on */

bool
select_is_running(void)
{
	return nesting > 0;
}

int
select_depth(void)
{
	return nesting;
}

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

static void
executor_start(QueryDesc *desc, int eflags)
{
	bool		runs = (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0;
	bool		top = nesting == 0 && !utility_is_running();
	bool		captured = desc->plannedstmt->resultRelations != NIL && runs &&
	ls_mode() == LS_MODE_ORIGIN;
	ListCell   *lc;

	/* whatever became of the one before */
	if (nesting == 0)
		shippable_forget();
	if (top && runs)
		causal_before_query(desc);
	if (runs)
		queue_before_query(desc);
	staleness_check(desc->plannedstmt);
	progress_check_query(desc->plannedstmt);
	if (runs)
		readplan_before_query(desc);
	if ((captured || desc->plannedstmt->rowMarks != NIL) && ls_mode() == LS_MODE_ORIGIN)
		doubt_before_statement(desc->plannedstmt);
	if (captured && top)
		shippable_consider(desc);

	if (prev_ExecutorStart)
		prev_ExecutorStart(desc, eflags);
	else
		standard_ExecutorStart(desc, eflags);

	if (!captured)
		return;
	foreach(lc, desc->estate->es_opened_result_relations)
	{
		Relation	target = ((ResultRelInfo *) lfirst(lc))->ri_RelationDesc;

		check_target(target);
		if (unlikely(relation_some_read_settings()))
			relation_evaluate_anew(target);
	}
}

/* ---------- SELECT that writes */

static bool
may_be_forwarded(QueryDesc *desc, ScanDirection direction, uint64 count)
{
	return nesting == 0 && !utility_is_running() &&
		desc->operation == CMD_SELECT && !desc->plannedstmt->hasModifyingCTE &&
		direction == ForwardScanDirection && count == 0;
}

static void
run(QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	nesting++;
	shippable_start(desc);
	PG_TRY();
	{
		if (prev_ExecutorRun)
			prev_ExecutorRun(desc, direction, count LS_ONCE_ARG);
		else
			standard_ExecutorRun(desc, direction, count LS_ONCE_ARG);
	}
	PG_FINALLY();
	{
		nesting--;
		shippable_stop();
	}
	PG_END_TRY();
	shippable_forward(desc);
}

static void
executor_run(QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	bool		forwardable = may_be_forwarded(desc, direction, count) && !callwatch_is_unexplained();
	uint64		rows = capture_rows_seen();
	uint64		commands = witness_commands();
	uint64		statements = xact_nstatements();
	LsKey		key;

	run(desc, direction, count LS_ONCE_ARG);

	if (!forwardable || likely(!callwatch_is_unexplained()) ||
		capture_rows_seen() != rows || witness_commands() != commands ||
		xact_nstatements() != statements)
		return;
	key = keyset_database_key(LS_TABLE_X);
	statement_forward(desc, LS_REASON_SELECT_WROTE, -1, &key, 1);
	callwatch_explained();
	witness_note_command();
}

/* AFTER triggers run in here. */
static void
executor_finish(QueryDesc *desc)
{
	nesting++;
	PG_TRY();
	{
		if (prev_ExecutorFinish)
			prev_ExecutorFinish(desc);
		else
			standard_ExecutorFinish(desc);
	}
	PG_FINALLY();
	{
		nesting--;
	}
	PG_END_TRY();
}

void
select_init(void)
{
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
}
