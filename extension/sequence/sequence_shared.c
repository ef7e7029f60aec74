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
 * A sequence with new storage (RESTART, TRUNCATE) is another one: its entry is reset when the
 * sequence's file is not the entry's.  All callers hold RowExclusiveLock on the sequence, so
 * that its file does not change meanwhile.
 *
 * Locking: an entry is looked up, and its own lock taken, under `table_lock`, shared; entries
 * are created and removed under `table_lock`, exclusive.  So when that is held, no process uses
 * an entry whose own lock is free, except the one that is requesting values for it (`asking`).
 * The entry's lock protects its fields.  The buffer lock of the sequence's page is taken while
 * holding it, never the other way round.  A process that holds one of these locks waits for
 * nothing else.
 *
 * Removal: an entry is removed when the transaction that dropped the sequence, or its database,
 * commits, before the lock on the sequence is released, so that no other process uses it then.
 * And when lockstep.max_sequences entries exist and another sequence is used: the least recently
 * used entry of those whose position all nodes have, which loses no more than the rest of a
 * lease.  What a session or a message under way knows of a removed entry is never taken for a
 * later entry of that sequence: generations are numbers of the whole server, and values are
 * counted on from the highest count of any removed entry (`floor`).
 *
 * An eighth of the entries is for login roles that have fewer than half of all entries: when no
 * more are free, a role that has more must remove one of its own.
 *
 * If no entry can be removed (all have values that the other nodes do not know yet, which takes
 * the replicator half a second), a process that needs one waits for that, up to ROOM_MS.
 *
 * One process at a time requests more values of a sequence; the others wait on a condition
 * variable.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
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
#include "utils/syscache.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "guc.h"
#include "keyhash.h"
#include "keyset.h"
#include "lockstep.h"
#include "monotonic.h"
#include "pack.h"
#include "points.h"
#include "sequence_private.h"
#include "turn.h"

#define MAX_RUNS 8
#define MAX_NAME 512
#define ROOM_MS 10000
#define ROOM_FOR_OTHERS 8		/* an eighth of the entries */
#define LOOK_MS 100				/* at the latest, look again after this time */
#define ASKED 64

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

/* For the replicator, which asks from any database (see renew_names()). */
typedef struct SeqNames
{
	char		database[NAMEDATALEN];
	char		name[MAX_NAME]; /* as SQL has it */
	uint64		hash;			/* of the table key */
	uint64		database_hash;
} SeqNames;

typedef struct SeqEntry
{
	SeqKey		key;
	MonoTime	last_used;		/* about */
	LWLock		lock;
	bool		asking;			/* a process requests more values: the entry
								 * must stay */
	Oid			file;
	Oid			role;			/* whose session made the entry */
	uint64		generation;
	uint64		count;
	uint64		ordered;
	int64		value;			/* the last one taken */
	int64		increment;		/* of the runs, and of what was taken */
	bool		cycle;
	int64		logged;			/* see sequence_page_advance() */
	bool		logged_valid;
	int			nruns;
	SeqRun		runs[MAX_RUNS];
	SeqNames	names;
} SeqEntry;

typedef struct SeqShared
{
	bool		reported;		/* the replicator knows that the server was
								 * started, and has made all positions equal */
	pg_atomic_uint64 generation;	/* the last one that was given */
	uint64		floor;			/* no removed entry had counted further; under
								 * table_lock */
	ConditionVariable room;		/* an entry can be removed now that could not
								 * before */
	ConditionVariable asked[ASKED]; /* by file: asking has ended */
} SeqShared;

static HTAB *entries = NULL;
static SeqShared *shared = NULL;
static LWLock *table_lock = NULL;
static int	entry_tranche = 0;

static Size
shmem_size(void)
{
	return add_size(hash_estimate_size(ls_max_sequences, sizeof(SeqEntry)), MAXALIGN(sizeof(SeqShared)));
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

	shared = ShmemInitStruct("lockstep sequences shared", sizeof(SeqShared), &found);
	if (!found)
	{
		shared->reported = false;
		pg_atomic_init_u64(&shared->generation, 0);
		shared->floor = 0;
		ConditionVariableInit(&shared->room);
		for (int i = 0; i < ASKED; i++)
			ConditionVariableInit(&shared->asked[i]);
	}
	info.keysize = sizeof(SeqKey);
	info.entrysize = sizeof(SeqEntry);
	entries = ls_shmem_hash("lockstep sequences", ls_max_sequences, &info,
							HASH_ELEM | HASH_BLOBS);
	table_lock = &(GetNamedLWLockTranche("LockstepSequences"))->lock;
	entry_tranche = GetNamedLWLockTranche("LockstepSequence")->lock.tranche;
}

/* ---------- entries */

/* Reads catalogs. */
static SeqNames
names_of(const char *name, const LsKey *key)
{
	LsKey		database = keyset_database_key(LS_TABLE_IX);
	SeqNames	names = {.hash = key->hash,.database_hash = database.hash};

	strlcpy(names.database, get_database_name(MyDatabaseId), sizeof(names.database));
	strlcpy(names.name, name, sizeof(names.name));
	return names;
}

static uint64
new_generation(void)
{
	return pg_atomic_add_fetch_u64(&shared->generation, 1);
}

/* Discard what is known of the values; the caller has the entry's lock, if it is in use. */
static void
void_runs(SeqEntry *e)
{
	e->generation = new_generation();
	e->nruns = 0;
	e->logged_valid = false;
}

/* It is another sequence now, also for those who were to be told of values. */
static void
begin_anew(SeqEntry *e)
{
	void_runs(e);
	e->ordered = e->count;
}

/* ---------- room for another */

/* The caller has table_lock, exclusive. */
static void
remove_entry(SeqEntry *e)
{
	shared->floor = Max(shared->floor, e->count);
	(void) hash_search(entries, &e->key, HASH_REMOVE, NULL);
}

/* The same.  The number of entries of that role. */
static long
entries_of_role(Oid role)
{
	HASH_SEQ_STATUS scan;
	const SeqEntry *e;
	long		n = 0;

	hash_seq_init(&scan, entries);
	while ((e = hash_seq_search(&scan)) != NULL)
		n += e->role == role;
	return n;
}

/* The same.  Room for an entry of that role; false: no entry can be removed. */
static bool
make_room(Oid role)
{
	HASH_SEQ_STATUS scan;
	SeqEntry   *e;
	SeqEntry   *oldest = NULL;
	long		n = hash_get_num_entries(entries);
	bool		its_own;

	if (n < ls_max_sequences - ls_max_sequences / ROOM_FOR_OTHERS)
		return true;
	its_own = entries_of_role(role) > ls_max_sequences / 2;
	if (n < ls_max_sequences && !its_own)
		return true;
	hash_seq_init(&scan, entries);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if ((its_own && e->role != role) ||
			(oldest != NULL && e->last_used >= oldest->last_used) || !LWLockConditionalAcquire(&e->lock, LW_EXCLUSIVE))
			continue;
		if (!e->asking && e->count == e->ordered)
			oldest = e;
		LWLockRelease(&e->lock);
	}
	if (oldest != NULL)
		remove_entry(oldest);
	return oldest != NULL;
}

/*
 * Returns the entry, locked; NULL: there is no room now.  All that may fail has been done, into
 * fresh.
 */
static SeqEntry *
try_make_entry(const SeqKey *key, const SeqEntry *fresh)
{
	SeqEntry   *e;
	bool		found;

	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	e = hash_search(entries, key, HASH_FIND, &found);
	if (e == NULL && make_room(fresh->role))
		e = hash_search(entries, key, HASH_ENTER_NULL, &found);
	if (e != NULL && !found)
	{
		memcpy((char *) e + sizeof(SeqKey), (const char *) fresh + sizeof(SeqKey), sizeof(SeqEntry) - sizeof(SeqKey));
		LWLockInitialize(&e->lock, entry_tranche);
		e->generation = new_generation();
		e->count = e->ordered = shared->floor;
		e->last_used = mono_now();
	}
	if (e != NULL)
		LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	LWLockRelease(table_lock);
	return e;
}

static void
report_no_room(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many sequences are in use on this node"),
			 errdetail("Values of %d sequences have been handed out, and the other nodes have not learnt of them for %d s.",
					   ls_max_sequences, ROOM_MS / 1000),
			 errhint("Raise lockstep.max_sequences and restart the server.")));
}

/* Locked. */
static SeqEntry *
make_entry(const SeqKey *key, Relation rel)
{
	SeqEntry	fresh;
	SeqEntry   *e;
	MonoTime	deadline = 0;
	LsKey		table_key;
	char	   *name;

	memset(&fresh, 0, sizeof(fresh));
	(void) sequence_committed_name(rel, &name, &table_key);
	fresh.names = names_of(name, &table_key);
	fresh.file = rel->rd_rel->relfilenode;
	fresh.role = GetSessionUserId();
	while ((e = try_make_entry(key, &fresh)) == NULL)
	{
		if (deadline == 0)
		{
			deadline = mono_after(ROOM_MS);
			ConditionVariablePrepareToSleep(&shared->room);
			continue;			/* there may be room already */
		}
		if (mono_ms_left(deadline) == 0)
			report_no_room();
		(void) ConditionVariableTimedSleep(&shared->room, LOOK_MS, PG_WAIT_EXTENSION);
	}
	if (deadline != 0)
		ConditionVariableCancelSleep();
	return e;
}

/* ---------- finding */

/* Returns the entry, locked exclusively; it may be that of an earlier file. */
static SeqEntry *
find_entry(const SeqKey *key)
{
	SeqEntry   *e;

	LWLockAcquire(table_lock, LW_SHARED);
	e = hash_search(entries, key, HASH_FIND, NULL);
	if (e != NULL)
		LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	LWLockRelease(table_lock);
	return e;
}

/* Returns the entry, locked exclusively.  NULL: there is none, and none is to be made. */
static SeqEntry *
entry_of(Relation rel, bool make)
{
	SeqKey		key = {MyDatabaseId, RelationGetRelid(rel)};
	SeqEntry   *e = find_entry(&key);

	if (e == NULL)
		return make ? make_entry(&key, rel) : NULL;

	/* a caller that holds no lock of its own may have missed the new file */
	if (e->file != rel->rd_rel->relfilenode)
		AcceptInvalidationMessages();
	if (e->file != rel->rd_rel->relfilenode)
	{
		begin_anew(e);
		e->file = rel->rd_rel->relfilenode;
	}
	return e;
}

bool
sequence_shared_knows(Oid database, Oid relid)
{
	SeqKey		key = {database, relid};
	bool		found;

	LWLockAcquire(table_lock, LW_SHARED);
	(void) hash_search(entries, &key, HASH_FIND, &found);
	LWLockRelease(table_lock);
	return found;
}

void
sequence_shared_forget(Oid database, Oid relid)
{
	SeqKey		key = {database, relid};
	HASH_SEQ_STATUS scan;
	SeqEntry   *e;

	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	if (OidIsValid(relid))
	{
		e = hash_search(entries, &key, HASH_FIND, NULL);
		if (e != NULL)
			remove_entry(e);
	}
	else
	{
		hash_seq_init(&scan, entries);
		while ((e = hash_seq_search(&scan)) != NULL)
		{
			if (e->key.database == database)
				remove_entry(e);
		}
	}
	LWLockRelease(table_lock);
}

/* ---------- taking */

/* Up to shape->cache values.  False: there are none, more must be asked for. */
bool
sequence_shared_take(Relation rel, const SeqShape *shape, SeqTaken *taken)
{
	SeqEntry   *e = entry_of(rel, true);
	SeqRun	   *run = &e->runs[0];
	uint64		n;
	int64		limit;

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
	e->increment = shape->increment;
	e->cycle = shape->cycle;
	e->last_used = mono_now();
	run->left -= n;
	if (run->left == 0)
		memmove(&e->runs[0], &e->runs[1], --e->nruns * sizeof(SeqRun));
	else
		run->next = taken->last + shape->increment;
	sequence_page_advance(rel, shape, taken->last, limit, &e->logged, &e->logged_valid);
	LWLockRelease(&e->lock);
	return true;
}

uint64
sequence_shared_generation(Relation rel)
{
	SeqEntry   *e = entry_of(rel, true);
	uint64		generation;

	generation = e->generation;
	LWLockRelease(&e->lock);
	return generation;
}

/* ---------- asking */

static ConditionVariable *
asked_of(Oid file)
{
	return &shared->asked[file % ASKED];
}

SeqEntry *
sequence_shared_begin_asking(Relation rel)
{
	ConditionVariable *asked = asked_of(rel->rd_rel->relfilenode);
	SeqEntry   *e;
	bool		mine;
	bool		others;

	for (;;)
	{
		e = entry_of(rel, true);
		mine = !e->asking && e->nruns == 0;
		others = e->asking && e->nruns == 0;
		e->asking |= mine;
		LWLockRelease(&e->lock);
		if (!others)
			break;
		ConditionVariableSleep(asked, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return mine ? e : NULL;
}

void
sequence_shared_end_asking(SeqEntry *e)
{
	Oid			file;

	LWLockAcquire(&e->lock, LW_EXCLUSIVE);
	e->asking = false;
	file = e->file;
	LWLockRelease(&e->lock);
	ConditionVariableBroadcast(asked_of(file));
}

/* A lease has arrived, for the sequence as it was when the lease was requested. */
void
sequence_shared_add(Relation rel, const SeqShape *shape, uint64 generation, int64 first, uint64 count)
{
	SeqEntry   *e = entry_of(rel, true);

	if (e->generation == generation && e->nruns < MAX_RUNS)
	{
		SeqRun	   *last = e->nruns > 0 ? &e->runs[e->nruns - 1] : NULL;

		e->increment = shape->increment;
		e->cycle = shape->cycle;
		if (last != NULL && first == last->next + (int64) last->left * shape->increment)
			last->left += count;
		else
			e->runs[e->nruns++] = (SeqRun) {first, count};
	}
	LWLockRelease(&e->lock);
}

/* ---------- in turn */

/*
 * The position on all nodes is value now.  boot, count: of which node's server, and how many
 * values that node had taken by then.
 */
void
sequence_shared_ordered(Relation rel, const SeqShape *shape, int64 value, uint64 boot, uint64 count)
{
	SeqEntry   *e = entry_of(rel, false);
	bool		ours = e != NULL && boot == turn_boot_id();
	SeqPosition page;
	SeqPosition position = {value, true};

	if (ours && count > e->ordered)
		e->ordered = Min(count, e->count);

	/* with CYCLE the last value counts, not the highest */
	page = sequence_page_read(rel);
	if (value < shape->min || value > shape->max)
		;						/* of before it was altered */
	else if (shape->cycle ? (!ours || e->count == count) && (page.value != value || !page.called) :
			 (!page.called && page.value == value) || seq_is_behind(shape, page.value, value))
	{
		sequence_page_set(rel, position);
		if (e != NULL)
			e->logged_valid = false;
	}
	if (e != NULL)
	{
		LWLockRelease(&e->lock);
		if (hash_get_num_entries(entries) >= ls_max_sequences - ls_max_sequences / ROOM_FOR_OTHERS)
			ConditionVariableBroadcast(&shared->room);
	}
}

void
sequence_shared_set(Relation rel, SeqPosition position)
{
	SeqEntry   *e = entry_of(rel, false);

	if (e != NULL)
		begin_anew(e);
	sequence_page_set(rel, position);
	if (e != NULL)
		LWLockRelease(&e->lock);
}

/*
 * It goes on: what was handed out here is still to be reported, as the position may be behind
 * it.  The leases are void.
 */
void
sequence_shared_altered(Relation rel, SeqPosition position)
{
	SeqKey		key = {MyDatabaseId, RelationGetRelid(rel)};
	SeqEntry   *e = find_entry(&key);

	if (e != NULL)
	{
		void_runs(e);
		e->file = rel->rd_rel->relfilenode;
	}
	sequence_page_set(rel, position);
	if (e != NULL)
		LWLockRelease(&e->lock);
}

void
sequence_shared_named(Relation rel, const char *name, const LsKey *key)
{
	SeqNames	names = names_of(name, key);	/* before the lock is taken */
	SeqEntry   *e = entry_of(rel, false);

	if (e == NULL)
		return;
	e->names = names;
	LWLockRelease(&e->lock);
}

void
sequence_shared_renamed(Relation rel)
{
	LsKey		key;

	if (!sequence_shared_knows(MyDatabaseId, RelationGetRelid(rel)))
		return;
	key = keyset_relation_key(rel, LS_TABLE_IX);
	sequence_shared_named(rel, sequence_qualified_name(rel), &key);
}

/* ---------- for the replicator */

/*
 * Entries outlive ALTER DATABASE RENAME, and the old name may be that of another database by now: so
 * that of a copy is looked up.  False: the database is gone.
 */
static bool
renew_names(SeqEntry *copy)
{
	const char *database = get_database_name(copy->key.database);
	List	   *names;

	if (database == NULL)
		return false;
	if (strcmp(database, copy->names.database) == 0)
		return true;
	names = textToQualifiedNameList(cstring_to_text(copy->names.name));
	strlcpy(copy->names.database, database, sizeof(copy->names.database));
	copy->names.hash = keyhash_seed_of(database, 'T', strVal(linitial(names)), strVal(lsecond(names)), "");
	copy->names.database_hash = keyhash_seed_of(database, 'D', "", "", "");
	return true;
}

static Datum
keys_of(const SeqEntry *e, uint64 seen)
{
	LsKey		keys[2];
	StringInfoData packed;
	bytea	   *result;
	int			i;

	memset(keys, 0, sizeof(keys));
	keys[0].hash = e->names.database_hash;
	keys[1].hash = e->names.hash;
	initStringInfo(&packed);
	for (i = 0; i < lengthof(keys); i++)
	{
		keys[i].seen = seen;
		keys[i].mode = LS_TABLE_IX;
		keys[i].name = ls_slice_of(e->names.name);
		pack_key(&packed, &keys[i]);
	}
	result = palloc(VARHDRSZ + packed.len);
	SET_VARSIZE(result, VARHDRSZ + packed.len);
	memcpy(VARDATA(result), packed.data, packed.len);
	return PointerGetDatum(result);
}

/*
 * How far this node may have handed out values, or may yet; false: no further than all nodes
 * know.
 */
static bool
far_end(const SeqEntry *e, int64 *value)
{
	const SeqRun *last = e->nruns > 0 ? &e->runs[e->nruns - 1] : NULL;

	if (e->cycle || (last == NULL && e->count == e->ordered))
		return false;
	*value = last != NULL ? last->next + (int64) (last->left - 1) * e->increment : e->value;
	return true;
}

static void
put_lease(ReturnSetInfo *rsinfo, const SeqEntry *e, int64 value, uint64 seen)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(e->names.database);
	values[1] = CStringGetTextDatum(e->names.name);
	values[2] = Int64GetDatum(value);
	values[3] = Int64GetDatum(e->increment);
	values[4] = keys_of(e, seen);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_position(ReturnSetInfo *rsinfo, const SeqEntry *e, uint64 seen)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(e->names.database);
	values[1] = CStringGetTextDatum(e->names.name);
	values[2] = Int64GetDatum(e->value);
	values[3] = CStringGetTextDatum(sequence_used_extra(e->count, e->increment, e->cycle));
	values[4] = keys_of(e, seen);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A sequence that got new storage since (RESTART) is another one. */
static bool
has_file(Oid relid, Oid file)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		has = HeapTupleIsValid(tuple) && ((Form_pg_class) GETSTRUCT(tuple))->relfilenode == file;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return has;
}

/*
 * Leases that this database has got from any replicator, for a replicator that has just started:
 * its journal may be a copy from before they were granted.  It has entered its generation here,
 * so that no lease of an older replicator is added any more.
 */
void
sequence_put_leases(ReturnSetInfo *rsinfo)
{
	HASH_SEQ_STATUS scan;
	SeqEntry   *e;
	SeqEntry   *found;
	int			n = 0;
	uint64		seen = turn_applied();
	int64		value;

	LWLockAcquire(table_lock, LW_SHARED);
	found = MemoryContextAllocHuge(CurrentMemoryContext, Max(1, hash_get_num_entries(entries)) * sizeof(SeqEntry));
	hash_seq_init(&scan, entries);
	while ((e = hash_seq_search(&scan)) != NULL)
	{
		if (e->key.database != MyDatabaseId)
			continue;
		LWLockAcquire(&e->lock, LW_SHARED);
		memcpy(&found[n++], e, sizeof(SeqEntry));
		LWLockRelease(&e->lock);
	}
	LWLockRelease(table_lock);
	while (n-- > 0)
	{
		if (far_end(&found[n], &value) && has_file(found[n].key.relid, found[n].file) && renew_names(&found[n]))
			put_lease(rsinfo, &found[n], value, seen);
	}
	pfree(found);
}

void
sequence_reported(void)
{
	shared->reported = true;
}

/*
 * Sequences of all databases whose position here is not yet the position of all nodes; and a row
 * without names if it is not known, since the server was started, which they are.
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
			continue;			/* its lock is taken: next time then */
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
	for (int i = 0; i < n; i++)
	{
		if (renew_names(&found[i]))
			put_position(rsinfo, &found[i], seen);
	}
	if (n > 0)
		LS_POINT(POSITIONS_READ);
	if (!shared->reported)
	{
		SeqEntry	unknown;

		memset(&unknown, 0, sizeof(unknown));
		put_position(rsinfo, &unknown, seen);
	}
}
