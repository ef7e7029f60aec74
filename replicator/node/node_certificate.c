/*
 * node_certificate.c
 *	  Is a server that was reached by TLS the node that it should be?
 *
 * libpq has verified that the certificate is for the address.  If it is one of lockstep's
 * (tls_context.h), it has to be the node's, too: a node that takes another one's address, or is on
 * the same machine, does not get what the other is told.
 */
#include "node_certificate.h"

#include <openssl/ssl.h>

#include "buffer.h"
#include "tls_context.h"

char *
node_certificate_check(PGconn *conn, const char *node)
{
	SSL		   *ssl = PQsslInUse(conn) ? PQsslStruct(conn, "OpenSSL") : NULL;
	const X509 *certificate = ssl != NULL ? SSL_get0_peer_certificate(ssl) : NULL;
	char		text[200];

	if (certificate == NULL || tls_certificate_may_be_node(certificate, node))
		return NULL;
	tls_certificate_text(certificate, text, sizeof(text));
	return xasprintf("the server's certificate is for %s, and not for node \"%s\"", text, node);
}
