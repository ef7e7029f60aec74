/*
 * ownoids.h
 *	  OIDs of types in the binary form of a value.  Private to exacttext.c and received.c.
 */
#ifndef LOCKSTEP_OWNOIDS_H
#define LOCKSTEP_OWNOIDS_H

/* Has the type a binary form in which nothing but what is replaced here differs from node to node? */
extern bool ownoids_has_form(Oid type);

/* Put this node's OIDs in place of the sender's.  What is no such form is left as it is. */
extern void ownoids_put(Oid type, char *bytes, int len);

#endif							/* LOCKSTEP_OWNOIDS_H */
