/*
 * request.c
 *	  Requests to the replicator that are not part of the transaction: values of
 *	  sequences to hand out, facts, outcomes of transactions, and queries that are
 *	  ordered at once, on their own.
 *
 * Each waits for its answer, interruptibly.  The late answer to a request that was cancelled is
 * recognized by its number and ignored.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "generation.h"
#include "guc.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "points.h"
#include "request.h"
#include "turn.h"
#include "writerhold.h"
#include "xact.h"

#define SERVED_MS 10000

static uint64 questions = 0;

/* link_is_alive() would discard messages for a transaction in progress. */
static void
connect_for_question(void)
{
	if (!xact_is_known())
		link_connect();
}

static void
connect_if_needed(void)
{
	if (!xact_is_known() || (!link_is_open() && !xact_is_told()))
		xact_connect();
}

/*
 * The next message of this type, until the deadline (0: none), when it is LINK_NOTHING; others
 * are handled here.
 */
static LinkResult
await_answer(LsMsgType wanted, LsSlice *payload, MonoTime deadline)
{
	uint64		granted = 0;

	for (;;)
	{
		long		left = deadline != 0 ? mono_ms_left(deadline) : -1;
		LsMsgType	type;
		LinkResult	result;

		if (left == 0)
			return LINK_NOTHING;
		result = link_await(&type, payload, (int) left, PG_WAIT_EXTENSION);
		if (result == LINK_LOST || (result == LINK_MESSAGE && type == wanted))
			return result;
		if (result == LINK_MESSAGE)
			xact_message(type, *payload, &granted);
		CHECK_FOR_INTERRUPTS();
	}
}

static LsSlice
next_answer(LsMsgType wanted)
{
	LsSlice		payload;

	(void) link_has_message(await_answer(wanted, &payload, 0));
	return payload;
}

/* ---------- values */

static bool
send_lease_request(const LsLease *request)
{
	size_t		size = ls_put_lease(NULL, 0, request);
	uint8_t    *message = palloc(size);
	bool		sent;

	ls_put_lease(message, size, request);
	sent = link_send_later(message, size) && link_drain();
	pfree(message);
	return sent;
}

/* False: the link is lost. */
static bool
await_lease(uint64 id, LsLeased *answer)
{
	LsSlice		payload;

	while (await_answer(LS_MSG_LEASED, &payload, 0) == LINK_MESSAGE)
	{
		const char *wrong = ls_get_leased(payload, answer);

		if (wrong != NULL)
			link_report_violation(wrong);
		if (answer->id == id)
			return true;
	}
	return false;
}

/* The answer may be lost with the link: the values are, then, and others are asked for. */
LsLeased
request_lease(LsLease *request)
{
	MonoTime	deadline = mono_after(ls_failover_wait);
	LsLeased	answer;

	connect_if_needed();
	for (;;)
	{
		bool		sent;

		request->id = ++questions;
		sent = send_lease_request(request);
		LS_POINT(LEASE_ASKED);
		if (sent && await_lease(request->id, &answer))
			break;
		if (xact_is_told() || !link_loss_is_passing() || mono_ms_left(deadline) == 0)
			link_report_lost();
		connect_if_needed();
	}
	LS_POINT(LEASED);
	return answer;
}

/* ---------- what the replicator knows */

/* The answer is copied, as the link reuses its buffer. */
void
request_facts(LsFactsKind kind, LsFacts *facts)
{
	LsFactsQuestion question = {0, kind, 0};
	uint8_t		message[64];
	const char *wrong;

	connect_for_question();
	question.question = ++questions;
	link_send(message, (int) ls_put_facts_question(message, sizeof(message), &question));
	do
	{
		wrong = ls_get_facts(next_answer(LS_MSG_FACTS), facts);
		if (wrong != NULL)
			link_report_violation(wrong);
	} while (facts->question != question.question);
	if (facts->cells.len > 0)
		facts->cells.data = memcpy(palloc(facts->cells.len), facts->cells.data, facts->cells.len);
}

/* Connect if needed, without an error if that fails; false: not connected. */
static bool
is_connected(void)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		connect_for_question();
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_ADMIN_SHUTDOWN)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return link_is_open();
}

/* False: not told in time, or not connected. */
static bool
ask_if_possible(LsFactsKind kind, uint64 seq, long patience_ms, LsFacts *facts)
{
	LsFactsQuestion question = {++questions, kind, seq};
	MonoTime	deadline = mono_after(patience_ms);
	uint8_t		message[64];
	LsSlice		payload;

	if (!is_connected() ||
		!link_send_later(message, ls_put_facts_question(message, sizeof(message), &question)))
		return false;
	while (await_answer(LS_MSG_FACTS, &payload, deadline) == LINK_MESSAGE)
	{
		if (ls_get_facts(payload, facts) == NULL && facts->question == question.question)
			return true;
	}
	return false;
}

bool
request_winner(uint64 seq, long patience_ms, LsFacts *facts)
{
	return ask_if_possible(LS_FACTS_WINNER, seq, patience_ms, facts);
}

/* The first cell is a number. */
static uint64
number_of(const LsFacts *facts)
{
	LsSlice		cells = facts->cells;
	LsSlice		cell;

	return facts->ncells > 0 && ls_next_param(&cells, &cell) && cell.data != NULL ?
		strtoull(xact_text_of(cell), NULL, 10) : 0;
}

/*
 * A node that the replicator has not served lately is not online, and is looked at before it
 * is; so its sessions, which may be restoring a dump, do not wait for a connection.
 *
 * What was decided before the replicator knew has to be applied first, as this change may refuse
 * it.  If it waits for a lock of ours, we fail, as anybody.
 */
void
request_note_local_change(void)
{
	LsFacts		facts;
	int64		served_ms;

	(void) generation_known(&served_ms);
	if (turn_is_open() && served_ms >= 0 && served_ms < SERVED_MS &&
		ask_if_possible(LS_FACTS_LOCAL_CHANGE, 0, SERVED_MS, &facts) && !turn_is_held_by_us())
		(void) turn_wait_applied_until(number_of(&facts), mono_after(SERVED_MS));
}

/* ---------- what became of a transaction */

static void
send_outcome_question(const Token *token, bool gave_up)
{
	LsOutcomeQuestion question;
	uint8_t		message[LS_HEADER_SIZE + 256];

	memset(&question, 0, sizeof(question));
	question.identity.node = ls_slice_of(token->node);
	question.identity.boot = token->boot;
	question.identity.pid = token->pid;
	question.identity.xcount = token->xcount;
	question.since = token->since;
	question.question = ++questions;
	question.gave_up = gave_up;
	link_send(message, ls_put_outcome_question(message, sizeof(message), &question));
}

/* Asks on the link, which must be open. */
LsPastOutcome
request_outcome(const Token *token, bool gave_up, uint64 *seq)
{
	LsOutcomeAnswer answer;
	const char *wrong;

	send_outcome_question(token, gave_up);
	do
	{
		wrong = ls_get_outcome_answer(next_answer(LS_MSG_FATE_IS), &answer);
		if (wrong != NULL)
			link_report_violation(wrong);
	} while (answer.question != questions);
	*seq = answer.seq;
	return answer.fate;
}

bool
request_past(const Token *token, MonoTime deadline, LsPastOutcome *outcome, uint64 *seq)
{
	LsOutcomeAnswer answer;
	LsMsgType	type;
	LsSlice		payload;
	long		left;

	send_outcome_question(token, false);
	while ((left = mono_ms_left(deadline)) > 0 && !ProcDiePending && !QueryCancelPending)
	{
		if (link_has_message(link_await(&type, &payload, (int) left, PG_WAIT_EXTENSION)) &&
			type == LS_MSG_FATE_IS && ls_get_outcome_answer(payload, &answer) == NULL && answer.question == questions)
		{
			*outcome = answer.fate;
			*seq = answer.seq;
			return true;
		}
	}
	return false;
}

/* ---------- queries on their own */

uint64
request_order_alone(LsQuery *query)
{
	StringInfoData inner;
	StringInfoData message;
	LsSingleQuery alone;
	LsOrdered	answer;
	const char *wrong;
	size_t		size;

	if (!xact_is_known())
		writerhold_wait();
	connect_if_needed();
	query->xcount = alone.id = xact_new_number();
	size = ls_put_query(NULL, 0, query);
	initStringInfo(&inner);
	enlargeStringInfo(&inner, (int) size);
	ls_put_query((uint8_t *) inner.data, size, query);
	alone.query = (LsSlice) {(const uint8_t *) inner.data, size};

	size = ls_put_single_query(NULL, 0, &alone);
	initStringInfo(&message);
	enlargeStringInfo(&message, (int) size);
	ls_put_single_query((uint8_t *) message.data, size, &alone);
	message.len = (int) size;
	link_send(message.data, message.len);
	pfree(message.data);
	pfree(inner.data);
	LS_POINT(ALONE_ASKED);
	do
	{
		wrong = ls_get_ordered(next_answer(LS_MSG_ORDERED), &answer);
		if (wrong != NULL)
			link_report_violation(wrong);
	} while (answer.id != alone.id);
	LS_POINT(ALONE_ORDERED);
	if (answer.seq == 0)
		xact_report_error(&answer.error);
	return answer.seq;
}

/* ---------- databases */

static void
send_database(const LsDatabase *request)
{
	size_t		size = ls_put_database(NULL, 0, request);
	uint8_t    *message = palloc(size);

	ls_put_database(message, size, request);
	link_send(message, size);
	pfree(message);
}

static void
report_database_unknown(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the connection to the replicator was lost while the command ran"),
			 errdetail("It may be done on all nodes, or on none."),
			 errhint("Look whether the database is there.")));
}

static void
await_database(uint64 id, LsDatabaseDone *answer)
{
	do
	{
		LsSlice		payload;
		const char *wrong;

		if (await_answer(LS_MSG_DATABASE_DONE, &payload, 0) != LINK_MESSAGE)
			report_database_unknown();
		wrong = ls_get_database_done(payload, answer);
		if (wrong != NULL)
			link_report_violation(wrong);
	} while (answer->id != id);
}

/* A cancel ends the wait only. */
void
request_database(LsDatabase *request)
{
	LsDatabaseDone answer;

	connect_for_question();
	request->id = ++questions;
	send_database(request);
	PG_TRY();
	{
		await_database(request->id, &answer);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			ereport(WARNING,
					(errmsg("the nodes go on with the command"),
					 errdetail("Its database may be there, or gone, a moment later.")));
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (answer.error.message.len > 0)
		xact_report_error(&answer.error);
}
