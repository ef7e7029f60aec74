/*
 * dbcheck.h
 *	  Looking at one database of one node before anything is changed: is it fit
 *	  to be replicated with the others?  For attach.c and databases.c.
 */
#ifndef LOCKSTEP_DBCHECK_H
#define LOCKSTEP_DBCHECK_H

#include "takeover.h"

typedef struct DbCheck DbCheck;

/* error NULL: all is well; else why not.  Called once for each request. */
typedef void (*DbCheckDone) (void *arg, const DropReason *error);

/*
 * Connect to the database and check the server, the extension, and whom it
 * belongs to.  create: make the extension if it is missing.  plain: the
 * extension isn't needed (there is no replicated database).
 */
extern DbCheck *dbcheck_open(Node *n, const char *database, bool create, bool plain,
							 DbCheckDone done, void *arg);
extern void dbcheck_fingerprint(DbCheck *d, DbCheckDone done, void *arg);
extern void dbcheck_set_cluster(DbCheck *d, DbCheckDone done, void *arg);	/* if it has none */
extern void dbcheck_enter_generation(DbCheck *d, DbCheckDone done, void *arg);	/* the node's */

/* Its leases of sequences, which are the sequencer's then, by that name of it; it has applied so far. */
extern void dbcheck_report_leases(DbCheck *d, const char *name, uint64_t applied, DbCheckDone done, void *arg);
extern void dbcheck_free(DbCheck *d);	/* no callback comes any more; NULL is
										 * ignored */

extern bool dbcheck_made_extension(const DbCheck *d);
extern const char *dbcheck_database(const DbCheck *d);
extern bool dbcheck_has_cluster(const DbCheck *d);
extern uint64_t dbcheck_boot(const DbCheck *d);
extern uint64_t dbcheck_progress(const DbCheck *d);

/* Of what was done in this database; the other is perhaps that of one that was dropped, kept here. */
extern uint64_t dbcheck_own_progress(const DbCheck *d);
#define KEPT_SLOT "-2"			/* no backend's; -1 is lockstepctl's */
extern uint64_t dbcheck_chain(const DbCheck *d);	/* stored with it, 0: none */
extern bool dbcheck_knows_chains(const DbCheck *d); /* its extension does */
extern bool dbcheck_knows_generations(const DbCheck *d);
extern const KnownGeneration *dbcheck_generation(const DbCheck *d);
extern const char *dbcheck_found(const DbCheck *d); /* the fingerprint; NULL:
													 * not looked at */

/* NULL: it was lost. */
extern PgClient *dbcheck_client(const DbCheck *d);
extern PgClient *dbcheck_take_client(DbCheck *d);

/* NULL when equal, else the first object that differs (malloc'ed). */
extern char *fingerprint_difference(const char *a, const char *b);

#endif
