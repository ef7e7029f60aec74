/*
 * address_list.h
 *	  The list of addresses in lockstep.replicator, as text.
 */
#ifndef LOCKSTEP_ADDRESS_LIST_H
#define LOCKSTEP_ADDRESS_LIST_H

/* NULL, or what is wrong with it (static). */
extern const char *address_list_check(const char *list);

/* The next item, without blanks around it, and *list behind it; NULL: there is none. */
extern const char *address_list_next(const char **list, size_t *len);

#endif							/* LOCKSTEP_ADDRESS_LIST_H */
