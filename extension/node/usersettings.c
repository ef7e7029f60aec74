/*
 * usersettings.c
 *	  Settings that users give a database or a role do not reach the sessions of the
 *	  replicator and of lockstepctl.
 *
 * ALTER DATABASE ... SET and ALTER ROLE ... SET are replicated, so a setting that keeps the
 * replicator from connecting to one node would keep it from all.  Connection options
 * take precedence over such settings, but would have to name every setting of every
 * version.  So a session that starts with lockstep.replicate off, which only superusers may
 * request, returns to the values of the server's configuration:
 *
 *  options				lockstep.replicate is checked: all values are remembered
 *  pg_db_role_setting		the server applies the users' settings
 *  first query			settings from there are set back, before the query runs
 *
 * What takes effect before the first query (role, preloaded libraries) is set in the options of the
 * connections (pgclient.c).  Settings of modules that are not loaded yet stay: only
 * the functions of those modules read them.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

#include "compat.h"
#include "usersettings.h"

typedef struct Remembered
{
	struct config_generic *setting;
	char	   *value;
} Remembered;

static Remembered *remembered = NULL;
static int	nremembered = 0;

/* Those of a transaction are set anew by each. */
static bool
may_be_set_by_users(const struct config_generic *setting)
{
	return (setting->context == PGC_SUSET || setting->context == PGC_USERSET) &&
		(setting->flags & GUC_CUSTOM_PLACEHOLDER) == 0 &&
		strncmp(setting->name, "transaction_", strlen("transaction_")) != 0;
}

void
usersettings_remember(void)
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

void
usersettings_before_query(void)
{
	if (unlikely(remembered != NULL))
		set_back();
}
