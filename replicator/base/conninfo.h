/*
 * conninfo.h
 *	  TLS in connection strings of nodes.
 */
#ifndef LOCKSTEP_CONNINFO_H
#define LOCKSTEP_CONNINFO_H

#include <stdbool.h>

/* Where it leads; of several hosts the one that is farthest. */
typedef enum ConninfoPlace
{
	CONNINFO_UNIX,
	CONNINFO_LOOPBACK,
	CONNINFO_REMOTE
} ConninfoPlace;

extern ConninfoPlace host_place(const char *host);
extern ConninfoPlace conninfo_place(const char *conninfo);

/*
 * The same, where it says nothing else with: TLS 1.3, the server's name verified, the files of
 * tls_directory.  malloc'ed.  For strings that libpq takes.
 */
extern char *conninfo_with_tls(const char *conninfo, const char *tls_directory);

/* Does it insist on an encrypted connection with a server whose name is verified? */
extern bool conninfo_is_verified(const char *conninfo);

#endif
