/*
 * apply.c
 *	  When the session is the replicator: it executes forwarded queries, forwards
 *	  nothing, and commits at the seq it is told.
 *
 * The functions for the replicator (lockstepfuncs.c) may be called while
 * another role is set, so their being callable is not a matter of grants: each
 * has to be the whole text of a query that the client itself sent, in a session
 * that a superuser made an apply session (apply_check_call).
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
#include "compat.h"
#include "rights.h"

static bool in_apply_session = false;
static bool repairs = false;

bool
apply_session(void)
{
	return in_apply_session;
}

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
	in_apply_session = true;
	conflict_note_apply();
	mode_forget();
}

/*
 * An apply session of lockstepctl verify --repair: what it does has no seq.  The
 * node stands still meanwhile, held by this very session (commit.c looks again).
 */
void
apply_start_repair(void)
{
	apply_require_hold();
	set_session_option("session_replication_role", "replica");
	apply_value_settings();
	in_apply_session = true;
	repairs = true;
	conflict_note_apply();
	mode_forget();
}

bool
apply_repairs(void)
{
	return repairs;
}

void
apply_require_hold(void)
{
	if (!turn_is_held_by_us())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a node can be repaired only while the same session holds its commits"),
				 errhint("This is for lockstepctl verify --repair.")));
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
 * Is the client's own query nothing but a call of this function?  Then nobody
 * else's code can be what calls it, unless that query has called it: but others'
 * code runs with others' rights.
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
apply_check_call(const char *function)
{
	if (in_apply_session && !InLocalUserIdChange() && is_whole_query(function))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("function lockstep.%s is for the replicator only", function)));
}

/* ---------- settings of one query */

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
	if (apply_has_settings())
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
apply_has_settings(void)
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
 * A setting that somebody has made up exists from then on, in that session.  This
 * session has met those of many others; the query's has not.
 */
bool
apply_setting_is_unknown(const char *name)
{
	return in_apply_session && custom_names.data != NULL && apply_has_settings() &&
		strchr(name, '.') != NULL && (GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) != 0 &&
		!is_custom_name(name);
}

static PGFunction original_current_setting;
static PGFunction original_current_setting_or_null;

static void
refuse_unknown(const char *name)
{
	if (apply_setting_is_unknown(name))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("unrecognized configuration parameter \"%s\"", name)));
}

static Datum
instead_of_current_setting(PG_FUNCTION_ARGS)
{
	if (unlikely(in_apply_session))
		refuse_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	return original_current_setting(fcinfo);
}

static Datum
instead_of_current_setting_or_null(PG_FUNCTION_ARGS)
{
	if (unlikely(in_apply_session) && apply_setting_is_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0))))
	{
		if (PG_GETARG_BOOL(1))
			PG_RETURN_NULL();
		refuse_unknown(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	}
	return original_current_setting_or_null(fcinfo);
}

/* Not the value that is in force: the statement's settings have set that. */
void
apply_reset_path(bool origin)
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
apply_settings(char **values, int n)
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

/* ---------- values of types that nobody may write */

static PGFunction original_pg_node_tree_in;

/* A row may have one, if it was made from a catalog. */
static Datum
instead_of_pg_node_tree_in(PG_FUNCTION_ARGS)
{
	return in_apply_session ? textin(fcinfo) : original_pg_node_tree_in(fcinfo);
}

void
apply_init(void)
{
	ls_replace_function(F_PG_NODE_TREE_IN, instead_of_pg_node_tree_in, &original_pg_node_tree_in,
						"pg_node_tree_in");
	ls_replace_function(F_CURRENT_SETTING_TEXT, instead_of_current_setting, &original_current_setting,
						"current_setting");
	ls_replace_function(F_CURRENT_SETTING_TEXT_BOOL, instead_of_current_setting_or_null,
						&original_current_setting_or_null, "current_setting");
	rights_init();
	applyrow_init();
}
