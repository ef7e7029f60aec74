/*
 * decided.c
 *	  Identities of decided transactions: a ring by seq, chained by hash.
 *
 *	  heads[hash]  -> seq of the latest with that hash bucket
 *	  ring[seq]	   -> whole hash, seq of the one before it in the bucket
 *
 * A chain ends where it leaves the ring: older entries are overwritten, none is ever removed. An
 * identity is represented by a 64-bit hash; among a million, the probability that a question
 * matches another transaction's hash is 1 in 10^13.
 */
#include "decided.h"

#include <stdlib.h>
#include <xxhash.h>

#include "buffer.h"

typedef struct Entry
{
	uint64_t	hash;
	uint64_t	before;			/* seq */
} Entry;

struct Decided
{
	size_t		kept;
	uint64_t	first;			/* seq added first */
	uint64_t	last;
	Entry	   *ring;
	uint64_t   *heads;
};

Decided *
decided_create(size_t kept)
{
	Decided    *d = xcalloc(1, sizeof(Decided));

	d->kept = kept;
	d->ring = xcalloc(kept, sizeof(Entry));
	d->heads = xcalloc(kept, sizeof(uint64_t));
	return d;
}

void
decided_free(Decided *d)
{
	free(d->ring);
	free(d->heads);
	free(d);
}

static uint64_t
hash_of(const LsIdentity *id)
{
	uint64_t	numbers[3] = {id->boot, id->pid, id->xcount};

	return XXH3_64bits_withSeed(id->node.data, id->node.len, XXH3_64bits(numbers, sizeof(numbers)));
}

void
decided_add(Decided *d, const LsIdentity *id, uint64_t seq)
{
	uint64_t	hash = hash_of(id);
	Entry	   *e = &d->ring[seq & (d->kept - 1)];
	uint64_t   *head = &d->heads[hash & (d->kept - 1)];

	if (d->first == 0)
		d->first = seq;
	d->last = seq;
	e->hash = hash;
	e->before = *head;
	*head = seq;
}

uint64_t
decided_first(const Decided *d)
{
	if (d->last - d->first < d->kept)
		return d->first;
	return d->last - d->kept + 1;
}

uint64_t
decided_find(const Decided *d, const LsIdentity *id)
{
	uint64_t	hash = hash_of(id);
	uint64_t	first = decided_first(d);
	uint64_t	seq = d->heads[hash & (d->kept - 1)];

	while (seq != 0 && seq >= first && d->ring[seq & (d->kept - 1)].hash != hash)
		seq = d->ring[seq & (d->kept - 1)].before;
	return seq >= first ? seq : 0;
}
