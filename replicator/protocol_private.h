/*
 * protocol_private.h
 *	  Integers as they are in messages: big-endian.  For protocol*.c only.
 */
#ifndef LOCKSTEP_PROTOCOL_PRIVATE_H
#define LOCKSTEP_PROTOCOL_PRIVATE_H

#include "protocol.h"


static inline void
put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t) (v >> 24);
	p[1] = (uint8_t) (v >> 16);
	p[2] = (uint8_t) (v >> 8);
	p[3] = (uint8_t) v;
}

static inline void
put_u64(uint8_t *p, uint64_t v)
{
	put_u32(p, (uint32_t) (v >> 32));
	put_u32(p + 4, (uint32_t) v);
}

static inline uint32_t
get_u32(const uint8_t *p)
{
	return ((uint32_t) p[0] << 24) | ((uint32_t) p[1] << 16) |
		((uint32_t) p[2] << 8) | (uint32_t) p[3];
}

static inline uint64_t
get_u64(const uint8_t *p)
{
	return ((uint64_t) get_u32(p) << 32) | get_u32(p + 4);
}

/* memcpy() for slices: a NULL of length 0 is legal here. */
static inline void
copy_bytes(uint8_t *to, const void *from, size_t n)
{
	if (n > 0)
		memcpy(to, from, n);
}

#endif
