/*
 * crashhold.c
 *	  Readers wait, after a crash of this server, for the commits that it has forgotten, or after its promotion for
 *	  those that had not reached it.
 *
 * The journal makes a transaction durable, and COMMIT does not wait for this server's own
 * WAL (lockstep.local_flush).  So a server that crashes, or one whose backend crashes, loses
 * its last commits, which clients know of, and gets them back from the replicator.  Nothing
 * is written here before that, as the node is not online.  Reads are held:
 *
 *		server starts		replicator speaks		applied = target
 *		   | held, target unknown  | held, target = seq	   | recovered
 *
 * The target is what the cluster had decided when the replicator spoke first in this run of
 * the server, so everything that was committed before the crash is below it.  If the crash has emptied
 * unlogged tables (unlogged.c), readers wait for their rows, too.
 *
 * A reader waits for lockstep.recovery_wait at most.  Then, if the replicator has not spoken
 * for as long, the hold is lifted for all: this node is all that there is, and shows what it
 * has.  If the replicator is there, the node is catching up, and the reader fails.
 *
 * The file lockstep_crashed is in the data directory from the crash until the node has
 * recovered, so that stopping and starting the server in between changes nothing.
 *
 * Superusers, walsenders and the replicator's sessions are not held.  At most a quarter of
 * max_connections wait, the others fail at once: those who wait must not keep the
 * replicator out.
 *
 * Locking: everything under the spinlock, but for `phase`.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "replication/walsender.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "compat.h"
#include "crashhold.h"
#include "guc.h"
#include "mode.h"
#include "monotonic.h"
#include "turn.h"
#include "unlogged.h"

#define NAP_MS 1000				/* a timed sleep ends at the latest then */
#define CRASHED_FILE "lockstep_crashed"

typedef enum Phase
{
	PHASE_RECOVERED,			/* or it has not crashed */
	PHASE_HELD,
	PHASE_LIFTED				/* commits may be missing, and readers go on */
} Phase;

/* What the replicator has said in this run of the server. */
typedef struct Spoken
{
	uint64		target;			/* seq, as it was said first */
	MonoTime	heard;			/* when it spoke last; 0: it has not */
} Spoken;

typedef struct CrashHoldShared
{
	pg_atomic_uint32 phase;		/* a Phase */
	slock_t		mutex;
	Spoken		spoken;
	int			waiters;
	ConditionVariable changed;	/* it has spoken, or the hold has ended */
} CrashHoldShared;

static CrashHoldShared *shared = NULL;

void
crashhold_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(CrashHoldShared)));
}

static bool
is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/*
 * Did the last run end without the checkpoint that makes all of it durable?  What is restored
 * from a backup has not run: it is where it is meant to be.  A standby that is promoted lacks what
 * had not reached it; until then readers are not held, as it is in recovery.
 */
static bool
has_crashed(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		clean = crc_ok && (control->state == DB_SHUTDOWNED || control->state == DB_SHUTDOWNED_IN_RECOVERY);

	pfree(control);
	return is_there(STANDBY_SIGNAL_FILE) || (!clean && !is_there(BACKUP_LABEL_FILE) && !is_there(RECOVERY_SIGNAL_FILE));
}

/* Is there a crash to recover from, this one or an earlier one? */
static bool
note_crash(void)
{
	int			fd;

	if (is_there(CRASHED_FILE))
		return true;
	if (!has_crashed())
		return false;
	fd = OpenTransientFile(CRASHED_FILE, O_WRONLY | O_CREAT | PG_BINARY);
	if (fd < 0 || CloseTransientFile(fd) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", CRASHED_FILE)));
	fsync_fname(CRASHED_FILE, false);
	fsync_fname(".", true);
	return true;
}

/* Called with AddinShmemInitLock held; in the postmaster, before recovery begins. */
void
crashhold_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep crash hold", sizeof(CrashHoldShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->changed);
	pg_atomic_init_u32(&shared->phase, PHASE_RECOVERED);
	if (ls_is_node() && !IsUnderPostmaster && IsPostmasterEnvironment && note_crash())
		pg_atomic_write_u32(&shared->phase, PHASE_HELD);
}

static Phase
phase(void)
{
	return (Phase) pg_atomic_read_u32(&shared->phase);
}

/* One process gets to do what follows a change. */
static bool
enter_phase(Phase next, const char *why)
{
	Phase		before = (Phase) pg_atomic_exchange_u32(&shared->phase, next);

	ConditionVariableBroadcast(&shared->changed);
	if (before == PHASE_HELD)
		ereport(LOG,
				(errmsg("queries are no longer held after the crash or promotion of this server"),
				 errdetail_internal("%s", why)));
	return before != next;
}

static void
recovered(void)
{
	if (enter_phase(PHASE_RECOVERED, "This node has applied what it may have forgotten."))
		(void) durable_unlink(CRASHED_FILE, LOG);
}

/* Is all here that may have been forgotten, the rows of unlogged tables, too? */
static bool
is_complete(uint64 target)
{
	return turn_applied() >= target && !unlogged_is_awaited();
}

bool
crashhold_is_recovered(void)
{
	return phase() == PHASE_RECOVERED;
}

void
crashhold_heartbeat(uint64 seq)
{
	Spoken	   *spoken = &shared->spoken;
	MonoTime	now = mono_now();
	bool		first;
	uint64		target;

	if (likely(phase() == PHASE_RECOVERED))
		return;
	SpinLockAcquire(&shared->mutex);
	first = spoken->heard == 0;
	if (first)
		spoken->target = seq;
	spoken->heard = now;
	target = spoken->target;
	SpinLockRelease(&shared->mutex);
	if (is_complete(target))
		recovered();
	else if (first)
		ConditionVariableBroadcast(&shared->changed);
}

/* ---------- a reader */

static bool
is_exempt(void)
{
	return ls_mode() != LS_MODE_ORIGIN || am_walsender || MyBackendType != B_BACKEND ||
		superuser_arg(GetSessionUserId()) || RecoveryInProgress();
}

static Spoken
spoken_so_far(void)
{
	Spoken		spoken;

	SpinLockAcquire(&shared->mutex);
	spoken = shared->spoken;
	SpinLockRelease(&shared->mutex);
	return spoken;
}

static void
report_too_many(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("this node has not caught up since its server crashed or was promoted"),
			 errdetail("A quarter of max_connections wait for that already."),
			 errhint("Retry later, or read from another node.")));
}

static void
report_behind(uint64 target)
{
	if (turn_applied() >= target)
		ereport(ERROR,
				(errcode(ERRCODE_CANNOT_CONNECT_NOW),
				 errmsg("this node has not caught up since its server crashed or was promoted"),
				 errdetail("The crash has emptied its unlogged tables, and their rows have not come yet from another node."),
				 errhint("Retry later, or read from another node. lockstepctl status shows what the node waits for.")));
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("this node has not caught up since its server crashed or was promoted"),
			 errdetail("It has applied transaction %llu, and may have forgotten transactions up to %llu.",
					   (unsigned long long) turn_applied(), (unsigned long long) target),
			 errhint("Retry later, or read from another node. lockstepctl status shows how far it is.")));
}

/* Its time is over. */
static void
give_up(void)
{
	Spoken		spoken = spoken_so_far();

	if (spoken.heard != 0 && mono_ms_since(spoken.heard) <= Max(ls_recovery_wait, 2 * NAP_MS))
		report_behind(spoken.target);
	(void) enter_phase(PHASE_LIFTED, "The replicator did not speak in time: commits may be missing until it does.");
}

static void
wait_until(MonoTime deadline)
{
	while (phase() == PHASE_HELD)
	{
		Spoken		spoken = spoken_so_far();
		long		ms = Min(mono_ms_left(deadline), NAP_MS);

		if (ms <= 0)
		{
			give_up();
			break;
		}
		if (spoken.heard != 0 && is_complete(spoken.target))
		{
			recovered();
			break;
		}
		if (spoken.heard != 0 && turn_applied() < spoken.target)
			(void) turn_wait_applied_until(spoken.target, mono_after(ms));
		else
			(void) ConditionVariableTimedSleep(&shared->changed, ms, PG_WAIT_EXTENSION);
	}
}

static bool
enter(void)
{
	bool		fits;

	SpinLockAcquire(&shared->mutex);
	fits = shared->waiters < Max(MaxConnections / 4, 1);
	if (fits)
		shared->waiters++;
	SpinLockRelease(&shared->mutex);
	return fits;
}

static void
leave(int code, Datum arg)
{
	ConditionVariableCancelSleep();
	SpinLockAcquire(&shared->mutex);
	shared->waiters--;
	SpinLockRelease(&shared->mutex);
}

bool
crashhold_wait(void)
{
	if (likely(phase() != PHASE_HELD) || is_exempt())
		return false;
	if (!enter())
		report_too_many();
	PG_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	{
		wait_until(mono_after(ls_recovery_wait));
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	leave(0, (Datum) 0);
	return true;
}
