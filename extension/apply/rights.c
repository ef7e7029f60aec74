/*
 * rights.c
 *	  Whose rights users' functions have where a transaction is applied.
 *
 * The replicator's sessions are a superuser's.  Whoever owns a table has functions
 * called there: by its indexes, generated columns and defaults, by the checks of
 * domains, by ALTER TABLE ... USING.  They must get no more rights than they
 * have at the origin.  So they are called as the owner, or as who gave the command,
 * in what PostgreSQL calls a security-restricted operation, as those of CREATE
 * INDEX are: they can't return to the session's own role (SET ROLE, RESET ROLE),
 * leave nothing behind that would run at the commit (cursors WITH HOLD, deferred
 * triggers of temporary tables), and what they set does not stay, as the session
 * goes on with other people's rows.
 *
 * That begins with the planner, which calls functions whose arguments are constants;
 * it does so for what lockstepctl verify and lockstep.fingerprint() only read, too.
 * Before it a query gets its parameters.  A value of a domain inside of an array or a row
 * would be checked there, in the middle of reading it; the origin has done so.
 *
 * The functions of superusers can do as they like anyway, but for SET ROLE.
 */
#include "postgres.h"

#include "access/table.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "rights.h"

/* This session compares nodes: it reads everybody's tables as a superuser. */
static bool guards_plans = false;

static planner_hook_type prev_planner_hook = NULL;
static PGFunction original_domain_in;

void
rights_lower(Oid user, bool restricted, LsRights *saved)
{
	int			context = SECURITY_LOCAL_USERID_CHANGE;

	if (restricted && !superuser_arg(user))
		context |= SECURITY_RESTRICTED_OPERATION;
	GetUserIdAndSecContext(&saved->user, &saved->context);
	SetUserIdAndSecContext(user, saved->context | context);
	saved->guc_level = NewGUCNestLevel();
}

/* After an error the end of the transaction does it. */
void
rights_restore(const LsRights *saved)
{
	AtEOXact_GUC(false, saved->guc_level);
	SetUserIdAndSecContext(saved->user, saved->context);
}

/*
 * Who is to change the rows of a table: its owner, unless the query came with a
 * role of its own.  InvalidOid: that is so already.
 */
Oid
rights_for_rows(Oid owner)
{
	if (InLocalUserIdChange())
		return InvalidOid;
	return GetUserId() != GetSessionUserId() ? GetUserId() : owner;
}

/* Who is to run a command: the role that it came with, if any. */
Oid
rights_for_command(const Node *command)
{
	if (InLocalUserIdChange() || GetUserId() == GetSessionUserId())
		return InvalidOid;

	/* they may be about the setting "role", and call nobody */
	if (IsA(command, AlterRoleSetStmt) || IsA(command, AlterDatabaseSetStmt))
		return InvalidOid;
	return GetUserId();
}

static PlannedStmt *
plan_anyhow(Query *query, const char *source, int options, ParamListInfo params)
{
	return prev_planner_hook ? prev_planner_hook(query, source, options, params) :
		standard_planner(query, source, options, params);
}

Oid
rights_owner_of(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	Oid			owner = rel->rd_rel->relowner;

	table_close(rel, NoLock);
	return owner;
}

/* The owner of the table that lockstep's own query reads. */
static Oid
owner_of_what_is_read(const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Oid			owner = InvalidOid;

		if (rte->rtekind == RTE_RELATION)
			owner = rights_owner_of(rte->relid);
		else if (rte->rtekind == RTE_SUBQUERY)
			owner = owner_of_what_is_read(rte->subquery);
		if (OidIsValid(owner))
			return owner;
	}
	return InvalidOid;
}

/* Returns what it was. */
bool
rights_guard_plans(bool on)
{
	bool		was = guards_plans;

	guards_plans = on;
	return was;
}

static Oid
rights_for_plan(const Query *query)
{
	if (apply_session() && query->resultRelation != 0)
		return rights_for_rows(rights_owner_of(rt_fetch(query->resultRelation, query->rtable)->relid));
	if (guards_plans && !InLocalUserIdChange())
		return owner_of_what_is_read(query);
	return InvalidOid;
}

static PlannedStmt *
plan(Query *query, const char *source, int options, ParamListInfo params)
{
	Oid			user = rights_for_plan(query);
	PlannedStmt *result;
	LsRights	saved;

	if (apply_session())
		applygenerated_show(query);
	if (!OidIsValid(user))
		return plan_anyhow(query, source, options, params);
	rights_lower(user, true, &saved);
	result = plan_anyhow(query, source, options, params);
	rights_restore(&saved);
	return result;
}

/* Where no query runs, or apply_rows() says so, the parameters of one are being read. */
static Datum
instead_of_domain_in(PG_FUNCTION_ARGS)
{
	int32		typmod = -1;
	Oid			base;
	Oid			input;
	Oid			typioparam;

	if (!apply_session() || (ActivePortal != NULL && !apply_reads_params()) || PG_ARGISNULL(1))
		return original_domain_in(fcinfo);
	if (PG_ARGISNULL(0) || PG_GETARG_CSTRING(0) == NULL)
		PG_RETURN_NULL();		/* the server calls it with both */
	base = getBaseTypeAndTypmod(PG_GETARG_OID(1), &typmod);
	getTypeInputInfo(base, &input, &typioparam);
	PG_RETURN_DATUM(OidInputFunctionCall(input, PG_GETARG_CSTRING(0), typioparam, typmod));
}

void
rights_init(void)
{
	ls_replace_function(F_DOMAIN_IN, instead_of_domain_in, &original_domain_in, "domain_in");
	prev_planner_hook = planner_hook;
	planner_hook = plan;
}
