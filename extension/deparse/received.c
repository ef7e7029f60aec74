/*
 * received.c
 *	  SQL function lockstep.received(value bytea, of anyelement): the value whose binary form that
 *	  is, of the type of the second argument.
 *
 * It is in queries that change rows with values whose texts are not exact (exacttext.h).  Anybody
 * may call it: a client that sends parameters in binary calls the same receive functions.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "exacttext.h"
#include "lockstep.h"

LS_FUNCTION(lockstep_received);

typedef struct Receiver
{
	Oid			type;
	Oid			ioparam;
	FmgrInfo	receive;
} Receiver;

static Receiver *
receiver_of(FmgrInfo *flinfo)
{
	Receiver   *r = flinfo->fn_extra;
	Oid			function;

	if (r != NULL)
		return r;
	r = MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(Receiver));
	r->type = get_fn_expr_argtype(flinfo, 1);
	if (!OidIsValid(r->type))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("could not determine the type of a value in binary form")));
	getTypeBinaryInputInfo(r->type, &function, &r->ioparam);
	fmgr_info_cxt(function, &r->receive, flinfo->fn_mcxt);
	return flinfo->fn_extra = r;
}

Datum
lockstep_received(PG_FUNCTION_ARGS)
{
	Receiver   *r;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	r = receiver_of(fcinfo->flinfo);
	PG_RETURN_DATUM(exacttext_receive(&r->receive, r->ioparam, r->type, PG_GETARG_BYTEA_PP(0)));
}
