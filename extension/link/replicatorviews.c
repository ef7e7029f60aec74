/*
 * replicatorviews.c
 *	  What the replicator knows, as rows: lockstep.conflicts and its kind.
 *
 * The replicator sends tables of texts, which are converted to the types that the SQL function
 * declares.  A newer replicator may send more columns, an older one fewer.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "lockstep.h"
#include "mode.h"
#include "request.h"
#include "xact.h"

LS_FUNCTION(lockstep_replicator_facts);

static LsFactsKind
kind_of(const char *name)
{
	if (strcmp(name, "conflicts") == 0)
		return LS_FACTS_CONFLICTS;
	if (strcmp(name, "conflict counts") == 0)
		return LS_FACTS_COUNTS;
	if (strcmp(name, "waits") == 0)
		return LS_FACTS_WAITS;
	if (strcmp(name, "nodes") == 0)
		return LS_FACTS_NODES;
	if (strcmp(name, "events") == 0)
		return LS_FACTS_EVENTS;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the replicator keeps no facts \"%s\"", name)));
}

static void
put_row(ReturnSetInfo *rsinfo, AttInMetadata *input, LsSlice *cells, uint32 ncolumns)
{
	int			natts = rsinfo->setDesc->natts;
	char	  **values = palloc0(natts * sizeof(char *));
	HeapTuple	tuple;

	for (uint32 i = 0; i < ncolumns; i++)
	{
		LsSlice		cell;

		if (ls_next_param(cells, &cell) && cell.data != NULL && (int) i < natts)
			values[i] = xact_text_of(cell);
	}
	tuple = BuildTupleFromCStrings(input, values);
	tuplestore_puttuple(rsinfo->setResult, tuple);
}

Datum
lockstep_replicator_facts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsFactsKind kind = kind_of(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	AttInMetadata *input;
	LsFacts		facts;

	if (ls_mode() != LS_MODE_ORIGIN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session does not know the replicator"),
				 errhint("Ask in a replicated database of a node, with lockstep.replicate on.")));
	InitMaterializedSRF(fcinfo, 0);
	input = TupleDescGetAttInMetadata(rsinfo->setDesc);
	request_facts(kind, &facts);
	for (uint32 i = 0; i < facts.ncells; i += facts.ncolumns)
	{
		CHECK_FOR_INTERRUPTS();
		put_row(rsinfo, input, &facts.cells, facts.ncolumns);
	}
	return (Datum) 0;
}
