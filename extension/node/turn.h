/*
 * turn.h
 *	  The commit order of this node, in shared memory.
 */
#ifndef LOCKSTEP_TURN_H
#define LOCKSTEP_TURN_H

#include "utils/snapshot.h"

#include "generation.h"
#include "lockstep.h"
#include "monotonic.h"

extern void turn_shmem_request(void);
extern void turn_shmem_startup(void);

/* ---------- where this node is */

/* Highest seq that is committed on this node, its S.  Lock-free. */
extern uint64 turn_applied(void);

/* Random, made when the postmaster starts. */
extern uint64 turn_boot_id(void);

/* The highest seq that the snapshot contains; less if that was long ago. */
extern uint64 turn_seen_by(struct SnapshotData *snapshot);

/* The seq of a transaction committed here lately, else 0. */
extern uint64 turn_seq_of(TransactionId xid);

/* The chain of this node's history at seq, which must be applied; 0: not known (any more). */
extern uint64 turn_chain_at(uint64 seq);

/* ---------- opening it: until then no seq can be claimed */

extern bool turn_is_open(void);

/* Opens the turn at a position, if it is closed.  Returns where the node is. */
extern JournalPosition turn_open(JournalPosition position);

/* ---------- claiming, passing and releasing a seq: commit.c only */

typedef enum TurnClaim
{
	TURN_CLAIMED,
	TURN_ALREADY_APPLIED,
	TURN_NOT_TOGETHER,			/* a part of the range is applied, or claimed
								 * by another process */
	TURN_OUTDATED				/* the node follows another generation */
} TurnClaim;

/*
 * Claim first to last for a verdict of this generation.  A single seq waits,
 * interruptibly, for the outcome of an earlier claimant.
 */
extern TurnClaim turn_claim(uint64 first, uint64 last, uint64 generation);

/*
 * For the session that holds commits: claim all from the next seq to last.  Returns 0,
 * or the pid of a process that has claimed one of them (-1: one that is ending).
 */
extern int	turn_claim_ahead(uint64 last);

/* May the owner of seq commit?  Without waiting. */
extern bool turn_has_come(uint64 seq);

/* The same after sleeping once, until the latch or the timeout (-1: none); takes no interrupts. */
extern bool turn_is_next(uint64 seq, long timeout_ms);

/*
 * Wait, interruptibly, until applied == first - 1.  False: commits are held at a seq
 * between first and last.
 */
extern bool turn_wait(uint64 first, uint64 last);

/* The claimed seqs are committed; wakes the owner of the next one. */
extern void turn_pass(uint64 first, JournalPosition last);

/* They were rolled back; another process will claim and apply them. */
extern void turn_release(uint64 first, uint64 last);

/* ---------- waiting until a seq is applied */

/* applied < seq?  If so, our latch is set when that changes. */
extern bool turn_must_wait(uint64 seq);

/* Interruptible; the second returns false after the deadline. */
extern void turn_wait_applied(uint64 seq);
extern bool turn_wait_applied_until(uint64 seq, MonoTime deadline);

/* Sleeps once; takes no interrupts. */
extern void turn_wait_applied_for(uint64 seq, long timeout_ms);

/* ---------- holding commits (lockstepctl verify) */

/*
 * No transaction above seq commits (0: above the current one) until this session
 * releases commits or ends, or until the deadline (0: none).  Returns seq.
 */
extern uint64 turn_hold(uint64 seq, MonoTime until);

/* False: they were no longer held, so something may have committed. */
extern bool turn_release_commits(void);

/* Does this session hold commits, and is everything below applied? */
extern bool turn_is_held_by_us(void);

/*
 * Processes that wait for their turn, and their seqs: arrays of MaxBackends.  Returns
 * their number.  *holder: pid of the session that holds commits, 0 if there is none; *held_at: its seq.
 */
extern int	turn_waiters(int *pids, uint64 *seqs, int *holder, uint64 *held_at);

/* ---------- the generation that claims are compared with (generation.c) */

extern uint64 turn_generation_number(void); /* lock-free */
extern Generation turn_generation(void);

/* Raise it, if it is higher.  Returns the former one. */
extern Generation turn_raise(Generation to);

/* Wait, interruptibly, until no claim of an older generation is left. */
extern void turn_drain(void);

/* This node has committed another transaction than the journal has: ERROR from now on. */
extern void turn_note_divergence(void);
extern void turn_check_divergence(void);

#endif							/* LOCKSTEP_TURN_H */
