/*
 * session.c
 *	  One backend of a node: its socket, and the messages by which it queues a
 *	  transaction, asks for its verdict, and confirms that it has committed.
 *
 *			connected			  hello			   proof
 *	   HELLO ----------> (HELLO) ------> PROOF ----------> READY ----> ENDED
 *
 * and within READY, per transaction:
 *
 *	   nothing --Q,L--> open --P--> asked --verdict 'c'--> unconfirmed --F,P--> nothing
 *						  |           |
 *						  Z           verdict 'r', 'w' ---> nothing
 *
 * A session ends at any time: what is open or asked and not decided is rolled
 * back everywhere; what is unconfirmed the node gets by apply.  A message out of
 * order ends the session that sent it and nothing else.
 *
 * Ownership: a session has a reference to its transaction (tx until the verdict,
 * unconfirmed after it); the sequencer calls back through tx->session, which is
 * cleared when the session goes.  A session that ended is freed when the loop's
 * round is over, so callers may hold on to it until they return to the loop.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "node.h"
#include "sequencer.h"
#include "session_private.h"
#include "spill.h"

#define READ_SIZE (256 * 1024)
#define HANDSHAKE_MS 10000
#define ALIVE_MS 1000

/* When all queues together have so many times transaction_memory, those above
 * SMALL_QUEUE go to disk, too. */
#define MEMORY_SHARES 16
#define SMALL_QUEUE (64 * 1024)

const Config *session_config;

/* Bytes just read, of whatever session; what is incomplete goes to its buffer. */
static uint8_t read_bytes[READ_SIZE];
static int	nconnections;

/* ---------- ending */

static void
on_bury(void *arg)
{
	Session    *s = arg;

	buffer_free(&s->in);
	buffer_free(&s->out);
	buffer_free(&s->hello_bytes);
	free(s);
}

void
session_end(Session *s)
{
	if (s->state == SESSION_ENDED)
		return;
	if (s->state == SESSION_READY)
		table_remove(s);
	s->state = SESSION_ENDED;
	loop_cancel(s->patience);
	s->patience = NULL;
	loop_undefer(&s->flush);
	loop_unwatch(s->watch);
	close(s->fd);
	nconnections--;
	session_forget_transactions(s);
	loop_defer(&s->bury);
}

/* ---------- writing */

static void
session_write(Session *s)
{
	while (s->out.pos < s->out.len)
	{
		ssize_t		n = send(s->fd, s->out.data + s->out.pos, s->out.len - s->out.pos, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		{
			loop_change(s->watch, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n < 0)
		{
			log_message(LOG_INFO, s->name, "could not send to the backend: %s", strerror(errno));
			session_end(s);
			return;
		}
		buffer_consume(&s->out, (size_t) n);
	}
	loop_change(s->watch, EPOLLIN);
}

static void
on_flush(void *arg)
{
	session_write(arg);
}

void
session_send(Session *s, const void *message, size_t len)
{
	if (s->state == SESSION_ENDED)
		return;
	buffer_append(&s->out, message, len);
	loop_defer(&s->flush);
}

static void
send_error(Session *s, const LsErrorFields *error)
{
	size_t		size = ls_put_error(NULL, 0, error);
	uint8_t    *message = xmalloc(size);

	ls_put_error(message, size, error);
	session_send(s, message, size);
	free(message);
}

void
session_fail(Session *s, const char *sqlstate, const char *hint, const char *fmt,...)
{
	char		text[1024];
	LsErrorFields error;
	va_list		args;

	if (s->state == SESSION_ENDED)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* that a node is not online has been told already, once for all sessions */
	log_message(strcmp(sqlstate, "57P03") == 0 ? LOG_DEBUG : LOG_WARNING,
				s->name, "session ended: %s", text);

	/* a backend that waits for an answer need not be left in doubt */
	if (s->tx != NULL)
		sequencer_refuse(s->tx, sqlstate, text, hint);
	memset(&error, 0, sizeof(error));
	error.sqlstate = ls_slice_of(sqlstate);
	error.message = ls_slice_of(text);
	error.hint = ls_slice_of(hint);
	send_error(s, &error);
	session_write(s);			/* what does not go now, does not go */
	session_end(s);
}

/* ---------- reading */

/* Handle all complete messages; returns the bytes used. */
static size_t
handle_messages(Session *s, const uint8_t *bytes, size_t len)
{
	size_t		used = 0;

	while (s->state != SESSION_ENDED)
	{
		LsMsgType	type;
		LsSlice		payload;
		bool		ready = s->state == SESSION_READY;
		size_t		size;

		switch (ls_frame(bytes + used, len - used, ready ? LS_MAX_PAYLOAD : LS_MAX_HELLO, &type, &payload))
		{
			case LS_FRAME_MORE:
				return used;
			case LS_FRAME_BAD:
				session_fail(s, "08P01", NULL, "malformed or oversized message");
				return used;
			case LS_FRAME_OK:
				break;
		}
		size = LS_HEADER_SIZE + payload.len;
		if (ready)
			session_handle(s, type, payload, bytes + used, size);
		else
			handshake_message(s, type, payload);
		used += size;
	}
	return used;
}

/* More of a message of which a part has arrived before. */
static void
handle_buffered(Session *s)
{
	size_t		used = handle_messages(s, s->in.data, s->in.len);

	s->in.len -= used;
	if (used > 0 && s->in.len > 0)
		memmove(s->in.data, s->in.data + used, s->in.len);
	else if (s->in.len == 0)
		buffer_free(&s->in);
}

static void
session_read(Session *s)
{
	ssize_t		n = recv(s->fd, read_bytes, sizeof(read_bytes), 0);
	size_t		used;

	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
	{
		if (n < 0)
			log_message(LOG_INFO, s->name, "could not receive from the backend: %s", strerror(errno));
		session_end(s);
		return;
	}
	if (s->in.len > 0)
	{
		buffer_append(&s->in, read_bytes, (size_t) n);
		handle_buffered(s);
		return;
	}
	used = handle_messages(s, read_bytes, (size_t) n);
	if (s->state != SESSION_ENDED && used < (size_t) n)
		buffer_append(&s->in, read_bytes + used, (size_t) n - used);
}

static void
on_socket(void *arg, uint32_t events)
{
	Session    *s = arg;

	if (events & EPOLLOUT)
		session_write(s);
	if (s->state != SESSION_ENDED && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		session_read(s);
}

/* ---------- beginning */

static void
on_patience(void *arg)
{
	Session    *s = arg;

	s->patience = NULL;
	session_fail(s, "08P01", NULL, "no complete handshake within %d s", HANDSHAKE_MS / 1000);
}

/* Does its backend wait for something that we owe it? */
static bool
is_awaited(const Session *s)
{
	return s->asked || s->granting > 0 || s->questions > 0 || s->owed != NULL ||
		(s->unconfirmed != NULL && s->unconfirmed->wait == LS_WAIT_APPLIED);
}

/* It must be able to tell a long wait from a replicator that hangs. */
static void
on_alive(void *arg)
{
	uint8_t		bytes[64];
	size_t		size = ls_put_number(bytes, sizeof(bytes), LS_MSG_ALIVE, sequencer_last_decided());

	loop_after(ALIVE_MS, on_alive, NULL);
	for (Session *s = sessions_next(NULL); s != NULL; s = sessions_next(s))
	{
		/* one that does not even read what it was sent needs no more of it */
		if (is_awaited(s) && s->out.len == s->out.pos)
			session_send(s, bytes, size);
	}
}

void
sessions_init(const Config *config, const char *cluster, const Secret *secret)
{
	loop_after(ALIVE_MS, on_alive, NULL);
	session_config = config;
	handshake_init(config, cluster, secret);
}

void
session_accept(int fd, const char *from)
{
	Session    *s = xcalloc(1, sizeof(Session));

	s->fd = fd;
	s->node = -1;
	snprintf(s->name, sizeof(s->name), "session from %s", from);
	s->flush.callback = on_flush;
	s->flush.arg = s;
	s->bury.callback = on_bury;
	s->bury.arg = s;
	s->watch = loop_watch(fd, EPOLLIN, on_socket, s);
	s->patience = loop_after(HANDSHAKE_MS, on_patience, s);
	if (++nconnections > session_config->max_sessions)
		session_fail(s, "53300", "Raise max_sessions of the replicator.",
					 "the replicator has %d sessions already", session_config->max_sessions);
}

/* ---------- transactions: beginning and ending them */

/* The transaction is not this session's business any more. */
static void
let_go(Transaction **tx)
{
	if (*tx == NULL)
		return;
	(*tx)->session = NULL;
	tx_unref(*tx);
	*tx = NULL;
}

void
session_forget_transactions(Session *s)
{
	Transaction *tx = s->tx;
	Transaction *unconfirmed = s->unconfirmed;

	s->tx = s->unconfirmed = NULL;
	let_go(&s->owed);
	if (tx != NULL)
	{
		tx->session = NULL;
		sequencer_gone(tx);
		tx_unref(tx);
	}
	if (unconfirmed != NULL)
	{
		unconfirmed->session = NULL;
		if (unconfirmed->seq > node_applied(s->node))
			node_apply_at_origin(unconfirmed);
		tx_unref(unconfirmed);
	}
}

static void
begin_transaction(Session *s, uint64_t xcount)
{
	LsIdentity	id = {ls_slice_of(node_name(s->node)), s->boot, s->pid, xcount};

	s->tx = tx_create(&id, ls_slice_of(s->database), (uint32_t) s->node);
	s->tx->session = s;
	s->tx->oldest_seen = UINT64_MAX;
	s->last_xcount = xcount;
	s->asked = s->discarded = false;
	s->granting = 0;
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
 * A question about a transaction that was rolled back before it was asked for
 * (by a deadlock of locks asked first; the backend may have caught that error).
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

/* The node has committed up to seq, as this session says. */
static void
confirmed(Session *s, uint64_t seq)
{
	if (seq > sequencer_last_durable())
	{
		session_fail(s, "08P01", NULL, "confirmed seq %" PRIu64 " has never been decided", seq);
		return;
	}
	node_heard_applied(s->node, seq);
	if (s->unconfirmed == NULL || seq < s->unconfirmed->seq)
		return;
	if (s->unconfirmed->wait == LS_WAIT_APPLIED && s->unconfirmed->state != TX_DONE)
	{
		let_go(&s->owed);
		s->owed = s->unconfirmed;
		s->unconfirmed = NULL;
	}
	else
		let_go(&s->unconfirmed);
}

/* The backend could not commit what was decided, or won't say. */
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

/* Its queue stays in memory, or goes (on) to disk. */
static void
store_if_large(Transaction *tx)
{
	size_t		limit = (size_t) session_config->transaction_memory;

	if (tx->spill != NULL)
		limit = BODY_CHUNK;
	else if (limit > SMALL_QUEUE && tx_memory_of_all() / MEMORY_SHARES >= limit)
		limit = SMALL_QUEUE;
	if (tx_memory(tx) >= limit && tx_store(tx, session_config))
		nodes_begin_early(tx);
}

static void
discard(Session *s)
{
	nodes_end_early(s->tx);
	tx_discard(s->tx);
	s->discarded = true;
}

static void
handle_query(Session *s, LsSlice payload, const uint8_t *message, size_t len)
{
	LsQuery		query;
	const char *wrong = ls_get_query(payload, &query);
	const char *sqlstate;
	Transaction *tx;

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed query message: %s", wrong);
		return;
	}
	tx = transaction_for(s, query.xcount);
	if (tx == NULL)
		return;
	s->statements++;
	note_oldest_seen(tx, &query);
	if (s->discarded)
		return;
	if (tx_bytes(tx) + len > (uint64_t) session_config->max_transaction_size)
	{
		discard(s);
		return;
	}
	if (query.reason == LS_REASON_SEQUENCE)
		tx_keep_effect(tx, message, len);
	tx_append(tx, message, len, query.ddl);
	store_if_large(tx);
	if (tx_failure(tx, &sqlstate) != NULL)
		discard(s);
}

static void
handle_rollback_to(Session *s, LsSlice payload)
{
	LsRollbackTo m;
	const char *wrong = ls_get_rollback_to(payload, &m);
	const char *sqlstate;
	Transaction *tx;

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed rollback message: %s", wrong);
		return;
	}
	tx = transaction_for(s, m.xcount);
	if (tx == NULL)
		return;
	if (!s->discarded && !tx_rollback_to(tx, m.keep) && tx_failure(tx, &sqlstate) != NULL)
		discard(s);
	else if (m.keep > s->statements || (!s->discarded && tx->nstatements != m.keep))
	{
		session_fail(s, "08P01", NULL, "rollback to statement %" PRIu64 " of %" PRIu64, m.keep, s->statements);
		return;
	}
	nodes_cut_early(tx);
	s->statements = m.keep;
}

static void
handle_lock(Session *s, LsSlice payload)
{
	LsLock		m;
	const char *wrong = ls_get_lock(payload, &m);
	Transaction *tx;

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed lock message: %s", wrong);
		return;
	}
	if (answered_dead(s, m.xcount))
		return;
	tx = transaction_for(s, m.xcount);
	if (tx == NULL)
		return;
	s->granting++;
	sequencer_lock(tx, &m);
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
handle_ask(Session *s, LsSlice payload)
{
	LsAsk		m;
	const char *wrong = ls_get_ask(payload, &m);
	const char *sqlstate;
	Transaction *tx;

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed ask message: %s", wrong);
		return;
	}
	confirmed(s, m.confirmed > m.applied ? m.confirmed : m.applied);
	if (s->state == SESSION_ENDED)
		return;
	not_committed(s);
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
	tx->wait = m.wait;
	if (s->discarded && tx_failure(tx, &sqlstate) == NULL)
		refuse_too_large(s);
	else if (session_is_fenced(s, m.xcount))
		refuse_question(s, "40001", "somebody asked for the outcome of this transaction before it did, and was told that it is aborted",
						"The transaction might succeed if retried.");
	else
		sequencer_ask(tx);
}

static void
handle_withdraw(Session *s, uint64_t xcount)
{
	if (s->tx == NULL || s->tx->xcount != xcount)
		return;					/* its verdict is under way */
	if (!s->asked && s->granting == 0)
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

/*
 * A causal read: it has to see what anybody can know of.  A verdict is sent, and
 * a node commits, only after the record is durable.
 */
static void
handle_now(Session *s, uint64_t number)
{
	LsGranted	m = {number, sequencer_last_durable()};
	uint8_t		bytes[64];

	session_send(s, bytes, ls_put_seq(bytes, sizeof(bytes), &m));
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
		handle_now(s, m.value);
	else
		handle_abandon(s, m.value);
}

void
session_handle(Session *s, LsMsgType type, LsSlice payload, const uint8_t *message, size_t len)
{
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
		case LS_MSG_ASK:
			handle_ask(s, payload);
			break;
		case LS_MSG_FATE:
			session_handle_fate(s, payload);
			break;
		case LS_MSG_FACTS_ASK:
			session_handle_facts(s, payload);
			break;
		case LS_MSG_LOST:
			session_handle_lost(s, payload);
			break;
		case LS_MSG_LEASE:
			session_lease(s, payload);
			break;
		case LS_MSG_ALONE:
			session_alone(s, payload);
			break;
		case LS_MSG_WITHDRAW:
		case LS_MSG_ABANDON:
		case LS_MSG_CONFIRM:
		case LS_MSG_NOW:
			handle_number(s, type, payload);
			break;
		default:
			session_fail(s, "08P01", NULL, "unexpected message of type %c", type);
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
	s->granting = 0;
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
	LsGranted	m = {tx->xcount, seq};
	uint8_t		bytes[64];

	for (Session *s = tx->session; s != NULL && s->granting > 0; s->granting--)
		session_send(s, bytes, ls_put_granted(bytes, sizeof(bytes), &m));
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
		let_go(&s->owed);
}
