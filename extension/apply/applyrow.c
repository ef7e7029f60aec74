/*
 * applyrow.c
 *	  What must not act when an apply session changes a row, and whose rights does
 *	  it have meanwhile?
 *
 * An apply session runs with session_replication_role = replica, which keeps
 * ordinary triggers and rules silent; their effects are among the forwarded
 * queries.  Those declared ENABLE ALWAYS or ENABLE REPLICA would fire, so they
 * are disabled here, in the executor's and the relation cache's copies of
 * them, before they are looked at: in ExecutorStart for INSERT, UPDATE and
 * DELETE, before COPY (applycopy.c) and TRUNCATE, and after parse analysis for
 * rules.
 *
 * CHECK constraints, of tables and of domains, are not evaluated: the origin has
 * done so, with the search_path of its session, which their functions may need,
 * and what they wrote there was sent by itself.  Expressions of indexes must be
 * evaluated, with the settings that came with the row; those of generated columns
 * only if all nodes come to the same (applygenerated.c).
 *
 * Rows are written with the rights of the table's owner, because the functions
 * in index expressions, checks and generated columns are the owner's, and the
 * session is a superuser's.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/extension.h"
#include "commands/matview.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parsetree.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/rel.h"

#include "apply.h"
#include "compat.h"
#include "points.h"
#include "rights.h"

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;

/* ---------- triggers, rules, checks */

void
applyrow_make_populated(Relation rel)
{
	if (!RelationIsPopulated(rel))
		SetMatViewPopulatedState(rel, true);
}

void
applyrow_disable_triggers(TriggerDesc *triggers)
{
	if (triggers == NULL)
		return;
	for (int i = 0; i < triggers->numtriggers; i++)
		triggers->triggers[i].tgenabled = TRIGGER_DISABLED;
}

static void
disable_rules(Relation rel)
{
	if (rel->rd_rules == NULL)
		return;
	for (int i = 0; i < rel->rd_rules->numLocks; i++)
		if (rel->rd_rules->rules[i]->event != CMD_SELECT)
			rel->rd_rules->rules[i]->enabled = RULE_DISABLED;
}

/* A value of the base type is one of the domain, without being checked. */
static Node *
without_domain_check(Node *node)
{
	CoerceToDomain *coerce = (CoerceToDomain *) node;
	RelabelType *relabel;

	if (node == NULL || !IsA(node, CoerceToDomain))
		return node;
	relabel = makeRelabelType(coerce->arg, coerce->resulttype, coerce->resulttypmod,
							  coerce->resultcollid, coerce->coercionformat);
	relabel->location = coerce->location;
	return (Node *) relabel;
}

static bool
is_clients_query(const char *source)
{
	if (apply_batched_query() != NULL)
		return source == apply_batched_query();
	return debug_query_string != NULL && source != NULL &&
		(source == debug_query_string || strcmp(source, debug_query_string) == 0);
}

static void
leave_out_domain_checks(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		entry->expr = (Expr *) without_domain_check((Node *) entry->expr);
	}
}

/*
 * Rows come with the name of their partition: the origin has found it, and
 * checked it.  What the relation cache of this session knows of the partition's
 * bounds may be old: PostgreSQL doesn't tell a partition of a default partition
 * that what the latter excludes has changed.
 */
void
applyrow_disable_partition_check(Relation rel)
{
	if (!rel->rd_rel->relispartition)
		return;
	rel->rd_partcheck = NIL;
	rel->rd_partcheckvalid = true;
}

/*
 * If the relation's entry is made anew in the middle of the rewriter, an ALWAYS
 * rule of it may act after all.  What it adds was never in a query's text and
 * has no location there.
 */
static void
refuse_action_of_rule(QueryDesc *queryDesc)
{
	if (!is_clients_query(queryDesc->sourceText) || queryDesc->plannedstmt->stmt_location >= 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("a rule has acted on a row that is being applied"),
			 errdetail("Its table was changed meanwhile; it is applied once more.")));
}

/* The rewriter comes next; it finds the rules of the target disabled. */
static void
post_parse_analyze(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (apply_session() && query->resultRelation != 0)
	{
		Relation	rel;

		if (is_clients_query(pstate->p_sourcetext))
		{
			leave_out_domain_checks(query);
			applygenerated_hide(query);
		}
		rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
		disable_rules(rel);
		table_close(rel, NoLock);
	}
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

/*
 * Every row that changes here was sent by itself.  So only the replicator's own
 * queries change rows.  Others can only be those of a function called by an
 * index, a generated column, or the check of a domain inside of an array or a
 * row: its effect at the origin was captured, and it would have it once more.
 * An extension's script may; it was not captured.
 */
static void
refuse_nested_change(QueryDesc *queryDesc, Relation rel)
{
	if (creating_extension || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	if (is_clients_query(queryDesc->sourceText))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate a change whose constraints, indexes or defaults change table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("A function that they call writes, and would do so once more on every other node."),
			 errhint("Write from a trigger instead.")));
}

/*
 * No expression at all, which is true.  (ExecRelCheck makes them when there is
 * no list of them.)
 */
static void
leave_out_checks(EState *estate, ResultRelInfo *target)
{
	TupleConstr *constr = RelationGetDescr(target->ri_RelationDesc)->constr;

	if (creating_extension || constr == NULL || constr->num_check == 0)
		return;
	ls_check_expressions(target) =
		MemoryContextAllocZero(estate->es_query_cxt, constr->num_check * sizeof(ExprState *));
}

static void
start_anyhow(QueryDesc *queryDesc, int eflags)
{
	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

/*
 * A materialized view takes rows from nobody but its own REFRESH; here they come
 * from the origin's.  Once the server has made sure that it is a table, it asks
 * no more.
 */
static void
start_on_matview(QueryDesc *queryDesc, int eflags, Relation rel)
{
	applyrow_make_populated(rel);
	rel->rd_rel->relkind = RELKIND_RELATION;
	PG_TRY();
	{
		start_anyhow(queryDesc, eflags);
	}
	PG_FINALLY();
	{
		rel->rd_rel->relkind = RELKIND_MATVIEW;
	}
	PG_END_TRY();
}

/*
 * Nothing of it is computed: not now either, where PostgreSQL evaluates what is
 * constant in its expressions.
 */
static void
start_with_generated(QueryDesc *queryDesc, int eflags, Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	PG_TRY();
	{
		constr->has_generated_stored = false;
		start_anyhow(queryDesc, eflags);
	}
	PG_FINALLY();
	{
		constr->has_generated_stored = true;
	}
	PG_END_TRY();
}

/* The target, if it is one; else NULL. */
static Relation
open_matview(QueryDesc *queryDesc)
{
	PlannedStmt *plan = queryDesc->plannedstmt;
	RangeTblEntry *rte;

	if (list_length(plan->resultRelations) != 1)
		return NULL;
	rte = rt_fetch(linitial_int(plan->resultRelations), plan->rtable);
	return rte->relkind == RELKIND_MATVIEW ? table_open(rte->relid, NoLock) : NULL;
}

static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	Relation	matview = apply_session() ? open_matview(queryDesc) : NULL;
	Relation	generated = apply_session() ? applygenerated_open(queryDesc->plannedstmt) : NULL;
	ListCell   *lc;

	if (matview != NULL)
	{
		start_on_matview(queryDesc, eflags, matview);
		table_close(matview, NoLock);
	}
	else if (generated != NULL)
	{
		start_with_generated(queryDesc, eflags, generated);
		table_close(generated, NoLock);
	}
	else
		start_anyhow(queryDesc, eflags);
	if (!apply_session())
		return;
	if (queryDesc->operation != CMD_SELECT)
		LS_POINT(APPLY_EXECUTING);
	if (queryDesc->estate->es_opened_result_relations != NIL)
		refuse_action_of_rule(queryDesc);
	foreach(lc, queryDesc->estate->es_opened_result_relations)
	{
		ResultRelInfo *target = lfirst(lc);

		refuse_nested_change(queryDesc, target->ri_RelationDesc);
		unproven_before_rows(target->ri_RelationDesc);	/* may have to wait */
		applyrow_disable_triggers(target->ri_TrigDesc);
		if (apply_has_settings())
			relation_evaluate_anew(target->ri_RelationDesc);
		leave_out_checks(queryDesc->estate, target);
		if (generated != NULL)
			applygenerated_leave_out(queryDesc, target);
		applyrow_disable_partition_check(target->ri_RelationDesc);
	}
}

/* ---------- the owner's rights: rights.c */

/* Permissions were checked in ExecutorStart. */
static Oid
rights_of_query(QueryDesc *queryDesc)
{
	List	   *targets = queryDesc->estate->es_opened_result_relations;

	if (targets == NIL)
		return InvalidOid;
	return rights_for_rows(((ResultRelInfo *) linitial(targets))->ri_RelationDesc->rd_rel->relowner);
}

static void
executor_run_anyhow(QueryDesc *queryDesc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	if (prev_ExecutorRun)
		prev_ExecutorRun(queryDesc, direction, count LS_ONCE_ARG);
	else
		standard_ExecutorRun(queryDesc, direction, count LS_ONCE_ARG);
}

static void
executor_run(QueryDesc *queryDesc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	Oid			user = apply_session() ? rights_of_query(queryDesc) : InvalidOid;
	LsRights	saved;

	if (!OidIsValid(user))
	{
		executor_run_anyhow(queryDesc, direction, count LS_ONCE_ARG);
		return;
	}
	rights_lower(user, true, &saved);
	executor_run_anyhow(queryDesc, direction, count LS_ONCE_ARG);
	rights_restore(&saved);
}

/* ---------- commands */

static void
disable_triggers_of(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);

	applyrow_disable_triggers(rel->trigdesc);
	table_close(rel, NoLock);
}

/*
 * Take the locks that TRUNCATE will take, and disable the triggers of all that
 * it will empty.
 */
static void
prepare_truncate(TruncateStmt *stmt)
{
	List	   *relids = NIL;
	List	   *more;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst(lc);
		Oid			relid = RangeVarGetRelid(rv, AccessExclusiveLock, true);

		if (!OidIsValid(relid))
			continue;			/* TRUNCATE itself will complain */
		relids = list_append_unique_oid(relids, relid);
		if (rv->inh)
			relids = list_concat_unique_oid(relids,
											find_all_inheritors(relid, AccessExclusiveLock, NULL));
	}
	if (stmt->behavior == DROP_CASCADE)
	{
		while ((more = heap_truncate_find_FKs(relids)) != NIL)
		{
			foreach(lc, more)
				LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
			relids = list_concat_unique_oid(relids, more);
		}
	}
	foreach(lc, relids)
		disable_triggers_of(lfirst_oid(lc));
}

static void
process_utility_anyhow(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					   ProcessUtilityContext context, ParamListInfo params,
					   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
							queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
								queryEnv, dest, qc);
}

static void
process_script(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	apply_reset_path(true);
	PG_TRY();
	{
		process_utility_anyhow(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		apply_reset_path(false);
	}
	PG_END_TRY();
}

/* An extension's script may do what is refused to functions, but not SET ROLE. */
static bool
runs_script(const Node *stmt)
{
	return creating_extension || ls_runs_script(stmt);
}

static bool
is_deallocate_all(const Node *stmt)
{
	return IsA(stmt, DeallocateStmt) && ((const DeallocateStmt *) stmt)->name == NULL;
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			user = apply_session() ? rights_for_command(pstmt->utilityStmt) : InvalidOid;
	LsRights	saved;

	if (apply_session() && apply_has_settings())
		settings_renew_plans();
	if (apply_session() && IsA(pstmt->utilityStmt, TruncateStmt))
		prepare_truncate((TruncateStmt *) pstmt->utilityStmt);
	if (apply_session() && context == PROCESS_UTILITY_TOPLEVEL && is_deallocate_all(pstmt->utilityStmt))
		apply_forget_plans();

	/*
	 * event triggers, those that are ENABLE ALWAYS too, leave subcommands
	 * alone
	 */
	if (apply_session())
		context = PROCESS_UTILITY_SUBCOMMAND;
	if (OidIsValid(user))
		rights_lower(user, !runs_script(pstmt->utilityStmt), &saved);
	if (apply_session() && ls_runs_script(pstmt->utilityStmt) && !creating_extension)
		process_script(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		process_utility_anyhow(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (OidIsValid(user))
		rights_restore(&saved);
}

void
applyrow_init(void)
{
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = post_parse_analyze;
}
