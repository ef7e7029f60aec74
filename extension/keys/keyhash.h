/*
 * keyhash.h
 *	  How a value becomes 64 bits that are the same on every node.
 */
#ifndef LOCKSTEP_KEYHASH_H
#define LOCKSTEP_KEYHASH_H

#include "fmgr.h"

typedef enum LsHashBy
{
	LS_HASH_FUNCTION,			/* the type's extended hash function */
	LS_HASH_TEXT				/* the bytes of its output */
} LsHashBy;

typedef struct LsHasher
{
	LsHashBy	by;
	bool		has_cast;
	FmgrInfo	cast;			/* applied first */
	FmgrInfo	function;		/* hash or output function */
	Oid			collation;
} LsHasher;

/* The type's hash function never looks at an OID that differs between nodes. */
extern bool keyhash_is_portable(Oid type);

/*
 * Make a hasher for values of the type that are equal by the operator, with
 * function look-ups in context.  False: no hash is usable.
 */
extern bool keyhash_init(LsHasher *hasher, Oid type, Oid equals, Oid collation,
						 MemoryContext context);

/*
 * The same for a foreign key's column: hashes a child's value as keyhash_init
 * does the parent's equal one.
 */
extern bool keyhash_init_child(LsHasher *hasher, Oid child_type, Oid parent_type,
							   Oid equals, Oid collation, MemoryContext context);

extern uint64 keyhash_value(LsHasher *hasher, Datum value, uint64 seed);

/* Seed of a kind of key: names as in the catalogs, not quoted. */
extern uint64 keyhash_seed(char kind, const char *schema, const char *table,
						   const char *index);
extern uint64 keyhash_seed_of(const char *database, char kind, const char *schema,
							  const char *table, const char *index);
extern uint64 keyhash_bytes(const void *data, size_t len, uint64 seed);

#endif							/* LOCKSTEP_KEYHASH_H */
