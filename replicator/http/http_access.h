/*
 * http_access.h
 *	  Who may ask over HTTP.  Any thread.
 */
#ifndef LOCKSTEP_HTTP_ACCESS_H
#define LOCKSTEP_HTTP_ACCESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "auth.h"

/*
 * The address that "ADDRESS:PORT" stands for: a number, a name, [IPv6] or * (all addresses).
 * NULL, or what is wrong (malloc'ed).
 */
extern char *http_resolve(const char *listen_on, struct sockaddr_storage *address, socklen_t *len);

/*
 * Has a request the token?  authorization: the header "Authorization: Bearer TOKEN", or
 * "Basic", where the token is the password; NULL: there is none.
 */
extern bool http_has_token(const Secret *token, const char *authorization);

/*
 * Does the header Host (NULL: none) name this machine by a number or as localhost?  Without
 * a token any other name is refused: a page of another site, whose name has been made to lead to
 * 127.0.0.1, would read ours otherwise.
 */
extern bool http_host_is_local(const char *host);

#endif
