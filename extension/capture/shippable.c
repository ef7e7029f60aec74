/*
 * shippable.c
 *	  May a top-level UPDATE or DELETE travel as its text?
 *
 * Row form is always correct.  Statement form pays off where many rows change.  It is used
 * if all of this is true:
 *
 *  - the planner expects at least lockstep.statement_rows rows;
 *  - it came by the simple protocol, first in its string: what was parsed before might mean something else now, and
 *    texts of parameters depend on settings;
 *  - one plain table, not an unlogged one (unlogged.h), is read and written; its columns in use have built-in types; WHERE
 *    and SET use built-in immutable functions and operators, also where the planner evaluates them;
 *  - no trigger and no rule acts, no foreign key is concerned, and no column of a unique
 *    index or exclusion constraint is changed (whether such an update succeeds depends on
 *    the order of rows);
 *  - no function of users is called, by an index or a CHECK, which might write;
 *  - each statement has a snapshot of its own (READ COMMITTED);
 *  - this node has executed no DDL for RECENT_MS, to which it might lose;
 *  - no other transaction of this node is writing the table.
 *
 * It reads the table as a whole, and so has a key X on it, which excludes conflicts with other nodes.
 * A lock on the table, taken only if it is free, excludes transactions of this node.
 * Then S is read; the text is analyzed and planned once more, with all catalogs up to S, and a new snapshot taken, in this order, so
 * that both contain everything up to S.  A key says that names were read: with DDL that is decided after S the transaction fails.
 * When the statement has run, the text is analyzed again: if it means the same, the S of that key is that of now.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "capture.h"
#include "compat.h"
#include "guc.h"
#include "keyset.h"
#include "lockstep.h"
#include "recentddl.h"
#include "relation.h"
#include "session.h"
#include "statementtext.h"
#include "storedexpression.h"
#include "unlogged.h"
#include "xact.h"

/* Of a statement's text; beyond, it travels as its rows. */
#define SHIPPED_SIZE (256 * 1024)

#define RECENT_MS 300

/* The statement that travels as its text. */
static struct
{
	QueryDesc  *desc;			/* NULL: none */
	Oid			relid;			/* while it runs: rows of it aren't captured */
	int			depth;			/* ... that it changes itself */
	Query	   *meaning;
	LsKey		keys[3];
}			shipped;

bool
shippable_is_running(Oid relid)
{
	return shipped.relid == relid && shipped.depth == nesting.executor;
}

/* ---------- expressions */

static bool
type_is_portable(Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		return type_is_portable(element);
	switch (type)
	{
		case OIDOID:
		case OIDVECTOROID:
		case XIDOID:
		case XID8OID:
		case CIDOID:
		case TIDOID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGNAMESPACEOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGROLEOID:
		case REGTYPEOID:
			return false;
		default:
			return type < FirstNormalObjectId;
	}
}

static bool
not_portable_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			if (((Var *) node)->varattno <= 0)
				return true;	/* a system column, or the whole row */
			break;
		case T_Param:
			if (((Param *) node)->paramkind != PARAM_EXTERN)
				return true;
			break;
		case T_SubPlan:
		case T_AlternativeSubPlan:
			return true;
		default:
			break;
	}
	if ((IsA(node, Var) || IsA(node, Const) || IsA(node, Param)) &&
		!type_is_portable(exprType(node)))
		return true;
	return expression_tree_walker(node, not_portable_walker, context);
}

/* Before the planner has evaluated anything. */
static bool
query_is_portable(Query *query)
{
	Node	   *expressions = (Node *) list_make2(query->targetList, query->jointree);

	return !contain_mutable_functions(expressions) && !storedexpression_calls_users(expressions) &&
		!storedexpression_has_oids(expressions) && !not_portable_walker(expressions, NULL);
}

static bool
expressions_are_portable(List *expressions)
{
	return !contain_mutable_functions((Node *) expressions) &&
		!not_portable_walker((Node *) expressions, NULL);
}

static bool
values_are_portable(List *targetlist)
{
	ListCell   *lc;

	foreach(lc, targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (!entry->resjunk && !expressions_are_portable(list_make1(entry->expr)))
			return false;
	}
	return true;
}

/* Scans of the one table; what finds the rows is in their quals. */
static bool
scan_is_portable(Plan *plan)
{
	List	   *quals = NIL;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
			break;
		case T_IndexScan:
			if (((IndexScan *) plan)->indexorderbyorig != NIL)
				return false;
			quals = ((IndexScan *) plan)->indexqualorig;
			break;
		case T_BitmapHeapScan:
			quals = ((BitmapHeapScan *) plan)->bitmapqualorig;
			break;
		default:
			return false;
	}
	return expressions_are_portable(quals) && expressions_are_portable(plan->qual) &&
		values_are_portable(plan->targetlist);
}

static bool
plan_is_portable(PlannedStmt *stmt)
{
	ModifyTable *modify = (ModifyTable *) stmt->planTree;

	return IsA(modify, ModifyTable) &&
		stmt->subplans == NIL && stmt->rowMarks == NIL && stmt->invalItems == NIL &&
		!stmt->hasModifyingCTE && !stmt->hasReturning && !stmt->parallelModeNeeded &&
		list_length(stmt->rtable) == 1 && list_length(modify->resultRelations) == 1 &&
		modify->withCheckOptionLists == NIL &&
		outerPlan(modify)->plan_rows >= ls_statement_rows &&
		scan_is_portable(outerPlan(modify));
}

/* ---------- the table */

static bool
columns_overlap(const Bitmapset *columns, const AttrNumber *attnums, int n)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		if (bms_is_member(attnums[i] - FirstLowInvalidHeapAttributeNumber, columns))
			return true;
	}
	return false;
}

static bool
index_is_concerned(Oid indexid, const Bitmapset *changed)
{
	Relation	index = index_open(indexid, AccessShareLock);
	Form_pg_index form = index->rd_index;
	bool		concerned = false;

	if (form->indisunique || form->indisexclusion)
		concerned = RelationGetIndexExpressions(index) != NIL ||
			RelationGetIndexPredicate(index) != NIL ||
			columns_overlap(changed, form->indkey.values, form->indnkeyatts);
	index_close(index, AccessShareLock);
	return concerned;
}

static bool
update_is_harmless(Relation rel, const Bitmapset *changed)
{
	ListCell   *lc;

	foreach(lc, RelationGetFKeyList(rel))
	{
		ForeignKeyCacheInfo *key = lfirst_node(ForeignKeyCacheInfo, lc);

		if (columns_overlap(changed, key->conkey, key->nkeys))
			return false;
	}
	foreach(lc, RelationGetIndexList(rel))
	{
		if (index_is_concerned(lfirst_oid(lc), changed))
			return false;
	}
	return true;
}

/* None but the checks of its own foreign keys. */
static bool
has_no_triggers(Relation rel)
{
	int			i;

	if (rel->trigdesc == NULL)
		return true;
	for (i = 0; i < rel->trigdesc->numtriggers; i++)
	{
		if (RI_FKey_trigger_type(rel->trigdesc->triggers[i].tgfoid) != RI_TRIGGER_FK)
			return false;
	}
	return true;
}

static bool
check_calls_users(Relation rel)
{
	const TupleConstr *constr = rel->rd_att->constr;

	for (int i = 0; constr != NULL && i < constr->num_check; i++)
	{
		if (storedexpression_calls_users(stringToNode(constr->check[i].ccbin)))
			return true;
	}
	return false;
}

static bool
table_is_plain(Relation rel)
{
	return relation_is_replicated(rel) && !unlogged_is(rel) &&
		!rel->rd_rel->relispartition && !rel->rd_rel->relhassubclass &&
		!rel->rd_rel->relrowsecurity && rel->rd_rules == NULL &&
		(rel->rd_att->constr == NULL || !rel->rd_att->constr->has_generated_stored) &&
		has_no_triggers(rel) && !relation_get(rel)->computes && !check_calls_users(rel);
}

/* ---------- deciding */

/*
 * The client's statement, parsed anew, unless it has parameters or something that came before it in the string may have changed
 * how it is to be read: then NULL.
 */
static RawStmt *
read_as_it_stands(const QueryDesc *desc)
{
	List	   *parsed;

	if (ActivePortal->cplan != NULL || desc->params != NULL)
		return NULL;
	parsed = raw_parser(desc->sourceText, RAW_PARSE_DEFAULT);
	return parsed != NIL && linitial_node(RawStmt, parsed)->stmt_location == desc->plannedstmt->stmt_location ?
		linitial_node(RawStmt, parsed) : NULL;
}

/* Its text would be one message; those of rows can be cut. */
static bool
is_shippable(QueryDesc *desc, Relation rel, RangeTblEntry *rte)
{
	char	   *text = statementtext_cut(desc->sourceText, desc->plannedstmt->stmt_location, desc->plannedstmt->stmt_len);

	return table_is_plain(rel) &&
		!(desc->operation == CMD_UPDATE && !update_is_harmless(rel, ls_updated_columns(desc->plannedstmt, rte))) &&
		strlen(text) <= SHIPPED_SIZE && !statementtext_has_time_literal(text) &&
		ConditionalLockRelation(rel, ShareRowExclusiveLock);
}

/* What the statement means now; NULL: it may mean something else on another node. */
static Query *
analyze_anew(const QueryDesc *desc, RawStmt *parsed)
{
	List	   *queries = pg_analyze_and_rewrite_fixedparams(parsed, desc->sourceText, NULL, 0, NULL);

	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType != desc->operation ||
		!query_is_portable(linitial_node(Query, queries)))
		return NULL;
	return linitial_node(Query, queries);
}

static PlannedStmt *
plan_anew(const QueryDesc *desc, Oid relid, RawStmt *parsed)
{
	Query	   *query = analyze_anew(desc, parsed);
	PlannedStmt *stmt;

	if (query == NULL)
		return NULL;
	shipped.meaning = copyObject(query);	/* planning changes it */
	stmt = ls_plan_query(query, desc->sourceText, CURSOR_OPT_PARALLEL_OK);
	return plan_is_portable(stmt) && linitial_node(RangeTblEntry, stmt->rtable)->relid == relid ? stmt : NULL;
}

/* With the table locked. */
static void
ship(QueryDesc *desc, Relation rel, RawStmt *parsed)
{
	PlannedStmt *stmt;

	shipped.keys[0] = keyset_relation_key(rel, LS_TABLE_X);
	shipped.keys[1] = keyset_database_key(LS_TABLE_IX);
	shipped.keys[2] = keyset_names_key(LS_TABLE_READ);

	/* S is in the keys; now catalogs and a snapshot that have seen all of it */
	AcceptInvalidationMessages();
	stmt = plan_anew(desc, RelationGetRelid(rel), parsed);
	if (stmt == NULL)
		return;
	xact_writes();
	desc->plannedstmt = stmt;
	shipped.desc = desc;
	UnregisterSnapshot(desc->snapshot);
	desc->snapshot = RegisterSnapshot(GetTransactionSnapshot());
}

void
shippable_consider(QueryDesc *desc)
{
	PlannedStmt *stmt = desc->plannedstmt;
	RawStmt    *parsed;
	RangeTblEntry *rte;
	Relation	rel;

	if ((desc->operation != CMD_UPDATE && desc->operation != CMD_DELETE) ||
		ls_statement_rows < 0 || IsolationUsesXactSnapshot() || !plan_is_portable(stmt) || recentddl_within(RECENT_MS) ||
		(parsed = read_as_it_stands(desc)) == NULL)
		return;
	rte = linitial_node(RangeTblEntry, stmt->rtable);
	rel = table_open(rte->relid, NoLock);
	if (is_shippable(desc, rel, rte))
		ship(desc, rel, parsed);
	table_close(rel, NoLock);
}

/* ---------- running */

void
shippable_forget(void)
{
	shipped.desc = NULL;
}

void
shippable_start(QueryDesc *desc)
{
	if (shipped.desc != desc)
		return;
	shipped.relid = linitial_node(RangeTblEntry, desc->plannedstmt->rtable)->relid;
	shipped.depth = nesting.executor;
}

/* Queries of functions come here, too, while it runs. */
void
shippable_stop(QueryDesc *desc)
{
	if (shipped.desc == desc)
		shipped.relid = InvalidOid;
}

/* DDL that was decided while it ran is no conflict if the text still means the same. */
static void
note_meaning(const QueryDesc *desc)
{
	LsKey		names = keyset_names_key(LS_TABLE_READ);
	RawStmt    *parsed;

	AcceptInvalidationMessages();	/* S is read before */
	parsed = read_as_it_stands(desc);
	if (parsed != NULL && equal(analyze_anew(desc, parsed), shipped.meaning))
		shipped.keys[2] = names;
}

void
shippable_forward(QueryDesc *desc)
{
	if (shipped.desc != desc)
		return;
	shipped.desc = NULL;
	if (desc->estate->es_processed > 0)
	{
		note_meaning(desc);
		statement_forward(desc, LS_REASON_SHIPPABLE, (int64) desc->estate->es_processed,
						  shipped.keys, lengthof(shipped.keys));
	}
}
