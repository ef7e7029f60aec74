/*
 * node_certificate.h
 *	  Is a server that was reached by TLS the node that it should be?
 */
#ifndef LOCKSTEP_NODE_CERTIFICATE_H
#define LOCKSTEP_NODE_CERTIFICATE_H

#include <libpq-fe.h>

/* For pgclient_check_servers(). */
extern char *node_certificate_check(PGconn *conn, const char *node);

#endif
