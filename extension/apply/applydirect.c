/*
 * applydirect.c
 *	  A changed row without the executor.
 *
 * Starting and ending the executor costs as much as finding and changing a row. Nearly all
 * rows are changed by plans of two shapes: a row of constants and parameters is inserted; or one
 * that a unique index finds gets such values, or is deleted.  These are carried out here, with the
 * calls to the table and its indexes that the executor would make (nodeModifyTable.c,
 * execIndexing.c).
 *
 * What is out of the ordinary is left to the executor, which then does all of it: another plan;
 * a query with settings; a table with generated columns; an index with expressions, a predicate, an operator class that
 * is not built in, a constraint that is deferrable or excludes; a null where the table
 * has none; a row that isn't found, or that another transaction has just changed.  Nothing has been
 * changed by then.
 *
 * That triggers, rules, checks and partition bounds don't act on a row is the same in both
 * cases (applyrow.c); so are the owner's rights.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "apply.h"
#include "compat.h"
#include "lockconflict.h"
#include "points.h"
#include "rights.h"

#define MAX_CAST_ARGS 3
#define MAX_KEYS 8

/* A parameter or a constant, perhaps cast. */
typedef struct Value
{
	int			param;			/* from 1 on; 0: it is a constant */
	Datum		constant;
	bool		null;
	int			ncastargs;		/* of the cast, this one included; 0: none */
	Oid			collation;
	FmgrInfo	cast;
	Datum		castargs[MAX_CAST_ARGS];
} Value;

typedef struct Column
{
	AttrNumber	attno;
	Value		value;
} Column;

typedef struct IndexKey
{
	AttrNumber	attno;			/* of the index */
	StrategyNumber strategy;
	Oid			subtype;
	Oid			collation;
	RegProcedure function;
	Value		value;
} IndexKey;

struct DirectPlan
{
	int			generation;		/* of the plan that this is made of */
	bool		possible;
	CmdType		operation;
	Oid			relid;
	Oid			indexid;		/* that finds the row; not for INSERT */
	int			nkeys;
	IndexKey	keys[MAX_KEYS];
	int			ncolumns;
	Column		columns[FLEXIBLE_ARRAY_MEMBER];
};

/* ---------- is the plan one of them? */

static Node *
strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

static bool
plain_value(Node *node, Value *v)
{
	node = strip(node);
	if (node != NULL && IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXTERN)
	{
		v->param = ((Param *) node)->paramid;
		return v->param > 0;
	}
	if (node == NULL || !IsA(node, Const))
		return false;
	v->constant = ((Const *) node)->constvalue;
	v->null = ((Const *) node)->constisnull;
	return true;
}

/* The value is cut or rounded to what the column can have. */
static bool
cast_value(const FuncExpr *f, Value *v, MemoryContext context)
{
	int			i = 0;
	ListCell   *lc;

	if (f->funcid >= FirstNormalObjectId || f->funcretset || f->funcvariadic || !func_strict(f->funcid) ||
		(f->funcformat != COERCE_IMPLICIT_CAST && f->funcformat != COERCE_EXPLICIT_CAST) ||
		list_length(f->args) > MAX_CAST_ARGS)
		return false;
	foreach(lc, f->args)
	{
		Value		arg = {0};

		if (i == 0 ? !plain_value(lfirst(lc), v) : (!plain_value(lfirst(lc), &arg) || arg.param != 0 || arg.null))
			return false;
		v->castargs[i++] = arg.constant;
	}
	v->ncastargs = i;
	v->collation = f->inputcollid;
	fmgr_info_cxt(f->funcid, &v->cast, context);
	return i > 0;
}

static bool
find_value(Node *node, Value *v, MemoryContext context)
{
	node = strip(node);
	if (node != NULL && IsA(node, FuncExpr))
		return cast_value((FuncExpr *) node, v, context);
	return plain_value(node, v);
}

/* column = value, by the equality of the index */
static bool
find_key(Expr *clause, Relation index, IndexKey *key)
{
	OpExpr	   *op = (OpExpr *) clause;
	Var		   *var;
	int			strategy;
	Oid			left;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return false;
	var = (Var *) strip(linitial(op->args));
	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno < 1 ||
		var->varattno > index->rd_index->indnkeyatts || !plain_value(lsecond(op->args), &key->value))
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
find_keys(DirectPlan *d, const IndexScan *scan)
{
	Relation	index = index_open(scan->indexid, AccessShareLock);
	bool		found = list_length(scan->indexqual) <= MAX_KEYS && index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indisunique &&
	index->rd_index->indimmediate && index->rd_index->indnkeyatts == list_length(scan->indexqual);
	Bitmapset  *seen = NULL;
	ListCell   *lc;

	d->indexid = scan->indexid;
	foreach(lc, scan->indexqual)
	{
		found = found && find_key(lfirst(lc), index, &d->keys[d->nkeys]) &&
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
find_columns(DirectPlan *d, const List *targets, const List *attnos, MemoryContext context)
{
	ListCell   *lc;

	foreach(lc, targets)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Column	   *column = &d->columns[d->ncolumns];

		if (entry->resjunk)
			continue;
		if ((attnos != NIL && d->ncolumns >= list_length(attnos)) ||
			!find_value((Node *) entry->expr, &column->value, context))
			return false;
		column->attno = attnos != NIL ? list_nth_int(attnos, d->ncolumns) : entry->resno;
		d->ncolumns++;
	}
	return attnos == NIL || d->ncolumns == list_length(attnos);
}

static bool
is_ordinary(const ModifyTable *plan, const PlannedStmt *stmt)
{
	return list_length(plan->resultRelations) == 1 && plan->rootRelation == 0 && !plan->partColsUpdated &&
		plan->returningLists == NIL && plan->withCheckOptionLists == NIL && plan->rowMarks == NIL &&
		plan->onConflictAction == ONCONFLICT_NONE && plan->plan.initPlan == NIL &&
		stmt->rowMarks == NIL && stmt->subplans == NIL && !stmt->hasModifyingCTE && !stmt->hasReturning;
}

static bool
understand(DirectPlan *d, const PlannedStmt *stmt, MemoryContext context)
{
	const ModifyTable *plan = (const ModifyTable *) stmt->planTree;
	const Plan *source;
	const List *attnos;

	if (!is_ordinary(plan, stmt))
		return false;
	source = outerPlan(plan);
	d->operation = plan->operation;
	d->relid = rt_fetch(linitial_int(plan->resultRelations), stmt->rtable)->relid;
	if (source->qual != NIL || source->initPlan != NIL)
		return false;
	if (d->operation == CMD_INSERT)
		return IsA(source, Result) && outerPlan(source) == NULL && ((const Result *) source)->resconstantqual == NULL &&
			find_columns(d, source->targetlist, NIL, context);
	if ((d->operation != CMD_UPDATE && d->operation != CMD_DELETE) || !IsA(source, IndexScan) ||
		((const IndexScan *) source)->scan.scanrelid != (Index) linitial_int(plan->resultRelations) ||
		((const IndexScan *) source)->indexorderby != NIL || !find_keys(d, (const IndexScan *) source))
		return false;
	if (d->operation == CMD_DELETE)
		return true;
	attnos = linitial(plan->updateColnosLists);
	return attnos != NIL && find_columns(d, source->targetlist, attnos, context);
}

static DirectPlan *
make_direct(const CachedPlan *plan, MemoryContext context)
{
	const PlannedStmt *stmt = list_length(plan->stmt_list) == 1 ? linitial_node(PlannedStmt, plan->stmt_list) : NULL;
	bool		changes = stmt != NULL && stmt->commandType != CMD_UTILITY && IsA(stmt->planTree, ModifyTable);
	int			n = changes ? list_length(outerPlan(stmt->planTree)->targetlist) : 0;
	DirectPlan *d = MemoryContextAllocZero(context, offsetof(DirectPlan, columns) + n * sizeof(Column));

	d->possible = changes && understand(d, stmt, context);
	d->generation = plan->generation;
	return d;
}

/* ---------- doing it */

/* What a row needs while it is changed, to be given back if nothing goes wrong. */
typedef struct Change
{
	const DirectPlan *plan;
	const Datum *values;		/* of the parameters */
	const char *nulls;
	Relation	rel;
	TupleTableSlot *row;		/* the new one; not for DELETE */
	TupleTableSlot *old;		/* not for INSERT */
	Relation	index;			/* that finds it */
	IndexScanDesc scan;
	int			nindexes;		/* of the table, for INSERT and UPDATE */
	Relation   *indexes;
	IndexInfo **infos;
} Change;

static Datum
evaluate(const Change *c, const Value *v, bool *null)
{
	Datum		value = v->param > 0 ? c->values[v->param - 1] : v->constant;

	*null = v->param > 0 ? c->nulls[v->param - 1] == 'n' : v->null;
	if (*null || v->ncastargs == 0)
		return value;
	if (v->ncastargs == 1)
		return FunctionCall1Coll((FmgrInfo *) &v->cast, v->collation, value);
	if (v->ncastargs == 2)
		return FunctionCall2Coll((FmgrInfo *) &v->cast, v->collation, value, v->castargs[1]);
	return FunctionCall3Coll((FmgrInfo *) &v->cast, v->collation, value, v->castargs[1], v->castargs[2]);
}

/* The row that the unique index has, with its page pinned. */
static bool
find_row(Change *c)
{
	const DirectPlan *d = c->plan;
	ScanKeyData keys[MAX_KEYS];

	for (int i = 0; i < d->nkeys; i++)
	{
		const IndexKey *k = &d->keys[i];
		bool		null;
		Datum		value = evaluate(c, &k->value, &null);

		if (null)
			return false;
		ScanKeyEntryInitialize(&keys[i], 0, k->attno, k->strategy, k->subtype, k->collation, k->function, value);
	}
	c->index = index_open(d->indexid, RowExclusiveLock);
	c->old = table_slot_create(c->rel, NULL);
	c->scan = ls_index_beginscan(c->rel, c->index, GetActiveSnapshot(), d->nkeys);
	index_rescan(c->scan, keys, d->nkeys, NULL, 0);
	return index_getnext_slot(c->scan, ForwardScanDirection, c->old) && !c->scan->xs_recheck;
}

/* false: a null where the table has none */
static bool
make_row(Change *c)
{
	TupleDesc	desc = RelationGetDescr(c->rel);

	if (c->plan->operation == CMD_INSERT && c->plan->ncolumns != desc->natts)
		return false;
	c->row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	memset(c->row->tts_isnull, true, desc->natts * sizeof(bool));
	memset(c->row->tts_values, 0, desc->natts * sizeof(Datum));
	if (c->old != NULL)
	{
		slot_getallattrs(c->old);
		memcpy(c->row->tts_values, c->old->tts_values, desc->natts * sizeof(Datum));
		memcpy(c->row->tts_isnull, c->old->tts_isnull, desc->natts * sizeof(bool));
	}
	for (int i = 0; i < c->plan->ncolumns; i++)
	{
		const Column *column = &c->plan->columns[i];

		c->row->tts_values[column->attno - 1] = evaluate(c, &column->value, &c->row->tts_isnull[column->attno - 1]);
	}
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			c->row->tts_isnull[i] = true;
		else if (att->attnotnull && c->row->tts_isnull[i])
			return false;
	}
	ExecStoreVirtualTuple(c->row);
	return true;
}

static bool
is_plain_index(Relation index, const IndexInfo *info)
{
	if (info->ii_Expressions != NIL || info->ii_Predicate != NIL || info->ii_ExclusionOps != NULL ||
		(index->rd_index->indisunique && !index->rd_index->indimmediate))
		return false;
	for (int i = 0; i < info->ii_NumIndexKeyAttrs; i++)
	{
		if (index->rd_opfamily[i] >= FirstNormalObjectId)
			return false;
	}
	return true;
}

static bool
open_indexes(Change *c)
{
	List	   *ids = c->rel->rd_rel->relhasindex ? RelationGetIndexList(c->rel) : NIL;
	bool		plain = true;
	ListCell   *lc;

	c->indexes = palloc(Max(list_length(ids), 1) * sizeof(Relation));
	c->infos = palloc(Max(list_length(ids), 1) * sizeof(IndexInfo *));
	foreach(lc, ids)
	{
		Relation	index = index_open(lfirst_oid(lc), RowExclusiveLock);

		c->indexes[c->nindexes] = index;
		c->infos[c->nindexes] = BuildIndexInfo(index);
		plain &= is_plain_index(index, c->infos[c->nindexes]);
		c->nindexes++;
	}
	list_free(ids);
	return plain;
}

/* Does the UPDATE leave all columns of the index as they were? */
static bool
is_unchanged(const Change *c, const IndexInfo *info)
{
	for (int i = 0; i < c->plan->ncolumns; i++)
	{
		for (int j = 0; j < info->ii_NumIndexKeyAttrs; j++)
		{
			if (info->ii_IndexAttrNumbers[j] == c->plan->columns[i].attno)
				return false;
		}
	}
	return c->plan->operation == CMD_UPDATE;
}

static void
insert_index_entries(Change *c, bool only_summarizing)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];

	for (int i = 0; i < c->nindexes; i++)
	{
		Relation	index = c->indexes[i];
		IndexInfo  *info = c->infos[i];

		if (!info->ii_ReadyForInserts || (only_summarizing && !ls_is_summarizing(info)))
			continue;
		FormIndexDatum(info, c->row, NULL, values, nulls);
		index_insert(index, values, nulls, &c->row->tts_tid, c->rel,
					 index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 is_unchanged(c, info), info);
	}
}

static bool
change_table(Change *c)
{
	CommandId	command = GetCurrentCommandId(true);
	TM_FailureData failure;
	LockTupleMode lockmode;
	LsUpdateIndexes update = 0;

	switch (c->plan->operation)
	{
		case CMD_INSERT:
			table_tuple_insert(c->rel, c->row, command, 0, NULL);
			insert_index_entries(c, false);
			return true;
		case CMD_UPDATE:
			if (table_tuple_update(c->rel, &c->old->tts_tid, c->row, command, GetActiveSnapshot(), InvalidSnapshot,
								   true, &failure, &lockmode, &update) != TM_Ok)
				return false;
			if (update)
				insert_index_entries(c, ls_updates_summarizing_only(update));
			return true;
		case CMD_DELETE:
			return table_tuple_delete(c->rel, &c->old->tts_tid, command, GetActiveSnapshot(), InvalidSnapshot,
									  true, &failure, false) == TM_Ok;
		default:
			return false;
	}
}

static bool
is_ordinary_table(Relation rel)
{
	const TupleConstr *constr = RelationGetDescr(rel)->constr;

	return RelationGetRelid(rel) >= FirstNormalObjectId && rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam == HEAP_TABLE_AM_OID &&
		!(constr != NULL && ls_has_generated(constr));
}

static void
close_all(Change *c)
{
	for (int i = 0; i < c->nindexes; i++)
	{
		ls_index_insert_cleanup(c->indexes[i], c->infos[i]);
		index_close(c->indexes[i], NoLock);
	}
	if (c->row != NULL)
		ExecDropSingleTupleTableSlot(c->row);
	if (c->old != NULL)
		ExecDropSingleTupleTableSlot(c->old);
	if (c->scan != NULL)
		index_endscan(c->scan);
	if (c->index != NULL)
		index_close(c->index, NoLock);
	table_close(c->rel, NoLock);
}

/* false: nothing has been changed */
static bool
change(const DirectPlan *d, const Datum *values, const char *nulls)
{
	Change		c = {.plan = d,.values = values,.nulls = nulls,.rel = table_open(d->relid, NoLock)};
	Oid			user;
	LsRights	saved;
	bool		changed = false;

	if (is_ordinary_table(c.rel))
	{
		applyunproven_before_rows(c.rel);	/* may have to wait */
		CheckCmdReplicaIdentity(c.rel, d->operation);
		user = rights_for_rows(c.rel->rd_rel->relowner);
		if (OidIsValid(user))
			rights_lower(user, true, &saved);
		PushActiveSnapshot(GetTransactionSnapshot());
		LS_POINT(APPLY_EXECUTING);
		changed = (d->operation == CMD_INSERT || find_row(&c)) &&
			(d->operation == CMD_DELETE || (make_row(&c) && open_indexes(&c))) &&
			change_table(&c);
		PopActiveSnapshot();
		if (OidIsValid(user))
			rights_restore(&saved);
	}
	close_all(&c);
	return changed;
}

/*
 * Change the row by the plan, which is kept in context.  false: it is to be executed
 * as usual.
 */
bool
applydirect_change(DirectPlan **direct, SPIPlanPtr plan, const Datum *values, const char *nulls, MemoryContext context)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	CachedPlan *cached;
	bool		changed;

	if ((*direct != NULL && !(*direct)->possible && (*direct)->generation == source->generation) || querysettings_are_set())
		return false;
	lockconflict_before_query();
	cached = SPI_plan_get_cached_plan(plan);
	if (cached == NULL)
		return false;
	if (*direct == NULL || (*direct)->generation != cached->generation)
	{
		if (*direct != NULL)
			pfree(*direct);
		*direct = NULL;
		*direct = make_direct(cached, context);
	}
	changed = (*direct)->possible && change(*direct, values, nulls);
	ReleaseCachedPlan(cached, CurrentResourceOwner);
	if (changed)
		CommandCounterIncrement();
	return changed;
}
