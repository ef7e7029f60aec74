/*
 * protocol_private.h
 *	  What protocol*.c share: integers as they are in messages, big-endian; the
 *	  table that describes a message; checks of the lists inside its fields.
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

#define FIELD_HEADER_SIZE 5		/* tag, u32 length */

/* Take the next field off the front of *rest; what is wrong, NULL: nothing. */
static inline const char *
next_field(LsSlice *rest, uint8_t *tag, LsSlice *value)
{
	uint32_t	len;

	if (rest->len < FIELD_HEADER_SIZE)
		return "the message ends inside a field";
	*tag = rest->data[0];
	len = get_u32(rest->data + 1);
	if (len > rest->len - FIELD_HEADER_SIZE)
		return "the message ends inside a field";
	value->data = rest->data + FIELD_HEADER_SIZE;
	value->len = len;
	rest->data += FIELD_HEADER_SIZE + len;
	rest->len -= FIELD_HEADER_SIZE + len;
	return NULL;
}

/* ---------- in protocol_fields.c */

typedef enum FieldKind
{
	FIELD_ENUM,					/* one byte out of Field.allowed */
	FIELD_BOOL,					/* one byte, 0 or 1 */
	FIELD_U32,
	FIELD_U64,					/* i64 too: two's complement */
	FIELD_BYTES,				/* min_len..max_len bytes */
	FIELD_TEXT					/* the same, none of them NUL */
} FieldKind;

typedef enum FieldPresence
{
	FIELD_MANDATORY,
	FIELD_OPTIONAL				/* left out when empty or 0 */
} FieldPresence;

typedef struct Field
{
	uint8_t		tag;
	FieldKind	kind;
	FieldPresence presence;
	size_t		offset;			/* of the member in the structure */
	size_t		min_len;		/* bytes and text only */
	size_t		max_len;
	const char *allowed;		/* enum only */
} Field;

typedef struct MessageLayout
{
	const Field *fields;
	size_t		nfields;
	size_t		size;			/* of the structure */
} MessageLayout;

extern size_t put_message(uint8_t *buf, size_t cap, LsMsgType type, const MessageLayout *layout,
						  const void *m);

/* NULL, or what is wrong. */
extern const char *get_message(LsSlice payload, const MessageLayout *layout, void *m);

/* ---------- in protocol_lists.c: NULL, or what is wrong */

extern const char *count_keys(LsSlice keys, bool for_lock, uint32_t *n);
extern const char *count_params(LsSlice params, bool bytes, uint32_t *n, uint32_t *nulls);
extern const char *check_settings(LsSlice settings);

#endif
