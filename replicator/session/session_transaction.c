/*
 * session_transaction.c
 *	  Messages of a backend for the transaction of its session, and the answers.
 *
 *	   nothing --Q,L--> open --P--> asked --verdict 'c'--> unconfirmed --F,P--> nothing
 *						  |           |
 *						  Z           verdict 'r', 'w' ---> nothing
 *
 * When the session ends, an open transaction, or one that was asked for and is not decided, is
 * rolled back on all nodes; an unconfirmed one the node gets by apply.  A message out of order
 * ends the session that sent it and nothing else.
 *
 * Ownership: a session has a reference to its transaction (tx until the verdict,
 * unconfirmed after it); the sequencer calls back through tx->session, which is
 * cleared when the session goes.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log_limit.h"
#include "peer.h"
#include "points.h"
#include "role_names.h"
#include "sequencer.h"
#include "session_private.h"
#include "spill.h"

/* When all queues together have so many times transaction_memory, those above
 * SMALL_QUEUE go to disk, too. */
#define MEMORY_SHARES 16
#define SMALL_QUEUE (64 * 1024)

/* ---------- which transaction a message belongs to */

static void
begin_transaction(Session *s, uint64_t xcount)
{
	LsIdentity	id = {ls_slice_of(node_name(s->node)), s->boot, s->pid, xcount};

	s->tx = tx_create(&id, ls_slice_of(s->database), (uint32_t) s->node);
	s->tx->session = s;
	s->tx->role = s->role;
	tx_charge(s->tx, s->role);
	s->tx->oldest_seen = UINT64_MAX;
	s->last_xcount = xcount;
	s->asked = false;
	s->discarded = DISCARDED_NOT;
	s->granting = false;
	s->locks_asked = 0;
	s->statements = 0;
}

/*
 * The transaction that a message belongs to: the open one, or a new one.  NULL:
 * the session has been ended, or the message is of a transaction that has been
 * rolled back already and is ignored.
 */
static Transaction *
transaction_for(Session *s, uint64_t xcount)
{
	if (s->tx == NULL)
	{
		if (xcount == s->last_xcount && xcount != 0)
			return NULL;		/* sent before it learnt of its end */
		if (xcount <= s->last_xcount)
		{
			session_fail(s, "08P01", NULL, "transaction %" PRIu64 " after %" PRIu64, xcount, s->last_xcount);
			return NULL;
		}
		begin_transaction(s, xcount);
	}
	else if (s->tx->xcount != xcount)
	{
		session_fail(s, "08P01", NULL, "message of transaction %" PRIu64 " while %" PRIu64 " is open",
					 xcount, s->tx->xcount);
		return NULL;
	}
	if (s->asked)
	{
		session_fail(s, "08P01", NULL, "message of a transaction that has been asked for");
		return NULL;
	}
	return s->tx;
}

/*
 * The backend asks for a transaction that was rolled back before (by a deadlock of locks
 * requested first; the backend may have caught that error).
 */
static bool
answered_dead(Session *s, uint64_t xcount)
{
	LsVerdict	verdict;
	uint8_t		bytes[512];

	if (s->tx != NULL || xcount != s->last_xcount || xcount == 0)
		return false;
	memset(&verdict, 0, sizeof(verdict));
	verdict.xcount = xcount;
	verdict.outcome = LS_OUTCOME_ROLLED_BACK;
	verdict.error.sqlstate = ls_slice_of("40P01");
	verdict.error.message = ls_slice_of("the transaction has been rolled back already, because of a deadlock");
	verdict.error.detail = ls_slice_of("The error that said so named the transactions that waited for each other.");
	verdict.error.hint = ls_slice_of("The transaction might succeed if retried.");
	session_send(s, bytes, ls_put_verdict(bytes, sizeof(bytes), &verdict));
	return true;
}

/* The node has committed up to seq, as the session reports or its progress says. */
static void
origin_has_committed(Session *s, uint64_t seq)
{
	if (s->unconfirmed == NULL || seq < s->unconfirmed->seq)
		return;
	if (s->unconfirmed->wait == LS_WAIT_APPLIED && s->unconfirmed->state != TX_DONE)
	{
		session_let_go(&s->owed);
		s->owed = s->unconfirmed;
		s->unconfirmed = NULL;
	}
	else
		session_let_go(&s->unconfirmed);
}

static void
confirmed(Session *s, uint64_t seq)
{
	if (seq > sequencer_last_durable())
	{
		session_fail(s, "08P01", NULL, "confirmed seq %" PRIu64 " has never been decided", seq);
		return;
	}
	LOCKSTEP_POINT(CONFIRMED);
	node_heard_applied(s->node, seq);
	origin_has_committed(s, seq);
}

/* A session that has become idle must not keep the queue of its last transaction, nor that one's file. */
void
session_look_at_progress(Session *s)
{
	if (s->unconfirmed != NULL)
		origin_has_committed(s, node_applied(s->node));
}

/* The backend could not commit the decided transaction, or has not reported that it did. */
static void
not_committed(Session *s)
{
	Transaction *tx = s->unconfirmed;

	if (tx == NULL)
		return;
	s->unconfirmed = NULL;
	tx->session = NULL;
	if (tx->seq > node_applied(s->node))
		node_apply_at_origin(tx);
	tx_unref(tx);
}

/* ---------- messages */

/* S only grows within a transaction, so the first key of a query will do. */
static void
note_oldest_seen(Transaction *tx, const LsQuery *query)
{
	LsSlice		rest = query->keys;
	LsKey		key;

	if (ls_next_key(&rest, &key) && key.seen < tx->oldest_seen)
		tx->oldest_seen = key.seen;
}

/* Its queue stays in memory, or goes (on) to disk, from where it may begin early. */
static void
store_if_large(Transaction *tx)
{
	size_t		limit = (size_t) session_config->transaction_memory;

	if (tx->spill != NULL)
		limit = BODY_CHUNK;
	else if (limit > SMALL_QUEUE && tx_memory_of_all() / MEMORY_SHARES >= limit)
		limit = SMALL_QUEUE;
	else if (session_config->early_connections > 0 && limit > (size_t) session_config->early_size)
		limit = (size_t) session_config->early_size;
	if (tx_memory(tx) >= limit && tx_store(tx, session_config))
		early_apply_begin(tx);
}

static LogLimit refusals = {.max = 20};

static void
discard(Session *s, Discarded why)
{
	early_apply_end(s->tx);
	tx_discard(s->tx);
	s->discarded = why;
	if (why == DISCARDED_ROLE_SIZE || why == DISCARDED_ROLE_MEMORY)
		log_limited(&refusals, LOG_NOTICE, s->name, "a transaction is refused: role \"%s\" has reached %s",
					s->role != NULL ? s->role : "", why == DISCARDED_ROLE_SIZE ? "max_role_size" : "max_role_memory");
}

/* Would len more bytes exceed a limit? */
static Discarded
exceeds(const Session *s, size_t len)
{
	const RoleUse *use = role_use(s->role);

	if (tx_bytes(s->tx) + len > (uint64_t) session_config->max_transaction_size)
		return DISCARDED_TRANSACTION;
	if (use->size + len > (uint64_t) session_config->max_role_size)
		return DISCARDED_ROLE_SIZE;
	if (use->memory + len > (uint64_t) session_config->max_role_memory)
		return DISCARDED_ROLE_MEMORY;
	return DISCARDED_NOT;
}

static void
handle_query(Session *s, LsSlice payload, const uint8_t *message, size_t len)
{
	LsQuery		query;
	const char *wrong = ls_get_query(payload, &query);
	const char *sqlstate;
	Discarded	why;
	Transaction *tx;

	if (!session_decoded(s, "query message", wrong))
		return;
	tx = transaction_for(s, query.xcount);
	if (tx == NULL)
		return;
	s->statements++;
	note_oldest_seen(tx, &query);
	if (s->discarded != DISCARDED_NOT)
		return;
	why = exceeds(s, len);
	if (why != DISCARDED_NOT)
	{
		discard(s, why);
		return;
	}
	if (!buffer_try_reserve(&tx->queries, len))
	{
		session_fail(s, "53200", "Make it smaller, or give the replicator's machine more memory.",
					 "the replicator has no memory for a query of %zu bytes", len);
		return;
	}
	if (query.reason == LS_REASON_SEQUENCE)
		tx_keep_effect(tx, message, len);
	tx_append(tx, message, len, query.ddl);
	store_if_large(tx);
	if (tx_failure(tx, &sqlstate) != NULL)
		discard(s, DISCARDED_UNSTORED);
}

static void
handle_rollback_to(Session *s, LsSlice payload)
{
	LsRollbackTo m;
	const char *wrong = ls_get_rollback_to(payload, &m);
	const char *sqlstate;
	Transaction *tx;

	if (!session_decoded(s, "rollback message", wrong))
		return;
	tx = transaction_for(s, m.xcount);
	if (tx == NULL)
		return;
	if (s->discarded == DISCARDED_NOT && !tx_rollback_to(tx, m.keep) && tx_failure(tx, &sqlstate) != NULL)
		discard(s, DISCARDED_UNSTORED);
	else if (m.keep > s->statements || (s->discarded == DISCARDED_NOT && tx->nstatements != m.keep))
	{
		session_fail(s, "08P01", NULL, "rollback to statement %" PRIu64 " of %" PRIu64, m.keep, s->statements);
		return;
	}
	early_apply_cut(tx);
	s->statements = m.keep;
}

static void
handle_lock(Session *s, LsSlice payload)
{
	LsLock		m;
	const char *wrong = ls_get_lock(payload, &m);
	Transaction *tx;

	if (!session_decoded(s, "lock message", wrong))
		return;
	if (answered_dead(s, m.xcount))
		return;
	tx = transaction_for(s, m.xcount);
	if (tx == NULL)
		return;
	s->granting = true;
	s->locks_asked++;
	sequencer_lock(tx, &m);
}

/*
 * A subtransaction was rolled back; a transaction that has ended has no locks left to release.
 */
static void
handle_unlock(Session *s, LsSlice payload)
{
	LsRollbackTo m;
	const char *wrong = ls_get_rollback_to(payload, &m);
	Transaction *tx;

	if (!session_decoded(s, "unlock message", wrong))
		return;
	if (s->tx == NULL)
		return;
	tx = transaction_for(s, m.xcount);
	if (tx == NULL || m.keep >= s->locks_asked)
		return;
	s->granting = false;		/* the backend does not wait any more */
	sequencer_unlock(tx, m.keep);
}

/* It is rolled back instead of being asked for. */
static void
refuse_question(Session *s, const char *sqlstate, const char *message, const char *hint)
{
	LsVerdict	verdict;

	memset(&verdict, 0, sizeof(verdict));
	verdict.xcount = s->tx->xcount;
	verdict.outcome = LS_OUTCOME_ROLLED_BACK;
	verdict.error.sqlstate = ls_slice_of(sqlstate);
	verdict.error.message = ls_slice_of(message);
	verdict.error.hint = ls_slice_of(hint);
	sequencer_gone(s->tx);
	session_verdict(s->tx, &verdict);
}

static void
refuse_too_large(Session *s)
{
	char	   *message = xasprintf("transaction is larger than the replicator takes (%" PRId64 " bytes)",
									session_config->max_transaction_size);

	refuse_question(s, "54000", message, "Split it, or raise max_transaction_size of the replicator.");
	free(message);
}

static void
refuse_role(Session *s)
{
	bool		memory = s->discarded == DISCARDED_ROLE_MEMORY;
	int64_t		limit = memory ? session_config->max_role_memory : session_config->max_role_size;
	const char *role = s->role != NULL ? s->role : "";
	char	   *message = memory ?
	xasprintf("open transactions of role \"%s\" take more memory of the replicator than one role may (%" PRId64 " bytes)", role, limit) :
	xasprintf("open transactions of role \"%s\" take more of the replicator than one role may (%" PRId64 " bytes)", role, limit);

	refuse_question(s, "53400", message, memory ?
					"Retry when other transactions of the role have ended, or raise max_role_memory of the replicator." :
					"Retry when other transactions of the role have ended, or raise max_role_size of the replicator.");
	free(message);
}

/*
 * Its queries were discarded, so it is refused.  false: sequencer_ask() reports the reason, if
 * any.
 */
static bool
refuse_discarded(Session *s)
{
	switch (s->discarded)
	{
		case DISCARDED_NOT:
		case DISCARDED_UNSTORED:
			return false;
		case DISCARDED_TRANSACTION:
			refuse_too_large(s);
			return true;
		case DISCARDED_ROLE_SIZE:
		case DISCARDED_ROLE_MEMORY:
			refuse_role(s);
			return true;
	}
	return false;
}

static void
handle_ask(Session *s, LsSlice payload)
{
	LsAsk		m;
	const char *wrong = ls_get_ask(payload, &m);
	Transaction *tx;

	if (!session_decoded(s, "ask message", wrong))
		return;
	confirmed(s, m.confirmed > m.applied ? m.confirmed : m.applied);
	if (s->state == SESSION_ENDED)
		return;
	session_let_go(&s->owed);	/* nobody waits for an earlier one any more */
	not_committed(s);
	sequencer_turn_passed((uint32_t) s->node, m.applied);
	if (answered_dead(s, m.xcount))
		return;
	tx = transaction_for(s, m.xcount);
	if (tx == NULL)
		return;
	if (m.nstatements != s->statements)
	{
		session_fail(s, "08P01", NULL, "asked for %" PRIu64 " statements where %" PRIu64 " have arrived",
					 m.nstatements, s->statements);
		return;
	}
	s->asked = true;
	tx->waited_for = m.waited_for != 0;
	tx->wait = m.wait;
	tx->took_ms = m.took_ms;
	tx->certain = m.certain != 0 && m.wait == LS_WAIT_EXECUTED;
	if (!refuse_discarded(s))
		sequencer_ask(tx);
}

static void
handle_withdraw(Session *s, uint64_t xcount)
{
	if (s->tx == NULL || s->tx->xcount != xcount)
		return;					/* its verdict is under way */
	if (!s->asked && !s->granting)
	{
		session_fail(s, "08P01", NULL, "withdrew a transaction that was not asked for");
		return;
	}

	/* If it has been decided, that verdict comes. */
	(void) sequencer_withdraw(s->tx);
}

static void
handle_abandon(Session *s, uint64_t xcount)
{
	Transaction *tx = s->tx;

	if (s->unconfirmed != NULL && s->unconfirmed->xcount == xcount)
	{
		not_committed(s);
		return;
	}
	if (tx == NULL || tx->xcount != xcount)
		return;					/* nothing of it had arrived, or it is over */
	s->tx = NULL;
	tx->session = NULL;
	sequencer_gone(tx);
	tx_unref(tx);
}

static void
handle_number(Session *s, LsMsgType type, LsSlice payload)
{
	LsNumber	m;
	const char *wrong = ls_get_number(payload, &m);

	if (wrong != NULL)
		session_fail(s, "08P01", NULL, "malformed message of type %c: %s", type, wrong);
	else if (type == LS_MSG_CONFIRM)
		confirmed(s, m.value);
	else if (type == LS_MSG_WITHDRAW)
		handle_withdraw(s, m.value);
	else if (type == LS_MSG_NOW)
		session_now(s, m.value);
	else
		handle_abandon(s, m.value);
}

/* Of those that are no question at COMMIT. */
static bool
waits_for_answer(LsMsgType type)
{
	return type == LS_MSG_LOCK || type == LS_MSG_NOW || type == LS_MSG_FACTS_ASK || type == LS_MSG_LEASE ||
		type == LS_MSG_ALONE || type == LS_MSG_DATABASE || type == LS_MSG_FATE;
}

void
session_handle(Session *s, LsMsgType type, LsSlice payload, const uint8_t *message, size_t len)
{
	if (waits_for_answer(type))
		sequencer_node_waits((uint32_t) s->node);
	switch (type)
	{
		case LS_MSG_QUERY:
			handle_query(s, payload, message, len);
			break;
		case LS_MSG_ROLLBACK_TO:
			handle_rollback_to(s, payload);
			break;
		case LS_MSG_LOCK:
			handle_lock(s, payload);
			break;
		case LS_MSG_UNLOCK:
			handle_unlock(s, payload);
			break;
		case LS_MSG_ASK:
			handle_ask(s, payload);
			break;
		case LS_MSG_FATE:
			session_handle_outcome_question(s, payload);
			break;
		case LS_MSG_FACTS_ASK:
			session_handle_facts(s, payload);
			break;
		case LS_MSG_LOST:
			session_handle_conflict_report(s, payload);
			break;
		case LS_MSG_LEASE:
			session_lease(s, payload);
			break;
		case LS_MSG_ALONE:
			session_single_query(s, payload);
			break;
		case LS_MSG_DATABASE:
			session_database(s, payload);
			break;
		case LS_MSG_WITHDRAW:
		case LS_MSG_ABANDON:
		case LS_MSG_CONFIRM:
		case LS_MSG_NOW:
			handle_number(s, type, payload);
			break;
		default:
			session_fail(s, "08P01", NULL, "unexpected message of type %c (%s)", type, ls_message_name(type));
			break;
	}
}

/* ---------- answers, called by the sequencer */

void
session_verdict(Transaction *tx, const LsVerdict *verdict)
{
	Session    *s = tx->session;
	uint8_t		bytes[1024];
	uint8_t    *message = bytes;
	size_t		size;

	if (s == NULL)
		return;
	assert(s->tx == tx);
	size = ls_put_verdict(bytes, sizeof(bytes), verdict);
	if (size > sizeof(bytes))
	{
		message = xmalloc(size);
		ls_put_verdict(message, size, verdict);
	}
	session_send(s, message, size);
	if (message != bytes)
		free(message);

	s->tx = NULL;
	s->asked = false;
	s->granting = false;
	if (verdict->outcome == LS_OUTCOME_COMMITTED)
		s->unconfirmed = tx;	/* the reference goes along */
	else
	{
		tx->session = NULL;
		tx_unref(tx);
	}
}

void
session_granted(Transaction *tx, uint64_t seq)
{
	Session    *s = tx->session;
	LsGranted	m = {tx->xcount, seq, s != NULL ? s->locks_asked : 0};
	uint8_t		bytes[64];

	LOCKSTEP_POINT(LOCK_GRANTED);
	if (s == NULL || !s->granting)
		return;
	session_send(s, bytes, ls_put_granted(bytes, sizeof(bytes), &m));
	s->granting = false;
}

void
session_applied(Transaction *tx)
{
	Session    *s = tx->session;
	uint8_t		bytes[64];

	if (s == NULL || tx->wait != LS_WAIT_APPLIED)
		return;
	session_send(s, bytes, ls_put_number(bytes, sizeof(bytes), LS_MSG_APPLIED, tx->xcount));
	if (s->owed == tx)
		session_let_go(&s->owed);
}
