/*
 * link.c
 *	  This backend's connection to the replicator.
 *
 * It transports bytes and messages, and knows nothing of transactions.  The socket is
 * non-blocking and belongs to the session: it survives aborted transactions, and any wait in
 * here may be interrupted, because received and unsent data stay in two buffers.  When the
 * connection is lost, the reason (the replicator's last message, or the system's error) is kept
 * for the error to the client.
 *
 *		CLOSED --link_open--> OPEN --(EOF, error, 'E', violation)--> CLOSED
 *
 * link_handshake.c makes the connection.  No caller may hold an LWLock or spinlock.
 */
#include "postgres.h"

#include <sys/socket.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "generation.h"
#include "guc.h"
#include "link_address.h"
#include "link_private.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"

/* A message of the replicator is never larger than this. */
#define LINK_MAX_PAYLOAD (1024 * 1024)
#define LINK_READ_CHUNK 8192
#define LOOK_MS 1000			/* heartbeats come that often */

LinkState	ls_link = {.sock = PGINVALID_SOCKET};
void		(*link_before_exit) (void) = NULL;

/* ---------- life of the socket */

static void
close_at_exit(int code, Datum arg)
{
	if (link_before_exit != NULL)
		link_before_exit();
	link_close();
}

/* Buffers and the exit callback: once per backend. */
static void
link_first_use(void)
{
	MemoryContext context;

	if (ls_link.context != NULL)
		return;
	ls_link.context = AllocSetContextCreate(TopMemoryContext, "lockstep link",
											ALLOCSET_DEFAULT_SIZES);
	context = MemoryContextSwitchTo(ls_link.context);
	initStringInfo(&ls_link.in);
	initStringInfo(&ls_link.out);
	MemoryContextSwitchTo(context);
	on_proc_exit(close_at_exit, (Datum) 0);
}

/* From here on the socket, which is still connecting, belongs to the link. */
void
link_adopt(pgsocket sock)
{
	link_first_use();
	Assert(ls_link.sock == PGINVALID_SOCKET);
	ls_link.sock = sock;
	resetStringInfo(&ls_link.in);
	resetStringInfo(&ls_link.out);
	ls_link.consumed = 0;
	ls_link.ended = false;
	ls_link.end_errno = 0;
	ls_link.proven = false;
	ls_link.refused_for_now = false;
	ls_link.set = ls_create_wait_event_set(ls_link.context, 3);
	ls_link.events = WL_SOCKET_WRITEABLE;
	ls_link.position = AddWaitEventToSet(ls_link.set, ls_link.events, sock, NULL, NULL);
	AddWaitEventToSet(ls_link.set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(ls_link.set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
}

void
link_close(void)
{
	if (ls_link.set != NULL)
		FreeWaitEventSet(ls_link.set);
	ls_link.set = NULL;
	tls_free(ls_link.tls);
	ls_link.tls = NULL;
	if (ls_link.sock != PGINVALID_SOCKET)
	{
		closesocket(ls_link.sock);
		ReleaseExternalFD();
	}
	ls_link.sock = PGINVALID_SOCKET;
	ls_link.ready = false;
}

bool
link_is_open(void)
{
	return ls_link.ready;
}

/* Each connection has a number of its own, from 1. */
uint64
link_number(void)
{
	return ls_link.number;
}

/* ---------- why it was lost */

/*
 * Text of another server.  It should be valid in this database's encoding; what is not is
 * replaced.
 */
static void
copy_text(char *to, size_t size, LsSlice from)
{
	size_t		len = Min(from.len, size - 1);

	if (len > 0)
		memcpy(to, from.data, len);
	to[len] = '\0';
	if (!pg_verifymbstr(to, len, true))
	{
		for (size_t i = 0; i < len; i++)
			if (IS_HIGHBIT_SET(to[i]) || to[i] == '\0')
				to[i] = '?';
	}
}

/* Close, and keep this reason for the error. */
LinkResult
link_lost(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(ls_link.why.detail, sizeof(ls_link.why.detail), fmt, args);
	va_end(args);
	strcpy(ls_link.why.sqlstate, "57P03");
	strcpy(ls_link.why.message, "the replicator is not reachable");
	strcpy(ls_link.why.hint,
		   "Reads go on. Writes go on as soon as the replicator does: see lockstep.replicator and the replicator's log.");
	ls_link.why.passing = true;
	link_close();
	return LINK_LOST;
}

LinkResult
link_lost_by_tls(void)
{
	char		reason[256];
	bool		proven = ls_link.proven;

	strlcpy(reason, tls_error(ls_link.tls), sizeof(reason));
	link_lost("TLS: %s.", reason);
	if (proven)
		return LINK_LOST;
	strcpy(ls_link.why.sqlstate, "28000");
	strcpy(ls_link.why.message, "node and replicator could not agree on an encrypted connection");
	strcpy(ls_link.why.hint,
		   "See the replicator's log, and lockstep.tls_directory and tls_directory: each side needs a certificate that the other one's ca.pem and crl.pem accept.");
	ls_link.why.passing = false;
	return LINK_LOST;
}

/* As one line. */
static char *
printable(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	for (; *text != '\0'; text++)
	{
		if ((unsigned char) *text < 0x20 || *text == 0x7f)
			appendStringInfo(&out, "\\x%02x", (unsigned char) *text);
		else
			appendStringInfoChar(&out, *text);
	}
	return out.data;
}

/*
 * The process that listens there has not proved that it is the cluster's replicator.  What it
 * sends goes to the server log, for the operator, and not into the error for the client.
 */
static LinkResult
link_refused_by_anybody(void)
{
	ereport(LOG,
			(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
			 errmsg("what listens at lockstep.replicator refused the connection before it proved to be the replicator"),
			 errdetail_internal("It said: %s: %s", printable(ls_link.why.sqlstate), printable(ls_link.why.message))));
	strcpy(ls_link.why.sqlstate, "28000");
	strcpy(ls_link.why.message, "the replicator refused the connection before it proved that it has this cluster's secret");
	ls_link.why.detail[0] = '\0';
	strcpy(ls_link.why.hint,
		   "The server's log has what it said. Something else may listen at lockstep.replicator, the secrets may differ, or the versions of lockstep.");
	link_close();
	return LINK_LOST;
}

/*
 * Is the replicator at the other end still the one that this node follows?  Otherwise its
 * messages do not count.  false: closed.
 */
static bool
is_followed(void)
{
	if (likely(!ls_link.ready || !generation_link_is_outdated()))
		return true;
	link_address_failed(ls_link.place);
	link_lost("It is outdated: another replicator has taken its place.");
	return false;
}

/* Close, and keep the replicator's error ('E') for the client. */
static LinkResult
link_refused(LsSlice payload)
{
	LsErrorFields error;
	const char *wrong = ls_get_error(payload, &error);

	if (wrong != NULL)
		return link_lost("It sent a malformed error message: %s.", wrong);
	copy_text(ls_link.why.sqlstate, sizeof(ls_link.why.sqlstate), error.sqlstate);
	copy_text(ls_link.why.message, sizeof(ls_link.why.message), error.message);
	copy_text(ls_link.why.detail, sizeof(ls_link.why.detail), error.detail);
	copy_text(ls_link.why.hint, sizeof(ls_link.why.hint), error.hint);

	/*
	 * one that has served this session may do so again; the next attempt
	 * tells
	 */
	ls_link.why.passing = ls_link.refused_for_now || (ls_link.ready && strcmp(ls_link.why.sqlstate, "57P03") == 0);
	if (!ls_link.proven)
	{
		/*
		 * so many at a time before they have authenticated, as after a
		 * restart
		 */
		ls_link.why.passing |= strcmp(ls_link.why.sqlstate, "53300") == 0;
		return link_refused_by_anybody();
	}
	link_close();
	return LINK_LOST;
}

bool
link_loss_is_passing(void)
{
	return ls_link.why.passing;
}

const char *
link_lost_message(void)
{
	return ls_link.why.detail[0] ? ls_link.why.detail : ls_link.why.message;
}

void
link_report_lost(void)
{
	const LinkWhy *why = &ls_link.why;

	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(why->sqlstate[0], why->sqlstate[1], why->sqlstate[2],
								   why->sqlstate[3], why->sqlstate[4])),
			 errmsg_internal("%s", why->message),
			 why->detail[0] ? errdetail_internal("%s", why->detail) : 0,
			 why->hint[0] ? errhint("%s", why->hint) : 0));
}

void
link_protocol_violation(const char *what)
{
	ereport(LOG,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("the replicator broke the protocol: %s", what)));
	link_lost("It broke the protocol: %s.", what);
}

/* ---------- what has arrived */

/* Make room: discard what has been handed out. */
static void
in_compact(void)
{
	StringInfo	in = &ls_link.in;

	if (ls_link.consumed == 0)
		return;
	memmove(in->data, in->data + ls_link.consumed, in->len - ls_link.consumed);
	in->len -= ls_link.consumed;
	ls_link.consumed = 0;
}

/*
 * Receive what has arrived.  False: nothing new.  At the end of the stream it sets "ended"; what
 * arrived before is still to be handed out.
 */
static bool
read_some(void)
{
	StringInfo	in = &ls_link.in;
	ssize_t		n;

	in_compact();
	if (ls_link.ended || in->len > LINK_MAX_PAYLOAD + LINK_READ_CHUNK)
		return false;
	if (ls_link.tls == NULL)
	{
		enlargeStringInfo(in, LINK_READ_CHUNK);
		n = recv(ls_link.sock, in->data + in->len, LINK_READ_CHUNK, 0);
		in->len += Max(n, 0);
	}
	else
		n = link_tls_receive(ls_link.tls, ls_link.sock, in, &ls_link.out, &ls_link.ended);
	if (n > 0)
		return true;
	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	ls_link.ended = true;
	ls_link.end_errno = n == 0 ? 0 : errno;
	return false;
}

static LinkResult next_message(LsMsgType *type, LsSlice *payload);

/*
 * Sending failed because the replicator has closed the connection.  Its last message explains
 * more than errno does.
 */
static void
lost_while_sending(void)
{
	int			saved_errno = errno;
	LsMsgType	type;
	LsSlice		payload;
	LinkResult	result = LINK_MESSAGE;

	while (read_some())
		;
	while (result == LINK_MESSAGE)
		result = next_message(&type, &payload);
	if (result == LINK_LOST)
		return;
	errno = saved_errno;
	link_lost("Sending to it failed: %m.");
}

/* ---------- sending */

/* Send what is buffered, as far as the socket takes it.  False: lost. */
bool
link_flush_some(void)
{
	size_t		sent = 0;
	StringInfo	out = &ls_link.out;

	while (sent < out->len)
	{
		ssize_t		n = send(ls_link.sock, out->data + sent, out->len - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += n;
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		else
		{
			lost_while_sending();
			return false;
		}
	}
	memmove(out->data, out->data + sent, out->len - sent);
	out->len -= sent;
	return true;
}

static bool
seal_and_send(const char *data, size_t len)
{
	while (len > 0)
	{
		size_t		n = Min(len, TLS_WRITE_MAX);

		if (!link_tls_seal(ls_link.tls, data, n, &ls_link.out))
		{
			link_lost_by_tls();
			return false;
		}
		data += n;
		len -= n;
		if ((ls_link.out.len > 16 * TLS_WRITE_MAX || len == 0) && !link_flush_some())
			return false;
	}
	return true;
}

/* Send without copying what fits into the socket right away; keep the rest. */
static bool
send_or_keep(const char *data, size_t len)
{
	if (ls_link.tls != NULL)
		return seal_and_send(data, len);
	if (ls_link.out.len == 0)
	{
		ssize_t		n = send(ls_link.sock, data, len, MSG_NOSIGNAL);

		if (n > 0)
		{
			data += n;
			len -= n;
		}
		else if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
		{
			lost_while_sending();
			return false;
		}
	}
	if (len > 0)
		appendBinaryStringInfo(&ls_link.out, data, len);
	return true;
}

bool
link_send_later(const void *data, size_t len)
{
	ls_link.heard = mono_now(); /* no answer can be due before */
	return ls_link.sock != PGINVALID_SOCKET && send_or_keep(data, len);
}

/*
 * The replicator sends something to each backend that waits every second, at least LS_MSG_ALIVE,
 * which is not handed out.  If it is silent for longer than lockstep.replicator_timeout, it
 * hangs, or the network loses its messages.  Only whole messages count, as one that never ends must
 * not be kept alive by those behind it; a long one is given that time twice.
 */
static bool
is_silent(int *timeout_ms)
{
	long		left;

	if (ls_replicator_timeout <= 0 || !ls_link.ready)
		return false;
	left = mono_ms_left(ls_link.heard + (MonoTime) ls_replicator_timeout * 1000);
	if (left <= 0)
		return true;
	if (*timeout_ms < 0 || left < *timeout_ms)
		*timeout_ms = (int) left;
	return false;
}

/* As long as it takes something it is alive. */
bool
link_drain(void)
{
	if (ls_link.out.len > 0)
		ls_link.heard = mono_now();
	while (ls_link.out.len > 0)
	{
		size_t		left = ls_link.out.len;
		int			timeout_ms = -1;

		/*
		 * The replicator reads slowly.  It may have sent the reason why it
		 * does not read on: receive that meanwhile.
		 */
		if (is_silent(&timeout_ms))
			timeout_ms = 0;
		link_wait(WL_SOCKET_WRITEABLE | WL_SOCKET_READABLE, timeout_ms, PG_WAIT_EXTENSION);
		if (!link_flush_some())
			return false;
		if (ls_link.out.len < left)
			ls_link.heard = mono_now();
		else if (is_silent(&timeout_ms))
		{
			link_address_failed(ls_link.place);
			link_lost("It has taken nothing for %d ms.", ls_replicator_timeout);
			return false;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

void
link_send_or_close(const void *data, size_t len)
{
	if (link_send_later(data, len) && ls_link.out.len > 0)
		link_lost("It does not read.");
}

/* ---------- receiving */

/* The first complete message of what has arrived. */
static LinkResult
next_message(LsMsgType *type, LsSlice *payload)
{
	const uint8_t *at = (const uint8_t *) ls_link.in.data + ls_link.consumed;

	switch (ls_frame(at, ls_link.in.len - ls_link.consumed, LINK_MAX_PAYLOAD, type, payload))
	{
		case LS_FRAME_MORE:
			if (!ls_link.ended)
				return LINK_NOTHING;
			if (ls_link.tls != NULL && tls_error(ls_link.tls)[0] != '\0')
				return link_lost_by_tls();
			if (ls_link.end_errno == 0 && !ls_link.proven && ls_link.tls == NULL && !ls_link.local)
				return link_lost("It closed the connection; it may require TLS (see lockstep.tls_directory).");
			if (ls_link.end_errno == 0)
				return link_lost("It closed the connection.");
			errno = ls_link.end_errno;
			return link_lost("Receiving from it failed: %m.");
		case LS_FRAME_BAD:
			link_protocol_violation("unknown or oversized message");
			return LINK_LOST;
		case LS_FRAME_OK:
			break;
	}
	ls_link.heard = mono_now();
	ls_link.spared = false;
	ls_link.consumed += LS_HEADER_SIZE + payload->len;
	if (*type == LS_MSG_ERROR)
		return link_refused(*payload);
	if (*type == LS_MSG_ALIVE)
		return next_message(type, payload);
	return is_followed() ? LINK_MESSAGE : LINK_LOST;
}

/*
 * Sleep until one of the events, the latch, or the timeout; reads if the socket
 * is readable.
 */
void
link_wait(uint32 events, long timeout_ms, uint32 wait_event)
{
	WaitEvent	occurred[3];
	int			n;

	if (events != ls_link.events)
	{
		ModifyWaitEvent(ls_link.set, ls_link.position, events, NULL);
		ls_link.events = events;
	}
	n = WaitEventSetWait(ls_link.set, timeout_ms, occurred, lengthof(occurred), wait_event);
	for (int i = 0; i < n; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		if (occurred[i].events & WL_SOCKET_READABLE)
			(void) read_some();
	}
}

LinkResult
link_receive(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event)
{
	LinkResult	result;
	uint32		events = WL_SOCKET_READABLE;

	if (ls_link.sock == PGINVALID_SOCKET || !is_followed())
		return LINK_LOST;
	result = next_message(type, payload);
	if (result != LINK_NOTHING)
		return result;
	if (ls_link.out.len > 0)
		events |= WL_SOCKET_WRITEABLE;
	link_wait(events, timeout_ms, wait_event);
	if (ls_link.out.len > 0 && !link_flush_some())
		return LINK_LOST;
	return next_message(type, payload);
}

bool
link_has_message(LinkResult result)
{
	if (result == LINK_LOST)
		link_report_lost();
	return result == LINK_MESSAGE;
}

void
link_send(const void *data, size_t len)
{
	if (!link_send_later(data, len) || !link_drain())
		link_report_lost();
}

void
link_report_violation(const char *what)
{
	link_protocol_violation(what);
	link_report_lost();
}

/* As link_receive(), while the replicator owes an answer. */
LinkResult
link_await(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event)
{
	LinkResult	result;
	size_t		before;

	if (!is_silent(&timeout_ms))
		return link_receive(type, payload, timeout_ms, wait_event);

	/* after a pause on this side its messages are still in the socket */
	before = ls_link.in.len - ls_link.consumed;
	while (ls_link.sock != PGINVALID_SOCKET && read_some())
		;
	result = link_receive(type, payload, 0, wait_event);
	if (result != LINK_NOTHING || !is_silent(&timeout_ms))
		return result;
	if (!ls_link.spared && ls_link.in.len - ls_link.consumed > before)
	{
		ls_link.spared = true;	/* of a long one only a part was there */
		ls_link.heard = mono_now();
		return LINK_NOTHING;
	}
	link_address_failed(ls_link.place);
	return link_lost("It has been silent for %d ms.", ls_replicator_timeout);
}

/*
 * As link_receive(), while this node is to apply something.  The replicator owes the backend no
 * answer then, and tells it nothing; but it tells the node every second that it is alive.
 */
LinkResult
link_receive_applying(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event)
{
	LinkResult	result;

	if (ls_replicator_timeout > 0 && (timeout_ms < 0 || timeout_ms > LOOK_MS))
		timeout_ms = LOOK_MS;
	result = link_receive(type, payload, timeout_ms, wait_event);
	if (result != LINK_NOTHING || ls_replicator_timeout <= 0 || generation_silent_ms() <= ls_replicator_timeout)
		return result;
	link_address_failed(ls_link.place);
	return link_lost("It has been silent for %d ms.", ls_replicator_timeout);
}

/*
 * Is an idle connection still alive?  Messages that arrived since the last transaction (a late
 * 'applied', for example) are discarded.  in_transaction: the replicator knows one.
 */
bool
link_is_alive(bool in_transaction)
{
	LsMsgType	type;
	LsSlice		payload;

	if (!ls_link.ready || !is_followed())
		return false;
	if (!ls_link.local && link_tls_is_outdated(ls_link.tls, in_transaction))
	{
		link_lost("The certificates have been changed.");
		return false;
	}
	(void) read_some();
	for (;;)
	{
		switch (next_message(&type, &payload))
		{
			case LINK_LOST:
				return false;
			case LINK_NOTHING:
				return true;
			case LINK_MESSAGE:
				break;
		}
	}
}
