/*
 * certify.h
 *	  Certification: may this transaction be reserved, and after which decided
 *	  transactions must a peer run it?
 *
 * Pure: no mutex, no I/O, no clock (certifier_set_time()); one thread calls it.  For each key and mode it remembers the
 * highest decided seq and the highest from any other origin than that one (two are enough: a
 * transaction never conflicts with those of its own origin), the transactions that hold the key
 * reserved, and the locks requested first.
 *
 * The rules, for a transaction of origin o and its key (hash, mode, S):
 *	 - a decided transaction of another origin with a conflicting mode and
 *	   seq > S: conflict.  Of any origin with seq <= S, or of o: it becomes a
 *	   dependency (run after it).
 *	 - a reserved transaction with a conflicting mode: of another origin a
 *	   conflict, of o a dependency on its ticket (PostgreSQL's own locks have
 *	   ordered the two at the origin).
 *	 - reads (ls_mode_is_read) are one-sided.  A read with a decided transaction of
 *	   any origin, seq > S, or a reserved one of any origin: conflict.  Reads
 *	   are not remembered once decided.  A change that meets a reserved read does
 *	   not conflict, but depends on its ticket, of whichever origin.
 *	 - S < floor, the seq up to which keys have been forgotten: conflict.
 *	 - all transactions use the catalogs: each depends on the last DDL decided,
 *	   whatever the keys and their S.  The use of a new object (a type, a role, a
 *	   schema, a function) has no key of its own.
 *	 - a table key that another node holds, or waits for before this transaction, as
 *	   a lock requested first: LS_CERTIFY_WAIT, to be tried again when the lock is
 *	   released.
 */
#ifndef LOCKSTEP_CERTIFY_H
#define LOCKSTEP_CERTIFY_H

#include "protocol.h"

typedef struct Certifier Certifier;

/* Origins are small numbers that the caller gives (index of the node), < 64. */
typedef uint32_t OriginId;

typedef enum CertifyResult
{
	CERTIFY_RESERVED,
	CERTIFY_CONFLICT,
	CERTIFY_WAIT
} CertifyResult;

typedef enum ConflictKind
{
	CONFLICT_DECIDED,			/* winner_seq is set */
	CONFLICT_RESERVED,			/* winner_ticket is set */
	CONFLICT_TOO_OLD			/* S below the floor */
} ConflictKind;

typedef struct Certificate
{
	/* CERTIFY_RESERVED */
	uint64_t	depends_on;		/* highest seq to be applied before it runs;
								 * never below the floor */
	const uint64_t *tickets;	/* reserved transactions of the same origin
								 * that must be decided or gone before it
								 * runs; valid until the next call */
	size_t		ntickets;
	uint64_t	contended[LS_MAX_CONTENDED];	/* hashes of its rows' keys
												 * that several origins want */
	size_t		ncontended;
	/* CERTIFY_CONFLICT */
	ConflictKind kind;
	size_t		key_index;		/* which of the keys given */
	OriginId	winner_origin;
	uint64_t	winner_seq;
	uint64_t	winner_ticket;
	/* CERTIFY_WAIT */
	uint64_t	lock_ticket;	/* the lock that blocks it */
} Certificate;

extern Certifier *certifier_create(uint64_t floor);
extern void certifier_destroy(Certifier *c);

/*
 * Try to reserve.  keys: nkeys of them, any order, duplicates allowed.  ticket
 * is greater than every earlier one.  On CERTIFY_RESERVED the keys are held
 * until certifier_decide or certifier_release with that ticket.  ddl: it changes
 * the catalogs.
 */
extern CertifyResult certifier_reserve(Certifier *c, OriginId origin, uint64_t ticket, bool ddl,
									   const LsKey *keys, size_t nkeys, Certificate *out);

/* What certifier_reserve() would return now; changes nothing.  The tickets of out are not in order. */
extern CertifyResult certifier_check(Certifier *c, OriginId origin,
									 const LsKey *keys, size_t nkeys, Certificate *out);

/*
 * A row's key is contended for LS_CONTENDED_MS after transactions of several origins wanted it at
 * the same time: a lock on it that was requested first had to wait, or the caller says so.
 */
extern void certifier_set_time(Certifier *c, uint64_t now_ms);
extern void certifier_row_fought(Certifier *c, uint64_t hash);

/* A reserved transaction got its seq: its keys become history. */
extern void certifier_decide(Certifier *c, uint64_t ticket, uint64_t seq);

/* A reserved transaction is gone without a seq. */
extern void certifier_release(Certifier *c, uint64_t ticket);

/* Learn a decided transaction from the journal (restart).  Returns depends_on. */
extern uint64_t certifier_replay(Certifier *c, OriginId origin, uint64_t seq, bool ddl,
								 const LsKey *keys, size_t nkeys);

/* The last decided transaction with DDL; 0: none that is remembered. */
extern uint64_t certifier_last_ddl(const Certifier *c);

/* Forget everything decided at or below seq: keys with S < seq then conflict. */
extern void certifier_forget(Certifier *c, uint64_t seq);
extern uint64_t certifier_floor(const Certifier *c);
extern size_t certifier_keys(const Certifier *c);	/* remembered keys, for
													 * status */

/*
 * The ddl lock, which orders commands that change catalogs.  Between commands of one origin, too:
 * what one does may depend on the other's change where no lock of PostgreSQL orders them (ALTER DEFAULT
 * PRIVILEGES and CREATE TABLE), and other nodes execute them in the order of their commits.  Those of
 * one origin do not wait for each other if both have a scope and these differ, or if both are parallel.
 */
typedef struct DdlLock
{
	bool		wanted;
	bool		parallel;
	uint64_t	scope;			/* a database; 0: what databases have in
								 * common */
} DdlLock;

/*
 * Locks requested first.  A lock is a ticket of its own with table keys (X) and perhaps the ddl
 * lock; a transaction has one, which further calls with the same ticket extend. Locks are
 * granted in the order of the requests: a lock waits behind an earlier one of another origin
 * with a common key, and while a transaction of another origin that has a conflicting key is
 * reserved.  With rows a table is named in mode LS_TABLE_READ_ROWS, which waits for an earlier X
 * and holds nothing.  yields: only other requests wait for it, no transaction that is reserved.
 */
typedef enum LockResult
{
	LOCK_GRANTED,				/* *seq: the highest decided seq that had
								 * touched one of its keys when that was
								 * granted */
	LOCK_WAITING,				/* certifier_next_grant() will return it */
	LOCK_DEADLOCK				/* it would wait for itself: nothing was taken
								 * by this call, and nothing waits */
} LockResult;

extern LockResult certifier_lock(Certifier *c, OriginId origin, uint64_t ticket,
								 const LsKey *keys, size_t nkeys, DdlLock ddl, bool yields, uint64_t *seq);

/*
 * After locks were released, or transactions decided or released: a lock that waited and has
 * been granted now, and *seq as above.  false: there are no more.  The cost does not grow with
 * the number of locks that continue to wait.
 */
extern bool certifier_next_grant(Certifier *c, uint64_t *ticket, uint64_t *seq);

/* It no longer waits for what it has not got. */
extern void certifier_lock_give_up(Certifier *c, uint64_t ticket);

/* A pointer of the caller that belongs to a lock. */
extern void certifier_lock_set_owner(Certifier *c, uint64_t ticket, void *owner);
extern void *certifier_lock_owner(const Certifier *c, uint64_t ticket); /* NULL: no such lock */

/* Does the waiting lock wait for that reserved transaction? */
extern bool certifier_lock_waits_for(const Certifier *c, uint64_t ticket, uint64_t reserved);

/*
 * The transaction that requested lock `ticket` got CERTIFY_WAIT because of lock `blocker`
 * (Certificate.lock_ticket): remember that it waits for it, until the next call for this lock.
 * LOCK_WAITING, or LOCK_DEADLOCK: it must be rolled back.  blocker 0: it no longer waits.
 */
extern LockResult certifier_lock_blocked(Certifier *c, uint64_t ticket, uint64_t blocker);

/*
 * After LOCK_DEADLOCK: the tickets of the locks in the cycle, that of the call first, each
 * waiting for the next and the last for the first.  Returns their number, at most max.
 */
extern size_t certifier_cycle(const Certifier *c, uint64_t *tickets, size_t max);

/*
 * A part of the transaction was rolled back, and waits for nothing: of its calls of
 * certifier_lock only the first `keep` are still wanted.
 */
extern void certifier_unlock_after(Certifier *c, uint64_t ticket, uint64_t keep);

/*
 * The locks (lock: its ticket) and reserved transactions (reserved: its ticket) that it waits
 * for; the other argument is 0.  Some may be reported more than once; those for which a reported
 * one waits, too, are left out.  Of a lock that waits; of a transaction that got CERTIFY_WAIT.
 */
typedef void (*LockBlocker) (void *arg, uint64_t lock, uint64_t reserved);

/* Holders of the ddl lock that others wait for, each with the first of these. */
extern void certifier_ddl_holders(const Certifier *c, void (*found) (void *arg, uint64_t holder, uint64_t waiting), void *arg);
extern void certifier_lock_blockers(const Certifier *c, uint64_t ticket, LockBlocker found, void *arg);

/* A lock before it in the queue, which changes as the queue advances; 0: none. */
extern uint64_t certifier_lock_first_blocker(const Certifier *c, uint64_t ticket);
extern void certifier_reserve_blockers(Certifier *c, OriginId origin, const LsKey *keys, size_t nkeys,
									   LockBlocker found, void *arg);

/* The transaction ended, or stopped waiting. */
extern void certifier_unlock(Certifier *c, uint64_t ticket);

#endif							/* LOCKSTEP_CERTIFY_H */
