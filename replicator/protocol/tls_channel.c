/*
 * tls_channel.c
 *	  OpenSSL between two pieces of memory.
 *
 * It reads by a BIO of ours from what was fed, and writes into `output`.  Nothing in here waits,
 * raises an error of PostgreSQL or leaves by longjmp.
 */
#include "tls_channel.h"

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long before AES-GCM needs another key (RFC 8446, 5.5). */
#define REKEY_BYTES (UINT64_C(64) * 1024 * 1024 * 1024)
#define OUTPUT_KEPT 65536

struct TlsChannel
{
	SSL		   *ssl;
	const uint8_t *in;
	size_t		in_len;
	bool		ready;
	bool		failed;
	uint64_t	written;		/* with this key */
	char		error[256];
};

static struct
{
	uint8_t    *bytes;
	size_t		len;
	size_t		cap;
}			output;

static BIO_METHOD *method;

/* ---------- the BIO */

static int
bio_write(BIO *bio, const char *bytes, int len)
{
	size_t		needed = output.len + (size_t) len;

	if (needed > output.cap)
	{
		uint8_t    *grown = realloc(output.bytes, needed + OUTPUT_KEPT);

		if (grown == NULL)
			return -1;
		output.bytes = grown;
		output.cap = needed + OUTPUT_KEPT;
	}
	memcpy(output.bytes + output.len, bytes, (size_t) len);
	output.len = needed;
	return len;
}

static int
bio_read(BIO *bio, char *to, int size)
{
	TlsChannel *t = BIO_get_data(bio);
	size_t		n = t->in_len < (size_t) size ? t->in_len : (size_t) size;

	BIO_clear_retry_flags(bio);
	if (n == 0)
	{
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(to, t->in, n);
	t->in += n;
	t->in_len -= n;
	return (int) n;
}

static long
bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

static BIO *
bio_of(TlsChannel *t)
{
	BIO		   *bio;

	if (method == NULL)
	{
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep");
		if (method == NULL || BIO_meth_set_write(method, bio_write) != 1 || BIO_meth_set_read(method, bio_read) != 1 ||
			BIO_meth_set_ctrl(method, bio_ctrl) != 1)
		{
			BIO_meth_free(method);
			method = NULL;
			return NULL;
		}
	}
	bio = BIO_new(method);
	if (bio == NULL)
		return NULL;
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	return bio;
}

/* ---------- life */

/* Before each call of OpenSSL: no error of another connection may be taken for ours. */
static void
begin_call(void)
{
	ERR_clear_error();
	output.len = 0;
	if (output.cap > 16 * OUTPUT_KEPT)
	{
		free(output.bytes);
		output.bytes = NULL;
		output.cap = 0;
	}
}

TlsChannel *
tls_begin(const TlsContext *c)
{
	TlsChannel *t = calloc(1, sizeof(TlsChannel));
	BIO		   *bio;

	begin_call();
	if (t == NULL)
		return NULL;
	t->ssl = SSL_new(tls_context_ssl(c));
	bio = t->ssl != NULL ? bio_of(t) : NULL;
	if (bio == NULL)
	{
		tls_free(t);
		return NULL;
	}
	SSL_set_bio(t->ssl, bio, bio);
	if (tls_context_is_replicator(c))
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	return t;
}

void
tls_free(TlsChannel *t)
{
	if (t == NULL)
		return;
	SSL_free(t->ssl);
	free(t);
	ERR_clear_error();
}

/* ---------- reading and writing */

static TlsResult
fail(TlsChannel *t)
{
	long		verified = SSL_get_verify_result(t->ssl);

	if (!t->failed && verified != X509_V_OK && !t->ready)
		snprintf(t->error, sizeof(t->error), "the other side's certificate is refused: %s", X509_verify_cert_error_string(verified));
	else if (!t->failed)
		tls_openssl_error(t->error, sizeof(t->error));
	ERR_clear_error();
	t->failed = true;
	return TLS_FAILED;
}

void
tls_feed(TlsChannel *t, const void *bytes, size_t len)
{
	t->in = bytes;
	t->in_len = len;
}

/* The replicator's certificate speaks for no node, and a node's not for the replicator. */
static bool
check_replicator(TlsChannel *t)
{
	const X509 *certificate = SSL_get0_peer_certificate(t->ssl);
	char		text[128];

	if (SSL_is_server(t->ssl) ||
		(certificate != NULL && tls_certificate_is_for(certificate, TLS_URI_REPLICATOR, strlen(TLS_URI_REPLICATOR))))
		return true;
	tls_peer_text(t, text, sizeof(text));
	snprintf(t->error, sizeof(t->error), "the other side's certificate is not for URI:" TLS_URI_REPLICATOR ", but for %s", text);
	t->failed = true;
	return false;
}

TlsResult
tls_read(TlsChannel *t, void *to, size_t size, size_t *len)
{
	size_t		fed;
	int			n;
	int			error;

	*len = 0;
	begin_call();
	if (t->failed)
		return TLS_FAILED;
	do
	{
		fed = t->in_len;
		n = SSL_read(t->ssl, to, size < INT_MAX ? (int) size : INT_MAX);
		error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, n);
	} while (error == SSL_ERROR_WANT_READ && t->in_len > 0 && t->in_len < fed);
	if (!t->ready && SSL_is_init_finished(t->ssl) && SSL_get_verify_result(t->ssl) == X509_V_OK)
	{
		if (!check_replicator(t))
			return TLS_FAILED;
		t->ready = true;
	}
	if (n > 0)
	{
		*len = (size_t) n;
		return TLS_BYTES;
	}
	if (error == SSL_ERROR_ZERO_RETURN)
		return TLS_ENDED;
	if (error == SSL_ERROR_WANT_READ && t->in_len == 0)
		return TLS_MORE;
	return fail(t);
}

bool
tls_write(TlsChannel *t, const void *bytes, size_t len)
{
	begin_call();
	if (t->failed || !t->ready || len == 0 || len > TLS_WRITE_MAX)
		return false;
	if (t->written > REKEY_BYTES && SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		t->written = 0;
	t->written += len;
	if (SSL_write(t->ssl, bytes, (int) len) == (int) len)
		return true;
	(void) fail(t);
	return false;
}

size_t
tls_output(const uint8_t **bytes)
{
	*bytes = output.bytes;
	return output.len;
}

/* ---------- who is there */

bool
tls_is_ready(const TlsChannel *t)
{
	return t->ready && !t->failed;
}

const char *
tls_error(const TlsChannel *t)
{
	return t->error;
}

bool
tls_binding(TlsChannel *t, uint8_t binding[TLS_BINDING_SIZE])
{
	static const char label[] = "EXPORTER-Channel-Binding";
	bool		ok;

	begin_call();
	ok = t->ready && SSL_export_keying_material(t->ssl, binding, TLS_BINDING_SIZE, label, sizeof(label) - 1, NULL, 0, 1) == 1;
	ERR_clear_error();
	return ok;
}

bool
tls_peer_is_node(const TlsChannel *t, const char *node, size_t len)
{
	const X509 *certificate = SSL_get0_peer_certificate(t->ssl);
	char		uri[sizeof(TLS_URI_NODE) + 256];

	if (!tls_is_ready(t) || certificate == NULL || len > 256)
		return false;
	memcpy(uri, TLS_URI_NODE, sizeof(TLS_URI_NODE) - 1);
	memcpy(uri + sizeof(TLS_URI_NODE) - 1, node, len);
	return tls_certificate_is_for(certificate, uri, sizeof(TLS_URI_NODE) - 1 + len);
}

int64_t
tls_peer_seconds_left(const TlsChannel *t)
{
	STACK_OF(X509) * chain = SSL_get0_verified_chain(t->ssl);
	int64_t		left = sk_X509_num(chain) > 0 ? INT64_MAX : 0;

	for (int i = 0; i < sk_X509_num(chain); i++)
	{
		int			days;
		int			seconds;
		int64_t		of_this = 0;

		if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(sk_X509_value(chain, i))) == 1)
			of_this = (int64_t) days * 86400 + seconds;
		if (of_this < left)
			left = of_this;
	}
	return left;
}

void
tls_peer_text(const TlsChannel *t, char *text, size_t size)
{
	const X509 *certificate = SSL_get0_peer_certificate(t->ssl);

	if (certificate != NULL)
		tls_certificate_text(certificate, text, size);
	else
		snprintf(text, size, "nobody");
}

bool
tls_peer_is_still_trusted(TlsChannel *t, const TlsContext *c, char why[TLS_WHY_SIZE])
{
	return tls_context_still_trusts(c, t->ssl, why);
}
