/*
 * applycopy.c
 *	  COPY in an apply session, with the data in hand: several inserted rows that
 *	  travelled together.  What must not act then is what applyrow.c says.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "compat.h"
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

/* A partitioned table's rows come as those of its partitions. */
static void
check_kind(Relation rel)
{
	if (rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view", RelationGetRelationName(rel))));
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

/* ---------- the rows */

/*
 * What CopyFrom does for one table, without what must not act here: triggers, checks, partition bounds.  CopyFrom itself
 * would take half as long again for a COPY that arrives as many small ones: it makes up to 1000 slots for each, which all pin
 * the relation's tuple descriptor, and the resource owner looks linearly through pins that are equal.
 */
#define BATCH_ROWS 256

typedef struct Insertion
{
	CopyFromState cstate;
	EState	   *estate;
	ResultRelInfo *target;
	TupleDesc	desc;			/* a copy, which is not pinned */
	bool		generates;		/* stored columns are not in the rows */
	BulkInsertState bulk;
	CommandId	command;
	uint64		ninserted;
	int			nrows;			/* read, and not inserted yet */
	int			nslots;
	TupleTableSlot *slots[BATCH_ROWS];
} Insertion;

/* False: there is none any more. */
static bool
read_row(Insertion *in, Datum *values, bool *nulls)
{
	MemoryContext old;
	bool		read;

	ResetPerTupleExprContext(in->estate);
	old = MemoryContextSwitchTo(GetPerTupleMemoryContext(in->estate));
	read = NextCopyFrom(in->cstate, GetPerTupleExprContext(in->estate), values, nulls);
	MemoryContextSwitchTo(old);
	if (!read)
		return false;
	if (in->nrows == in->nslots)
		in->slots[in->nslots++] = MakeSingleTupleTableSlot(in->desc, &TTSOpsHeapTuple);
	ExecStoreHeapTuple(heap_form_tuple(in->desc, values, nulls), in->slots[in->nrows], true);
	if (in->generates)
		ExecComputeStoredGenerated(in->target, in->estate, in->slots[in->nrows], CMD_INSERT);
	in->nrows++;
	return true;
}

static void
insert_batch(Insertion *in)
{
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(in->estate));

	in->cstate->line_buf_valid = false; /* for the context of errors, as the
										 * line */
	table_multi_insert(in->cstate->rel, in->slots, in->nrows, in->command, 0, in->bulk);
	for (int i = 0; i < in->nrows; i++)
	{
		in->cstate->cur_lineno = ++in->ninserted;
		ResetPerTupleExprContext(in->estate);
		if (in->target->ri_NumIndices > 0)
			(void) ls_insert_index_tuples(in->target, in->slots[i], in->estate);
		ExecClearTuple(in->slots[i]);
	}
	MemoryContextSwitchTo(old);
	in->nrows = 0;
}

static uint64
insert_rows(CopyFromState cstate)
{
	int			natts = RelationGetDescr(cstate->rel)->natts;
	const TupleConstr *constr = RelationGetDescr(cstate->rel)->constr;
	Datum	   *values = palloc(Max(natts, 1) * sizeof(Datum));
	bool	   *nulls = palloc(Max(natts, 1) * sizeof(bool));
	Insertion  *in = palloc0(sizeof(Insertion));
	ErrorContextCallback context = {error_context_stack, CopyFromErrorCallback, cstate};

	in->cstate = cstate;
	in->estate = CreateExecutorState();
	in->target = makeNode(ResultRelInfo);
	InitResultRelInfo(in->target, cstate->rel, 0, NULL, 0);
	ExecOpenIndices(in->target, false);
	in->desc = CreateTupleDescCopy(RelationGetDescr(cstate->rel));
	in->generates = constr != NULL && constr->has_generated_stored;
	in->bulk = GetBulkInsertState();
	in->command = GetCurrentCommandId(true);
	error_context_stack = &context;

	while (read_row(in, values, nulls))
	{
		CHECK_FOR_INTERRUPTS();
		if (in->nrows == BATCH_ROWS)
			insert_batch(in);
	}
	if (in->nrows > 0)
		insert_batch(in);

	error_context_stack = context.previous;
	for (int i = 0; i < in->nslots; i++)
		ExecDropSingleTupleTableSlot(in->slots[i]);
	FreeBulkInsertState(in->bulk);
	table_finish_bulk_insert(cstate->rel, 0);
	ExecCloseIndices(in->target);
	FreeExecutorState(in->estate);
	return in->ninserted;
}

/* ---------- the command */

static uint64
copy_rows(const CopyStmt *stmt, Relation rel, ParseState *pstate)
{
	CopyFromState cstate = BeginCopyFrom(pstate, rel, NULL, NULL, false, copy_read,
										 stmt->attlist, stmt->options);
	uint64		rows;

	read_without_domains(cstate);
	rows = insert_rows(cstate);
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
	check_kind(rel);
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
