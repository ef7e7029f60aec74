/*
 * rights.c
 *	  The rights of users' functions where a transaction is applied.
 *
 * The replicator's sessions are a superuser's.  The owner of a table has functions called
 * there: by indexes, generated columns and defaults, by checks of domains, by
 * ALTER TABLE ... USING.  They must not have more rights than at the origin.  So they
 * run as the owner, or as the role that gave the command, in a security-restricted operation, as
 * those of CREATE INDEX do: they cannot return to the session's role (SET ROLE, RESET
 * ROLE), cannot leave anything that runs at commit (cursors WITH HOLD, deferred
 * triggers of temporary tables), and their settings do not last, since the session
 * goes on with rows of other users.
 *
 * This includes the planner, which calls functions with constant arguments, also for
 * tables that lockstepctl verify and lockstep.fingerprint() only read.  What else those
 * may call is in reading.c.
 *
 * The parameters of a query are read before planning.  The check of a domain within an array or
 * row would run there, so it is left out; the origin has done it.
 *
 * Functions of superusers can do anything anyway, except SET ROLE.
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
#include "patch.h"
#include "reading.h"
#include "rights.h"
#include "session.h"

/* applybatch.c reads the parameters of a changed row. */
static bool reads_params = false;

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

	/* they may be about the setting "role", and call no function */
	if (IsA(command, AlterRoleSetStmt) || IsA(command, AlterDatabaseSetStmt))
		return InvalidOid;
	return GetUserId();
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

static Oid
rights_for_plan(const Query *query)
{
	if (session_applies() && query->resultRelation != 0)
		return rights_for_rows(rights_owner_of(rt_fetch(query->resultRelation, query->rtable)->relid));
	if (reading_is_guarded())
		return owner_of_what_is_read(query);
	return InvalidOid;
}

PlannedStmt *
rights_plan(planner_hook_type next, Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM)
{
	Oid			user = rights_for_plan(query);
	PlannedStmt *result;
	LsRights	saved;

	if (session_applies())
		applygenerated_show(query);
	if (reading_is_guarded())
		reading_check_query(query);
	if (!OidIsValid(user))
		return next(query, source, options, params LS_EXPLAIN_ARG);
	rights_lower(user, true, &saved);
	result = next(query, source, options, params LS_EXPLAIN_ARG);
	rights_restore(&saved);
	return result;
}

void
rights_read_params(bool on)
{
	reads_params = on;
}

/* Where no query runs, or applybatch.c says so, the parameters of one are being read. */
static Datum
instead_of_domain_in(PG_FUNCTION_ARGS)
{
	int32		typmod = -1;
	Oid			base;
	Oid			input;
	Oid			typioparam;

	if (!session_applies() || (ActivePortal != NULL && !reads_params) || PG_ARGISNULL(1))
		return original_domain_in(fcinfo);
	if (PG_ARGISNULL(0) || PG_GETARG_CSTRING(0) == NULL)
		PG_RETURN_NULL();		/* the server calls it with both */
	base = getBaseTypeAndTypmod(PG_GETARG_OID(1), &typmod);
	getTypeInputInfo(base, &input, &typioparam);
	PG_RETURN_DATUM(OidInputFunctionCall(input, PG_GETARG_CSTRING(0), typioparam, typmod));
}

void
rights_replace_functions(void)
{
	ls_replace_function(F_DOMAIN_IN, instead_of_domain_in, &original_domain_in, "domain_in");
}
