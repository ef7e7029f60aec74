/*
 * reading.c
 *	  What a session that compares nodes may call: it reads everybody's tables as a
 *	  superuser.
 *
 * Such sessions are those of lockstepctl verify and repair, and any while it computes
 * lockstep.fingerprint().  Their queries name tables and columns of others, and what PostgreSQL
 * makes of a name is partly for the owner of a table to say: a cast of its row
 * type or of an enum can be a function of his, and a view can take the table's place
 * between two statements, with any function in it that a superuser may call.
 *
 * The queries are written so that nothing of it is looked up (ROW(t.*)::text is of the type record,
 * which has no casts but the built-in one; operators are found in pg_catalog only).
 * This file makes sure: before a query is planned, each function, view,
 * foreign table and domain in it has to be built in, or be a superuser's.  C functions are
 * superusers' as well, whatever role owns them, as no other role can make or change one.
 * The query is looked at as a whole, so parallel workers need no guard.
 *
 * The planner runs as the table's owner (rights.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "reading.h"

static bool guarded = false;

/* Returns what it was. */
bool
reading_guard(bool on)
{
	bool		was = guarded;

	guarded = on;
	return was;
}

/* Not where another role's rights count already: in the planner, in an index that amcheck checks. */
bool
reading_is_guarded(void)
{
	return guarded && !InLocalUserIdChange() && !InSecurityRestrictedOperation();
}

static void
refuse(const char *what, Oid owner)
{
	char	   *name = GetUserNameFromId(owner, true);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("a session that compares nodes does not use %s", what),
			 errdetail("It belongs to role \"%s\", and the session has the rights of a superuser.", name != NULL ? name : "?")));
}

static bool
check_function(Oid function, void *context)
{
	HeapTuple	tuple;
	Form_pg_proc proc;

	if (function < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prolang != INTERNALlanguageId && proc->prolang != ClanguageId && !superuser_arg(proc->proowner))
		refuse(psprintf("function %s", format_procedure_qualified(function)), proc->proowner);
	ReleaseSysCache(tuple);
	return false;
}

/* Its values are computed by functions of the role that defined it, not stored. */
static void
check_relation(Oid relid)
{
	HeapTuple	tuple;
	Form_pg_class rel;

	if (relid < FirstNormalObjectId)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	rel = (Form_pg_class) GETSTRUCT(tuple);
	if ((rel->relkind == RELKIND_VIEW || rel->relkind == RELKIND_FOREIGN_TABLE) && !superuser_arg(rel->relowner))
		refuse(psprintf(rel->relkind == RELKIND_VIEW ? "view %s" : "foreign table %s",
						quote_qualified_identifier(get_namespace_name(rel->relnamespace), NameStr(rel->relname))),
			   rel->relowner);
	ReleaseSysCache(tuple);
}

/* Its checks would be run. */
static void
check_domain(Oid type)
{
	HeapTuple	tuple;
	Oid			owner;

	if (type < FirstNormalObjectId)
		return;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	owner = ((Form_pg_type) GETSTRUCT(tuple))->typowner;
	if (!superuser_arg(owner))
		refuse(psprintf("domain %s", format_type_be_qualified(type)), owner);
	ReleaseSysCache(tuple);
}

static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, check_function, NULL);
	if (IsA(node, CoerceToDomain))
		check_domain(((CoerceToDomain *) node)->resulttype);
	if (IsA(node, RangeTblEntry))
	{
		/*
		 * a view is one of its own query's entries, or from 16 on the
		 * subquery's
		 */
		check_relation(((RangeTblEntry *) node)->relid);
		return false;			/* range_table_walker looks into it */
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, check_node, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, check_node, context);
}

/* After the rewriter, before the planner. */
void
reading_check_query(Query *query)
{
	(void) check_node((Node *) query, NULL);
}
