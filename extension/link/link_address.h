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

/* The place in the list, from 0, to begin at. */
extern int	link_address_first(void);

/* The address at this place, below link_address_count(), in this memory context. */
extern char *link_address_at(int place);

/* The replicator there serves, and is asked first from now on; or it did not serve, and another one is. */
extern void link_address_worked(int place);
extern void link_address_failed(int place);

#endif							/* LOCKSTEP_LINK_ADDRESS_H */
