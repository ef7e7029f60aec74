/*
 * decided.c
 *	  Identities of decided transactions: chunks in the order of seqs, in each of them chained by
 *	  hash.
 *
 *	  heads[hash]	   -> the latest in the chunk with that hash bucket
 *	  entries[place]  -> whole hash, the one before it in the bucket
 *
 * When a chunk is full another one begins, and the oldest ones are dropped, whole: those beyond
 * `most`, and those beyond `least` whose last transaction is older than kept_ms.  So memory follows
 * the load, and no call takes long.  An identity is represented by a 64-bit hash; among a million, the
 * probability that a question matches another transaction's hash is 1 in 10^13.
 */
#include "decided.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "buffer.h"

#define NONE UINT32_MAX

typedef struct Entry
{
	uint32_t	hash[2];		/* in halves, which need no padding */
	uint32_t	before;			/* place of, NONE: it is the first */
} Entry;

typedef struct Chunk
{
	struct Chunk *newer;
	uint64_t	first;			/* seq */
	size_t		n;
	uint64_t	last_ms;		/* when the last one was added */
	Entry	   *entries;
	uint32_t   *heads;
} Chunk;

struct Decided
{
	size_t		chunk;			/* transactions in each */
	size_t		least;
	size_t		most;
	uint64_t	kept_ms;
	size_t		kept;
	Chunk	   *oldest;
	Chunk	   *newest;
};

Decided *
decided_create(size_t chunk, size_t least, size_t most, uint64_t kept_ms)
{
	Decided    *d = xcalloc(1, sizeof(Decided));

	d->chunk = chunk;
	d->least = least;
	d->most = most;
	d->kept_ms = kept_ms;
	return d;
}

static void
drop_oldest(Decided *d)
{
	Chunk	   *c = d->oldest;

	d->oldest = c->newer;
	if (d->oldest == NULL)
		d->newest = NULL;
	d->kept -= c->n;
	free(c->entries);
	free(c->heads);
	free(c);
}

void
decided_free(Decided *d)
{
	while (d->oldest != NULL)
		drop_oldest(d);
	free(d);
}

static uint64_t
hash_of(const LsIdentity *id)
{
	uint64_t	numbers[3] = {id->boot, id->pid, id->xcount};

	return XXH3_64bits_withSeed(id->node.data, id->node.len, XXH3_64bits(numbers, sizeof(numbers)));
}

static void
begin_chunk(Decided *d, uint64_t seq)
{
	Chunk	   *c = xcalloc(1, sizeof(Chunk));

	c->first = seq;
	c->entries = xmalloc(d->chunk * sizeof(Entry));
	c->heads = xmalloc(d->chunk * sizeof(uint32_t));
	memset(c->heads, 0xFF, d->chunk * sizeof(uint32_t));
	*(d->newest != NULL ? &d->newest->newer : &d->oldest) = c;
	d->newest = c;
}

/* Without the oldest chunk, are there enough, and it is old, or are there too many with it? */
static bool
may_drop_oldest(const Decided *d, uint64_t now_ms)
{
	const Chunk *c = d->oldest;

	if (c == d->newest || d->kept - c->n < d->least)
		return false;
	return d->kept > d->most || now_ms - c->last_ms >= d->kept_ms;
}

void
decided_add(Decided *d, const LsIdentity *id, uint64_t seq, uint64_t now_ms)
{
	uint64_t	hash = hash_of(id);
	Chunk	   *c = d->newest;
	uint32_t   *head;
	Entry	   *e;

	if (c == NULL || c->n == d->chunk)
	{
		begin_chunk(d, seq);
		while (may_drop_oldest(d, now_ms))
			drop_oldest(d);
		c = d->newest;
	}
	head = &c->heads[hash & (d->chunk - 1)];
	e = &c->entries[c->n];
	e->hash[0] = (uint32_t) hash;
	e->hash[1] = (uint32_t) (hash >> 32);
	e->before = *head;
	*head = (uint32_t) c->n++;
	c->last_ms = now_ms;
	d->kept++;
}

uint64_t
decided_first(const Decided *d)
{
	return d->oldest != NULL ? d->oldest->first : 0;
}

static bool
has_hash(const Entry *e, uint64_t hash)
{
	return e->hash[0] == (uint32_t) hash && e->hash[1] == (uint32_t) (hash >> 32);
}

uint64_t
decided_find(const Decided *d, const LsIdentity *id)
{
	uint64_t	hash = hash_of(id);
	uint64_t	found = 0;

	for (const Chunk *c = d->oldest; c != NULL; c = c->newer)
	{
		uint32_t	place = c->heads[hash & (d->chunk - 1)];

		while (place != NONE && !has_hash(&c->entries[place], hash))
			place = c->entries[place].before;
		if (place != NONE)
			found = c->first + place;
	}
	return found;
}
