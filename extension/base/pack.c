/*
 * pack.c
 *	  Appending keys and parameters to a buffer in the wire format.
 */
#include "postgres.h"

#include "utils/builtins.h"
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

/* Room for a number; returns where its text is to stand. */
static inline char *
number_text(StringInfo out)
{
	enlargeStringInfo(out, LS_PARAM_HEAD + MAXINT8LEN + 1);
	return out->data + out->len + LS_PARAM_HEAD;
}

static inline void
number_end(StringInfo out, int len)
{
	ls_put_param_head((uint8_t *) out->data + out->len, (uint32) len);
	out->len += LS_PARAM_HEAD + len;
}

void
pack_int4(StringInfo out, int32 value)
{
	number_end(out, pg_ltoa(value, number_text(out)));
}

void
pack_int8(StringInfo out, int64 value)
{
	number_end(out, pg_lltoa(value, number_text(out)));
}

void
pack_key(StringInfo out, const LsKey *key)
{
	enlargeStringInfo(out, LS_MAX_KEY_SIZE);
	out->len += (int) ls_put_key((uint8_t *) out->data + out->len, LS_MAX_KEY_SIZE, key);
}
