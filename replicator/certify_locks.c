/*
 * certify_locks.c
 *	  Locks asked first: who gets a table or a row, who waits, who would wait for
 *	  ever.
 *
 * Every key has a list of lock items in the order asked.  An item waits for
 *	 - a granted item of another origin that it conflicts with,
 *	 - one asked earlier, granted or not, so that nobody is overtaken for ever;
 *	   but not if that one waits for an item of our own lock on the same key (an
 *	   upgrade goes before those that wait for what it holds already),
 *	 - a reserved transaction of another origin that has the key in a
 *	   conflicting mode.
 * A lock is granted when none of its items waits.  Locks of one origin never
 * wait for each other: PostgreSQL's own locks order them.  The ddl lock is a
 * key of its own that only locks have.
 *
 * A transaction being reserved waits for any conflicting lock of another
 * origin, even one that waits itself, so that a stream of DML can't keep DDL
 * out.  The exception is a lock that waits, directly or not, for a lock of that
 * transaction's own origin: it comes after that one anyway, and making the
 * origin's other transactions wait for it could close a circle that only the
 * origin's PostgreSQL would see.
 *
 * Waits for reserved transactions are no edges of the wait-for graph: those
 * wait for no lock any more.  The edges are items waiting for items, and
 * transactions that hold a lock and wait for another at their reservation
 * (certifier_lock_blocked).  New edges come only from the calls that look for a
 * circle through their own lock, so none goes unseen.
 */
#include "certify_private.h"

#include <stdlib.h>

#include "buffer.h"

static Lock *
find_lock(const Certifier *c, uint64_t ticket)
{
	Lock	   *lock = c->locks;

	while (lock != NULL && lock->ticket != ticket)
		lock = lock->next;
	return lock;
}

/* Does other wait for something that lock holds on that key? */
static bool
waits_for_granted(const LockItem *other, const Lock *lock)
{
	for (const LockItem *i = other->key->locks; i != NULL; i = i->next_on_key)
	{
		if (i->lock == lock && i->granted && ls_modes_conflict(i->mode, other->mode))
			return true;
	}
	return false;
}

/* Does the waiting item have to wait for other? */
static bool
item_blocks(const LockItem *other, const LockItem *item)
{
	if (other->lock->origin == item->lock->origin ||
		!ls_modes_conflict(other->mode, item->mode))
		return false;
	if (other->granted)
		return true;
	return other->order < item->order && !waits_for_granted(other, item->lock);
}

/* ticket: of the reserved transaction in question, 0: any. */
static bool
reserved_blocks(const Certifier *c, const LockItem *item, uint64_t ticket)
{
	const Key  *key = item->key;
	uint8_t		conflicts = c->conflicts[key->is_table][key_mode_index(item->mode)];

	for (uint32_t i = 0; i < key->nholders; i++)
	{
		const Holder *holder = &key->holders[i];

		if (holder->origin != item->lock->origin && (holder->modes & conflicts) &&
			(ticket == 0 || holder->reservation->ticket == ticket))
			return true;
	}
	return false;
}

/* ---------- the wait-for graph */

typedef struct Search
{
	const Lock *target;			/* look for this lock, or */
	OriginId	origin;			/* if it is NULL for any lock of this origin */
} Search;

static bool waits_for(Certifier *c, Lock *lock, const Search *search);

static bool
step(Certifier *c, Lock *to, const Search *search)
{
	if (search->target != NULL ? to == search->target : to->origin == search->origin)
		return true;
	return to->visited != c->search && waits_for(c, to, search);
}

/* Called on the way back from where the search ended. */
static bool
found_through(Certifier *c, const Lock *lock)
{
	if (c->ncircle < CIRCLE_MAX)
		c->circle[c->ncircle++] = lock->ticket;
	return true;
}

/* Depth first along the edges that leave lock; c->search marks the visited. */
static bool
waits_for(Certifier *c, Lock *lock, const Search *search)
{
	lock->visited = c->search;
	for (const LockItem *item = lock->items; item != NULL; item = item->next_in_lock)
	{
		if (item->granted)
			continue;
		for (const LockItem *other = item->key->locks; other != NULL; other = other->next_on_key)
		{
			if (item_blocks(other, item) && step(c, other->lock, search))
				return found_through(c, lock);
		}
	}
	if (lock->blocked_by != 0)
	{
		Lock	   *blocker = find_lock(c, lock->blocked_by);

		if (blocker != NULL && step(c, blocker, search))
			return found_through(c, lock);
	}
	return false;
}

static bool
waits_for_itself(Certifier *c, Lock *lock)
{
	Search		search = {lock, 0};

	c->search++;
	c->ncircle = 0;
	return waits_for(c, lock, &search);
}

/* Of a transaction of origin with the item's key. */
static bool
is_in_the_way(Certifier *c, const LockItem *item, LsKeyMode mode, OriginId origin)
{
	Search		search = {NULL, origin};

	if (item->lock->origin == origin || !ls_modes_conflict(item->mode, mode))
		return false;
	c->search++;
	c->ncircle = 0;
	return item->granted || !waits_for(c, item->lock, &search);
}

const Lock *
lock_in_the_way(Certifier *c, const Key *key, LsKeyMode mode, OriginId origin)
{
	for (const LockItem *item = key->locks; item != NULL; item = item->next_on_key)
	{
		if (is_in_the_way(c, item, mode, origin))
			return item->lock;
	}
	return NULL;
}

/* ---------- taking and giving back */

/* Has the lock asked for that already? */
static bool
covered(const Lock *lock, const Key *key, LsKeyMode mode)
{
	for (const LockItem *i = lock->items; i != NULL; i = i->next_in_lock)
	{
		if (i->key == key && (i->mode == mode || i->mode == LS_TABLE_X || i->mode == LS_ROW_EXCLUSIVE))
			return true;
	}
	return false;
}

static void
add_item(Certifier *c, Lock *lock, Key *key, LsKeyMode mode)
{
	LockItem  **end = &key->locks;
	LockItem   *item;

	if (covered(lock, key, mode))
		return;
	item = xcalloc(1, sizeof(LockItem));
	item->lock = lock;
	item->key = key;
	item->mode = mode;
	item->order = ++c->next_order;
	item->asked = lock->asked;
	while (*end != NULL)
		end = &(*end)->next_on_key;
	*end = item;
	item->next_in_lock = lock->items;
	lock->items = item;
}

typedef bool (*Wanted) (const LockItem *item, uint64_t keep);

static bool
is_granted(const LockItem *item, uint64_t keep)
{
	return item->granted;
}

static bool
is_asked_early(const LockItem *item, uint64_t keep)
{
	return item->asked <= keep;
}

/* Take items off the lock: those that are not wanted, NULL: all. */
static void
remove_items(Lock *lock, Wanted wanted, uint64_t keep)
{
	LockItem  **link = &lock->items;

	while (*link != NULL)
	{
		LockItem   *item = *link;
		LockItem  **on_key = &item->key->locks;

		if (wanted != NULL && wanted(item, keep))
		{
			link = &item->next_in_lock;
			continue;
		}
		while (*on_key != item)
			on_key = &(*on_key)->next_on_key;
		*on_key = item->next_on_key;
		*link = item->next_in_lock;
		free(item);
	}
}

static void
remove_lock(Certifier *c, Lock *lock)
{
	Lock	  **link = &c->locks;

	remove_items(lock, NULL, 0);
	while (*link != lock)
		link = &(*link)->next;
	*link = lock->next;
	free(lock);
}

void
locks_free(Certifier *c)
{
	while (c->locks != NULL)
		remove_lock(c, c->locks);
}

/* Does any item still wait? */
static bool
must_wait(const Certifier *c, const Lock *lock)
{
	for (const LockItem *item = lock->items; item != NULL; item = item->next_in_lock)
	{
		if (item->granted)
			continue;
		if (reserved_blocks(c, item, 0))
			return true;
		for (const LockItem *other = item->key->locks; other != NULL; other = other->next_on_key)
		{
			if (item_blocks(other, item))
				return true;
		}
	}
	return false;
}

/* Grant it; the highest decided seq that touched one of its keys. */
static uint64_t
grant(Certifier *c, Lock *lock)
{
	uint64_t	seq = c->floor;

	for (LockItem *item = lock->items; item != NULL; item = item->next_in_lock)
	{
		uint64_t	touched = item->key == &c->ddl ? c->highest : key_highest(item->key);

		item->granted = true;
		if (touched > seq)
			seq = touched;
	}
	lock->waiting = false;
	return seq;
}

/* A lock with new items, or an old one looked at again. */
static LockResult
settle(Certifier *c, Lock *lock, uint64_t *seq)
{
	if (!must_wait(c, lock))
	{
		*seq = grant(c, lock);
		return LOCK_GRANTED;
	}
	if (waits_for_itself(c, lock))
	{
		remove_items(lock, is_granted, 0);
		lock->waiting = false;
		if (lock->items == NULL)
			remove_lock(c, lock);
		return LOCK_DEADLOCK;
	}
	lock->waiting = true;
	return LOCK_WAITING;
}

LockResult
certifier_lock(Certifier *c, OriginId origin, uint64_t ticket,
			   const LsKey *keys, size_t nkeys, bool ddl, uint64_t *seq)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
	{
		lock = xcalloc(1, sizeof(Lock));
		lock->ticket = ticket;
		lock->origin = origin;
		lock->next = c->locks;
		c->locks = lock;
	}
	lock->blocked_by = 0;
	lock->asked++;
	for (size_t i = 0; i < nkeys; i++)
	{
		bool		is_table = ls_mode_is_table(keys[i].mode);
		Key		   *key = keytable_find(&c->keys, keys[i].hash, is_table);

		if (key == NULL)
			key = keytable_insert(&c->keys, keys[i].hash, is_table);
		add_item(c, lock, key, keys[i].mode);
	}
	if (ddl)
		add_item(c, lock, &c->ddl, LS_TABLE_X);
	return settle(c, lock, seq);
}

LockResult
certifier_lock_retry(Certifier *c, uint64_t ticket, uint64_t *seq)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		abort();				/* it was never asked for, or has been given
								 * back */
	return settle(c, lock, seq);
}

bool
certifier_lock_waits_for(const Certifier *c, uint64_t ticket, uint64_t reserved)
{
	const Lock *lock = find_lock(c, ticket);

	for (const LockItem *item = lock != NULL ? lock->items : NULL; item != NULL; item = item->next_in_lock)
	{
		if (!item->granted && reserved_blocks(c, item, reserved))
			return true;
	}
	return false;
}

LockResult
certifier_lock_blocked(Certifier *c, uint64_t ticket, uint64_t blocker)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		return LOCK_WAITING;	/* it holds nothing that anybody could wait
								 * for */
	lock->blocked_by = blocker;
	if (!waits_for_itself(c, lock))
		return LOCK_WAITING;
	lock->blocked_by = 0;
	return LOCK_DEADLOCK;
}

size_t
certifier_circle(const Certifier *c, uint64_t *tickets, size_t max)
{
	size_t		n = 0;

	for (size_t i = c->ncircle; i > 0 && n < max; i--)
		tickets[n++] = c->circle[i - 1];
	return n;
}

/* An empty lock stays: it counts the calls. */
void
certifier_unlock_after(Certifier *c, uint64_t ticket, uint64_t keep)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		return;
	remove_items(lock, is_asked_early, keep);
	lock->waiting = false;
	lock->blocked_by = 0;
}

void
certifier_unlock(Certifier *c, uint64_t ticket)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock != NULL)
		remove_lock(c, lock);
}

/* ---------- told to others */

static void
tell_blockers(const Certifier *c, const LockItem *item, LockBlocker found, void *arg)
{
	const Key  *key = item->key;
	uint8_t		conflicts = c->conflicts[key->is_table][key_mode_index(item->mode)];

	for (const LockItem *other = key->locks; other != NULL; other = other->next_on_key)
	{
		if (item_blocks(other, item))
			found(arg, other->lock->ticket, 0);
	}
	for (uint32_t i = 0; i < key->nholders; i++)
	{
		if (key->holders[i].origin != item->lock->origin && (key->holders[i].modes & conflicts))
			found(arg, 0, key->holders[i].reservation->ticket);
	}
}

void
certifier_lock_blockers(const Certifier *c, uint64_t ticket, LockBlocker found, void *arg)
{
	const Lock *lock = find_lock(c, ticket);

	for (const LockItem *item = lock != NULL ? lock->items : NULL; item != NULL; item = item->next_in_lock)
	{
		if (!item->granted)
			tell_blockers(c, item, found, arg);
	}
}

void
certifier_reserve_blockers(Certifier *c, OriginId origin, const LsKey *keys, size_t nkeys,
						   LockBlocker found, void *arg)
{
	for (size_t i = 0; i < nkeys; i++)
	{
		const Key  *key = keytable_find(&c->keys, keys[i].hash, ls_mode_is_table(keys[i].mode));

		if (key == NULL || ls_mode_is_read(keys[i].mode))
			continue;
		for (const LockItem *item = key->locks; item != NULL; item = item->next_on_key)
		{
			if (is_in_the_way(c, item, keys[i].mode, origin))
				found(arg, item->lock->ticket, 0);
		}
	}
}
