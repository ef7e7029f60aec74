/*
 * tls_context.h
 *	  One side's certificate, key and authorities for TLS between nodes and replicator, compiled
 *	  into both halves.
 *
 * A directory has them, in PEM:
 *
 *		cert.pem	this side's certificate, and the intermediate ones up to its authority
 *		key.pem		its private key, not accessible by all users, without a passphrase
 *		ca.pem		the authorities whose certificates count, one or several
 *		crl.pem		optional: revoked certificates, a list for each authority that has any
 *
 * Certificates say who may use them by a URI among their alternative names:
 * "lockstep:node:NAME" and "lockstep:replicator".  So a node's certificate speaks for no other
 * node, and not for the replicator.
 */
#ifndef LOCKSTEP_TLS_CONTEXT_H
#define LOCKSTEP_TLS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#define TLS_URI_ANY "lockstep:"
#define TLS_URI_REPLICATOR "lockstep:replicator"
#define TLS_URI_NODE "lockstep:node:"
#define TLS_WHY_SIZE 512

struct ssl_ctx_st;
struct ssl_st;
struct x509_st;

typedef struct TlsContext TlsContext;

/*
 * Reads the files.  node: ours, NULL for the replicator.  NULL: they cannot be used, as why says,
 * which contains file names of the directory, not its path.  Free it when nothing begins any
 * more; what has begun keeps what it needs.
 */
extern TlsContext *tls_context_load(const char *directory, const char *node, char why[TLS_WHY_SIZE]);
extern void tls_context_free(TlsContext *c);	/* NULL is ignored */

extern struct ssl_ctx_st *tls_context_ssl(const TlsContext *c);
extern bool tls_context_is_replicator(const TlsContext *c);
extern const char *tls_context_expires(const TlsContext *c, int *days); /* of cert.pem, as text;
																		 * valid until it is
																		 * freed */

/* Is the certificate for this name ("lockstep:...", any length)? */
extern bool tls_certificate_is_for(const struct x509_st *certificate, const char *uri, size_t len);

/* May it be used by the server of that node?  By its name, or it is none of lockstep's. */
extern bool tls_certificate_may_be_node(const struct x509_st *certificate, const char *node);

/* Its names, or its subject if it has none, for messages. */
extern void tls_certificate_text(const struct x509_st *certificate, char *text, size_t size);

/* Does the certificate of this connection's other side still count?  false: why. */
extern bool tls_context_still_trusts(const TlsContext *c, struct ssl_st *ssl, char why[TLS_WHY_SIZE]);

/* The first of OpenSSL's errors in words; forgets them all. */
extern void tls_openssl_error(char *text, size_t size);

#endif
