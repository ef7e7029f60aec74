/*
 * priorityfuncs.c
 *	  The function behind the view lockstep.priorities.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "lockstepfuncs.h"
#include "priority.h"

LS_FUNCTION(lockstep_session_priorities);

static const char *const kinds[] = {
	[LS_PRIORITY_CLIENT] = "client",
	[LS_PRIORITY_WORKER] = "parallel worker",
	[LS_PRIORITY_APPLY] = "apply",
	[LS_PRIORITY_REPLICATOR] = "replicator",
};

static void
put(Datum *values, bool *nulls, int column, int nice)
{
	values[column] = Int32GetDatum(nice);
	nulls[column] = nice == LS_NO_PRIORITY;
}

Datum
lockstep_session_priorities(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsPriority	priority;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < priority_count(); i++)
	{
		Datum		values[5];
		bool		nulls[5] = {false};

		if (!priority_of(i, &priority))
			continue;
		values[0] = Int32GetDatum(priority.pid);
		values[1] = CStringGetTextDatum(kinds[priority.kind]);
		put(values, nulls, 2, priority.asked);
		put(values, nulls, 3, priority.nice);
		put(values, nulls, 4, priority.autogroup);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
