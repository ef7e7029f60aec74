/*
 * role_names.h
 *	  Names of the roles that have logged in: each is kept once, for ever, so that a
 *	  role is known by its address; and what its open transactions take of the
 *	  replicator.  Loop's thread.
 */
#ifndef LOCKSTEP_ROLE_NAMES_H
#define LOCKSTEP_ROLE_NAMES_H

#include "protocol.h"

/* NULL for the empty name: the backend did not name a role. */
extern const char *role_name(LsSlice name);

/* What its sessions' undecided transactions use: see max_role_memory and max_role_size. */
typedef struct RoleUse
{
	uint64_t	memory;
	uint64_t	size;			/* of queries, in memory and on disk */
} RoleUse;

extern RoleUse *role_use(const char *role); /* role: of role_name() */

#endif
