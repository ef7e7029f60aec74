/*
 * guc.h
 *	  The settings lockstep.*: see guc.c.
 */
#ifndef LOCKSTEP_GUC_H
#define LOCKSTEP_GUC_H

#include "utils/guc.h"

#include "protocol.h"

typedef enum LsRequireTls
{
	LS_REQUIRE_TLS_ALL,
	LS_REQUIRE_TLS_REMOTE		/* not within this machine */
} LsRequireTls;

typedef enum LsUnreplicated
{
	LS_UNREPLICATED_REFUSE,
	LS_UNREPLICATED_ALLOW
} LsUnreplicated;

/*
 * lockstep.commit_wait = certified, beside the LsCommitWaits.  The replicator is told `executed`,
 * and whether it may do without.
 */
#define LS_COMMIT_CERTIFIED 'c'

extern char *ls_node_name;		/* lockstep.node_name, "" = not a node */
extern char *ls_replicator;		/* lockstep.replicator: host:port or
								 * /path/to/socket */
extern char *ls_secret_file;	/* lockstep.secret_file */
extern char *ls_tls_directory;	/* lockstep.tls_directory, "" = no TLS */
extern int	ls_require_tls;		/* lockstep.require_tls: an LsRequireTls */
extern int	ls_commit_wait;		/* lockstep.commit_wait: an LsCommitWait or
								 * LS_COMMIT_CERTIFIED */
extern int	ls_failover_wait;	/* lockstep.failover_wait, ms, 0 = not at all */
extern int	ls_retry_wait;		/* lockstep.retry_wait, ms, 0 = not at all */
extern int	ls_unreplicated;	/* lockstep.unreplicated: an LsUnreplicated */
extern bool ls_replicate;		/* lockstep.replicate, superuser: off = local
								 * changes */
extern int	ls_replicator_timeout;	/* lockstep.replicator_timeout, ms */
extern int	ls_connect_timeout; /* lockstep.connect_timeout, ms */
extern int	ls_max_row_keys;	/* lockstep.max_row_keys */
extern int	ls_statement_rows;	/* lockstep.statement_rows, -1 = never */
extern bool ls_causal_reads;	/* lockstep.causal_reads */

typedef enum LsUpdateOrder
{
	LS_ORDER_AUTO,
	LS_ORDER_OPTIMISTIC,
	LS_ORDER_QUEUED
} LsUpdateOrder;

extern int	ls_update_order;	/* lockstep.update_order: an LsUpdateOrder */
extern char *ls_queued_tables;	/* lockstep.queued_tables, a list of names */
extern int	ls_queue_timeout;	/* lockstep.queue_timeout, ms; 0 = for ever */
extern int	ls_queue_after;		/* lockstep.queue_after, lost in a row; 0 =
								 * never */

extern int	ls_index_patience;	/* lockstep.index_patience, ms */
extern int	ls_max_sequences;	/* lockstep.max_sequences */
extern int	ls_max_staleness;	/* lockstep.max_staleness, ms; -1: any age */
extern bool ls_local_flush;		/* lockstep.local_flush */
extern int	ls_recovery_wait;	/* lockstep.recovery_wait, ms */

extern int	ls_server_nice;		/* the nice value of the server's processes */
extern int	ls_scheduling_priority; /* lockstep.scheduling_priority */
extern int	ls_apply_priority;	/* lockstep.apply_priority */

extern void guc_define(void);	/* _PG_init */

/* Told when lockstep.replicate, or lockstep.unreplicated, changes, in this session or before it begins. */
extern void (*guc_replicate_changed) (bool newval);
extern void (*guc_unreplicated_changed) (void);

/* Told when the options of a session's connection say off, while it begins. */
extern void (*guc_session_begins_off) (void);

/* May lockstep.scheduling_priority be set to this, and do it; the same for lockstep.apply_priority. */
extern bool (*guc_priority_check) (int newval, GucSource source);
extern void (*guc_priority_changed) (int newval);
extern void (*guc_apply_priority_changed) (int newval);

/* True while this node has a name, whatever the database: changes to shared
 * catalogs from a database without the extension have to be refused. */
extern bool ls_is_node(void);

#endif							/* LOCKSTEP_GUC_H */
