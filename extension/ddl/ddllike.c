/*
 * ddllike.c
 *	  CREATE TABLE (LIKE a temporary table): written out as its columns.
 *
 * Other nodes don't have the temporary table.  What LIKE copies of it can be
 * written as a list of columns and checks, as far as there is a way to write
 * it: not for indexes, identity, extended statistics, comments and storage, if the
 * clause includes them and the table has any.  The result runs here, too, so that the
 * nodes have the same.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "ddl.h"
#include "tokens.h"

/* ---------- may it be written out? */

static Oid
temporary_source(TableLikeClause *clause)
{
	Oid			relid = RangeVarGetRelid(clause->relation, NoLock, true);

	return OidIsValid(relid) && get_rel_persistence(relid) == RELPERSISTENCE_TEMP ? relid : InvalidOid;
}

/* As the default of a serial column does. */
static bool
names_temporary(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Const) && ((Const *) node)->consttype == REGCLASSOID && !((Const *) node)->constisnull)
		return get_rel_persistence(DatumGetObjectId(((Const *) node)->constvalue)) == RELPERSISTENCE_TEMP;
	return expression_tree_walker(node, names_temporary, context);
}

static bool
has_temporary_default(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	int			i;

	for (i = 0; constr != NULL && i < constr->num_defval; i++)
	{
		if (names_temporary(stringToNode(constr->defval[i].adbin), NULL))
			return true;
	}
	return false;
}

static bool
column_can_be_written(Form_pg_attribute att, LsBits options)
{
	if ((options & CREATE_TABLE_LIKE_IDENTITY) && att->attidentity != '\0')
		return false;
	if ((options & CREATE_TABLE_LIKE_STORAGE) && att->attstorage != get_typstorage(att->atttypid))
		return false;
	if ((options & CREATE_TABLE_LIKE_COMPRESSION) && att->attcompression != '\0')
		return false;
	return !(options & CREATE_TABLE_LIKE_COMMENTS) ||
		GetComment(att->attrelid, RelationRelationId, att->attnum) == NULL;
}

static bool
has_commented_check(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	int			i;

	for (i = 0; constr != NULL && i < constr->num_check; i++)
	{
		Oid			check = get_relation_constraint_oid(RelationGetRelid(rel), constr->check[i].ccname, false);

		if (GetComment(check, ConstraintRelationId, 0) != NULL)
			return true;
	}
	return false;
}

static bool
can_be_written(Relation rel, LsBits options)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			columns = 0;
	int			i;

	if ((options & CREATE_TABLE_LIKE_INDEXES) && rel->rd_rel->relhasindex)
		return false;
	if ((options & CREATE_TABLE_LIKE_DEFAULTS) && has_temporary_default(rel))
		return false;
	if ((options & CREATE_TABLE_LIKE_STATISTICS) && RelationGetStatExtList(rel) != NIL)
		return false;
	if ((options & CREATE_TABLE_LIKE_COMMENTS) && has_commented_check(rel))
		return false;
	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		if (!column_can_be_written(att, options))
			return false;
		columns++;
	}
	return columns > 0;
}

bool
ddl_like_is_written_out(TableLikeClause *clause)
{
	Oid			relid = temporary_source(clause);
	Relation	rel;
	bool		result;

	if (!OidIsValid(relid) || pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return false;
	rel = table_open(relid, AccessShareLock);
	result = can_be_written(rel, clause->options);
	table_close(rel, NoLock);
	return result;
}

bool
ddl_likes_temporary(CreateStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->tableElts)
	{
		if (IsA(lfirst(lc), TableLikeClause) && OidIsValid(temporary_source(lfirst(lc))))
			return true;
	}
	return false;
}

/* ---------- the columns */

static const char *
default_of(Relation rel, AttrNumber attnum)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	int			i;

	for (i = 0; i < constr->num_defval; i++)
	{
		if (constr->defval[i].adnum == attnum)
			return deparse_expression(stringToNode(constr->defval[i].adbin),
									  deparse_context_for(RelationGetRelationName(rel), RelationGetRelid(rel)),
									  false, false);
	}
	elog(ERROR, "found no default of column %d of relation %s", attnum, RelationGetRelationName(rel));
}

/* LIKE copies its name, too, where it has one (PostgreSQL 18). */
static void
append_not_null(Relation rel, Form_pg_attribute att, StringInfo out)
{
#if PG_VERSION_NUM >= 180000
	HeapTuple	tuple = findNotNullConstraintAttnum(RelationGetRelid(rel), att->attnum);

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);

		appendStringInfo(out, " CONSTRAINT %s NOT NULL%s", quote_identifier(NameStr(constraint->conname)),
						 constraint->connoinherit ? " NO INHERIT" : "");
		heap_freetuple(tuple);
		return;
	}
#endif
	appendStringInfoString(out, " NOT NULL");
}

static void
append_column(Relation rel, Form_pg_attribute att, LsBits options, StringInfo out)
{
	appendStringInfo(out, "%s %s", quote_identifier(NameStr(att->attname)),
					 format_type_extended(att->atttypid, att->atttypmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	if (OidIsValid(att->attcollation) && att->attcollation != get_typcollation(att->atttypid))
		appendStringInfo(out, " COLLATE %s", generate_collation_name(att->attcollation));
	if (att->attnotnull)
		append_not_null(rel, att, out);
	if (att->attgenerated != '\0' && (options & CREATE_TABLE_LIKE_GENERATED))
		appendStringInfo(out, " GENERATED ALWAYS AS (%s) %s", default_of(rel, att->attnum),
						 att->attgenerated == ATTRIBUTE_GENERATED_STORED ? "STORED" : "VIRTUAL");
	else if (att->atthasdef && att->attgenerated == '\0' && (options & CREATE_TABLE_LIKE_DEFAULTS))
		appendStringInfo(out, " DEFAULT %s", default_of(rel, att->attnum));
}

static void
append_checks(Relation rel, StringInfo out)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;
	int			i;

	for (i = 0; constr != NULL && i < constr->num_check; i++)
	{
		const char *name = constr->check[i].ccname;
		Oid			oid = get_relation_constraint_oid(RelationGetRelid(rel), name, false);

		appendStringInfo(out, ", CONSTRAINT %s %s", quote_identifier(name),
						 TextDatumGetCString(DirectFunctionCall1(pg_get_constraintdef, ObjectIdGetDatum(oid))));
	}
}

static void
append_columns(TableLikeClause *clause, StringInfo out)
{
	Relation	rel = table_open(temporary_source(clause), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	const char *separator = "";
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		appendStringInfoString(out, separator);
		append_column(rel, att, clause->options, out);
		separator = ", ";
	}
	if (clause->options & CREATE_TABLE_LIKE_CONSTRAINTS)
		append_checks(rel, out);
	table_close(rel, NoLock);
}

/* ---------- the clause in the text */

/* From LIKE up to the next thing in the list: its name is at location. */
static void
find_clause(const char *text, int location, int *start, int *end)
{
	Tokens		tokens;

	*start = -1;
	tokens_begin(&tokens, text);
	while (tokens_next(&tokens) && tokens.at != location)
	{
		if (tokens_is(&tokens, "like"))
			*start = tokens.at;
	}
	while (tokens_next(&tokens) && tokens.kind == TOKEN_DOT)
		(void) tokens_next(&tokens);
	while (tokens_is(&tokens, "including") || tokens_is(&tokens, "excluding"))
	{
		(void) tokens_next(&tokens);
		(void) tokens_next(&tokens);
	}
	*end = tokens.at;
	tokens_end(&tokens);
	if (*start < 0 || tokens.kind == TOKEN_END)
		elog(ERROR, "could not find a LIKE clause in the command");
}

char *
ddl_write_out_likes(const char *text)
{
	CreateStmt *stmt = castNode(CreateStmt, linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT))->stmt);
	StringInfoData out;
	int			copied = 0;
	ListCell   *lc;

	initStringInfo(&out);
	foreach(lc, stmt->tableElts)
	{
		TableLikeClause *clause = lfirst(lc);
		int			start;
		int			end;

		if (!IsA(clause, TableLikeClause) || !OidIsValid(temporary_source(clause)))
			continue;
		find_clause(text, clause->relation->location, &start, &end);
		appendBinaryStringInfo(&out, text + copied, start - copied);
		append_columns(clause, &out);
		copied = end;
	}
	appendStringInfoString(&out, text + copied);
	return out.data;
}
