/*
 * protocol_rows.c
 *	  A transaction's changed rows as the argument of lockstep.apply_transaction():
 *	  packed by the daemon, walked by the server.  Pure, as protocol_lists.c.
 */
#include "protocol_private.h"

void
ls_put_work(uint8_t *buf, const LsWork *work)
{
	put_u64(buf, work->wait_for);
	put_u64(buf + 8, work->first);
	put_u64(buf + 16, work->seq);
	put_u64(buf + 24, work->chain);
}

bool
ls_get_work(LsSlice bytes, LsWork *work)
{
	if (bytes.len < LS_WORK_FIXED_SIZE)
		return false;
	work->wait_for = get_u64(bytes.data);
	work->first = get_u64(bytes.data + 8);
	work->seq = get_u64(bytes.data + 16);
	work->chain = get_u64(bytes.data + 24);
	work->rows = (LsSlice) {bytes.data + LS_WORK_FIXED_SIZE, bytes.len - LS_WORK_FIXED_SIZE};
	return true;
}

size_t
ls_put_row(uint8_t *buf, size_t cap, const LsRow *row)
{
	size_t		size = LS_ROW_FIXED_SIZE + row->text.len + row->params.len;

	if (row->text.len > LS_MAX_PAYLOAD || row->params.len > LS_MAX_PAYLOAD)
		return SIZE_MAX;
	if (size <= cap)
	{
		put_u32(buf, (uint32_t) row->text.len);
		put_u32(buf + 4, (uint32_t) row->params.len);
		put_u64(buf + 8, (uint64_t) row->rows);
		copy_bytes(buf + LS_ROW_FIXED_SIZE, row->text.data, row->text.len);
		copy_bytes(buf + LS_ROW_FIXED_SIZE + row->text.len, row->params.data, row->params.len);
	}
	return size;
}

bool
ls_next_row(LsSlice *rest, LsRow *row)
{
	size_t		text_len;
	size_t		params_len;

	if (rest->len < LS_ROW_FIXED_SIZE)
		return false;
	text_len = get_u32(rest->data);
	params_len = get_u32(rest->data + 4);
	row->rows = (int64_t) get_u64(rest->data + 8);
	rest->data += LS_ROW_FIXED_SIZE;
	rest->len -= LS_ROW_FIXED_SIZE;
	if (text_len > rest->len || params_len > rest->len - text_len)
		return false;
	if (text_len > 0)
		row->text = (LsSlice) {rest->data, text_len};
	row->params = (LsSlice) {rest->data + text_len, params_len};
	rest->data += text_len + params_len;
	rest->len -= text_len + params_len;
	return row->text.len > 0;
}
