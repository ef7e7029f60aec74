/*
 * readplan.c
 *	  Which rows does a plan read, change or lock, as far as that is known before it runs?
 *
 * Each table as a whole, or, where the conditions determine a row by the table's identity
 * (id = 7), that row.  How a scan finds its rows does not matter, and absent rows are covered
 * like existing ones.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "executor/execdesc.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "compat.h"
#include "foreignkey.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "readkeys.h"
#include "readplan.h"
#include "relation.h"
#include "turn.h"

/* What is known of an entry of the range table. */
typedef struct TableRead
{
	bool		whole;			/* it is scanned */
	bool		inserted_into;	/* and not read */
} TableRead;

typedef struct PlanWalk
{
	QueryDesc  *desc;
	TableRead  *tables;			/* by index in the range table, from 1 */
	int			ntables;

	/* looking for rows that will be changed or locked, not for what is read */
	bool		(*wanted) (Relation rel);
	LsKeyMode  *modes;			/* by index in the range table; 0: not that
								 * one */
	LsKey	   *keys;
	int			nkeys;
	LsKey	   *rows_of;		/* the tables that these are rows of */
	int			nrows_of;
	int			max;			/* of either */
} PlanWalk;

static Node *
without_relabel(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* The column of the table that is compared; 0: it is something else. */
static AttrNumber
column_of(Node *node, const Scan *scan)
{
	Var		   *var = (Var *) node;

	if (var == NULL || !IsA(var, Var))
		return 0;
	if ((Index) var->varno == scan->scanrelid)
		return var->varattno;
	if (var->varno == INDEX_VAR && IsA(scan, IndexOnlyScan))
	{
		List	   *columns = ((const IndexOnlyScan *) scan)->indextlist;

		if (var->varattno < 1 || var->varattno > list_length(columns))
			return 0;
		var = (Var *) list_nth_node(TargetEntry, columns, var->varattno - 1)->expr;
		return IsA(var, Var) ? var->varattno : 0;
	}
	return 0;
}

/* The value of a constant or of the client's parameter. */
static bool
value_of(Node *node, ParamListInfo params, Datum *value, bool *isnull)
{
	if (node != NULL && IsA(node, Const))
	{
		*value = ((Const *) node)->constvalue;
		*isnull = ((Const *) node)->constisnull;
		return true;
	}
	if (node != NULL && IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN && params != NULL)
	{
		int			id = ((Param *) node)->paramid;
		ParamExternData workspace;
		ParamExternData *param;

		if (id < 1 || id > params->numParams)
			return false;
		param = params->paramFetch != NULL ?
			params->paramFetch(params, id, false, &workspace) : &params->params[id - 1];
		if (param->ptype != ((Param *) node)->paramtype)
			return false;
		*value = param->value;
		*isnull = param->isnull;
		return true;
	}
	return false;
}

/* Is a value of this type one of the column's, bit by bit? */
static bool
same_type(Oid type, Oid column_type)
{
	return type == column_type || (type == TEXTOID && column_type == VARCHAROID);
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/*
 * Integers of different widths are compared by operators of their own, and
 * often: bigint columns with 7, integer ones with whatever type a driver finds
 * small enough for its parameter.
 */
static bool
is_integer_equality(const OpExpr *op, Oid type, Oid column_type)
{
	return is_integer(type) && is_integer(column_type) &&
		get_op_opfamily_strategy(op->opno, INTEGER_BTREE_FAM_OID) == BTEqualStrategyNumber;
}

/* The same number in the column's type; false: it has no such. */
static bool
widen_or_narrow(Datum *value, Oid type, Oid column_type)
{
	int64		n = type == INT2OID ? DatumGetInt16(*value) :
	type == INT4OID ? DatumGetInt32(*value) : DatumGetInt64(*value);

	switch (column_type)
	{
		case INT2OID:
			*value = Int16GetDatum((int16) n);
			return n >= PG_INT16_MIN && n <= PG_INT16_MAX;
		case INT4OID:
			*value = Int32GetDatum((int32) n);
			return n >= PG_INT32_MIN && n <= PG_INT32_MAX;
		default:
			*value = Int64GetDatum(n);
			return true;
	}
}

/*
 * Does the clause say "column = value", as the column's type understands
 * equality?  Then note the value.
 */
static void
note_equality(Node *clause, const PlanWalk *walk, const Scan *scan, TupleDesc desc,
			  Datum *values, bool *nulls, bool *known)
{
	OpExpr	   *op = (OpExpr *) clause;
	Node	   *left;
	Node	   *right;
	AttrNumber	attnum;
	Form_pg_attribute att;
	Oid			type;
	bool		converted;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return;
	left = without_relabel(linitial(op->args));
	right = without_relabel(lsecond(op->args));
	attnum = column_of(left, scan);
	if (attnum == 0)
	{
		Node	   *swapped = left;

		left = right;
		right = swapped;
		attnum = column_of(left, scan);
	}
	if (attnum <= 0 || attnum > desc->natts || known[attnum - 1])
		return;
	att = TupleDescAttr(desc, attnum - 1);
	type = exprType(right);
	converted = type != att->atttypid && is_integer_equality(op, type, att->atttypid);
	if (!converted &&
		(!same_type(type, att->atttypid) ||
		 op->opno != lookup_type_cache(att->atttypid, TYPECACHE_EQ_OPR)->eq_opr ||
		 (OidIsValid(op->inputcollid) && op->inputcollid != att->attcollation)))
		return;
	known[attnum - 1] = value_of(right, walk->desc->params, &values[attnum - 1], &nulls[attnum - 1]);

	/*
	 * a number that the column can't have is equal to none of its values, as
	 * NULL is
	 */
	if (known[attnum - 1] && converted && !nulls[attnum - 1] &&
		!widen_or_narrow(&values[attnum - 1], type, att->atttypid))
		nulls[attnum - 1] = true;
}

static List *
conditions_of(Plan *plan)
{
	List	   *conditions = list_copy(plan->qual);

	switch (nodeTag(plan))
	{
		case T_IndexScan:
			return list_concat(conditions, ((IndexScan *) plan)->indexqualorig);
		case T_IndexOnlyScan:
			return list_concat(conditions, ((IndexOnlyScan *) plan)->indexqual);
		case T_BitmapHeapScan:
			return list_concat(conditions, ((BitmapHeapScan *) plan)->bitmapqualorig);
		default:
			return conditions;
	}
}

typedef enum OneRow
{
	ONE_ROW,					/* the conditions say which; its identity is
								 * in values and nulls */
	NO_ROW,						/* it would be null */
	ANY_ROWS
} OneRow;

static OneRow
which_row(const PlanWalk *walk, Plan *plan, Relation rel, LsRelation *r,
		  Datum **values_out, bool **nulls_out)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values;
	bool	   *nulls;
	bool	   *known;
	ListCell   *lc;

	if (r->identity_index == NULL || !r->hashable)
		return ANY_ROWS;
	values = palloc0(desc->natts * sizeof(Datum));
	nulls = palloc0(desc->natts * sizeof(bool));
	known = palloc0(desc->natts * sizeof(bool));
	foreach(lc, conditions_of(plan))
		note_equality(lfirst(lc), walk, (Scan *) plan, desc, values, nulls, known);
	for (int i = 0; i < r->nidentity; i++)
	{
		AttrNumber	attnum = r->identity[i].attnum;

		if (!known[attnum - 1])
			return ANY_ROWS;
		if (nulls[attnum - 1])
			return NO_ROW;
	}
	*values_out = values;
	*nulls_out = nulls;
	return ONE_ROW;
}

/* True: it has been noted, if there is anything to note. */
static bool
reads_one_row(const PlanWalk *walk, Plan *plan, Relation rel, LsRelation *r)
{
	Datum	   *values;
	bool	   *nulls;
	OneRow		which = which_row(walk, plan, rel, r, &values, &nulls);

	if (which == ONE_ROW)
		readkeys_row(r, values, nulls);
	return which != ANY_ROWS;
}

/* Rows of it are to be had after those only who have asked for all of it. */
static void
note_table(PlanWalk *walk, const LsTable *table)
{
	LsKey	   *key;

	for (int i = 0; i < walk->nrows_of; i++)
	{
		if (walk->rows_of[i].hash == table->hash)
			return;
	}
	if (walk->nrows_of == walk->max)
		return;
	key = &walk->rows_of[walk->nrows_of++];
	key->hash = table->hash;
	key->seen = turn_applied();
	key->mode = LS_TABLE_READ_ROWS;
	key->name = ls_slice_of(table->name);
}

static void
note_row(PlanWalk *walk, LsRelation *r, Datum *values, bool *nulls, LsKeyMode mode)
{
	LsKey	   *key = &walk->keys[walk->nkeys];

	if (walk->nkeys == walk->max || !keyset_identity_hash(r, values, nulls, &key->hash))
		return;
	key->seen = turn_applied();
	key->mode = mode;
	key->name = r->identity_index->name;
	walk->nkeys++;
	for (int i = 0; i < r->ntables; i++)
		note_table(walk, &r->tables[i]);
}

/*
 * "column = ANY (array)" of the only column of the identity, which is what IN of several values becomes:
 * the array.  NULL: the clause is something else.
 */
static ArrayType *
values_in(Node *clause, const PlanWalk *walk, const Scan *scan, Form_pg_attribute att)
{
	ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) clause;
	Datum		value;
	bool		isnull;
	Node	   *array;

	if (!IsA(op, ScalarArrayOpExpr) || !op->useOr ||
		column_of(without_relabel(linitial(op->args)), scan) != att->attnum ||
		op->opno != lookup_type_cache(att->atttypid, TYPECACHE_EQ_OPR)->eq_opr ||
		(OidIsValid(op->inputcollid) && op->inputcollid != att->attcollation))
		return NULL;
	array = without_relabel(lsecond(op->args));
	if (!same_type(get_element_type(exprType(array)), att->atttypid) ||
		!value_of(array, walk->desc->params, &value, &isnull) || isnull)
		return NULL;
	return DatumGetArrayTypeP(value);
}

static void
note_rows_in(PlanWalk *walk, Plan *plan, Relation rel, LsRelation *r, LsKeyMode mode)
{
	Form_pg_attribute att;
	ArrayType  *array = NULL;
	Datum	   *values;
	bool	   *nulls;
	Datum	   *elements;
	bool	   *element_nulls;
	int			n;
	ListCell   *lc;

	if (r->identity_index == NULL || !r->hashable || r->nidentity != 1)
		return;
	att = TupleDescAttr(RelationGetDescr(rel), r->identity[0].attnum - 1);
	foreach(lc, conditions_of(plan))
	{
		if (array == NULL)
			array = values_in(lfirst(lc), walk, (Scan *) plan, att);
	}
	if (array == NULL)
		return;
	deconstruct_array(array, ARR_ELEMTYPE(array), att->attlen, att->attbyval, att->attalign, &elements, &element_nulls, &n);
	values = palloc0(RelationGetDescr(rel)->natts * sizeof(Datum));
	nulls = palloc0(RelationGetDescr(rel)->natts * sizeof(bool));
	for (int i = 0; i < n && walk->nkeys < walk->max; i++)
	{
		values[att->attnum - 1] = elements[i];
		if (!element_nulls[i])
			note_row(walk, r, values, nulls, mode);
	}
}

/* Note the row that is about to be changed, or several. */
static void
note_row_to_change(PlanWalk *walk, Plan *plan, Relation rel, LsKeyMode mode)
{
	LsRelation *r = relation_get(rel);
	Datum	   *values;
	bool	   *nulls;

	if (walk->nkeys == walk->max || !walk->wanted(rel))
		return;
	switch (which_row(walk, plan, rel, r, &values, &nulls))
	{
		case ONE_ROW:
			note_row(walk, r, values, nulls, mode);
			break;
		case ANY_ROWS:
			note_rows_in(walk, plan, rel, r, mode);
			break;
		case NO_ROW:
			break;
	}
}

/* INSERT of one row of constants, ON CONFLICT DO UPDATE, or DO SELECT FOR UPDATE: the row may be there. */
static void
note_upsert(PlanWalk *walk, const ModifyTable *modify)
{
	Plan	   *source = outerPlan(modify);
	Relation	rel;
	LsRelation *r;
	Datum	   *values;
	bool	   *nulls;
	bool		known = true;

	if (!IsA(source, Result) || outerPlan(source) != NULL || list_length(modify->resultRelations) != 1)
		return;
	rel = table_open(rt_fetch(linitial_int(modify->resultRelations), walk->desc->plannedstmt->rtable)->relid, NoLock);
	if (relation_is_replicated(rel) && walk->wanted(rel) && (r = relation_get(rel))->identity_index != NULL && r->hashable)
	{
		values = palloc0(RelationGetDescr(rel)->natts * sizeof(Datum));
		nulls = palloc0(RelationGetDescr(rel)->natts * sizeof(bool));
		for (int i = 0; i < r->nidentity && known; i++)
		{
			AttrNumber	attnum = r->identity[i].attnum;
			TargetEntry *entry = get_tle_by_resno(source->targetlist, attnum);
			Node	   *value = entry != NULL ? without_relabel((Node *) entry->expr) : NULL;

			known = value != NULL && same_type(exprType(value), TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atttypid) &&
				value_of(value, walk->desc->params, &values[attnum - 1], &nulls[attnum - 1]) && !nulls[attnum - 1];
		}
		if (known)
			note_row(walk, r, values, nulls, LS_ROW_UPDATE);
	}
	table_close(rel, NoLock);
}

static void
walk_scan(PlanWalk *walk, Plan *plan)
{
	Index		index = ((Scan *) plan)->scanrelid;
	RangeTblEntry *rte;
	Relation	rel;

	if (index == 0 || (int) index > walk->ntables || walk->tables[index].whole)
		return;
	rte = rt_fetch(index, walk->desc->plannedstmt->rtable);
	if (rte->rtekind != RTE_RELATION)
		return;
	rel = table_open(rte->relid, NoLock);
	if (walk->modes != NULL)
	{
		if (walk->modes[index] != 0 && relation_is_replicated(rel))
			note_row_to_change(walk, plan, rel, walk->modes[index]);
	}
	else if (!relation_is_replicated(rel) || !reads_one_row(walk, plan, rel, relation_get(rel)))
		walk->tables[index].whole = true;
	table_close(rel, NoLock);
}

static void walk_plan(PlanWalk *walk, Plan *plan);

static void
walk_list(PlanWalk *walk, List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		walk_plan(walk, lfirst(lc));
}

/* Something that scans tables as it likes. */
static void
all_are_read(PlanWalk *walk)
{
	for (int i = 1; i <= walk->ntables; i++)
		walk->tables[i].whole = true;
}

/* Its target is read, too, if a conflicting row makes it do nothing. */
static void
walk_modify(PlanWalk *walk, ModifyTable *modify)
{
	ListCell   *lc;

	if (modify->operation != CMD_INSERT)
		return;
	foreach(lc, modify->resultRelations)
	{
		TableRead  *table = &walk->tables[lfirst_int(lc)];

		if (modify->onConflictAction == ONCONFLICT_NONE ||
			(modify->onConflictAction == ONCONFLICT_UPDATE && modify->onConflictWhere == NULL))
			table->inserted_into = true;
		else
			table->whole = true;
	}
}

static void
walk_plan(PlanWalk *walk, Plan *plan)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
			walk_scan(walk, plan);
			break;
		case T_SampleScan:
		case T_TidScan:
		case T_TidRangeScan:
			walk->tables[((Scan *) plan)->scanrelid].whole = true;
			break;
		case T_ForeignScan:
		case T_CustomScan:
			all_are_read(walk);
			break;
		case T_SubqueryScan:
			walk_plan(walk, ((SubqueryScan *) plan)->subplan);
			break;
		case T_Append:
			walk_list(walk, ((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			walk_list(walk, ((MergeAppend *) plan)->mergeplans);
			break;
		case T_ModifyTable:
			walk_modify(walk, (ModifyTable *) plan);
			break;
		default:
			break;
	}
	/* below a BitmapHeapScan there are only indexes */
	if (!IsA(plan, BitmapHeapScan))
		walk_plan(walk, plan->lefttree);
	walk_plan(walk, plan->righttree);
}

/*
 * Tables that the plan names and doesn't scan - parents of partitions, or one
 * that a constraint excludes - must be what they are: no DDL.
 */
static void
add_tables(const PlanWalk *walk)
{
	List	   *rtable = walk->desc->plannedstmt->rtable;

	for (int i = 1; i <= walk->ntables; i++)
	{
		RangeTblEntry *rte = rt_fetch(i, rtable);
		Relation	rel;

		if (rte->rtekind != RTE_RELATION || rte->relid < FirstNormalObjectId ||
			rte->relkind == RELKIND_VIEW || walk->tables[i].inserted_into)
			continue;
		rel = table_open(rte->relid, NoLock);
		if (RelationGetNamespace(rel) == ls_schema_oid() ||
			rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
			 /* not replicated */ ;
		else if (relation_is_replicated(rel))
			walk->tables[i].whole ? readkeys_whole(relation_get(rel)) : readkeys_rows_of(relation_get(rel));
		else
			readkeys_table(rel);
		table_close(rel, NoLock);
	}
}

/* ---------- called before something runs */

static void
begin_walk(PlanWalk *walk, QueryDesc *desc)
{
	memset(walk, 0, sizeof(*walk));
	walk->desc = desc;
	walk->ntables = list_length(desc->plannedstmt->rtable);
	walk->tables = palloc0((walk->ntables + 1) * sizeof(TableRead));
}

static void
walk_query(PlanWalk *walk)
{
	walk_plan(walk, walk->desc->plannedstmt->planTree);
	walk_list(walk, walk->desc->plannedstmt->subplans);
}

void
readplan_before_query(QueryDesc *desc)
{
	PlanWalk	walk;
	MemoryContext context;
	MemoryContext old;

	if (likely(!readkeys_count()))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "lockstep plan walk", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	begin_walk(&walk, desc);
	walk_query(&walk);
	add_tables(&walk);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* Of each entry of the range table: how its rows will be changed or locked. */
static bool
find_modes(const PlannedStmt *stmt, LsKeyMode *modes)
{
	bool		any = false;
	ListCell   *lc;

	if (stmt->commandType == CMD_UPDATE || stmt->commandType == CMD_DELETE)
	{
		foreach(lc, ls_result_relations(stmt))
			modes[lfirst_int(lc)] = stmt->commandType == CMD_UPDATE ? LS_ROW_UPDATE : LS_ROW_EXCLUSIVE;
		any = ls_has_result_relations(stmt);
	}
	foreach(lc, stmt->rowMarks)
	{
		PlanRowMark *mark = lfirst_node(PlanRowMark, lc);

		/* NOWAIT and SKIP LOCKED don't wait for other nodes either */
		if ((mark->markType != ROW_MARK_EXCLUSIVE && mark->markType != ROW_MARK_NOKEYEXCLUSIVE) ||
			mark->waitPolicy != LockWaitBlock)
			continue;
		modes[mark->rti] = mark->markType == ROW_MARK_EXCLUSIVE ? LS_ROW_EXCLUSIVE : LS_ROW_UPDATE;
		any = true;
	}
	return any;
}

/* It changes the row that is there, or locks it as if it did. */
bool
readplan_is_upsert(const PlannedStmt *stmt)
{
	const ModifyTable *modify = (const ModifyTable *) stmt->planTree;

	return stmt->commandType == CMD_INSERT && IsA(modify, ModifyTable) &&
		(modify->onConflictAction == ONCONFLICT_UPDATE || ls_conflict_lock(modify) >= LCS_FORNOKEYUPDATE);
}

static bool
locks_on_conflict(const Plan *plan)
{
	return plan != NULL && IsA(plan, ModifyTable) && ls_conflict_lock((const ModifyTable *) plan) != LCS_NONE;
}

bool
readplan_locks_on_conflict(const PlannedStmt *stmt)
{
	ListCell   *lc;

	if (stmt->commandType == CMD_INSERT && locks_on_conflict(stmt->planTree))
		return true;
	if (!stmt->hasModifyingCTE)
		return false;
	foreach(lc, stmt->subplans)
	{
		if (locks_on_conflict(lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Keys of the rows that the plan will change or lock FOR UPDATE, of wanted
 * tables, as far as its conditions, or the values of an upsert, name them by their identity.  Not of a
 * foreign key's own query.  At most max; and of their tables, which may be more.
 */
int
readplan_rows_to_change(QueryDesc *desc, bool (*wanted) (Relation rel), LsKey *keys, int max,
						LsKey *tables, int *ntables)
{
	PlanWalk	walk;
	MemoryContext context;
	MemoryContext old;

	*ntables = 0;
	if (foreignkey_starts_query())
		return 0;
	context = AllocSetContextCreate(CurrentMemoryContext, "lockstep plan walk", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	begin_walk(&walk, desc);
	walk.rows_of = tables;
	walk.modes = palloc0((walk.ntables + 1) * sizeof(LsKeyMode));
	walk.wanted = wanted;
	walk.keys = keys;
	walk.max = max;
	if (readplan_is_upsert(desc->plannedstmt))
		note_upsert(&walk, (ModifyTable *) desc->plannedstmt->planTree);
	if (find_modes(desc->plannedstmt, walk.modes))
		walk_query(&walk);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	*ntables = walk.nrows_of;
	return walk.nkeys;
}
