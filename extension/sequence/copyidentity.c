/*
 * copyidentity.c
 *	  COPY FROM into a table with an identity column that is not in the column list.
 *
 * COPY computes that column by an expression that is no function call and passes no hook
 * (NextValueExpr), from the sequence of this node only.  So such a COPY is started here, with
 * the same checks as in PostgreSQL, and before its first row the expression is replaced by a
 * call of nextval.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/pg_authid.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "compat.h"
#include "sequence.h"

/* ---------- is it one? */

static bool
names_column(const CopyStmt *stmt, const char *column)
{
	ListCell   *lc;

	if (stmt->attlist == NIL)
		return true;
	foreach(lc, stmt->attlist)
	{
		if (strcmp(strVal(lfirst(lc)), column) == 0)
			return true;
	}
	return false;
}

/* Of a column that it names, too, where the DEFAULT option's text stands (16). */
static bool
may_take_defaults(const CopyStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "default") == 0)
			return true;
	}
	return false;
}

bool
copyidentity_is_wanted(Relation rel, const CopyStmt *stmt)
{
	int			i;

	for (i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped && att->attidentity != '\0' &&
			(may_take_defaults(stmt) || !names_column(stmt, NameStr(att->attname))))
			return true;
	}
	return false;
}

/* ---------- what COPY checks */

static void
check_source(const CopyStmt *stmt)
{
	Oid			needed = stmt->is_program ? ROLE_PG_EXECUTE_SERVER_PROGRAM : ROLE_PG_READ_SERVER_FILES;

	if (stmt->filename == NULL || has_privs_of_role(GetUserId(), needed))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 stmt->is_program ?
			 errmsg("must be superuser or have privileges of the pg_execute_server_program role to COPY to or from an external program") :
			 errmsg("must be superuser or have privileges of the pg_read_server_files role to COPY from a file"),
			 errhint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.")));
}

static void
check_permissions(ParseState *pstate, ParseNamespaceItem *item, Relation rel, const CopyStmt *stmt)
{
	LsPermissions *permissions = ls_permissions_of_item(item);
	ListCell   *lc;

	permissions->requiredPerms = ACL_INSERT;
	foreach(lc, CopyGetAttnums(RelationGetDescr(rel), rel, stmt->attlist))
		permissions->insertedCols = bms_add_member(permissions->insertedCols,
												   lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	ls_check_permissions(pstate);
	if (check_enable_rls(permissions->relid, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY FROM not supported with row-level security"),
				 errhint("Use INSERT statements instead.")));
	PreventCommandIfReadOnly("COPY FROM");
}

static void
check_no_generated(Relation rel, Node *where)
{
	Bitmapset  *used = NULL;
	bool		all;

	pull_varattnos(where, 1, &used);
	all = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (att->attgenerated != '\0' &&
			(all || bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, used)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("generated columns are not supported in COPY FROM WHERE conditions"),
					 errdetail("Column \"%s\" is a generated column.", NameStr(att->attname))));
	}
}

static Node *
where_clause(ParseState *pstate, ParseNamespaceItem *item, Relation rel, const CopyStmt *stmt)
{
	Node	   *where;

	if (stmt->whereClause == NULL)
		return NULL;
	addNSItemToQuery(pstate, item, false, true, true);
	where = transformExpr(pstate, copyObject(stmt->whereClause), EXPR_KIND_COPY_WHERE);
	where = coerce_to_boolean(pstate, where, "WHERE");
	assign_expr_collations(pstate, where);
	if (!LS_COPY_WHERE_HAS_GENERATED)
		check_no_generated(rel, where);
	where = eval_const_expressions(NULL, where);
	where = (Node *) canonicalize_qual((Expr *) where, false);
	return (Node *) make_ands_implicit((Expr *) where);
}

/* ---------- running it */

static void
replace_defaults(CopyFromState cstate)
{
	Relation	rel = cstate->rel;
	MemoryContext context = MemoryContextSwitchTo(cstate->copycontext);
	AttrNumber	attnum;

	for (attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
		ExprState **expression = ls_copy_default(cstate, attnum);
		Node	   *call;

		if (expression == NULL || att->attisdropped || att->attidentity == '\0')
			continue;
		call = sequence_nextval_call(ls_identity_sequence(rel, attnum), att->atttypid);
		*expression = ExecInitExpr(expression_planner((Expr *) call), NULL);
	}
	MemoryContextSwitchTo(context);
}

uint64
copyidentity_copy(const CopyStmt *stmt, const char *source)
{
	ParseState *pstate = make_parsestate(NULL);
	Relation	rel;
	ParseNamespaceItem *item;
	CopyFromState cstate;
	Node	   *where;
	uint64		rows;

	pstate->p_sourcetext = source;
	check_source(stmt);
	rel = table_openrv(stmt->relation, RowExclusiveLock);
	item = addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	where = where_clause(pstate, item, rel, stmt);
	check_permissions(pstate, item, rel, stmt);
	cstate = BeginCopyFrom(pstate, rel, where, stmt->filename, stmt->is_program, NULL,
						   stmt->attlist, stmt->options);
	replace_defaults(cstate);
	rows = CopyFrom(cstate);
	EndCopyFrom(cstate);
	free_parsestate(pstate);
	table_close(rel, NoLock);
	return rows;
}
