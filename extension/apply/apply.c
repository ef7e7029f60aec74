/*
 * apply.c
 *	  Apply sessions: starting one, and who may call what the replicator calls.
 *
 * An apply session is one of the replicator's.  It executes forwarded queries, forwards
 * nothing, and commits at the seq that it is told.
 *
 * The functions for the replicator (lockstepfuncs.c) may be called while another role
 * is set, so grants cannot protect them.  Instead, each call must be the whole text
 * of a query that the client itself sent, in a session that a superuser made an apply
 * session (apply_check_call).
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "apply.h"
#include "cluster.h"
#include "generation.h"
#include "guc.h"
#include "mode.h"
#include "patch.h"
#include "priority.h"
#include "querysettings.h"
#include "session.h"

/* ---------- starting, and who may call */

static void
set_session_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SET, true, 0, false);
}

/*
 * Settings on which reading a value's text depends; the origin writes texts
 * under the same ones (deparse.c).
 */
static const struct
{
	const char *name;
	const char *value;
}			value_settings[] = {
	{"DateStyle", "ISO, YMD"},
	{"IntervalStyle", "postgres"},
	{"TimeZone", "UTC"},
	{"bytea_output", "hex"},
	{"extra_float_digits", "1"},
	{"lc_monetary", "C"},
	{"array_nulls", "on"},
	{"xmloption", "content"},
	{"quote_all_identifiers", "off"},
};

void
apply_value_settings(void)
{
	for (int i = 0; i < lengthof(value_settings); i++)
		set_session_option(value_settings[i].name, value_settings[i].value);
}

void
apply_start(const char *cluster)
{
	const char *ours = cluster_identity();

	if (!ls_is_node() || !OidIsValid(ls_progress_relid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is not part of a lockstep node"),
				 errhint("Set lockstep.node_name and restart the server; CREATE EXTENSION lockstep in the database.")));
	if (ours[0] != '\0' && strcmp(ours, cluster) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database belongs to another cluster"),
				 errdetail("It belongs to \"%s\", the replicator to \"%s\".", ours, cluster)));
	generation_begin_apply();
	set_session_option("session_replication_role", "replica");
	set_session_option("client_encoding", GetDatabaseEncodingName());
	apply_value_settings();
	mode_begin_apply(false);
	priority_begin_apply();
}

/*
 * An apply session of lockstepctl verify --repair: what it does has no seq.  The
 * node stands still meanwhile, held by this very session (commit.c looks again).
 */
void
apply_start_repair(void)
{
	session_require_hold();
	set_session_option("session_replication_role", "replica");
	apply_value_settings();
	mode_begin_apply(true);
}

/*
 * Where the argument list that starts at p ends, NULL if there is more in it
 * than constants and parameters.
 */
static const char *
end_of_arguments(const char *p)
{
	bool		quoted = false;

	for (; *p; p++)
	{
		if (*p == '\\')
			return NULL;		/* whether it quotes depends */
		if (*p == '\'')
			quoted = !quoted;
		else if (!quoted && *p == '(')
			return NULL;
		else if (!quoted && *p == ')')
			return p + 1;
	}
	return NULL;
}

/*
 * Is the client's own query nothing but a call of this function?  Then the caller is
 * the client, and not a function of another role that the query has called.
 */
static bool
is_whole_query(const char *function)
{
	const char *p = debug_query_string;
	size_t		len = strlen(function);

	if (p == NULL || pg_strncasecmp(p, "SELECT lockstep.", 16) != 0)
		return false;
	p += 16;
	if (strncmp(p, function, len) != 0 || p[len] != '(')
		return false;
	p = end_of_arguments(p + len + 1);
	return p != NULL && strspn(p, "; \n") == strlen(p);
}

void
apply_refuse_call(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function lockstep.%s is for the replicator only", function)));
}

void
apply_check_call(const char *function)
{
	if (!session_applies() || InLocalUserIdChange() || !is_whole_query(function))
		apply_refuse_call(function);
}

/* ---------- functions that answer for the origin */

static PGFunction original_current_setting;
static PGFunction original_current_setting_or_null;

static void
refuse_unknown(const char *name)
{
	if (querysettings_is_unknown(name))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("unrecognized configuration parameter \"%s\"", name)));
}

static Datum
instead_of_current_setting(PG_FUNCTION_ARGS)
{
	if (unlikely(session_applies()))
		refuse_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	return original_current_setting(fcinfo);
}

static Datum
instead_of_current_setting_or_null(PG_FUNCTION_ARGS)
{
	if (unlikely(session_applies()) && querysettings_is_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0))))
	{
		if (PG_GETARG_BOOL(1))
			PG_RETURN_NULL();
		refuse_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	}
	return original_current_setting_or_null(fcinfo);
}

/* ---------- values of types that have no input function */

static PGFunction original_pg_node_tree_in;

/* A row may have one, if it was made from a catalog. */
static Datum
instead_of_pg_node_tree_in(PG_FUNCTION_ARGS)
{
	return session_applies() ? textin(fcinfo) : original_pg_node_tree_in(fcinfo);
}

void
apply_replace_functions(void)
{
	ls_replace_function(F_PG_NODE_TREE_IN, instead_of_pg_node_tree_in, &original_pg_node_tree_in,
						"pg_node_tree_in");
	ls_replace_function(F_CURRENT_SETTING_TEXT, instead_of_current_setting, &original_current_setting,
						"current_setting");
	ls_replace_function(F_CURRENT_SETTING_TEXT_BOOL, instead_of_current_setting_or_null,
						&original_current_setting_or_null, "current_setting");
}
