/*
 * applydirect.c
 *	  A changed row, or a run of them, without the executor.
 *
 * Starting and ending the executor costs as much as finding and changing a row, and a join with
 * the elements of arrays a third of it.  Plans that directplan.c understands are carried out here, with the
 * calls to the table and its indexes that the executor would make (nodeModifyTable.c,
 * execIndexing.c).
 *
 * A row of a table without an identity is looked for from where the last one was (applyimage.c).
 *
 * What is out of the ordinary is left to the executor, which then does all of it: another plan;
 * a query with settings; a table with generated columns; an index with expressions, a predicate, an operator class that
 * is not built in, a constraint that is deferrable or excludes; a null where the table
 * has none; a row that isn't found, or that another transaction has just changed.  Nothing has been
 * changed by then; of a run, the executor gets the rows from that one on.
 *
 * A run often has the rows in the order of the table, as a scan at the origin found them.  Then the next one stands
 * right behind the one before, here too, and is found without the index, which takes half of the
 * time of a DELETE.
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
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "apply.h"
#include "applyimage.h"
#include "capture.h"
#include "compat.h"
#include "directplan.h"
#include "lockconflict.h"
#include "points.h"
#include "rights.h"

/* ---------- a row */

/* What rows need while they are changed, to be given back if nothing goes wrong. */
typedef struct Change
{
	const DirectPlan *plan;
	MemoryContext context;		/* what is needed for one row only */
	const Datum *values;		/* of the parameters, or their elements for
								 * the row */
	const bool *nulls;
	Relation	rel;
	TupleTableSlot *row;		/* the new one; not for DELETE */
	TupleTableSlot *old;		/* not for INSERT */
	Relation	index;			/* that finds it */
	IndexScanDesc scan;
	FmgrInfo	equals[MAX_KEYS];	/* for a row found without it */
	BlockNumber nblocks;		/* of the table, in the beginning; 0: not
								 * without the index */
	ItemPointerData last;		/* where the row before was; not valid: it is
								 * the first */
	bool		in_order;		/* and that stood right behind the one before
								 * it */
	int			nindexes;		/* of the table, for INSERT and UPDATE */
	Relation   *indexes;
	IndexInfo **infos;
} Change;

static Datum
evaluate(const Change *c, const DirectValue *v, bool *null)
{
	Datum		value = v->param > 0 ? c->values[v->param - 1] : v->constant;

	*null = v->param > 0 ? c->nulls[v->param - 1] : v->null;
	if (*null || v->ncastargs == 0)
		return value;
	if (v->ncastargs == 1)
		return FunctionCall1Coll((FmgrInfo *) &v->cast, v->collation, value);
	if (v->ncastargs == 2)
		return FunctionCall2Coll((FmgrInfo *) &v->cast, v->collation, value, v->castargs[1]);
	return FunctionCall3Coll((FmgrInfo *) &v->cast, v->collation, value, v->castargs[1], v->castargs[2]);
}

/* The values that the row is found by; false: one is null. */
static bool
find_key_values(const Change *c, Datum *values)
{
	for (int i = 0; i < c->plan->nkeys; i++)
	{
		bool		null;

		values[i] = evaluate(c, &c->plan->keys[i].value, &null);
		if (null)
			return false;
	}
	return true;
}

static bool
has_key(const Change *c, const Datum *values)
{
	for (int i = 0; i < c->plan->nkeys; i++)
	{
		const DirectKey *k = &c->plan->keys[i];
		AttrNumber	attnum = c->index->rd_index->indkey.values[k->attno - 1];
		bool		null;
		Datum		value = slot_getattr(c->old, attnum, &null);

		if (null || !DatumGetBool(FunctionCall2Coll((FmgrInfo *) &c->equals[i], k->collation, value, values[i])))
			return false;
	}
	return true;
}

/* A row of that key which the snapshot sees is the one that the unique index would find. */
static bool
is_at(Change *c, BlockNumber block, OffsetNumber offset, const Datum *values)
{
	return block < c->nblocks && applyimage_fetch(c->rel, block, offset, c->old) && has_key(c, values);
}

static bool
is_behind_the_last(Change *c, const Datum *values)
{
	BlockNumber block = ItemPointerGetBlockNumber(&c->last);
	OffsetNumber offset = ItemPointerGetOffsetNumber(&c->last);

	return is_at(c, block, offset + 1, values) || is_at(c, block + 1, FirstOffsetNumber, values);
}

static bool
is_behind(const ItemPointerData *a, const ItemPointerData *b)
{
	BlockNumber block = ItemPointerGetBlockNumber(b);
	OffsetNumber offset = ItemPointerGetOffsetNumber(b);

	return (ItemPointerGetBlockNumber(a) == block && ItemPointerGetOffsetNumber(a) == offset + 1) ||
		(ItemPointerGetBlockNumber(a) == block + 1 && ItemPointerGetOffsetNumber(a) == FirstOffsetNumber);
}

static bool
find_by_image(Change *c)
{
	AttrNumber	attnums[MaxHeapAttributeNumber];
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber];
	RowImage	image = {c->plan->nimage, attnums, values, nulls};

	for (int i = 0; i < image.n; i++)
	{
		attnums[i] = c->plan->image[i].attno;
		values[i] = evaluate(c, &c->plan->image[i].value, &nulls[i]);
	}
	return applyimage_find(c->rel, &image, c->old);
}

static bool
find_by_index(Change *c, const Datum *values)
{
	ScanKeyData keys[MAX_KEYS];
	MemoryContext old = MemoryContextSwitchTo(c->context);

	for (int i = 0; i < c->plan->nkeys; i++)
	{
		const DirectKey *k = &c->plan->keys[i];

		ScanKeyEntryInitialize(&keys[i], 0, k->attno, k->strategy, k->subtype, k->collation, k->function, values[i]);
	}
	MemoryContextSwitchTo(old);
	index_rescan(c->scan, keys, c->plan->nkeys, NULL, 0);
	return index_getnext_slot(c->scan, ForwardScanDirection, c->old) && !c->scan->xs_recheck;
}

/* The row, with its page pinned until the next one is looked for. */
static bool
find_row(Change *c)
{
	Datum		values[MAX_KEYS];
	MemoryContext old = MemoryContextSwitchTo(c->context);
	bool		by_image = c->plan->nimage > 0;
	bool		found = by_image ? find_by_image(c) : find_key_values(c, values);

	if (found && c->in_order)
		c->in_order = is_behind_the_last(c, values);
	MemoryContextSwitchTo(old);
	if (!found || by_image)
		return found;
	if (!c->in_order)
	{
		if (!find_by_index(c, values))
			return false;
		c->in_order = ItemPointerIsValid(&c->last) && is_behind(&c->old->tts_tid, &c->last);
	}
	c->last = c->old->tts_tid;
	return true;
}

/* false: a null where the table has none */
static bool
make_row(Change *c)
{
	TupleDesc	desc = RelationGetDescr(c->rel);

	ExecClearTuple(c->row);
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
		const DirectColumn *column = &c->plan->columns[i];

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

/* The table's; false: one of them is for the executor. */
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
			if (ls_table_tuple_update(c->rel, &c->old->tts_tid, c->row, command, GetActiveSnapshot(), InvalidSnapshot,
									  true, &failure, &lockmode, &update) != TM_Ok)
				return false;
			if (update)
				insert_index_entries(c, ls_updates_summarizing_only(update));
			return true;
		case CMD_DELETE:
			return ls_table_tuple_delete(c->rel, &c->old->tts_tid, command, GetActiveSnapshot(), InvalidSnapshot,
										 true, &failure) == TM_Ok;
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

/* Operators that are not built in are for their index alone. */
static void
prepare_order(Change *c)
{
	for (int i = 0; i < c->plan->nkeys; i++)
	{
		if (c->plan->keys[i].function >= FirstNormalObjectId)
			return;
		fmgr_info(c->plan->keys[i].function, &c->equals[i]);
	}
	c->nblocks = RelationGetNumberOfBlocks(c->rel);
}

static int
count_columns(TupleDesc desc)
{
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
		n += !TupleDescAttr(desc, i)->attisdropped;
	return n;
}

/* What all rows have in common. */
static bool
begin(Change *c)
{
	const DirectPlan *d = c->plan;

	if (d->operation != CMD_INSERT)
		c->old = table_slot_create(c->rel, NULL);
	if (d->nimage > 0 && d->nimage != count_columns(RelationGetDescr(c->rel)))
		return false;
	if (d->operation != CMD_INSERT && d->nimage == 0)
	{
		c->index = index_open(d->indexid, RowExclusiveLock);
		c->scan = ls_index_beginscan(c->rel, c->index, GetActiveSnapshot(), d->nkeys);
		if (d->narrays > 0)
			prepare_order(c);
	}
	if (d->operation == CMD_DELETE)
		return true;
	if (d->operation == CMD_INSERT && d->ncolumns != RelationGetDescr(c->rel)->natts)
		return false;
	c->row = MakeSingleTupleTableSlot(RelationGetDescr(c->rel), &TTSOpsVirtual);
	return open_indexes(c);
}

static bool
change_row(Change *c)
{
	CmdType		operation = c->plan->operation;
	MemoryContext old;
	bool		changed;

	if (operation != CMD_INSERT && !find_row(c))
		return false;
	old = MemoryContextSwitchTo(c->context);
	changed = (operation == CMD_DELETE || make_row(c)) && change_table(c);
	MemoryContextSwitchTo(old);
	return changed;
}

/* ---------- a run of rows */

/* Arrays with an element of each for a row, or parameters of one row, which are elements of their own. */
typedef struct Rows
{
	int			n;
	int			ncolumns;
	Datum	  **values;			/* by column, and row */
	bool	  **nulls;
} Rows;

static void
read_row(Rows *rows, int nparams, Datum *values, const char *nulls)
{
	bool	   *is_null = palloc(Max(nparams, 1) * sizeof(bool));

	rows->n = 1;
	rows->ncolumns = nparams;
	rows->values = palloc(Max(nparams, 1) * sizeof(Datum *));
	rows->nulls = palloc(Max(nparams, 1) * sizeof(bool *));
	for (int i = 0; i < nparams; i++)
	{
		is_null[i] = nulls[i] == 'n';
		rows->values[i] = &values[i];
		rows->nulls[i] = &is_null[i];
	}
}

/* false: they are not of one length */
static bool
read_arrays(Rows *rows, int narrays, const Datum *values, const char *nulls)
{
	rows->ncolumns = narrays;
	rows->values = palloc(narrays * sizeof(Datum *));
	rows->nulls = palloc(narrays * sizeof(bool *));
	for (int i = 0; i < narrays; i++)
	{
		ArrayType  *array = nulls[i] == 'n' ? NULL : DatumGetArrayTypeP(values[i]);
		int16		len;
		bool		byval;
		char		align;
		int			n;

		if (array == NULL || ARR_NDIM(array) > 1)
			return false;
		get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
		deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &rows->values[i], &rows->nulls[i], &n);
		if (i > 0 && n != rows->n)
			return false;
		rows->n = n;
	}
	return true;
}

/* The arrays without what has been done. */
static void
keep_rest(const Rows *rows, int done, Datum *values)
{
	int			dims[1] = {rows->n - done};
	int			bounds[1] = {1};

	for (int i = 0; i < rows->ncolumns; i++)
	{
		Oid			type = ARR_ELEMTYPE(DatumGetArrayTypeP(values[i]));
		int16		len;
		bool		byval;
		char		align;

		get_typlenbyvalalign(type, &len, &byval, &align);
		values[i] = PointerGetDatum(construct_md_array(rows->values[i] + done, rows->nulls[i] + done, 1, dims, bounds,
													   type, len, byval, align));
	}
}

/* How many of them have been changed, the first ones. */
static int
change_until_one_cannot(Change *c, const Rows *rows)
{
	MemoryContext outside = CurrentMemoryContext;
	Datum	   *values = palloc(Max(rows->ncolumns, 1) * sizeof(Datum));
	bool	   *nulls = palloc(Max(rows->ncolumns, 1) * sizeof(bool));
	int			done;

	c->values = values;
	c->nulls = nulls;
	c->context = rows->n > 1 ? AllocSetContextCreate(outside, "lockstep row of a run", ALLOCSET_DEFAULT_SIZES) : outside;
	for (done = 0; done < rows->n; done++)
	{
		for (int i = 0; i < rows->ncolumns; i++)
		{
			values[i] = rows->values[i][done];
			nulls[i] = rows->nulls[i][done];
		}
		if (!change_row(c))
			break;
		if (rows->n == 1)
			continue;
		MemoryContextReset(c->context);
		CHECK_FOR_INTERRUPTS();
	}
	return done;
}

static int
change(const DirectPlan *d, const Rows *rows)
{
	Change		c = {.plan = d,.rel = table_open(d->relid, NoLock)};
	Oid			user;
	LsRights	saved;
	int			done = 0;

	if (is_ordinary_table(c.rel))
	{
		applyunproven_before_rows(c.rel);	/* may have to wait */
		CheckCmdReplicaIdentity(c.rel, d->operation);
		user = rights_for_rows(c.rel->rd_rel->relowner);
		if (OidIsValid(user))
			rights_lower(user, true, &saved);
		PushActiveSnapshot(GetTransactionSnapshot());
		LS_POINT(APPLY_EXECUTING);
		heap_begin_deletes(d->for_good);
		if (begin(&c))
			done = change_until_one_cannot(&c, rows);
		PopActiveSnapshot();
		if (OidIsValid(user))
			rights_restore(&saved);
	}
	close_all(&c);
	return done;
}

/* How many rows have been changed; *all: there is nothing left for the executor. */
static int
change_directly(const DirectPlan *d, int nparams, Datum *values, const char *nulls, bool *all)
{
	Rows		rows = {0};
	int			done;

	if (!d->possible)
		return 0;
	if (d->narrays == 0)
		read_row(&rows, nparams, values, nulls);
	else if (!read_arrays(&rows, d->narrays, values, nulls))
		return 0;
	done = change(d, &rows);
	*all = done == rows.n;
	if (done > 0)
		CommandCounterIncrement();
	if (done > 0 && !*all)
		keep_rest(&rows, done, values);
	return done;
}

/*
 * Change rows by the plan, for which *direct is kept in context, without the executor. Returns how many; *all says
 * whether these are all.  If not, the plan is to be executed with what values are then.
 */
uint64
applydirect_change(DirectPlan **direct, SPIPlanPtr plan, int nparams, Datum *values, const char *nulls,
				   MemoryContext context, bool *all)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	CachedPlan *cached;
	int			done;

	*all = false;
	if ((*direct != NULL && !(*direct)->possible && (*direct)->generation == source->generation) || querysettings_are_set())
		return 0;
	lockconflict_before_query();
	cached = SPI_plan_get_cached_plan(plan);
	if (cached == NULL)
		return 0;
	if (*direct == NULL || (*direct)->generation != cached->generation)
	{
		if (*direct != NULL)
			pfree(*direct);
		*direct = NULL;
		*direct = directplan_make(cached, source->query_string, nparams, context);
	}
	done = change_directly(*direct, nparams, values, nulls, all);
	ReleaseCachedPlan(cached, CurrentResourceOwner);
	return done;
}
