/*
 * conninfo.h
 *	  TLS and passwords in connection strings of nodes.
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

/*
 * Defaults of connections that must notice that a machine has vanished, also while they wait: put before what
 * a connection string says, as keywords and values of PQconnectdbParams() or as text.
 */
#define CONNINFO_ALIVE_KEYWORDS "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"
#define CONNINFO_ALIVE_VALUES "10", "5", "3", "30000"
#define CONNINFO_ALIVE_TEXT "keepalives_idle=10 keepalives_interval=5 keepalives_count=3 tcp_user_timeout=30000"

/* The same of who waits for the connection itself, in seconds. */
#define CONNINFO_CONNECT_TIMEOUT "10"

/* What is not for arguments of programs, which all users can see.  NULL: there is none. */
typedef struct ConninfoPasswords
{
	char	   *password;		/* of the role */
	char	   *sslpassword;	/* of the key */
} ConninfoPasswords;

/*
 * The same without them, with an sslpassword as a reference to the service CONNINFO_SERVICE.  (One that names
 * a service already needs its sslpassword there.)  malloc'ed.  NULL: libpq does not take it.
 */
#define CONNINFO_SERVICE "lockstepctl"
extern char *conninfo_without_passwords(const char *conninfo, ConninfoPasswords *passwords);

/* With that value of a parameter, which replaces an earlier one.  malloc'ed. */
extern char *conninfo_with(const char *conninfo, const char *keyword, const char *value);

#endif
