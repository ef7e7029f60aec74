/*
 * sessionsettings.h
 *	  The settings that a forwarded statement or row depends on.
 */
#ifndef LOCKSTEP_SESSIONSETTINGS_H
#define LOCKSTEP_SESSIONSETTINGS_H

#include "lib/stringinfo.h"
#include "nodes/nodes.h"

/* Not a setting, but it travels like one: when the transaction began. */
#define LS_SETTING_TIME "lockstep.transaction_time"

/* Neither: what RESET search_path would give. */
#define LS_SETTING_RESET_PATH "lockstep.reset_search_path"

/*
 * Neither: what follows are all of the settings with a dot in their name that the
 * session has, set by an ordinary user (value "user") or a superuser ("superuser").
 */
#define LS_SETTING_CUSTOM "lockstep.custom"

/* Append name NUL value NUL ..., as in LsQuery.settings. */
extern void sessionsettings_append(StringInfo out);
extern void sessionsettings_append_row_path(StringInfo out, Oid owner);
extern void sessionsettings_append_row(StringInfo out);

/* Plans don't keep what functions have made of other settings than those now. */
extern void sessionsettings_renew_plans(void);
extern void sessionsettings_append_reset_path(StringInfo out);
extern bool ls_runs_script(const Node *stmt);	/* of an extension */

/* Between these the session gives no messages below ERROR. */
extern int	sessionsettings_begin_quiet(void);
extern void sessionsettings_end_quiet(int level);

#endif							/* LOCKSTEP_SESSIONSETTINGS_H */
