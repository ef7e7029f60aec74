/*
 * certify_private.h
 *	  What certify.c (reserve, decide, forget) and certify_locks.c (locks requested
 *	  first) share.
 */
#ifndef LOCKSTEP_CERTIFY_PRIVATE_H
#define LOCKSTEP_CERTIFY_PRIVATE_H

#include "keytable.h"

/* One key of a reserved transaction; duplicates in it are merged. */
typedef struct ReservedKey
{
	Key		   *key;
	uint32_t	holder;			/* index in key->holders */
} ReservedKey;

typedef struct Reservation
{
	uint64_t	ticket;
	OriginId	origin;
	bool		ddl;
	struct Reservation *next;	/* same bucket */
	size_t		nkeys;
	ReservedKey keys[];
} Reservation;

struct Lock;
struct LockItem;

/* Of a key: its lock items, in the order of the requests.  Made with the first item. */
typedef struct LockQueue
{
	Key		   *key;
	struct LockItem *first;
	struct LockItem *last;
	struct LockItem *gates;		/* they hold nothing, and block nothing */
	uint32_t	nitems;			/* with gates */
	uint32_t	nstrongest;		/* what gates wait for, granted or not */
	uint32_t	nwaiting;		/* not granted */
	uint32_t	waiting[KEY_MODES]; /* the same, by mode */
	uint32_t	nagain;			/* of locks that had requested the key before:
								 * the order may differ from the apparent one */
	bool		touched;		/* a waiting item may be granted now: in the
								 * certifier's list */
	bool		opened;			/* and that may be a gate */
	struct LockQueue *next_touched;
} LockQueue;

/* One key of a lock requested first. */
typedef struct LockItem
{
	struct Lock *lock;
	LockQueue  *queue;
	Key		   *key;
	LsKeyMode	mode;
	uint64_t	order;			/* when it was asked */
	uint64_t	asked;			/* by which call for the lock, from 1 */
	bool		granted;
	bool		yields;			/* transactions being reserved do not wait for
								 * it */
	bool		again;			/* its lock has asked for the key before */
	bool		gate;			/* gone when it is granted */
	DdlLock		ddl;			/* of the ddl lock */
	struct LockItem *next_on_key;	/* in the order asked; of gates: any */
	struct LockItem *prev_on_key;
	struct LockItem *next_in_lock;
} LockItem;

typedef struct Lock
{
	uint64_t	ticket;
	OriginId	origin;
	LockItem   *items;			/* the latest first, so those that are not
								 * granted come before the others */
	uint32_t	nitems;
	uint64_t	seq;			/* the highest decided one that had touched a
								 * key when it was granted */
	uint64_t	asked;			/* calls of certifier_lock */
	bool		waiting;		/* some items are not granted */
	uint64_t	blocked_by;		/* its transaction waits at its reservation
								 * for that lock, 0 = it does not */
	uint64_t	visited;		/* search that saw it last */
	void	   *owner;			/* the caller's */
	struct Lock *next;			/* same bucket */
} Lock;

#define LOCK_BUCKETS 1024

#define RESERVATION_BUCKETS 4096

#define CYCLE_MAX 16			/* locks of a cycle that are told */

/*
 * Slots that whoever adds a key looks at, so that the table has hardly more keys than are needed.  Not
 * below 4: a round over the table has to be done before it is half full again.
 */
#define SWEEP_PER_NEW_KEY 4

struct Certifier
{
	uint64_t	floor;
	uint64_t	highest;		/* decided seq */
	uint32_t	now_ms;			/* certifier_set_time() */
	KeyTable	keys;
	Reservation *reservations[RESERVATION_BUCKETS]; /* by ticket */
	uint8_t		conflicts[2][KEY_MODES];	/* [is_table][mode]: bit per mode
											 * that is not a read */
	uint8_t		readers[2][KEY_MODES];	/* the reads, for modes that are none */
	uint64_t	last_ddl;		/* the last decided transaction with DDL, 0:
								 * none */
	/* locks requested first */
	Lock	   *locks[LOCK_BUCKETS];	/* by ticket */
	size_t		nlocks;
	LockQueue  *touched;
	int			steps;			/* that the search under way may still take */
	Key			ddl;			/* the ddl lock: a key of its own */
	uint64_t	next_order;
	uint64_t	search;
	uint64_t	cycle[CYCLE_MAX];	/* the last one found, its end first */
	size_t		ncycle;
	/* scratch, kept from call to call */
	Key		  **found;
	size_t		found_cap;
	uint64_t   *tickets;
	size_t		tickets_cap;
};

/*
 * The lock that a transaction of origin with that key has to wait for, NULL if
 * there is none.
 */
extern const Lock *lock_blocker(Certifier *c, const Key *key, LsKeyMode mode, OriginId origin);

/* Several origins want it: it is contended for a while. */
static inline void
key_fought(const Certifier *c, Key *key)
{
	key->fought_ms = c->now_ms != 0 ? c->now_ms : 1;
}

/* A waiting item of the queue may be granted now; gates, too, if what ended was exclusive. */
extern void locks_touch(Certifier *c, LockQueue *q, bool strongest);
extern void locks_free(Certifier *c);

#endif
