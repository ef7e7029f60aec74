/*
 * wholetables.h
 *	  Tables that the transaction holds as a whole, by a lock asked first.
 */
#ifndef LOCKSTEP_WHOLETABLES_H
#define LOCKSTEP_WHOLETABLES_H

#include "protocol.h"

/* Granted by the asked-th lock message: those that are tables in mode X. */
extern void wholetables_note(const LsKey *keys, int nkeys, uint64 asked);
extern bool wholetables_has(uint64 hash);
extern bool wholetables_any(void);

/* What later messages asked for is given back. */
extern void wholetables_keep(uint64 asked);

#endif
