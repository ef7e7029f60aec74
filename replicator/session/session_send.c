/*
 * session_send.c
 *	  What is sent to a backend, and the end of its session.
 *
 * A session ends at any time; one that ended is freed when the loop's round is over, so
 * callers may use it until they return to the loop.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "linger.h"
#include "log.h"
#include "log_limit.h"
#include "peer.h"
#include "points.h"
#include "role_names.h"
#include "sequencer.h"
#include "session_private.h"

/* ---------- ending */

/* What is kept of messages is the role's. */
void
session_charge_input(Session *s, size_t len)
{
	role_use(s->role)->memory += len - s->input_charged;
	s->input_charged = len;
}

void
session_let_go(Transaction **tx)
{
	if (*tx == NULL)
		return;
	(*tx)->session = NULL;
	tx_unref(*tx);
	*tx = NULL;
}

/* What is not decided is rolled back; what is decided the node gets by apply. */
static void
forget_transactions(Session *s)
{
	Transaction *tx = s->tx;
	Transaction *unconfirmed = s->unconfirmed;

	if (tx != NULL || unconfirmed != NULL)
		LOCKSTEP_POINT(SESSION_GONE);
	s->tx = s->unconfirmed = NULL;
	session_let_go(&s->owed);
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

/* lingers: the backend is to hear why, though it may still be sending. */
static void
end(Session *s, bool lingers)
{
	if (s->state == SESSION_ENDED)
		return;
	if (s->state == SESSION_READY)
		session_table_remove(s);
	else
		unauthenticated_remove(s);
	s->state = SESSION_ENDED;
	session_charge_input(s, 0);
	loop_cancel(s->patience);
	s->patience = NULL;
	loop_undefer(&s->flush);
	loop_unwatch(s->watch);
	if (lingers)
		linger_close(s->fd);
	else
		close(s->fd);
	forget_transactions(s);
	loop_defer(&s->bury);
}

void
session_end(Session *s)
{
	end(s, false);
}

/* ---------- the log */

/* The lines of each are limited, most of all of those that have not authenticated. */
static LogLimit known_lines = {.max = 100};

void
session_log(const Session *s, LogLevel level, const char *fmt,...)
{
	char		text[1100];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_limited(s->proved ? &known_lines : &strangers_lines, level, s->name, "%s", text);
}

/* ---------- writing */

void
session_flush(Session *s)
{
	if (s->tls != NULL && !session_seal(s))
	{
		session_log(s, LOG_WARNING, "session ended: TLS: %s", tls_error(s->tls));
		session_end(s);
		return;
	}
	if (s->transport == SESSION_UNDECIDED && !s->may_be_clear)
		return;					/* no word in the clear */
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
			session_log(s, LOG_INFO, "could not send to the backend: %s", strerror(errno));
			session_end(s);
			return;
		}
		buffer_consume(&s->out, (size_t) n);
	}
	loop_change(s->watch, EPOLLIN);
}

void
session_send(Session *s, const void *message, size_t len)
{
	if (s->state == SESSION_ENDED)
		return;
	buffer_append(s->tls != NULL ? &s->plain : &s->out, message, len);
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
	session_log(s, strcmp(sqlstate, "57P03") == 0 ? LOG_DEBUG : LOG_WARNING, "session ended: %s", text);

	/* a backend that waits for an answer must not be left in doubt */
	if (s->tx != NULL)
		sequencer_refuse(s->tx, sqlstate, text, hint);
	memset(&error, 0, sizeof(error));
	error.sqlstate = ls_slice_of(sqlstate);
	error.message = ls_slice_of(text);
	error.hint = ls_slice_of(hint);
	if (s->before_refusal != NULL)
		s->before_refusal(s);
	send_error(s, &error);
	session_flush(s);			/* what cannot be sent now is discarded */
	end(s, s->proved);
}

bool
session_decoded(Session *s, const char *what, const char *wrong)
{
	if (wrong != NULL)
		session_fail(s, "08P01", NULL, "malformed %s: %s", what, wrong);
	return wrong == NULL;
}
