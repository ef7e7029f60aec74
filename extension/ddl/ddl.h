/*
 * ddl.h
 *	  What a utility command means for replication.  Private to utility.c and
 *	  ddl*.c.
 *
 * utility.c asks in this order: ddl_plan (what is to be done with commands of
 * this kind), ddl_targets (which objects it names: temporary or not, and which
 * table keys it needs), ddl_text (what is forwarded), and, once the locks are
 * granted and nothing of it can change any more, ddl_check_repeatable (does it
 * have the same result on every node).
 */
#ifndef LOCKSTEP_DDL_H
#define LOCKSTEP_DDL_H

#include "tcop/utility.h"
#include "catalog/objectaccess.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

#include "compat.h"
#include "lockrequest.h"
#include "lockstep.h"

typedef enum DdlAction
{
	DDL_PASS,					/* changes nothing by itself: what it runs is
								 * met by other hooks */
	DDL_LOCAL,					/* runs on this node only, catalog changes and
								 * WAL of it included */
	DDL_LOCK,					/* asks for table locks, then runs here only */
	DDL_FORWARD,				/* asks, is forwarded, runs */
	DDL_DATABASE,				/* the replicator has all nodes do it */
	DDL_REFUSE
} DdlAction;

typedef struct DdlPlan
{
	DdlAction	action;
	bool		shared;			/* changes what all databases have in common */
	bool		catalogs;		/* wants the ddl lock */
	bool		certified;		/* by keys like those of rows: nothing is
								 * asked for first */
	/* of a refusal; what: NULL = the command's name */
	const char *what;
	const char *detail;
	const char *hint;
} DdlPlan;

/* ---------- in ddl.c */

extern void ddl_plan(Node *stmt, DdlPlan *plan);

/* A DROP DATABASE that has nothing to drop, which the client has been told. */
extern bool ddl_database_is_missing(Node *stmt, bool is_top_level);

/* The statement whose effects this one has: itself, or what EXPLAIN ANALYZE runs. */
extern Node *ddl_explained(Node *stmt);

/* Of a command's options in parentheses, the last of this name. */
extern bool ddl_option_is_on(List *options, const char *name);

extern void ddl_refuse(DdlPlan *plan, const char *what, const char *detail, const char *hint);

/* A plain CREATE SCHEMA of the extension's schema, which is there: the client has been told. */
extern bool ddl_is_own_schema(const Node *stmt);

/* Does a DropStmt or the like name lockstep itself? */
extern bool ddl_is_lockstep(const char *name);

/* ---------- in ddldatabase.c */

/* CREATE DATABASE, DROP DATABASE: done on all nodes that are online. */
extern void ddl_run_database(Node *stmt, bool is_top_level);

/* ---------- in ddllockout.c */

/* Refuses what would keep the replicator from connecting. */
extern void ddllockout_check(const Node *stmt);

/* ---------- in ddltargets.c */

typedef struct DdlTargets
{
	int			nkeys;
	int			maxkeys;
	LsKey	   *keys;
	bool		whole_database; /* X on the database: the tables can't be told */
	int			ntemporary;		/* or this node's for another reason */
	List	   *held;			/* OIDs of those by whose names it could mean
								 * permanent ones, if they went */
	int			npermanent;
	bool		separable;		/* temporary ones can be left out of the text */
	bool		reads_temporary;	/* its result depends on a temporary table */
	bool		ours;			/* names something in lockstep's schema */
	bool		runs_script;	/* of an extension */
	bool		nowait;			/* LOCK TABLE ... NOWAIT */
	bool		keeps_names;	/* statements mean what they meant */
} DdlTargets;

/* Takes no locks: by the time they are granted the answer may be another. */
extern void ddl_targets(PlannedStmt *pstmt, const char *source, DdlTargets *targets);

/* ---------- in ddldepend.c */

/*
 * Add the relations that depend on the object.  False: there are too many things
 * that do, and not all were looked at.
 */
extern bool ddl_dependent_tables(Oid class, Oid object, List **relids);

/* The table or the domain that a default, a constraint, a policy ... is a part of; else itself. */
extern ObjectAddress ddl_whole_of(Oid class, Oid object);

/* ---------- in ddlobjects.c */

/* The temporary table that it is of, or is made of types of: it goes with that.  InvalidOid: none. */
extern Oid	ddl_temporary_table_of_type(Oid type);
extern Oid	ddl_temporary_table_of_function(Oid function);

/* ---------- in ddlforward.c */

/* Before that: for the transactions of this node that have its tables open in a mode that is in its way. */
extern void ddl_wait_for_holders(Node *stmt);

/* And for the DDL of its other sessions, until the transaction ends. */
extern void ddl_line_up(LsDdlLock ddl);

/* What the command's targets are now. */
typedef void (*DdlFindTargets) (void *arg, DdlTargets *targets);

/* What the command's targets are.  Those that keep it on this node stay what they are until the transaction ends: they are locked. */
extern void ddl_find_and_hold(DdlFindTargets find, void *arg, DdlTargets *targets);

/*
 * Ask for the locks of *targets, found before.  On return it is what the command
 * means now, the locks being held.  name: of the command, for a message.
 */
extern void ddl_ask_first(const char *name, DdlFindTargets find, void *arg, DdlTargets *targets,
						  LsDdlLock ddl);
extern void ddl_forward(const char *text, const char *const *params, int nparams,
						const DdlTargets *targets, bool catalogs);

/* ---------- in ddlrights.c */

typedef void (*DdlRun) (void *arg);

/*
 * Before any lock is asked for: ERROR if the role may not run the command.  True:
 * it has been run by run(), and changed nothing.  has_result: it also returns rows,
 * so that run() can't stand for it.
 */
extern bool ddl_is_settled_by_rights(Node *stmt, bool has_result, DdlRun run, void *arg);

/* The same for an index or a partition CONCURRENTLY. */
extern void ddl_check_rights(Node *stmt);

/* ---------- in ddlunlogged.c */

extern PlannedStmt *ddlunlogged_ignore(PlannedStmt *pstmt, ProcessUtilityContext context);
extern bool ddlunlogged_change(Node *stmt);

/* Before SET LOGGED is forwarded: the rows, for nodes on which they are missing. */
extern void ddlunlogged_send_rows(Node *stmt);

/* After it has run here, in an apply session too. */
extern void ddlunlogged_ran(Node *stmt);

/* ---------- in ddltext.c */

/*
 * The text to forward, palloc'ed.  *pstmt may be replaced by a changed copy,
 * which is then the command to run.  ERROR if there is no such text.
 */
extern char *ddl_text(PlannedStmt **pstmt, const char *source);

/* DROP TABLE and the like, of which the text may be made anew. */
extern bool ddl_drops_relations(DropStmt *stmt);

/* ---------- in ddlcluster.c */

/* Indexes that CLUSTER ... USING will mark and that aren't marked yet. */
extern List *ddlcluster_unmarked(LsClusterStmt *stmt);
extern List *ddlcluster_lock_marked(LsClusterStmt *stmt);
extern void ddlcluster_mark(Oid index);
extern void ddlcluster_forward(Oid index, const DdlTargets *targets);

/* ---------- in usermapping.c */

extern char *usermapping_create_text(const CreateUserMappingStmt *stmt);
extern char *usermapping_alter_text(const AlterUserMappingStmt *stmt);

/* Where such a command is applied; the same if it is none. */
extern PlannedStmt *usermapping_decrypted(PlannedStmt *pstmt);

/* ---------- in ddllike.c */

/* LIKE a temporary table, all of which can be written as columns and checks. */
extern bool ddl_like_is_written_out(TableLikeClause *clause);
extern bool ddl_likes_temporary(CreateStmt *stmt);
extern char *ddl_write_out_likes(const char *text);

/* ---------- in ddlcheck.c */

/*
 * ERROR 0A000 if the command may have another result on another node.  Returns
 * the tables (OIDs) whose rows would differ, as it computes values for them;
 * they are locked.  Their rows have to travel.
 */
extern List *ddl_check_repeatable(PlannedStmt *pstmt, const char *source);

/* ---------- in ddloutside.c */

/*
 * If the command is one to run outside of a transaction block, make it the plain
 * one, statement and source.  ERROR inside of a block, as PostgreSQL does.
 */
extern bool ddl_make_plain(PlannedStmt **pstmt, const char **source, bool is_top_level);

/* What PostgreSQL calls it; NULL: it isn't one. */
extern const char *ddl_outside_name(Node *stmt);

/* ---------- in ddlinvalid.c */

/* Does it drop nothing but invalid indexes, which are this node's own? */
extern bool ddl_drops_leftovers(Node *stmt);

/* The name of what REINDEX CONCURRENTLY works with: of this node only. */
extern bool ddl_is_name_of_reindex(const char *name);

/* A command that is the node's own: does it make an index valid?  Then the plan,
 * and perhaps the command, changes. */
extern void ddl_watch_invalid(PlannedStmt **pstmt, const char **source, bool is_top_level,
							  DdlPlan *plan);

/* ---------- in ddlconcurrent.c */

/* CREATE INDEX or DROP INDEX CONCURRENTLY, to be run as such. */
extern bool ddlconcurrent_is_wanted(Node *stmt);

/* They keep other DDL away from the table, not its writers. */
extern void ddlconcurrent_weaken(DdlTargets *targets);

/* Around running it. */
extern void ddlconcurrent_begin(Node *stmt);
extern void ddlconcurrent_end(void);

/* ---------- in ddldetach.c */

/* DETACH PARTITION ... CONCURRENTLY or FINALIZE, of a table that is not temporary. */
extern bool ddldetach_is_wanted(Node *stmt);
extern bool ddldetach_is_concurrent(Node *stmt);	/* temporary or not */

/* What its first transaction needs. */
extern void ddldetach_targets(Node *stmt, bool in_block, DdlTargets *targets);

/* PostgreSQL will report an error.  Called when the locks are held. */
extern bool ddldetach_is_refused(AlterTableStmt *stmt);

/* Runs it, and ends this transaction; what is left is one to commit. */
extern void ddldetach_in_steps(AlterTableStmt *stmt, DdlTargets *targets);

/* In a transaction block FINALIZE is run as it is. */
extern void ddldetach_forward_finalize(AlterTableStmt *stmt, const DdlTargets *targets);

/*
 * True: a snapshot was made the active one, as the last was older than what the
 * command has to know.  40001 if the transaction can have no other.
 */
extern bool ddldetach_push_snapshot(const DdlTargets *targets);

/* ---------- in detachsteps.c */

/* Its steps, on the node that runs the command and on those that apply it. */
extern void detachsteps_mark(Relation parent, Relation partition);

/* The partition's bounds as a check; name: NULL to find one.  Its name, NULL: not needed. */
extern const char *detachsteps_keep_bounds(Relation parent, Relation partition, const char *name);
extern void detachsteps_finish(Oid parent, Oid partition);

/* ---------- in ddlpartition.c */

/* After it ran: ERROR 0A000 if it made a table that nodes would split among its
 * partitions differently, or a unique index that would not mean the same. */
extern void ddl_check_table(PlannedStmt *pstmt);

/* ---------- in ddloids.c */

extern void ddl_check_oids(Relation rel);

/* The same of an index that is yet to be made. */
extern void ddl_check_oids_before(Node *stmt, const char *source);

/* ---------- in ddlcheck.c */

/* After it ran, from command since on: ERROR 0A000 if it made a permanent object depend on a
 * temporary one of this session. */
extern void ddl_check_dependencies(CommandId since);

/* ---------- in utility.c */

extern void utility_process(ProcessUtility_hook_type next, PlannedStmt *pstmt, const char *source,
							bool read_only_tree, ProcessUtilityContext context, ParamListInfo params,
							QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion);

/* ---------- in ddlconcurrent.c */

extern void ddlconcurrent_before_commit(void);	/* forwards what has been done */
extern void ddlconcurrent_at_xact_end(bool committed);

/* ---------- in membership.c */

extern void membership_on_object_access(ObjectAccessType access, Oid class, Oid object, void *arg);

#endif							/* LOCKSTEP_DDL_H */
