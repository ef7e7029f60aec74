/*
 * http.h
 *	  Metrics, health checks and a status page over HTTP.
 *
 *	 http_server.c		libmicrohttpd: its one thread, connections, start and stop
 *	 http_access.c		who may ask: address, token, Host
 *	 http_pages.c		what each path answers
 *	 http_snapshot.c	the facts, handed from the loop to the HTTP thread
 *	 http_standby.c		the facts of a standby of a group
 *	 status_page.html	the page; status_page.c has it as text
 *
 * The loop's thread never waits for the HTTP thread: it makes a snapshot when asked, at most
 * once a second and when a node's state changes, and exchanges a pointer under a mutex.
 * Whatever a client sends stays with the HTTP thread.
 *
 * http_start(), http_stop() and http_check() belong to the loop's thread.
 */
#ifndef LOCKSTEP_HTTP_H
#define LOCKSTEP_HTTP_H

#include "config.h"

#define HTTP_MAX_CONNECTIONS 512

/*
 * NULL, or why the settings can't be used (malloc'ed); *hint then is NULL or says what to do.
 * Nothing is opened.
 */
extern char *http_check(const Config *config, const char **hint);

/*
 * The same, and listens, and answers as a standby until http_lead().  Without http_listen both do
 * nothing.
 */
extern char *http_start(const Config *config, const char **hint);
extern char *http_lead(const Config *config);
extern void http_stop(void);

#endif
