/*
 * ddloids.c
 *	  Would an index or a partitioned table mean the same on every node?
 *
 * OIDs differ between nodes.  If an expression contains one ('t'::regclass::oid), nodes
 * would disagree about the rows that a unique index or an exclusion constraint permits, or about
 * the partition of a row.  Other indexes may differ without harm.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_index.h"
#include "catalog/pg_partitioned_table.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "ddl.h"
#include "guc.h"
#include "storedexpression.h"

static void
refuse(const char *what)
{
	if (ls_unreplicated == LS_UNREPLICATED_ALLOW)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate %s with OIDs of this node in an expression", what),
			 errdetail("OIDs of objects, tableoid, and what is computed from them differ from node to node."),
			 errhint("Compare names, as text, instead.")));
}

static void
check_index(Oid indexid)
{
	Relation	index = index_open(indexid, AccessShareLock);

	if ((index->rd_index->indisunique || index->rd_index->indisexclusion) &&
		(storedexpression_has_oids(storedexpression_of_index(index, Anum_pg_index_indexprs)) ||
		 storedexpression_has_oids(storedexpression_of_index(index, Anum_pg_index_indpred))))
		refuse("a unique index or an exclusion constraint");
	index_close(index, AccessShareLock);
}

static void
check_partition_key(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(relid));
	bool		isnull = true;
	Datum		expressions;

	if (!HeapTupleIsValid(tuple))
		return;
	expressions = SysCacheGetAttr(PARTRELID, tuple, Anum_pg_partitioned_table_partexprs, &isnull);
	if (!isnull && storedexpression_has_oids(stringToNode(TextDatumGetCString(expressions))))
		refuse("a partitioned table");
	ReleaseSysCache(tuple);
}

void
ddl_check_oids(Relation rel)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
		check_index(lfirst_oid(lc));
	check_partition_key(RelationGetRelid(rel));
}

/* ---------- an index that is to be made concurrently */

static void
check_raw(ParseState *pstate, Node *raw, ParseExprKind kind)
{
	if (raw != NULL && storedexpression_has_oids(transformExpr(pstate, copyObject(raw), kind)))
		refuse("a unique index");
}

void
ddl_check_oids_before(Node *node, const char *source)
{
	IndexStmt  *stmt = (IndexStmt *) node;
	Relation	rel;
	ParseState *pstate;
	ListCell   *lc;

	if (!IsA(node, IndexStmt) || !stmt->unique)
		return;
	rel = relation_openrv_extended(stmt->relation, AccessShareLock, true);
	if (rel == NULL)
		return;					/* PostgreSQL will say so */
	pstate = make_parsestate(NULL);
	pstate->p_sourcetext = source;
	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
					 false, true, true);
	foreach(lc, stmt->indexParams)
		check_raw(pstate, lfirst_node(IndexElem, lc)->expr, EXPR_KIND_INDEX_EXPRESSION);
	check_raw(pstate, stmt->whereClause, EXPR_KIND_INDEX_PREDICATE);
	free_parsestate(pstate);
	relation_close(rel, AccessShareLock);
}
