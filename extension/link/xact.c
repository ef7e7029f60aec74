/*
 * xact.c
 *	  The queue of the current transaction: what it announces and forwards to the
 *	  replicator.  (Its number and the rest of its state: xact_state.c.)
 *
 * Queries are encoded into a buffer as they come.  A small transaction sends nothing before it
 * asks for the verdict: one send per commit.  Beyond STREAM_AT bytes the buffer is sent whenever
 * it is full, so that a large transaction needs little memory in the backend.
 *
 * Subtransactions: a mark is made at the start of each; when it aborts, the queue is cut back to
 * the mark.  Queries that were sent meanwhile are taken back by a message (R, "keep the first
 * n").
 *
 *		queue	|--- sent ---|--- buffered ---|
 *					^ mark A	   ^ mark B
 *
 *		B aborts: the buffer is cut at B.  A aborts: the buffer is emptied and
 *		R(n of A) put into it.
 *
 * Locks that an aborted subtransaction requested are released at once, by a message (B, "keep
 * those of the first n requests").
 */
#include "postgres.h"

#include "pgstat.h"
#include "utils/memutils.h"

#include "growing.h"
#include "heldlocks.h"
#include "indoubt.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "ls_link.h"
#include "pack.h"
#include "points.h"
#include "readkeys.h"
#include "repertoire.h"
#include "turn.h"
#include "writerhold.h"
#include "xact_state.h"

#define STREAM_AT (32 * 1024)

/*
 * Parameters of changed rows beyond this size travel in pieces.  Without a large value, neither
 * a run of rows nor a query for many rows reaches it.
 */
#define PIECES_AT (512 * 1024)

/* Larger ones keep the others of their node waiting for their turn: executed first. */
#define CERTAIN_ROWS 64
#define CERTAIN_SIZE (64 * 1024)

typedef struct Mark
{
	int			level;			/* nesting level that starts after it */
	uint64		nstatements;
	uint64		appended;
	int			kept_len;
	uint64		nkept;
	LsReadMark	reads;
	uint64		locks_asked;
	int			rows_held;		/* see heldlocks.c */
} Mark;

static XactPostpone postponed = XACT_POSTPONE_NOTHING;

static Mark *marks = NULL;		/* a stack */
static int	nmarks = 0;
static int	marks_cap = 0;

/* ---------- the queue */

void
xact_init(void)
{
	MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);

	initStringInfo(&ls_xact.queue);
	initStringInfo(&ls_xact.kept);
	MemoryContextSwitchTo(context);
}

/* Free a buffer that a huge transaction has enlarged. */
static void
shrink(StringInfo buf)
{
	if (buf->maxlen > 4 * STREAM_AT)
	{
		MemoryContext context = MemoryContextSwitchTo(TopMemoryContext);

		pfree(buf->data);
		initStringInfo(buf);
		MemoryContextSwitchTo(context);
	}
	else
		resetStringInfo(buf);
}

/* Room for a message of this size at the end of the queue. */
uint8_t *
xact_queue_room(size_t size)
{
	enlargeStringInfo(&ls_xact.queue, size);
	return (uint8_t *) ls_xact.queue.data + ls_xact.queue.len;
}

/* Room that there is, perhaps none. */
static uint8_t *
xact_queue_spare(size_t *size)
{
	*size = ls_xact.queue.maxlen > ls_xact.queue.len ? (size_t) (ls_xact.queue.maxlen - ls_xact.queue.len - 1) : 0;
	return (uint8_t *) ls_xact.queue.data + ls_xact.queue.len;
}

void
xact_queue_added(size_t size)
{
	ls_xact.queue.len += size;
	ls_xact.appended += size;
}

static void
append_rollback_to(uint64 keep)
{
	LsRollbackTo back = {ls_xact.xcount, keep};
	size_t		size = ls_put_rollback_to(NULL, 0, &back);

	ls_put_rollback_to(xact_queue_room(size), size, &back);
	xact_queue_added(size);
}

void
xact_postpone(XactPostpone what)
{
	postponed = what;
}

/* Postponed, it is found by the next statement that writes, and by COMMIT. */
static void
lost(void)
{
	if (postponed == XACT_POSTPONE_NOTHING)
		xact_report_lost();
	ls_xact.ended = true;
	strlcpy(ls_xact.ended_why, link_lost_message(), sizeof(ls_xact.ended_why));
}

/* Wait until the socket has taken what was sent. */
static void
drain(void)
{
	ls_xact.drains_later = postponed == XACT_POSTPONE_WAIT;
	if (!ls_xact.drains_later && !link_drain())
		lost();
}

/* Send what is buffered. */
void
xact_stream(void)
{
	bool		ok;

	if (xact_told_elsewhere())
	{
		lost();
		return;
	}
	ls_xact.told = true;		/* the transaction is announced, by this
								 * connection */
	ls_xact.told_by = link_number();
	ok = link_send_later(ls_xact.queue.data, ls_xact.queue.len);
	ls_xact.sent = ls_xact.appended;
	resetStringInfo(&ls_xact.queue);
	if (ok)
		drain();
	else
		lost();
	LS_POINT(STREAMED);
}

/* Keep the first queries, as long as none is missing in between. */
static void
keep(const char *message, size_t size)
{
	if (ls_xact.nkept + 1 != ls_xact.nstatements ||
		ls_xact.kept.len + size > LS_FORWARDED_KEPT)
		return;
	appendBinaryStringInfo(&ls_xact.kept, message, size);
	ls_xact.nkept++;
}

void
xact_writes(void)
{
	xact_check_not_ended();
	if (ls_xact.writes)
	{
		if (unlikely(ls_xact.drains_later))
			drain();
		return;
	}
	do
	{
		writerhold_wait();
		xact_connect();
	} while (!writerhold_enter());
	ls_xact.xcount = xact_new_number();
	ls_xact.since = turn_applied();
	ls_xact.writes = true;
	indoubt_check();
}

/*
 * The same before the first lock of a command, which no ExecutorStart announces: the sample of
 * the session's previous transaction does not count for this one.
 */
void
xact_announce(void)
{
	indoubt_before_write();
	xact_writes();
}

/* A message that changes nothing: "keep the first 0 queries". */
void
xact_tell(void)
{
	xact_writes();
	if (ls_xact.told)
		return;
	if (ls_xact.nstatements == 0)
		append_rollback_to(0);
	xact_stream();
}

static void
append_query(LsQuery *query)
{
	size_t		size;
	size_t		spare;
	uint8_t    *at;

	query->xcount = ls_xact.xcount;
	at = xact_queue_spare(&spare);
	size = ls_put_query(at, spare, query);
	if (unlikely(size > spare))
	{
		if (size > (size_t) LS_HEADER_SIZE + LS_MAX_PAYLOAD || size >= MaxAllocSize - STREAM_AT * 2)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a query of %zu bytes is too large to be replicated", size)));
		at = xact_queue_room(size);
		ls_put_query(at, size, query);
	}
	xact_queue_added(size);
	ls_xact.nstatements++;
	keep((const char *) at, size);
	LS_POINT(CAPTURED);
	if (ls_xact.queue.len > STREAM_AT)
		xact_stream();
}

/*
 * Large values travel in pieces, so that neither the replicator nor any connection has to hold
 * more than a piece in memory.
 */
static void
append_pieces(LsQuery *query)
{
	LsSlice		rest = query->params;
	StringInfoData packed;

	initStringInfo(&packed);
	while (rest.len > 0)
	{
		LsQuery		piece = {.form = LS_FORM_PIECE,.reason = query->reason,.rows = -1,.nparams = 1};
		size_t		n = Min(rest.len, LS_PIECE_SIZE);

		resetStringInfo(&packed);
		pack_param(&packed, (const char *) rest.data, n);
		piece.text = ls_slice_of("SELECT lockstep.apply_piece($1)");
		piece.params = ls_slice_of_buffer(&packed);
		append_query(&piece);
		rest.data += n;
		rest.len -= n;
	}
	pfree(packed.data);
	query->pieces = query->params.len;
	query->params.len = 0;
	query->nparams = 0;
}

/* What is executed elsewhere is rows; reads are keys alone. */
static void
count_rows(const LsQuery *query)
{
	if (query->form == LS_FORM_KEYS && !query->ddl)
		return;
	if (query->ddl || query->rows < 0 || query->pieces > 0 ||
		(query->reason != LS_REASON_ROW_CHANGED && query->reason != LS_REASON_ROW_RUN))
		ls_xact.may_be_refused = true;
	else
		ls_xact.nrows += query->rows;
}

void
xact_forward(LsQuery *query)
{
	if (postponed != XACT_POSTPONE_NOTHING && ls_xact.ended)
		return;
	xact_writes();
	if (query->form == LS_FORM_STATEMENT)
		repertoire_check_query(query);
	if (query->params.len > PIECES_AT && (query->form == LS_FORM_ROW || query->form == LS_FORM_COPY))
		append_pieces(query);
	count_rows(query);
	append_query(query);
}

/* Remains set if the subtransaction aborts, which costs time but is safe. */
void
xact_may_fail_elsewhere(void)
{
	ls_xact.may_fail_elsewhere = true;
}

/* Remains set, as above. */
void
xact_may_be_refused(void)
{
	ls_xact.may_be_refused = true;
}

bool
xact_is_certain(void)
{
	return !ls_xact.may_be_refused && !ls_xact.may_fail_elsewhere && ls_xact.nrows > 0 &&
		ls_xact.nrows <= CERTAIN_ROWS && ls_xact.appended <= CERTAIN_SIZE;
}

uint64
xact_nstatements(void)
{
	return ls_xact.nstatements;
}

LsSlice
xact_forwarded(bool *truncated)
{
	LsSlice		result = {(const uint8_t *) ls_xact.kept.data, ls_xact.kept.len};

	*truncated = ls_xact.nkept < ls_xact.nstatements;
	return result;
}

void
xact_set_apply_position(JournalPosition position)
{
	ls_xact.apply_position = position;
}

/* ---------- subtransactions */

static void
mark_push(int level)
{
	Mark	   *m;

	marks = ls_with_room(marks, nmarks, &marks_cap, sizeof(Mark));
	m = &marks[nmarks++];
	m->level = level;
	m->nstatements = ls_xact.nstatements;
	m->appended = ls_xact.appended;
	m->kept_len = ls_xact.kept.len;
	m->nkept = ls_xact.nkept;
	m->reads = readkeys_mark();
	m->locks_asked = ls_xact.locks_asked;
	m->rows_held = heldlocks_rows();
}

/* Queries that were sent already are taken back by a message. */
static void
queue_take_back(uint64 keep)
{
	resetStringInfo(&ls_xact.queue);
	ls_xact.appended = ls_xact.sent;
	append_rollback_to(keep);
}

static void
queue_cut(const Mark *m)
{
	if (ls_xact.nstatements == m->nstatements)
		return;
	if (m->appended >= ls_xact.sent)
	{
		ls_xact.queue.len = m->appended - ls_xact.sent;
		ls_xact.appended = m->appended;
	}
	else
		queue_take_back(m->nstatements);
	ls_xact.nstatements = m->nstatements;
	ls_xact.kept.len = m->kept_len;
	ls_xact.nkept = m->nkept;
}

/*
 * Release at once what the subtransaction requested, granted or not: the transaction may be idle
 * for long, and others wait.
 */
static void
give_back_locks(const Mark *m)
{
	LsRollbackTo unlock = {ls_xact.xcount, m->locks_asked};
	uint8_t		message[64];

	heldlocks_cut(m->rows_held, m->locks_asked);
	if (ls_xact.locks_asked > m->locks_asked && ls_xact.told)
		link_send_or_close(message, ls_put_unlock(message, sizeof(message), &unlock));
}

/* Take the mark of this level off the stack; NULL if none was made. */
static const Mark *
mark_pop(int level)
{
	if (nmarks == 0 || marks[nmarks - 1].level != level)
		return NULL;
	return &marks[--nmarks];
}

void
xact_at_subxact_start(int level)
{
	mark_push(level);
}

void
xact_at_subxact_commit(int level)
{
	(void) mark_pop(level);
}

void
xact_at_subxact_abort(int level)
{
	const Mark *m = mark_pop(level);

	if (m == NULL)
		return;
	queue_cut(m);
	give_back_locks(m);
	readkeys_cut(m->reads);
}

/* Forget the transaction; the next one starts from here. */
void
xact_at_xact_end(void)
{
	shrink(&ls_xact.queue);
	shrink(&ls_xact.kept);
	ls_xact.writes = false;
	ls_xact.xcount = 0;			/* late messages for it are ignored */
	ls_xact.told = false;
	ls_xact.ended = false;
	ls_xact.drains_later = false;
	ls_xact.nstatements = 0;
	ls_xact.appended = 0;
	ls_xact.sent = 0;
	ls_xact.nkept = 0;
	ls_xact.may_fail_elsewhere = false;
	ls_xact.may_be_refused = false;
	ls_xact.nrows = 0;
	ls_xact.locks_asked = 0;
	ls_xact.locks_granted = 0;
	ls_xact.apply_position = (JournalPosition) {0, 0};
	nmarks = 0;
	heldlocks_at_xact_end();
}
