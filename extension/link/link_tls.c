/*
 * link_tls.c
 *	  TLS with the replicator: what link.c sends and receives instead of plain bytes.
 *
 * OpenSSL neither waits nor touches the socket (tls_channel.h), and no error is raised while it
 * runs: memory for what it gives is there before it is called.  Its objects are malloc'ed and
 * belong to the link.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "link_private.h"
#include "lockstep.h"
#include "ls_link.h"

#define RECEIVED_SIZE 16384

static uint8_t received[RECEIVED_SIZE];

/* What OpenSSL wants to send after a call. */
static void
keep_output(StringInfo out)
{
	const uint8_t *bytes;
	size_t		len = tls_output(&bytes);

	if (len > 0)
		appendBinaryStringInfo(out, (const char *) bytes, len);
}

size_t
link_tls_open(TlsChannel *t, StringInfo in, StringInfo out, bool *ended)
{
	size_t		total = 0;
	size_t		n;
	TlsResult	result;

	enlargeStringInfo(in, RECEIVED_SIZE + TLS_READ_EXTRA);
	do
	{
		result = tls_read(t, in->data + in->len, in->maxlen - in->len - 1, &n);
		in->len += n;
		total += n;
		keep_output(out);
	} while (result == TLS_BYTES);
	if (result != TLS_MORE)
		*ended = true;
	return total;
}

ssize_t
link_tls_receive(TlsChannel *t, pgsocket sock, StringInfo in, StringInfo out, bool *ended)
{
	ssize_t		n;

	n = recv(sock, received, sizeof(received), 0);
	if (n <= 0)
		return n;
	tls_feed(t, received, n);
	if (link_tls_open(t, in, out, ended) > 0)
		return n;
	errno = EAGAIN;
	return -1;
}

bool
link_tls_seal(TlsChannel *t, const char *data, size_t len, StringInfo out)
{
	enlargeStringInfo(out, len + TLS_WRITE_EXTRA);
	if (!tls_write(t, data, len))
		return false;
	keep_output(out);
	return true;
}
