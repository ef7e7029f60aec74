/*
 * hooks.c
 *	  Every hook and callback that lockstep installs in PostgreSQL, and the order in which
 *	  its handlers run.
 *
 * All other files only export handlers.  One that does its work before or after
 * PostgreSQL's own is called here by name; one that wraps it is given the function to
 * call in turn ("next").  A library that has set a hook before us comes where PostgreSQL's own
 * function would (server_...).
 *
 *	 apply session's part -> is the transaction doomed? -> origin's part -> server
 *
 * Everything is installed once, in the postmaster; backends inherit it.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "tcop/utility.h"
#include "utils/inval.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "apply.h"
#include "capture.h"
#include "causal.h"
#include "commit.h"
#include "compat.h"
#include "contended.h"
#include "crashhold.h"
#include "delivery.h"
#include "conflictreport.h"
#include "ddl.h"
#include "deparse.h"
#include "foreignkey.h"
#include "generation.h"
#include "guc.h"
#include "hooks.h"
#include "hostchoice.h"
#include "indoubt.h"
#include "interpose.h"
#include "keyset.h"
#include "link_address.h"
#include "lockconflict.h"
#include "losses.h"
#include "ls_link.h"
#include "mode.h"
#include "outsiderun.h"
#include "points.h"
#include "priority.h"
#include "progress.h"
#include "readkeys.h"
#include "readplan.h"
#include "relation.h"
#include "rights.h"
#include "savepoints.h"
#include "sequence.h"
#include "serverkey.h"
#include "session.h"
#include "recentddl.h"
#include "staleness.h"
#include "turn.h"
#include "unlogged.h"
#include "usersettings.h"
#include "walwriter.h"
#include "writerhold.h"
#include "xact.h"

static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;
/* As in libpq/auth.h, which needs the headers of Kerberos. */
struct Port;
typedef void (*ClientAuthentication_hook_type) (struct Port *, int);
extern PGDLLIMPORT ClientAuthentication_hook_type ClientAuthentication_hook;

static ClientAuthentication_hook_type prev_ClientAuthentication = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;
static planner_hook_type prev_planner = NULL;
static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;
static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static object_access_hook_type prev_object_access = NULL;
static needs_fmgr_hook_type prev_needs_fmgr = NULL;
static fmgr_hook_type prev_fmgr = NULL;
static emit_log_hook_type prev_emit_log = NULL;

/* ---------- shared memory */

static void
request_shmem(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	turn_shmem_request();
	delivery_shmem_request();
	generation_shmem_request();
	indoubt_shmem_request();
	staleness_shmem_request();
	recentddl_shmem_request();
	crashhold_shmem_request();
	writerhold_shmem_request();
	lockconflict_shmem_request();
	sequence_shmem_request();
	contended_shmem_request();
	outsiderun_shmem_request();
	serverkey_shmem_request();
	link_address_shmem_request();
	priority_shmem_request();
	walwriter_shmem_request();
	unlogged_shmem_request();
}

static void
start_shmem(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	turn_shmem_startup();
	delivery_shmem_startup();
	generation_shmem_startup();
	indoubt_shmem_startup();
	staleness_shmem_startup();
	recentddl_shmem_startup();
	crashhold_shmem_startup();
	writerhold_shmem_startup();
	lockconflict_shmem_startup();
	sequence_shmem_startup();
	contended_shmem_startup();
	outsiderun_shmem_startup();
	serverkey_shmem_startup();
	link_address_shmem_startup();
	priority_shmem_startup();
	walwriter_shmem_startup();
	unlogged_shmem_startup();
	LWLockRelease(AddinShmemInitLock);

	/* a module loaded with us may have a worker that calls nextval (pg_cron) */
	interpose_new_modules();
}

/* ---------- a connection */

static void
on_authentication(struct Port *port, int status)
{
	if (prev_ClientAuthentication)
		prev_ClientAuthentication(port, status);
	if (status == STATUS_OK)
		hostchoice_at_connection();
}

static void
begin_with_replicate_off(void)
{
	hostchoice_leave_out();
	priority_leave_out();
	usersettings_remember();
}

/* ---------- a query: analysis, planning */

static void
after_analysis(ParseState *pstate, Query *query, LsJumbleState *jstate)
{
	applyrow_after_analysis(pstate, query);
	lockconflict_after_analysis();
	usersettings_before_query();
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

static PlannedStmt *
plan_on_server(Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM)
{
	query = sequence_before_planning(query);
	return prev_planner ? prev_planner(query, source, options, params LS_EXPLAIN_ARG) :
		standard_planner(query, source, options, params LS_EXPLAIN_ARG);
}

static PlannedStmt *
plan_on_node(Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM)
{
	return applybatch_plan(plan_on_server, query, source, options, params LS_EXPLAIN_ARG);
}

static PlannedStmt *
plan(Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM)
{
	return rights_plan(plan_on_node, query, source, options, params LS_EXPLAIN_ARG);
}

/* ---------- a query: execution */

static void
server_executor_start(QueryDesc *desc, int eflags)
{
	if (prev_ExecutorStart)
		prev_ExecutorStart(desc, eflags);
	else
		standard_ExecutorStart(desc, eflags);
}

/* Whatever may wait, or renew the snapshot, comes before what is read with it. */
static void
start_on_node(QueryDesc *desc, int eflags)
{
	bool		runs = (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0;
	bool		top = nesting.executor == 0 && !utility_is_running();
	bool		captured;

	priority_before_query();
	lockconflict_before_query();
	hostchoice_before_query(desc->plannedstmt);
	captured = ls_has_result_relations(desc->plannedstmt) && runs && ls_mode() == LS_MODE_ORIGIN;

	/* whatever became of the one before */
	if (nesting.executor == 0)
		shippable_forget();
	if (top && runs)
		causal_before_query(desc);
	if (runs)
		lockorder_before_query(desc);
	staleness_check(desc->plannedstmt);
	progress_check_query(desc->plannedstmt);
	if (runs)
		readplan_before_query(desc);
	if (runs && unlikely(readplan_locks_on_conflict(desc->plannedstmt)))
		heap_note_conflict_lock();
	if ((captured || desc->plannedstmt->rowMarks != NIL) && ls_mode() == LS_MODE_ORIGIN)
		indoubt_before_statement(desc->plannedstmt);
	if (captured && executor_is_clients(desc))
		shippable_consider(desc);
	server_executor_start(desc, eflags);
	if (captured)
		executor_check_targets(desc);
}

static void
executor_start_hook(QueryDesc *desc, int eflags)
{
	applyrow_executor_start(start_on_node, desc, eflags);
}

static void
server_executor_run(QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	if (prev_ExecutorRun)
		prev_ExecutorRun(desc, direction, count LS_ONCE_ARG);
	else
		standard_ExecutorRun(desc, direction, count LS_ONCE_ARG);
}

static void
run_on_node(QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	lockconflict_watch_errors();
	executor_run(server_executor_run, desc, direction, count LS_ONCE_ARG);
}

static void
executor_run_hook(QueryDesc *desc, ScanDirection direction, uint64 count LS_ONCE_PARAM)
{
	applyrow_executor_run(run_on_node, desc, direction, count LS_ONCE_ARG);
}

static void
server_executor_finish(QueryDesc *desc)
{
	if (prev_ExecutorFinish)
		prev_ExecutorFinish(desc);
	else
		standard_ExecutorFinish(desc);
}

static void
executor_finish_hook(QueryDesc *desc)
{
	executor_finish(server_executor_finish, desc);
}

/* ---------- a utility command */

static void
server_utility(PlannedStmt *pstmt, const char *source, bool read_only_tree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	(prev_ProcessUtility ? prev_ProcessUtility : standard_ProcessUtility)
		(pstmt, source, read_only_tree, context, params, environment, dest, completion);
}

static void
utility_on_node(PlannedStmt *pstmt, const char *source, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	const TransactionStmt *marks = IsA(pstmt->utilityStmt, TransactionStmt) ? (TransactionStmt *) pstmt->utilityStmt : NULL;

	priority_before_utility(pstmt);
	lockconflict_before_utility(pstmt);
	hostchoice_before_utility(pstmt);
	utility_process(server_utility, pstmt, source, read_only_tree, context, params, environment,
					dest, completion);
	if (marks != NULL)
		savepoints_ran(marks);
}

static void
utility_hook(PlannedStmt *pstmt, const char *source, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	applyrow_process_utility(utility_on_node, pstmt, source, read_only_tree, context, params,
							 environment, dest, completion);
}

/* ---------- objects, functions in C */

static void
on_object_access(ObjectAccessType access, Oid class, Oid object, int subobject, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class, object, subobject, arg);
	if (likely(access == OAT_FUNCTION_EXECUTE))
		return;					/* for each function of a query that is
								 * started */
	sequence_drop_on_object_access(access, class, object, subobject);
	membership_on_object_access(access, class, object, arg);
	unlogged_on_object_access(access, class, object, subobject);
	largeobject_on_object_access(access, class, object);
}

static bool
needs_watching(Oid function)
{
	if (prev_needs_fmgr && prev_needs_fmgr(function))
		return true;
	return cfunctions_needs_hook(function) || functionerror_needs_hook(function);
}

static void
on_call(FmgrHookEventType event, FmgrInfo *flinfo, Datum *arg)
{
	if (prev_fmgr)
		prev_fmgr(event, flinfo, arg);
	cfunctions_on_call(event, flinfo);
	functionerror_on_call(event, flinfo);
}

/* ---------- messages: an error that PostgreSQL reports may have another reason */

static void
on_message(ErrorData *edata)
{
	if (prev_emit_log)
		prev_emit_log(edata);
	outsiderun_note_message(edata);
	if (edata->elevel != ERROR)
		return;
	commit_explain_error(edata);
	conflictreport_explain(edata);
	if (edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		edata->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED || lockconflict_is_doomed())
		losses_note_conflict();
	lockconflict_explain(edata);
}

/* ---------- the end of a transaction */

/* The client is to hear of a lost connection at its next statement, not when it sets or releases a savepoint. */
static void
flush_at_savepoint(XactPostpone what)
{
	if (capture_is_busy())
		return;					/* of a function that is called for a row: it
								 * forwards nothing */
	xact_postpone(what);
	PG_TRY();
	{
		capture_flush();
	}
	PG_FINALLY();
	{
		xact_postpone(XACT_POSTPONE_NOTHING);
	}
	PG_END_TRY();
}

static void
on_subxact(SubXactEvent event, SubTransactionId mySubid, SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		lockconflict_watch_errors();
		unlogged_at_abort();
	}
	if (!IsParallelWorker())
	{
		switch (event)
		{
			case SUBXACT_EVENT_START_SUB:

				/*
				 * in a block of PL/pgSQL within another one an error would
				 * end the session (RollbackAndReleaseCurrentSubTransaction()
				 * in xact.c)
				 */
				flush_at_savepoint(XACT_POSTPONE_WAIT);
				heap_leave_locked();
				readkeys_at_subxact_start(level);
				xact_at_subxact_start(level);
				break;
			case SUBXACT_EVENT_PRE_COMMIT_SUB:
				flush_at_savepoint(XACT_POSTPONE_LOSS);
				break;
			case SUBXACT_EVENT_COMMIT_SUB:
				xact_at_subxact_commit(level);
				break;
			case SUBXACT_EVENT_ABORT_SUB:
				if (!capture_is_busy())
					capture_discard();
				heap_leave_locked();
				keyset_at_subxact_abort(level);
				sequence_restart_on_subxact_abort(mySubid);
				xact_at_subxact_abort(level);
				break;
		}
	}
	walwitness_on_subxact(event, level);
	savepoints_on_subxact(event, level);
}

static void
refuse_prepare(void)
{
	/* lockstep.replicate may have been on in this transaction */
	capture_flush();
	if (max_prepared_xacts == 0)
		return;					/* PostgreSQL will refuse it */
	if (ls_mode() != LS_MODE_OFF || xact_nstatements() > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction on a node of a lockstep cluster"),
				 errdetail("Two-phase commit is not replicated.")));

	/* of this node alone: it would keep its locks, and nobody can end it */
	if (mode_has_local_change())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has changed replicated tables of this node"),
				 errdetail("It would keep its locks, for which transactions of other nodes wait, until COMMIT PREPARED.")));
}

/* None of these fails. */
static void
forget_transaction(void)
{
	sequence_at_xact_end();
	keyset_at_xact_end();
	foreignkey_at_xact_end();
	heap_leave_locked();
	readkeys_at_xact_end();
	losses_at_xact_end();
	conflictreport_at_xact_end();
	walwitness_at_xact_end();
	lockconflict_at_xact_end();
	savepoints_at_xact_end();
	indoubt_at_xact_end();
	mode_at_xact_end();
	xact_at_xact_end();
}

/* The steps of PRE_COMMIT, and of the commit, are in commit.c. */
static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			commit_before();
			break;
		case XACT_EVENT_COMMIT:
			lockconflict_watch_errors();
			commit_done();
			forget_transaction();
			ddlconcurrent_at_xact_end(true);
			capture_at_xact_end();
			break;
		case XACT_EVENT_ABORT:
			unlogged_at_abort();
			capture_discard();
			commit_failed();
			lockconflict_at_abort();
			forget_transaction();
			ddlconcurrent_at_xact_end(false);
			capture_at_xact_end();
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_PREPARE:
			lockconflict_watch_errors();
			forget_transaction();
			capture_at_xact_end();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
	sequence_drop_on_xact(event);
}

/* When its locks have been released: may wait.  This is called at the end of each portal, too, three times. */
static void
on_release(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	if (isTopLevel && phase == RESOURCE_RELEASE_AFTER_LOCKS)
		aftercommit_on_release(isCommit);
}

/* ---------- installing */

void
hooks_install_shmem(void)
{
	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shmem;
}

/* The server's tables that other code calls through; each names its replacement. */
static void
replace_in_server(void)
{
	heap_interpose();
	sequence_replace_functions();
	notify_replace_functions();
	largeobject_replace_functions();
	foreignkey_replace_functions();
	apply_replace_functions();
	rights_replace_functions();
}

static void
register_invalidations(void)
{
	CacheRegisterRelcacheCallback(relation_on_relcache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, relation_on_type_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, relation_on_name_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(COLLOID, relation_on_name_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, relation_on_name_invalidation, (Datum) 0);
	CacheRegisterRelcacheCallback(mode_on_relcache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, mode_on_syscache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(RELOID, mode_on_syscache_invalidation, (Datum) 0);
	CacheRegisterRelcacheCallback(lockconflict_on_relcache_invalidation, (Datum) 0);
	CacheRegisterRelcacheCallback(unlogged_on_relcache_invalidation, (Datum) 0);
	CacheRegisterSyscacheCallback(INDEXRELID, applyunproven_on_index_invalidation, (Datum) 0);
}

void
hooks_install(void)
{
	ls_point_hook = (LsPointHook *) find_rendezvous_variable("lockstep_point");
	replace_in_server();
	register_invalidations();

	prev_ClientAuthentication = ClientAuthentication_hook;
	ClientAuthentication_hook = on_authentication;
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = after_analysis;
	prev_planner = planner_hook;
	planner_hook = plan;
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start_hook;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run_hook;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish_hook;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = utility_hook;
	prev_object_access = object_access_hook;
	object_access_hook = on_object_access;
	prev_needs_fmgr = needs_fmgr_hook;
	needs_fmgr_hook = needs_watching;
	prev_fmgr = fmgr_hook;
	fmgr_hook = on_call;
	prev_emit_log = emit_log_hook;
	emit_log_hook = on_message;

	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
	RegisterResourceReleaseCallback(on_release, NULL);

	/* lockstep's own: a lower room tells an upper one */
	guc_replicate_changed = mode_on_replicate_changed;
	guc_unreplicated_changed = mode_note_kept_here;
	guc_session_begins_off = begin_with_replicate_off;
	guc_priority_check = priority_check;
	guc_priority_changed = priority_assign;
	guc_apply_priority_changed = priority_assign_apply;
	heap_before_insert = subscribedidentity_check;
	link_before_exit = verdict_confirm;
	xact_init();
	deparse_init();
	outsiderun_init();
}
