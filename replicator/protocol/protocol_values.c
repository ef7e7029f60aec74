/*
 * protocol_values.c
 *	  The meaning of values in messages: which key modes conflict, names of forms and
 *	  reasons; and the bytes that the handshake signs.  Pure; compiled into both sides,
 *	  like protocol.c.
 */
#include "protocol_private.h"

/*
 * As PostgreSQL's own locks: 's' is FOR KEY SHARE, 'u' FOR NO KEY UPDATE, 'x'
 * FOR UPDATE, 'h' FOR SHARE; the table modes are the textbook's.
 */
bool
ls_modes_conflict(LsKeyMode a, LsKeyMode b)
{
	switch (a)
	{
		case LS_ROW_SHARE:
			return b == LS_ROW_EXCLUSIVE;
		case LS_ROW_UPDATE:
			return b == LS_ROW_UPDATE || b == LS_ROW_EXCLUSIVE || b == LS_ROW_LOCK || b == LS_ROW_READ;
		case LS_ROW_LOCK:
		case LS_ROW_READ:
			return b == LS_ROW_UPDATE || b == LS_ROW_EXCLUSIVE;
		case LS_ROW_EXCLUSIVE:
			return !ls_mode_is_table(b);
		case LS_TABLE_IS:
			return b == LS_TABLE_X;
		case LS_TABLE_IX:
			return b == LS_TABLE_S || b == LS_TABLE_X || b == LS_TABLE_READ;
		case LS_TABLE_READ_ROWS:
			return b == LS_TABLE_X;
		case LS_TABLE_S:
		case LS_TABLE_READ:
			return b == LS_TABLE_IX || b == LS_TABLE_X;
		case LS_TABLE_X:
			return ls_mode_is_table(b);
	}
	return false;
}

bool
ls_mode_is_table(LsKeyMode mode)
{
	switch (mode)
	{
		case LS_TABLE_IS:
		case LS_TABLE_IX:
		case LS_TABLE_S:
		case LS_TABLE_X:
		case LS_TABLE_READ_ROWS:
		case LS_TABLE_READ:
			return true;
		case LS_ROW_LOCK:
		case LS_ROW_READ:
		case LS_ROW_SHARE:
		case LS_ROW_UPDATE:
		case LS_ROW_EXCLUSIVE:
			return false;
	}
	return false;
}

bool
ls_mode_is_read(LsKeyMode mode)
{
	return mode == LS_ROW_READ || mode == LS_TABLE_READ_ROWS || mode == LS_TABLE_READ;
}

const char *
ls_reason_text(LsReason reason)
{
	switch (reason)
	{
		case LS_REASON_ROW_CHANGED:
			return "the row that was changed";
		case LS_REASON_ROW_RUN:
			return "consecutive inserts into one table";
		case LS_REASON_UTILITY:
			return "utility command";
		case LS_REASON_SHIPPABLE:
			return "self-contained and deterministic";
		case LS_REASON_READ:
			return "rows and tables that were read or locked";
		case LS_REASON_SELECT_WROTE:
			return "a SELECT that changed data";
		case LS_REASON_CALL:
			return "a function with an effect other than rows";
		case LS_REASON_SEQUENCE:
			return "position of a sequence";
	}
	return "unknown";
}

const char *
ls_form_text(LsForm form)
{
	switch (form)
	{
		case LS_FORM_STATEMENT:
			return "statement";
		case LS_FORM_ROW:
			return "row";
		case LS_FORM_COPY:
			return "copy";
		case LS_FORM_KEYS:
			return "keys";
		case LS_FORM_PIECE:
			return "piece";
	}
	return "unknown";
}

/* ---------- what the handshake signs */

static size_t
put_signed_part(uint8_t *buf, size_t cap, size_t at, const void *data, size_t len)
{
	if (at + 4 + len <= cap)
	{
		put_u32(buf + at, (uint32_t) len);
		if (len > 0)
			memcpy(buf + at + 4, data, len);
	}
	return at + 4 + len;
}

/*
 * Every part is preceded by its length, so that no two handshakes sign the
 * same bytes.
 */
size_t
ls_signed_bytes(uint8_t *buf, size_t cap, const char *role,
				const LsHello *hello, LsSlice challenge_nonce)
{
	uint8_t		numbers[16];
	size_t		at = 0;

	put_u32(numbers, hello->version);
	put_u64(numbers + 4, hello->boot);
	put_u32(numbers + 12, hello->pid);

	at = put_signed_part(buf, cap, at, "lockstep", 8);
	at = put_signed_part(buf, cap, at, role, strlen(role));
	at = put_signed_part(buf, cap, at, numbers, sizeof(numbers));
	at = put_signed_part(buf, cap, at, hello->node.data, hello->node.len);
	at = put_signed_part(buf, cap, at, hello->database.data, hello->database.len);
	at = put_signed_part(buf, cap, at, hello->cluster.data, hello->cluster.len);
	at = put_signed_part(buf, cap, at, hello->nonce.data, hello->nonce.len);
	at = put_signed_part(buf, cap, at, challenge_nonce.data, challenge_nonce.len);
	if (hello->channel.len > 0)
		at = put_signed_part(buf, cap, at, hello->channel.data, hello->channel.len);
	return at;
}
