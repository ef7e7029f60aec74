/*
 * protocol_lists.c
 *	  Lists inside a field: keys, parameters, settings.  Reads one element at a time, and
 *	  checks whether all are well-formed.
 *	  Pure and compiled into both sides, as protocol.c.
 */
#include "protocol_private.h"

#define KEY_FIXED_SIZE LS_MIN_KEY_SIZE	/* hash, seen, mode, length of the
										 * name */
#define KEY_MAX_NAME 255

_Static_assert(KEY_FIXED_SIZE + KEY_MAX_NAME == LS_MAX_KEY_SIZE, "a key has its largest size");

static bool
valid_key_mode(uint8_t mode)
{
	static const bool valid[256] = {
		[LS_ROW_SHARE] = true,[LS_ROW_UPDATE] = true,[LS_ROW_EXCLUSIVE] = true,[LS_ROW_LOCK] = true,
		[LS_ROW_READ] = true,[LS_TABLE_IS] = true,[LS_TABLE_IX] = true,[LS_TABLE_S] = true,
		[LS_TABLE_X] = true,[LS_TABLE_READ_ROWS] = true,[LS_TABLE_READ] = true
	};

	return valid[mode];
}

size_t
ls_put_key(uint8_t *buf, size_t cap, const LsKey *key)
{
	size_t		name_len = key->name.len;

	if (name_len > KEY_MAX_NAME)
		name_len = KEY_MAX_NAME;	/* it is for people only */
	if (KEY_FIXED_SIZE + name_len <= cap)
	{
		put_u64(buf, key->hash);
		put_u64(buf + 8, key->seen);
		buf[16] = (uint8_t) key->mode;
		buf[17] = (uint8_t) name_len;
		copy_bytes(buf + KEY_FIXED_SIZE, key->name.data, name_len);
	}
	return KEY_FIXED_SIZE + name_len;
}

bool
ls_next_key(LsSlice *rest, LsKey *key)
{
	size_t		name_len;

	if (rest->len < KEY_FIXED_SIZE)
		return false;
	name_len = rest->data[17];
	if (rest->len - KEY_FIXED_SIZE < name_len || !valid_key_mode(rest->data[16]))
		return false;
	key->hash = get_u64(rest->data);
	key->seen = get_u64(rest->data + 8);
	key->mode = (LsKeyMode) rest->data[16];
	key->name.data = rest->data + KEY_FIXED_SIZE;
	key->name.len = name_len;
	rest->data += KEY_FIXED_SIZE + name_len;
	rest->len -= KEY_FIXED_SIZE + name_len;
	return true;
}

size_t
ls_put_param(uint8_t *buf, size_t cap, const char *text, size_t len)
{
	if (text == NULL)
		len = 0;
	if (len > LS_MAX_PAYLOAD)
		return SIZE_MAX;
	if (LS_PARAM_HEAD + len <= cap)
	{
		put_u32(buf, text == NULL ? UINT32_MAX : (uint32_t) len);
		copy_bytes(buf + LS_PARAM_HEAD, text, len);
	}
	return LS_PARAM_HEAD + len;
}

void
ls_put_param_head(uint8_t *buf, uint32_t len)
{
	put_u32(buf, len);
}

void
ls_put_contended(uint8_t *buf, uint64_t hash)
{
	put_u64(buf, hash);
}

bool
ls_next_contended(LsSlice *rest, uint64_t *hash)
{
	if (rest->len < sizeof(uint64_t))
		return false;
	*hash = get_u64(rest->data);
	rest->data += sizeof(uint64_t);
	rest->len -= sizeof(uint64_t);
	return true;
}

bool
ls_next_param(LsSlice *rest, LsSlice *param)
{
	uint32_t	len;

	if (rest->len < 4)
		return false;
	len = get_u32(rest->data);
	if (len == UINT32_MAX)
	{
		param->data = NULL;
		param->len = 0;
		len = 0;
	}
	else
	{
		if (len > rest->len - 4)
			return false;
		param->data = rest->data + 4;
		param->len = len;
	}
	rest->data += 4 + len;
	rest->len -= 4 + len;
	return true;
}

/* Take the bytes up to a NUL from the front of *rest. */
static bool
next_string(LsSlice *rest, LsSlice *string)
{
	const uint8_t *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->data, 0, rest->len);
	if (end == NULL)
		return false;
	string->data = rest->data;
	string->len = (size_t) (end - rest->data);
	rest->data = end + 1;
	rest->len -= string->len + 1;
	return true;
}

bool
ls_next_setting(LsSlice *rest, LsSlice *name, LsSlice *value)
{
	LsSlice		after = *rest;

	if (!next_string(&after, name) || !next_string(&after, value))
		return false;
	*rest = after;
	return true;
}

/* ---------- all of a list, walked once */

/* Walk a keys field. */
const char *
count_keys(LsSlice keys, bool for_lock, uint32_t *n)
{
	LsKey		key;

	*n = 0;
	while (ls_next_key(&keys, &key))
	{
		if (for_lock && ls_mode_is_read(key.mode) && key.mode != LS_TABLE_READ_ROWS)
			return "a lock is asked for, and only to read";
		(*n)++;
	}
	return keys.len == 0 ? NULL : "the list of keys is malformed";
}

/* Walk a params field.  *nulls: how many of them are NULL; bytes: they are no texts. */
const char *
count_params(LsSlice params, bool bytes, uint32_t *n, uint32_t *nulls)
{
	LsSlice		param;

	*n = *nulls = 0;
	while (ls_next_param(&params, &param))
	{
		if (param.data == NULL)
			(*nulls)++;
		else if (!bytes && param.len > 0 && memchr(param.data, 0, param.len) != NULL)
			return "a parameter contains a NUL byte";
		if (++(*n) > LS_MAX_PARAMS)
			return "there are too many parameters";
	}
	return params.len == 0 ? NULL : "the list of parameters is malformed";
}

const char *
check_settings(LsSlice settings)
{
	LsSlice		name,
				value;

	while (ls_next_setting(&settings, &name, &value))
	{
		if (name.len == 0)
			return "a setting has no name";
	}
	return settings.len == 0 ? NULL : "the list of settings is malformed";
}
