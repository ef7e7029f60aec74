/*
 * apply.c
 *	  When the session is the replicator: it executes forwarded queries, forwards
 *	  nothing, and commits at the seq it is told.
 *
 * An apply session runs with session_replication_role = replica, which keeps
 * ordinary triggers and rules silent; their effects are among the forwarded
 * queries.  Those declared ENABLE ALWAYS or ENABLE REPLICA would fire, so they
 * are disabled here, in the executor's and the relation cache's copies of
 * them, before they are looked at: in ExecutorStart for INSERT, UPDATE and
 * DELETE, before COPY and TRUNCATE, and after parse analysis for rules.
 *
 * CHECK constraints, of tables and of domains, are not evaluated: the origin has
 * done so, with the search_path of its session, which their functions may need,
 * and what they wrote there was sent by itself.  Expressions of indexes, generated
 * columns and partitions must be evaluated, and find nothing but pg_catalog.
 *
 * Rows are written with the rights of the table's owner, because the functions
 * in index expressions, checks and generated columns are the owner's, and the
 * session is a superuser's.
 *
 * The functions for the replicator (lockstepfuncs.c) may be called while
 * another role is set, so their being callable is not a matter of grants: each
 * has to be the whole text of a query that the client itself sent, in a session
 * that a superuser made an apply session (apply_check_call).
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "commands/extension.h"
#include "commands/matview.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "apply.h"
#include "compat.h"
#include "rights.h"

static bool in_apply_session = false;
static bool repairs = false;

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;

bool
apply_session(void)
{
	return in_apply_session;
}

/* ---------- starting, and who may call */

static void
set_session_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SET, true, 0, false);
}

/*
 * Settings on which reading a value's text depends; the origin writes texts
 * under the same ones (deparse.c).
 */
static const struct
{
	const char *name;
	const char *value;
}			value_settings[] = {
	{"DateStyle", "ISO, YMD"},
	{"IntervalStyle", "postgres"},
	{"TimeZone", "UTC"},
	{"bytea_output", "hex"},
	{"extra_float_digits", "1"},
	{"lc_monetary", "C"},
	{"array_nulls", "on"},
	{"xmloption", "content"},
	{"quote_all_identifiers", "off"},
};

void
apply_value_settings(void)
{
	for (int i = 0; i < lengthof(value_settings); i++)
		set_session_option(value_settings[i].name, value_settings[i].value);
}

void
apply_start(const char *cluster)
{
	const char *ours = cluster_identity();

	if (!ls_is_node() || !OidIsValid(ls_progress_relid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is not part of a lockstep node"),
				 errhint("Set lockstep.node_name and restart the server; CREATE EXTENSION lockstep in the database.")));
	if (ours[0] != '\0' && strcmp(ours, cluster) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database belongs to another cluster"),
				 errdetail("It belongs to \"%s\", the replicator to \"%s\".", ours, cluster)));
	set_session_option("session_replication_role", "replica");
	set_session_option("client_encoding", GetDatabaseEncodingName());
	apply_value_settings();
	in_apply_session = true;
	conflict_note_apply();
	mode_forget();
}

/*
 * An apply session of lockstepctl verify --repair: what it does has no seq.  The
 * node stands still meanwhile, held by this very session (commit.c looks again).
 */
void
apply_start_repair(void)
{
	apply_require_hold();
	set_session_option("session_replication_role", "replica");
	apply_value_settings();
	in_apply_session = true;
	repairs = true;
	conflict_note_apply();
	mode_forget();
}

bool
apply_repairs(void)
{
	return repairs;
}

void
apply_require_hold(void)
{
	if (!turn_is_held_by_us())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a node can be repaired only while the same session holds its commits"),
				 errhint("This is for lockstepctl verify --repair.")));
}

/*
 * Where the argument list that starts at p ends, NULL if there is more in it
 * than constants and parameters.
 */
static const char *
end_of_arguments(const char *p)
{
	bool		quoted = false;

	for (; *p; p++)
	{
		if (*p == '\\')
			return NULL;		/* whether it quotes depends */
		if (*p == '\'')
			quoted = !quoted;
		else if (!quoted && *p == '(')
			return NULL;
		else if (!quoted && *p == ')')
			return p + 1;
	}
	return NULL;
}

/*
 * Is the client's own query nothing but a call of this function?  Then nobody
 * else's code can be what calls it.
 */
static bool
is_whole_query(const char *function)
{
	const char *p = debug_query_string;
	size_t		len = strlen(function);

	if (p == NULL || pg_strncasecmp(p, "SELECT lockstep.", 16) != 0)
		return false;
	p += 16;
	if (strncmp(p, function, len) != 0 || p[len] != '(')
		return false;
	p = end_of_arguments(p + len + 1);
	return p != NULL && strspn(p, "; \n") == strlen(p);
}

void
apply_check_call(const char *function)
{
	if (in_apply_session && is_whole_query(function))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function lockstep.%s is for the replicator only", function)));
}

/* ---------- settings of one query */

static int	settings_level = 0; /* GUC nesting level of them, 0 = none */
static LocalTransactionId settings_lxid;

/*
 * Undo what the last call set.  At the end of the transaction that happens by
 * itself, so a level of an earlier transaction counts for nothing.
 */
static void
settings_undo(void)
{
	if (settings_level != 0 && settings_lxid == MyProc->lxid)
		AtEOXact_GUC(true, settings_level);
	settings_level = 0;
}

/*
 * What now() says, and literals like 'today', until the transaction ends: the
 * time at the origin.  The server's function for it is meant for parallel
 * workers, and asserts to be in one.
 */
static void
set_transaction_time(const char *value)
{
	int64		time = pg_strtoint64(value);
	int			worker = ParallelWorkerNumber;

	ParallelWorkerNumber = 0;
	SetParallelStartTimestamps(time, time);
	ParallelWorkerNumber = worker;
}

/* names and values alternate; n = 0: back to the session's own. */
void
apply_settings(char **values, int n)
{
	settings_undo();
	if (n == 0)
		return;
	settings_level = NewGUCNestLevel();
	settings_lxid = MyProc->lxid;
	for (int i = 0; i + 1 < n; i += 2)
	{
		if (strcmp(values[i], LS_SETTING_TIME) == 0)
		{
			set_transaction_time(values[i + 1]);
			continue;
		}
		(void) set_config_option(values[i], values[i + 1],
								 PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	}
}

/* ---------- rows of materialized views */

static void
make_populated(Relation rel)
{
	if (!RelationIsPopulated(rel))
		SetMatViewPopulatedState(rel, true);
}

/* ---------- silencing triggers and rules */

static void
disable_triggers(TriggerDesc *triggers)
{
	if (triggers == NULL)
		return;
	for (int i = 0; i < triggers->numtriggers; i++)
		triggers->triggers[i].tgenabled = TRIGGER_DISABLED;
}

static void
disable_rules(Relation rel)
{
	if (rel->rd_rules == NULL)
		return;
	for (int i = 0; i < rel->rd_rules->numLocks; i++)
		if (rel->rd_rules->rules[i]->event != CMD_SELECT)
			rel->rd_rules->rules[i]->enabled = RULE_DISABLED;
}

/* A value of the base type is one of the domain, without being checked. */
static Node *
without_domain_check(Node *node)
{
	CoerceToDomain *coerce = (CoerceToDomain *) node;
	RelabelType *relabel;

	if (node == NULL || !IsA(node, CoerceToDomain))
		return node;
	relabel = makeRelabelType(coerce->arg, coerce->resulttype, coerce->resulttypmod,
							  coerce->resultcollid, coerce->coercionformat);
	relabel->location = coerce->location;
	return (Node *) relabel;
}

static bool
is_clients_query(const char *source)
{
	return debug_query_string != NULL && source != NULL &&
		(source == debug_query_string || strcmp(source, debug_query_string) == 0);
}

static void
leave_out_domain_checks(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		entry->expr = (Expr *) without_domain_check((Node *) entry->expr);
	}
}

/*
 * Rows come with the name of their partition: the origin has found it, and
 * checked it.  What the relation cache of this session knows of the partition's
 * bounds may be old: PostgreSQL doesn't tell a partition of a default partition
 * that what the latter excludes has changed.
 */
static void
disable_partition_check(Relation rel)
{
	if (!rel->rd_rel->relispartition)
		return;
	rel->rd_partcheck = NIL;
	rel->rd_partcheckvalid = true;
}

/*
 * If the relation's entry is made anew in the middle of the rewriter, an ALWAYS
 * rule of it may act after all.  What it adds was never in a query's text and
 * has no location there.
 */
static void
refuse_action_of_rule(QueryDesc *queryDesc)
{
	if (!is_clients_query(queryDesc->sourceText) || queryDesc->plannedstmt->stmt_location >= 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("a rule has acted on a row that is being applied"),
			 errdetail("Its table was changed meanwhile; it is applied once more.")));
}

/* The rewriter comes next; it finds the rules of the target disabled. */
static void
post_parse_analyze(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (in_apply_session && query->resultRelation != 0)
	{
		Relation	rel;

		if (is_clients_query(pstate->p_sourcetext))
			leave_out_domain_checks(query);
		rel = table_open(rt_fetch(query->resultRelation, query->rtable)->relid, NoLock);
		disable_rules(rel);
		table_close(rel, NoLock);
	}
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

/*
 * Every row that changes here was sent by itself.  So only the replicator's own
 * queries change rows.  Others can only be those of a function called by an
 * index, a generated column, or the check of a domain inside of an array or a
 * row: its effect at the origin was captured, and it would have it once more.
 * An extension's script may; it was not captured.
 */
static void
refuse_nested_change(QueryDesc *queryDesc, Relation rel)
{
	if (creating_extension || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	if (is_clients_query(queryDesc->sourceText))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate a change whose constraints, indexes or defaults change table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("A function that they call writes, and would do so once more on every other node."),
			 errhint("Write from a trigger instead.")));
}

/*
 * No expression at all, which is true.  (ExecRelCheck makes them when there is
 * no list of them.)
 */
static void
leave_out_checks(EState *estate, ResultRelInfo *target)
{
	TupleConstr *constr = RelationGetDescr(target->ri_RelationDesc)->constr;

	if (creating_extension || constr == NULL || constr->num_check == 0)
		return;
	ls_check_expressions(target) =
		MemoryContextAllocZero(estate->es_query_cxt, constr->num_check * sizeof(ExprState *));
}

static void
start_anyhow(QueryDesc *queryDesc, int eflags)
{
	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

/*
 * A materialized view takes rows from nobody but its own REFRESH; here they come
 * from the origin's.  Once the server has made sure that it is a table, it asks
 * no more.
 */
static void
start_on_matview(QueryDesc *queryDesc, int eflags, Relation rel)
{
	make_populated(rel);
	rel->rd_rel->relkind = RELKIND_RELATION;
	PG_TRY();
	{
		start_anyhow(queryDesc, eflags);
	}
	PG_FINALLY();
	{
		rel->rd_rel->relkind = RELKIND_MATVIEW;
	}
	PG_END_TRY();
}

/* The target, if it is one; else NULL. */
static Relation
open_matview(QueryDesc *queryDesc)
{
	PlannedStmt *plan = queryDesc->plannedstmt;
	RangeTblEntry *rte;

	if (list_length(plan->resultRelations) != 1)
		return NULL;
	rte = rt_fetch(linitial_int(plan->resultRelations), plan->rtable);
	return rte->relkind == RELKIND_MATVIEW ? table_open(rte->relid, NoLock) : NULL;
}

static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	Relation	matview = in_apply_session ? open_matview(queryDesc) : NULL;
	ListCell   *lc;

	if (matview != NULL)
	{
		start_on_matview(queryDesc, eflags, matview);
		table_close(matview, NoLock);
	}
	else
		start_anyhow(queryDesc, eflags);
	if (!in_apply_session)
		return;
	if (queryDesc->estate->es_opened_result_relations != NIL)
		refuse_action_of_rule(queryDesc);
	foreach(lc, queryDesc->estate->es_opened_result_relations)
	{
		ResultRelInfo *target = lfirst(lc);

		refuse_nested_change(queryDesc, target->ri_RelationDesc);
		disable_triggers(target->ri_TrigDesc);
		leave_out_checks(queryDesc->estate, target);
		disable_partition_check(target->ri_RelationDesc);
	}
}

/* ---------- the owner's rights: rights.c */

/* Permissions were checked in ExecutorStart. */
static Oid
rights_of_query(QueryDesc *queryDesc)
{
	List	   *targets = queryDesc->estate->es_opened_result_relations;

	if (targets == NIL)
		return InvalidOid;
	return rights_for_rows(((ResultRelInfo *) linitial(targets))->ri_RelationDesc->rd_rel->relowner);
}

static void
executor_run_anyhow(QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool once)
{
	if (prev_ExecutorRun)
		prev_ExecutorRun(queryDesc, direction, count, once);
	else
		standard_ExecutorRun(queryDesc, direction, count, once);
}

static void
executor_run(QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool once)
{
	Oid			user = in_apply_session ? rights_of_query(queryDesc) : InvalidOid;
	LsRights	saved;

	if (!OidIsValid(user))
	{
		executor_run_anyhow(queryDesc, direction, count, once);
		return;
	}
	rights_lower(user, true, &saved);
	executor_run_anyhow(queryDesc, direction, count, once);
	rights_restore(&saved);
}

/* ---------- COPY with the data in hand */

static struct
{
	const char *data;
	size_t		len;
}			copy_source;

static int
copy_read(void *outbuf, int minread, int maxread)
{
	size_t		n = Min(copy_source.len, (size_t) maxread);

	memcpy(outbuf, copy_source.data, n);
	copy_source.data += n;
	copy_source.len -= n;
	return (int) n;
}

static CopyStmt *
parse_copy(const char *command)
{
	List	   *parsed = raw_parser(command, RAW_PARSE_DEFAULT);
	CopyStmt   *stmt = NULL;

	if (list_length(parsed) == 1)
		stmt = (CopyStmt *) linitial_node(RawStmt, parsed)->stmt;
	if (stmt == NULL || !IsA(stmt, CopyStmt) || !stmt->is_from ||
		stmt->relation == NULL || stmt->filename != NULL || stmt->whereClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a COPY ... FROM STDIN command: %s", command)));
	return stmt;
}

/* Values of domains are read as those of their base types. */
static void
read_without_domains(CopyFromState cstate)
{
	TupleDesc	desc = RelationGetDescr(cstate->rel);
	ListCell   *lc;

	foreach(lc, cstate->attnumlist)
	{
		int			i = lfirst_int(lc) - 1;
		Oid			type = TupleDescAttr(desc, i)->atttypid;
		Oid			base = getBaseType(type);
		Oid			input;

		if (type == base)
			continue;
		getTypeInputInfo(base, &input, &cstate->typioparams[i]);
		fmgr_info_cxt(input, &cstate->in_functions[i], cstate->copycontext);
	}
}

/* CopyFrom looks at the number of checks, and at the kind, in the relation's entry. */
static uint64
copy_without_checks(CopyFromState cstate, Relation rel)
{
	int16		checks = rel->rd_rel->relchecks;
	char		kind = rel->rd_rel->relkind;
	uint64		rows = 0;

	PG_TRY();
	{
		rel->rd_rel->relchecks = 0;
		if (kind == RELKIND_MATVIEW)
			rel->rd_rel->relkind = RELKIND_RELATION;
		rows = CopyFrom(cstate);
	}
	PG_FINALLY();
	{
		rel->rd_rel->relchecks = checks;
		rel->rd_rel->relkind = kind;
	}
	PG_END_TRY();
	return rows;
}

uint64
apply_copy(const char *command, const char *data, size_t len)
{
	CopyStmt   *stmt = parse_copy(command);
	Relation	rel = table_openrv(stmt->relation, RowExclusiveLock);
	ParseState *pstate = make_parsestate(NULL);
	CopyFromState cstate;
	uint64		rows;
	LsRights	saved;

	disable_triggers(rel->trigdesc);
	if (rel->rd_rel->relkind == RELKIND_MATVIEW)
		make_populated(rel);
	disable_partition_check(rel);
	pstate->p_sourcetext = command;
	(void) addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	copy_source.data = data;
	copy_source.len = len;

	rights_lower(rel->rd_rel->relowner, true, &saved);
	cstate = BeginCopyFrom(pstate, rel, NULL, NULL, false, copy_read,
						   stmt->attlist, stmt->options);
	read_without_domains(cstate);
	rows = copy_without_checks(cstate, rel);
	EndCopyFrom(cstate);
	rights_restore(&saved);

	free_parsestate(pstate);
	table_close(rel, NoLock);
	return rows;
}

/* ---------- TRUNCATE */

static void
disable_triggers_of(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);

	disable_triggers(rel->trigdesc);
	table_close(rel, NoLock);
}

/*
 * Take the locks that TRUNCATE will take, and disable the triggers of all that
 * it will empty.
 */
static void
prepare_truncate(TruncateStmt *stmt)
{
	List	   *relids = NIL;
	List	   *more;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst(lc);
		Oid			relid = RangeVarGetRelid(rv, AccessExclusiveLock, true);

		if (!OidIsValid(relid))
			continue;			/* TRUNCATE itself will complain */
		relids = list_append_unique_oid(relids, relid);
		if (rv->inh)
			relids = list_concat_unique_oid(relids,
											find_all_inheritors(relid, AccessExclusiveLock, NULL));
	}
	if (stmt->behavior == DROP_CASCADE)
	{
		while ((more = heap_truncate_find_FKs(relids)) != NIL)
		{
			foreach(lc, more)
				LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
			relids = list_concat_unique_oid(relids, more);
		}
	}
	foreach(lc, relids)
		disable_triggers_of(lfirst_oid(lc));
}

static void
process_utility_anyhow(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					   ProcessUtilityContext context, ParamListInfo params,
					   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
							queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
								queryEnv, dest, qc);
}

/* An extension's script may do what is refused to functions, but not SET ROLE. */
static bool
runs_script(const Node *stmt)
{
	return creating_extension || IsA(stmt, CreateExtensionStmt) || IsA(stmt, AlterExtensionStmt);
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			user = in_apply_session ? rights_for_command(pstmt->utilityStmt) : InvalidOid;
	LsRights	saved;

	if (in_apply_session && IsA(pstmt->utilityStmt, TruncateStmt))
		prepare_truncate((TruncateStmt *) pstmt->utilityStmt);

	/*
	 * event triggers, those that are ENABLE ALWAYS too, leave subcommands
	 * alone
	 */
	if (in_apply_session)
		context = PROCESS_UTILITY_SUBCOMMAND;
	if (OidIsValid(user))
		rights_lower(user, !runs_script(pstmt->utilityStmt), &saved);
	process_utility_anyhow(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (OidIsValid(user))
		rights_restore(&saved);
}

/* ---------- values of types that nobody may write */

static PGFunction original_pg_node_tree_in;

/* A row may have one, if it was made from a catalog. */
static Datum
instead_of_pg_node_tree_in(PG_FUNCTION_ARGS)
{
	return in_apply_session ? textin(fcinfo) : original_pg_node_tree_in(fcinfo);
}

void
apply_init(void)
{
	ls_replace_function(F_PG_NODE_TREE_IN, instead_of_pg_node_tree_in, &original_pg_node_tree_in,
						"pg_node_tree_in");
	rights_init();
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = post_parse_analyze;
}
