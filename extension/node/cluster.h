/*
 * cluster.h
 *	  Which cluster this database belongs to.
 */
#ifndef LOCKSTEP_CLUSTER_H
#define LOCKSTEP_CLUSTER_H

extern char *cluster_identity(void);	/* "" if none; palloc'ed */
extern void cluster_set_identity(const char *identity); /* once; ERROR 55000 */
extern void cluster_forget_identity(void);

#endif							/* LOCKSTEP_CLUSTER_H */
