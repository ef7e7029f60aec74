/*
 * applycopy.c
 *	  COPY in an apply session, with the data in hand: several inserted rows that
 *	  travelled together.  What must not act then is what applyrow.c says.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "querysettings.h"
#include "relation.h"
#include "rights.h"
#include "statementtext.h"
#include "unlogged.h"

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
	CopyStmt   *stmt = (CopyStmt *) statementtext_parse(command);

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

static uint64
copy_rows(const CopyStmt *stmt, Relation rel, ParseState *pstate)
{
	CopyFromState cstate = BeginCopyFrom(pstate, rel, NULL, NULL, false, copy_read,
										 stmt->attlist, stmt->options);
	uint64		rows;

	read_without_domains(cstate);
	rows = copy_without_checks(cstate, rel);
	EndCopyFrom(cstate);
	return rows;
}

/* With values of generated columns, see applygenerated.c. */
static uint64
copy_generated(const CopyStmt *stmt, Relation rel, ParseState *pstate)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *generated = applygenerated_unmark(desc);
	uint64		rows = 0;

	PG_TRY();
	{
		rows = copy_rows(stmt, rel, pstate);
	}
	PG_FINALLY();
	{
		applygenerated_mark_again(desc, generated);
	}
	PG_END_TRY();
	if (RelationGetDescr(rel) != desc)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("generated columns of \"%s\" were computed while rows were applied", RelationGetRelationName(rel)),
				 errdetail("The definition of the table was reloaded meanwhile; the rows are applied again.")));
	return rows;
}

uint64
apply_copy(const char *command, const char *data, size_t len)
{
	CopyStmt   *stmt = parse_copy(command);
	Relation	rel = table_openrv(stmt->relation, RowExclusiveLock);
	ParseState *pstate = make_parsestate(NULL);
	uint64		rows;
	LsRights	saved;

	if (unlogged_is(rel) ? unlogged_is_skipped(RelationGetRelid(rel)) : unlogged_is_refilled_elsewhere(RelationGetRelid(rel)))
	{
		table_close(rel, NoLock);
		return LS_ROWS_LEFT_OUT;
	}
	applyunproven_before_rows(rel); /* first, as it may have to wait */
	applyrow_disable_triggers(rel->trigdesc);
	if (rel->rd_rel->relkind == RELKIND_MATVIEW)
		applyrow_make_populated(rel);
	applyrow_disable_not_null(rel);
	applyrow_disable_partition_check(rel);
	if (querysettings_are_set())
		relation_evaluate_anew(rel);
	pstate->p_sourcetext = command;
	(void) addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	copy_source.data = data;
	copy_source.len = len;

	rights_lower(rel->rd_rel->relowner, true, &saved);
	rows = applygenerated_is_named(stmt->attlist, rel) ? copy_generated(stmt, rel, pstate) :
		copy_rows(stmt, rel, pstate);
	rights_restore(&saved);

	free_parsestate(pstate);
	table_close(rel, NoLock);
	return rows;
}
