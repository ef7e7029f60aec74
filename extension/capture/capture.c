/*
 * capture.c
 *	  The rows that the transaction has changed, in order.
 *
 * heap.c calls this file after each successful change.  The change becomes a query in row form
 * with its keys, and goes to the transaction's queue (xact_forward).  The last
 * ones are held back, because the next change may be of the same kind in the same relation: a
 * run of inserts travels as COPY, a run of updates or deletes as one query (batch.c).  At
 * most one run is pending; capture_flush() must come before anything else is forwarded, so that the
 * queue has the order of the effects.
 *
 * The old image of an updated or deleted row is what its scan has, or is fetched from the heap by its TID
 * (oldrow.c): it cannot be pruned while our transaction runs.
 *
 * row_context holds all that is made for one row, and is reset for the next; the buffers are
 * kept unless they have grown large.  Making the text and keys of a row calls functions of
 * types and of index expressions.  These must not change data, because their change would
 * come in the middle of the outer one.  They may use subtransactions, which concern
 * nothing of what is pending.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "batch.h"
#include "capture.h"
#include "certainrows.h"
#include "compat.h"
#include "deparse.h"
#include "guc.h"
#include "keyset.h"
#include "lockstep.h"
#include "newestscan.h"
#include "pack.h"
#include "relation.h"
#include "sessionsettings.h"
#include "xact.h"
#include "xact_state.h"

/* A run ends when its data or its keys have grown beyond this. */
#define RUN_DATA_LIMIT (64 * 1024)
#define RUN_KEYS_LIMIT (256 * 1024)

/* Buffers beyond this are given back after use. */
#define BUFFER_KEPT (1024 * 1024)

static MemoryContext buffer_context = NULL;
static MemoryContext row_context = NULL;

static StringInfoData params;	/* of the query being made */
static StringInfoData image;	/* of a row, when params don't hold it */

/* What the row's functions depend on; not in buffer_context. */
static StringInfoData settings = {NULL};

/*
 * The pending run.  Of one row its parameters are kept, of more the lines of
 * COPY.  Texts are copies: the relation's entry may be rebuilt.
 */
typedef struct PendingRun
{
	int64		nrows;			/* 0: none */
	Oid			relid;
	uint64		build;			/* of the relation's entry */
	bool		reads_settings; /* else COPY does, only */
	uint32		nparams;
	StringInfoData insert_text;
	StringInfoData copy_text;
	StringInfoData settings;
	StringInfoData params;
	StringInfoData data;		/* COPY's, behind LS_PARAM_HEAD bytes */
	LsKeyBuffer keys;
} PendingRun;

static PendingRun run;

static bool capturing = false;
static uint64 rows_seen = 0;
static bool rows_locked = false;

uint64
capture_rows_seen(void)
{
	return rows_seen;
}

bool
capture_rows_were_locked(void)
{
	return rows_locked;
}

void
capture_row_locked(Relation rel)
{
	rows_locked = true;
}

bool
capture_is_busy(void)
{
	return capturing;
}

/* ---------- buffers */

static void
make_buffers(void)
{
	MemoryContext old;

	if (buffer_context == NULL)
		buffer_context = AllocSetContextCreate(TopMemoryContext, "lockstep capture",
											   ALLOCSET_DEFAULT_SIZES);
	row_context = AllocSetContextCreate(buffer_context, "lockstep captured row",
										ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(buffer_context);
	initStringInfo(&params);
	initStringInfo(&image);
	initStringInfo(&run.insert_text);
	initStringInfo(&run.copy_text);
	initStringInfo(&run.settings);
	initStringInfo(&run.params);
	initStringInfo(&run.data);
	initStringInfo(&run.keys.packed);
	run.nrows = 0;
	MemoryContextSwitchTo(old);
}

/* With nothing pending: give large buffers back. */
static void
trim_buffers(void)
{
	if (params.maxlen <= BUFFER_KEPT && image.maxlen <= BUFFER_KEPT &&
		run.params.maxlen <= BUFFER_KEPT &&
		run.data.maxlen <= BUFFER_KEPT && run.keys.packed.maxlen <= BUFFER_KEPT)
		return;
	MemoryContextReset(buffer_context);
	row_context = NULL;
}

/* ---------- the pending run */

void
capture_discard(void)
{
	run.nrows = 0;
	batch_discard();
}

/* A row is being made into a query, by functions of users, which must not forward anything. */
static void
refuse_in_the_middle(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot execute a command that is replicated in a function that is called for the index or output of a row being replicated"),
			 errdetail("Functions of index expressions and of data types must not change data.")));
}

static pg_noinline void
forward_inserts(void)
{
	LsQuery		query;

	memset(&query, 0, sizeof(query));
	query.rows = run.nrows;
	if (run.nrows == 1)
	{
		query.form = LS_FORM_ROW;
		query.reason = LS_REASON_ROW_CHANGED;
		query.text = ls_slice_of_buffer(&run.insert_text);
		query.nparams = run.nparams;
		query.params = ls_slice_of_buffer(&run.params);
		if (run.reads_settings)
			query.settings = ls_slice_of_buffer(&run.settings);
	}
	else
	{
		ls_put_param_head((uint8_t *) run.data.data, (uint32) (run.data.len - LS_PARAM_HEAD));
		query.form = LS_FORM_COPY;
		query.reason = LS_REASON_ROW_RUN;
		query.text = ls_slice_of_buffer(&run.copy_text);
		query.nparams = 1;
		query.params = ls_slice_of_buffer(&run.data);
		query.settings = ls_slice_of_buffer(&run.settings);
	}
	query.nkeys = run.keys.nkeys;
	query.keys = ls_slice_of_buffer(&run.keys.packed);

	run.nrows = 0;				/* an error must not forward it twice */
	xact_forward(&query);
	trim_buffers();
}

static inline void
flush_inserts(void)
{
	if (run.nrows > 0)
		forward_inserts();
}

void
capture_flush(void)
{
	if (unlikely(capturing))
		refuse_in_the_middle();
	flush_inserts();
	batch_flush();
}

static void
start_run(LsRelation *r)
{
	run.relid = r->relid;
	run.build = r->build;
	run.reads_settings = r->reads_settings;
	resetStringInfo(&run.insert_text);
	appendStringInfoString(&run.insert_text, deparse_insert(r));
	resetStringInfo(&run.copy_text);
	appendStringInfoString(&run.copy_text, deparse_copy(r));
	resetStringInfo(&run.settings);
	appendBinaryStringInfo(&run.settings, settings.data, settings.len);
	resetStringInfo(&run.params);
	resetStringInfo(&run.data);
	keyset_begin(&run.keys);
}

/* COPY would fire triggers that the apply session keeps from firing otherwise. */
static bool
run_may_grow(const LsRelation *r)
{
	return r->nsettable > 0 && !r->has_replica_trigger && !r->in_binary &&
		run.data.len <= RUN_DATA_LIMIT && run.params.len <= RUN_DATA_LIMIT &&
		run.keys.packed.len <= RUN_KEYS_LIMIT;
}

static bool
continues_run(const LsRelation *r)
{
	return run.nrows > 0 && run.relid == r->relid && run.build == r->build &&
		run.settings.len == settings.len && memcmp(run.settings.data, settings.data, settings.len) == 0;
}

static void
forward_empty_copy(Relation rel)
{
	LsQuery		query = {.form = LS_FORM_COPY,.reason = LS_REASON_ROW_RUN};
	LsKey		key = keyset_relation_key(rel, LS_TABLE_X);
	StringInfoData packed;
	StringInfoData data;

	capture_flush();
	initStringInfo(&packed);
	initStringInfo(&data);
	pack_key(&packed, &key);
	pack_param(&data, "", 0);
	query.text = ls_slice_of(deparse_copy(relation_get(rel)));
	query.nparams = 1;
	query.params = ls_slice_of_buffer(&data);
	query.nkeys = 1;
	query.keys = ls_slice_of_buffer(&packed);
	xact_forward(&query);
}

/* ---------- one change */

/* The image as it was.  The values point into the page: until oldrow_release(). */
static void
get_old(Relation rel, LsRelation *r, ItemPointer tid, OldRow *row)
{
	oldrow_get(rel, tid, row);
	heap_deform_tuple(row->tuple, r->desc, r->old_values, r->old_nulls);
}

/* The same, for a row that is deleted: what is not needed is left as it is. */
static void
get_deleted(Relation rel, LsRelation *r, ItemPointer tid, OldRow *row)
{
	if (r->nkey_columns == 0)
	{
		get_old(rel, r, tid, row);
		return;
	}
	oldrow_get(rel, tid, row);
	for (int i = 0; i < r->nkey_columns; i++)
	{
		AttrNumber	attnum = r->key_columns[i];

		r->old_values[attnum - 1] = heap_getattr(row->tuple, attnum, r->desc, &r->old_nulls[attnum - 1]);
	}
}

/*
 * Differs, as far as can be told without fetching toasted values: one that is
 * carried over from the old row is the same pointer.
 */
static bool
value_differs(const LsColumn *column, Datum a, Datum b)
{
	if (column->byval)
		return a != b;
	if (column->len == -1)
	{
		struct varlena *x = (struct varlena *) DatumGetPointer(a);
		struct varlena *y = (struct varlena *) DatumGetPointer(b);

		if (VARSIZE_ANY(x) == VARSIZE_ANY(y) && memcmp(x, y, VARSIZE_ANY(x)) == 0)
			return false;
		if (VARATT_IS_EXTERNAL(x) || VARATT_IS_EXTERNAL(y))
			return true;
	}
	return !datum_image_eq(a, b, column->byval, column->len);
}

static void
find_changed(LsRelation *r, const Datum *values, const bool *nulls)
{
	int			i;

	memset(r->changed.words, 0, r->changed.nwords * sizeof(uint64));
	for (i = 0; i < r->natts; i++)
	{
		if (!r->columns[i].live)
			continue;
		if (nulls[i] != r->old_nulls[i] ||
			(!nulls[i] && value_differs(&r->columns[i], values[i], r->old_values[i])))
			column_set_add(&r->changed, i + 1);
	}
}

static bool
may_be_assigned(const LsColumn *column)
{
	return column->live && !column->generated && !column->always_identity;
}

/* One generated column that is given its value says that none is to be computed. */
static void
assign_a_computed_column(LsRelation *r)
{
	LsColumnSet *set = &r->assigned;
	int			first = -1;
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (r->columns[i].computed && column_set_has(set, i + 1))
			return;
		if (r->columns[i].computed && first < 0)
			first = i;
	}
	column_set_add(set, first + 1);
}

/* The columns that the changed generated ones are made from, as far as an UPDATE may name them; false: none. */
static bool
assign_sources(LsRelation *r)
{
	bool		any = false;

	for (int i = 0; i < r->natts; i++)
	{
		if (!column_set_has(&r->generated_from, i + 1) || !may_be_assigned(&r->columns[i]))
			continue;
		column_set_add(&r->assigned, i + 1);
		any = true;
	}
	return any;
}

static bool
generated_changed(const LsRelation *r)
{
	for (int i = 0; r->has_generated && i < r->natts; i++)
	{
		if (r->columns[i].generated && column_set_has(&r->changed, i + 1))
			return true;
	}
	return false;
}

/* Something has to be: a column of the identity, or another one.  false: none may be. */
static bool
assign_any(LsRelation *r)
{
	if (r->nidentity > 0 && may_be_assigned(&r->columns[r->identity[0].attnum - 1]))
	{
		column_set_add(&r->assigned, r->identity[0].attnum);
		return true;
	}
	for (int i = 0; i < r->natts; i++)
	{
		if (may_be_assigned(&r->columns[i]))
		{
			column_set_add(&r->assigned, i + 1);
			return true;
		}
	}
	return false;
}

/*
 * What changed.  A generated column is not assigned, but the other nodes have
 * to compute it again, and do so when a column that it is made from is.  If its
 * value travels it is assigned as any other.  An update that changes nothing is
 * forwarded all the same, as it counts as a change of the row: it sets a column
 * to what it is.  false: no UPDATE can say it.
 */
static bool
choose_assigned(LsRelation *r)
{
	LsColumnSet *set = &r->assigned;

	memcpy(set->words, r->changed.words, set->nwords * sizeof(uint64));
	if (generated_changed(r) && !assign_sources(r))
		return false;
	if (r->has_computed && column_sets_overlap(set, &r->generated_from))
		assign_a_computed_column(r);
	for (int i = 0; i < r->natts; i++)
	{
		if (!r->columns[i].generated && column_set_has(set, i + 1))
			return true;
	}
	return assign_any(r);
}

static LsSlice
make_image(LsRelation *r, const Datum *values, const bool *nulls)
{
	resetStringInfo(&image);
	deparse_image(r, values, nulls, &image);
	return ls_slice_of_buffer(&image);
}

/* The params from at on, unless they are not the same on all nodes. */
static LsSlice
image_in_params(LsRelation *r, const StringInfo from, int at, const Datum *values, const bool *nulls)
{
	StringInfoData texts;

	if (likely(!r->in_binary))
		return make_slice(from->data + at, from->len - at);
	initStringInfo(&texts);		/* in row_context */
	deparse_image(r, values, nulls, &texts);
	return ls_slice_of_buffer(&texts);
}

static void
make_insert(LsRelation *r, TupleTableSlot *slot)
{
	LsRowChange change = {.relation = r};
	bool		packed = run.nrows == 0 || r->nidentity == 0 || r->may_be_inexact;
	StringInfo	out = run.nrows == 0 ? &run.params : &params;

	slot_getallattrs(slot);
	change.new_values = slot->tts_values;
	change.new_nulls = slot->tts_isnull;
	if (run.nrows == 0)
		start_run(r);
	else
		resetStringInfo(&params);
	if (packed)
		run.nparams = deparse_settable(r, slot->tts_values, slot->tts_isnull, out);
	if (unlikely(r->renew))
		return;
	if (r->nidentity == 0)
		change.new_image = r->has_generated ?
			make_image(r, slot->tts_values, slot->tts_isnull) :
			image_in_params(r, out, 0, slot->tts_values, slot->tts_isnull);
	keyset_add(&run.keys, &change);

	if (run.nrows == 1)
	{
		LsSlice		first = ls_slice_of_buffer(&run.params);

		run.data.len = LS_PARAM_HEAD;	/* written when it is known */
		deparse_copy_line(&first, &run.data);
	}
	if (run.nrows >= 1 && packed)
	{
		LsSlice		next = ls_slice_of_buffer(out);

		deparse_copy_line(&next, &run.data);
	}
	else if (run.nrows >= 1)
		deparse_copy_row(r, slot->tts_values, slot->tts_isnull, &run.data);
	run.nrows++;
}

/* No UPDATE may assign it; a BEFORE trigger may. */
static bool
always_identity_changed(const LsRelation *r)
{
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (r->columns[i].always_identity && column_set_has(&r->changed, i + 1))
			return true;
	}
	return false;
}

/* Does the order of this change and others of the table matter? */
static bool
moves_key(const LsRelation *r)
{
	int			i;

	for (i = 0; i < r->nindexes; i++)
	{
		if (column_sets_overlap(&r->indexes[i].depends_on, &r->changed))
			return true;
	}
	return false;
}

/* For batch.c: of the old row, not 0. */
static uint64
row_identity(LsRelation *r)
{
	uint64		hash = r->old_identity;

	if (!r->old_identity_known && !keyset_identity_hash(r, r->old_values, r->old_nulls, &hash))
		return 0;
	return hash != 0 ? hash : 1;
}

/* False: there is no such UPDATE. */
static bool
make_update(Relation rel, LsRelation *r, ItemPointer tid, TupleTableSlot *slot, LsBatchQuery *query)
{
	LsRowChange change = {.relation = r};
	OldRow		old;
	int			image_at;

	slot_getallattrs(slot);
	get_old(rel, r, tid, &old);
	find_changed(r, slot->tts_values, slot->tts_isnull);
	if (always_identity_changed(r) || !choose_assigned(r))
	{
		oldrow_release(&old);
		return false;
	}
	change.old_values = r->old_values;
	change.old_nulls = r->old_nulls;
	change.new_values = slot->tts_values;
	change.new_nulls = slot->tts_isnull;
	change.changed = &r->changed;

	query->text = ls_slice_of(deparse_update(r, &r->assigned));
	query->nparams = deparse_assigned(r, &r->assigned, slot->tts_values, slot->tts_isnull, query->params);
	image_at = query->params->len;
	query->nparams += deparse_identity(r, r->old_values, r->old_nulls, query->params);
	if (unlikely(r->renew))
	{
		oldrow_release(&old);
		return true;
	}
	if (r->nidentity == 0)
	{
		change.old_image = image_in_params(r, query->params, image_at, r->old_values, r->old_nulls);
		change.new_image = make_image(r, slot->tts_values, slot->tts_isnull);
	}
	keyset_add(query->keys, &change);
	if (r->batches && !moves_key(r))
		query->identity = row_identity(r);
	oldrow_release(&old);
	return true;
}

static void
make_delete(Relation rel, LsRelation *r, ItemPointer tid, bool for_good, LsBatchQuery *query)
{
	LsRowChange change = {.relation = r};
	int			image_at = query->params->len;
	OldRow		old;

	get_deleted(rel, r, tid, &old);
	change.old_values = r->old_values;
	change.old_nulls = r->old_nulls;
	query->text = deparse_delete(r, for_good && rel->rd_rel->relispartition);
	query->nparams = deparse_identity(r, r->old_values, r->old_nulls, query->params);
	if (unlikely(r->renew))
	{
		oldrow_release(&old);
		return;
	}
	if (r->nidentity == 0)
		change.old_image = image_in_params(r, query->params, image_at, r->old_values, r->old_nulls);
	keyset_add(query->keys, &change);
	if (r->batches)
		query->identity = row_identity(r);
	oldrow_release(&old);
}

static void
refuse_nested(const Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change table \"%s\" in a function that is called for the index or output of a row being replicated",
					RelationGetRelationName(rel)),
			 errdetail("Functions of index expressions and of data types must not change data.")));
}

static void
find_settings(const LsRelation *r, Relation rel, bool may_copy)
{
	MemoryContext old;

	if (settings.data == NULL)
	{
		old = MemoryContextSwitchTo(TopMemoryContext);
		initStringInfo(&settings);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(&settings);
	if (!r->reads_settings && !(may_copy && r->copy_checks))
		return;
	old = MemoryContextSwitchTo(row_context);
	sessionsettings_append_row_path(&settings, rel->rd_rel->relowner);
	sessionsettings_append_row(&settings);
	MemoryContextSwitchTo(old);
	MemoryContextReset(row_context);
}

/* tid: of the old version, or NULL.  slot: the new version, or NULL; then, for_good: it does not come back elsewhere. */
static void
capture_row(Relation rel, ItemPointer tid, TupleTableSlot *slot, bool for_good)
{
	LsBatchQuery query;
	LsTextSettings text_settings;
	MemoryContext old;
	LsRelation *r;
	bool		in_two = false;

	if (capturing)
		refuse_nested(rel);
	xact_writes();
	rows_seen++;
	r = relation_get(rel);
	r->in_texts = false;
	if (unlikely(r->renew))		/* an error came in between */
		deparse_renew(r);
	if (r->computes || r->unproven)
		xact_may_fail_elsewhere();
	if (!ls_xact.may_be_refused &&
		(ls_commit_wait != LS_COMMIT_CERTIFIED || !certainrows_has(r, rel, tid == NULL, slot)))
		xact_may_be_refused();
	if (row_context == NULL)
		make_buffers();
	find_settings(r, rel, tid == NULL);
	if (tid != NULL || !continues_run(r))
		flush_inserts();
	if (tid == NULL)
		batch_flush();
	else
		batch_begin(r, ls_slice_of_buffer(&settings), &query);
	if (row_context == NULL)
		make_buffers();			/* flushing has given them back */

	old = MemoryContextSwitchTo(row_context);
	deparse_enter(r, &text_settings);
	capturing = true;
	relation_hold(r);
	PG_TRY();
	{
		if (tid == NULL)
			make_insert(r, slot);
		else if (slot != NULL)
			in_two = !make_update(rel, r, tid, slot, &query);
		else
			make_delete(rel, r, tid, for_good, &query);
	}
	PG_FINALLY();
	{
		capturing = false;
		relation_let_go(r);
		deparse_leave(&text_settings);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	MemoryContextReset(row_context);

	if (unlikely(r->renew))
	{
		deparse_renew(r);
		capture_flush();
		rows_seen--;
		capture_row(rel, tid, slot, for_good);
		return;
	}
	if (in_two)
	{
		/* no trigger fires and no foreign key is checked where it is applied */
		capture_row(rel, tid, NULL, false);
		capture_row(rel, NULL, slot, false);
		return;
	}
	if (tid == NULL)
	{
		if (!run_may_grow(r))
			flush_inserts();
		return;
	}
	batch_add(r, slot == NULL ? NULL : &r->assigned, &query);
	trim_buffers();
}

void
capture_insert(Relation rel, TupleTableSlot *slot)
{
	capture_row(rel, NULL, slot, false);
}

void
capture_update(Relation rel, ItemPointer otid, TupleTableSlot *slot)
{
	capture_row(rel, otid, slot, false);
}

void
capture_delete(Relation rel, ItemPointer tid, bool moves)
{
	capture_row(rel, tid, NULL, !moves);
}

/*
 * What is there now, for the other nodes, which have been told to have nothing.
 * A materialized view gets at least an empty COPY, which makes it populated.
 */
void
capture_table(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	NewestScan	scan = newestscan_begin(rel);
	TupleTableSlot *slot;
	int64		n = 0;
	Oid			user;
	int			context;

	/*
	 * keys are made by the owner's functions, as when the command made the
	 * rows
	 */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(rel->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	while ((slot = newestscan_next(&scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		capture_insert(rel, slot);
		n++;
	}
	/* after an error the end of the (sub)transaction does this */
	SetUserIdAndSecContext(user, context);
	newestscan_end(&scan);
	if (n == 0 && rel->rd_rel->relkind == RELKIND_MATVIEW)
		forward_empty_copy(rel);
	table_close(rel, AccessShareLock);
}

/* Without rows it becomes populated on the other nodes nevertheless. */
void
capture_new_matview(Oid relid, bool inserted)
{
	if (!inserted || !relation_has_rows(relid))
		capture_table(relid);
}

/* ---------- the end of a transaction */

void
capture_at_xact_end(void)
{
	capture_discard();
	rows_seen = 0;
	rows_locked = false;
}
