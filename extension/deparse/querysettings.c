/*
 * querysettings.c
 *	  The settings that came with a query, in an apply session: what sessionsettings.c
 *	  wrote is set here.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "querysettings.h"
#include "session.h"
#include "sessionsettings.h"

static int	settings_level = 0; /* GUC nesting level of them, 0 = none */
static LocalTransactionId settings_lxid;
static char *reset_path = NULL; /* came with the settings */

/* The names with a dot that the origin knew, each with its NUL; data: NULL = not told. */
static StringInfoData custom_names = {NULL};

/*
 * Undo what the last call set.  At the end of the transaction that happens by
 * itself, so a level of an earlier transaction counts for nothing.
 */
static void
settings_undo(void)
{
	if (querysettings_are_set())
		AtEOXact_GUC(true, settings_level);
	settings_level = 0;
	if (reset_path != NULL)
		pfree(reset_path);
	reset_path = NULL;
	if (custom_names.data != NULL)
		pfree(custom_names.data);
	custom_names.data = NULL;
}

bool
querysettings_are_set(void)
{
	return settings_level != 0 && settings_lxid == ls_lxid(MyProc);
}

static void
begin_custom_names(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	if (custom_names.data == NULL)
		initStringInfo(&custom_names);
	MemoryContextSwitchTo(old);
}

static bool
is_custom_name(const char *name)
{
	for (int at = 0; at < custom_names.len; at += (int) strlen(custom_names.data + at) + 1)
	{
		if (pg_strcasecmp(custom_names.data + at, name) == 0)
			return true;
	}
	return false;
}

/*
 * A setting that a user has made up exists from then on, in that session.  This
 * session has met those of many others; the query's has not.
 */
bool
querysettings_is_unknown(const char *name)
{
	return session_applies() && custom_names.data != NULL && querysettings_are_set() &&
		strchr(name, '.') != NULL && (GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) != 0 &&
		!is_custom_name(name);
}

/* Not the value that is in force: the statement's settings have set that. */
void
querysettings_reset_path(bool origin)
{
	if (reset_path != NULL)
		(void) set_config_option("search_path", origin ? reset_path : "pg_catalog", PGC_SUSET,
								 PGC_S_OVERRIDE, GUC_ACTION_SET, true, 0, false);
}

/*
 * What now() says, and literals like 'today', until the transaction ends: the
 * time at the origin.  The server's function for it is meant for parallel
 * workers, and asserts to be in one.
 */
static void
set_transaction_time(const char *value)
{
	int64		time = pg_strtoint64(value);
	int			worker = ParallelWorkerNumber;

	ParallelWorkerNumber = 0;
	SetParallelStartTimestamps(time, time);
	ParallelWorkerNumber = worker;
}

/* names and values alternate; n = 0: back to the session's own. */
void
querysettings_set(char **values, int n)
{
	GucContext	context = PGC_SUSET;

	settings_undo();
	if (n == 0)
		return;
	settings_level = NewGUCNestLevel();
	settings_lxid = ls_lxid(MyProc);
	for (int i = 0; i + 1 < n; i += 2)
	{
		if (strcmp(values[i], LS_SETTING_TIME) == 0)
		{
			set_transaction_time(values[i + 1]);
			continue;
		}
		if (strcmp(values[i], LS_SETTING_RESET_PATH) == 0)
		{
			reset_path = MemoryContextStrdup(TopMemoryContext, values[i + 1]);
			continue;
		}
		if (strcmp(values[i], LS_SETTING_CUSTOM) == 0)
		{
			begin_custom_names();
			context = strcmp(values[i + 1], "user") == 0 ? PGC_USERSET : PGC_SUSET;
			continue;
		}

		/*
		 * What an ordinary user has made up may be a superuser's setting
		 * here, if a module is loaded here only.
		 */
		if (strchr(values[i], '.') == NULL)
			context = PGC_SUSET;
		else if (custom_names.data != NULL)
			appendBinaryStringInfo(&custom_names, values[i], (int) strlen(values[i]) + 1);
		(void) set_config_option(values[i], values[i + 1],
								 context, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	}
}
