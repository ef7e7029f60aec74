/*
 * contended.c
 *	  Rows that several nodes have wanted at the same time lately: with
 *	  lockstep.update_order = auto they are requested before they are changed (lockorder.c).
 *
 * The replicator knows them, because it orders what all nodes do.  It tells a node with the
 * verdict of a transaction that has such a row, lost or not, so both sides of a conflict learn it
 * with the next transaction at the latest, without a message of its own.  A row that is not
 * mentioned again is forgotten after LS_CONTENDED_MS.
 *
 * Where many rows of a table are contended, the others will be: they need not be learned one by
 * one, at the price of a conflict each.
 *
 * The table is in shared memory, by hash, WAYS entries in a set, without a lock: all that
 * can go wrong is that a row is requested in vain or one is not, which costs a round trip or
 * a conflict.
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "contended.h"
#include "lockstep.h"
#include "monotonic.h"

#define SETS 1024				/* a power of two */
#define WAYS 4
#define TABLES 256				/* a power of two */
#define RECENT_ROWS 64			/* of a table */
#define FEW_ROWS 4
#define CONTENDED_SHARE 8		/* one of so many */

typedef struct Entry
{
	pg_atomic_uint64 hash;
	pg_atomic_uint64 until;		/* MonoTime; 0: never used */
} Entry;

/* Rows named lately; another table of the same place begins anew. */
typedef struct Table
{
	pg_atomic_uint64 hash;
	pg_atomic_uint32 named;
	pg_atomic_uint32 contended;
} Table;

typedef struct Contended
{
	pg_atomic_uint64 any_until; /* the latest of all entries */
	Table		tables[TABLES];
	Entry		entries[SETS * WAYS];	/* set after set */
} Contended;

static Contended *contended = NULL;

void
contended_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(Contended));
}

/* Called with AddinShmemInitLock held. */
void
contended_shmem_startup(void)
{
	bool		found;

	contended = ShmemInitStruct("lockstep contended rows", sizeof(Contended), &found);
	if (found)
		return;
	pg_atomic_init_u64(&contended->any_until, 0);
	for (int i = 0; i < TABLES; i++)
	{
		pg_atomic_init_u64(&contended->tables[i].hash, 0);
		pg_atomic_init_u32(&contended->tables[i].named, 0);
		pg_atomic_init_u32(&contended->tables[i].contended, 0);
	}
	for (int i = 0; i < SETS * WAYS; i++)
	{
		pg_atomic_init_u64(&contended->entries[i].hash, 0);
		pg_atomic_init_u64(&contended->entries[i].until, 0);
	}
}

static Entry *
set_of(uint64 hash)
{
	return &contended->entries[(hash & (SETS - 1)) * WAYS];
}

/* That of the hash, else the one that ends first. */
static Entry *
entry_for(uint64 hash)
{
	Entry	   *set = set_of(hash);
	Entry	   *best = &set[0];

	for (int i = 0; i < WAYS; i++)
	{
		if (pg_atomic_read_u64(&set[i].hash) == hash)
			return &set[i];
		if (pg_atomic_read_u64(&set[i].until) < pg_atomic_read_u64(&best->until))
			best = &set[i];
	}
	return best;
}

void
contended_note(LsSlice hashes)
{
	uint64		hash;
	uint64		until;

	if (likely(hashes.len == 0) || contended == NULL)
		return;
	until = (uint64) mono_after(LS_CONTENDED_MS);
	while (ls_next_contended(&hashes, &hash))
	{
		Entry	   *entry = entry_for(hash);

		pg_atomic_write_u64(&entry->hash, hash);
		pg_atomic_write_u64(&entry->until, until);
	}
	pg_atomic_write_u64(&contended->any_until, until);
}

bool
contended_any(void)
{
	uint64		until = contended != NULL ? pg_atomic_read_u64(&contended->any_until) : 0;

	return until != 0 && (uint64) mono_now() < until;
}

bool
contended_has(uint64 hash)
{
	Entry	   *set = set_of(hash);

	for (int i = 0; i < WAYS; i++)
	{
		if (pg_atomic_read_u64(&set[i].hash) == hash)
			return (uint64) mono_now() < pg_atomic_read_u64(&set[i].until);
	}
	return false;
}

bool
contended_table(uint64 table, int named, int rows)
{
	Table	   *t = &contended->tables[table & (TABLES - 1)];
	bool		same = pg_atomic_read_u64(&t->hash) == table;
	uint32		all = (same ? pg_atomic_read_u32(&t->named) : 0) + named;
	uint32		hot = (same ? pg_atomic_read_u32(&t->contended) : 0) + rows;
	bool		many = hot >= FEW_ROWS && hot * CONTENDED_SHARE >= all;

	while (all >= RECENT_ROWS)
	{
		all /= 2;
		hot /= 2;
	}
	pg_atomic_write_u64(&t->hash, table);
	pg_atomic_write_u32(&t->named, all);
	pg_atomic_write_u32(&t->contended, hot);
	return many;
}
