/*
 * typeparts.h
 *	  What is a type made of?  Private to keyhash.c, repertoire.c and exacttext.c.
 */
#ifndef LOCKSTEP_TYPEPARTS_H
#define LOCKSTEP_TYPEPARTS_H

typedef bool (*TypePredicate) (Oid type, Oid collation);

/*
 * Does the predicate hold for all that the type is made of?  Domains have been
 * looked through; a type that is not made of others answers by itself.
 */
extern bool typeparts_every(Oid type, Oid collation, TypePredicate predicate, bool otherwise);

#endif							/* LOCKSTEP_TYPEPARTS_H */
