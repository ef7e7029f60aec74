/*
 * certify.c
 *	  Reserve, decide, forget: certify.h has the rules.
 *
 * Pure: values in, values out; one thread.  A call looks at each given key once, however many
 * transactions hold it (holders are counted by mode and walked only if one of them conflicts),
 * and sweeps a few slots of the table for each key that it adds, so that no call stalls the
 * loop.
 *
 * depends_on is never below the floor.  A forgotten transaction may have had any of the keys.
 * The nodes online have applied it, but a node that catches up from the journal uses the
 * recorded depends_on only, and must not run a transaction before a predecessor that was
 * forgotten when the transaction was reserved.
 */
#include "certify_private.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"

#define SWEEP_PER_FORGET 256

Certifier *
certifier_create(uint64_t floor)
{
	static const LsKeyMode modes[2][KEY_MODES] = {
		{LS_ROW_SHARE, LS_ROW_UPDATE, LS_ROW_EXCLUSIVE, LS_ROW_LOCK, LS_ROW_READ, LS_ROW_READ},
		{LS_TABLE_IS, LS_TABLE_IX, LS_TABLE_S, LS_TABLE_X, LS_TABLE_READ, LS_TABLE_READ_ROWS}
	};
	Certifier  *c = xcalloc(1, sizeof(Certifier));

	c->floor = floor;
	c->highest = floor;
	keytable_init(&c->keys);
	key_init(&c->ddl, 0, true);
	for (int kind = 0; kind < 2; kind++)
	{
		for (int a = 0; a < KEY_MODES; a++)
		{
			for (int b = 0; b < KEY_MODES; b++)
			{
				if (!ls_modes_conflict(modes[kind][a], modes[kind][b]))
					continue;
				*(b < KEY_WRITE_MODES ? &c->conflicts[kind][a] : &c->readers[kind][a]) |= (uint8_t) (1 << b);
			}
		}
	}
	return c;
}

static Reservation **
reservation_link(Certifier *c, uint64_t ticket)
{
	Reservation **link = &c->reservations[ticket % RESERVATION_BUCKETS];

	while (*link != NULL && (*link)->ticket != ticket)
		link = &(*link)->next;
	return link;
}

void
certifier_destroy(Certifier *c)
{
	for (size_t i = 0; i < RESERVATION_BUCKETS; i++)
	{
		Reservation *r = c->reservations[i];

		while (r != NULL)
		{
			Reservation *next = r->next;

			free(r);
			r = next;
		}
	}
	locks_free(c);
	keytable_free(&c->keys);
	key_release(&c->ddl);
	free(c->found);
	free(c->tickets);
	free(c);
}

/* ---------- DDL */

uint64_t
certifier_last_ddl(const Certifier *c)
{
	return c->last_ddl;
}

/*
 * What a transaction depends on whatever its keys are.  That is all DDL, not only what its origin had
 * applied when its keys were made, or when it asked: a statement that makes no new key may use what
 * was created after the last one, and DDL is visible at its node a moment before that has passed the
 * turn.  Nothing is lost by it: a transaction never commits before DDL that was decided before.
 */
static uint64_t
catalogs_dependency(const Certifier *c)
{
	return c->last_ddl > c->floor ? c->last_ddl : c->floor;
}

/* ---------- reserving */

/* The highest seq among decided transactions that a mode of key conflicts with. */
static uint64_t
decided_dependency(const Key *key, uint8_t conflicts)
{
	uint64_t	highest = 0;

	for (unsigned m = 0; m < KEY_WRITE_MODES; m++)
	{
		if ((conflicts & (1 << m)) && key->decided[m].seq > highest)
			highest = key->decided[m].seq;
	}
	return highest;
}

/*
 * Is there a decided transaction of another origin, or, for a read, of any origin, with seq >
 * seen? Sets winner.
 */
static bool
decided_conflict(const Key *key, uint8_t conflicts, OriginId origin, bool is_read, uint64_t seen,
				 Certificate *out)
{
	uint64_t	highest = seen;

	for (unsigned m = 0; m < KEY_WRITE_MODES; m++)
	{
		const Decided *d = &key->decided[m];

		if (!(conflicts & (1 << m)))
			continue;
		if ((is_read || d->origin != origin) && d->seq > highest)
		{
			highest = d->seq;
			out->winner_origin = d->origin;
		}
		else if (!is_read && d->origin == origin && d->other_seq > highest)
		{
			highest = d->other_seq;
			out->winner_origin = d->other_origin;
		}
	}
	if (highest == seen)
		return false;
	out->kind = CONFLICT_DECIDED;
	out->winner_seq = highest;
	return true;
}

static void
add_ticket(Certifier *c, Certificate *out, uint64_t ticket)
{
	if (out->ntickets == c->tickets_cap)
	{
		c->tickets_cap = c->tickets_cap > 0 ? c->tickets_cap * 2 : 16;
		c->tickets = xrealloc(c->tickets, c->tickets_cap * sizeof(uint64_t));
	}
	c->tickets[out->ntickets++] = ticket;
}

/* How many transactions hold the key in a mode of the set, of any origin. */
static uint32_t
times_held(const Key *key, uint8_t modes)
{
	uint32_t	held = 0;

	for (unsigned m = 0; m < KEY_MODES; m++)
	{
		if (modes & (1 << m))
			held += key->held[m];
	}
	return held;
}

/* Reserved transactions that have read the key come before one that changes it. */
static void
add_readers(Certifier *c, const Key *key, uint8_t readers, Certificate *out)
{
	if (times_held(key, readers) == 0)
		return;
	for (uint32_t i = 0; i < key->nholders; i++)
	{
		if (key->holders[i].modes & readers)
			add_ticket(c, out, key->holders[i].reservation->ticket);
	}
}

/*
 * Does a reserved transaction of another origin conflict, or, for a read, one of any origin?
 * Sets winner, the first of them by ticket; adds those of the same origin to the tickets.
 */
static bool
reserved_conflict(Certifier *c, const Key *key, uint8_t conflicts, OriginId origin,
				  bool is_read, Certificate *out)
{
	bool		found = false;

	if (times_held(key, conflicts) == 0)
		return false;
	for (uint32_t i = 0; i < key->nholders; i++)
	{
		const Holder *h = &key->holders[i];

		if (!(h->modes & conflicts))
			continue;
		if (h->origin == origin && !is_read)
			add_ticket(c, out, h->reservation->ticket);
		else if (!found || h->reservation->ticket < out->winner_ticket)
		{
			found = true;
			out->kind = CONFLICT_RESERVED;
			out->winner_ticket = h->reservation->ticket;
			out->winner_origin = h->origin;
		}
	}
	return found;
}

/* Certify one key that is known; false: conflict. */
static bool
certify_key(Certifier *c, const Key *key, const LsKey *k, OriginId origin, Certificate *out)
{
	unsigned	mode = key_mode_index(k->mode);
#ifdef LOCKSTEP_TEST_NO_CERTIFICATION
	uint8_t		conflicts = 0;
#else
	uint8_t		conflicts = c->conflicts[key->is_table][mode];
#endif
	bool		is_read = ls_mode_is_read(k->mode);
	uint64_t	dependency;

	if (decided_conflict(key, conflicts, origin, is_read, k->seen, out) ||
		reserved_conflict(c, key, conflicts, origin, is_read, out))
		return false;
	if (is_read)
		return true;
	add_readers(c, key, c->readers[key->is_table][mode], out);
	dependency = decided_dependency(key, conflicts);
	if (dependency > out->depends_on)
		out->depends_on = dependency;
	return true;
}

static int
compare_tickets(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a,
				y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

static void
sort_tickets(Certifier *c, Certificate *out)
{
	size_t		n = 0;

	if (out->ntickets > 1)
	{
		qsort(c->tickets, out->ntickets, sizeof(uint64_t), compare_tickets);
		for (size_t i = 0; i < out->ntickets; i++)
		{
			if (n == 0 || c->tickets[n - 1] != c->tickets[i])
				c->tickets[n++] = c->tickets[i];
		}
		out->ntickets = n;
	}
	out->tickets = c->tickets;
}

/* ---------- contended rows */

void
certifier_set_time(Certifier *c, uint64_t now_ms)
{
	c->now_ms = (uint32_t) now_ms;
}

void
certifier_row_fought(Certifier *c, uint64_t hash)
{
	Key		   *key = keytable_find(&c->keys, hash, false);

	if (key != NULL)
		key_fought(c, key);
}

static void
add_contended(const Certifier *c, const Key *key, Certificate *out)
{
	if (key->fought_ms == 0 || key->is_table || out->ncontended == LS_MAX_CONTENDED ||
		c->now_ms - key->fought_ms > LS_CONTENDED_MS)
		return;
	for (size_t i = 0; i < out->ncontended; i++)
	{
		if (out->contended[i] == key->hash)
			return;
	}
	out->contended[out->ncontended++] = key->hash;
}

/* Look up all keys, into c->found; NULL for unknown keys. */
static void
find_keys(Certifier *c, const LsKey *keys, size_t nkeys)
{
	if (nkeys > c->found_cap)
	{
		c->found_cap = nkeys * 2;
		c->found = xrealloc(c->found, c->found_cap * sizeof(Key *));
	}
	for (size_t i = 0; i < nkeys; i++)
		keytable_prefetch(&c->keys, keys[i].hash);
	for (size_t i = 0; i < nkeys; i++)
		c->found[i] = keytable_find(&c->keys, keys[i].hash, ls_mode_is_table(keys[i].mode));
}

/* The i-th key, made if find_keys() did not find it.  *added counts those. */
static Key *
found_or_new(Certifier *c, const LsKey *keys, size_t i, size_t *added)
{
	bool		is_table = ls_mode_is_table(keys[i].mode);

	if (c->found[i] == NULL && *added > 0)
		c->found[i] = keytable_find(&c->keys, keys[i].hash, is_table);	/* a duplicate? */
	if (c->found[i] == NULL)
	{
		c->found[i] = keytable_insert(&c->keys, keys[i].hash, is_table);
		(*added)++;
	}
	return c->found[i];
}

static void
hold_key(Reservation *r, Key *key, unsigned mode)
{
	uint8_t		bit = (uint8_t) (1 << mode);
	Holder	   *h;

	/* no other transaction has been added since this one began to */
	if (key->nholders > 0 && key->holders[key->nholders - 1].reservation == r)
	{
		h = &key->holders[key->nholders - 1];
		if (h->modes & bit)
			return;
	}
	else
	{
		h = key_add_holder(key);
		h->reservation = r;
		h->origin = (uint8_t) r->origin;
		h->modes = 0;
		h->item = (uint32_t) r->nkeys;
		r->keys[r->nkeys].key = key;
		r->keys[r->nkeys].holder = key->nholders - 1;
		r->nkeys++;
	}
	h->modes |= bit;
	key->held[mode]++;
}

/* No conflict: take the keys. */
static void
hold_keys(Certifier *c, OriginId origin, uint64_t ticket, bool ddl, const LsKey *keys, size_t nkeys)
{
	Reservation *r = xmalloc(sizeof(Reservation) + nkeys * sizeof(ReservedKey));
	Reservation **link = reservation_link(c, ticket);
	size_t		added = 0;

	if (*link != NULL)
		abort();				/* two transactions with one ticket */
	r->ticket = ticket;
	r->origin = origin;
	r->ddl = ddl;
	r->next = NULL;
	r->nkeys = 0;
	*link = r;
	for (size_t i = 0; i < nkeys; i++)
		hold_key(r, found_or_new(c, keys, i, &added), key_mode_index(keys[i].mode));
	keytable_sweep(&c->keys, added * SWEEP_PER_NEW_KEY, c->floor);
}

CertifyResult
certifier_check(Certifier *c, OriginId origin, const LsKey *keys, size_t nkeys, Certificate *out)
{
	memset(out, 0, sizeof(*out));
	out->depends_on = catalogs_dependency(c);
	find_keys(c, keys, nkeys);
	for (size_t i = 0; i < nkeys; i++)
	{
		bool		ok = true;

		if (keys[i].seen < c->floor)
		{
			out->kind = CONFLICT_TOO_OLD;
			ok = false;
		}
		else if (c->found[i] != NULL)
		{
			ok = certify_key(c, c->found[i], &keys[i], origin, out);
			add_contended(c, c->found[i], out);
		}
		if (!ok)
		{
			out->key_index = i;
			return CERTIFY_CONFLICT;
		}
	}

	/* no conflict; only a lock may block it */
	for (size_t i = 0; i < nkeys && c->nlocks > 0; i++)
	{
		const Lock *lock;

		if (c->found[i] == NULL || ls_mode_is_read(keys[i].mode))
			continue;
		lock = lock_blocker(c, c->found[i], keys[i].mode, origin);
		if (lock != NULL)
		{
			out->key_index = i;
			out->lock_ticket = lock->ticket;
			out->winner_origin = lock->origin;
			return CERTIFY_WAIT;
		}
	}
	return CERTIFY_RESERVED;
}

CertifyResult
certifier_reserve(Certifier *c, OriginId origin, uint64_t ticket, bool ddl,
				  const LsKey *keys, size_t nkeys, Certificate *out)
{
	CertifyResult result = certifier_check(c, origin, keys, nkeys, out);

	if (result != CERTIFY_RESERVED)
		return result;
	hold_keys(c, origin, ticket, ddl, keys, nkeys);
	sort_tickets(c, out);
	return CERTIFY_RESERVED;
}

/* Remove the transaction from its i-th key. */
static void
let_go(Certifier *c, Reservation *r, size_t i)
{
	Key		   *key = r->keys[i].key;
	uint32_t	at = r->keys[i].holder;

	if (key->locks != NULL)
		locks_touch(c, key->locks, key->is_table && (key->holders[at].modes & (1 << key_mode_index(LS_TABLE_X))) != 0);

	for (unsigned m = 0; m < KEY_MODES; m++)
	{
		if (key->holders[at].modes & (1 << m))
			key->held[m]--;
	}
	key->nholders--;
	if (at < key->nholders)
	{
		Holder	   *moved = &key->holders[at];

		*moved = key->holders[key->nholders];
		moved->reservation->keys[moved->item].holder = at;
	}
}

void
certifier_decide(Certifier *c, uint64_t ticket, uint64_t seq)
{
	Reservation **link = reservation_link(c, ticket);
	Reservation *r = *link;

	if (r == NULL)
		abort();				/* its keys would be lost to history */
	*link = r->next;
	for (size_t i = 0; i < r->nkeys; i++)
	{
		Key		   *key = r->keys[i].key;
		uint8_t		modes = key->holders[r->keys[i].holder].modes;

		for (unsigned m = 0; m < KEY_WRITE_MODES; m++)
		{
			if (modes & (1 << m))
				key_decided(key, m, seq, r->origin);
		}
		let_go(c, r, i);
	}
	if (seq > c->highest)
		c->highest = seq;
	if (r->ddl)
		c->last_ddl = seq;
	free(r);
}

void
certifier_release(Certifier *c, uint64_t ticket)
{
	Reservation **link = reservation_link(c, ticket);
	Reservation *r = *link;

	if (r == NULL)
		return;
	*link = r->next;
	for (size_t i = 0; i < r->nkeys; i++)
		let_go(c, r, i);
	free(r);
}

uint64_t
certifier_replay(Certifier *c, OriginId origin, uint64_t seq, bool ddl,
				 const LsKey *keys, size_t nkeys)
{
	uint64_t	depends_on = catalogs_dependency(c);
	size_t		added = 0;

	if (seq > c->highest)
		c->highest = seq;
	if (seq <= c->floor)
		return seq - 1;			/* forgotten already: behind all before it */
	find_keys(c, keys, nkeys);
	for (size_t i = 0; i < nkeys; i++)
	{
		const Key  *key = c->found[i];
		uint64_t	dependency;

		if (key == NULL || ls_mode_is_read(keys[i].mode))
			continue;
		dependency = decided_dependency(key, c->conflicts[key->is_table][key_mode_index(keys[i].mode)]);
		if (dependency > depends_on)
			depends_on = dependency;
	}
	for (size_t i = 0; i < nkeys; i++)
	{
		if (!ls_mode_is_read(keys[i].mode))
			key_decided(found_or_new(c, keys, i, &added), key_mode_index(keys[i].mode), seq, origin);
	}
	if (ddl)
		c->last_ddl = seq;
	keytable_sweep(&c->keys, added * SWEEP_PER_NEW_KEY, c->floor);
	return depends_on;
}

void
certifier_forget(Certifier *c, uint64_t seq)
{
	if (seq > c->floor)
		c->floor = seq;
	keytable_sweep(&c->keys, SWEEP_PER_FORGET, c->floor);
}

uint64_t
certifier_floor(const Certifier *c)
{
	return c->floor;
}

size_t
certifier_keys(const Certifier *c)
{
	return c->keys.nkeys;
}
