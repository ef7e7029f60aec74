/*
 * tls_channel.h
 *	  One TLS connection between a node and the replicator, without its socket; compiled into both
 *	  halves.
 *
 * It takes what was received (tls_feed), gives what that says (tls_read), takes what is to be
 * said (tls_write), and gives what has to be sent (tls_output).  So the caller's socket code is
 * the same with TLS and without, and OpenSSL neither waits nor sends.
 *
 *		n = recv(...)								tls_write(t, bytes, len)
 *		tls_feed(t, received, n)					tls_output(t, &out, &size): send it
 *		while (tls_read(t, ...) == TLS_BYTES) ...
 *		tls_output(t, &out, &size): send it
 *
 * The handshake is part of tls_read(): the node calls it once before it has received anything.
 * When tls_is_ready(), the other side's certificate has been verified; the node has checked that
 * it is the replicator's, the replicator asks with tls_peer_is_node().
 *
 * One thread for all channels of a process: what is to be sent is in memory that they share.
 */
#ifndef LOCKSTEP_TLS_CHANNEL_H
#define LOCKSTEP_TLS_CHANNEL_H

#include <stdint.h>

#include "tls_context.h"

#define TLS_FIRST_BYTE 0x16		/* of a connection; no message has this type */
#define TLS_WRITE_MAX 16384		/* bytes, of one call */
#define TLS_WRITE_EXTRA 256		/* that it makes longer at most */
#define TLS_READ_EXTRA 17000	/* bytes of an earlier feed that a tls_read()
								 * may give */
#define TLS_BINDING_SIZE 32

typedef struct TlsChannel TlsChannel;

typedef enum TlsResult
{
	TLS_BYTES,					/* some have been read */
	TLS_MORE,					/* all that was fed has been used */
	TLS_ENDED,					/* the other side says no more */
	TLS_FAILED					/* tls_error() says why; still send what
								 * tls_output() has: the alert */
} TlsResult;

extern TlsChannel *tls_begin(const TlsContext *c);	/* NULL: no memory */
extern void tls_free(TlsChannel *t);	/* NULL is ignored */

/* The bytes have to stay until tls_read() has returned something else than TLS_BYTES. */
extern void tls_feed(TlsChannel *t, const void *bytes, size_t len);
extern TlsResult tls_read(TlsChannel *t, void *to, size_t size, size_t *len);
extern bool tls_write(TlsChannel *t, const void *bytes, size_t len);	/* false: tls_error() */

/* Of the last call of a channel; valid until the next one. */
extern size_t tls_output(const uint8_t **bytes);

extern bool tls_is_ready(const TlsChannel *t);
extern const char *tls_error(const TlsChannel *t);

/* RFC 9266 tls-exporter: equal on both sides, different in each connection. */
extern bool tls_binding(TlsChannel *t, uint8_t binding[TLS_BINDING_SIZE]);

extern bool tls_peer_is_node(const TlsChannel *t, const char *node, size_t len);

/* Until its certificate expires, or one of the authorities' above it. */
extern int64_t tls_peer_seconds_left(const TlsChannel *t);
extern void tls_peer_text(const TlsChannel *t, char *text, size_t size);

/* By another context, after a reload; false: why. */
extern bool tls_peer_is_still_trusted(TlsChannel *t, const TlsContext *c, char why[TLS_WHY_SIZE]);

#endif
