/*
 * decided.h
 *	  The last decided transactions, by identity, for backends that lost the answer to their
 *	  COMMIT: so many at least, and more as long as they are young and there is room.  Pure.
 *	  Loop's thread.
 */
#ifndef LOCKSTEP_DECIDED_H
#define LOCKSTEP_DECIDED_H

#include "protocol.h"

#define DECIDED_CHUNK 262144
#define DECIDED_KEPT (4 * DECIDED_CHUNK)	/* whatever their age; 16 bytes
											 * each */
#define DECIDED_MOST (64 * DECIDED_CHUNK)
#define DECIDED_KEPT_MS UINT64_C(300000)

typedef struct Decided Decided;

/* least and most are multiples of chunk, which is a power of two: what is forgotten at once. */
extern Decided *decided_create(size_t chunk, size_t least, size_t most, uint64_t kept_ms);
extern void decided_free(Decided *d);

/* In seq order, without gaps; the first may be any.  now_ms: of any clock that does not go back. */
extern void decided_add(Decided *d, const LsIdentity *id, uint64_t seq, uint64_t now_ms);

/* Its seq, 0 if it is not among those kept. */
extern uint64_t decided_find(const Decided *d, const LsIdentity *id);

/* The lowest seq that it knows of; 0: none was added. */
extern uint64_t decided_first(const Decided *d);

#endif
