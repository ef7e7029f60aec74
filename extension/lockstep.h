/*
 * lockstep.h
 *	  The one private header of the extension: what its modules offer each
 *	  other, grouped by the file that has it.  Include after postgres.h.
 *
 * Data flows one way:
 *
 *	 heap.c -> capture.c -> relation.c, keyset.c, deparse.c -> xact.c -> link.c
 *
 * and the verdict comes back on link.c to xact.c, which alone takes the turn
 * (turn.c).  All server-version differences are in compat.h.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "access/attnum.h"
#include "access/htup.h"
#include "catalog/pg_proc.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "nodes/pg_list.h"
#include "nodes/lockoptions.h"
#include "datatype/timestamp.h"
#include "storage/proc.h"
#include "utils/relcache.h"

#include "protocol.h"
#include "guc.h"
#include "monotonic.h"

/* A function that SQL can call. */
#define LS_FUNCTION(name) \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

/* A function that doesn't return (18 has pg_noreturn in place of pg_attribute_noreturn). */
#define LS_NORETURN __attribute__((noreturn))

/* The bytes in a buffer. */
static inline LsSlice
ls_slice_of_buffer(const StringInfoData *buffer)
{
	return (LsSlice) {(const uint8_t *) buffer->data, (size_t) buffer->len};
}

/* ---------- in mode.c: which mode this session is in */

/*
 * A place in the journal's history: a seq, and what the history up to it is
 * known by (journal.h of the replicator); 0: not known.
 */
typedef struct Place
{
	uint64		seq;
	uint64		chain;
} Place;

typedef enum LsMode
{
	LS_MODE_OFF,				/* not a node, a database without the
								 * extension, lockstep.replicate = off, or the
								 * extension is just being created: nothing is
								 * captured */
	LS_MODE_ORIGIN,				/* changes are captured and forwarded */
	LS_MODE_APPLY				/* a session of the replicator: executes
								 * forwarded queries, forwards nothing */
} LsMode;

/* Mode of this session now.  Cheap: cached, refreshed by invalidation. */
extern LsMode ls_mode(void);

/* OIDs inside schema lockstep of this database; InvalidOid without the extension. */
extern Oid	ls_schema_oid(void);
extern Oid	ls_progress_relid(void);

extern void mode_init(void);
extern void mode_forget(void);	/* something it depends on has changed */
extern void mode_at_xact_end(void);

/* ---------- in patch.c: replace pointers in the server's read-only tables */

/* Overwrite *slot (a pointer in a page that the server mapped read-only) with
 * value; FATAL at preload when the page can't be made writable. */
extern void ls_patch_pointer(void *slot, void *value, const char *what);

/*
 * Whoever calls the built-in function, by whatever way, calls instead: the table
 * of built-in functions leads there; cfunctions.c does so with compiled expressions.
 */
extern void ls_replace_function(Oid function, PGFunction instead, PGFunction *original,
								const char *name);
extern bool ls_is_replaced(const char *source); /* by its name in C */
extern bool ls_is_replaced_builtin(Oid function);

/* ---------- in heap.c: interposition on the heap table access method */

extern void heap_interpose(void);	/* _PG_init, postmaster only */

/* ---------- in capture.c: which rows the transaction changed, in order */

extern void capture_init(void); /* _PG_init */

/* From heap.c, after the change succeeded, only in LS_MODE_ORIGIN and only for
 * replicated relations (relation_is_replicated). */
extern void capture_insert(Relation rel, TupleTableSlot *slot);
extern void capture_update(Relation rel, ItemPointer otid, TupleTableSlot *slot);
extern void capture_delete(Relation rel, ItemPointer tid);
extern void capture_row_locked(Relation rel);	/* explains WAL under an xid */

/* For the witness: of this transaction, rolled-back subtransactions included
 * (their WAL is there, too). */
extern uint64 capture_rows_seen(void);	/* rows captured so far */
extern bool capture_rows_were_locked(void); /* rows of replicated tables were */

/* Forward the pending run of inserts.  Called by xact.c at subtransaction
 * borders and before the question, and by whoever forwards something else. */
extern void capture_flush(void);

/* Capture all rows of a table as inserts, as after a command that made them. */
extern void capture_table(Oid relid);

/* Forget the pending run: the (sub)transaction that made it is gone. */
extern void capture_discard(void);

/* Is a row being made into a query?  Then nothing else may be forwarded. */
extern bool capture_is_busy(void);

/* ---------- in relation.c: what capture needs to know of a relation, cached */

typedef struct LsRelation LsRelation;	/* see relation.h */

extern bool relation_is_replicated(Relation rel);
extern void relation_init(void);	/* _PG_init */
extern bool relation_some_read_settings(void);
extern void relation_evaluate_anew(Relation rel);

/* ---------- in keyset.c: changed rows -> 64-bit keys */

/* A table's key, the database's key (palloc'ed name).  Names as in the
 * catalogs, not quoted; seen is turn_applied() now. */
extern LsKey keyset_table_key(const char *schema, const char *table, LsKeyMode mode);
extern LsKey keyset_database_key(LsKeyMode mode);

extern void keyset_at_xact_end(void);
extern void keyset_at_subxact_abort(int nest_level);

/* ---------- in notify.c: notifications */

struct NotifyStmt;
extern void notify_init(void);	/* _PG_init */
extern void notify_check(void); /* before the question: may fail */
extern bool notify_command(struct NotifyStmt *stmt);
extern bool notify_is_hidden_in(Form_pg_proc proc, HeapTuple tuple);
extern void notify_refuse_hidden(void);

/* ---------- in largeobject.c: large objects */

extern void largeobject_init(void); /* _PG_init */

/* Is it a command on large objects?  Then *oids are those that it names. */
extern bool largeobject_named_by(Node *stmt, List **oids);

/* ---------- in sequence.c: nextval, setval and other functions refused as yet */

extern void sequence_init(void);

/* ---------- in sequence_*.c: values of sequences; more in sequence.h */

extern void sequence_shmem_request(void);
extern void sequence_shmem_startup(void);

/* False: PostgreSQL's own function is to do it. */
extern bool sequence_nextval(Oid relid, bool check, int64 *result);
extern bool sequence_currval(Oid relid, int64 *result);
extern bool sequence_lastval(int64 *result);
extern bool sequence_setval(Oid relid, int64 value, bool called);
extern void sequence_discard(void); /* DISCARD SEQUENCES */
extern uint64 sequence_values_taken(void);	/* in this session; explains WAL */

extern void sequence_before_commit(void);	/* forwards what travels */
extern void sequence_in_turn(void); /* this transaction's changes of pages */
extern void sequence_at_xact_end(void);

/* In an apply session, lockstep.apply_sequence(). */
extern void sequence_apply(const char *effect, const char *name, int64 value,
						   bool called, const char *extra);
struct ReturnSetInfo;
extern void sequence_put_positions(struct ReturnSetInfo *rsinfo);
extern void sequence_put_leases(struct ReturnSetInfo *rsinfo);
extern void sequence_reported(void);

/* ---------- in interpose.c: modules that call the server's functions directly */

extern void callers_replace(void *original, void *instead, const char *name);	/* _PG_init */
extern void callers_look(void); /* at modules loaded since */

/* ---------- in sequence_drop.c: dropped sequences are forgotten */

extern void sequence_drop_init(void);	/* _PG_init */

/* ---------- in sequence.c: nextval, without a check of permissions */

extern Node *sequence_nextval_call(Oid sequence, Oid type);

/* ---------- in copyidentity.c */

struct CopyStmt;
extern bool copy_takes_identity(Relation rel, const struct CopyStmt *stmt);
extern uint64 copy_identity(const struct CopyStmt *stmt, const char *source);

/* ---------- in request.c: questions that are not about the transaction */

extern LsLeased ask_lease(LsLease *request);	/* id is filled in here */
extern uint64 ask_alone(LsQuery *query);	/* returns its seq */
extern void ask_facts(LsFactsKind kind, LsFacts *facts);	/* in this memory
															 * context */

/*
 * Who committed seq?  False: not told in time, or not connected, which is no error.
 * The answer is in the link's buffer.
 */
extern bool ask_winner(uint64 seq, long patience_ms, LsFacts *facts);

/* ---------- in conflictreport.c: conflicts that this node finds by itself */

extern void lost_note(LsLostReason reason, const char *key, const char *detail);
extern void lost_to_update(Relation rel, ItemPointer tid, TransactionId xid);
extern void lost_explain(ErrorData *edata);
extern void lost_at_xact_end(void);

/* ---------- in utility.c: utility commands */

extern void utility_init(void); /* _PG_init */
extern bool utility_is_running(void);	/* somewhere on the stack */
extern bool utility_is_local(void); /* one that stays on this node is */
extern bool utility_drops_owned(void);	/* what is dropped now, DROP OWNED
										 * drops */

/* Is what happens now part of a forwarded command, so that the other nodes do
 * it by themselves (an extension's script)?  Then nothing is captured. */
extern bool utility_is_replayed(void);

/* ---------- in ddlconcurrent.c: CREATE and DROP INDEX CONCURRENTLY */

extern void concurrent_before_commit(void); /* forwards what has been done */
extern void concurrent_at_xact_end(bool committed);

/* ---------- in applyunproven.c: unique indexes that aren't valid */

extern void unproven_init(void);	/* _PG_init */
extern void unproven_before_rows(Relation rel); /* in an apply session */

/* ---------- in sessionsettings.c: what a forwarded statement depends on */

/* Not a setting, but it travels like one: when the transaction began. */
#define LS_SETTING_TIME "lockstep.transaction_time"

/* Neither: what RESET search_path would give. */
#define LS_SETTING_RESET_PATH "lockstep.reset_search_path"

/*
 * Neither: what follows are all of the settings with a dot in their name that the
 * session has, set by an ordinary user (value "user") or a superuser ("superuser").
 */
#define LS_SETTING_CUSTOM "lockstep.custom"

/* Append name NUL value NUL ..., as in LsQuery.settings. */
extern void settings_append(StringInfo out);
extern void settings_append_row_path(StringInfo out, Oid owner);
extern void settings_append_row(StringInfo out);

/* Plans don't keep what functions have made of other settings than those now. */
extern void settings_renew_plans(void);
extern void settings_append_reset_path(StringInfo out);
extern bool ls_runs_script(const Node *stmt);	/* of an extension */

/* Between these the session gives no messages below ERROR. */
extern int	settings_begin_quiet(void);
extern void settings_end_quiet(int level);

/* ---------- in statement.c: a query in statement form */

/* The statement that the text is, as the grammar has it; NULL: it is none, or several. */
extern Node *statement_parse(const char *text);

/* Append to LsQuery.keys, LsQuery.params. */
extern void statement_pack_key(StringInfo out, const LsKey *key);
extern void statement_pack_param(StringInfo out, const char *text, size_t len);

struct QueryDesc;
extern void statement_forward(struct QueryDesc *desc, LsReason reason, int64 rows,
							  const LsKey *keys, int nkeys);

/* ---------- in shippable.c: UPDATE and DELETE that travel as their text */

extern void shippable_forget(void); /* before each ExecutorStart that isn't
									 * nested */
extern void shippable_consider(struct QueryDesc *desc); /* before ExecutorStart */
extern void shippable_start(struct QueryDesc *desc);	/* before ExecutorRun */
extern void shippable_stop(void);	/* after it, failed or not */
extern void shippable_forward(struct QueryDesc *desc);	/* after it */

/* Rows of this table that change now need not be captured. */
extern bool shippable_is_running(Oid relid);

/* ---------- in executor.c: SELECT that writes */

extern void select_init(void);	/* _PG_init */

extern bool select_is_running(void);	/* somewhere on the stack */
extern int	select_depth(void); /* how many executions are going on */

/* ---------- in lockorder.c: lockstep.update_order */

extern void queue_before_query(struct QueryDesc *desc);
extern void queue_note_conflict(void);	/* this session got a 40001 */
extern void queue_note_commit(void);	/* it got through */
extern void queue_at_xact_end(void);
extern int	queue_rows_held(void);
extern void queue_forget_rows(int n);	/* all but the first n, at the end of
										 * a subtransaction */
extern void queue_note_table(uint64 hash, const char *name, LsKeyMode mode);

/* ---------- in masking.c: what of others' rows and commands may be seen */

extern char *hidden_for_reader(const char *text);	/* palloc'ed */
extern char *hidden_for_log(const char *text);
extern char *hidden_in_error(const char *text); /* without the catalogs */
extern bool hidden_query_is_seen(const LsQuery *query);

/* ---------- in readkeys.c: keys of what was read or locked */

typedef struct LsReadMark
{
	int			len;
	uint32		nkeys;
} LsReadMark;

extern void readkeys_row_locked(Relation rel, TupleTableSlot *slot, LockTupleMode mode);
extern void readkeys_table(Relation rel);	/* before it is read without a
											 * plan */
extern void readkeys_forward(void); /* before the question */
extern LsReadMark readkeys_mark(void);	/* at the start of a subtransaction */
extern void readkeys_cut(LsReadMark mark);	/* when it aborts */
extern void readkeys_at_xact_end(void);

/* ---------- in readplan.c: which rows a plan reads, changes or locks */

struct QueryDesc;
extern void readplan_before_query(struct QueryDesc *desc);	/* before ExecutorStart */
extern int	readplan_rows_to_change(struct QueryDesc *desc, bool (*wanted) (Relation rel),
									LsKey *keys, int max, LsKey *tables, int *ntables);

/* ---------- in foreignkey.c: is a query a foreign key's own? */

extern void foreignkey_init(void);	/* _PG_init */
extern bool foreignkey_starts_query(void);	/* the next to start is */
extern bool foreignkey_runs_query(void);	/* the innermost is */
extern void foreignkey_at_xact_end(void);

/* ---------- in causal.c: reads that see what was committed anywhere */

/* Before a statement of the client runs: renew its snapshot if need be. */
struct PlannedStmt;
struct QueryDesc;
extern void causal_before_query(struct QueryDesc *desc);
extern bool causal_is_first_statement(void);	/* from REPEATABLE READ up:
												 * the snapshot is new */
extern void causal_renew_snapshot(struct QueryDesc *desc);	/* if it may still be */
extern void causal_before_utility(struct PlannedStmt *pstmt);
extern void causal_catch_up_for(int ms);	/* with what is decided; at most
											 * so long, and no error if it
											 * can't */

/* ---------- in cfunctions.c: functions that do what no other hook sees */

extern void callwatch_init(void);	/* _PG_init */
extern int	ls_event_trigger_depth; /* event triggers' functions running */
extern bool callwatch_is_unexplained(void); /* some effect isn't accounted for */
extern void callwatch_explained(void);	/* it is now: the SELECT was forwarded */

/* ---------- in inval.c: catalog changes are known before the turn passes */

extern void inval_collect(void);	/* before the commit record */
extern void inval_send(void);	/* after it, before turn_pass() */
extern void inval_forget(void); /* it was rolled back */

/* ---------- in walwitness.c: nothing escapes */

/* ERROR 0A000 if the transaction has an effect that no forwarded query
 * accounts for.  Called by xact.c in PRE_COMMIT, also for transactions that
 * forwarded nothing.  Must be cheap for read-only ones. */
extern void witness_check(void);
extern void witness_at_xact_end(void);

/* A command that accounts for catalog changes and WAL: it was forwarded, or its
 * effects stay on this node.  Number of them in this session. */
extern void witness_note_command(void);
extern bool witness_has_commands(void); /* in this transaction */
extern uint64 witness_commands(void);

/* ---------- in xact.c: the transaction's queue and its end */

extern void xact_init(void);	/* callbacks; _PG_init */

/*
 * Before the first effect of a transaction is forwarded (and by DDL before it
 * does anything): the node must be writable, or ERROR 57P03 with a hint.
 * Connects if there is no connection.  Cheap when repeated.
 */
extern void xact_writes(void);
extern void xact_announce(void);	/* the same, of a command: before its
									 * first lock */

/*
 * Append a query to the transaction's queue (copied; xcount is filled in
 * here).  May send.  ERROR when the replicator is lost (57P03).
 */
extern void xact_forward(LsQuery *query);

/*
 * Ask for table locks, and the ddl lock if ddl, before a command that can't
 * fail later; returns when they are granted and this node has applied what it
 * must have.  Interruptible.  40P01 when the replicator finds a deadlock.
 */
extern void xact_lock_first(const LsKey *keys, int nkeys, bool ddl);

/* The same for rows; false when it takes longer (0: for ever). */
extern bool xact_lock_rows(const LsKey *keys, int nkeys, int timeout_ms);

extern char *xact_text_of(LsSlice s);

/* The replicator's error, to the client. */
LS_NORETURN extern void xact_report_error(const LsErrorFields *e);
LS_NORETURN extern void xact_report_closed(void);
extern uint64 xact_new_number(void);
extern uint64 xact_over(void);

/* A message that came while it was not asked for; a grant raises *seq. */
extern void xact_message(LsMsgType type, LsSlice payload, uint64 *seq);
extern void xact_wait_applied(uint64 seq);	/* fails when the node is dropped */
extern void xact_may_fail_elsewhere(void);	/* it is not to be `ordered` */
extern bool xact_is_known(void);	/* it has a number, the link was found
									 * good */

extern uint64 xact_nstatements(void);	/* queries in the queue now */

/* Queries of this transaction so far (the first LS_FORWARDED_KEPT bytes of
 * them), as 'Q' messages one after the other; *truncated when there were more. */
#define LS_FORWARDED_KEPT (256 * 1024)
extern LsSlice xact_forwarded(bool *truncated);

/* Called by lockstepfuncs.c: the seq at which the current apply transaction commits. */
extern void xact_set_apply_place(Place place);

/* Connect, if there is no connection. */
extern void xact_connect(void);

/* Let the replicator know of this transaction, which may have done nothing yet. */
extern void xact_tell(void);

/* ---------- in outcome.c: what became of a transaction */

typedef struct Token
{
	char		node[LS_MAX_NAME + 1];
	uint64		boot;
	uint32		pid;
	uint64		xcount;
	uint64		since;			/* its node had applied up to here when it
								 * began */
} Token;

extern void fate_take_secret(const uint8 *secret, size_t len);	/* when the link is made */

extern Token fate_token(void);	/* of the current transaction, which writes */
extern char *fate_token_text(const Token *t);

/*
 * Ask the replicator; interruptible.  gave_up: the transaction's backend has
 * rolled it back.  *seq: its seq, or the last that was decided.
 */
extern LsFate fate_ask(const Token *token, bool gave_up, uint64 *seq);

/* ---------- in indoubt.c: transactions rolled back here, but perhaps not elsewhere */

extern void doubt_shmem_request(void);
extern void doubt_shmem_startup(void);
struct PlannedStmt;
extern void doubt_begin(const Token *token, uint64 seq);	/* seq 0: not known */

/* Before the first row of a transaction is locked or changed: by this
 * statement; by a command that certainly writes. */
extern void doubt_before_statement(struct PlannedStmt *stmt);
extern void doubt_before_write(void);
extern void doubt_check(void);
extern void doubt_at_xact_end(void);

/* ---------- in lockstepfuncs.c */

extern MonoTime mono_after_interval(Interval *interval);

/* ---------- in staleness.c: how old may be what this node shows? */

extern void staleness_shmem_request(void);
extern void staleness_shmem_startup(void);
extern void staleness_answered(void);
extern uint64 staleness_heartbeat(uint64 seq);	/* returns applied */
extern void staleness_check(const struct PlannedStmt *stmt);
extern int64 staleness_ms(void);

/* ---------- in commit.c: the end of a transaction */

/* LS001: already applied; LS004: not all of several can be claimed. */
extern void commit_claim_for_apply(uint64 first, Place place);
extern void commit_claim_ahead(Place place);	/* a repair: this node is what
												 * the others are there */

/* LS001, if the node has applied it; an error if it has another one at that seq. */
extern void commit_check_not_applied(Place place);
extern bool commit_is_claimed(void);	/* an apply session's: it is decided */
extern void commit_explain_error(ErrorData *edata); /* past the verdict? */

/* ---------- in verdict.c: may this transaction commit? */

extern void verdict_confirm_at_exit(void);
extern uint64 verdict_last_seq(void);	/* of this session, 0 = none */

/* ---------- in link.c: this backend's connection to the replicator */

typedef enum LinkResult
{
	LINK_MESSAGE,				/* *type and *payload are set */
	LINK_NOTHING,				/* timeout, or the latch was set: look for
								 * interrupts, then wait on */
	LINK_LOST					/* closed; link_report_lost() says why */
} LinkResult;

extern bool link_is_open(void);
extern uint64 link_number(void);
extern void link_open(void);	/* connect, authenticate; ERROR 57P03 ... */
extern void link_close(void);

/* Open and alive?  Discards what arrived late; closes it if it is dead. */
extern bool link_is_alive(void);

/* Send without waiting: what does not fit now is kept, and goes while
 * link_drain or link_receive waits.  False when lost: then not all was sent. */
extern bool link_send_later(const void *data, size_t len);

/* Wait, interruptibly, until all is sent.  False when lost. */
extern bool link_drain(void);

/* Send at once or close: for the end of a transaction that failed. */
extern void link_send_or_close(const void *data, size_t len);

/* Next message.  Processes no interrupts.  timeout_ms < 0: for ever.  *payload
 * is valid until the next call in here. */
extern LinkResult link_receive(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event);

/* The same while the replicator owes an answer to what was sent last: LINK_LOST,
 * too, when it is silent for longer than lockstep.replicator_timeout. */
extern LinkResult link_await(LsMsgType *type, LsSlice *payload, int timeout_ms, uint32 wait_event);

/* ERROR with what the replicator said at last, or 57P03 and the cause. */
LS_NORETURN extern void link_report_lost(void);
extern const char *link_lost_message(void);

/* The peer broke the protocol: log, close. */
extern void link_protocol_violation(const char *what);

/* These raise what link_report_lost() does when the connection is lost. */
extern bool link_has_message(LinkResult result);
extern void link_send(const void *data, size_t len);	/* now; waits */
LS_NORETURN extern void link_report_violation(const char *what);

/* ---------- in cluster.c: which cluster this database belongs to */

extern char *cluster_identity(void);	/* "" if none; palloc'ed */
extern void cluster_set_identity(const char *identity); /* once; ERROR 55000 */
extern void cluster_forget_identity(void);

/* ---------- in usersettings.c: settings of databases and roles stay away from the replicator */

extern void usersettings_init(void);	/* _PG_init */

/* ---------- in membership.c: lockstep's objects stay while the database belongs to one */

extern void membership_init(void);	/* _PG_init */

/* ---------- in generation.c: which replicator may order here? */

typedef struct Generation
{
	uint64		number;			/* 0: of an earlier version, or none yet */
	uint64		run;			/* random, of one process */
} Generation;

extern void generation_shmem_request(void);
extern void generation_shmem_startup(void);

/* The replicator's sessions.  LS005: another has taken its place. */
extern void generation_enter(Generation generation);
extern void generation_begin_apply(void);
extern void generation_require(void);
extern void generation_check(void); /* only if it has entered one */
extern void generation_heartbeat(void);
extern uint64 generation_of_session(void);
extern Generation generation_known(int64 *served_ms);

/* A backend's link to the replicator. */
extern bool generation_begin_link(Generation generation);	/* false: not the one
															 * that the node follows */
extern bool generation_link_is_outdated(void);
extern uint64 generation_of_link(void);

/* ---------- in turn.c: commit order on this node (shared memory) */

extern void turn_shmem_request(void);
extern void turn_shmem_startup(void);
extern uint64 turn_boot_id(void);	/* random, per start of the postmaster */
struct SnapshotData;
extern uint64 turn_seen_by(struct SnapshotData *snapshot);	/* the highest seq that
															 * is visible in it;
															 * less when that is
															 * long ago */
extern uint64 turn_seq_of(TransactionId xid);	/* of a transaction that was
												 * committed here lately, or 0 */
extern uint64 turn_applied(void);	/* highest turn passed: the node's S.
									 * Lock-free */
extern bool turn_is_open(void);

extern Place turn_open(Place place);	/* first: sets applied; returns it */

/* The history of this node at seq, which it has applied; 0: not known (any more). */
extern uint64 turn_chain_at(uint64 seq);

typedef enum TurnClaim
{
	TURN_CLAIMED,
	TURN_ALREADY_APPLIED,
	TURN_NOT_TOGETHER,			/* of a range: a part is applied, or another's */
	TURN_OUTDATED				/* the node follows another generation */
} TurnClaim;

/* Of one seq: waits for an earlier claimant's outcome. */
extern TurnClaim turn_claim(uint64 first, uint64 last, uint64 generation);
extern uint64 turn_generation_number(void); /* lock-free */
extern Generation turn_generation(void);
extern Generation turn_raise(Generation to);	/* if it is higher; returns
												 * what it was */
extern void turn_drain(void);	/* until no older claim is left; interruptible */
extern void turn_note_divergence(void);
extern void turn_check_divergence(void);	/* ERROR if it was noted */
extern bool turn_wait(uint64 first, uint64 last);	/* until applied == first
													 * - 1; interruptible;
													 * false: commits are held
													 * between the two */
extern bool turn_is_next(uint64 seq, long timeout_ms);	/* waits for the latch,
														 * processes no
														 * interrupts */
extern int	turn_claim_ahead(uint64 last);	/* all from the next on, by the
											 * holder; 0, or who is in the way */
extern void turn_pass(uint64 first, Place last);	/* committed */
extern void turn_release(uint64 first, uint64 last);	/* aborted: somebody
														 * else will apply it */
extern bool turn_has_come(uint64 seq);	/* its owner may commit */
extern uint64 turn_hold(uint64 seq, MonoTime until);	/* nobody commits above
														 * seq (0: above where
														 * it is; returned);
														 * until 0: no end */
extern int	turn_waiters(int *pids, uint64 *seqs, int *holder, uint64 *held_at);	/* arrays of MaxBackends */
extern bool turn_let_go(void);	/* false: it was not held any more */
extern bool turn_is_held_by_us(void);	/* and everything below is applied */
extern bool turn_must_wait(uint64 seq); /* applied < seq; our latch is set
										 * when that changes */
extern void turn_wait_applied(uint64 seq);	/* until applied >= seq;
											 * interruptible */
extern bool turn_wait_applied_until(uint64 seq, MonoTime deadline); /* false: too late */

extern void turn_wait_applied_for(uint64 seq, long timeout_ms); /* sleeps once;
																 * processes no
																 * interrupts */

/* ---------- in progress.c: how far this database has come */

struct PlannedStmt;
extern void progress_check_query(const struct PlannedStmt *stmt);	/* may it read it? */
extern void progress_check_reader(Oid relid);
extern void progress_lock(void);	/* before anybody waits for us */
extern void progress_write(Place place);	/* the row of this backend's slot */
extern uint64 progress_read(void);	/* highest seq, 0 if none */

/* ---------- in lockconflict.c: a local transaction in the way yields */

extern void conflict_init(void);
extern void conflict_shmem_request(void);
extern void conflict_shmem_startup(void);
extern bool conflict_is_doomed(void);	/* this transaction has to fail with
										 * 40001 */
LS_NORETURN extern void conflict_report_doomed(void);
extern void conflict_at_xact_end(void);
extern void conflict_note_writes(void); /* this transaction asked or forwarded */
extern void conflict_note_apply(void);	/* this session is an apply session */
extern int	conflict_apply_session_in(Oid database);	/* pid of one, 0: there
														 * is none */
extern bool conflict_applies_as(Oid role);	/* some apply session is that
											 * role's */
extern void conflict_note_row(int row); /* and changes that row of its call */
extern int	conflict_row_of(int pid);
extern bool conflict_is_before(uint64 seq); /* ... also if it is decided as
											 * seq */
extern bool conflict_yield(int pid, LocalTransactionId only, const char *detail, uint64 seq, bool in_circle);
extern bool conflict_pid_writes(int pid, bool *is_apply);

/* ---------- in apply.c: when the session is the replicator */

/* SQLSTATEs that the replicator knows */
#define LS_ERRCODE_ALREADY_APPLIED MAKE_SQLSTATE('L', 'S', '0', '0', '1')
#define LS_ERRCODE_APPLY_ROLLBACK MAKE_SQLSTATE('L', 'S', '0', '0', '2')
#define LS_ERRCODE_OTHER_ROWS MAKE_SQLSTATE('L', 'S', '0', '0', '3')
#define LS_ERRCODE_NOT_TOGETHER MAKE_SQLSTATE('L', 'S', '0', '0', '4')
#define LS_ERRCODE_OUTDATED MAKE_SQLSTATE('L', 'S', '0', '0', '5')

extern bool apply_session(void);

/* One that the session whose query is applied has never heard of. */
extern bool apply_setting_is_unknown(const char *name);
extern bool apply_repairs(void);	/* it repairs this node, and has no seqs */
extern void apply_require_hold(void);	/* ERROR unless the node stands still */
extern void apply_init(void);

#endif							/* LOCKSTEP_H */
