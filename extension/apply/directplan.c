/*
 * directplan.c
 *	  Which plans applydirect.c can carry out without the executor.
 *
 * Nearly all rows are changed by plans of three shapes: a row of constants and parameters is inserted; one
 * that a unique index finds gets such values, or is deleted; and the same for a row for each element of
 * arrays (batch.c):
 *
 *	ModifyTable
 *	  -> Nested Loop
 *	       -> Function Scan on unnest, unnest...
 *	       -> Index Scan, with the elements as keys
 *
 * A row of a table without an identity is found by its image (deparse.c, append_where_image), which applyimage.c
 * looks for:
 *
 *	ModifyTable
 *	  InitPlan: a row of that image
 *	  InitPlan: a row of that text
 *	  -> Tid Scan: one or the other
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_operator.h"
#include "access/transam.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "deparse.h"
#include "directplan.h"

/* Where the elements of arrays come from; NULL: the query's parameters are the values. */
typedef struct Elements
{
	const NestLoop *join;
	const FunctionScan *scan;
	int			n;				/* arrays */
} Elements;

/* ---------- values */

static Node *
strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

/* Which array's element a variable of the join's outer side is; 0: none. */
static int
array_of(const Elements *elements, const Var *var)
{
	const List *targets = elements->scan->scan.plan.targetlist;
	const Var  *inner;

	if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno < 1 || var->varattno > list_length(targets))
		return 0;
	inner = (const Var *) strip((Node *) list_nth_node(TargetEntry, targets, var->varattno - 1)->expr);
	if (inner == NULL || !IsA(inner, Var) || inner->varno != (int) elements->scan->scan.scanrelid ||
		inner->varattno < 1 || inner->varattno > elements->n)
		return 0;
	return inner->varattno;
}

/* That number, from 1 on, of a parameter or an array; 0: it is neither. */
static int
param_of(const Elements *elements, Node *node)
{
	ListCell   *lc;

	if (elements == NULL)
		return IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN ? ((Param *) node)->paramid : 0;
	if (IsA(node, Var))
		return array_of(elements, (Var *) node);
	if (!IsA(node, Param) || ((Param *) node)->paramkind != PARAM_EXEC)
		return 0;
	foreach(lc, elements->join->nestParams)
	{
		const NestLoopParam *p = lfirst_node(NestLoopParam, lc);

		if (p->paramno == ((Param *) node)->paramid)
			return array_of(elements, p->paramval);
	}
	return 0;
}

static bool
plain_value(const Elements *elements, Node *node, DirectValue *v)
{
	node = strip(node);
	if (node == NULL)
		return false;
	v->param = param_of(elements, node);
	if (v->param > 0 || !IsA(node, Const))
		return v->param > 0;
	v->constant = ((Const *) node)->constvalue;
	v->null = ((Const *) node)->constisnull;
	return true;
}

/* The value is cut or rounded to what the column can have. */
static bool
cast_value(const Elements *elements, const FuncExpr *f, DirectValue *v, MemoryContext context)
{
	int			i = 0;
	ListCell   *lc;

	if (f->funcid >= FirstNormalObjectId || f->funcretset || f->funcvariadic || !func_strict(f->funcid) ||
		(f->funcformat != COERCE_IMPLICIT_CAST && f->funcformat != COERCE_EXPLICIT_CAST) ||
		list_length(f->args) > MAX_CAST_ARGS)
		return false;
	foreach(lc, f->args)
	{
		DirectValue arg = {0};

		if (i == 0 ? !plain_value(elements, lfirst(lc), v) : (!plain_value(elements, lfirst(lc), &arg) || arg.param != 0 || arg.null))
			return false;
		v->castargs[i++] = arg.constant;
	}
	v->ncastargs = i;
	v->collation = f->inputcollid;
	fmgr_info_cxt(f->funcid, &v->cast, context);
	return i > 0;
}

static bool
find_value(const Elements *elements, Node *node, DirectValue *v, MemoryContext context)
{
	node = strip(node);
	if (node != NULL && IsA(node, FuncExpr))
		return cast_value(elements, (FuncExpr *) node, v, context);
	return plain_value(elements, node, v);
}

/* ---------- what is changed, and by what it is found */

/* column = value, by the equality of the index */
static bool
find_key(const Elements *elements, Expr *clause, Relation index, DirectKey *key)
{
	OpExpr	   *op = (OpExpr *) clause;
	Var		   *var;
	int			strategy;
	Oid			left;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return false;
	var = (Var *) strip(linitial(op->args));
	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno < 1 ||
		var->varattno > index->rd_index->indnkeyatts || !plain_value(elements, lsecond(op->args), &key->value))
		return false;
	get_op_opfamily_properties(op->opno, index->rd_opfamily[var->varattno - 1], false, &strategy, &left, &key->subtype);
	key->attno = var->varattno;
	key->strategy = strategy;
	key->collation = op->inputcollid;
	key->function = op->opfuncid;
	return strategy == BTEqualStrategyNumber && OidIsValid(key->function);
}

/* Each column of a unique index, once. */
static bool
find_keys(DirectPlan *d, const Elements *elements, const IndexScan *scan)
{
	Relation	index = index_open(scan->indexid, AccessShareLock);
	bool		found = list_length(scan->indexqual) <= MAX_KEYS && index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indisunique &&
	index->rd_index->indimmediate && index->rd_index->indnkeyatts == list_length(scan->indexqual);
	Bitmapset  *seen = NULL;
	ListCell   *lc;

	d->indexid = scan->indexid;
	foreach(lc, scan->indexqual)
	{
		found = found && find_key(elements, lfirst(lc), index, &d->keys[d->nkeys]) &&
			!bms_is_member(d->keys[d->nkeys].attno, seen);
		if (!found)
			break;
		seen = bms_add_member(seen, d->keys[d->nkeys].attno);
		d->nkeys++;
	}
	index_close(index, AccessShareLock);
	return found;
}

/* attnos: of an UPDATE; an INSERT has all columns in their order. */
static bool
find_columns(DirectPlan *d, const Elements *elements, const List *targets, const List *attnos, MemoryContext context)
{
	ListCell   *lc;

	foreach(lc, targets)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		DirectColumn *column = &d->columns[d->ncolumns];

		if (entry->resjunk)
			continue;
		if ((attnos != NIL && d->ncolumns >= list_length(attnos)) ||
			!find_value(elements, (Node *) entry->expr, &column->value, context))
			return false;
		column->attno = attnos != NIL ? list_nth_int(attnos, d->ncolumns) : entry->resno;
		d->ncolumns++;
	}
	return attnos == NIL || d->ncolumns == list_length(attnos);
}

/* Nothing is locked: of the elements there would be a copy, for an UPDATE that has to look again. */
static bool
only_copies(const List *marks)
{
	ListCell   *lc;

	foreach(lc, marks)
	{
		if (lfirst_node(PlanRowMark, lc)->markType != ROW_MARK_COPY)
			return false;
	}
	return true;
}

static bool
is_ordinary(const ModifyTable *plan, const PlannedStmt *stmt)
{
	int			nsubplans = IsA(outerPlan(plan), TidScan) ? 2 : 0;

	return list_length(plan->resultRelations) == 1 && plan->rootRelation == 0 && !ls_moves_rows(plan) &&
		plan->returningLists == NIL && plan->withCheckOptionLists == NIL && only_copies(plan->rowMarks) &&
		plan->onConflictAction == ONCONFLICT_NONE && list_length(plan->plan.initPlan) == nsubplans &&
		only_copies(stmt->rowMarks) && list_length(stmt->subplans) == nsubplans && !stmt->hasModifyingCTE && !stmt->hasReturning;
}

/* An element of each array, which are the parameters in their order. */
static bool
are_elements(const FunctionScan *scan, int nparams)
{
	int			n = 0;
	ListCell   *lc;

	if (scan->funcordinality || scan->scan.plan.qual != NIL || scan->scan.plan.initPlan != NIL ||
		list_length(scan->functions) != nparams)
		return false;
	foreach(lc, scan->functions)
	{
		const RangeTblFunction *function = lfirst_node(RangeTblFunction, lc);
		const FuncExpr *call = (const FuncExpr *) function->funcexpr;
		const Param *array;

		if (function->funccolcount != 1 || !IsA(call, FuncExpr) || call->funcid != F_UNNEST_ANYARRAY)
			return false;
		array = linitial(call->args);
		if (!IsA(array, Param) || array->paramkind != PARAM_EXTERN || array->paramid != ++n)
			return false;
	}
	return n > 0;
}

/* The plan that finds the row, or the row for each of the elements; NULL: another one. */
static const IndexScan *
find_scan(DirectPlan *d, const Plan *source, int nparams, Elements *elements)
{
	const IndexScan *scan = (const IndexScan *) source;

	if (IsA(source, NestLoop))
	{
		elements->join = (const NestLoop *) source;
		elements->scan = (const FunctionScan *) outerPlan(source);
		elements->n = nparams;
		scan = (const IndexScan *) innerPlan(source);
		if (elements->join->join.jointype != JOIN_INNER || elements->join->join.joinqual != NIL ||
			!IsA(elements->scan, FunctionScan) || !are_elements(elements->scan, nparams))
			return NULL;
		d->narrays = nparams;
	}
	if (!IsA(scan, IndexScan) || scan->indexorderby != NIL || scan->scan.plan.qual != NIL || scan->scan.plan.initPlan != NIL)
		return NULL;
	return scan;
}

static bool
understand_found(DirectPlan *d, const ModifyTable *plan, int nparams, MemoryContext context)
{
	Elements	arrays = {0};
	const Plan *source = outerPlan(plan);
	const IndexScan *scan = find_scan(d, source, nparams, &arrays);
	const Elements *elements = d->narrays > 0 ? &arrays : NULL;
	const List *attnos;

	if (scan == NULL || scan->scan.scanrelid != (Index) linitial_int(plan->resultRelations) || !find_keys(d, elements, scan))
		return false;
	if (d->operation == CMD_DELETE)
		return true;
	attnos = linitial(plan->updateColnosLists);
	return attnos != NIL && find_columns(d, elements, source->targetlist, attnos, context);
}

/* ---------- a row that is found by its image */

/* The plan of the first subquery of ctid = COALESCE((SELECT ...), (SELECT ...)); NULL: it is another condition. */
static const Scan *
first_choice(const TidScan *scan, const ModifyTable *plan, const PlannedStmt *stmt)
{
	const OpExpr *op = list_length(scan->tidquals) == 1 ? linitial(scan->tidquals) : NULL;
	const CoalesceExpr *choice = op != NULL && IsA(op, OpExpr) && list_length(op->args) == 2 ? lsecond(op->args) : NULL;
	const SubPlan *first = linitial_node(SubPlan, plan->plan.initPlan);
	const Param *param;
	const Plan *limit;

	if (choice == NULL || op->opno != TIDEqualOperator || !IsA(choice, CoalesceExpr) || list_length(choice->args) != 2)
		return NULL;
	param = linitial(choice->args);
	limit = list_nth(stmt->subplans, first->plan_id - 1);
	if (!IsA(param, Param) || param->paramkind != PARAM_EXEC || list_length(first->setParam) != 1 ||
		linitial_int(first->setParam) != param->paramid || !IsA(limit, Limit) || !IsA(outerPlan(limit), SeqScan))
		return NULL;
	return (const Scan *) outerPlan(limit);
}

/* x.* *= ROW(...); columns that are dropped are constants there. */
static bool
find_image(DirectPlan *d, const OpExpr *op, const Scan *scan, MemoryContext context)
{
	const Var  *whole = linitial(op->args);
	const RowExpr *row = lsecond(op->args);
	AttrNumber	attnum = 0;
	ListCell   *lc;

	if (!IsA(whole, Var) || whole->varattno != 0 || whole->varno != (int) scan->scanrelid ||
		!IsA(row, RowExpr) || row->row_typeid != whole->vartype)
		return false;
	foreach(lc, row->args)
	{
		attnum++;
		if (IsA(lfirst(lc), Const))
			continue;
		if (d->nimage == d->nparams || !find_value(NULL, lfirst(lc), &d->image[d->nimage].value, context))
			return false;
		d->image[d->nimage++].attno = attnum;
	}
	return d->nimage > 0;
}

/* Beside the image there are only conditions that sort out other rows: column = value IS NOT FALSE. */
static bool
understand_image(DirectPlan *d, const ModifyTable *plan, const PlannedStmt *stmt, MemoryContext context)
{
	const TidScan *source = (const TidScan *) outerPlan(plan);
	const Scan *scan = first_choice(source, plan, stmt);
	bool		found = false;
	ListCell   *lc;

	if (scan == NULL || source->scan.scanrelid != (Index) linitial_int(plan->resultRelations) ||
		rt_fetch(scan->scanrelid, stmt->rtable)->relid != d->relid)
		return false;
	foreach(lc, scan->plan.qual)
	{
		const OpExpr *op = lfirst(lc);

		if (IsA(op, BooleanTest) && ((const BooleanTest *) op)->booltesttype == IS_NOT_FALSE)
			continue;
		if (found || !IsA(op, OpExpr) || op->opfuncid != F_RECORD_IMAGE_EQ || !find_image(d, op, scan, context))
			return false;
		found = true;
	}
	return found && (d->operation == CMD_DELETE ||
					 find_columns(d, NULL, source->scan.plan.targetlist, linitial(plan->updateColnosLists), context));
}

static bool
understand(DirectPlan *d, const PlannedStmt *stmt, int nparams, MemoryContext context)
{
	const ModifyTable *plan = (const ModifyTable *) stmt->planTree;
	const Plan *source;

	if (!is_ordinary(plan, stmt))
		return false;
	source = outerPlan(plan);
	d->operation = plan->operation;
	d->relid = rt_fetch(linitial_int(plan->resultRelations), stmt->rtable)->relid;
	if (source->qual != NIL || source->initPlan != NIL)
		return false;
	if (d->operation == CMD_INSERT)
		return IsA(source, Result) && outerPlan(source) == NULL && ((const Result *) source)->resconstantqual == NULL &&
			find_columns(d, NULL, source->targetlist, NIL, context);
	if (d->operation != CMD_UPDATE && d->operation != CMD_DELETE)
		return false;
	return IsA(source, TidScan) ? understand_image(d, plan, stmt, context) : understand_found(d, plan, nparams, context);
}

DirectPlan *
directplan_make(const CachedPlan *plan, const char *text, int nparams, MemoryContext context)
{
	const PlannedStmt *stmt = list_length(plan->stmt_list) == 1 ? linitial_node(PlannedStmt, plan->stmt_list) : NULL;
	bool		changes = stmt != NULL && stmt->commandType != CMD_UTILITY && IsA(stmt->planTree, ModifyTable);
	int			n = changes ? list_length(outerPlan(stmt->planTree)->targetlist) : 0;
	DirectPlan *d = MemoryContextAllocZero(context, offsetof(DirectPlan, columns) + (n + nparams) * sizeof(DirectColumn));

	d->nparams = nparams;
	d->image = &d->columns[n];

	d->for_good = deparse_is_for_good(text, strlen(text));
	d->possible = changes && understand(d, stmt, nparams, context);
	d->generation = plan->generation;
	return d;
}
