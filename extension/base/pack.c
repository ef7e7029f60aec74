/*
 * pack.c
 *	  Appending keys and parameters to a buffer in the wire format.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lockstep.h"
#include "pack.h"

void
pack_param(StringInfo out, const char *text, size_t len)
{
	size_t		size = ls_put_param(NULL, 0, text, len);

	enlargeStringInfo(out, (int) Min(size, MaxAllocSize));
	ls_put_param((uint8_t *) out->data + out->len, size, text, len);
	out->len += (int) size;
}

void
pack_key(StringInfo out, const LsKey *key)
{
	enlargeStringInfo(out, LS_MAX_KEY_SIZE);
	out->len += (int) ls_put_key((uint8_t *) out->data + out->len, LS_MAX_KEY_SIZE, key);
}
