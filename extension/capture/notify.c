/*
 * notify.c
 *	  NOTIFY and pg_notify: delivered on every node at commit, in commit order.
 *
 * Each is forwarded as a call of pg_notify.  PostgreSQL itself queues it, folds
 * duplicates, and delivers it at the commit of the transaction that applies it;
 * the apply session knows no savepoints, but those that were rolled back are
 * gone from the queue.  Listeners see the process that applied it as the
 * sender.  It has no key: a notification depends on nothing, and the turn gives
 * it its place.
 *
 * PreCommit_Notify, which runs after our PRE_COMMIT, serializes notifying
 * transactions by a lock on "database 0" that is held until the locks are
 * released.  It is taken inside of the turn and nowhere else, by those who need
 * no other lock afterwards, so the next in turn waits for it no longer than for
 * the commit record of the one before it.
 *
 * It fails when the server's queue is full, because a listener has not read for
 * very long, or as the transaction alone has more than fits in.  That would be after the verdict, so room for
 * all that the transaction sends is looked for before the question, and on the other nodes when they
 * execute the call.  Where the queue has filled since then, or the node catches up, a transaction
 * that is decided is applied without its notifications: no node is out for them.
 */
#include "postgres.h"

#include "access/slru.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "common/hashfn.h"
#include "nodes/parsenodes.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

#include "capture.h"
#include "compat.h"
#include "effectcall.h"
#include "guc.h"
#include "mode.h"
#include "patch.h"
#include "xact_state.h"

/* One eighth of the queue is for those that look at it at the same time, and for what is decided. */
#define SPARE_PAGES (LS_NOTIFY_QUEUE_PAGES / 8)

/* Before 17 the first segment counts as a whole. */
#define SPARE_OF_DECIDED Min(SLRU_PAGES_PER_SEGMENT, LS_NOTIFY_QUEUE_PAGES / 16)

/* PostgreSQL's AsyncQueueEntry (commands/async.c) without channel and payload, each of which ends with a zero byte. */
#define ENTRY_SIZE(channel_len, payload_len) (sizeof(int) + sizeof(Oid) + sizeof(TransactionId) + sizeof(int32) + \
											  (channel_len) + 1 + (payload_len) + 1)

#define NRECENT 64

#define CALL "SELECT pg_catalog.pg_notify("

static const char call_text[] =
CALL "$1::pg_catalog.text, $2::pg_catalog.text)";

static PGFunction original_pg_notify;

/* What the transaction has sent, or applied.  Those that were rolled back are counted, those that are sent again mostly not. */
static struct Sent
{
	LocalTransactionId lxid;
	uint64		entries;		/* of the queue */
	uint64		bytes;
	size_t		longest;
	uint64		recent[NRECENT];	/* hashes: PostgreSQL queues equal ones
									 * once */
}			sent;

static bool was_left_out = false;	/* the last one of this session */

static void
count(const char *channel, const char *payload)
{
	size_t		channel_len = strlen(channel);
	size_t		payload_len = strlen(payload);
	size_t		size = INTALIGN(ENTRY_SIZE(channel_len, payload_len));
	uint64		hash = hash_combine64(hash_bytes_extended((const unsigned char *) channel, channel_len, 0),
									  hash_bytes_extended((const unsigned char *) payload, payload_len, 0));

	if (sent.lxid != ls_lxid(MyProc))
		sent = (struct Sent) {.lxid = ls_lxid(MyProc)};
	if (sent.recent[hash % NRECENT] == hash)
		return;
	sent.recent[hash % NRECENT] = hash;
	sent.entries++;
	sent.bytes += size;
	sent.longest = Max(sent.longest, size);
}

/*
 * At most so many pages take what was sent.  A page ends where the next entry has no room, so it has less free than the
 * longest; and two that follow each other have more than one page of entries.
 */
static uint64
needed_pages(void)
{
	uint64		filled = Max(BLCKSZ - sent.longest, BLCKSZ / 2);

	return Min(sent.entries, sent.bytes / filled) + 1;
}

static double
queue_usage(void)
{
	return DatumGetFloat8(DirectFunctionCall1(pg_notification_queue_usage, (Datum) 0));
}

static bool
has_room(uint64 spare)
{
	return queue_usage() * LS_NOTIFY_QUEUE_PAGES + needed_pages() + spare < LS_NOTIFY_QUEUE_PAGES;
}

static void
check_room(void)
{
	if (has_room(SPARE_PAGES))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many notifications in the NOTIFY queue of node \"%s\"", ls_node_name),
			 errdetail("It has %llu pages and is %.0f%% full; this transaction needs up to %llu, and one eighth is kept free.",
					   (unsigned long long) LS_NOTIFY_QUEUE_PAGES, 100 * queue_usage(), (unsigned long long) needed_pages()),
			 errhint("If others fill it, a session there listens, and has been in one transaction for very long: end that transaction. The server's log names the process.")));
}

/* Before the question. */
void
notify_check(void)
{
	if (LocalTransactionIdIsValid(sent.lxid) && sent.lxid == ls_lxid(MyProc))
		check_room();
}

static void
forward(const char *channel, const char *payload)
{
	EffectCall	call;

	effectcall_begin(&call, call_text);
	effectcall_add_param(&call, channel, strlen(channel));
	effectcall_add_param(&call, payload, strlen(payload));
	effectcall_forward(&call);
	count(channel, payload);
}

static char *
text_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? pstrdup("") : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* What is decided has to be applied. */
static bool
has_room_for_decided(void)
{
	bool		room = has_room(SPARE_OF_DECIDED);

	if (!room && !was_left_out)
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("notifications of other nodes are left out on node \"%s\": its NOTIFY queue is full", ls_node_name),
				 errdetail("Transaction %llu is the first.", (unsigned long long) ls_xact.apply_position.seq),
				 errhint("A session there listens, and has been in one transaction for very long: end that transaction.")));
	was_left_out = !room;
	return room;
}

/* True: it is to happen here, too. */
static bool
apply(const char *channel, const char *payload)
{
	if (!effectcall_is_forwarded(CALL))
		return false;
	count(channel, payload);
	if (ls_xact.apply_position.seq != 0)
		return has_room_for_decided();
	check_room();
	return true;
}

static Datum
instead_of_pg_notify(PG_FUNCTION_ARGS)
{
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			forward(text_argument(fcinfo, 0), text_argument(fcinfo, 1));
			break;
		case LS_MODE_APPLY:
			if (!apply(text_argument(fcinfo, 0), text_argument(fcinfo, 1)))
				PG_RETURN_VOID();
			break;
		case LS_MODE_OFF:
			break;
	}
	return original_pg_notify(fcinfo);
}

/* The command.  False: it has no effect here. */
bool
notify_command(NotifyStmt *stmt)
{
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			forward(stmt->conditionname, stmt->payload != NULL ? stmt->payload : "");
			break;
		case LS_MODE_APPLY:
			return false;		/* calls are forwarded, not commands */
		case LS_MODE_OFF:
			break;
	}
	return true;
}

/*
 * Functions in C that notify by themselves pass nothing that we see.  One is
 * known: the trigger of contrib/tcn.
 */
bool
notify_is_hidden_in(Form_pg_proc proc, HeapTuple tuple)
{
	bool		isnull;
	Datum		source;

	if (proc->prorettype != TRIGGEROID)
		return false;
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	return !isnull && strcmp(TextDatumGetCString(source), "triggered_change_notification") == 0;
}

void
notify_refuse_hidden(void)
{
	bool		allowed = ls_unreplicated == LS_UNREPLICATED_ALLOW;

	ereport(allowed ? WARNING : ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 allowed ? errmsg("notifications of triggered_change_notification are not replicated") :
			 errmsg("cannot run triggered_change_notification on a node"),
			 errdetail("It notifies in a way that cannot be captured."),
			 errhint("Use a trigger function that calls pg_notify.")));
}

void
notify_replace_functions(void)
{
	ls_replace_function(F_PG_NOTIFY, instead_of_pg_notify, &original_pg_notify, "pg_notify");
}
