/*
 * certify_model.c
 *	  See certify_model.h.  Included by test_certify.c.
 */
#include "certify_model.h"

#include <string.h>

static bool
same_kind(LsKeyMode a, LsKeyMode b)
{
	return ls_mode_is_table(a) == ls_mode_is_table(b);
}

/* Does a, of a transaction that came first, exclude b?  What was read does not. */
static bool
keys_conflict(const LsKey *a, const LsKey *b)
{
	return !ls_mode_is_read(a->mode) && a->hash == b->hash && same_kind(a->mode, b->mode) &&
		ls_modes_conflict(a->mode, b->mode);
}

/* Does the transaction have a key that conflicts with k? */
static bool
tx_conflicts(const ModelTx *tx, const LsKey *k)
{
	for (size_t i = 0; i < tx->nkeys; i++)
	{
		if (keys_conflict(&tx->keys[i], k))
			return true;
	}
	return false;
}

/* Has the transaction read what k changes? */
static bool
tx_has_read(const ModelTx *tx, const LsKey *k)
{
	for (size_t i = 0; i < tx->nkeys; i++)
	{
		if (ls_mode_is_read(tx->keys[i].mode) && !ls_mode_is_read(k->mode) &&
			keys_conflict(k, &tx->keys[i]))
			return true;
	}
	return false;
}

/* ---------- locks */

ModelLock *
model_find_lock(Model *m, uint64_t ticket)
{
	for (size_t i = 0; i < m->nlocks; i++)
	{
		if (m->locks[i].ticket == ticket)
			return &m->locks[i];
	}
	return NULL;
}

bool
model_lock_waits(const ModelLock *lock)
{
	for (size_t i = 0; i < lock->nitems; i++)
	{
		if (!lock->items[i].granted)
			return true;
	}
	return false;
}

static bool
items_conflict(const ModelItem *a, const ModelItem *b)
{
	return a->ddl.wanted == b->ddl.wanted && a->hash == b->hash && ls_modes_conflict(a->mode, b->mode);
}

/* Holds nothing, see certify_locks.c. */
static bool
is_model_gate(const ModelItem *item)
{
	return item->mode == LS_TABLE_READ_ROWS;
}

/* Locks of one origin are PostgreSQL's matter, but for the ddl lock. */
static bool
do_not_meet(const ModelLock *a, const ModelItem *x, const ModelLock *b, const ModelItem *y)
{
	if (a == b)
		return true;
	if (a->origin != b->origin)
		return false;
	return !x->ddl.wanted || (x->ddl.parallel && y->ddl.parallel) ||
		(x->ddl.scope != 0 && y->ddl.scope != 0 && x->ddl.scope != y->ddl.scope);
}

/* Does item x of a stand in the way of item y of b? */
static bool
stands_in_the_way(const ModelLock *a, const ModelItem *x, const ModelLock *b, const ModelItem *y)
{
	if (!items_conflict(x, y) || do_not_meet(a, x, b, y) || is_model_gate(x))
		return false;
	if (x->granted && !is_model_gate(y))
		return true;
	if (x->order > y->order)
		return false;
	for (size_t i = 0; i < b->nitems; i++)
	{
		if (b->items[i].granted && items_conflict(&b->items[i], x) && !do_not_meet(b, &b->items[i], a, x))
			return false;		/* it waits for us */
	}
	return true;
}

static bool
lock_waits_for_lock(const ModelLock *b, const ModelLock *a)
{
	if (b->blocked_by != 0 && b->blocked_by == a->ticket)
		return true;
	for (size_t y = 0; y < b->nitems; y++)
	{
		for (size_t x = 0; x < a->nitems && !b->items[y].granted; x++)
		{
			if (stands_in_the_way(a, &a->items[x], b, &b->items[y]))
				return true;
		}
	}
	return false;
}

/* Transitive closure of who waits for whom. */
static void
closure(const Model *m, bool waits[MODEL_MAX_LOCKS][MODEL_MAX_LOCKS])
{
	for (size_t i = 0; i < m->nlocks; i++)
	{
		for (size_t j = 0; j < m->nlocks; j++)
			waits[i][j] = lock_waits_for_lock(&m->locks[i], &m->locks[j]);
	}
	for (size_t k = 0; k < m->nlocks; k++)
	{
		for (size_t i = 0; i < m->nlocks; i++)
		{
			for (size_t j = 0; j < m->nlocks; j++)
				waits[i][j] |= waits[i][k] && waits[k][j];
		}
	}
}

/* Is lock i in the way of a transaction of origin with key k? */
static bool
lock_in_way(const Model *m, size_t i, OriginId origin, const LsKey *k)
{
	const ModelLock *lock = &m->locks[i];
	bool		waits[MODEL_MAX_LOCKS][MODEL_MAX_LOCKS];
	bool		behind_us = false;

	if (lock->origin == origin || ls_mode_is_read(k->mode))
		return false;
	closure(m, waits);
	for (size_t j = 0; j < m->nlocks; j++)
		behind_us |= waits[i][j] && m->locks[j].origin == origin;
	for (size_t x = 0; x < lock->nitems; x++)
	{
		const ModelItem *item = &lock->items[x];

		if (!item->ddl.wanted && !item->yields && !is_model_gate(item) && item->hash == k->hash && ls_modes_conflict(item->mode, k->mode) &&
			(item->granted || !behind_us))
			return true;
	}
	return false;
}

static bool
tx_in_way(const ModelTx *tx, const ModelLock *lock, const ModelItem *item)
{
	LsKey		k = {.hash = item->hash, .mode = item->mode};

	return !item->ddl.wanted && tx->origin != lock->origin && tx_conflicts(tx, &k);
}

static bool
reserved_in_way(const Model *m, const ModelLock *lock, const ModelItem *item)
{
	for (size_t i = 0; i < m->nreserved; i++)
	{
		if (tx_in_way(&m->reserved[i], lock, item))
			return true;
	}
	return false;
}

bool
model_lock_waits_for(const ModelLock *lock, const ModelTx *tx)
{
	for (size_t i = 0; i < lock->nitems; i++)
	{
		if (!lock->items[i].granted && tx_in_way(tx, lock, &lock->items[i]))
			return true;
	}
	return false;
}

static uint64_t
touched(const Model *m, const ModelItem *item)
{
	uint64_t	highest = m->floor;

	for (size_t i = 0; i < m->ndecided; i++)
	{
		const ModelTx *tx = &m->decided[i];

		for (size_t j = 0; j < tx->nkeys; j++)
		{
			if (tx->seq > highest && tx->keys[j].hash == item->hash &&
				same_kind(tx->keys[j].mode, item->mode) && !ls_mode_is_read(tx->keys[j].mode))
				highest = tx->seq;
		}
	}
	return item->ddl.wanted ? m->highest : highest;
}

static LockResult
model_settle(Model *m, ModelLock *lock, uint64_t *seq)
{
	bool		waits[MODEL_MAX_LOCKS][MODEL_MAX_LOCKS];
	size_t		me = (size_t) (lock - m->locks);
	bool		must_wait = false;

	for (size_t y = 0; y < lock->nitems; y++)
	{
		if (lock->items[y].granted)
			continue;
		must_wait |= reserved_in_way(m, lock, &lock->items[y]);
		for (size_t j = 0; j < m->nlocks; j++)
		{
			for (size_t x = 0; x < m->locks[j].nitems; x++)
				must_wait |= stands_in_the_way(&m->locks[j], &m->locks[j].items[x], lock, &lock->items[y]);
		}
	}
	if (!must_wait)
	{
		size_t		n = 0;

		for (size_t y = 0; y < lock->nitems; y++)
		{
			if (is_model_gate(&lock->items[y]))
				continue;
			if (!lock->items[y].granted && touched(m, &lock->items[y]) > lock->seq)
				lock->seq = touched(m, &lock->items[y]);
			lock->items[y].granted = true;
			lock->items[n++] = lock->items[y];
		}
		lock->nitems = n;
		*seq = lock->seq > m->floor ? lock->seq : m->floor;
		return LOCK_GRANTED;
	}
	closure(m, waits);
	if (waits[me][me])
	{
		size_t		n = 0;

		for (size_t y = 0; y < lock->nitems; y++)
		{
			if (lock->items[y].granted)
				lock->items[n++] = lock->items[y];
		}
		lock->nitems = n;
		if (n == 0)
			model_unlock(m, lock->ticket);
		return LOCK_DEADLOCK;
	}
	return LOCK_WAITING;
}

static void
model_add_item(Model *m, ModelLock *lock, ModelItem item)
{
	for (size_t i = 0; i < lock->nitems; i++)
	{
		const ModelItem *had = &lock->items[i];
		bool		covered = had->mode == item.mode || had->mode == LS_TABLE_X || had->mode == LS_ROW_EXCLUSIVE;

		if (had->ddl.wanted != item.ddl.wanted || had->hash != item.hash || !same_kind(had->mode, item.mode))
			continue;
		if (item.ddl.wanted && had->ddl.parallel && !item.ddl.parallel)
			covered = false;
		if (item.ddl.wanted && had->ddl.scope != 0 && had->ddl.scope != item.ddl.scope)
			covered = false;
		if (covered)
			return;
	}
	item.order = ++m->order;
	lock->items[lock->nitems++] = item;
}

LockResult
model_lock(Model *m, OriginId origin, uint64_t ticket,
		   const LsKey *keys, size_t nkeys, DdlLock ddl, bool yields, uint64_t *seq)
{
	ModelLock  *lock = model_find_lock(m, ticket);

	if (lock == NULL)
	{
		lock = &m->locks[m->nlocks++];
		memset(lock, 0, sizeof(*lock));
		lock->origin = origin;
		lock->ticket = ticket;
	}
	lock->blocked_by = 0;
	for (size_t i = 0; i < nkeys; i++)
		model_add_item(m, lock, (ModelItem) {.hash = keys[i].hash, .mode = keys[i].mode, .yields = yields});
	if (ddl.wanted)
		model_add_item(m, lock, (ModelItem) {.ddl = ddl, .mode = LS_TABLE_X, .yields = yields});
	return model_settle(m, lock, seq);
}

LockResult
model_lock_retry(Model *m, uint64_t ticket, uint64_t *seq)
{
	return model_settle(m, model_find_lock(m, ticket), seq);
}

LockResult
model_lock_blocked(Model *m, uint64_t ticket, uint64_t blocker)
{
	ModelLock  *lock = model_find_lock(m, ticket);
	bool		waits[MODEL_MAX_LOCKS][MODEL_MAX_LOCKS];

	if (lock == NULL)
		return LOCK_WAITING;
	lock->blocked_by = blocker;
	closure(m, waits);
	if (!waits[lock - m->locks][lock - m->locks])
		return LOCK_WAITING;
	lock->blocked_by = 0;
	return LOCK_DEADLOCK;
}

void
model_unlock(Model *m, uint64_t ticket)
{
	ModelLock  *lock = model_find_lock(m, ticket);

	if (lock != NULL)
		*lock = m->locks[--m->nlocks];
}

/* ---------- transactions */

static void
model_add_ticket(Model *m, uint64_t ticket)
{
	for (size_t j = 0; j < m->ntickets; j++)
	{
		if (m->tickets[j] == ticket)
			return;
	}
	m->tickets[m->ntickets++] = ticket;
}

/* Certify one key; false: conflict, out says with whom. */
static bool
model_certify_key(Model *m, OriginId origin, const LsKey *k, Certificate *out)
{
	bool		is_read = ls_mode_is_read(k->mode);

	if (k->seen < m->floor)
	{
		out->kind = CONFLICT_TOO_OLD;
		return false;
	}
	for (size_t i = 0; i < m->ndecided; i++)
	{
		const ModelTx *tx = &m->decided[i];

		if (!tx_conflicts(tx, k))
			continue;
		if ((tx->origin != origin || is_read) && tx->seq > k->seen && tx->seq > out->winner_seq)
		{
			out->kind = CONFLICT_DECIDED;
			out->winner_seq = tx->seq;
			out->winner_origin = tx->origin;
		}
		if (tx->seq > out->depends_on && !is_read)
			out->depends_on = tx->seq;
	}
	if (out->winner_seq != 0)
		return false;
	for (size_t i = 0; i < m->nreserved; i++)
	{
		const ModelTx *tx = &m->reserved[i];

		if (tx_has_read(tx, k))
			model_add_ticket(m, tx->ticket);
		if (!tx_conflicts(tx, k))
			continue;
		if (tx->origin == origin && !is_read)
			model_add_ticket(m, tx->ticket);
		else if (out->winner_ticket == 0 || tx->ticket < out->winner_ticket)
		{
			out->kind = CONFLICT_RESERVED;
			out->winner_ticket = tx->ticket;
			out->winner_origin = tx->origin;
		}
	}
	return out->winner_ticket == 0;
}

/* The catalogs: all DDL. */
static uint64_t
ddl_before(const Model *m)
{
	uint64_t	last = m->floor;

	for (size_t i = 0; i < m->ndecided; i++)
	{
		if (m->decided[i].ddl && m->decided[i].seq > last)
			last = m->decided[i].seq;
	}
	return last;
}

CertifyResult
model_reserve(Model *m, OriginId origin, uint64_t ticket, bool ddl,
			  const LsKey *keys, size_t nkeys, Certificate *out)
{
	ModelTx    *tx;

	memset(out, 0, sizeof(*out));
	out->depends_on = ddl_before(m);
	m->ntickets = 0;
	for (size_t i = 0; i < nkeys; i++)
	{
		if (!model_certify_key(m, origin, &keys[i], out))
		{
			out->key_index = i;
			return CERTIFY_CONFLICT;
		}
	}
	for (size_t i = 0; i < nkeys; i++)
	{
		for (size_t j = 0; j < m->nlocks; j++)
		{
			if (lock_in_way(m, j, origin, &keys[i]))
				return CERTIFY_WAIT;
		}
	}
	tx = &m->reserved[m->nreserved++];
	tx->origin = origin;
	tx->ticket = ticket;
	tx->ddl = ddl;
	tx->nkeys = nkeys;
	memcpy(tx->keys, keys, nkeys * sizeof(LsKey));
	out->tickets = m->tickets;
	out->ntickets = m->ntickets;
	return CERTIFY_RESERVED;
}

static ModelTx
take_reserved(Model *m, uint64_t ticket)
{
	size_t		i = 0;
	ModelTx		tx;

	while (m->reserved[i].ticket != ticket)
		i++;
	tx = m->reserved[i];
	m->reserved[i] = m->reserved[--m->nreserved];
	return tx;
}

void
model_decide(Model *m, uint64_t ticket, uint64_t seq)
{
	ModelTx    *tx = &m->decided[m->ndecided++];

	*tx = take_reserved(m, ticket);
	tx->seq = seq;
	m->highest = seq;
}

void
model_release(Model *m, uint64_t ticket)
{
	take_reserved(m, ticket);
}

uint64_t
model_replay(Model *m, OriginId origin, uint64_t seq, bool ddl, const LsKey *keys, size_t nkeys)
{
	uint64_t	depends_on = ddl_before(m);
	ModelTx    *tx = &m->decided[m->ndecided];

	for (size_t i = 0; i < m->ndecided; i++)
	{
		for (size_t k = 0; k < nkeys; k++)
		{
			if (!ls_mode_is_read(keys[k].mode) && tx_conflicts(&m->decided[i], &keys[k]) && m->decided[i].seq > depends_on)
				depends_on = m->decided[i].seq;
		}
	}
	m->ndecided++;
	tx->origin = origin;
	tx->seq = seq;
	tx->ddl = ddl;
	tx->nkeys = nkeys;
	memcpy(tx->keys, keys, nkeys * sizeof(LsKey));
	m->highest = seq;
	return depends_on;
}

bool
model_is_sound(const Model *m)
{
	for (size_t i = 0; i < m->nlocks; i++)
	{
		for (size_t x = 0; x < m->locks[i].nitems; x++)
		{
			const ModelItem *a = &m->locks[i].items[x];

			if (!a->granted)
				continue;
			if (!a->yields && reserved_in_way(m, &m->locks[i], a))
				return false;
			for (size_t j = 0; j < m->nlocks; j++)
			{
				for (size_t y = 0; y < m->locks[j].nitems; y++)
				{
					const ModelItem *b = &m->locks[j].items[y];

					if (b->granted && m->locks[i].origin != m->locks[j].origin && items_conflict(a, b))
						return false;
				}
			}
		}
	}
	return true;
}
