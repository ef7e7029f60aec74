/*
 * ddlinvalid.c
 *	  Indexes that are not valid: which node has them, and which command would make them
 *	  valid?
 *
 * An index left by a failed CREATE or DROP INDEX CONCURRENTLY exists on every node
 * (ddlconcurrent.c).  One left by a failed REINDEX CONCURRENTLY exists on this node only;
 * PostgreSQL gives it a special name, which no other invalid index has.
 *
 * Commands that stay on this node (ddl.c) may rebuild indexes, and a rebuilt one becomes
 * valid.  An index of the first kind must become valid on all nodes: REINDEX of it, or of its table, is
 * replicated, and other commands are refused.  One of the second kind must not; as in PostgreSQL's documentation, it is to be
 * dropped.  Commands that rewrite a table without checking its constraints (VACUUM FULL,
 * CLUSTER) leave a unique index invalid.
 */
#include "postgres.h"

#include <ctype.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ddl.h"

/* ---------- whose? */

/* name_ccnew, name_ccold, followed by a number if these are taken. */
bool
ddl_is_name_of_reindex(const char *name)
{
	const char *end = name + strlen(name);

	while (end > name && isdigit((unsigned char) end[-1]))
		end--;
	return end - name >= 6 &&
		(strncmp(end - 6, "_ccnew", 6) == 0 || strncmp(end - 6, "_ccold", 6) == 0);
}

static bool
is_invalid(Oid index, bool *unique)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	bool		invalid;

	if (!HeapTupleIsValid(tuple))
		return false;
	invalid = !((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
	*unique = ((Form_pg_index) GETSTRUCT(tuple))->indisunique;
	ReleaseSysCache(tuple);
	return invalid && get_rel_relkind(index) == RELKIND_INDEX &&
		get_rel_persistence(index) != RELPERSISTENCE_TEMP;
}

static bool
is_leftover(Oid index)
{
	bool		unique;

	return is_invalid(index, &unique) && ddl_is_name_of_reindex(get_rel_name(index));
}

bool
ddl_drops_leftovers(Node *node)
{
	DropStmt   *stmt = (DropStmt *) node;
	ListCell   *lc;

	if (!IsA(node, DropStmt) || stmt->removeType != OBJECT_INDEX)
		return false;
	foreach(lc, stmt->objects)
	{
		if (!is_leftover(RangeVarGetRelid(makeRangeVarFromNameList(lfirst_node(List, lc)), NoLock, true)))
			return false;
	}
	return true;
}

/* ---------- which would a command make valid? */

typedef struct Search
{
	List	   *tables;			/* of these, and their partitions; NIL: all */
	List	   *indexes;		/* these, if there are any */
	Oid			schema;			/* those in it, if it is one */
	bool		unique_too;
} Search;

static bool
is_meant(const Search *search, Form_pg_index form)
{
	if (search->indexes != NIL)
		return list_member_oid(search->indexes, form->indexrelid);
	if (OidIsValid(search->schema))
		return get_rel_namespace(form->indrelid) == search->schema;
	return search->tables == NIL || list_member_oid(search->tables, form->indrelid);
}

/* The indexes that aren't valid, among those; of users' tables. */
static List *
find(const Search *search)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *found = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);
		bool		unique;

		if (!form->indisvalid && is_meant(search, form) && is_invalid(form->indexrelid, &unique) &&
			(!unique || search->unique_too) &&
			get_rel_relkind(form->indrelid) != RELKIND_TOASTVALUE)
			found = lappend_oid(found, form->indexrelid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

static void
add_table(Search *search, RangeVar *name)
{
	Oid			relid = name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;

	if (OidIsValid(relid))
		search->tables = list_concat(search->tables, find_all_inheritors(relid, NoLock, NULL));
	else if (name != NULL)
		search->tables = lappend_oid(search->tables, InvalidOid);	/* not found: none */
}

static void
refuse(DdlPlan *plan, Oid index, const char *hint)
{
	char	   *name = get_rel_name(index);

	if (ddl_is_name_of_reindex(name))
		ddl_refuse(plan, NULL,
				   psprintf("It would make index \"%s\" valid, which REINDEX CONCURRENTLY has left on this node only.", name),
				   "Drop that index first.");
	else
		ddl_refuse(plan, NULL, psprintf("It would make index \"%s\" valid on this node only.", name), hint);
}

/* ---------- REINDEX */

/* REINDEX INDEX CONCURRENTLY of such an index is run as the plain command. */
static void
make_plain(PlannedStmt **pstmt, const char **source, bool is_top_level)
{
	ReindexStmt *stmt = (ReindexStmt *) (*pstmt)->utilityStmt;
	const char *where = "";
	List	   *options = NIL;
	ListCell   *lc;

	PreventInTransactionBlock(is_top_level, "REINDEX CONCURRENTLY");
	foreach(lc, stmt->params)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "tablespace") == 0)
			where = psprintf("(TABLESPACE %s) ", quote_identifier(defGetString(option)));
		if (strcmp(option->defname, "concurrently") != 0)
			options = lappend(options, option);
	}
	*pstmt = copyObject(*pstmt);
	stmt = (ReindexStmt *) (*pstmt)->utilityStmt;
	stmt->params = options;
	*source = psprintf("REINDEX %sINDEX %s", where,
					   quote_qualified_identifier(stmt->relation->schemaname, stmt->relation->relname));
	(*pstmt)->stmt_location = 0;
	(*pstmt)->stmt_len = 0;
}

static void
watch_reindex(PlannedStmt **pstmt, const char **source, bool is_top_level, DdlPlan *plan)
{
	ReindexStmt *stmt = (ReindexStmt *) (*pstmt)->utilityStmt;
	bool		concurrently = ddl_option_is_on(stmt->params, "concurrently");
	Search		search = {.unique_too = true};
	bool		one = stmt->kind == REINDEX_OBJECT_INDEX;
	Oid			target = stmt->relation != NULL ? RangeVarGetRelid(stmt->relation, NoLock, true) : InvalidOid;
	bool		in_one_transaction = OidIsValid(target) &&
	get_rel_relkind(target) != RELKIND_PARTITIONED_INDEX && get_rel_relkind(target) != RELKIND_PARTITIONED_TABLE;
	List	   *indexes;
	ListCell   *lc;

	/* of other kinds it leaves out, concurrently, what isn't valid */
	if ((concurrently && !one) || stmt->kind == REINDEX_OBJECT_SYSTEM)
		return;
	if (one && !OidIsValid(target))
		return;
	if (one)
		search.indexes = find_all_inheritors(target, NoLock, NULL);
	else if (stmt->kind == REINDEX_OBJECT_TABLE)
		add_table(&search, stmt->relation);
	else if (stmt->kind == REINDEX_OBJECT_SCHEMA)
		search.schema = get_namespace_oid(stmt->name, true);
	indexes = find(&search);
	if (indexes == NIL)
		return;
	foreach(lc, indexes)
	{
		if (ddl_is_name_of_reindex(get_rel_name(lfirst_oid(lc))) || !in_one_transaction)
		{
			refuse(plan, lfirst_oid(lc), "REINDEX that index, or drop it.");
			return;
		}
	}
	if (concurrently)
		make_plain(pstmt, source, is_top_level);
	plan->action = DDL_FORWARD;
	plan->catalogs = true;
}

/* ---------- what rewrites a table */

static void
watch_rewrite(const Search *search, DdlPlan *plan)
{
	List	   *indexes = find(search);

	if (indexes != NIL)
		refuse(plan, linitial_oid(indexes), "REINDEX that index, or drop it.");
}

void
ddl_watch_invalid(PlannedStmt **pstmt, const char **source, bool is_top_level, DdlPlan *plan)
{
	Node	   *node = (*pstmt)->utilityStmt;
	Search		search = {.unique_too = false};
	ListCell   *lc;

	if (IsA(node, ReindexStmt))
		watch_reindex(pstmt, source, is_top_level, plan);
	else if (IsA(node, LsClusterStmt))
	{
		if (ls_is_repack_concurrently((LsClusterStmt *) node))
			return;				/* it leaves them as they are */
		add_table(&search, ls_clustered_table((LsClusterStmt *) node));
		watch_rewrite(&search, plan);
	}
	else if (IsA(node, VacuumStmt) && ddl_option_is_on(((VacuumStmt *) node)->options, "full"))
	{
		foreach(lc, ((VacuumStmt *) node)->rels)
			add_table(&search, lfirst_node(VacuumRelation, lc)->relation);
		watch_rewrite(&search, plan);
	}
}
