/*
 * turn.c
 *	  Commit order on this node: every decided transaction commits at its seq,
 *	  whichever process executes it here, and exactly once.
 *
 * Shared memory holds `applied`, the highest seq committed on this node, and a
 * ring of claims for the seqs above it.  A process that wants to commit seq n
 * claims n, waits until applied = n - 1, commits, and passes the turn.
 *
 *				  claim				   applied = n-1		  commit
 *		FREE -----------> CLAIMED ------------------> TURN ----------> PASSED
 *		  ^					 |							|			applied = n
 *		  +------------------+--------------------------+
 *						release (abort)
 *
 * Only a commit passes the turn.  After an abort the seq is FREE again and
 * another process claims it (an apply session, with the transaction from the
 * journal).  While a seq is CLAIMED a second claimant waits for the outcome;
 * if that is PASSED it is told so and rolls back.  For example:
 *
 *		backend, origin of 7		apply session, has 8	apply session, has 7
 *		claim 7						claim 8					.
 *		turn: applied = 6			wait					claim 7: waits
 *		commit 7, pass	----------> woken, turn				"already applied"
 *									commit 8, pass			rolls back
 *
 * A node that catches up commits several transactions in a row as one: then a
 * process claims their range, [first, last], all of it or nothing, waits for
 * applied = first - 1, and passes last.  A reader sees all of them or none.  It
 * does not wait for other claimants, as it would hold seqs that these wait for.
 *
 * Who may call what: commit.c alone claims, passes and releases; anybody may
 * read `applied` or wait for it.
 *
 * Locking: everything but `applied` is protected by the LWLock of the tranche
 * "LockstepTurn", exclusive.  `applied` is written under it and read without;
 * it only grows.  No process sleeps while holding the lock.  Latches are how
 * processes are woken: a passer wakes the one process that can go on, and
 * those waiters whose seq is reached.
 *
 * After a crash of any backend the postmaster makes shared memory anew: the
 * turn is closed, writes are refused, until the replicator says up to where
 * the databases' progress reaches (turn_open).
 *
 * A session may hold the turn: then no process commits above a certain seq, until
 * the session lets go, ends, or has taken longer than it said.  It is how
 * lockstepctl verify gets snapshots of several nodes at one seq.  No process waits
 * for the hold but the owner of the seq that would be next; a process that finds it
 * overdue lifts it, so that the holder can tell that it was in force to the end.
 * One who has claimed a range that the hold would divide gives it back instead.
 *
 * A claim belongs to the generation of the replicator (generation.c) that gave the
 * seq: one of another generation than the node's is refused, compared under the
 * lock.  Those that had claimed before a generation was raised go on if their turn
 * has come, or give up; turn_drain() waits for them.
 */
#include "postgres.h"

#include <limits.h>

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "generation.h"
#include "lockstep.h"
#include "monotonic.h"
#include "points.h"
#include "turn.h"

#define TURN_RING 4096			/* claims ahead */
#define TURN_PAST (1 << 20)		/* seqs whose transactions are known: half a
								 * minute of 30,000 a second */
#define PAST_MARGIN 4096		/* the oldest of them, which may go meanwhile */
#define PAST_SEARCHED 65536		/* for a transaction, one by one */
#define NO_PROCESS (-1)
#define TURN_FREE PG_UINT64_MAX

typedef struct TurnShared
{
	uint64		boot;			/* random, of this start; never changes */
	pg_atomic_uint64 applied;	/* highest seq committed here */
	bool		open;			/* applied is known */
	int			claimant[TURN_RING];	/* pgprocno that claimed the seq that
										 * has this place above applied, or
										 * NO_PROCESS */
	TransactionId *xids;		/* TURN_PAST, of the seqs at or below applied */
	uint64	   *chains;			/* of these, too; 0: not known */
	int			nwaiting;		/* entries of waiting[] */
	int		   *waiting;		/* pgprocnos, MaxBackends of them: a heap, the
								 * lowest seq first */
	int		   *place;			/* by pgprocno, in waiting[], while it waits */
	uint64	   *waiting_for;	/* by pgprocno: seq, 0 = does not wait */
	pg_atomic_uint64 held_at;	/* no commit above it; TURN_FREE: all may.
								 * Read without the lock, after applied */
	int			holder;			/* pgprocno, or NO_PROCESS */
	int			holder_pid;
	MonoTime	held_until;		/* 0: as long as the holder lives */
	pg_atomic_uint64 generation;	/* of the replicator; only grows. Written
									 * under the lock, read without */
	uint64		run;			/* of that generation */
	uint64	   *claimed_with;	/* by pgprocno: generation of its last claim */
	int			drainer;		/* pgprocno in turn_drain(), or NO_PROCESS */
	bool		diverged;		/* see turn_note_divergence() */
} TurnShared;

static TurnShared *turn = NULL;
static LWLock *turn_lock = NULL;

static Size
turn_shmem_size(void)
{
	Size		size = MAXALIGN(sizeof(TurnShared));

	size = add_size(size, MAXALIGN(mul_size(MaxBackends, 2 * sizeof(int))));
	return add_size(size, MAXALIGN(mul_size(MaxBackends, 2 * sizeof(uint64))));
}

/* Pages of it are used when the first transactions come there. */
static Size
past_shmem_size(void)
{
	return mul_size(TURN_PAST, sizeof(uint64) + sizeof(TransactionId));
}

void
turn_shmem_request(void)
{
	RequestAddinShmemSpace(add_size(turn_shmem_size(), past_shmem_size()));
	RequestNamedLWLockTranche("LockstepTurn", 1);
}

/* Called with AddinShmemInitLock held. */
void
turn_shmem_startup(void)
{
	bool		found;
	bool		past_found;
	char	   *at;
	uint64	   *past = ShmemInitStruct("lockstep past", past_shmem_size(), &past_found);

	turn = ShmemInitStruct("lockstep turn", turn_shmem_size(), &found);
	turn_lock = &(GetNamedLWLockTranche("LockstepTurn"))->lock;
	if (found)
		return;

	memset(turn, 0, turn_shmem_size());
	at = (char *) turn + MAXALIGN(sizeof(TurnShared));
	turn->waiting = (int *) at;
	turn->place = turn->waiting + MaxBackends;
	at += MAXALIGN(mul_size(MaxBackends, 2 * sizeof(int)));
	turn->waiting_for = (uint64 *) at;
	turn->claimed_with = turn->waiting_for + MaxBackends;
	turn->chains = past;		/* new shared memory is zero */
	turn->xids = (TransactionId *) (past + TURN_PAST);
	pg_atomic_init_u64(&turn->generation, 0);
	turn->drainer = NO_PROCESS;
	pg_atomic_init_u64(&turn->applied, 0);
	pg_atomic_init_u64(&turn->held_at, TURN_FREE);
	turn->holder = NO_PROCESS;
	for (int i = 0; i < TURN_RING; i++)
		turn->claimant[i] = NO_PROCESS;
	if (!pg_strong_random(&turn->boot, sizeof(turn->boot)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random boot identity")));
}

uint64
turn_boot_id(void)
{
	return turn->boot;
}

uint64
turn_applied(void)
{
	return pg_atomic_read_u64(&turn->applied);
}

bool
turn_is_open(void)
{
	return *(volatile bool *) &turn->open;
}

/* Of applied. */
static JournalPosition
place_applied(void)
{
	JournalPosition position;

	LWLockAcquire(turn_lock, LW_SHARED);
	position.seq = turn_applied();
	position.chain = turn->chains[position.seq % TURN_PAST];
	LWLockRelease(turn_lock);
	return position;
}

JournalPosition
turn_open(JournalPosition position)
{
	LS_POINT(TURN_OPENING);
	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	if (!turn->open)
	{
		turn->chains[position.seq % TURN_PAST] = position.chain;
		pg_atomic_write_u64(&turn->applied, position.seq);
		turn->open = true;
	}
	LWLockRelease(turn_lock);
	position = place_applied();
	LS_POINT(TURN_OPENED);
	return position;
}

/*
 * The current replicator has decided another transaction at a seq than this node
 * has committed: nothing more is committed here until the server is started anew,
 * when the node is compared with the journal again.
 */
void
turn_note_divergence(void)
{
	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	turn->diverged = true;
	LWLockRelease(turn_lock);
}

void
turn_check_divergence(void)
{
	if (*(volatile bool *) &turn->diverged)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("this node has committed another transaction than the replicator's journal has at its place"),
				 errdetail("The server's log says which one."),
				 errhint("Compare it with the other nodes (lockstepctl verify), or clone it anew from one of them.")));
}

uint64
turn_chain_at(uint64 seq)
{
	uint64		chain = 0;
	uint64		applied;

	LWLockAcquire(turn_lock, LW_SHARED);
	applied = turn_applied();
	if (seq <= applied && applied - seq < TURN_PAST)
		chain = turn->chains[seq % TURN_PAST];
	LWLockRelease(turn_lock);
	return chain;
}

/* A seq from before the server's start has no xid here; every snapshot sees it. */
static bool
is_seen(uint64 seq, Snapshot snapshot)
{
	TransactionId xid;

	pg_read_barrier();
	xid = *(volatile TransactionId *) &turn->xids[seq % TURN_PAST];
	pg_read_barrier();
	if (turn_applied() - seq >= TURN_PAST - 1)
		return false;			/* it may have been another seq's */
	return !TransactionIdIsValid(xid) || !XidInMVCCSnapshot(xid, snapshot);
}

/*
 * Commits are in order, so what a snapshot sees is a prefix of them: its end is looked for backwards,
 * by steps that double, as most snapshots are young.  What is longer ago than is known here gives 0,
 * which is never too much.
 */
uint64
turn_seen_by(Snapshot snapshot)
{
	uint64		newest = turn_applied();
	uint64		oldest = newest >= TURN_PAST ? newest - TURN_PAST + PAST_MARGIN : 0;
	uint64		seen = newest;
	uint64		unseen = newest + 1;

	for (uint64 step = 1; seen > oldest && !is_seen(seen, snapshot); step *= 2)
	{
		unseen = seen;
		seen = seen - oldest > step ? seen - step : oldest;
	}
	if (seen == oldest && oldest > 0 && !is_seen(oldest, snapshot))
		return 0;
	while (unseen - seen > 1)
	{
		uint64		middle = seen + (unseen - seen) / 2;

		if (is_seen(middle, snapshot))
			seen = middle;
		else
			unseen = middle;
	}
	return seen;
}

/* xid may be a subtransaction's.  Not under the lock, which all commits need. */
uint64
turn_seq_of(TransactionId xid)
{
	uint64		highest = turn_applied();
	uint64		lowest = highest >= PAST_SEARCHED ? highest - PAST_SEARCHED + 1 : 1;

	if (TransactionIdFollowsOrEquals(xid, TransactionXmin))
		xid = SubTransGetTopmostTransaction(xid);
	pg_read_barrier();
	for (uint64 seq = highest; seq >= lowest; seq--)
	{
		if (*(volatile TransactionId *) &turn->xids[seq % TURN_PAST] != xid)
			continue;
		pg_read_barrier();
		return turn_applied() - seq < TURN_PAST - 1 ? seq : 0;
	}
	return 0;
}

static int *
claim_of(uint64 seq)
{
	return &turn->claimant[seq % TURN_RING];
}

static void
wake(int procno)
{
	SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

/* ---------- waiting for applied to reach a seq */

static void
waiter_put(int i, int procno)
{
	turn->waiting[i] = procno;
	turn->place[procno] = i;
}

/* Place a process in the heap, of which the i-th entry is free. */
static void
waiter_sift(int i, int procno)
{
	uint64		seq = turn->waiting_for[procno];

	for (int up = (i - 1) / 2; i > 0 && turn->waiting_for[turn->waiting[up]] > seq; up = (i - 1) / 2)
	{
		waiter_put(i, turn->waiting[up]);
		i = up;
	}
	for (int down = 2 * i + 1; down < turn->nwaiting; down = 2 * i + 1)
	{
		if (down + 1 < turn->nwaiting &&
			turn->waiting_for[turn->waiting[down + 1]] < turn->waiting_for[turn->waiting[down]])
			down++;
		if (turn->waiting_for[turn->waiting[down]] >= seq)
			break;
		waiter_put(i, turn->waiting[down]);
		i = down;
	}
	waiter_put(i, procno);
}

/* Put this process among those that wait.  Caller holds the lock. */
static void
waiter_add(uint64 seq)
{
	int			me = ls_procno(MyProc);
	bool		waits = turn->waiting_for[me] != 0;

	turn->waiting_for[me] = seq;
	waiter_sift(waits ? turn->place[me] : turn->nwaiting++, me);
}

/* It waits no more.  Caller holds the lock. */
static void
waiter_remove(int procno)
{
	int			last = turn->waiting[--turn->nwaiting];

	turn->waiting_for[procno] = 0;
	if (last != procno)
		waiter_sift(turn->place[procno], last);
}

/*
 * Wake and forget those who wait for a seq up to this one.  A process that
 * died while waiting is forgotten here, too: a latch set for nothing is
 * harmless.  Caller holds the lock.
 */
static void
waiters_wake(uint64 seq)
{
	while (turn->nwaiting > 0 && turn->waiting_for[turn->waiting[0]] <= seq)
	{
		int			procno = turn->waiting[0];

		waiter_remove(procno);
		wake(procno);
	}
}

/* Stop waiting, after an interrupt. */
static void
waiter_forget_me(void)
{
	int			me = ls_procno(MyProc);

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	if (turn->waiting_for[me] != 0)
		waiter_remove(me);
	LWLockRelease(turn_lock);
}

/* For people, and to find circles: who waits for which seq; who holds the turn, 0: no process. */
int
turn_waiters(int *pids, uint64 *seqs, int *holder, uint64 *held_at)
{
	int			n = 0;

	LWLockAcquire(turn_lock, LW_SHARED);
	for (int i = 0; i < turn->nwaiting; i++)
	{
		pids[n] = ProcGlobal->allProcs[turn->waiting[i]].pid;
		seqs[n] = turn->waiting_for[turn->waiting[i]];
		n += pids[n] != 0;
	}
	*holder = turn->holder != NO_PROCESS ? turn->holder_pid : 0;
	*held_at = pg_atomic_read_u64(&turn->held_at);
	LWLockRelease(turn_lock);
	return n;
}

/* One sleep on the latch; the caller looks again at what it waits for. */
static void
sleep_on_latch(long timeout_ms)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	if (timeout_ms >= 0)
		events |= WL_TIMEOUT;
	(void) WaitLatch(MyLatch, events, timeout_ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Sleep, interruptibly, being on the list of waiters. */
static void
sleep_as_waiter(long timeout_ms)
{
	PG_TRY();
	{
		sleep_on_latch(timeout_ms);
		CHECK_FOR_INTERRUPTS();
	}
	PG_CATCH();
	{
		waiter_forget_me();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * For a process that sleeps elsewhere (on a socket, say), with our latch: true, and
 * the latch is set as soon as it becomes false.  A process that stops asking
 * stays on the list; that does no harm.
 */
bool
turn_must_wait(uint64 seq)
{
	bool		must;

	if (turn_applied() >= seq)
		return false;
	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	must = turn_applied() < seq;
	if (must)
		waiter_add(seq);
	LWLockRelease(turn_lock);
	return must;
}

void
turn_wait_applied(uint64 seq)
{
	while (turn_must_wait(seq))
		sleep_as_waiter(-1);
}

bool
turn_wait_applied_until(uint64 seq, MonoTime deadline)
{
	while (turn_must_wait(seq))
	{
		long		ms = mono_ms_left(deadline);

		if (ms <= 0)
			return false;
		sleep_as_waiter(ms);
	}
	return true;
}

/*
 * The same, for those who may take no interrupts: sleeps once, for as long at
 * most.  The caller looks at what it waits for, and sleeps again.
 */
void
turn_wait_applied_for(uint64 seq, long timeout_ms)
{
	if (!turn_must_wait(seq))
		return;
	sleep_on_latch(timeout_ms);
	if (turn_applied() < seq)
		waiter_forget_me();
}

/* ---------- holding the turn */

/* The process that was kept from committing by the hold.  Caller holds the lock. */
static void
wake_next(void)
{
	int			next = *claim_of(turn_applied() + 1);

	if (next != NO_PROCESS)
		wake(next);
}

/* Caller holds the lock. */
static void
hold_lift(void)
{
	pg_atomic_write_u64(&turn->held_at, TURN_FREE);
	turn->holder = NO_PROCESS;
	wake_next();
}

/* Milliseconds, -1: no end.  Caller holds the lock. */
static long
hold_ms_left_locked(void)
{
	if (turn->holder == NO_PROCESS)
		return 0;
	if (turn->held_until == 0)
		return -1;
	return mono_ms_left(turn->held_until);
}

static long
hold_ms_left(void)
{
	long		ms;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	ms = hold_ms_left_locked();
	LWLockRelease(turn_lock);
	return ms;
}

/* True: there is none any more. */
static bool
hold_is_overdue(void)
{
	bool		overdue;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	overdue = hold_ms_left_locked() == 0;
	if (overdue && turn->holder != NO_PROCESS)
		hold_lift();
	LWLockRelease(turn_lock);
	return overdue;
}

/* Of two waiting times, -1 being for ever. */
static long
sooner(long a, long b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

static void
hold_at_exit(int code, Datum arg)
{
	(void) turn_release_commits();
}

static bool
hold_is_mine(void)
{
	return turn->holder == ls_procno(MyProc);
}

/*
 * Where this node can stop.  The next seq may be committing just now, if it is
 * claimed; if it is not, the process that claims it will see the hold.  Caller holds the
 * lock.
 */
static uint64
hold_here(void)
{
	uint64		at = turn_applied();
	int			next = *claim_of(at + 1);

	/* a process has one claim only, of one seq or of several in a row */
	while (next != NO_PROCESS && *claim_of(at + 1) == next && at - turn_applied() < LS_MAX_TOGETHER)
		at++;
	return at;
}

uint64
turn_hold(uint64 seq, MonoTime until)
{
	static bool registered = false;
	int			other = 0;
	bool		over = false;
	uint64		at;

	if (!registered)
		before_shmem_exit(hold_at_exit, (Datum) 0);
	registered = true;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	if (turn->holder != NO_PROCESS && hold_ms_left_locked() == 0)
		hold_lift();
	if (turn->holder != NO_PROCESS && !hold_is_mine())
		other = turn->holder_pid;
	over = seq != 0 && turn->holder == NO_PROCESS;
	at = hold_here();
	if (hold_is_mine())
		at = Max(seq, pg_atomic_read_u64(&turn->held_at));
	if (other == 0 && !over)
	{
		pg_atomic_write_u64(&turn->held_at, at);
		turn->holder = ls_procno(MyProc);
		turn->holder_pid = MyProcPid;
		turn->held_until = until;
		wake_next();
	}
	LWLockRelease(turn_lock);

	if (other != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("commits on this node are being held by another session"),
				 errdetail("It is process %d.", other)));
	if (over)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session does not hold commits any more")));
	return at;
}

bool
turn_release_commits(void)
{
	bool		mine;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	mine = hold_is_mine();
	if (mine)
		hold_lift();
	LWLockRelease(turn_lock);
	return mine;
}

/* Is nothing committed here until we let go? */
bool
turn_is_held_by_us(void)
{
	bool		held;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	held = hold_is_mine() && turn->held_until == 0 &&
		pg_atomic_read_u64(&turn->held_at) == turn_applied();
	LWLockRelease(turn_lock);
	return held;
}

/* ---------- claiming, waiting for, passing and giving back the turn */

/* All of the range is above applied and unclaimed.  Caller holds the lock. */
static bool
range_is_free(uint64 first, uint64 last)
{
	if (first <= turn_applied())
		return false;
	for (uint64 seq = first; seq <= last; seq++)
	{
		if (*claim_of(seq) != NO_PROCESS)
			return false;
	}
	return true;
}

/*
 * Try once.  False: another process has claimed it, or it is further ahead than
 * the ring reaches; we are on the list of waiters then.
 */
static bool
try_claim(uint64 first, uint64 last, uint64 generation, TurnClaim *result)
{
	uint64		applied;
	bool		done = true;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	applied = turn_applied();
	if (generation != turn_generation_number())
		*result = TURN_OUTDATED;
	else if (last <= applied)
		*result = TURN_ALREADY_APPLIED;
	else if (last - applied > TURN_RING)
	{
		waiter_add(last - TURN_RING);
		done = false;
	}
	else if (range_is_free(first, last))
	{
		for (uint64 seq = first; seq <= last; seq++)
			*claim_of(seq) = ls_procno(MyProc);
		turn->claimed_with[ls_procno(MyProc)] = generation;
		*result = TURN_CLAIMED;
	}
	else if (first != last)
		*result = TURN_NOT_TOGETHER;
	else
	{
		waiter_add(last);
		done = false;
	}
	LWLockRelease(turn_lock);
	return done;
}

TurnClaim
turn_claim(uint64 first, uint64 last, uint64 generation)
{
	TurnClaim	result;

	Assert(first <= last && last - first < TURN_RING);

	if (!turn_is_open())
		ereport(ERROR,
				(errcode(ERRCODE_CANNOT_CONNECT_NOW),
				 errmsg("this node does not commit yet"),
				 errdetail("The replicator has not told it, since the server started, where to go on.")));
	turn_check_divergence();
	while (!try_claim(first, last, generation, &result))
		sleep_as_waiter(-1);
	return result;
}

/*
 * The session that holds the turn, and is to make the node what the others are at
 * a seq ahead, claims everything up to there that can be claimed: so no process has a
 * place that is jumped over.  0: done; else a process that has claimed one, or -1.
 */
int
turn_claim_ahead(uint64 last)
{
	uint64		first;
	int			other = 0;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	first = turn_applied() + 1;
	for (uint64 seq = first; seq <= last && seq - first < TURN_RING && other == 0; seq++)
	{
		int			claimant = *claim_of(seq);

		if (claimant != NO_PROCESS && claimant != ls_procno(MyProc))
		{
			other = ProcGlobal->allProcs[claimant].pid;
			if (other == 0)
				other = -1;		/* it is ending, and gives it back */
		}
	}
	for (uint64 seq = first; seq <= last && seq - first < TURN_RING && other == 0; seq++)
		*claim_of(seq) = ls_procno(MyProc);
	LWLockRelease(turn_lock);
	return other;
}

static bool
range_has_come(uint64 first, uint64 last)
{
	if (turn_applied() + 1 != first)
		return false;
	pg_read_barrier();
	return last <= pg_atomic_read_u64(&turn->held_at) || hold_is_overdue();
}

bool
turn_has_come(uint64 seq)
{
	return range_has_come(seq, seq);
}

static bool
range_is_next(uint64 first, uint64 last, long timeout_ms)
{
	if (range_has_come(first, last))
		return true;
	sleep_on_latch(turn_applied() + 1 == first ? sooner(timeout_ms, hold_ms_left()) : timeout_ms);
	return range_has_come(first, last);
}

bool
turn_is_next(uint64 seq, long timeout_ms)
{
	return range_is_next(seq, seq, timeout_ms);
}

/* Can't the range be committed as one, because commits are held within it? */
static bool
range_is_held_within(uint64 first, uint64 last)
{
	uint64		held_at = pg_atomic_read_u64(&turn->held_at);

	return held_at >= first && held_at < last;
}

bool
turn_wait(uint64 first, uint64 last)
{
	while (!range_has_come(first, last))
	{
		CHECK_FOR_INTERRUPTS();
		if (range_is_held_within(first, last))
			return false;
		(void) range_is_next(first, last, -1);
	}
	return true;
}

/* A process that jumps ahead claims more than there are places; those that count. */
static uint64
within_ring(uint64 first, uint64 last)
{
	return last - first < TURN_RING ? first : last - TURN_RING + 1;
}

/* What is between is not known by its chain. */
static void
note_past(uint64 first, JournalPosition last)
{
	TransactionId xid = GetTopTransactionIdIfAny();

	if (last.seq - first >= TURN_PAST)
		first = last.seq - TURN_PAST + 1;
	for (uint64 seq = first; seq <= last.seq; seq++)
	{
		turn->xids[seq % TURN_PAST] = xid;
		turn->chains[seq % TURN_PAST] = seq == last.seq ? last.chain : 0;
	}
}

/* The claimant of the range has committed.  Does not fail. */
void
turn_pass(uint64 first, JournalPosition last)
{
	int			next;
	int			drainer;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	Assert(turn_applied() + 1 == first);
	note_past(first, last);
	for (uint64 seq = within_ring(first, last.seq); seq <= last.seq; seq++)
	{
		Assert(*claim_of(seq) == ls_procno(MyProc));
		*claim_of(seq) = NO_PROCESS;
	}
	pg_write_barrier();
	pg_atomic_write_u64(&turn->applied, last.seq);
	next = *claim_of(last.seq + 1);
	drainer = turn->drainer;
	if (turn->nwaiting > 0)
		waiters_wake(last.seq);
	LWLockRelease(turn_lock);

	if (next != NO_PROCESS)
		wake(next);
	if (drainer != NO_PROCESS)
		wake(drainer);
}

/* The claimant of the range has aborted: a process that waits for its outcome claims it. */
void
turn_release(uint64 first, uint64 last)
{
	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	for (uint64 seq = within_ring(first, last); seq <= last; seq++)
	{
		Assert(*claim_of(seq) == ls_procno(MyProc));
		*claim_of(seq) = NO_PROCESS;
	}
	for (int i = 0; i < turn->nwaiting; i++)
	{
		uint64		seq = turn->waiting_for[turn->waiting[i]];

		if (seq >= first && seq <= last)
			wake(turn->waiting[i]);
	}
	if (turn->drainer != NO_PROCESS)
		wake(turn->drainer);
	LWLockRelease(turn_lock);
}

/* ---------- generations */

uint64
turn_generation_number(void)
{
	return pg_atomic_read_u64(&turn->generation);
}

Generation
turn_generation(void)
{
	Generation	current;

	LWLockAcquire(turn_lock, LW_SHARED);
	current.number = turn_generation_number();
	current.run = turn->run;
	LWLockRelease(turn_lock);
	return current;
}

/* If it is higher.  Returns what it was before. */
Generation
turn_raise(Generation to)
{
	Generation	before;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	before.number = turn_generation_number();
	before.run = turn->run;
	if (to.number > before.number)
	{
		turn->run = to.run;
		pg_atomic_write_u64(&turn->generation, to.number);
	}
	LWLockRelease(turn_lock);
	return before;
}

/* Is a seq claimed with another generation than the node's? */
static bool
is_older_claimed(void)
{
	uint64		current = turn_generation_number();
	bool		found = false;

	LWLockAcquire(turn_lock, LW_EXCLUSIVE);
	for (int i = 0; i < TURN_RING && !found; i++)
		found = turn->claimant[i] != NO_PROCESS && turn->claimed_with[turn->claimant[i]] != current;
	turn->drainer = found ? ls_procno(MyProc) : NO_PROCESS;
	LWLockRelease(turn_lock);
	return found;
}

/* Until nothing that an older generation ordered can commit any more. */
void
turn_drain(void)
{
	while (is_older_claimed())
	{
		sleep_on_latch(-1);
		CHECK_FOR_INTERRUPTS();
	}
}
