/*
 * sequence_shared.c
 *	  Which values of which sequences this node may hand out: shared memory.
 *
 * An entry for each sequence that is used here:
 *
 *	 runs		what is left of leases, in the order in which they came
 *	 generation	changes when the sequence is set: its runs are void then
 *	 count		of values taken
 *	 ordered	of these, how many are known to be covered by the position that
 *				all nodes have.  Fewer than count: the replicator fetches the
 *				position (lockstep.sequence_positions()) and orders it
 *
 * A sequence with new storage (RESTART, TRUNCATE) is another one: the entry is
 * made anew when its file is not that of the entry.  Whoever calls in here holds
 * RowExclusiveLock on the sequence, so its file doesn't change meanwhile.
 *
 * Locking: an entry is found under `table_lock`, shared; made and removed under it,
 * exclusive.  It goes away when the transaction that dropped the sequence, or its
 * database, commits, before the lock on the sequence is released: nobody else has it
 * in hand then.  Its fields are protected by its own lock.  The
 * page's buffer lock is taken while holding that, never the other way.  Nobody
 * waits for anything else while holding one.
 *
 * One process at a time asks for more of a sequence; the others wait on its
 * condition variable.
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "sequence.h"

#define MAX_RUNS 8
#define MAX_NAME 512

typedef struct SeqRun
{
	int64		next;
	uint64		left;
} SeqRun;

typedef struct SeqKey
{
	Oid			database;
	Oid			relid;
} SeqKey;

typedef struct SeqEntry
{
	SeqKey		key;
	LWLock		lock;
	ConditionVariable asked;
	bool		asking;
	Oid			file;
	uint64		generation;
	uint64		count;
	uint64		ordered;
	int64		value;			/* the last one taken */
	int64		logged;			/* see seqpage_advance() */
	bool		logged_valid;
	int			nruns;
	SeqRun		runs[MAX_RUNS];
	/* for the replicator, which asks from any database: */
	char		database[NAMEDATALEN];
	char		name[MAX_NAME]; /* as SQL has it */
	uint64		hash;			/* of the table key */
	uint64		database_hash;
} SeqEntry;

static HTAB *entries = NULL;
static bool *reported = NULL;	/* the replicator knows that the server was
								 * started, and has made all positions equal */
static LWLock *table_lock = NULL;
static int	entry_tranche = 0;

static Size
shmem_size(void)
{
	return add_size(hash_estimate_size(ls_max_sequences, sizeof(SeqEntry)), MAXALIGN(sizeof(bool)));
}

void
sequence_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche("LockstepSequences", 1);
	RequestNamedLWLockTranche("LockstepSequence", 1);
}

/* Called with AddinShmemInitLock held. */
void
sequence_shmem_startup(void)
{
	HASHCTL		info;
	bool		found;

	reported = ShmemInitStruct("lockstep sequences reported", sizeof(bool), &found);
	if (!found)
		*reported = false;
	info.keysize = sizeof(SeqKey);
	info.entrysize = sizeof(SeqEntry);
	entries = ShmemInitHash("lockstep sequences", ls_max_sequences, ls_max_sequences, &info,
							HASH_ELEM | HASH_BLOBS);
	table_lock = &(GetNamedLWLockTranche("LockstepSequences"))->lock;
	entry_tranche = GetNamedLWLockTranche("LockstepSequence")->lock.tranche;
}

/* ---------- entries */

static void
note_names(SeqEntry *e, Relation rel)
{
	char	   *schema = get_namespace_name(RelationGetNamespace(rel));
	LsKey		key = keyset_table_key(schema, RelationGetRelationName(rel), LS_TABLE_IX);
	LsKey		database = keyset_database_key(LS_TABLE_IX);

	strlcpy(e->database, get_database_name(MyDatabaseId), sizeof(e->database));
	strlcpy(e->name, sequence_qualified_name(rel), sizeof(e->name));
	e->hash = key.hash;
	e->database_hash = database.hash;
}

/* Void what is known of the values; the caller has the entry's lock, if it is in use. */
static void
void_runs(SeqEntry *e)
{
	e->generation++;
	e->nruns = 0;
	e->logged_valid = false;
	e->ordered = e->count;
}

static SeqEntry *
make_entry(const SeqKey *key, Relation rel)
{
	SeqEntry   *e;
	bool		found;
	SeqEntry	fresh;

	/* whatever may fail comes first */
	memset(&fresh, 0, sizeof(fresh));
	note_names(&fresh, rel);

	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	e = hash_search(entries, key, HASH_FIND, &found);
	if (e == NULL && hash_get_num_entries(entries) < ls_max_sequences)
		e = hash_search(entries, key, HASH_ENTER_NULL, &found);
	if (e != NULL && !found)
	{
		memset((char *) e + sizeof(SeqKey), 0, sizeof(SeqEntry) - sizeof(SeqKey));
		LWLockInitialize(&e->lock, entry_tranche);
		ConditionVariableInit(&e->asked);
		e->generation = 1;
		e->file = rel->rd_rel->relfilenode;
		memcpy(e->database, fresh.database, sizeof(e->database));
		memcpy(e->name, fresh.name, sizeof(e->name));
		e->hash = fresh.hash;
		e->database_hash = fresh.database_hash;
	}
	LWLockRelease(table_lock);
	if (e == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many sequences are in use on this node"),
				 errdetail("Values of %d sequences have been handed out or are known here.", ls_max_sequences),
				 errhint("Raise lockstep.max_sequences and restart the server.")));
	return e;
}

/* NULL: there is none, and none is to be made. */
static SeqEntry *
entry_of(Relation rel, bool make)
{
	SeqKey		key = {MyDatabaseId, RelationGetRelid(rel)};
	SeqEntry   *e;

	LWLockAcquire(table_lock, LW_SHARED);
	e = hash_search(entries, &key, HASH_FIND, NULL);
	LWLockRelease(table_lock);
	if (e == NULL)
		return make ? make_entry(&key, rel) : NULL;

	/*
	 * who looks without a lock of its own may have missed that it is another
	 * file
	 */
	if (e->file != rel->rd_rel->relfilenode)
		AcceptInvalidationMessages();
	if (e->file != rel->rd_rel->relfilenode)
	{
		LWLockAcquire(&e->lock, LW_EXCLUSIVE);
		if (e->file != rel->rd_rel->relfilenode)
		{
			void_runs(e);
			e->file = rel->rd_rel->relfilenode;
		}
		LWLockRelease(&e->lock);
	}
	return e;
}

bool
seqshared_knows(Oid database, Oid relid)
{
	SeqKey		key = {database, relid};
	bool		found;

	LWLockAcquire(table_lock, LW_SHARED);
	(void) hash_search(entries, &key, HASH_FIND, &found);
	LWLockRelease(table_lock);
	return found;
}

void
seqshared_forget(Oid database, Oid relid)
{
	SeqKey		key = {database, relid};
	HASH_SEQ_STATUS scan;
	SeqEntry   *e;

	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	if (OidIsValid(relid))
		(void) hash_search(entries, &key, HASH_REMOVE, NULL);
	else
	{
		hash_seq_init(&scan, entries);
		while ((e = hash_seq_search(&scan)) != NULL)
		{
			if (e->key.database == database)
				(void) hash_search(entries, &e->key, HASH_REMOVE, NULL);
		}
	}
	LWLockRelease(table_lock);
}

/* ---------- taking */

/* Up to shape->cache values.  False: there are none, more must be asked for. */
bool
seqshared_take(Relation rel, const SeqShape *shape, SeqTaken *taken)
{
	SeqEntry   *e = entry_of(rel, true);
	SeqRun	   *run = &e->runs[0];
	uint64		n;
	int64		limit;

	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	if (e->nruns == 0)
	{
		LWLockRelease(&e->lock);
		return false;
	}
	n = Min((uint64) shape->cache, run->left);
	taken->first = run->next;
	taken->last = run->next + (int64) (n - 1) * shape->increment;
	limit = run->next + (int64) (run->left - 1) * shape->increment;
	taken->count = ++e->count;
	taken->generation = e->generation;
	e->value = taken->last;
	run->left -= n;
	if (run->left == 0)
		memmove(&e->runs[0], &e->runs[1], --e->nruns * sizeof(SeqRun));
	else
		run->next = taken->last + shape->increment;
	seqpage_advance(rel, shape, taken->last, limit, &e->logged, &e->logged_valid);
	LWLockRelease(&e->lock);
	return true;
}

uint64
seqshared_generation(Relation rel)
{
	SeqEntry   *e = entry_of(rel, true);
	uint64		generation;

	LWLockAcquire(&e->lock, LW_SHARED);
	generation = e->generation;
	LWLockRelease(&e->lock);
	return generation;
}

/* ---------- asking */

SeqEntry *
seqshared_begin_asking(Relation rel)
{
	SeqEntry   *e = entry_of(rel, true);
	bool		mine;

	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	mine = !e->asking && e->nruns == 0;
	if (mine)
		e->asking = true;
	LWLockRelease(&e->lock);
	if (mine)
		return e;
	ConditionVariablePrepareToSleep(&e->asked);
	for (;;)
	{
		bool		asking;

		LWLockAcquire(&e->lock, LW_SHARED);
		asking = e->asking && e->nruns == 0;
		LWLockRelease(&e->lock);
		if (!asking)
			break;
		ConditionVariableSleep(&e->asked, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return NULL;
}

void
seqshared_end_asking(SeqEntry *e)
{
	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	e->asking = false;
	LWLockRelease(&e->lock);
	ConditionVariableBroadcast(&e->asked);
}

/* A lease has come, for what the sequence was when it was asked for. */
void
seqshared_add(Relation rel, const SeqShape *shape, uint64 generation, int64 first, uint64 count)
{
	SeqEntry   *e = entry_of(rel, true);

	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	if (e->generation == generation && e->nruns < MAX_RUNS)
	{
		SeqRun	   *last = e->nruns > 0 ? &e->runs[e->nruns - 1] : NULL;

		if (last != NULL && first == last->next + (int64) last->left * shape->increment)
			last->left += count;
		else
			e->runs[e->nruns++] = (SeqRun) {first, count};
	}
	LWLockRelease(&e->lock);
}

/* ---------- in turn */

/*
 * Everybody's position is value now.  boot, count: whose it is, and how many
 * values that node had taken by then.
 */
void
seqshared_ordered(Relation rel, const SeqShape *shape, int64 value, uint64 boot, uint64 count)
{
	SeqEntry   *e = entry_of(rel, false);
	bool		ours = e != NULL && boot == turn_boot_id();
	SeqPosition page;
	SeqPosition position = {value, true};

	if (e != NULL)
		LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	if (ours && count > e->ordered)
		e->ordered = Min(count, e->count);

	/* where values come again, the last one counts, not the highest */
	page = seqpage_read(rel);
	if (shape->cycle ? (!ours || e->count == count) && (page.value != value || !page.called) :
		(!page.called && page.value == value) || seq_is_behind(shape, page.value, value))
	{
		seqpage_set(rel, position);
		if (e != NULL)
			e->logged_valid = false;
	}
	if (e != NULL)
		LWLockRelease(&e->lock);
}

void
seqshared_set(Relation rel, SeqPosition position)
{
	SeqEntry   *e = entry_of(rel, false);

	if (e != NULL)
	{
		LWLockAcquire(&e->lock, LW_EXCLUSIVE);
		void_runs(e);
	}
	seqpage_set(rel, position);
	if (e != NULL)
		LWLockRelease(&e->lock);
}

void
seqshared_renamed(Relation rel)
{
	SeqEntry   *e = entry_of(rel, false);
	SeqEntry	fresh;

	if (e == NULL)
		return;
	memset(&fresh, 0, sizeof(fresh));
	note_names(&fresh, rel);
	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	memcpy(e->database, fresh.database, sizeof(e->database));
	memcpy(e->name, fresh.name, sizeof(e->name));
	e->hash = fresh.hash;
	LWLockRelease(&e->lock);
}

/* ---------- for the replicator */

static Datum
keys_of(const SeqEntry *e, uint64 seen)
{
	LsKey		keys[2];
	StringInfoData packed;
	bytea	   *result;
	int			i;

	memset(keys, 0, sizeof(keys));
	keys[0].hash = e->database_hash;
	keys[1].hash = e->hash;
	initStringInfo(&packed);
	for (i = 0; i < lengthof(keys); i++)
	{
		keys[i].seen = seen;
		keys[i].mode = LS_TABLE_IX;
		keys[i].name = ls_slice_of(e->name);
		statement_pack_key(&packed, &keys[i]);
	}
	result = palloc(VARHDRSZ + packed.len);
	SET_VARSIZE(result, VARHDRSZ + packed.len);
	memcpy(VARDATA(result), packed.data, packed.len);
	return PointerGetDatum(result);
}

static void
put_position(ReturnSetInfo *rsinfo, const SeqEntry *e, uint64 seen)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(e->database);
	values[1] = CStringGetTextDatum(e->name);
	values[2] = Int64GetDatum(e->value);
	values[3] = CStringGetTextDatum(psprintf(UINT64_FORMAT ":" UINT64_FORMAT, turn_boot_id(), e->count));
	values[4] = keys_of(e, seen);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

void
sequence_reported(void)
{
	*reported = true;
}

/*
 * Sequences of all databases whose position here is not everybody's yet; and a
 * row without names if, since the server was started, nobody knows which.
 */
void
sequence_put_positions(ReturnSetInfo *rsinfo)
{
	HASH_SEQ_STATUS scan;
	SeqEntry   *e;
	SeqEntry   *found = NULL;
	int			n = 0;
	int			size = 0;
	uint64		seen = turn_applied();	/* before the positions are read */

	LWLockAcquire(table_lock, LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if (e->count == e->ordered)
			continue;			/* without the lock: next time then */
		if (n == size)
		{
			size = Max(16, size * 2);
			found = found == NULL ? palloc(size * sizeof(SeqEntry)) :
				repalloc(found, size * sizeof(SeqEntry));
		}
		LWLockAcquire(&e->lock, LW_SHARED);
		memcpy(&found[n], e, sizeof(SeqEntry));
		LWLockRelease(&e->lock);
		if (found[n].count != found[n].ordered)
			n++;
	}
	LWLockRelease(table_lock);
	while (n > 0)
		put_position(rsinfo, &found[--n], seen);
	if (!*reported)
	{
		SeqEntry	unknown;

		memset(&unknown, 0, sizeof(unknown));
		put_position(rsinfo, &unknown, seen);
	}
}
