/*
 * effectcall.c
 *	  Effects that are neither rows nor commands travel as calls of functions.
 *
 * For a notification or a change of a large object, the origin forwards a call, with constant
 * arguments, that has the same effect on any node, at the place where the effect
 * happened.  It is removed from the queue with its subtransaction, like everything else.
 *
 * In apply sessions these calls are the client's own queries.  Any other call of such a
 * function there comes from a constraint, an index or a default of a row that is being
 * applied.  The origin has forwarded its effect, so it must not happen again
 * (effectcall_is_forwarded).
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "tcop/tcopprot.h"

#include "capture.h"
#include "effectcall.h"
#include "indoubt.h"
#include "lockstep.h"
#include "pack.h"
#include "xact.h"

void
effectcall_begin(EffectCall *call, const char *text)
{
	indoubt_before_write();
	memset(call, 0, sizeof(*call));
	call->text = text;
	initStringInfo(&call->params);
	initStringInfo(&call->keys);
}

void
effectcall_add_param(EffectCall *call, const char *text, size_t len)
{
	pack_param(&call->params, text, len);
	call->nparams++;
}

void
effectcall_add_key(EffectCall *call, const LsKey *key)
{
	pack_key(&call->keys, key);
	call->nkeys++;
}

/* What the call makes belongs to the role that made it here. */
static void
append_role(StringInfo settings)
{
	const char *role = GetUserNameFromId(GetUserId(), false);

	appendBinaryStringInfo(settings, "role", 5);
	appendBinaryStringInfo(settings, role, strlen(role) + 1);
}

void
effectcall_forward(EffectCall *call)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = LS_REASON_CALL,.rows = -1};
	StringInfoData settings;

	if (RecoveryInProgress())
		return;					/* the function itself will complain */
	if (capture_is_busy())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot notify or change a large object in a function that is called for the index or output of a row being replicated"),
				 errdetail("Functions of index expressions and of data types must not change data.")));
	initStringInfo(&settings);
	if (call->as_role)
		append_role(&settings);
	query.text = ls_slice_of(call->text);
	query.settings = ls_slice_of_buffer(&settings);
	query.nparams = call->nparams;
	query.params = ls_slice_of_buffer(&call->params);
	query.nkeys = call->nkeys;
	query.keys = ls_slice_of_buffer(&call->keys);
	capture_flush();
	xact_forward(&query);
	pfree(settings.data);
	pfree(call->params.data);
	pfree(call->keys.data);
}

/*
 * In an apply session: is the function that asks called by a forwarded query that
 * begins like this?  Not the whole text: a journal may be older than we are.
 */
bool
effectcall_is_forwarded(const char *beginning)
{
	return debug_query_string != NULL &&
		strncmp(debug_query_string, beginning, strlen(beginning)) == 0;
}
