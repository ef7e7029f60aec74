/*
 * protocol_fields.c
 *	  Encoding and decoding a message by the table of its fields.
 *
 * put_message() and get_message() walk the same table, so that the two directions cannot
 * diverge. Pure and compiled into both sides, as protocol.c.
 */
#include "protocol_private.h"

#include <string.h>

/* Enum members are moved as int by put_message() and get_message(). */
_Static_assert(sizeof(LsForm) == sizeof(int), "enums must have the size of int");
_Static_assert(sizeof(LsPastOutcome) == sizeof(int), "enums must have the size of int");

/* Bytes of the field's value in message m, or 0 with *omit set. */
static size_t
field_len(const Field *f, const void *m, bool *omit)
{
	const char *member = (const char *) m + f->offset;
	size_t		len = 0;
	bool		empty = false;

	switch (f->kind)
	{
		case FIELD_ENUM:
		case FIELD_BOOL:
			len = 1;
			break;
		case FIELD_U32:
			len = 4;
			break;
		case FIELD_U64:
			{
				uint64_t	v;

				memcpy(&v, member, sizeof(v));
				empty = (v == 0);
				len = 8;
				break;
			}
		case FIELD_BYTES:
		case FIELD_TEXT:
			{
				LsSlice		s;

				memcpy(&s, member, sizeof(s));
				empty = (s.len == 0);
				len = s.len;
				break;
			}
	}
	*omit = (f->presence == FIELD_OPTIONAL && empty);
	return *omit ? 0 : len;
}

static void
put_field_value(uint8_t *p, const Field *f, const void *m)
{
	const char *member = (const char *) m + f->offset;

	switch (f->kind)
	{
		case FIELD_ENUM:
			{
				int			v;

				memcpy(&v, member, sizeof(v));
				p[0] = (uint8_t) v;
				break;
			}
		case FIELD_BOOL:
			p[0] = *(const bool *) member ? 1 : 0;
			break;
		case FIELD_U32:
			{
				uint32_t	v;

				memcpy(&v, member, sizeof(v));
				put_u32(p, v);
				break;
			}
		case FIELD_U64:
			{
				uint64_t	v;

				memcpy(&v, member, sizeof(v));
				put_u64(p, v);
				break;
			}
		case FIELD_BYTES:
		case FIELD_TEXT:
			{
				LsSlice		s;

				memcpy(&s, member, sizeof(s));
				copy_bytes(p, s.data, s.len);
				break;
			}
	}
}

size_t
put_message(uint8_t *buf, size_t cap, LsMsgType type, const MessageLayout *layout,
			const void *m)
{
	size_t		size = LS_HEADER_SIZE;
	bool		omit;

	for (size_t i = 0; i < layout->nfields; i++)
	{
		const Field *f = &layout->fields[i];
		size_t		len = field_len(f, m, &omit);
		uint8_t    *p;

		if (omit)
			continue;
		if (len > LS_MAX_PAYLOAD)
			return SIZE_MAX;
		size += FIELD_HEADER_SIZE + len;
		if (size > cap)
			continue;			/* only counted */
		p = buf + size - FIELD_HEADER_SIZE - len;
		*p = f->tag;
		put_u32(p + 1, (uint32_t) len);
		put_field_value(p + FIELD_HEADER_SIZE, f, m);
	}
	if (size - LS_HEADER_SIZE > LS_MAX_PAYLOAD)
		return SIZE_MAX;
	if (size > cap)
		return size;
	buf[0] = (uint8_t) type;
	put_u32(buf + 1, (uint32_t) (size - LS_HEADER_SIZE));
	return size;
}

/* Store one field's value; NULL, or what is wrong with it. */
static const char *
get_field_value(const Field *f, LsSlice value, void *m)
{
	char	   *member = (char *) m + f->offset;

	switch (f->kind)
	{
		case FIELD_ENUM:
			{
				int			v;

				if (value.len != 1)
					return "a field has the wrong width";
				v = value.data[0];
				if (v == 0 || strchr(f->allowed, v) == NULL)
					return "a field has a value that is not one of the legal ones";
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_BOOL:
			if (value.len != 1)
				return "a field has the wrong width";
			if (value.data[0] > 1)
				return "a field has a value that is not one of the legal ones";
			*(bool *) member = (value.data[0] == 1);
			break;
		case FIELD_U32:
			{
				uint32_t	v;

				if (value.len != 4)
					return "a field has the wrong width";
				v = get_u32(value.data);
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_U64:
			{
				uint64_t	v;

				if (value.len != 8)
					return "a field has the wrong width";
				v = get_u64(value.data);
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_TEXT:
			if (value.len > 0 && memchr(value.data, 0, value.len) != NULL)
				return "a text contains a NUL byte";
			__attribute__((fallthrough));
		case FIELD_BYTES:
			if (value.len < f->min_len)
				return "a field is too short";
			if (value.len > f->max_len)
				return "a field is too long";
			memcpy(member, &value, sizeof(value));
			break;
	}
	return NULL;
}

/* Index of the field with that tag, nfields if there is none.  They nearly always
 * come in the layout's order: next is that of the one expected. */
static size_t
find_field(const MessageLayout *layout, size_t next, uint8_t tag)
{
	for (size_t i = next; i < layout->nfields; i++)
	{
		if (layout->fields[i].tag == tag)
			return i;
	}
	for (size_t i = 0; i < next; i++)
	{
		if (layout->fields[i].tag == tag)
			return i;
	}
	return layout->nfields;
}

const char *
get_message(LsSlice payload, const MessageLayout *layout, void *m)
{
	uint32_t	seen = 0;
	size_t		next = 0;
	const char *wrong;

	memset(m, 0, layout->size);
	while (payload.len > 0)
	{
		uint8_t		tag;
		LsSlice		value;
		size_t		i;

		wrong = next_field(&payload, &tag, &value);
		if (wrong != NULL)
			return wrong;
		i = find_field(layout, next, tag);
		if (i == layout->nfields)
		{
			/* a later version may add lower-case fields that we can ignore */
			if (tag >= 'a' && tag <= 'z')
				continue;
			return "the message has a field of an unknown kind";
		}
		next = i + 1;
		if (seen & (1u << i))
			return "a field is given twice";
		seen |= 1u << i;
		wrong = get_field_value(&layout->fields[i], value, m);
		if (wrong != NULL)
			return wrong;
	}
	for (size_t i = 0; i < layout->nfields; i++)
	{
		if (layout->fields[i].presence == FIELD_MANDATORY && !(seen & (1u << i)))
			return "a mandatory field is missing";
	}
	return NULL;
}
