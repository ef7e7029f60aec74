/*
 * applygenerated.c
 *	  In an apply session: values of stored generated columns that come with the row.
 *
 * If the expression of a generated column may give another value on another node
 * (relation.c), the query contains the column's value.  PostgreSQL refuses that in its
 * rewriter, and its executor would compute the value.  Therefore
 *
 *  - after parse analysis the values become junk entries of the target list, which the
 *    rewriter leaves alone;
 *  - before planning they become values of their columns again;
 *  - the executor is told that there is nothing to compute.
 *
 * The executor still computes when the query has no such value but changes a column that the
 * expression reads: then every node computes the same value, or the query is from the
 * journal of an older release.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "compat.h"

static bool
has_generated(TupleDesc desc)
{
	return desc->constr != NULL && desc->constr->has_generated_stored;
}

static bool
is_generated(TupleDesc desc, AttrNumber attnum)
{
	return TupleDescAttr(desc, attnum - 1)->attgenerated == ATTRIBUTE_GENERATED_STORED;
}

/* The query's target, if it has generated columns; NULL: none. */
static Relation
open_target(const Query *query)
{
	Relation	rel;

	if (query->resultRelation == 0 ||
		(query->commandType != CMD_INSERT && query->commandType != CMD_UPDATE))
		return NULL;
	rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
	if (has_generated(RelationGetDescr(rel)))
		return rel;
	table_close(rel, NoLock);
	return NULL;
}

/* ---------- past the rewriter */

void
applygenerated_hide(Query *query)
{
	Relation	rel = open_target(query);
	ListCell   *lc;

	if (rel == NULL)
		return;
	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (entry->resjunk || !is_generated(RelationGetDescr(rel), entry->resno))
			continue;
		entry->resname = pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), entry->resno - 1)->attname));
		entry->resjunk = true;
	}
	table_close(rel, NoLock);
}

static int
by_column(const ListCell *a, const ListCell *b)
{
	const TargetEntry *x = lfirst(a);
	const TargetEntry *y = lfirst(b);

	return x->resjunk != y->resjunk ? (int) x->resjunk - (int) y->resjunk : x->resno - y->resno;
}

void
applygenerated_show(Query *query)
{
	Relation	rel = open_target(query);
	bool		any = false;
	ListCell   *lc;

	if (rel == NULL)
		return;
	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		AttrNumber	attnum;

		if (!entry->resjunk || entry->resname == NULL)
			continue;
		attnum = get_attnum(RelationGetRelid(rel), entry->resname);
		if (attnum <= 0 || !is_generated(RelationGetDescr(rel), attnum))
			continue;
		entry->resno = attnum;
		entry->resjunk = false;
		any = true;
	}
	if (any)
		list_sort(query->targetList, by_column);
	table_close(rel, NoLock);
}

/* ---------- in the executor */

/* The columns that the expressions use. */
static Bitmapset *
columns_computed_from(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	Bitmapset  *columns = NULL;

	for (int i = 0; i < constr->num_defval; i++)
	{
		if (is_generated(RelationGetDescr(rel), constr->defval[i].adnum))
			pull_varattnos(stringToNode(constr->defval[i].adbin), 1, &columns);
	}
	return columns;
}

/*
 * PostgreSQL computes nothing anew if nothing of what it is made from is set, but
 * for tables that have triggers, which might set it.  They don't fire here.
 */
static bool
update_carries_values(const List *assigned, Relation rel)
{
	Bitmapset  *from;
	ListCell   *lc;

	foreach(lc, assigned)
	{
		if (is_generated(RelationGetDescr(rel), lfirst_int(lc)))
			return true;
	}
	if (rel->trigdesc == NULL || !rel->trigdesc->trig_update_before_row)
		return false;
	from = columns_computed_from(rel);
	foreach(lc, assigned)
	{
		if (bms_is_member(lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber, from))
			return false;
	}
	return true;
}

/* The planner has made NULLs of the columns that have no value. */
static bool
insert_carries_values(const Plan *source, Relation rel)
{
	bool		any = false;
	ListCell   *lc;

	foreach(lc, source->targetlist)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (entry->resjunk || entry->resno > RelationGetNumberOfAttributes(rel))
			return false;
		any |= is_generated(RelationGetDescr(rel), entry->resno) && !IsA(entry->expr, Const);
	}
	return any;
}

/*
 * The query's target, if nothing of it is to be computed: its values are there, or
 * stay as they are.  Else NULL.
 */
Relation
applygenerated_open(const PlannedStmt *plan)
{
	ModifyTable *modify = (ModifyTable *) plan->planTree;
	Relation	rel;
	bool		carries;

	if (list_length(ls_result_relations(plan)) != 1 || !IsA(modify, ModifyTable) ||
		(modify->operation != CMD_INSERT && modify->operation != CMD_UPDATE))
		return NULL;
	rel = table_open(rt_fetch(linitial_int(ls_result_relations(plan)), plan->rtable)->relid, NoLock);
	if (!has_generated(RelationGetDescr(rel)))
		carries = false;
	else if (modify->operation == CMD_INSERT)
		carries = insert_carries_values(outerPlan(modify), rel);
	else
		carries = update_carries_values(linitial(modify->updateColnosLists), rel);
	if (carries)
		return rel;
	table_close(rel, NoLock);
	return NULL;
}

/*
 * What an INSERT would make at its first row, and check that no generated column
 * has a value there.  The planner's rows have none but the table's columns.
 */
static void
init_insert(EState *estate, ResultRelInfo *target)
{
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	target->ri_newTupleSlot = table_slot_create(target->ri_RelationDesc, &estate->es_tupleTable);
	target->ri_projectNewInfoValid = true;
	MemoryContextSwitchTo(old);
}

/* Expressions that were made already, namely none. */
void
applygenerated_leave_out(QueryDesc *queryDesc, ResultRelInfo *target)
{
	EState	   *estate = queryDesc->estate;
	int			n = RelationGetNumberOfAttributes(target->ri_RelationDesc);

	ls_set_generated_expressions(target, MemoryContextAllocZero(estate->es_query_cxt, n * sizeof(ExprState *)));
	if (queryDesc->operation == CMD_INSERT)
		init_insert(estate, target);
}

/* ---------- COPY */

bool
applygenerated_is_named(const List *columns, Relation rel)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		AttrNumber	attnum = get_attnum(RelationGetRelid(rel), strVal(lfirst(lc)));

		if (attnum > 0 && is_generated(RelationGetDescr(rel), attnum))
			return true;
	}
	return false;
}

/* COPY looks at nothing but the relation's entry. */
Bitmapset *
applygenerated_unmark(TupleDesc desc)
{
	Bitmapset  *columns = NULL;

	for (int i = 1; i <= desc->natts; i++)
	{
		if (!is_generated(desc, i))
			continue;
		columns = bms_add_member(columns, i);
		TupleDescAttr(desc, i - 1)->attgenerated = '\0';
		ls_attribute_changed(desc, i);
	}
	ls_attributes_changed(desc);
	desc->constr->has_generated_stored = false;
	return columns;
}

void
applygenerated_mark_again(TupleDesc desc, const Bitmapset *columns)
{
	int			attnum = -1;

	while ((attnum = bms_next_member(columns, attnum)) >= 0)
	{
		TupleDescAttr(desc, attnum - 1)->attgenerated = ATTRIBUTE_GENERATED_STORED;
		ls_attribute_changed(desc, attnum);
	}
	ls_attributes_changed(desc);
	desc->constr->has_generated_stored = true;
}
