/*
 * applypiece.c
 *	  Parameters of a changed row, or data of a COPY, that are too large for one message.
 *
 * They arrive in pieces, each a call of lockstep.apply_piece(), before the call that uses
 * them (apply_pieced_row, apply_pieced_copy), in the same transaction.  The pieces are
 * collected in memory of that transaction.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "apply.h"
#include "lockstep.h"

#define FIRST_SIZE (1024 * 1024)

LS_FUNCTION(lockstep_apply_piece);
LS_FUNCTION(lockstep_apply_pieced_row);
LS_FUNCTION(lockstep_apply_pieced_copy);

static char *pieces = NULL;		/* in TopTransactionContext */
static Size pieces_len;
static Size pieces_cap;
static bool watching = false;	/* for the transaction's end */

static void
on_transaction_end(void *arg)
{
	pieces = NULL;
	watching = false;
}

static void
forget_pieces(void)
{
	if (pieces != NULL)
		pfree(pieces);
	pieces = NULL;
}

static void
begin_pieces(void)
{
	static MemoryContextCallback callback = {.func = on_transaction_end};

	pieces = MemoryContextAllocHuge(TopTransactionContext, FIRST_SIZE);
	pieces_cap = FIRST_SIZE;
	pieces_len = 0;
	if (!watching)
		MemoryContextRegisterResetCallback(TopTransactionContext, &callback);
	watching = true;
}

static void
collect(LsSlice piece)
{
	if (pieces == NULL)
		begin_pieces();
	if (piece.len > pieces_cap - pieces_len)
	{
		Size		cap = pieces_cap * 2 + piece.len;

		pieces = repalloc_huge(pieces, cap);
		pieces_cap = cap;
	}
	memcpy(pieces + pieces_len, piece.data, piece.len);
	pieces_len += piece.len;
}

static LsSlice
collected(void)
{
	LsSlice		all = {(const uint8_t *) pieces, pieces != NULL ? pieces_len : 0};

	return all;
}

/* ---------- called by the replicator */

static LsSlice
slice_of_varlena(struct varlena *v)
{
	LsSlice		slice = {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};

	return slice;
}

static void
check_length(int64 length)
{
	if ((uint64) length != collected().len)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("%zu bytes of parameters came in pieces, not %lld", collected().len, (long long) length)));
}

Datum
lockstep_apply_piece(PG_FUNCTION_ARGS)
{
	bytea	   *piece = PG_GETARG_BYTEA_PP(0);

	apply_check_call("apply_piece");
	collect(slice_of_varlena(piece));
	PG_RETURN_VOID();
}

/* The text of the query, the rows that it has to change (-1: any), bytes in pieces. */
Datum
lockstep_apply_pieced_row(PG_FUNCTION_ARGS)
{
	text	   *query = PG_GETARG_TEXT_PP(0);
	LsRow		row = {slice_of_varlena(query), PG_GETARG_INT64(1), collected()};

	apply_check_call("apply_pieced_row");
	check_length(PG_GETARG_INT64(2));
	apply_row(&row);
	forget_pieces();
	PG_RETURN_VOID();
}

/* The command, bytes in pieces: one parameter, the data. */
Datum
lockstep_apply_pieced_copy(PG_FUNCTION_ARGS)
{
	LsSlice		rest = collected();
	LsSlice		data;
	int64		rows;

	apply_check_call("apply_pieced_copy");
	check_length(PG_GETARG_INT64(1));
	if (!ls_next_param(&rest, &data) || data.data == NULL || rest.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the data of a COPY that came in pieces are malformed")));
	(void) pg_verifymbstr((const char *) data.data, (int) data.len, false);
	rows = (int64) apply_copy(text_to_cstring(PG_GETARG_TEXT_PP(0)), (const char *) data.data, data.len);
	forget_pieces();
	PG_RETURN_INT64(rows);
}
