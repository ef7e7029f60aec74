/*
 * sessionsettings.c
 *	  The settings that the meaning of a forwarded statement depends on.
 *
 * They all travel with the statement, because the defaults of another node may differ.
 * search_path travels as the schemas that it means now, without those of temporary objects,
 * which no forwarded statement may find.  The time of the transaction is among the settings, so
 * that now() and literals like 'today' have the same value everywhere.  The role
 * comes last, as it may lack the right to set the others.
 *
 * Settings made up by users ('app.tenant') and those of modules travel as well, wherever they
 * were set: for the session, its role, its database or in a configuration file.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

#include "compat.h"
#include "querysettings.h"
#include "sessionsettings.h"

static const char *const names[] = {
	"array_nulls",
	"backslash_quote",
	"bytea_output",
	"createrole_self_grant",
	"DateStyle",
	"default_table_access_method",
	"default_tablespace",
	"default_text_search_config",
	"default_toast_compression",
	"extra_float_digits",
	"IntervalStyle",
	"lc_monetary",
	"lc_numeric",
	"lc_time",
	"quote_all_identifiers",
	"standard_conforming_strings",
	"TimeZone",
	"timezone_abbreviations",
	"transform_null_equals",
	"xmlbinary",
	"xmloption",
};

/*
 * On which a function that is called where a row is applied may depend.  Not those
 * on which reading the row's values does (array_nulls, lc_monetary, xmloption): the
 * values' texts are written for what apply_value_settings() sets.  For DateStyle and
 * IntervalStyle these texts are the same.
 */
static const char *const row_names[] = {
	"backslash_quote",
	"bytea_output",
	"DateStyle",
	"default_text_search_config",
	"extra_float_digits",
	"IntervalStyle",
	"lc_numeric",
	"lc_time",
	"quote_all_identifiers",
	"standard_conforming_strings",
	"TimeZone",
	"timezone_abbreviations",
	"transform_null_equals",
	"xmlbinary",
};

/* value: NULL is as good as '', as it is for SHOW. */
static void
append_setting(StringInfo out, const char *name, const char *value)
{
	if (value == NULL)
		value = "";
	appendBinaryStringInfo(out, name, strlen(name) + 1);
	appendBinaryStringInfo(out, value, strlen(value) + 1);
}

static void
append_schema(StringInfo path, Oid schema)
{
	char	   *name = get_namespace_name(schema);

	if (name != NULL && !isAnyTempNamespace(schema))
		appendStringInfo(path, "%s%s", path->len > 0 ? ", " : "", quote_identifier(name));
}

static char *
search_path_without_temporary(void)
{
	StringInfoData path;
	ListCell   *lc;

	initStringInfo(&path);
	foreach(lc, fetch_search_path(false))
		append_schema(&path, lfirst_oid(lc));
	return path.data;
}

/*
 * For rows whose users' functions (of an index, a generated column, a domain)
 * are called where the row is applied, too: they have to find there what they
 * find here.  Nothing is appended where that can't be, and a session that
 * applies has pg_catalog only: if pg_catalog is not first, as the query's own
 * operators would be other ones; and if the owner, as who they are called there,
 * may not look into one of the schemas.
 */
void
sessionsettings_append_row_path(StringInfo out, Oid owner)
{
	List	   *schemas = fetch_search_path(false);
	StringInfoData path;
	ListCell   *lc;

	initStringInfo(&path);
	append_schema(&path, PG_CATALOG_NAMESPACE);
	foreach(lc, schemas)
	{
		if (lfirst_oid(lc) == PG_CATALOG_NAMESPACE && lc != list_head(schemas))
			return;
		if (lfirst_oid(lc) == PG_CATALOG_NAMESPACE || isAnyTempNamespace(lfirst_oid(lc)))
			continue;
		if (!ls_may_use_schema(lfirst_oid(lc), owner))
			return;
		append_schema(&path, lfirst_oid(lc));
	}
	append_setting(out, "search_path", path.data);
}

/* ---------- settings with a dot in their name */

/* Not lockstep's own, nor its tests', and none that only the server's start sets. */
static bool
is_custom(const struct config_generic *setting)
{
	return setting->group == CUSTOM_OPTIONS &&
		(setting->context == PGC_USERSET || setting->context == PGC_SUSET) &&
		((setting->flags & GUC_CUSTOM_PLACEHOLDER) != 0 || setting->source != PGC_S_DEFAULT) &&
		strncmp(setting->name, "lockstep", strlen("lockstep")) != 0 &&
		!querysettings_is_unknown(setting->name);
}

/*
 * All that the session has, also those that are '' (as SET LOCAL leaves them):
 * where this is read others are unknown.
 */
static void
append_custom(StringInfo out)
{
	int			n;
	struct config_generic **settings = ls_guc_variables(&n);

	for (int superuser = 0; superuser <= 1; superuser++)
	{
		append_setting(out, LS_SETTING_CUSTOM, superuser ? "superuser" : "user");
		for (int i = 0; i < n; i++)
		{
			if (is_custom(settings[i]) && (settings[i]->scontext != PGC_USERSET) == superuser)
				append_setting(out, settings[i]->name, GetConfigOption(settings[i]->name, false, false));
		}
	}
}

/*
 * For rows of which something is computed where they are applied that may depend
 * on settings.  This is called for every row, as a function may have changed them.
 */
void
sessionsettings_append_row(StringInfo out)
{
	for (int i = 0; i < lengthof(row_names); i++)
		append_setting(out, row_names[i], GetConfigOption(row_names[i], false, false));
	append_custom(out);
}

void
sessionsettings_renew_plans(void)
{
	static uint64 made_with = 0;
	StringInfoData now;
	uint64		hash;

	initStringInfo(&now);
	sessionsettings_append_row(&now);
	hash = hash_bytes_extended((unsigned char *) now.data, now.len, 0);
	pfree(now.data);
	if (hash != made_with)
		ResetPlanCache();
	made_with = hash;
}

bool
ls_runs_script(const Node *stmt)
{
	return IsA(stmt, CreateExtensionStmt) || IsA(stmt, AlterExtensionStmt);
}

/*
 * Scripts of extensions set search_path, and go back by pg_settings.reset_val
 * (PostGIS's topology and geocoder do).
 */
void
sessionsettings_append_reset_path(StringInfo out)
{
	append_setting(out, LS_SETTING_RESET_PATH, GetConfigOptionResetString("search_path"));
}

/*
 * A command is parsed and analyzed here, and once more when it runs.  It has
 * notices to give once.
 */
int
sessionsettings_begin_quiet(void)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("client_min_messages", "error", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("log_min_messages", "error", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
sessionsettings_end_quiet(int level)
{
	AtEOXact_GUC(true, level);
}

void
sessionsettings_append(StringInfo out)
{
	int			i;

	for (i = 0; i < lengthof(names); i++)
	{
		const char *value = GetConfigOption(names[i], true, false);

		if (value != NULL)
			append_setting(out, names[i], value);
	}
	append_custom(out);
	append_setting(out, "search_path", search_path_without_temporary());

	/*
	 * they were checked here, where temporary tables of this session are
	 * known
	 */
	append_setting(out, "check_function_bodies", "off");
	append_setting(out, LS_SETTING_TIME, psprintf(INT64_FORMAT, GetCurrentTransactionStartTimestamp()));
	append_setting(out, "role", GetUserNameFromId(GetUserId(), false));
}
