/*
 * pack.h
 *	  Appending keys and parameters to a buffer in the wire format: what LsQuery.keys,
 *	  LsQuery.params and LsLock.keys point to.
 */
#ifndef LOCKSTEP_PACK_H
#define LOCKSTEP_PACK_H

#include "lib/stringinfo.h"

#include "protocol.h"

extern void pack_key(StringInfo out, const LsKey *key);

/* text is copied; NULL packs a null parameter. */
extern void pack_param(StringInfo out, const char *text, size_t len);

/* The text of a number. */
extern void pack_int4(StringInfo out, int32 value);
extern void pack_int8(StringInfo out, int64 value);

#endif							/* LOCKSTEP_PACK_H */
