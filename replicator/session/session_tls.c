/*
 * session_tls.c
 *	  TLS with backends: who may do without, what is encrypted, whose certificate counts.
 *
 *			UNDECIDED --first byte--> TLS	 tls_directory is set, and the byte begins a handshake
 *					  \-------------> CLEAR	 any other byte, where that is allowed
 *					   \------------> ended	 without a word
 *
 * A connection that has to use TLS is told nothing in the clear, so nobody between can talk a
 * backend and the replicator out of it: both insist.
 *
 * The certificates are read at the start and at each reload.  A reload that finds files that
 * cannot be used keeps the old ones; after one that can, sessions whose certificate no longer
 * counts are ended.  So are those whose certificate expires.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session_private.h"

#define EXPIRY_WARNING_DAYS 30
#define MAX_UNREAD (1024 * 1024)

static TlsContext *context;		/* NULL: no TLS */
static uint64_t contexts;		/* that were read */
static const char *directory;

/* What was decrypted last, of any session. */
static uint8_t plain_bytes[READ_SIZE + TLS_READ_EXTRA];

/* ---------- certificates */

/* NULL: why is set. */
static TlsContext *
load(const char *from, char **why)
{
	char		cause[TLS_WHY_SIZE];
	TlsContext *c = tls_context_load(from, NULL, cause);

	*why = c == NULL ? xasprintf("tls_directory \"%s\" cannot be used: %s", from, cause) : NULL;
	return c;
}

static void
warn_of_expiry(void)
{
	int			days;
	const char *when = tls_context_expires(context, &days);

	if (days < EXPIRY_WARNING_DAYS)
		log_message(LOG_WARNING, NULL, "the certificate in tls_directory \"%s\" expires in %d days: %s", directory, days, when);
}

char *
session_tls_check(const Config *config)
{
	char	   *why = NULL;

	if (config->tls_directory[0] != '\0')
		tls_context_free(load(config->tls_directory, &why));
	return why;
}

char *
session_tls_init(const Config *config)
{
	char	   *why = NULL;

	directory = config->tls_directory;
	if (directory[0] == '\0')
		return NULL;
	context = load(directory, &why);
	contexts = 1;
	if (context != NULL)
		warn_of_expiry();
	return why;
}

static void
check_again(Session *s)
{
	char		why[TLS_WHY_SIZE];

	if (s->tls != NULL && !tls_peer_is_still_trusted(s->tls, context, why))
		session_fail(s, "28000", "See lockstep.tls_directory of the node, and ca.pem and crl.pem of the replicator.",
					 "the replicator does not accept the node's certificate any more: %s", why);
}

char *
session_tls_reload(void)
{
	char	   *why = NULL;
	TlsContext *fresh;
	Session    *next;

	if (context == NULL)
		return NULL;
	fresh = load(directory, &why);
	if (fresh == NULL)
		return why;
	tls_context_free(context);
	context = fresh;
	contexts++;
	warn_of_expiry();
	for (Session *s = sessions_next(NULL); s != NULL; s = next)
	{
		next = sessions_next(s);
		check_again(s);
	}
	return NULL;
}

void
session_tls_check_expiry(Session *s)
{
	if (s->tls_until_us != 0 && loop_now_us() > s->tls_until_us)
		session_fail(s, "28000", "Put a new one into lockstep.tls_directory of the node; its sessions take it when they connect.",
					 "the node's certificate has expired");
}

const char *
session_tls_expires(int *days)
{
	return context != NULL ? tls_context_expires(context, days) : NULL;
}

/* ---------- which */

bool
session_tls_may_be_clear(const Config *config, bool local)
{
	return local && config->require_tls == REQUIRE_TLS_REMOTE;
}

/* False: the session has been ended. */
static bool
decide(Session *s, uint8_t first)
{
	if (context != NULL && first == TLS_FIRST_BYTE)
	{
		s->tls = tls_begin(context);
		if (s->tls == NULL)
		{
			session_log(s, LOG_WARNING, "session ended: OpenSSL has no memory for it");
			session_end(s);
			return false;
		}
		s->tls_context = contexts;
		s->transport = SESSION_TLS;
		return true;
	}
	if (!s->may_be_clear)
	{
		session_log(s, LOG_WARNING, "session ended: it does not use TLS, and has to: set lockstep.tls_directory of the node");
		session_end(s);
		return false;
	}
	s->transport = SESSION_CLEAR;
	if (first != TLS_FIRST_BYTE)
		return true;
	session_fail(s, "08P01", "Set tls_directory of the replicator.", "the node uses TLS, and the replicator has no certificate");
	return false;
}

/* ---------- bytes */

/* What OpenSSL wants to send after a call; the peer must read it in the end. */
static bool
take_output(Session *s)
{
	const uint8_t *bytes;
	size_t		len = tls_output(&bytes);

	if (len == 0)
		return true;
	buffer_append(&s->out, bytes, len);
	loop_defer(&s->flush);
	return s->out.len - s->out.pos < MAX_UNREAD;
}

static void
fail(Session *s, TlsResult result)
{
	if (result == TLS_FAILED)
		session_log(s, LOG_WARNING, "session ended: TLS: %s", tls_error(s->tls));
	session_flush(s);			/* the alert, if it can be sent now */
	session_end(s);
}

bool
session_tls_open(Session *s, uint8_t **bytes, size_t *n)
{
	TlsResult	result = TLS_BYTES;
	size_t		total = 0;
	size_t		got;

	if (s->state == SESSION_ENDED || (s->transport == SESSION_UNDECIDED && (*n == 0 || !decide(s, (*bytes)[0]))))
		return false;
	if (s->transport == SESSION_CLEAR)
		return *n > 0;
	if (*n > 0)
		tls_feed(s->tls, *bytes, *n);
	while (result == TLS_BYTES && total < READ_SIZE)
	{
		result = tls_read(s->tls, plain_bytes + total, sizeof(plain_bytes) - total, &got);
		total += got;
		if (!take_output(s))
		{
			session_log(s, LOG_WARNING, "session ended: it does not read");
			session_end(s);
			return false;
		}
	}
	if (s->state == SESSION_HELLO && s->out.len > 0)
		unauthenticated_challenged(s);
	*bytes = plain_bytes;
	*n = total;
	if (total == 0 && result != TLS_MORE)
		fail(s, result);
	return total > 0;
}

/* ---------- the handshake of the protocol above */

bool
session_tls_is_node(Session *s, LsSlice node)
{
	char		names[256];

	if (s->tls == NULL)
		return true;
	if (s->tls_context != contexts)
	{
		check_again(s);			/* a reload came between */
		if (s->state == SESSION_ENDED)
			return false;
	}
	if (tls_peer_is_node(s->tls, (const char *) node.data, node.len))
	{
		int64_t		left = tls_peer_seconds_left(s->tls);

		s->tls_until_us = loop_now_us() + (uint64_t) (left > 0 ? left : 0) * 1000000;
		return true;
	}
	tls_peer_text(s->tls, names, sizeof(names));
	session_fail(s, "28000", "Each node needs a certificate of its own name: see lockstep.tls_directory of the node.",
				 "the certificate is for %s, and not for node \"%.*s\"", names, (int) node.len, (const char *) node.data);
	return false;
}

LsSlice
session_tls_binding(Session *s)
{
	if (s->tls == NULL || !tls_binding(s->tls, s->binding))
		return (LsSlice) {NULL, 0};
	return (LsSlice) {s->binding, sizeof(s->binding)};
}
