/*
 * tls_context.c
 *	  Reads certificate, key and authorities, and says what a certificate stands for.
 *
 * TLS 1.3 only, with a certificate of each side, verified to an authority of ca.pem and against
 * crl.pem.  No session is resumed, so each connection is verified by itself.
 *
 * In a backend OpenSSL's queue of errors is also that of PostgreSQL's own connections: it is
 * emptied before each call whose errors are looked at, and after it.
 */
#include "tls_context.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (1024 * 1024)

struct TlsContext
{
	SSL_CTX    *ssl;
	bool		replicator;
	char		expires[64];
	int			days;			/* until then */
};

/* ---------- errors */

void
tls_openssl_error(char *text, size_t size)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_reason_error_string(code);

	if (code == 0)
		snprintf(text, size, "no reason is known");
	else if (reason != NULL)
		snprintf(text, size, "%s", reason);
	else
		ERR_error_string_n(code, text, size);
	ERR_clear_error();
}

static bool __attribute__((format(printf, 2, 3)))
unusable(char why[TLS_WHY_SIZE], const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(why, TLS_WHY_SIZE, fmt, args);
	va_end(args);
	ERR_clear_error();
	return false;
}

static bool
unusable_pem(char why[TLS_WHY_SIZE], const char *name, const char *what)
{
	char		reason[256];

	tls_openssl_error(reason, sizeof(reason));
	return unusable(why, "%s: %s: %s", name, what, reason);
}

/* ---------- files */

static bool
read_all(int fd, BIO *bio, char why[TLS_WHY_SIZE], const char *name)
{
	char		bytes[8192];
	ssize_t		n;
	bool		kept = true;

	while (kept && ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)))
		kept = n < 0 || BIO_write(bio, bytes, (int) n) == n;
	OPENSSL_cleanse(bytes, sizeof(bytes));
	if (!kept)
		return unusable(why, "%s: out of memory", name);
	return n == 0 || unusable(why, "%s could not be read: %s", name, strerror(errno));
}

/* The bytes of a file; NULL: why is set, or, if optional, empty because there is none. */
static BIO *
read_file(const char *directory, const char *name, bool private, bool optional, char why[TLS_WHY_SIZE])
{
	char		path[4096];
	struct stat st;
	BIO		   *bio = NULL;
	int			fd;

	why[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int) sizeof(path))
	{
		unusable(why, "the directory's name is too long");
		return NULL;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
	{
		if (errno != ENOENT || !optional)
			unusable(why, "%s could not be opened: %s", name, strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		unusable(why, "%s is not a regular file of at most 1 MB", name);
	else if (private && (st.st_mode & S_IRWXO))
		unusable(why, "%s is accessible by everybody; its permissions should be u=rw (0600) or u=rw,g=r (0640)", name);
	else if ((bio = BIO_new(BIO_s_secmem())) == NULL)
		unusable(why, "%s: out of memory", name);
	else if (!read_all(fd, bio, why, name))
	{
		BIO_free(bio);
		bio = NULL;
	}
	close(fd);
	return bio;
}

/* A key with a passphrase is refused, instead of asking whoever started the server for it. */
static int
no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	return -1;
}

static bool
read_certificate(SSL_CTX *ssl, const char *directory, char why[TLS_WHY_SIZE])
{
	BIO		   *bio = read_file(directory, "cert.pem", false, false, why);
	X509	   *certificate;
	X509	   *issuer;
	bool		ok;

	if (bio == NULL)
		return false;
	ERR_clear_error();
	certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
	ok = certificate != NULL && SSL_CTX_use_certificate(ssl, certificate) == 1;
	X509_free(certificate);
	while (ok && (issuer = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL)
	{
		ok = SSL_CTX_add0_chain_cert(ssl, issuer) == 1;
		if (!ok)
			X509_free(issuer);
	}
	BIO_free(bio);
	if (!ok)
		return unusable_pem(why, "cert.pem", "no usable certificate");
	ERR_clear_error();			/* that the file has ended */
	return true;
}

static bool
read_key(SSL_CTX *ssl, const char *directory, char why[TLS_WHY_SIZE])
{
	BIO		   *bio = read_file(directory, "key.pem", true, false, why);
	EVP_PKEY   *key;
	bool		ok;

	if (bio == NULL)
		return false;
	ERR_clear_error();
	key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	ok = key != NULL && SSL_CTX_use_PrivateKey(ssl, key) == 1;
	EVP_PKEY_free(key);
	BIO_free(bio);
	if (!ok)
		return unusable_pem(why, "key.pem", "no usable private key without a passphrase");
	return SSL_CTX_check_private_key(ssl) == 1 || unusable(why, "key.pem is not the key of cert.pem");
}

/* Certificates, or lists of revoked ones, are added to the store. */
static bool
read_trusted(X509_STORE *store, const char *directory, const char *name, bool lists, char why[TLS_WHY_SIZE])
{
	BIO		   *bio = read_file(directory, name, false, lists, why);

	STACK_OF(X509_INFO) * found;
	int			added = 0;
	bool		ok = true;

	if (bio == NULL)
		return why[0] == '\0';
	ERR_clear_error();
	found = PEM_X509_INFO_read_bio(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	for (int i = 0; ok && i < sk_X509_INFO_num(found); i++)
	{
		X509_INFO  *info = sk_X509_INFO_value(found, i);

		if (lists ? info->crl == NULL : info->x509 == NULL)
			continue;
		ok = (lists ? X509_STORE_add_crl(store, info->crl) : X509_STORE_add_cert(store, info->x509)) == 1;
		added++;
	}
	sk_X509_INFO_pop_free(found, X509_INFO_free);
	if (!ok || added == 0)
		return unusable_pem(why, name, lists ? "no list of revoked certificates" : "no certificate of an authority");
	ERR_clear_error();
	if (lists)
		X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return true;
}

/* An authority without a list in crl.pem has revoked nothing. */
static int
on_verify(int ok, X509_STORE_CTX *verified)
{
	if (!ok && X509_STORE_CTX_get_error(verified) == X509_V_ERR_UNABLE_TO_GET_CRL)
	{
		X509_STORE_CTX_set_error(verified, X509_V_OK);
		return 1;
	}
	return ok;
}

/* ---------- names */

/* The i-th URI among its alternative names; false: it has no more. */
static bool
has_uri(const STACK_OF(GENERAL_NAME) * names, int *i, const char **uri, size_t *len)
{
	for (; *i < sk_GENERAL_NAME_num(names); (*i)++)
	{
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, *i);

		if (name->type != GEN_URI)
			continue;
		*uri = (const char *) ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
		*len = (size_t) ASN1_STRING_length(name->d.uniformResourceIdentifier);
		(*i)++;
		return true;
	}
	return false;
}

static STACK_OF(GENERAL_NAME) *names_of(const X509 *certificate)
{
	STACK_OF(GENERAL_NAME) * names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

	ERR_clear_error();
	return names;
}

bool
tls_certificate_is_for(const X509 *certificate, const char *uri, size_t len)
{
	STACK_OF(GENERAL_NAME) * names = names_of(certificate);
	const char *has;
	size_t		has_len;
	bool		found = false;

	for (int i = 0; !found && has_uri(names, &i, &has, &has_len);)
		found = has_len == len && memcmp(has, uri, len) == 0;
	sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
	return found;
}

bool
tls_certificate_may_be_node(const X509 *certificate, const char *node)
{
	STACK_OF(GENERAL_NAME) * names = names_of(certificate);
	const char *uri;
	size_t		len;
	bool		ours = false;
	bool		found = false;

	for (int i = 0; has_uri(names, &i, &uri, &len);)
	{
		ours |= len >= strlen(TLS_URI_ANY) && memcmp(uri, TLS_URI_ANY, strlen(TLS_URI_ANY)) == 0;
		found |= len == strlen(TLS_URI_NODE) + strlen(node) && memcmp(uri, TLS_URI_NODE, strlen(TLS_URI_NODE)) == 0 &&
			memcmp(uri + strlen(TLS_URI_NODE), node, strlen(node)) == 0;
	}
	sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
	return found || !ours;
}

void
tls_certificate_text(const X509 *certificate, char *text, size_t size)
{
	STACK_OF(GENERAL_NAME) * names = names_of(certificate);
	const char *uri;
	size_t		len;
	size_t		at = 0;

	text[0] = '\0';
	for (int i = 0; at < size && has_uri(names, &i, &uri, &len);)
		at += (size_t) snprintf(text + at, size - at, "%s%.*s", at > 0 ? ", " : "", (int) (len < 200 ? len : 200), uri);
	sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
	if (text[0] == '\0')
		X509_NAME_oneline(X509_get_subject_name(certificate), text, (int) size);
	for (char *p = text; *p != '\0'; p++)
	{
		if ((unsigned char) *p < 0x20 || (unsigned char) *p >= 0x7f)
			*p = '?';
	}
}

/* ---------- the context */

static bool
set_rules(SSL_CTX *ssl)
{
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
	SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
	return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
		SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
		SSL_CTX_set_num_tickets(ssl, 0) == 1 && SSL_CTX_set_max_early_data(ssl, 0) == 1;
}

/* Others would refuse it: better said here. */
static bool
check_own(TlsContext *c, const char *node, char why[TLS_WHY_SIZE])
{
	const X509 *own = SSL_CTX_get0_certificate(c->ssl);
	const ASN1_TIME *end = X509_get0_notAfter(own);
	BIO		   *text = BIO_new(BIO_s_mem());
	char		uri[256];
	int			seconds = 0;
	int			n;

	if (text != NULL && ASN1_TIME_print(text, end) == 1 && (n = BIO_read(text, c->expires, sizeof(c->expires) - 1)) > 0)
		c->expires[n] = '\0';
	BIO_free(text);
	if (ASN1_TIME_diff(&c->days, &seconds, NULL, end) != 1 || c->days < 0 || seconds < 0)
		return unusable(why, "the certificate in cert.pem has expired: %s", c->expires);
	snprintf(uri, sizeof(uri), "%s%s", node == NULL ? TLS_URI_REPLICATOR : TLS_URI_NODE, node == NULL ? "" : node);
	if (!tls_certificate_is_for(own, uri, strlen(uri)))
		return unusable(why, "the certificate in cert.pem is not for URI:%s", uri);
	return true;
}

TlsContext *
tls_context_load(const char *directory, const char *node, char why[TLS_WHY_SIZE])
{
	TlsContext *c = calloc(1, sizeof(TlsContext));
	X509_STORE *store;

	why[0] = '\0';
	ERR_clear_error();
	if (c == NULL || (c->ssl = SSL_CTX_new(TLS_method())) == NULL || !set_rules(c->ssl))
	{
		unusable(why, "OpenSSL cannot be used");
		tls_context_free(c);
		return NULL;
	}
	c->replicator = node == NULL;
	store = SSL_CTX_get_cert_store(c->ssl);
	if (!read_certificate(c->ssl, directory, why) || !read_key(c->ssl, directory, why) ||
		!read_trusted(store, directory, "ca.pem", false, why) || !read_trusted(store, directory, "crl.pem", true, why) ||
		!check_own(c, node, why))
	{
		tls_context_free(c);
		return NULL;
	}
	return c;
}

void
tls_context_free(TlsContext *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
	ERR_clear_error();
}

SSL_CTX *
tls_context_ssl(const TlsContext *c)
{
	return c->ssl;
}

bool
tls_context_is_replicator(const TlsContext *c)
{
	return c->replicator;
}

const char *
tls_context_expires(const TlsContext *c, int *days)
{
	*days = c->days;
	return c->expires;
}

bool
tls_context_still_trusts(const TlsContext *c, SSL *ssl, char why[TLS_WHY_SIZE])
{
	X509_STORE_CTX *verified = X509_STORE_CTX_new();
	X509	   *certificate = SSL_get0_peer_certificate(ssl);
	bool		ok;

	ok = verified != NULL && certificate != NULL &&
		X509_STORE_CTX_init(verified, SSL_CTX_get_cert_store(c->ssl), certificate, SSL_get_peer_cert_chain(ssl)) == 1 &&
		X509_STORE_CTX_set_default(verified, c->replicator ? "ssl_client" : "ssl_server") == 1;
	if (ok)
	{
		X509_STORE_CTX_set_verify_cb(verified, on_verify);
		ok = X509_verify_cert(verified) == 1;
		if (!ok)
			unusable(why, "%s", X509_verify_cert_error_string(X509_STORE_CTX_get_error(verified)));
	}
	else
		unusable(why, "it could not be verified again");
	X509_STORE_CTX_free(verified);
	ERR_clear_error();
	return ok;
}
