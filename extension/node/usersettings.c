/*
 * usersettings.c
 *	  Settings that users give a database or a role reach none of the replicator's
 *	  and lockstepctl's sessions.
 *
 * ALTER DATABASE ... SET and ALTER ROLE ... SET are replicated, so what locks the
 * replicator out of one node locks it out of all, at its next connection.  Its
 * options outrank such a setting, but they would have to name every one there
 * is, of every version.  So a session that begins with lockstep.replicate off (its options
 * say so, a client's can, too: only superusers may) goes back to what the
 * server's own configuration says:
 *
 *	 options		the value of lockstep.replicate is checked: all values are remembered
 *	 pg_db_role_setting		the server sets what users want
 *	 first query	what came from there is set back, before the query runs
 *
 * What acts before the first query stands in the options of the connections
 * (pgclient.c): role, the libraries to be preloaded.  Settings of modules that are
 * not loaded yet stay: nobody but their functions asks for them.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

#include "compat.h"
#include "lockstep.h"

typedef struct Remembered
{
	struct config_generic *setting;
	char	   *value;
} Remembered;

static Remembered *remembered = NULL;
static int	nremembered = 0;

static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;

/* Those of a transaction are set anew by each. */
static bool
may_be_set_by_users(const struct config_generic *setting)
{
	return (setting->context == PGC_SUSET || setting->context == PGC_USERSET) &&
		(setting->flags & GUC_CUSTOM_PLACEHOLDER) == 0 &&
		strncmp(setting->name, "transaction_", strlen("transaction_")) != 0;
}

static void
remember(void)
{
	int			n;
	struct config_generic **all;

	if (remembered != NULL || !IsUnderPostmaster || IsParallelWorker() || !IsInitProcessingMode())
		return;
	all = ls_guc_variables(&n);
	remembered = MemoryContextAlloc(TopMemoryContext, n * sizeof(Remembered));
	for (int i = 0; i < n; i++)
	{
		const char *value;

		if (!may_be_set_by_users(all[i]))
			continue;
		value = GetConfigOption(all[i]->name, true, false);
		remembered[nremembered].setting = all[i];
		remembered[nremembered].value = MemoryContextStrdup(TopMemoryContext, value != NULL ? value : "");
		nremembered++;
	}
}

static bool
came_from_users(const struct config_generic *setting)
{
	return setting->source >= PGC_S_GLOBAL && setting->source <= PGC_S_DATABASE_USER;
}

static void
set_back(void)
{
	Remembered *all = remembered;
	int			n = nremembered;

	remembered = NULL;			/* once */
	nremembered = 0;
	for (int i = 0; i < n; i++)
	{
		if (came_from_users(all[i].setting))
			(void) set_config_option(all[i].setting->name, all[i].value, PGC_SUSET, PGC_S_OVERRIDE,
									 GUC_ACTION_SET, true, WARNING, false);
		pfree(all[i].value);
	}
	pfree(all);
}

static void
post_parse_analyze(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (unlikely(remembered != NULL))
		set_back();
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

void
usersettings_init(void)
{
	guc_session_begins_off = remember;
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = post_parse_analyze;
}
