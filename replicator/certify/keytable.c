/*
 * keytable.c
 *	  The certifier's hash table of keys.
 *
 * The index is an array of (hash, pointer), so that growing it moves 16 bytes a
 * key and a lookup that fails touches one cache line.  The keys themselves come
 * from slabs that are reused and freed only with the table: memory is that of
 * the largest number of keys remembered at once.  Removing shifts the following
 * entries back (no tombstones).  Forgetting is a sweep, a few slots for each
 * key inserted, so that no call takes long however many keys expire at once.
 *
 * Belongs to the certifier's thread.
 */
#include "keytable.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"

#define FIRST_SLOTS_LOG2 10
#define SLAB_KEYS 256

struct KeySlab
{
	KeySlab    *next;
	Key			keys[SLAB_KEYS];
};

/* Keys are hashes already, but their top bits need not be good ones. */
static size_t
home_slot(const KeyTable *t, uint64_t hash)
{
	return (size_t) ((hash * UINT64_C(0x9E3779B97F4A7C15)) >> t->shift);
}

static void
set_slots(KeyTable *t, unsigned log2)
{
	t->nslots = (size_t) 1 << log2;
	t->shift = 64 - log2;
	t->slots = xcalloc(t->nslots, sizeof(KeySlot));
	t->sweep = 0;
}

void
keytable_init(KeyTable *t)
{
	memset(t, 0, sizeof(*t));
	set_slots(t, FIRST_SLOTS_LOG2);
}

void
keytable_free(KeyTable *t)
{
	KeySlab    *slab = t->slabs;

	for (size_t i = 0; i < t->nslots; i++)
	{
		if (t->slots[i].key != NULL)
			key_release(t->slots[i].key);
	}
	while (slab != NULL)
	{
		KeySlab    *next = slab->next;

		free(slab);
		slab = next;
	}
	free(t->slots);
}

Key *
keytable_find(const KeyTable *t, uint64_t hash, bool is_table)
{
	size_t		i = home_slot(t, hash);

	while (t->slots[i].key != NULL)
	{
		if (t->slots[i].hash == hash && t->slots[i].key->is_table == is_table)
			return t->slots[i].key;
		i = (i + 1) & (t->nslots - 1);
	}
	return NULL;
}

void
keytable_prefetch(const KeyTable *t, uint64_t hash)
{
	__builtin_prefetch(&t->slots[home_slot(t, hash)]);
}

static void
place(KeyTable *t, Key *key)
{
	size_t		i = home_slot(t, key->hash);

	while (t->slots[i].key != NULL)
		i = (i + 1) & (t->nslots - 1);
	t->slots[i].hash = key->hash;
	t->slots[i].key = key;
}

static void
grow(KeyTable *t)
{
	KeySlot    *old = t->slots;
	size_t		nold = t->nslots;

	set_slots(t, 64 - t->shift + 1);
	for (size_t i = 0; i < nold; i++)
	{
		if (old[i].key != NULL)
			place(t, old[i].key);
	}
	free(old);
}

static Key *
new_key(KeyTable *t)
{
	Key		   *key;

	if (t->free_keys == NULL)
	{
		KeySlab    *slab = xmalloc(sizeof(KeySlab));

		slab->next = t->slabs;
		t->slabs = slab;
		for (int i = 0; i < SLAB_KEYS; i++)
		{
			slab->keys[i].next_free = t->free_keys;
			t->free_keys = &slab->keys[i];
		}
	}
	key = t->free_keys;
	t->free_keys = key->next_free;
	return key;
}

Key *
keytable_insert(KeyTable *t, uint64_t hash, bool is_table)
{
	Key		   *key;

	if ((t->nkeys + 1) * 2 > t->nslots)
		grow(t);
	key = new_key(t);
	key_init(key, hash, is_table);
	place(t, key);
	t->nkeys++;
	return key;
}

/* Empty slot i, and move back entries that it had displaced. */
static void
remove_slot(KeyTable *t, size_t i)
{
	size_t		mask = t->nslots - 1;
	size_t		j = i;

	for (;;)
	{
		size_t		home;

		j = (j + 1) & mask;
		if (t->slots[j].key == NULL)
			break;
		home = home_slot(t, t->slots[j].hash);
		/* may it be at i, that is: is i on the way from its home to j? */
		if (((j - home) & mask) >= ((j - i) & mask))
		{
			t->slots[i] = t->slots[j];
			i = j;
		}
	}
	t->slots[i].key = NULL;
	t->nkeys--;
}

void
keytable_sweep(KeyTable *t, size_t n, uint64_t floor)
{
	while (n-- > 0)
	{
		Key		   *key = t->slots[t->sweep].key;

		if (key != NULL && key->nholders == 0 && key->locks == NULL &&
			key_highest(key) <= floor)
		{
			remove_slot(t, t->sweep);
			key_release(key);
			key->next_free = t->free_keys;
			t->free_keys = key;
		}
		else
			t->sweep = (t->sweep + 1) & (t->nslots - 1);
	}
}

void
key_init(Key *key, uint64_t hash, bool is_table)
{
	memset(key, 0, sizeof(*key));
	key->hash = hash;
	key->is_table = is_table;
	key->holders = &key->first_holder;
	key->holders_cap = 1;
}

void
key_release(Key *key)
{
	if (key->holders != &key->first_holder)
		free(key->holders);
}

/* Room for one more; the caller fills it. */
Holder *
key_add_holder(Key *key)
{
	if (key->nholders == key->holders_cap)
	{
		Holder	   *old = key->holders;

		key->holders_cap *= 4;
		key->holders = xmalloc(key->holders_cap * sizeof(Holder));
		memcpy(key->holders, old, key->nholders * sizeof(Holder));
		if (old != &key->first_holder)
			free(old);
	}
	return &key->holders[key->nholders++];
}

/*
 * Keep the highest seq, and the highest of the other origins: whatever origin
 * asks, the highest seq that is not its own is one of the two.
 */
void
key_decided(Key *key, unsigned mode, uint64_t seq, OriginId origin)
{
	Decided    *d = &key->decided[mode];

	if (seq > d->seq)
	{
		if (d->seq != 0 && d->origin != origin)
		{
			d->other_seq = d->seq;
			d->other_origin = d->origin;
		}
		d->seq = seq;
		d->origin = (uint8_t) origin;
	}
	else if (d->origin != origin && seq > d->other_seq)
	{
		d->other_seq = seq;
		d->other_origin = (uint8_t) origin;
	}
}

uint64_t
key_highest(const Key *key)
{
	uint64_t	highest = 0;

	for (int i = 0; i < KEY_WRITE_MODES; i++)
	{
		if (key->decided[i].seq > highest)
			highest = key->decided[i].seq;
	}
	return highest;
}
