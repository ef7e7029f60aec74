/*
 * link_address.h
 *	  Where the replicators are: lockstep.replicator, one address or several.
 *
 * Of several, one leads, and only that one serves nodes.  Which one did so last is known to all
 * backends of the server, so that a new one begins there.
 */
#ifndef LOCKSTEP_LINK_ADDRESS_H
#define LOCKSTEP_LINK_ADDRESS_H

extern void link_address_shmem_request(void);
extern void link_address_shmem_startup(void);

extern int	link_address_count(void);

/* The address to be tried as the n-th, from 0, in this memory context; *place for link_address_worked(). */
extern char *link_address_at(int n, int *place);
extern void link_address_worked(int place);

#endif							/* LOCKSTEP_LINK_ADDRESS_H */
