/*
 * typeparts.h
 *	  What is a type made of?  Private to keyhash.c, storedexpression.c, repertoire.c,
 *	  exacttext.c and ownoids.c.
 */
#ifndef LOCKSTEP_TYPEPARTS_H
#define LOCKSTEP_TYPEPARTS_H

typedef bool (*TypePredicate) (Oid type, Oid collation);

/*
 * Does the predicate hold for all that the type is made of?  Domains have been
 * looked through; a type that is not made of others answers by itself.
 */
extern bool typeparts_every(Oid type, Oid collation, TypePredicate predicate, bool otherwise);

/* An OID that is written as a name: regclass and its kind. */
extern bool typeparts_is_reg(Oid type);

#endif							/* LOCKSTEP_TYPEPARTS_H */
