/*
 * keyset.c
 *	  Changed rows -> 64-bit keys.
 *
 * For every changed row:
 *	 - each unique index that the row is in: exclusive for an insert or delete,
 *	   and for both values of an update that touches the index;
 *	 - the identity index of an update that does not touch it: "updated", so
 *	   that two updates of one row meet, and none meets a foreign key's share;
 *	 - each exclusion constraint: exclusive, of the columns compared by equality;
 *	 - each foreign key's parent, if the reference is new: shared;
 *	 - the image of the row when nothing identifies it: shared when it comes,
 *	   exclusive when it goes.
 * For every relation, once in a transaction: IX on it, on its partition
 * ancestors and on the database, IS on the parents of its foreign keys.  When
 * a value has no usable hash, or a transaction has changed more than
 * lockstep.max_row_keys rows of a relation: X on it and its ancestors (a
 * foreign key of others is known by the root) and S on the parents instead.
 *
 * Each key's S is the turn passed when it is made, which is after the row was
 * changed and before its foreign keys are checked.
 *
 * "Once in a transaction" means that it is still in the queue: what a
 * subtransaction forwarded is forgotten when it aborts.  The epoch changes at
 * every such point and at the transaction's end; what carries an older epoch
 * has to be looked at again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "deparse.h"
#include "guc.h"
#include "keyhash.h"
#include "keyset.h"
#include "lockstep.h"
#include "losses.h"
#include "pack.h"
#include "qualifiedname.h"
#include "relation.h"
#include "turn.h"

typedef struct ForwardedKey
{
	uint64		hash;
	LsKeyMode	mode;
	int			nest_level;
} ForwardedKey;

/* Table keys in the queue.  In TopMemoryContext, kept for the next transaction. */
static ForwardedKey *forwarded = NULL;
static int	nforwarded = 0;
static int	forwarded_size = 0;

static uint64 epoch = 1;
static uint64 transaction = 1;
static uint64 batches = 0;

/* For index expressions and predicates. */
static EState *estate = NULL;
static uint64 estate_epoch = 0;
static uint64 estate_transaction = 0;

/* ---------- table keys */

LsKey
keyset_table_key(const char *schema, const char *table, LsKeyMode mode)
{
	LsKey		key;

	key.hash = keyhash_seed('T', schema, table, "");
	key.seen = turn_applied();
	key.mode = mode;
	key.name = ls_slice_of(qualified_name(schema, table));
	return key;
}

LsKey
keyset_relation_key(Relation rel, LsKeyMode mode)
{
	return keyset_table_key(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel), mode);
}

/* Made once: its name does not change while a session is connected to it. */
const LsTable *
keyset_database(void)
{
	static LsTable table = {0, NULL};

	if (table.name == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		table.hash = keyhash_seed('D', "", "", "");
		table.name = psprintf("database %s", qualified_name(NULL, get_database_name(MyDatabaseId)));
		MemoryContextSwitchTo(old);
	}
	return &table;
}

LsKey
keyset_database_key(LsKeyMode mode)
{
	const LsTable *table = keyset_database();
	LsKey		key = {table->hash, turn_applied(), mode, ls_slice_of(table->name)};

	return key;
}

LsKey
keyset_names_key(LsKeyMode mode)
{
	LsKey		key = {keyhash_seed('N', "", "", ""), turn_applied(), mode,
	ls_slice_of(psprintf("%s (names)", keyset_database()->name))};

	return key;
}

static void
append_key(LsKeyBuffer *keys, uint64 hash, LsKeyMode mode, LsSlice name)
{
	LsKey		key = {hash, turn_applied(), mode, name};

	pack_key(&keys->packed, &key);
	keys->nkeys++;
}

static bool
is_forwarded(uint64 hash, LsKeyMode mode)
{
	int			i;

	for (i = 0; i < nforwarded; i++)
	{
		if (forwarded[i].hash == hash && forwarded[i].mode == mode)
			return true;
	}
	return false;
}

/* True: it is new in the transaction, and will be in the queue from now on. */
static bool
note_table_key(const LsTable *table, LsKeyMode mode)
{
	ForwardedKey *added;

	if (is_forwarded(table->hash, mode))
		return false;
	if (nforwarded == forwarded_size)
	{
		int			size = Max(64, 2 * forwarded_size);

		forwarded = forwarded == NULL ?
			MemoryContextAlloc(TopMemoryContext, size * sizeof(ForwardedKey)) :
			repalloc(forwarded, size * sizeof(ForwardedKey));
		forwarded_size = size;
	}
	added = &forwarded[nforwarded++];
	added->hash = table->hash;
	added->mode = mode;
	added->nest_level = GetCurrentTransactionNestLevel();
	return true;
}

static void
add_table_key(LsKeyBuffer *keys, const LsTable *table, LsKeyMode mode)
{
	if (!note_table_key(table, mode))
		return;
	append_key(keys, table->hash, mode, ls_slice_of(table->name));
	if (table != keyset_database())
		losses_note_table(table->hash, table->name, mode == LS_TABLE_IX || mode == LS_TABLE_X ? LS_TABLE_X : LS_TABLE_S);
}

static void
add_table_keys(LsKeyBuffer *keys, LsRelation *r)
{
	int			i;

	if (r->tables_epoch == epoch)
		return;
	add_table_key(keys, keyset_database(), LS_TABLE_IX);
	for (i = 0; i < r->ntables; i++)
		add_table_key(keys, &r->tables[i], LS_TABLE_IX);
	for (i = 0; i < r->nforeign_keys; i++)
	{
		LsForeignKey *fk = &r->foreign_keys[i];

		add_table_key(keys, &fk->parent, fk->hashable ? LS_TABLE_IS : LS_TABLE_S);
	}
	r->tables_epoch = epoch;
}

/* The tables as a whole, instead of keys for rows. */
static void
add_whole_table_keys(LsKeyBuffer *keys, LsRelation *r)
{
	int			i;

	if (r->whole_epoch == epoch)
		return;
	for (i = 0; i < r->ntables; i++)
		add_table_key(keys, &r->tables[i], LS_TABLE_X);
	r->whole_epoch = epoch;
}

static void
add_whole_parent_keys(LsKeyBuffer *keys, LsRelation *r)
{
	int			i;

	if (r->parents_epoch == epoch)
		return;
	for (i = 0; i < r->nforeign_keys; i++)
		add_table_key(keys, &r->foreign_keys[i].parent, LS_TABLE_S);
	r->parents_epoch = epoch;
}

/* Has the transaction changed too many rows of the relation? */
static bool
too_many_rows(LsRelation *r)
{
	if (r->rows_xact != transaction)
	{
		r->rows_xact = transaction;
		r->rows = 0;
	}
	return ++r->rows > (uint64) ls_max_row_keys;
}

/* ---------- large objects */

LsKey
keyset_large_object_key(Oid oid)
{
	static uint64 seed = 0;
	unsigned char bytes[4] = {oid >> 24, oid >> 16, oid >> 8, oid};
	LsKey		key;

	if (seed == 0)
		seed = keyhash_seed('L', "pg_catalog", "pg_largeobject", "");
	key.hash = keyhash_bytes(bytes, sizeof(bytes), seed);
	key.seen = turn_applied();
	key.mode = LS_ROW_EXCLUSIVE;
	key.name = ls_slice_of(psprintf("large object %u", oid));
	return key;
}

/* Those that are not in the queue already, as far as is remembered. */
int
keyset_large_object(Oid oid, LsKey keys[2])
{
	static Oid	last = InvalidOid;
	static uint64 last_epoch = 0;
	int			n = 0;

	if (note_table_key(keyset_database(), LS_TABLE_IX))
		keys[n++] = keyset_database_key(LS_TABLE_IX);
	if (oid != last || last_epoch != epoch)
		keys[n++] = keyset_large_object_key(oid);
	last = oid;
	last_epoch = epoch;
	return n;
}

/* ---------- index expressions and predicates */

/*
 * Executable forms are of no use after the epoch: functions may keep state in
 * them that belongs to the (sub)transaction.  They are freed here and not when
 * the epoch changes, as that may be while one of them is being executed.
 */
static EState *
current_estate(void)
{
	if (estate_epoch != epoch)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		if (estate != NULL && estate_transaction == transaction)
			MemoryContextDelete(estate->es_query_cxt);
		estate = CreateExecutorState();
		estate_epoch = epoch;
		estate_transaction = transaction;
		MemoryContextSwitchTo(old);
	}
	return estate;
}

/* An evaluation context in which the row is the tuple in question. */
static ExprContext *
row_context(EState *state, TupleTableSlot *slot, int natts, Datum *values, bool *nulls)
{
	ExprContext *econtext = GetPerTupleExprContext(state);

	ResetExprContext(econtext);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	return econtext;
}

/* Constant parts are evaluated now, and may change the epoch. */
static void
prepare_expressions(LsIndex *ix, EState *state)
{
	uint64		now = epoch;

	if (ix->prepared_epoch == now)
		return;
	ix->expression_states = ExecPrepareExprList(ix->expressions, state);
	ix->predicate_state = ExecPrepareQual(ix->predicate, state);
	ix->prepared_epoch = now;
}

/* What the index has of the row beside its columns; false: the row is not in it. */
static bool
evaluate_in(EState *state, TupleTableSlot *slot, LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, Datum *results, bool *result_nulls)
{
	ExprContext *econtext;
	ListCell   *lc;
	int			n = 0;

	prepare_expressions(ix, state);
	econtext = row_context(state, slot, r->natts, values, nulls);
	if (!ExecQual(ix->predicate_state, econtext))
		return false;
	foreach(lc, ix->expression_states)
	{
		results[n] = ExecEvalExprSwitchContext(lfirst(lc), econtext, &result_nulls[n]);
		n++;
	}
	return true;
}

/* In an evaluation that is under way, perhaps of the same index, with what goes with the caller's memory. */
static bool
evaluate_within(LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, Datum *results, bool *result_nulls)
{
	LsIndex		own = *ix;

	own.prepared_epoch = 0;
	return evaluate_in(CreateExecutorState(), MakeSingleTupleTableSlot(r->desc, &TTSOpsVirtual), r, &own, values, nulls, results, result_nulls);
}

/* Users' functions are called, and their queries may come here again. */
static bool
evaluate_held(LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, Datum *results, bool *result_nulls)
{
	static int	depth = 0;
	bool		is_in = false;

	relation_hold(r);
	depth++;
	PG_TRY();
	{
		is_in = depth > 1 ? evaluate_within(r, ix, values, nulls, results, result_nulls) :
			evaluate_in(current_estate(), r->slot, r, ix, values, nulls, results, result_nulls);
	}
	PG_FINALLY();
	{
		depth--;
		relation_let_go(r);
	}
	PG_END_TRY();
	return is_in;
}

/* With the session's settings, as the index itself. */
static bool
evaluate(LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, Datum *results, bool *result_nulls)
{
	LsTextSettings *paused = r->reads_settings ? deparse_pause() : NULL;
	bool		is_in = evaluate_held(r, ix, values, nulls, results, result_nulls);

	deparse_go_on(r, paused);
	return is_in;
}

/* computed: what the index has beside columns. */
static bool
hash_columns(LsIndex *ix, Datum *values, bool *nulls, Datum *computed, bool *computed_nulls, uint64 *hash)
{
	int			expression = 0;
	int			i;

	*hash = ix->seed;
	for (i = 0; i < ix->ncolumns; i++)
	{
		LsIndexColumn *column = &ix->columns[i];
		Datum		value;
		bool		isnull;

		if (column->attnum != 0)
		{
			value = values[column->attnum - 1];
			isnull = nulls[column->attnum - 1];
		}
		else
		{
			value = computed[expression];
			isnull = computed_nulls[expression++];
		}
		if (isnull && ix->nulls_distinct)
			return false;
		if (isnull)
			*hash = keyhash_bytes("", 1, *hash);
		else if (column->counts)
			*hash = keyhash_value(&column->hasher, value, *hash);
	}
	return true;
}

/* For rows that are locked or read: with the settings with which changed rows are written. */
static bool
hash_texts(const LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, Datum *computed, bool *computed_nulls, uint64 *hash)
{
	LsTextSettings settings;
	bool		is_in = false;

	deparse_enter(r, &settings);
	PG_TRY();
	{
		is_in = hash_columns(ix, values, nulls, computed, computed_nulls, hash);
	}
	PG_FINALLY();
	{
		deparse_leave(&settings);
	}
	PG_END_TRY();
	return is_in;
}

/* Hash of the row's value in the index; false: the row is not in it. */
static bool
index_hash(LsRelation *r, LsIndex *ix, Datum *values, bool *nulls, uint64 *hash)
{
	Datum		computed[INDEX_MAX_KEYS];
	bool		computed_nulls[INDEX_MAX_KEYS];

	if ((ix->expressions != NIL || ix->predicate != NIL) &&
		!evaluate(r, ix, values, nulls, computed, computed_nulls))
		return false;
	if (unlikely(ix->by_text) && !deparse_is_entered())
		return hash_texts(r, ix, values, nulls, computed, computed_nulls, hash);
	return hash_columns(ix, values, nulls, computed, computed_nulls, hash);
}

/* ---------- row keys */

static void
add_index_key(LsKeyBuffer *keys, LsRelation *r, LsIndex *ix, Datum *values, bool *nulls,
			  LsKeyMode mode)
{
	uint64		hash;

	if (index_hash(r, ix, values, nulls, &hash))
		append_key(keys, hash, mode, ix->name);
}

static void
add_old_key(LsKeyBuffer *keys, LsRelation *r, LsIndex *ix, const LsRowChange *change, LsKeyMode mode)
{
	uint64		hash;

	if (!index_hash(r, ix, change->old_values, change->old_nulls, &hash))
		return;
	append_key(keys, hash, mode, ix->name);
	if (ix == r->identity_index)
	{
		r->old_identity = hash;
		r->old_identity_known = true;
	}
}

static void
add_index_keys(LsKeyBuffer *keys, const LsRowChange *change)
{
	LsRelation *r = change->relation;
	int			i;

	for (i = 0; i < r->nindexes; i++)
	{
		LsIndex    *ix = &r->indexes[i];

		if (change->changed != NULL &&
			!column_sets_overlap(&ix->depends_on, change->changed))
		{
			if (ix == r->identity_index)
				add_old_key(keys, r, ix, change, LS_ROW_UPDATE);
			continue;
		}
		if (change->old_values != NULL)
			add_old_key(keys, r, ix, change, LS_ROW_EXCLUSIVE);
		if (change->new_values != NULL)
			add_index_key(keys, r, ix, change->new_values, change->new_nulls,
						  LS_ROW_EXCLUSIVE);
	}
}

static void
add_image_keys(LsKeyBuffer *keys, const LsRowChange *change)
{
	LsRelation *r = change->relation;

	if (change->old_image.data != NULL)
		append_key(keys, keyhash_bytes(change->old_image.data, change->old_image.len, r->image_seed),
				   LS_ROW_EXCLUSIVE, r->image_name);
	if (change->new_image.data != NULL)
		append_key(keys, keyhash_bytes(change->new_image.data, change->new_image.len, r->image_seed),
				   LS_ROW_SHARE, r->image_name);
}

static void
add_parent_key(LsKeyBuffer *keys, LsForeignKey *fk, const LsRowChange *change)
{
	uint64		hash = fk->seed;
	int			i;

	if (change->changed != NULL && !column_sets_overlap(&fk->columns, change->changed))
		return;
	for (i = 0; i < fk->ncolumns; i++)
	{
		if (change->new_nulls[fk->attnums[i] - 1])
			return;
		hash = keyhash_value(&fk->hashers[i], change->new_values[fk->attnums[i] - 1], hash);
	}
	if (fk->last_batch == keys->batch && fk->last_hash == hash)
		return;
	append_key(keys, hash, LS_ROW_SHARE, fk->name);
	fk->last_batch = keys->batch;
	fk->last_hash = hash;
}

static void
add_parent_keys(LsKeyBuffer *keys, const LsRowChange *change)
{
	LsRelation *r = change->relation;
	int			i;

	if (change->new_values == NULL)
		return;
	for (i = 0; i < r->nforeign_keys; i++)
	{
		if (r->foreign_keys[i].hashable)
			add_parent_key(keys, &r->foreign_keys[i], change);
	}
}

void
keyset_begin_next(LsKeyBuffer *keys)
{
	keys->nkeys = 0;
	keys->batch = ++batches;
}

void
keyset_begin(LsKeyBuffer *keys)
{
	resetStringInfo(&keys->packed);
	keyset_begin_next(keys);
}

void
keyset_add(LsKeyBuffer *keys, const LsRowChange *change)
{
	LsRelation *r = change->relation;

	r->old_identity_known = false;
	add_table_keys(keys, r);
	if (too_many_rows(r))
	{
		add_whole_table_keys(keys, r);
		add_whole_parent_keys(keys, r);
		return;
	}
	if (r->hashable)
	{
		add_index_keys(keys, change);
		if (r->nidentity == 0)
			add_image_keys(keys, change);
	}
	else
		add_whole_table_keys(keys, r);
	add_parent_keys(keys, change);
}

bool
keyset_identity_hash(LsRelation *r, Datum *values, bool *nulls, uint64 *hash)
{
	return index_hash(r, r->identity_index, values, nulls, hash);
}

/*
 * A transaction that changes the row has its identity among its keys.  Without one, the
 * table is as good as locked.
 */
bool
keyset_add_locked_table(LsKeyBuffer *keys, LsRelation *r, LsKeyMode mode)
{
	bool		strong = mode == LS_ROW_UPDATE || mode == LS_ROW_EXCLUSIVE;
	LsKeyMode	intent = strong ? LS_TABLE_IX : LS_TABLE_IS;
	bool		whole = too_many_rows(r) || r->identity_index == NULL || !r->hashable;
	int			i;

	add_table_key(keys, keyset_database(), intent);
	for (i = 0; i < r->ntables; i++)
	{
		if (whole)
			add_table_key(keys, &r->tables[i], strong ? LS_TABLE_X : LS_TABLE_S);
		else
			add_table_key(keys, &r->tables[i], intent);
	}
	return !whole;
}

void
keyset_add_locked_row(LsKeyBuffer *keys, LsRelation *r, Datum *values, bool *nulls, LsKeyMode mode)
{
	add_index_key(keys, r, r->identity_index, values, nulls, mode);
}

/* ---------- ends */

void
keyset_at_xact_end(void)
{
	nforwarded = 0;
	epoch++;
	transaction++;
}

void
keyset_at_subxact_abort(int nest_level)
{
	int			kept = 0;
	int			i;

	for (i = 0; i < nforwarded; i++)
	{
		if (forwarded[i].nest_level < nest_level)
			forwarded[kept++] = forwarded[i];
	}
	nforwarded = kept;
	epoch++;
}
