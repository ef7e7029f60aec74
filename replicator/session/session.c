/*
 * session.c
 *	  One backend of a node: its connection begins, its messages are read and handed on.
 *
 *			connected			  hello			   proof
 *	   HELLO ----------> (HELLO) ------> PROOF ----------> READY ----> ENDED
 *
 * session_handshake.c has the messages up to READY, session_transaction.c those after
 * it; session_send.c has what is sent, and the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "log.h"
#include "points.h"
#include "role_names.h"
#include "sequencer.h"
#include "copies.h"
#include "session_private.h"

#define HANDSHAKE_MS 10000
#define ALIVE_MS 1000

/*
 * The bytes read last, of any session; an incomplete message is copied to its session's buffer.
 */
static uint8_t read_bytes[READ_SIZE];

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

/* Handle the buffered part of a message together with what has arrived now. */
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

/* Keep what has arrived of a message.  False: the session has been ended. */
static bool
keep_input(Session *s, const uint8_t *bytes, size_t len)
{
	if (s->state == SESSION_READY && s->in.len + len > READ_SIZE &&
		role_use(s->role)->memory + len > (uint64_t) session_config->max_role_memory)
	{
		session_fail(s, "53400", "Retry when other transactions of the role have ended, or raise max_role_memory of the replicator.",
					 "open transactions of role \"%s\" take more memory of the replicator than one role may (%" PRId64 " bytes)",
					 s->role != NULL ? s->role : "", session_config->max_role_memory);
		return false;
	}
	if (!buffer_try_reserve(&s->in, len))
	{
		session_fail(s, "53200", "A statement's text travels as one message. Make it smaller, or give the replicator's machine more memory.",
					 "the replicator has no memory for a message of which %zu bytes have arrived", s->in.len + len);
		return false;
	}
	buffer_append(&s->in, bytes, len);
	return true;
}

static void
take_input(Session *s, const uint8_t *bytes, size_t n)
{
	size_t		used;

	if (s->in.len > 0)
	{
		if (keep_input(s, bytes, n))
			handle_buffered(s);
		return;
	}
	used = handle_messages(s, bytes, n);
	if (s->state != SESSION_ENDED && used < n)
		(void) keep_input(s, bytes + used, n - used);
}

static void
session_read(Session *s)
{
	ssize_t		n = recv(s->fd, read_bytes, sizeof(read_bytes), 0);
	uint8_t    *bytes = read_bytes;
	size_t		len = (size_t) n;

	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
	{
		if (n < 0)
			session_log(s, LOG_INFO, "could not receive from the backend: %s", strerror(errno));
		session_end(s);
		return;
	}
	if (s->transport == SESSION_CLEAR)
		take_input(s, bytes, len);
	else
	{
		while (session_tls_open(s, &bytes, &len))
		{
			take_input(s, bytes, len);
			len = 0;
		}
	}
	if (s->state == SESSION_READY)
		session_charge_input(s, s->in.len);
}

static void
on_socket(void *arg, uint32_t events)
{
	Session    *s = arg;

	if (events & EPOLLOUT)
		session_flush(s);
	if (s->state != SESSION_ENDED && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		session_read(s);
}

/* ---------- beginning */

static void
close_unauthenticated(Session *s, const char *why)
{
	session_fail(s, "53300", "Connect again.", "closed before it had authenticated: %s", why);
}

bool
sessions_have_room(void)
{
	Session    *oldest = NULL;

	if (!unauthenticated_have_room(&oldest))
		return false;
	if (oldest != NULL)
		close_unauthenticated(oldest, "too many connections have not");
	return true;
}

static void
on_patience(void *arg)
{
	Session    *s = arg;

	s->patience = NULL;
	session_fail(s, "08P01", NULL, "no complete handshake within %d s", HANDSHAKE_MS / 1000);
}

/*
 * Does its backend wait for an answer?  Not after the verdict: if that was lost on the way, the backend must
 * not be kept waiting with its locks.
 */
static bool
is_awaited(const Session *s)
{
	return s->asked || s->granting || s->questions > 0 || s->owed != NULL;
}

/* Backends that wait must be able to distinguish a long wait from a replicator that hangs. */
static void
on_alive(void *arg)
{
	Session    *next;
	uint8_t		bytes[64];
	size_t		size = ls_put_number(bytes, sizeof(bytes), LS_MSG_ALIVE, sequencer_last_decided());
	const bool	leads = !copies_active || copies_are_heard();	/* else another one may,
																 * and decide */

	loop_after(ALIVE_MS, on_alive, NULL);
	for (Session *s = sessions_next(NULL); s != NULL; s = next)
	{
		next = sessions_next(s);
		session_tls_check_expiry(s);
		if (!leads)
			continue;
		session_look_at_progress(s);

		/* a backend that does not read what it was sent needs no more of it */
		if (s->state != SESSION_ENDED && is_awaited(s) && s->out.len == s->out.pos)
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

static void
on_flush(void *arg)
{
	session_flush(arg);
	LOCKSTEP_POINT(ANSWERED);
}

static void
on_bury(void *arg)
{
	Session    *s = arg;

	buffer_free(&s->in);
	buffer_free(&s->out);
	buffer_free(&s->plain);
	tls_free(s->tls);
	buffer_free(&s->hello_bytes);
	free(s);
}

void
session_accept(int fd, const char *from, uint64_t address, bool may_be_clear)
{
	Session    *s = xcalloc(1, sizeof(Session));
	Session    *beyond;

	s->fd = fd;
	s->node = -1;
	s->address = address;
	s->may_be_clear = may_be_clear;
	s->since_us = loop_now_us();
	snprintf(s->name, sizeof(s->name), "session from %s", from);
	s->flush.callback = on_flush;
	s->flush.arg = s;
	s->bury.callback = on_bury;
	s->bury.arg = s;
	s->watch = loop_watch(fd, EPOLLIN, on_socket, s);
	s->patience = loop_after(HANDSHAKE_MS, on_patience, s);
	beyond = unauthenticated_add(s);
	if (beyond != NULL)
		close_unauthenticated(beyond, "too many connections from its address are silent");

	/* a backend's hello is in the socket already */
	session_read(s);
}

/* ---------- ending many */

void
sessions_end_of_node(int node, const char *sqlstate, const char *message, const char *hint)
{
	Session    *next;

	for (Session *s = sessions_next(NULL); s != NULL; s = next)
	{
		next = sessions_next(s);
		if (s->node == node)
			session_fail(s, sqlstate, hint, "%s", message);
	}
}

void
sessions_end_of_database(const char *database, const char *sqlstate,
						 const char *message, const char *hint)
{
	Session    *next;

	for (Session *s = sessions_next(NULL); s != NULL; s = next)
	{
		next = sessions_next(s);
		if (strcmp(s->database, database) == 0)
			session_fail(s, sqlstate, hint, "%s", message);
	}
}

void
sessions_stop(void)
{
	Session    *next;

	for (Session *s = sessions_next(NULL); s != NULL; s = next)
	{
		next = sessions_next(s);
		if (s->tx != NULL)
			sequencer_refuse(s->tx, "40001", "could not commit, because the replicator is shutting down",
							 "The transaction might succeed if retried.");
		session_fail(s, "57P03", "Reads go on; writes will when it is back.",
					 "the replicator is shutting down");
	}
}

/* ---------- what lower rooms call */

const SessionOps session_ops = {
	.verdict = session_verdict,
	.granted = session_granted,
	.applied = session_applied,
	.transaction = session_transaction,
	.oldest_seen = sessions_oldest_seen,
	.busy = sessions_busy,
	.past = session_past,
	.connected = session_connected,
	.end_of_node = sessions_end_of_node,
	.end_of_database = sessions_end_of_database
};
