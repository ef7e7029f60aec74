/*
 * generation.c
 *	  Which replicator may order here?  Generations, and what becomes of an older
 *	  one's sessions.
 *
 * Each start of a replicator takes a generation above all that its journal knows,
 * and a random run id.  A replicator that was only stopped for a while, whose place
 * another has taken meanwhile (on a copy of the journal), has a lower one, or the
 * same of another run.  Before a replicator does anything on this node, it enters
 * its generation here:
 *
 *		new replicator				this node						old replicator
 *		enter(8)			 ->		generation = 8
 *									its apply sessions: ended
 *									backends linked to it: woken	verdict: not taken
 *									stored, durable					heartbeat: LS005
 *		turn_open			 ->		waits for commits that had
 *									claimed their turn before
 *							<-		applied, chain
 *
 * Of two with the same number the first one counts, so a number means one run here.
 * A claim of the turn is compared in turn.c, under its lock: from the moment when a
 * generation is entered nothing of an older one begins to commit, whatever it was
 * told before, and when turn_open() returns nothing of it is left.
 *
 * Stored in each database (lockstep.generation), flushed before enter() is
 * answered; the highest of all databases counts, which is for the replicator to
 * find, as it does with progress.  A server that was started anew knows none until
 * it is told, and commits nothing before.  0 is what replicators of earlier versions
 * have; they are refused where another was.
 *
 * Locking: sessions[] under the LWLock of tranche "LockstepGeneration", exclusive.
 * No other lock is taken while it is held.  A session is put there before it is
 * compared with the node's generation, and that is raised before the list is
 * walked, so that one of the two finds the other.
 */
#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "generation.h"
#include "guc.h"
#include "lockstep.h"
#include "mode.h"
#include "points.h"
#include "turn.h"

#define ATTR_GENERATION 1
#define ATTR_RUN 2
#define NATTS 2

typedef enum SessionRole
{
	ROLE_NONE,
	ROLE_LINK,					/* a backend connected to that replicator */
	ROLE_CONTROL,				/* the replicator's own */
	ROLE_APPLY
} SessionRole;

typedef struct GenerationSession
{
	SessionRole role;
	int			pid;
	uint64		generation;
} GenerationSession;

typedef struct GenerationShared
{
	pg_atomic_uint64 heard;		/* monotonic ms when the node's generation was
								 * heard last; 0: its sessions are gone */
	pg_atomic_uint64 beat;		/* the same, of its heartbeats; 0: none yet */
	pg_atomic_uint64 entered;	/* when one entered first; 0: none yet */
	GenerationSession sessions[FLEXIBLE_ARRAY_MEMBER];	/* by pgprocno */
} GenerationShared;

static GenerationShared *shared = NULL;
static LWLock *generation_lock = NULL;

static uint64 mine = 0;			/* of this session, if it is a replicator's */
static bool entered = false;
static uint64 linked = 0;		/* of the replicator that it is linked to */

static Size
generation_shmem_size(void)
{
	return add_size(offsetof(GenerationShared, sessions), mul_size(MaxBackends, sizeof(GenerationSession)));
}

void
generation_shmem_request(void)
{
	RequestAddinShmemSpace(generation_shmem_size());
	RequestNamedLWLockTranche("LockstepGeneration", 1);
}

/* Called with AddinShmemInitLock held. */
void
generation_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep generation", generation_shmem_size(), &found);
	generation_lock = &(GetNamedLWLockTranche("LockstepGeneration"))->lock;
	if (found)
		return;
	memset(shared, 0, generation_shmem_size());
	pg_atomic_init_u64(&shared->heard, 0);
	pg_atomic_init_u64(&shared->beat, 0);
	pg_atomic_init_u64(&shared->entered, 0);
}

/* ---------- sessions of replicators, and those linked to one */

static uint64
now_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (uint64) INSTR_TIME_GET_MILLISEC(now) + 1;
}

/* -1: it has not been yet. */
static int64
ms_since(uint64 then)
{
	return then == 0 ? -1 : (int64) (now_ms() - then);
}

/* Caller holds the lock. */
static bool
has_session(uint64 generation)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		const GenerationSession *s = &shared->sessions[i];

		if ((s->role == ROLE_CONTROL || s->role == ROLE_APPLY) && s->generation == generation)
			return true;
	}
	return false;
}

static void
forget_at_exit(int code, Datum arg)
{
	uint64		current = turn_generation_number();

	LWLockAcquire(generation_lock, LW_EXCLUSIVE);
	shared->sessions[ls_procno(MyProc)].role = ROLE_NONE;
	if (entered && mine == current && !has_session(current))
		pg_atomic_write_u64(&shared->heard, 0);
	LWLockRelease(generation_lock);
}

static void
note_session(SessionRole role, uint64 generation)
{
	static bool registered = false;
	GenerationSession *s = &shared->sessions[ls_procno(MyProc)];

	/* not before_shmem_exit(): a caller may have one to cancel */
	if (!registered)
		on_shmem_exit(forget_at_exit, (Datum) 0);
	registered = true;
	LWLockAcquire(generation_lock, LW_EXCLUSIVE);
	s->role = role;
	s->pid = MyProcPid;
	s->generation = generation;
	LWLockRelease(generation_lock);
}

/*
 * The node's generation was raised: older apply sessions end, with the locks that
 * they hold; a backend linked to an older replicator looks again at what it waits
 * for.  Control sessions are told at their next question.
 */
static void
end_older(uint64 generation)
{
	LWLockAcquire(generation_lock, LW_EXCLUSIVE);
	for (int i = 0; i < MaxBackends; i++)
	{
		const GenerationSession *s = &shared->sessions[i];

		if (s->generation == generation)
			continue;
		if (s->role == ROLE_APPLY)
			(void) kill(s->pid, SIGTERM);
		else if (s->role == ROLE_LINK)
			SetLatch(&ProcGlobal->allProcs[i].procLatch);
	}
	LWLockRelease(generation_lock);
}

/* ---------- in the database */

static Oid
generation_relid(void)
{
	Oid			schema = ls_schema_oid();

	return OidIsValid(schema) ? get_relname_relid("generation", schema) : InvalidOid;
}

/* The row, if any; *tid: where it is. */
static Generation
read_row(Relation rel, ItemPointer tid)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	Generation	found = {0, 0};
	bool		isnull;

	if (HeapTupleIsValid(tuple))
	{
		found.number = (uint64) DatumGetInt64(heap_getattr(tuple, ATTR_GENERATION, RelationGetDescr(rel), &isnull));
		found.run = (uint64) DatumGetInt64(heap_getattr(tuple, ATTR_RUN, RelationGetDescr(rel), &isnull));
		*tid = tuple->t_self;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

static Generation
read_stored(void)
{
	Oid			relid = generation_relid();
	Generation	found = {0, 0};
	ItemPointerData tid;
	Relation	rel;

	if (!OidIsValid(relid))
		return found;			/* SQL objects of an earlier version */
	rel = table_open(relid, AccessShareLock);
	found = read_row(rel, &tid);
	table_close(rel, AccessShareLock);
	return found;
}

static void
write_row(Relation rel, bool is_there, ItemPointer tid, Generation generation)
{
	Datum		values[NATTS];
	bool		nulls[NATTS] = {false};
	HeapTuple	tuple;

	values[ATTR_GENERATION - 1] = Int64GetDatum((int64) generation.number);
	values[ATTR_RUN - 1] = Int64GetDatum((int64) generation.run);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	if (is_there)
		ls_heap_update(rel, tid, tuple);
	else
		simple_heap_insert(rel, tuple);
	heap_freetuple(tuple);

	/* whatever the role or the database has set: it is promised */
	(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/* ---------- comparing */

static bool
is_same(Generation a, Generation b)
{
	return a.number == b.number && a.run == b.run;
}

/* A lower number, or the same of a run that came second. */
static bool
is_behind(Generation a, Generation b)
{
	return a.number < b.number || (a.number == b.number && a.run != b.run);
}

LS_NORETURN static void
report_outdated(uint64 number, Generation known)
{
	ereport(ERROR,
			(errcode(LS_ERRCODE_OUTDATED),
			 errmsg("generation %llu of the replicator is outdated on node \"%s\"",
					(unsigned long long) number, ls_node_name),
			 errdetail("The node follows generation %llu, run %016llx.",
					   (unsigned long long) known.number, (unsigned long long) known.run),
			 errhint("Another replicator has been started on a copy of the journal. One only may go on: see \"Two replicators\" in docs/operating.md.")));
}

/*
 * Of this server and this database.  *served_ms: since its replicator was last
 * heard of; -1: it is not connected.
 */
Generation
generation_known(int64 *served_ms)
{
	Generation	stored = read_stored();
	Generation	current = turn_generation();
	uint64		heard = pg_atomic_read_u64(&shared->heard);

	*served_ms = current.number == 0 ? -1 : ms_since(heard);
	return stored.number > current.number ? stored : current;
}

/* ---------- the replicator's sessions */

/*
 * This session is that replicator's.  A generation that is new here takes the place
 * of the older ones, at once and for good.
 */
void
generation_enter(Generation generation)
{
	Relation	rel;
	Generation	stored;
	Generation	before;
	ItemPointerData tid;

	rel = table_open(generation_relid(), ShareRowExclusiveLock);
	stored = read_row(rel, &tid);
	if (is_behind(generation, stored))
		report_outdated(generation.number, stored);
	before = turn_raise(generation);
	if (is_behind(generation, before))
		report_outdated(generation.number, before);
	if (!is_same(generation, before))
	{
		end_older(generation.number);
		if (before.number != 0)
			ereport(LOG,
					(errmsg("generation %llu of the replicator takes the place of generation %llu",
							(unsigned long long) generation.number, (unsigned long long) before.number)));
	}
	LS_POINT(GENERATION_RAISED);
	if (!is_same(generation, stored))
		write_row(rel, stored.number != 0, &tid, generation);
	table_close(rel, NoLock);
	mine = generation.number;
	entered = true;
	note_session(ROLE_CONTROL, mine);
	if (pg_atomic_read_u64(&shared->entered) == 0)
		pg_atomic_write_u64(&shared->entered, now_ms());
	pg_atomic_write_u64(&shared->heard, now_ms());
}

/* ERROR unless this session's replicator is the one that the node follows. */
void
generation_require(void)
{
	Generation	current = turn_generation();

	if (current.number == 0)
		current = read_stored();
	if (current.number != mine)
		report_outdated(mine, current);
}

/* The same, from now on it applies. */
void
generation_begin_apply(void)
{
	note_session(ROLE_APPLY, mine);
	generation_require();
}

/* ERROR if it has entered a generation that is outdated; people may go on. */
void
generation_check(void)
{
	if (entered && mine != turn_generation_number())
		report_outdated(mine, turn_generation());
}

void
generation_heartbeat(void)
{
	if (mine != turn_generation_number())
		report_outdated(mine, turn_generation());
	if (!entered)
		return;
	pg_atomic_write_u64(&shared->heard, now_ms());
	pg_atomic_write_u64(&shared->beat, now_ms());
}

int64
generation_silent_ms(void)
{
	return ms_since(pg_atomic_read_u64(&shared->beat));
}

/*
 * Heartbeats begin when the node has been attached.  A replicator may die before that, again and
 * again, so only the first one that has entered counts.
 */
int64
generation_unheard_ms(void)
{
	uint64		beat = pg_atomic_read_u64(&shared->beat);

	return ms_since(beat != 0 ? beat : pg_atomic_read_u64(&shared->entered));
}

/* With what an apply session claims its turn. */
uint64
generation_of_session(void)
{
	return mine;
}

/* ---------- backends linked to a replicator */

/* false: the node does not follow that one. */
bool
generation_begin_link(Generation generation)
{
	linked = generation.number;
	note_session(ROLE_LINK, linked);
	return is_same(generation, turn_generation());
}

void
generation_outlast_link(uint64 number)
{
	linked = number;
	note_session(ROLE_LINK, number);
}

/* With what a backend claims its turn. */
uint64
generation_of_link(void)
{
	return linked;
}

bool
generation_link_is_outdated(void)
{
	return linked != turn_generation_number();
}
