/*
 * ddloutside.c
 *	  Commands that PostgreSQL runs outside of a transaction block, and that a node runs as
 *	  plain ones: those CREATE INDEX and DROP INDEX CONCURRENTLY that ddlconcurrent.c does not
 *	  handle.
 *
 * Each is a series of transactions, and a crash or a failure leaves it half done, with an
 * invalid index.  On several nodes these would be different halves.  So a node runs CREATE
 * INDEX or DROP INDEX: one transaction, which all nodes commit or none.  The price is that
 * writers of that table wait until it is done everywhere.  PostgreSQL's conditions still hold, with
 * its own errors: not inside a transaction block, no CASCADE, no partitioned index.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

#include "ddl.h"
#include "sessionsettings.h"
#include "tokens.h"

/* Where in text the word CONCURRENTLY stands first. */
static int
find_keyword(const char *text)
{
	Tokens		tokens;
	int			found = -1;

	tokens_begin(&tokens, text);
	while (found < 0 && tokens_next(&tokens))
	{
		if (tokens_is(&tokens, "concurrently"))
			found = tokens.at;
	}
	tokens_end(&tokens);
	return found;
}

/* The source with blanks in place of the word; all else stays where it is. */
static char *
without_keyword(const char *source, const PlannedStmt *pstmt)
{
	int			start = Max(pstmt->stmt_location, 0);
	int			len = pstmt->stmt_len > 0 ? pstmt->stmt_len : (int) strlen(source) - start;
	char	   *statement = pnstrdup(source + start, len);
	int			quiet = sessionsettings_begin_quiet();
	int			at = find_keyword(statement);
	char	   *copy = pstrdup(source);

	sessionsettings_end_quiet(quiet);
	pfree(statement);
	if (at >= 0)
		memset(copy + start + at, ' ', strlen("CONCURRENTLY"));
	return copy;
}

/* ---------- the two commands */

static void
check_index(IndexStmt *stmt)
{
	if (get_rel_relkind(RangeVarGetRelid(stmt->relation, NoLock, true)) == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create index on partitioned table \"%s\" concurrently",
						stmt->relation->relname)));
}

static void
check_drop(DropStmt *stmt)
{
	RangeVar   *name;
	Oid			index;

	if (list_length(stmt->objects) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DROP INDEX CONCURRENTLY does not support dropping multiple objects")));
	if (stmt->behavior == DROP_CASCADE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DROP INDEX CONCURRENTLY does not support CASCADE")));
	name = makeRangeVarFromNameList(linitial_node(List, stmt->objects));
	index = RangeVarGetRelid(name, NoLock, true);

	/* of a temporary table PostgreSQL itself runs the plain command */
	if (OidIsValid(index) && get_rel_relkind(index) == RELKIND_PARTITIONED_INDEX &&
		get_rel_persistence(index) != RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot drop partitioned index \"%s\" concurrently", name->relname)));
}

const char *
ddl_outside_name(Node *stmt)
{
	if (IsA(stmt, IndexStmt) && ((IndexStmt *) stmt)->concurrent)
		return "CREATE INDEX CONCURRENTLY";
	if (IsA(stmt, DropStmt) && ((DropStmt *) stmt)->concurrent)
		return "DROP INDEX CONCURRENTLY";
	return ddldetach_is_concurrent(stmt) ? "ALTER TABLE ... DETACH CONCURRENTLY" : NULL;
}

bool
ddl_make_plain(PlannedStmt **pstmt, const char **source, bool is_top_level)
{
	Node	   *stmt = (*pstmt)->utilityStmt;
	const char *name = ddl_outside_name(stmt);
	bool		index = IsA(stmt, IndexStmt);

	if (name == NULL || IsA(stmt, AlterTableStmt))
		return false;
	PreventInTransactionBlock(is_top_level, name);
	if (index)
		check_index((IndexStmt *) stmt);
	else
		check_drop((DropStmt *) stmt);

	*source = without_keyword(*source, *pstmt);
	*pstmt = copyObject(*pstmt);
	stmt = (*pstmt)->utilityStmt;
	if (index)
		((IndexStmt *) stmt)->concurrent = false;
	else
		((DropStmt *) stmt)->concurrent = false;
	return true;
}
