/*
 * decided.h
 *	  The last DECIDED_KEPT decided transactions, by identity, for backends that lost the
 *	  answer to their COMMIT.  Pure.  Loop's thread.
 */
#ifndef LOCKSTEP_DECIDED_H
#define LOCKSTEP_DECIDED_H

#include "protocol.h"

#define DECIDED_KEPT 1048576	/* a power of two; 24 bytes each */

typedef struct Decided Decided;

extern Decided *decided_create(size_t kept);	/* a power of two */
extern void decided_free(Decided *d);

/* In seq order, without gaps; the first may be any. */
extern void decided_add(Decided *d, const LsIdentity *id, uint64_t seq);

/* Its seq, 0 if it is not among those kept. */
extern uint64_t decided_find(const Decided *d, const LsIdentity *id);

/* The lowest seq that it knows of; 0: none was added. */
extern uint64_t decided_first(const Decided *d);

#endif
