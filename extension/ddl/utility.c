/*
 * utility.c
 *	  Utility commands: what ProcessUtility does on a node.
 *
 * On an origin a command is passed on, kept local, refused, or forwarded (see ddl.c).  One
 * that is forwarded
 *
 *  requests its locks -> is examined again, as its tables may have changed meanwhile ->
 *  is checked -> goes to the queue -> runs
 *
 * It goes to the queue before it runs, so that changes by its event triggers and TRUNCATE
 * triggers come after it; if it fails, the transaction's queue is cut back.
 *
 * Commands that functions, DO blocks and event triggers run are forwarded in their place.
 * What a forwarded command runs as part of itself is not, because the other nodes run it,
 * too: subcommands, and the script of an extension with everything that it calls, except event
 * triggers.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "tcop/cmdtag.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "capture.h"
#include "causal.h"
#include "compat.h"
#include "ddl.h"
#include "ddlshared.h"
#include "guc.h"
#include "indoubt.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "pack.h"
#include "progress.h"
#include "readkeys.h"
#include "recentddl.h"
#include "relation.h"
#include "sequence.h"
#include "session.h"
#include "sessionsettings.h"
#include "unlogged.h"
#include "xact.h"

static bool importing = false;	/* IMPORT FOREIGN SCHEMA is */

/* All that a hook is given. */
typedef struct Call
{
	ProcessUtility_hook_type next;
	PlannedStmt *meaning;		/* what is forwarded: pstmt, but for EXPLAIN */
	PlannedStmt *pstmt;
	const char *source;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *completion;
	bool		identity;		/* COPY, see copyidentity.c */
	bool		made_plain;		/* it was CONCURRENTLY, see ddloutside.c */
	bool		concurrent;		/* it is, see ddlconcurrent.c */
	bool		detach;			/* so is this, or FINALIZE: see ddldetach.c */
} Call;

/* ---------- running it */

static void
run_whatever(Call *call)
{
	call->next(call->pstmt, call->source, call->read_only_tree, call->context,
			   call->params, call->environment, call->dest, call->completion);
}

static void
run(Call *call)
{
	if (call->identity)
	{
		uint64		rows = copyidentity_copy((CopyStmt *) call->pstmt->utilityStmt, call->source);

		if (call->completion != NULL)
			SetQueryCompletion(call->completion, CMDTAG_COPY, rows);
		return;
	}
	if (!IsA(call->pstmt->utilityStmt, DropOwnedStmt))
	{
		run_whatever(call);
		if (ls_mode() != LS_MODE_OFF)
			ddlunlogged_ran(call->pstmt->utilityStmt);
		if (ls_mode() == LS_MODE_ORIGIN && IsA(call->pstmt->utilityStmt, AlterSeqStmt))
			sequence_note_alter((AlterSeqStmt *) call->pstmt->utilityStmt);
		return;
	}
	nesting.drop_owned++;
	PG_TRY();
	{
		run_whatever(call);
	}
	PG_FINALLY();
	{
		nesting.drop_owned--;
	}
	PG_END_TRY();
}

static void
run_counted(Call *call, int local)
{
	nesting.utility++;
	nesting.local_utility += local;
	PG_TRY();
	{
		run(call);
	}
	PG_FINALLY();
	{
		nesting.utility--;
		nesting.local_utility -= local;
	}
	PG_END_TRY();
}

static void
run_local(Call *call)
{
	run_counted(call, 1);
	/* some, like VACUUM, have ended the transaction that they ran in */
	walwitness_note_command();
	mode_note_kept_here();
}

/* ---------- refusing */

static const char *
name_of(Call *call)
{
	return GetCommandTagName(CreateCommandTag(call->pstmt->utilityStmt));
}

static void
refuse(Call *call, const DdlPlan *plan)
{
	const char *what = plan->what != NULL ? plan->what : name_of(call);
	bool		allowed = ls_unreplicated == LS_UNREPLICATED_ALLOW;

	ereport(allowed ? WARNING : ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 allowed ? errmsg("%s is not replicated", what) :
			 errmsg("cannot run %s on a node", what),
			 errdetail_internal("%s", plan->detail),
			 plan->hint != NULL ? errhint("%s", plan->hint) : 0));
}

static void
refuse_and_maybe_run(Call *call, const DdlPlan *plan)
{
	refuse(call, plan);
	run_local(call);
}

static const char *
what_is_wrong_with(const DdlTargets *targets, DdlPlan *plan)
{
	if (targets->ours)
		ddl_refuse(plan, NULL, "It would change an object of the extension lockstep.", NULL);
	else if (targets->ntemporary > 0 && targets->npermanent > 0 && !targets->separable)
		ddl_refuse(plan, NULL, "It names temporary and permanent objects together.",
				   "Use one command for each kind.");
	else if (targets->npermanent > 0 && targets->reads_temporary)
		ddl_refuse(plan, NULL, "It makes a permanent object depend on a temporary table, which other nodes do not have.",
				   NULL);
	return plan->detail;
}

/* ---------- rights */

/* The function that runs it looks up what it needs: the statement is not changed. */
static void
run_as_trial(void *arg)
{
	Call		trial = *(Call *) arg;

	trial.pstmt = copyObject(trial.pstmt);
	trial.read_only_tree = false;
	if (IsA(trial.pstmt->utilityStmt, ExplainStmt))
		trial.dest = None_Receiver;
	run_counted(&trial, 0);
}

/* Before a lock is asked for.  True: nothing is left to be done. */
static bool
is_settled_by_rights(Call *call)
{
	if (call->concurrent || call->detach)
	{
		ddl_check_rights(call->meaning->utilityStmt);
		return false;
	}
	return ddl_is_settled_by_rights(call->meaning->utilityStmt, call->meaning != call->pstmt, run_as_trial, call);
}

/* ---------- asking first */

static bool
is_in_block(const Call *call)
{
	return IsInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL);
}

static void
find_targets(void *arg, DdlTargets *targets)
{
	Call	   *call = arg;

	ddl_targets(call->meaning, call->source, targets);
	if (call->concurrent)
		ddlconcurrent_weaken(targets);
	if (call->detach)
		ddldetach_targets(call->pstmt->utilityStmt, is_in_block(call), targets);
}

/* On return *targets is what the command means now, its locks being held. */
static void
ask_first(Call *call, DdlTargets *targets, LsDdlLock ddl)
{
	if (!call->concurrent && !call->detach && targets->npermanent > 0)
		ddl_wait_for_holders(call->meaning->utilityStmt);
	ddl_ask_first(name_of(call), find_targets, call, targets, ddl);
}

static bool
adds_constraints(const AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableType kind = lfirst_node(AlterTableCmd, lc)->subtype;

		if (kind != AT_AddConstraint && kind != AT_ValidateConstraint)
			return false;
	}
	return true;
}

/*
 * May others like it run at the same time?  These may take long, and in whatever order two of them come the effect is the
 * same, unless PostgreSQL's locks order them.  (Of two that make up the same name the later one fails.)
 */
static bool
is_parallel(const Node *stmt)
{
	return IsA(stmt, IndexStmt) || IsA(stmt, RefreshMatViewStmt) || IsA(stmt, TruncateStmt) ||
		(IsA(stmt, AlterTableStmt) && adds_constraints((const AlterTableStmt *) stmt));
}

/* In a block the next command may not be parallel, and two blocks could then wait for each other. */
static LsDdlLock
ddl_lock(const Call *call, const DdlPlan *plan)
{
	if (!plan->catalogs)
		return LS_DDL_NONE;
	if (plan->shared)
		return LS_DDL_CLUSTER;
	return !is_in_block(call) && is_parallel(call->meaning->utilityStmt) ? LS_DDL_PARALLEL : LS_DDL_DATABASE;
}

/* ---------- forwarding */

/* On the other nodes the table is to be emptied before its rows come. */
static void
forward_delete(Oid relid)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,.rows = -1};
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *table = get_rel_name(relid);
	char	   *text = psprintf("DELETE FROM ONLY %s", quote_qualified_identifier(schema, table));
	LsKey		key = keyset_table_key(schema, table, LS_TABLE_X);
	StringInfoData keys;

	initStringInfo(&keys);
	pack_key(&keys, &key);
	query.text = ls_slice_of(text);
	query.nkeys = 1;
	query.keys = ls_slice_of_buffer(&keys);
	capture_flush();
	xact_forward(&query);
	pfree(keys.data);
}

/*
 * Rows that the command computes, and would compute otherwise elsewhere, travel
 * as rows: the other nodes delete the old ones, run the command on an empty
 * table, and get the new ones.
 */
static void
forward_rows(const Call *call, List *tables)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	ListCell   *lc;

	CommandCounterIncrement();
	foreach(lc, tables)
		capture_table(lfirst_oid(lc));
	if (IsA(stmt, RefreshMatViewStmt) && !((RefreshMatViewStmt *) stmt)->skipData)
		capture_table(RangeVarGetRelid(((RefreshMatViewStmt *) stmt)->relation, NoLock, false));
}

static bool
fills_matview(Node *stmt)
{
	CreateTableAsStmt *create = (CreateTableAsStmt *) stmt;

	return IsA(stmt, CreateTableAsStmt) && create->objtype == OBJECT_MATVIEW && !create->into->skipData;
}

/* That the command creates, or finds there; one of that name in another schema of search_path is not meant. */
static Oid
matview_of(const Call *call)
{
	RangeVar   *rv = castNode(CreateTableAsStmt, call->meaning->utilityStmt)->into->rel;

	return get_relname_relid(rv->relname, RangeVarGetCreationNamespace(rv));
}

static bool
creates_matview(const Call *call)
{
	return fills_matview(call->meaning->utilityStmt) && !OidIsValid(matview_of(call));
}

static void
run_and_forward_rows(Call *call, List *tables)
{
	int			event_triggers = nesting.event_trigger;
	bool		matview = creates_matview(call);

	/* an extension's script, if this is one, starts outside of any trigger */
	nesting.event_trigger = 0;
	PG_TRY();
	{
		run_counted(call, 0);
	}
	PG_FINALLY();
	{
		nesting.event_trigger = event_triggers;
	}
	PG_END_TRY();
	forward_rows(call, tables);
	if (matview)
	{
		CommandCounterIncrement();
		capture_new_matview(matview_of(call), !LS_MATVIEW_IS_REFRESHED || IsA(call->pstmt->utilityStmt, ExplainStmt));
	}
}

static void
run_forwarded(Call *call, DdlPlan *plan, DdlTargets *targets)
{
	PlannedStmt *stmt = call->meaning;
	List	   *tables;
	ListCell   *lc;
	char	   *text;
	bool		renewed = false;
	CommandId	since;

	xact_announce();
	if (!plan->certified)
	{
		ask_first(call, targets, ddl_lock(call, plan));
		if (ddldetach_push_snapshot(targets))
		{
			renewed = true;
			ask_first(call, targets, ddl_lock(call, plan));
		}
	}
	if (what_is_wrong_with(targets, plan) != NULL)
	{
		refuse_and_maybe_run(call, plan);
		if (renewed)
			PopActiveSnapshot();
		return;
	}
	text = ddl_text(&stmt, call->source);
	if (call->meaning == call->pstmt)
		call->pstmt = stmt;
	call->meaning = stmt;
	tables = ddl_check_repeatable(stmt, call->source);
	if (plan->catalogs)
		sessionsettings_renew_plans();
	ddlunlogged_send_rows(stmt->utilityStmt);	/* before they are deleted */
	foreach(lc, tables)
		forward_delete(lfirst_oid(lc));
	ddl_forward(text, NULL, 0, targets, plan->catalogs);
	walwitness_note_command();
	since = GetCurrentCommandId(false);
	run_and_forward_rows(call, tables);
	if (IsA(stmt->utilityStmt, TruncateStmt))
		unlogged_truncated((TruncateStmt *) stmt->utilityStmt);
	if (plan->catalogs)
	{
		ddl_check_table(call->pstmt);
		ddl_check_dependencies(since);
	}
	if (renewed)
		PopActiveSnapshot();
}

/* Ends this transaction, and others; each forwards what it has done. */
static void
run_concurrently(Call *call, DdlPlan *plan, DdlTargets *targets)
{
	xact_announce();
	ask_first(call, targets, IsA(call->pstmt->utilityStmt, IndexStmt) ? LS_DDL_PARALLEL : LS_DDL_DATABASE);
	if (what_is_wrong_with(targets, plan) != NULL)
	{
		refuse_and_maybe_run(call, plan);
		return;
	}
	ddl_check_oids_before(call->pstmt->utilityStmt, call->source);
	sessionsettings_renew_plans();
	ddlconcurrent_begin(call->pstmt->utilityStmt);
	run_counted(call, 0);
	ddlconcurrent_end();
}

static void
run_detach(Call *call, DdlPlan *plan, DdlTargets *targets)
{
	AlterTableStmt *stmt = castNode(AlterTableStmt, call->pstmt->utilityStmt);
	bool		refused;

	xact_announce();
	ask_first(call, targets, LS_DDL_DATABASE);
	if (what_is_wrong_with(targets, plan) != NULL)
	{
		refuse_and_maybe_run(call, plan);
		return;
	}
	refused = ddldetach_is_refused(stmt);
	if (refused || is_in_block(call))
	{
		if (!refused)
			ddldetach_forward_finalize(stmt, targets);
		run_counted(call, 0);	/* which says why it is refused */
		return;
	}
	nesting.utility++;
	PG_TRY();
	{
		ddldetach_in_steps(stmt, targets);
	}
	PG_FINALLY();
	{
		nesting.utility--;
	}
	PG_END_TRY();
}

/* Locks, then changes rows, which are captured. */
static void
run_refresh(Call *call, DdlTargets *targets)
{
	if (targets->npermanent > 0 && !XactReadOnly)
	{
		xact_announce();
		ask_first(call, targets, LS_DDL_NONE);
	}
	run_local(call);
}

/* See ddlcluster.c.  The tables are locked everywhere, then marked. */
static void
run_cluster(Call *call)
{
	List	   *indexes = ddlcluster_unmarked((LsClusterStmt *) call->pstmt->utilityStmt);
	DdlTargets	targets;
	ListCell   *lc;

	if (indexes == NIL && !XactReadOnly)
		indexes = ddlcluster_lock_marked((LsClusterStmt *) call->pstmt->utilityStmt);
	if (indexes != NIL && !XactReadOnly)
	{
		xact_announce();
		ddl_targets(call->pstmt, call->source, &targets);
		ask_first(call, &targets, LS_DDL_DATABASE);
		indexes = ddlcluster_unmarked((LsClusterStmt *) call->pstmt->utilityStmt);
		foreach(lc, indexes)
		{
			ddlcluster_mark(lfirst_oid(lc));
			ddlcluster_forward(lfirst_oid(lc), &targets);
		}
		walwitness_note_command();
	}
	run_local(call);
}

/* Where PostgreSQL would refuse LOCK: as a command of the client's outside of a block. */
static bool
is_outside_block(const Call *call)
{
	return call->context == PROCESS_UTILITY_TOPLEVEL && !IsTransactionBlock() && !IsSubTransaction();
}

/* Modes that keep writers out do so on every node. */
static void
run_lock(Call *call, DdlTargets *targets)
{
	LockStmt   *stmt = castNode(LockStmt, call->pstmt->utilityStmt);

	if (stmt->mode >= ShareLock && targets->npermanent > 0 && !is_outside_block(call) &&
		!RecoveryInProgress())
	{
		xact_announce();
		ask_first(call, targets, LS_DDL_NONE);
	}
	run_counted(call, 0);
}

/* ---------- COPY */

/* True: it takes values of an identity column by itself. */
static bool
examine_copy(CopyStmt *stmt, DdlPlan *plan)
{
	bool		identity;
	Oid			relid;
	Relation	rel;

	if (stmt->relation == NULL)
		return false;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	rel = OidIsValid(relid) ? try_table_open(relid, AccessShareLock) : NULL;
	if (rel == NULL)
		return false;
	if (!stmt->is_from)
	{
		progress_check_reader(relid);
		readkeys_table(rel);
	}
	else if (RelationGetNamespace(rel) == ls_schema_oid())
		ddl_refuse(plan, NULL, "It would change an object of the extension lockstep.", NULL);
	else if (relation_some_read_settings())
		relation_evaluate_anew(rel);
	identity = stmt->is_from && rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP && copyidentity_is_wanted(rel, stmt);
	table_close(rel, AccessShareLock);
	return identity;
}

/* ---------- the hook */

/* The tables that it creates are subcommands; here each counts by itself. */
static void
run_import(Call *call)
{
	PG_TRY();
	{
		importing = true;
		run_counted(call, 0);
	}
	PG_FINALLY();
	{
		importing = false;
	}
	PG_END_TRY();
}

static PlannedStmt *
meaning_of(PlannedStmt *pstmt)
{
	Node	   *explained = ddl_explained(pstmt->utilityStmt);
	PlannedStmt *copy;

	if (explained == pstmt->utilityStmt)
		return pstmt;
	copy = makeNode(PlannedStmt);
	*copy = *pstmt;
	copy->utilityStmt = explained;
	return copy;
}

static bool
asks_first(const Call *call, const DdlPlan *plan)
{
	if (IsA(call->pstmt->utilityStmt, LockStmt) && is_outside_block(call))
		return false;
	return plan->action == DDL_LOCK || (plan->action == DDL_FORWARD && !plan->certified) ||
		(plan->action == DDL_LOCAL && IsA(call->pstmt->utilityStmt, LsClusterStmt) &&
		 !ls_is_repack_concurrently((LsClusterStmt *) call->pstmt->utilityStmt) &&
		 ((LsClusterStmt *) call->pstmt->utilityStmt)->indexname != NULL);
}

static void
process_on_origin(Call *call)
{
	DdlPlan		plan;
	DdlTargets	targets;

	call->concurrent = ddlconcurrent_is_wanted(call->pstmt->utilityStmt);
	call->detach = ddldetach_is_wanted(call->pstmt->utilityStmt);
	if (call->concurrent || (call->detach && ddldetach_is_concurrent(call->pstmt->utilityStmt)))
		PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL,
								  ddl_outside_name(call->pstmt->utilityStmt));
	else
		call->made_plain = ddl_make_plain(&call->pstmt, &call->source,
										  call->context == PROCESS_UTILITY_TOPLEVEL);
	if (call->made_plain)
		call->read_only_tree = false;	/* it is a copy */
	call->meaning = meaning_of(call->pstmt);
	ddl_plan(call->meaning->utilityStmt, &plan);
	if (plan.action == DDL_FORWARD && ddl_drops_leftovers(call->meaning->utilityStmt))
		plan.action = DDL_LOCAL;
	else if (plan.action == DDL_LOCAL)
	{
		ddl_watch_invalid(&call->pstmt, &call->source, call->context == PROCESS_UTILITY_TOPLEVEL, &plan);
		call->meaning = call->pstmt;
	}
	if (plan.action == DDL_PASS && IsA(call->pstmt->utilityStmt, CopyStmt))
	{
		call->identity = examine_copy((CopyStmt *) call->pstmt->utilityStmt, &plan);
		if (((CopyStmt *) call->pstmt->utilityStmt)->is_from)
			indoubt_before_write();
	}

	/* an event trigger's command, or we would not be here */
	if (creating_extension && plan.action == DDL_FORWARD)
		ddl_refuse(&plan, NULL,
				   "An event trigger runs it while an extension is created; here its result would belong to the extension.",
				   "Disable the event trigger while the extension is created.");

	/* a read-only transaction refuses the command by itself */
	if (XactReadOnly && plan.action == DDL_FORWARD)
	{
		run_counted(call, 0);
		return;
	}
	if (plan.action == DDL_FORWARD || plan.action == DDL_LOCK)
	{
		ddl_find_and_hold(find_targets, call, &targets);
		if (targets.npermanent == 0 && targets.ntemporary > 0)
			plan.action = DDL_LOCAL;
		else if (plan.action == DDL_FORWARD && what_is_wrong_with(&targets, &plan) != NULL)
			plan.action = DDL_REFUSE;
	}
	if (asks_first(call, &plan) && is_settled_by_rights(call))
		return;
	switch (plan.action)
	{
		case DDL_PASS:
			if (IsA(call->pstmt->utilityStmt, ImportForeignSchemaStmt))
				run_import(call);
			else
				run_counted(call, 0);
			break;
		case DDL_LOCAL:
			if (IsA(call->pstmt->utilityStmt, LsClusterStmt))
				run_cluster(call);
			else
				run_local(call);
			break;
		case DDL_LOCK:
			if (IsA(call->pstmt->utilityStmt, RefreshMatViewStmt))
				run_refresh(call, &targets);
			else
				run_lock(call, &targets);
			break;
		case DDL_FORWARD:
			if (call->concurrent)
				run_concurrently(call, &plan, &targets);
			else if (call->detach)
				run_detach(call, &plan, &targets);
			else
				run_forwarded(call, &plan, &targets);
			break;
		case DDL_DATABASE:
			ddl_run_database(call->pstmt->utilityStmt, call->context == PROCESS_UTILITY_TOPLEVEL);
			break;
		case DDL_REFUSE:
			refuse_and_maybe_run(call, &plan);
			break;
	}
}

/* Also what this database has of its own: another database is no place for it. */
static bool
changes_own_objects(Node *stmt)
{
	return IsA(stmt, DropOwnedStmt) || IsA(stmt, ReassignOwnedStmt);
}

/*
 * A database without the extension has no way to forward anything; but roles
 * and the like are also those of the databases that are replicated.
 */
static void
process_on_unreplicated(Call *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;
	DdlPlan		plan;

	ddl_plan(stmt, &plan);
	if (plan.shared && (plan.action == DDL_FORWARD || plan.action == DDL_DATABASE) && !XactReadOnly)
	{
		if (!changes_own_objects(stmt) &&
			ddlshared_run(call->pstmt, call->source, call->context == PROCESS_UTILITY_TOPLEVEL))
			return;
		ddl_refuse(&plan, NULL, "It changes an object shared by all databases, and this database is not replicated.",
				   "Set lockstep.replicate to off and run it on every node.");
	}
	if (plan.shared && plan.action == DDL_REFUSE)
		refuse(call, &plan);
	run_counted(call, 0);
}

/* A walsender and a background worker take SQL, too. */
static bool
is_unreplicated_database(void)
{
	return ls_replicate && !session_applies() && IsUnderPostmaster && !IsBinaryUpgrade && !IsParallelWorker() &&
		(MyBackendType == B_BACKEND || MyBackendType == B_WAL_SENDER || MyBackendType == B_BG_WORKER) && IsTransactionState();
}

/*
 * With lockstep.replicate = off: may this node accept or refuse other rows than the others, then?
 * What would be replicated may, but for what makes new objects and knows no table, and roles.
 */
static bool
may_change_what_fits(Node *command)
{
	DdlPlan		plan;

	switch (nodeTag(command))
	{
		case T_CommentStmt:
		case T_CompositeTypeStmt:
		case T_CreateDomainStmt:
		case T_CreateEnumStmt:
		case T_CreateExtensionStmt:
		case T_CreateFunctionStmt:
		case T_CreateRangeStmt:
		case T_CreateSchemaStmt:
		case T_CreateSeqStmt:
		case T_CreateStatsStmt:
		case T_CreateStmt:
		case T_CreateTableAsStmt:
		case T_ViewStmt:
			return false;
		default:
			ddl_plan(command, &plan);
			return plan.action == DDL_FORWARD && (!plan.shared || changes_own_objects(command));
	}
}

/* A command that commits in between has to be known before it does so for the first time. */
static void
run_on_this_node(Call *call)
{
	bool		noted = ls_is_node() && !ls_replicate && may_change_what_fits(call->pstmt->utilityStmt);

	if (noted)
		mode_note_local_change();
	run(call);
	if (noted)
		mode_note_local_change();
}

void
utility_process(ProcessUtility_hook_type next, PlannedStmt *pstmt, const char *source, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	Call		call = {next, pstmt, pstmt, source, read_only_tree, context, params, environment, dest, completion};

	if (ls_mode() != LS_MODE_OFF)
		ddllockout_check(pstmt->utilityStmt);
	if (ls_mode() != LS_MODE_OFF || (ls_is_node() && utility_is_replayed()))
		call.pstmt = ddlunlogged_ignore(pstmt, context);
	if (session_applies())
		call.pstmt = usermapping_decrypted(call.pstmt);
	if ((context == PROCESS_UTILITY_SUBCOMMAND && !(importing && IsA(pstmt->utilityStmt, CreateForeignTableStmt))) ||
		utility_is_replayed())
	{
		run(&call);
		return;
	}
	if (ls_mode() != LS_MODE_APPLY && ls_is_node() &&
		ddl_database_is_missing(pstmt->utilityStmt, context == PROCESS_UTILITY_TOPLEVEL))
		return;
	if (ls_mode() == LS_MODE_ORIGIN && ddl_is_own_schema(pstmt->utilityStmt))
		return;
	if (IsA(pstmt->utilityStmt, NotifyStmt) && !notify_command((NotifyStmt *) pstmt->utilityStmt))
		return;
	if (nesting.utility == 0 && !executor_is_running())
		causal_before_utility(pstmt);
	if (IsA(pstmt->utilityStmt, DiscardStmt) &&
		(((DiscardStmt *) pstmt->utilityStmt)->target == DISCARD_ALL ||
		 ((DiscardStmt *) pstmt->utilityStmt)->target == DISCARD_SEQUENCES))
		sequence_discard();
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			process_on_origin(&call);
			break;
		case LS_MODE_OFF:
			if (is_unreplicated_database())
				process_on_unreplicated(&call);
			else
				run_on_this_node(&call);
			break;
		case LS_MODE_APPLY:
			if (GetCommandLogLevel(pstmt->utilityStmt) == LOGSTMT_DDL)
				recentddl_note();
			run(&call);
			break;
	}
}
