/*
 * certify_locks.c
 *	  Locks requested first: which one is granted, which one waits, which one would close a
 *	  cycle of waits.
 *
 * Every key has a list of lock items in the order of the requests.  An item waits for
 *	 - a granted item of another origin that it conflicts with,
 *	 - an earlier one, granted or not, so that none is overtaken for ever; but not if
 *	   that one waits for an item of the same lock on the same key (an upgrade goes
 *	   before those that wait for what its lock holds already),
 *	 - a reserved transaction of another origin that has the key in a
 *	   conflicting mode.
 * A table in mode LS_TABLE_READ_ROWS is a gate: a request for rows names it, so that rows
 * are not granted while another lock holds the whole table, or requested it earlier.
 * Otherwise the two would block each other at their COMMITs; and other transactions could
 * repeatedly get rows before the one that has the table.  A gate waits for earlier requests
 * only, holds nothing, blocks nothing, and is removed when its lock is granted.
 *
 * A lock is granted when none of its items waits.  Locks of one origin do not wait for each
 * other: PostgreSQL's own locks order them.  The ddl lock is a key that only locks have, and the exception:
 * PostgreSQL has no lock like that (DdlLock in certify.h).
 *
 * A transaction being reserved waits for any conflicting lock of another origin, even one that
 * waits itself, so that a stream of DML cannot starve DDL.  The exception is a lock that waits,
 * directly or not, for a lock of that transaction's own origin: it comes after that one anyway,
 * and making the origin's other transactions wait for it could close a cycle that only the
 * origin's PostgreSQL would see.
 *
 * A lock that yields (of rows, lockstep.update_order = auto) is in no reservation's way: it orders
 * those that request, and whoever commits first still wins.
 *
 * Waits for reserved transactions are no edges of the wait-for graph, as those wait for no lock
 * any more.  The edges are items that wait for items, and transactions that hold a lock and wait
 * for another at their reservation (certifier_lock_blocked).  New edges come only from the calls
 * that search for a cycle through their own lock, so each cycle is seen.
 */
#include "certify_private.h"

#include <stdlib.h>

#include "buffer.h"

static Lock **
bucket_of(Certifier *c, uint64_t ticket)
{
	return &c->locks[ticket % LOCK_BUCKETS];
}

static Lock *
find_lock(const Certifier *c, uint64_t ticket)
{
	Lock	   *lock = c->locks[ticket % LOCK_BUCKETS];

	while (lock != NULL && lock->ticket != ticket)
		lock = lock->next;
	return lock;
}

/* Modes that conflict with every mode of the key. */
static bool
is_strongest(LsKeyMode mode)
{
	return mode == LS_ROW_EXCLUSIVE || mode == LS_TABLE_X;
}

/*
 * Items of one key that come first, as far as it matters for those behind them: their origins, by
 * mode.  So a long queue is followed only to where what is behind waits whatever it is.
 */
typedef struct Ahead
{
	uint64_t	origins[KEY_MODES]; /* bit per origin */
} Ahead;

static uint64_t
bit_of(const LockItem *item)
{
	return UINT64_C(1) << item->lock->origin;
}

/* Origins of those ahead that a mode of the key conflicts with. */
static uint64_t
origins_ahead(const Certifier *c, const Ahead *ahead, bool is_table, unsigned mode)
{
	uint8_t		conflicts = c->conflicts[is_table][mode];
	uint64_t	origins = 0;

	for (unsigned m = 0; m < KEY_WRITE_MODES; m++)
	{
		if (conflicts & (1 << m))
			origins |= ahead->origins[m];
	}
	return origins;
}

/* Is one of another origin ahead that the item conflicts with? */
static bool
is_behind(const Certifier *c, const Ahead *ahead, const LockItem *item)
{
	return (origins_ahead(c, ahead, item->key->is_table, key_mode_index(item->mode)) & ~bit_of(item)) != 0;
}

/* The same for any item, whatever its origin, with one of the modes. */
static bool
all_are_behind(const Certifier *c, const Ahead *ahead, bool is_table, uint8_t modes)
{
	for (unsigned m = 0; m < KEY_WRITE_MODES; m++)
	{
		uint64_t	origins = (modes & (1 << m)) ? origins_ahead(c, ahead, is_table, m) : UINT64_MAX;

		if ((origins & (origins - 1)) == 0)
			return false;		/* of one origin at most */
	}
	return true;
}

/* false: it was there. */
static bool
put_ahead(Ahead *ahead, const LockItem *item)
{
	uint64_t   *origins = &ahead->origins[key_mode_index(item->mode)];
	uint64_t	before = *origins;

	*origins |= bit_of(item);
	return *origins != before;
}

static bool
is_gate(LsKeyMode mode)
{
	return mode == LS_TABLE_READ_ROWS;
}

static LockItem *
first_item(const Key *key)
{
	return key->locks != NULL ? key->locks->first : NULL;
}

/* The first item that waits, or NULL. */
static LockItem *
first_waiting(const Lock *lock)
{
	return lock->items != NULL && !lock->items->granted ? lock->items : NULL;
}

static LockItem *
next_waiting(const LockItem *item)
{
	LockItem   *next = item->next_in_lock;

	return next != NULL && !next->granted ? next : NULL;
}

/* Do the two, of one key, never wait for each other, whatever their modes? */
static bool
are_beside(const LockItem *a, const LockItem *b)
{
	if (a->lock == b->lock || a->lock->origin != b->lock->origin)
		return a->lock == b->lock;
	return !a->ddl.wanted || (a->ddl.parallel && b->ddl.parallel) ||
		(a->ddl.scope != b->ddl.scope && a->ddl.scope != 0 && b->ddl.scope != 0);
}

static bool
meet(const LockItem *a, const LockItem *b)
{
	return !are_beside(a, b) && ls_modes_conflict(a->mode, b->mode);
}

/* Is an item what is looked for, with regard to another one of its key? */
typedef bool (*Fits) (const LockItem *item, const LockItem *other);

static bool
is_any(const LockItem *item, const LockItem *other)
{
	return true;
}

static bool
covers(const LockItem *item, const LockItem *other)
{
	return (item->mode == other->mode || is_strongest(item->mode)) &&
		(!item->ddl.parallel || other->ddl.parallel) &&
		(item->ddl.scope == 0 || item->ddl.scope == other->ddl.scope);
}

static bool
is_granted_against(const LockItem *item, const LockItem *other)
{
	return item->granted && meet(item, other);
}

static bool
is_in_list(const LockItem *first, const Lock *lock, Fits fits, const LockItem *other)
{
	for (const LockItem *i = first; i != NULL; i = i->next_on_key)
	{
		if (i->lock == lock && fits(i, other))
			return true;
	}
	return false;
}

/* Has the lock such an item of the key?  A lock may have many keys, and a key many locks, but hardly both. */
static bool
has_item(const Lock *lock, const Key *key, Fits fits, const LockItem *other)
{
	const LockQueue *q = key->locks;

	if (q == NULL)
		return false;
	if (q->nitems < lock->nitems)
		return is_in_list(q->first, lock, fits, other) || is_in_list(q->gates, lock, fits, other);
	for (const LockItem *i = lock->items; i != NULL; i = i->next_in_lock)
	{
		if (i->key == key && fits(i, other))
			return true;
	}
	return false;
}

/* Does other wait for something that the item's lock holds on their key? */
static bool
waits_for_granted(const LockItem *other, const LockItem *item)
{
	return item->again && has_item(item->lock, item->key, is_granted_against, other);
}

/* The first one that the waiting item may have to wait for. */
static const LockItem *
first_before(const LockItem *item)
{
	return item->gate && item->queue->nstrongest == 0 ? NULL : item->queue->first;
}

/* Does the waiting item have to wait for other? */
static bool
item_blocks(const LockItem *other, const LockItem *item)
{
	if (!meet(other, item))
		return false;
	if (other->granted && !item->gate)
		return true;
	return other->order < item->order && !waits_for_granted(other, item);
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

		if ((holder->modes & conflicts) && holder->origin != item->lock->origin &&
			(ticket == 0 || holder->reservation->ticket == ticket))
			return true;
	}
	return false;
}

/* ---------- the wait-for graph */

#define SEARCH_STEPS 1000

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
	if (c->ncycle < CYCLE_MAX)
		c->cycle[c->ncycle++] = lock->ticket;
	return true;
}

/*
 * Depth first along the edges that leave lock; c->visited marks visited locks.  After
 * SEARCH_STEPS the search stops as if it had found nothing, because the work for each
 * transaction must not grow with the number of waiting ones; the search of waits.c finds what
 * was missed.
 */
static bool
waits_for(Certifier *c, Lock *lock, const Search *search)
{
	lock->visited = c->search;
	for (const LockItem *item = first_waiting(lock); item != NULL; item = next_waiting(item))
	{
		for (const LockItem *other = first_before(item); other != NULL && c->steps > 0; other = other->next_on_key)
		{
			c->steps--;
			if (other == item && item->queue->nagain == 0)
				break;			/* no request behind it is in its way */
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
search_from(Certifier *c, Lock *lock, const Search *search)
{
	c->search++;
	c->ncycle = 0;
	c->steps = SEARCH_STEPS;
	return waits_for(c, lock, search);
}

static bool
waits_for_itself(Certifier *c, Lock *lock)
{
	Search		search = {lock, 0};

	return search_from(c, lock, &search);
}

/* Of a transaction of origin with the item's key. */
static bool
is_in_the_way(Certifier *c, const LockItem *item, LsKeyMode mode, OriginId origin)
{
	Search		search = {NULL, origin};

	if (item->yields || item->lock->origin == origin || !ls_modes_conflict(item->mode, mode))
		return false;
	return item->granted || !search_from(c, item->lock, &search);
}

/*
 * A lock that is not in the way though its mode conflicts is of that origin or waits for it.  If the
 * queue is in its apparent order, another one that waits behind such a lock waits for that origin,
 * too, and no search is needed.
 */
const Lock *
lock_blocker(Certifier *c, const Key *key, LsKeyMode mode, OriginId origin)
{
	Ahead		ahead = {{0}};
	uint8_t		conflicts = c->conflicts[key->is_table][key_mode_index(mode)];

	for (const LockItem *item = first_item(key); item != NULL; item = item->next_on_key)
	{
		bool		in_order = key->locks->nagain == 0;

		if (item->yields)
			continue;
		if (!(in_order && !item->granted && is_behind(c, &ahead, item)) &&
			is_in_the_way(c, item, mode, origin))
			return item->lock;
		if ((conflicts & (1 << key_mode_index(item->mode))) && put_ahead(&ahead, item) &&
			in_order && all_are_behind(c, &ahead, key->is_table, conflicts))
			return NULL;		/* no item behind them is granted */
	}
	return NULL;
}

/* ---------- taking and giving back */

void
locks_touch(Certifier *c, LockQueue *q, bool strongest)
{
	q->opened |= strongest && q->gates != NULL;
	if (q->touched || (q->nwaiting == 0 && !q->opened))
		return;
	q->touched = true;
	q->next_touched = c->touched;
	c->touched = q;
}

static LockQueue *
queue_of(Key *key)
{
	if (key->locks == NULL)
	{
		key->locks = xcalloc(1, sizeof(LockQueue));
		key->locks->key = key;
	}
	return key->locks;
}

static void
free_if_empty(LockQueue *q)
{
	if (q->first != NULL || q->gates != NULL || q->touched)
		return;
	q->key->locks = NULL;
	free(q);
}

static void
link_gate(LockQueue *q, LockItem *item)
{
	item->gate = true;
	item->again = has_item(item->lock, item->key, is_any, item);
	item->next_on_key = q->gates;
	if (q->gates != NULL)
		q->gates->prev_on_key = item;
	q->gates = item;
}

static void
link_item(LockQueue *q, LockItem *item)
{
	item->again = has_item(item->lock, item->key, is_any, item);
	item->prev_on_key = q->last;
	*(q->last != NULL ? &q->last->next_on_key : &q->first) = item;
	q->last = item;
	q->nwaiting++;
	q->waiting[key_mode_index(item->mode)]++;
	q->nagain += item->again;
	q->nstrongest += is_strongest(item->mode);
}

static void
unlink_gate(LockItem *item)
{
	*(item->prev_on_key != NULL ? &item->prev_on_key->next_on_key : &item->queue->gates) = item->next_on_key;
	if (item->next_on_key != NULL)
		item->next_on_key->prev_on_key = item->prev_on_key;
}

static void
no_longer_waits(const LockItem *item)
{
	item->queue->nwaiting--;
	item->queue->waiting[key_mode_index(item->mode)]--;
}

/* Locks that waited for it may be granted. */
static void
unlink_item(Certifier *c, LockItem *item)
{
	LockQueue  *q = item->queue;

	*(item->prev_on_key != NULL ? &item->prev_on_key->next_on_key : &q->first) = item->next_on_key;
	*(item->next_on_key != NULL ? &item->next_on_key->prev_on_key : &q->last) = item->prev_on_key;
	if (!item->granted)
		no_longer_waits(item);
	q->nagain -= item->again;
	q->nstrongest -= is_strongest(item->mode);
	locks_touch(c, q, is_strongest(item->mode));
}

/* Unless its lock has requested as much already. */
static void
add_item(Certifier *c, const LockItem *wanted)
{
	LockQueue  *q;
	LockItem   *item;

	if (has_item(wanted->lock, wanted->key, covers, wanted))
		return;
	q = queue_of(wanted->key);
	item = xmalloc(sizeof(LockItem));
	*item = *wanted;
	item->queue = q;
	item->order = ++c->next_order;
	item->asked = item->lock->asked;
	if (is_gate(item->mode))
		link_gate(q, item);
	else
		link_item(q, item);
	q->nitems++;
	item->next_in_lock = item->lock->items;
	item->lock->items = item;
	item->lock->nitems++;
}

static void
remove_from_key(Certifier *c, LockItem *item)
{
	LockQueue  *q = item->queue;

	if (item->gate)
		unlink_gate(item);
	else
		unlink_item(c, item);
	q->nitems--;
	free_if_empty(q);
}

/* Remove the item that *link is. */
static void
remove_item(Certifier *c, Lock *lock, LockItem **link)
{
	LockItem   *item = *link;

	remove_from_key(c, item);
	*link = item->next_in_lock;
	lock->nitems--;
	free(item);
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

/* Remove items from the lock: those that are not wanted, or (NULL) all. */
static void
remove_items(Certifier *c, Lock *lock, Wanted wanted, uint64_t keep)
{
	LockItem  **link = &lock->items;

	while (*link != NULL)
	{
		if (wanted != NULL && wanted(*link, keep))
			link = &(*link)->next_in_lock;
		else
			remove_item(c, lock, link);
	}
	if (lock->items == NULL)
		lock->seq = 0;
}

static void
remove_lock(Certifier *c, Lock *lock)
{
	Lock	  **link = bucket_of(c, lock->ticket);

	remove_items(c, lock, NULL, 0);
	while (*link != lock)
		link = &(*link)->next;
	*link = lock->next;
	c->nlocks--;
	free(lock);
}

/* Take the first one off the list. */
static void
untouch(Certifier *c)
{
	LockQueue  *q = c->touched;

	c->touched = q->next_touched;
	q->touched = false;
	q->opened = false;
	free_if_empty(q);
}

void
locks_free(Certifier *c)
{
	for (size_t i = 0; i < LOCK_BUCKETS; i++)
	{
		while (c->locks[i] != NULL)
			remove_lock(c, c->locks[i]);
	}
	while (c->touched != NULL)
		untouch(c);
}

/* Does any item still wait? */
static bool
must_wait(const Certifier *c, const Lock *lock)
{
	for (const LockItem *item = first_waiting(lock); item != NULL; item = next_waiting(item))
	{
		for (const LockItem *other = first_before(item); other != NULL; other = other->next_on_key)
		{
			if (other == item && item->queue->nagain == 0)
				break;			/* no request behind it is in its way */
			if (item_blocks(other, item))
				return true;
		}
		if (reserved_blocks(c, item, 0))
			return true;
	}
	return false;
}

/* It has to wait, so its rows that others have are contended. */
static void
note_fights(Certifier *c, Lock *lock)
{
	for (LockItem *item = first_waiting(lock); item != NULL; item = next_waiting(item))
	{
		const LockItem *other = item->queue->first;

		if (item->key->is_table)
			continue;
		while (other != NULL && other->lock->origin == lock->origin)
			other = other->next_on_key;
		if (other != NULL || item->key->nholders > 0)
			key_fought(c, item->key);
	}
}

/* Grant it; the highest decided seq that had touched one of its keys when that was granted. */
static uint64_t
grant(Certifier *c, Lock *lock)
{
	LockItem  **link = &lock->items;

	while (*link != NULL && !(*link)->granted)
	{
		LockItem   *item = *link;
		uint64_t	touched;

		if (item->gate)
		{
			remove_item(c, lock, link);
			continue;
		}
		touched = item->key == &c->ddl ? c->highest : key_highest(item->key);
		if (touched > lock->seq)
			lock->seq = touched;
		no_longer_waits(item);
		item->granted = true;
		link = &item->next_in_lock;
	}
	lock->waiting = false;
	return lock->seq > c->floor ? lock->seq : c->floor;
}

LockResult
certifier_lock(Certifier *c, OriginId origin, uint64_t ticket,
			   const LsKey *keys, size_t nkeys, DdlLock ddl, bool yields, uint64_t *seq)
{
	Lock	   *lock = find_lock(c, ticket);
	LockItem	wanted = {0};
	size_t		added = 0;

	if (lock == NULL)
	{
		lock = xcalloc(1, sizeof(Lock));
		lock->ticket = ticket;
		lock->origin = origin;
		lock->next = *bucket_of(c, ticket);
		*bucket_of(c, ticket) = lock;
		c->nlocks++;
	}
	lock->blocked_by = 0;
	lock->asked++;
	wanted.lock = lock;
	wanted.yields = yields;
	for (size_t i = 0; i < nkeys; i++)
	{
		bool		is_table = ls_mode_is_table(keys[i].mode);
		Key		   *key = keytable_find(&c->keys, keys[i].hash, is_table);

		if (key == NULL)
		{
			key = keytable_insert(&c->keys, keys[i].hash, is_table);
			added++;
		}
		wanted.key = key;
		wanted.mode = keys[i].mode;
		add_item(c, &wanted);
	}
	if (ddl.wanted)
	{
		wanted.key = &c->ddl;
		wanted.mode = LS_TABLE_X;
		wanted.ddl = ddl;
		add_item(c, &wanted);
	}
	keytable_sweep(&c->keys, added * SWEEP_PER_NEW_KEY, c->floor);
	if (!must_wait(c, lock))
	{
		*seq = grant(c, lock);
		return LOCK_GRANTED;
	}
	note_fights(c, lock);
	lock->waiting = true;

	/*
	 * a new one is last in each queue and holds nothing: nobody waits for it
	 * yet
	 */
	if (lock->asked == 1 || !waits_for_itself(c, lock))
		return LOCK_WAITING;
	lock->asked--;				/* this call does not count */
	remove_items(c, lock, is_granted, 0);
	lock->waiting = false;
	if (lock->items == NULL && lock->asked == 0)
		remove_lock(c, lock);
	return LOCK_DEADLOCK;
}

/* ---------- granting to those that wait */

static uint8_t
modes_waiting(const LockQueue *q)
{
	uint8_t		modes = 0;

	for (unsigned m = 0; m < KEY_MODES; m++)
	{
		if (q->waiting[m] > 0)
			modes |= (uint8_t) (1 << m);
	}
	return modes;
}

/* The first item of the queue that need not wait any more. */
static Lock *
grantable_of_queue(const Certifier *c, const LockQueue *q)
{
	Ahead		ahead = {{0}};
	uint8_t		waiting = modes_waiting(q);

	if (q->nwaiting == 0)
		return NULL;
	for (LockItem *item = q->first; item != NULL; item = item->next_on_key)
	{
		if (!item->granted && (q->nagain > 0 || !is_behind(c, &ahead, item)) && !must_wait(c, item->lock))
			return item->lock;
		if (put_ahead(&ahead, item) && q->nagain == 0 && all_are_behind(c, &ahead, q->key->is_table, waiting))
			break;
	}
	return NULL;
}

static Lock *
grantable(const Certifier *c, const LockQueue *q)
{
	Lock	   *lock = grantable_of_queue(c, q);

	for (const LockItem *gate = q->opened ? q->gates : NULL; gate != NULL && lock == NULL; gate = gate->next_on_key)
	{
		if (!must_wait(c, gate->lock))
			lock = gate->lock;
	}
	return lock;
}

bool
certifier_next_grant(Certifier *c, uint64_t *ticket, uint64_t *seq)
{
	while (c->touched != NULL)
	{
		Lock	   *lock = grantable(c, c->touched);

		if (lock != NULL)
		{
			*ticket = lock->ticket;
			*seq = grant(c, lock);
			return true;
		}
		untouch(c);
	}
	return false;
}

bool
certifier_lock_waits_for(const Certifier *c, uint64_t ticket, uint64_t reserved)
{
	const Lock *lock = find_lock(c, ticket);

	for (const LockItem *item = lock != NULL ? first_waiting(lock) : NULL; item != NULL; item = next_waiting(item))
	{
		if (reserved_blocks(c, item, reserved))
			return true;
	}
	return false;
}

LockResult
certifier_lock_blocked(Certifier *c, uint64_t ticket, uint64_t blocker)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		return LOCK_WAITING;	/* it holds nothing that another could wait
								 * for */
	lock->blocked_by = blocker;
	if (!waits_for_itself(c, lock))
		return LOCK_WAITING;
	lock->blocked_by = 0;
	return LOCK_DEADLOCK;
}

size_t
certifier_cycle(const Certifier *c, uint64_t *tickets, size_t max)
{
	size_t		n = 0;

	for (size_t i = c->ncycle; i > 0 && n < max; i--)
		tickets[n++] = c->cycle[i - 1];
	return n;
}

/* An empty lock remains: it counts the calls. */
void
certifier_unlock_after(Certifier *c, uint64_t ticket, uint64_t keep)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		return;
	remove_items(c, lock, is_asked_early, keep);
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

/*
 * From the item forward.  Not those for which another one that was told waits, directly or not:
 * the graph has that wait.  So in a queue of equals each waits for a few, however long the queue.
 */
static void
tell_items(const Certifier *c, const LockItem *item, LockBlocker found, void *arg)
{
	const LockQueue *q = item->queue;
	bool		in_order = q->nagain == 0 && !item->gate;
	uint8_t		conflicts = c->conflicts[item->key->is_table][key_mode_index(item->mode)];
	Ahead		told = {{0}};	/* or waited for by these; and waiting */

	for (const LockItem *other = in_order ? item->prev_on_key : q->last; other != NULL; other = other->prev_on_key)
	{
		bool		implied = in_order && is_behind(c, &told, other);
		bool		blocks = item_blocks(other, item);

		if (blocks && !implied)
			found(arg, other->lock->ticket, 0);
		if (in_order && !other->granted && (blocks || implied) && put_ahead(&told, other) &&
			all_are_behind(c, &told, item->key->is_table, conflicts))
			break;
	}
}

static void
tell_blockers(const Certifier *c, const LockItem *item, LockBlocker found, void *arg)
{
	const Key  *key = item->key;
	uint8_t		conflicts = c->conflicts[key->is_table][key_mode_index(item->mode)];

	tell_items(c, item, found, arg);
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

	for (const LockItem *item = lock != NULL ? first_waiting(lock) : NULL; item != NULL; item = next_waiting(item))
		tell_blockers(c, item, found, arg);
}

void
certifier_lock_give_up(Certifier *c, uint64_t ticket)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock == NULL)
		return;
	remove_items(c, lock, is_granted, 0);
	lock->waiting = false;
}

uint64_t
certifier_lock_first_blocker(const Certifier *c, uint64_t ticket)
{
	const Lock *lock = find_lock(c, ticket);

	for (const LockItem *item = lock != NULL ? first_waiting(lock) : NULL; item != NULL; item = next_waiting(item))
	{
		if (item->queue->first != NULL && item->queue->first != item)
			return item->queue->first->lock->ticket;
	}
	return 0;
}

void
certifier_lock_set_owner(Certifier *c, uint64_t ticket, void *owner)
{
	Lock	   *lock = find_lock(c, ticket);

	if (lock != NULL)
		lock->owner = owner;
}

void *
certifier_lock_owner(const Certifier *c, uint64_t ticket)
{
	const Lock *lock = find_lock(c, ticket);

	return lock != NULL ? lock->owner : NULL;
}

void
certifier_reserve_blockers(Certifier *c, OriginId origin, const LsKey *keys, size_t nkeys,
						   LockBlocker found, void *arg)
{
	for (size_t i = 0; i < nkeys && c->nlocks > 0; i++)
	{
		const Key  *key = keytable_find(&c->keys, keys[i].hash, ls_mode_is_table(keys[i].mode));

		if (key == NULL || ls_mode_is_read(keys[i].mode))
			continue;
		for (const LockItem *item = first_item(key); item != NULL; item = item->next_on_key)
		{
			if (is_in_the_way(c, item, keys[i].mode, origin))
				found(arg, item->lock->ticket, 0);
		}
	}
}

void
certifier_ddl_holders(const Certifier *c, void (*found) (void *arg, uint64_t holder, uint64_t waiting), void *arg)
{
	const LockQueue *queue = c->ddl.locks;

	for (const LockItem *i = queue != NULL && queue->nwaiting > 0 ? queue->first : NULL; i != NULL; i = i->next_on_key)
	{
		const LockItem *waiting = i->granted ? queue->first : NULL;

		while (waiting != NULL && (waiting->granted || !item_blocks(i, waiting)))
			waiting = waiting->next_on_key;
		if (waiting != NULL)
			found(arg, i->lock->ticket, waiting->lock->ticket);
	}
}
