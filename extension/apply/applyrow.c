/*
 * applyrow.c
 *	  Triggers, rules and checks that must not act when a row is applied, and the
 *	  rights with which it is written.
 *
 * session_replication_role = replica keeps ordinary triggers and rules silent; their
 * effects are among the forwarded queries.  Those declared ENABLE ALWAYS or ENABLE
 * REPLICA would fire.  They are disabled in the executor's and the relation cache's copies
 * of them: in ExecutorStart for INSERT, UPDATE and DELETE, before COPY
 * (applycopy.c) and TRUNCATE (applytruncate.c), and after parse analysis for rules.
 *
 * CHECK constraints of tables and domains are not evaluated, nor those NOT NULL that are
 * NOT VALID.  The origin has evaluated them, with the search_path that their functions may need, and has forwarded what those
 * functions wrote.  Expressions of indexes are evaluated, with the settings that came with the
 * row; those of generated columns only if all nodes compute the same value
 * (applygenerated.c).
 *
 * Rows are written with the rights of the table's owner, because the functions in index
 * expressions and generated columns are the owner's, and the session is a superuser's.
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
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "capture.h"
#include "compat.h"
#include "deparse.h"
#include "guc.h"
#include "points.h"
#include "querysettings.h"
#include "relation.h"
#include "rights.h"
#include "session.h"
#include "sessionsettings.h"
#include "unlogged.h"

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
			 errdetail("Its table was changed meanwhile; it is applied again.")));
}

/* The rewriter comes next; it finds the rules of the target disabled. */
void
applyrow_after_analysis(ParseState *pstate, Query *query)
{
	if (session_applies() && query->resultRelation != 0)
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
			 errdetail("A function that they call writes, and would do so again on every other node."),
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

/*
 * ALTER TABLE makes rows anew that were there before a constraint NOT NULL which is NOT VALID, and does not look at it; nor
 * does what applies them.  Only of such a table, as its description, changed, is made anew when
 * the relation cache next looks at it.
 */
void
applyrow_disable_not_null(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (desc->constr == NULL || !desc->constr->has_not_null)
		return;
	for (int i = 0; i < desc->natts; i++)
	{
		if (ls_may_violate_not_null(desc, i))
			desc->constr->has_not_null = false;
	}
}

/*
 * A materialized view takes rows from its own REFRESH only; here they come
 * from the origin's.  Once the server has made sure that it is a table, it asks
 * no more.
 */
static void
start_on_matview(ExecutorStart_hook_type next, QueryDesc *queryDesc, int eflags, Relation rel)
{
	applyrow_make_populated(rel);
	rel->rd_rel->relkind = RELKIND_RELATION;
	PG_TRY();
	{
		next(queryDesc, eflags);
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
start_with_generated(ExecutorStart_hook_type next, QueryDesc *queryDesc, int eflags, Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	PG_TRY();
	{
		constr->has_generated_stored = false;
		next(queryDesc, eflags);
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

	if (list_length(ls_result_relations(plan)) != 1)
		return NULL;
	rte = rt_fetch(linitial_int(ls_result_relations(plan)), plan->rtable);
	return rte->relkind == RELKIND_MATVIEW ? table_open(rte->relid, NoLock) : NULL;
}

/* ---------- unlogged tables without their rows: unlogged.c */

static bool altering = false;

/* It changes rows of a table that has none here. */
static bool
is_left_out(const PlannedStmt *stmt, const char *source)
{
	ListCell   *lc;

	if (!ls_has_result_relations(stmt))
		return false;
	foreach(lc, ls_result_relations(stmt))
	{
		Oid			target = rt_fetch(lfirst_int(lc), stmt->rtable)->relid;

		if (get_rel_persistence(target) == RELPERSISTENCE_UNLOGGED && is_clients_query(source) && unlogged_is_skipped(target))
			return true;
	}
	return false;
}

/*
 * What is made of the rows of such a table would differ from what the other nodes make of them. ALTER
 * TABLE only checks them against a foreign key, or sends the rows that it makes (utility.c).
 */
static void
refuse_to_read_missing(const PlannedStmt *stmt, const char *source)
{
	Index		i = 0;
	ListCell   *lc;

	if (altering || is_left_out(stmt, source))
		return;
	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		i++;
		if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_RELATION || ls_is_result_relation(stmt, i) ||
			get_rel_persistence(rte->relid) != RELPERSISTENCE_UNLOGGED || !unlogged_is_missing(rte->relid))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("cannot read unlogged table \"%s\" on node \"%s\"", get_rel_name(rte->relid), ls_node_name),
				 errdetail("The server of this node has lost its rows, and a query that is applied needs them."),
				 errhint("Run lockstepctl verify --repair for this node.")));
	}
}

/* ---------- a query */

void
applyrow_executor_start(ExecutorStart_hook_type next, QueryDesc *queryDesc, int eflags)
{
	Relation	matview;
	Relation	generated;
	ListCell   *lc;

	if (likely(!session_applies()))
	{
		next(queryDesc, eflags);
		return;
	}
	matview = open_matview(queryDesc);
	generated = applygenerated_open(queryDesc->plannedstmt);
	if (!session_repairs())
		refuse_to_read_missing(queryDesc->plannedstmt, queryDesc->sourceText);
	if (matview != NULL)
	{
		start_on_matview(next, queryDesc, eflags, matview);
		table_close(matview, NoLock);
	}
	else if (generated != NULL)
	{
		start_with_generated(next, queryDesc, eflags, generated);
		table_close(generated, NoLock);
	}
	else
		next(queryDesc, eflags);
	if (queryDesc->operation != CMD_SELECT)
		LS_POINT(APPLY_EXECUTING);
	if (queryDesc->estate->es_opened_result_relations != NIL)
		refuse_action_of_rule(queryDesc);
	foreach(lc, queryDesc->estate->es_opened_result_relations)
	{
		ResultRelInfo *target = lfirst(lc);

		refuse_nested_change(queryDesc, target->ri_RelationDesc);
		applyunproven_before_rows(target->ri_RelationDesc); /* may have to wait */
		applyrow_disable_triggers(target->ri_TrigDesc);
		if (querysettings_are_set())
			relation_evaluate_anew(target->ri_RelationDesc);
		leave_out_checks(queryDesc->estate, target);
		applyrow_disable_not_null(target->ri_RelationDesc);
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

void
applyrow_executor_run(ExecutorRun_hook_type next, QueryDesc *queryDesc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	Oid			user;
	LsRights	saved;

	if (likely(!session_applies()))
	{
		next(queryDesc, direction, count LS_ONCE_ARG);
		return;
	}
	heap_begin_deletes(queryDesc->operation == CMD_DELETE &&
					   deparse_is_for_good(queryDesc->sourceText, strlen(queryDesc->sourceText)));
	user = rights_of_query(queryDesc);
	if (unlikely(is_left_out(queryDesc->plannedstmt, queryDesc->sourceText)))
	{
		queryDesc->estate->es_processed = LS_ROWS_LEFT_OUT;
		return;
	}
	if (!OidIsValid(user))
	{
		next(queryDesc, direction, count LS_ONCE_ARG);
		return;
	}
	rights_lower(user, true, &saved);
	next(queryDesc, direction, count LS_ONCE_ARG);
	rights_restore(&saved);
}

/* ---------- commands */

static void
process_script(ProcessUtility_hook_type next, PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	querysettings_reset_path(true);
	PG_TRY();
	{
		next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		querysettings_reset_path(false);
	}
	PG_END_TRY();
}

static void
run_command(ProcessUtility_hook_type next, PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	bool		was = altering;

	PG_TRY();
	{
		altering = session_applies() && IsA(pstmt->utilityStmt, AlterTableStmt);
		if (session_applies() && ls_runs_script(pstmt->utilityStmt) && !creating_extension)
			process_script(next, pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		else
			next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		altering = was;
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

void
applyrow_process_utility(ProcessUtility_hook_type next, PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
						 ProcessUtilityContext context, ParamListInfo params,
						 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			user;
	LsRights	saved;
	bool		foreign = false;	/* TRUNCATE of foreign tables, too */

	if (context == PROCESS_UTILITY_TOPLEVEL && session_applies() &&
		applytransaction_call(pstmt->utilityStmt, queryString, params))
		return;
	user = session_applies() ? rights_for_command(pstmt->utilityStmt) : InvalidOid;
	if (session_applies() && querysettings_are_set())
		sessionsettings_renew_plans();
	if (session_applies() && IsA(pstmt->utilityStmt, TruncateStmt))
		foreign = applytruncate_prepare((TruncateStmt *) pstmt->utilityStmt, applyrow_disable_triggers);
	if (session_applies() && context == PROCESS_UTILITY_TOPLEVEL && is_deallocate_all(pstmt->utilityStmt))
		apply_forget_plans();

	/*
	 * event triggers, those that are ENABLE ALWAYS too, leave subcommands
	 * alone
	 */
	if (session_applies())
		context = PROCESS_UTILITY_SUBCOMMAND;
	if (OidIsValid(user))
		rights_lower(user, !runs_script(pstmt->utilityStmt), &saved);
	if (foreign)
		applytruncate_run((TruncateStmt *) pstmt->utilityStmt);
	else
		run_command(next, pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (session_applies() && IsA(pstmt->utilityStmt, TruncateStmt))
		unlogged_truncated((TruncateStmt *) pstmt->utilityStmt);
	if (OidIsValid(user))
		rights_restore(&saved);
}
