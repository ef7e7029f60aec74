/*
 * readkeys.c
 *	  Keys of rows that a transaction has locked or read without changing them.
 *
 * There are two kinds.  Both are forwarded if the transaction writes anything, and forgotten
 * otherwise:
 *
 *  - rows locked by SELECT FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE.  Their keys have the
 *    strength of the lock: what the lock excludes on this node, the key excludes on
 *    others.  They are dropped when the subtransaction that locked is rolled back, as
 *    the lock is.
 *  - what a SERIALIZABLE transaction reads.  Such a key means: no transaction decided
 *    before this one, on any node, may have changed the row after this transaction's snapshot.  Reads of
 *    rolled-back subtransactions count.
 *
 * Reads are taken from the plan, before it runs (readplan.c).  The S of a read is the highest
 * seq that the transaction's snapshot contains.
 *
 * docs/isolation.md explains why this makes histories serializable.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "foreignkey.h"
#include "guc.h"
#include "keyset.h"
#include "lockstep.h"
#include "losses.h"
#include "mode.h"
#include "pack.h"
#include "readkeys.h"
#include "relation.h"
#include "turn.h"

/* Buffers beyond this are given back at the end of the transaction. */
#define BUFFER_KEPT (64 * 1024)

static LsKeyBuffer locked;		/* cut back with subtransactions */
static LsKeyBuffer read_keys;	/* not */
static bool buffers_made = false;

/* Keys in read_keys, so that each is there once; in TopTransactionContext. */
typedef struct ReadKey
{
	uint64		hash;
	uint64		mode;			/* an LsKeyMode; no padding */
} ReadKey;

static HTAB *seen_keys = NULL;
static long nrows_read = 0;		/* row keys among them */
static uint64 snapshot_seq;		/* S of the transaction's snapshot */
static bool snapshot_seq_known = false;

/* What the transaction was when its snapshot was taken; READ ONLY can't be changed to READ WRITE after that. */
static enum
{
	UNDECIDED,
	ONLY_READS,
	MAY_WRITE
}			access_mode = UNDECIDED;
static bool read_only_at_savepoint; /* the first one */

static void
make_buffers(void)
{
	MemoryContext old;

	if (buffers_made)
		return;
	old = MemoryContextSwitchTo(TopMemoryContext);
	initStringInfo(&locked.packed);
	initStringInfo(&read_keys.packed);
	MemoryContextSwitchTo(old);
	keyset_begin(&locked);
	keyset_begin(&read_keys);
	buffers_made = true;
}

/* ---------- rows locked */

static LsKeyMode
mode_of_lock(LockTupleMode mode)
{
	switch (mode)
	{
		case LockTupleKeyShare:
			return LS_ROW_SHARE;
		case LockTupleShare:
			return LS_ROW_LOCK;
		case LockTupleNoKeyExclusive:
			return LS_ROW_UPDATE;
		case LockTupleExclusive:
			break;
	}
	return LS_ROW_EXCLUSIVE;
}

/* The slot has the row that was locked. */
LsReadMark
readkeys_row_locked(Relation rel, TupleTableSlot *slot, LockTupleMode mode)
{
	LsKeyMode	key_mode = mode_of_lock(mode);
	LsRelation *r;
	LsReadMark	mark;
	MemoryContext context;
	MemoryContext old;

	if (foreignkey_runs_query())
		return readkeys_mark();
	make_buffers();
	slot_getallattrs(slot);

	/* of its own, as a function of an index may lock rows, too */
	context = AllocSetContextCreate(CurrentMemoryContext, "lockstep locked row", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	r = relation_get(rel);
	if (keyset_add_locked_table(&locked, r, key_mode))
	{
		mark = readkeys_mark();
		keyset_add_locked_row(&locked, r, slot->tts_values, slot->tts_isnull, key_mode);
	}
	else
		mark = readkeys_mark();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return mark;
}

/* ---------- read keys */

static uint64
current_snapshot_seq(void)
{
	if (!snapshot_seq_known)
	{
		snapshot_seq = turn_seen_by(GetTransactionSnapshot());
		snapshot_seq_known = true;
	}
	return snapshot_seq;
}

static void
add_read_key(uint64 hash, LsKeyMode mode, LsSlice name)
{
	LsKey		key = {hash, current_snapshot_seq(), mode, name};
	ReadKey		entry = {hash, mode};
	bool		found;

	if (seen_keys == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(ReadKey),.entrysize = sizeof(ReadKey),
		.hcxt = TopTransactionContext};

		seen_keys = hash_create("lockstep keys read", 64, &control,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	(void) hash_search(seen_keys, &entry, HASH_ENTER, &found);
	if (found)
		return;
	make_buffers();
	pack_key(&read_keys.packed, &key);
	read_keys.nkeys++;
	if ((mode == LS_TABLE_READ || mode == LS_TABLE_READ_ROWS) && hash != keyset_database()->hash)
		losses_note_table(hash, (const char *) name.data, LS_TABLE_S);
}

/* Its rows, of whatever names, and not more than the table's existence. */
void
readkeys_rows_of(const LsRelation *r)
{
	const LsTable *database = keyset_database();

	add_read_key(database->hash, LS_TABLE_READ_ROWS, ls_slice_of(database->name));
	for (int i = 0; i < r->ntables; i++)
		add_read_key(r->tables[i].hash, LS_TABLE_READ_ROWS, ls_slice_of(r->tables[i].name));
}

void
readkeys_whole(const LsRelation *r)
{
	readkeys_rows_of(r);
	add_read_key(r->tables[0].hash, LS_TABLE_READ, ls_slice_of(r->tables[0].name));
}

void
readkeys_row(LsRelation *r, Datum *values, bool *nulls)
{
	uint64		hash;

	if (nrows_read++ >= ls_max_row_keys)
	{
		readkeys_whole(r);
		return;
	}
	readkeys_rows_of(r);
	if (keyset_identity_hash(r, values, nulls, &hash))
		add_read_key(hash, LS_ROW_READ, r->identity_index->name);
}

/* ---------- reads without a plan */

void
readkeys_at_subxact_start(int level)
{
	if (level == 2)
		read_only_at_savepoint = XactReadOnly;
}

/*
 * One that became READ ONLY later may have written before, and one that is so in a subtransaction may
 * write after it.
 */
static bool
only_reads(void)
{
	if (access_mode == UNDECIDED)
	{
		bool		only = XactReadOnly && (GetCurrentTransactionNestLevel() == 1 || read_only_at_savepoint);

		if (!FirstSnapshotSet)
			return only;
		access_mode = only ? ONLY_READS : MAY_WRITE;
	}
	return access_mode == ONLY_READS;
}

bool
readkeys_count(void)
{
	return IsolationIsSerializable() && !only_reads() &&
		!foreignkey_starts_query() &&
		ls_mode() == LS_MODE_ORIGIN;
}

/* The table as a whole is read, without a plan; what is not a table as such
 * (a materialized view, a partitioned table) is known by its name. */
void
readkeys_table(Relation rel)
{
	LsKey		key;

	if (!readkeys_count() || RelationGetRelid(rel) < FirstNormalObjectId ||
		rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	if (relation_is_replicated(rel))
	{
		readkeys_whole(relation_get(rel));
		return;
	}
	key = keyset_relation_key(rel, LS_TABLE_READ);
	add_read_key(key.hash, rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 LS_TABLE_READ_ROWS : LS_TABLE_READ, key.name);
}

/* ---------- forwarding, and ends */

static int
add_query(LsQuery *queries, int n, const LsKeyBuffer *keys)
{
	if (keys->nkeys == 0)
		return n;
	queries[n] = (LsQuery) {.form = LS_FORM_KEYS,.reason = LS_REASON_READ,.rows = -1};
	queries[n].text = ls_slice_of("keys");
	queries[n].nkeys = keys->nkeys;
	queries[n].keys = ls_slice_of_buffer(&keys->packed);
	return n + 1;
}

int
readkeys_queries(LsQuery *queries)
{
	if (!buffers_made)
		return 0;
	return add_query(queries, add_query(queries, 0, &locked), &read_keys);
}

LsReadMark
readkeys_mark(void)
{
	LsReadMark	mark = {0, 0};

	if (buffers_made)
	{
		mark.len = locked.packed.len;
		mark.nkeys = locked.nkeys;
	}
	return mark;
}

void
readkeys_cut(LsReadMark mark)
{
	if (!buffers_made)
		return;
	locked.packed.len = mark.len;
	locked.nkeys = mark.nkeys;
}

static void
forget(LsKeyBuffer *keys)
{
	if (keys->packed.maxlen > BUFFER_KEPT)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		pfree(keys->packed.data);
		initStringInfo(&keys->packed);
		MemoryContextSwitchTo(old);
	}
	keyset_begin(keys);
}

void
readkeys_at_xact_end(void)
{
	snapshot_seq_known = false;
	access_mode = UNDECIDED;
	seen_keys = NULL;			/* goes with the transaction's memory */
	nrows_read = 0;
	if (buffers_made && (locked.nkeys > 0 || read_keys.nkeys > 0))
	{
		forget(&locked);
		forget(&read_keys);
	}
}
