/*
 * ddlforward.c
 *	  A utility command on its way: asking for its tables first, and the query that
 *	  the other nodes get.
 */
#include "postgres.h"

#include "utils/inval.h"

#include "ddl.h"

/* How often a command's tables may change while it waits for their locks. */
#define MAX_LOOKS 10

/* ---------- asking first */

static bool
has_been_asked(const DdlTargets *asked, const LsKey *key)
{
	int			i;

	for (i = 0; i < asked->nkeys; i++)
	{
		if (asked->keys[i].hash == key->hash && asked->keys[i].mode == key->mode)
			return true;
	}
	return false;
}

static bool
all_asked(const DdlTargets *asked, const DdlTargets *now)
{
	int			i;

	for (i = 0; i < now->nkeys; i++)
	{
		if (!has_been_asked(asked, &now->keys[i]))
			return false;
	}
	return true;
}

void
ddl_ask_first(const char *name, DdlFindTargets find, void *arg, DdlTargets *targets, bool ddl)
{
	DdlTargets	asked;
	int			looks = 0;

	do
	{
		if (looks++ == MAX_LOOKS)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not lock the tables of %s", name),
					 errdetail("They were changed again and again on other nodes."),
					 errhint("The transaction might succeed if retried.")));
		asked = *targets;
		/* find() may write its keys over them */
		asked.keys = palloc(asked.nkeys * sizeof(LsKey));
		memcpy(asked.keys, targets->keys, asked.nkeys * sizeof(LsKey));
		xact_lock_first(asked.keys, asked.nkeys, ddl);
		AcceptInvalidationMessages();
		find(arg, targets);
	} while (!all_asked(&asked, targets));
}

/* ---------- forwarding */

void
ddl_forward(const char *text, const char *const *params, int nparams, const DdlTargets *targets,
			bool catalogs)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,.rows = -1};
	StringInfoData settings;
	StringInfoData packed;
	StringInfoData keys;
	int			i;

	initStringInfo(&settings);
	settings_append(&settings);
	if (targets->runs_script)
		settings_append_reset_path(&settings);
	initStringInfo(&packed);
	for (i = 0; i < nparams; i++)
		statement_pack_param(&packed, params[i], strlen(params[i]));
	initStringInfo(&keys);
	for (i = 0; i < targets->nkeys; i++)
		statement_pack_key(&keys, &targets->keys[i]);
	query.text = ls_slice_of(text);
	query.settings = ls_slice_of_buffer(&settings);
	query.nparams = nparams;
	query.params = ls_slice_of_buffer(&packed);
	query.nkeys = targets->nkeys;
	query.keys = ls_slice_of_buffer(&keys);
	query.ddl = catalogs;
	capture_flush();
	xact_forward(&query);
	pfree(settings.data);
	pfree(packed.data);
	pfree(keys.data);
}
