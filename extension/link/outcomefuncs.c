/*
 * outcomefuncs.c
 *	  lockstep.transaction_token() and lockstep.outcome().
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "lockstep.h"
#include "ls_link.h"
#include "mode.h"
#include "outcome.h"
#include "request.h"
#include "turn.h"
#include "xact_state.h"

LS_FUNCTION(lockstep_transaction_token);
LS_FUNCTION(lockstep_outcome);

static void
check_is_origin(void)
{
	if (ls_mode() != LS_MODE_ORIGIN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session's transactions are not replicated"),
				 errhint("Ask in a replicated database of a node, with lockstep.replicate on.")));
}

Datum
lockstep_transaction_token(PG_FUNCTION_ARGS)
{
	Token		token;

	check_is_origin();
	xact_tell();
	token = outcome_token();
	PG_RETURN_TEXT_P(cstring_to_text(outcome_token_text(&token)));
}

static const char *
outcome_text(LsPastOutcome fate)
{
	switch (fate)
	{
		case LS_PAST_COMMITTED:
			return "committed";
		case LS_PAST_ABORTED:
			return "aborted";
		case LS_PAST_IN_PROGRESS:
			return "in progress";
		case LS_PAST_UNKNOWN:
			return "unknown";
	}
	return "unknown";
}

static void
report_no_token(const char *given)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" is not the token of a transaction", given),
			 errhint("lockstep.transaction_token() gives one inside of the transaction; an error 08007 names it.")));
}

Datum
lockstep_outcome(PG_FUNCTION_ARGS)
{
	char	   *given = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *seal;
	Token		token;
	uint64		seq;

	if (!outcome_parse_token(given, &token, &seal))
		report_no_token(given);
	check_is_origin();
	link_connect();				/* no seal is known before */
	if (!outcome_is_sealed(&token, seal))
		report_no_token(given);

	/* this transaction itself is in progress: no need to ask */
	if (token.boot == turn_boot_id() && token.pid == (uint32) MyProcPid &&
		ls_xact.writes && token.xcount == ls_xact.xcount)
		PG_RETURN_TEXT_P(cstring_to_text(outcome_text(LS_PAST_IN_PROGRESS)));
	PG_RETURN_TEXT_P(cstring_to_text(outcome_text(request_outcome(&token, false, &seq))));
}
