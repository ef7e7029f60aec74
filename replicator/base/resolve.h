/*
 * resolve.h
 *	  Resolving host names without blocking the loop.
 */
#ifndef LOCKSTEP_RESOLVE_H
#define LOCKSTEP_RESOLVE_H

#include <stdbool.h>

typedef struct Resolve Resolve;

/*
 * hosts and addresses are lists as libpq takes them for host and hostaddr, of
 * equal length; gone when this returns.  Or an error.
 */
typedef void (*ResolveDone) (void *arg, const char *hosts, const char *addresses, const char *error);

/* Does this value of libpq's host (a list, maybe) contain a name? */
extern bool resolve_is_needed(const char *host);

/* done is called on the loop's thread, never from within this call. */
extern Resolve *resolve_start(const char *host, ResolveDone done, void *arg);
extern void resolve_cancel(Resolve *r); /* done is not called any more; NULL
										 * is ignored */

#endif
