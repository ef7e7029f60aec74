/*
 * role_names.h
 *	  Names of the roles that have logged in: each is kept once, for ever, so that a
 *	  role is known by its address.  Loop's thread.
 */
#ifndef LOCKSTEP_ROLE_NAMES_H
#define LOCKSTEP_ROLE_NAMES_H

#include "protocol.h"

/* NULL for the empty name: its backend did not say. */
extern const char *role_of(LsSlice name);

#endif
