/*
 * etcd.h
 *	  One key in etcd: read it, and change it if nobody else has.
 *
 * By etcd's HTTP/JSON gateway (/v3/kv, etcd 3.4 and later), with libcurl and jansson.  Each call
 * waits for its answer, at most REQUEST_MS for each endpoint.  One thread for each Etcd.
 */
#ifndef LOCKSTEP_ETCD_H
#define LOCKSTEP_ETCD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Etcd Etcd;

typedef struct EtcdValue
{
	char	   *text;			/* malloc'ed; NULL: there is no such key */
	int64_t		mod_revision;	/* of its last change; 0: there is no such key */
	int64_t		revision;		/* of the whole store */
	uint64_t	cluster;		/* identity of the etcd cluster */
} EtcdValue;

typedef enum EtcdResult
{
	ETCD_DONE,
	ETCD_CONFLICT,				/* it has another revision: nothing was done */
	ETCD_UNKNOWN				/* no answer: it may be done, or be done later */
} EtcdResult;

/*
 * endpoints: 'http://host:port, ...'; with https:// the files of tls_directory (tls_context.h)
 * are used.  It stays until the process ends.  NULL: libcurl can't be used.
 */
extern Etcd *etcd_open(const char *endpoints, const char *key, const char *tls_directory);

/* As etcd's leader has it.  false: etcd_error(). */
extern bool etcd_read(Etcd *e, EtcdValue *value);

/* Set it, if its mod_revision is that one (0: there is no such key). */
extern EtcdResult etcd_swap(Etcd *e, int64_t mod_revision, const char *text);
extern const char *etcd_error(const Etcd *e);	/* of the last call */

#endif
