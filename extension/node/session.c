/*
 * session.c
 *	  What this session is, and what runs in it now: see session.h.
 */
#include "postgres.h"

#include "lockconflict.h"
#include "session.h"
#include "turn.h"

Nesting		nesting;

static bool in_apply_session = false;
static bool repairs = false;

bool
session_applies(void)
{
	return in_apply_session;
}

bool
session_repairs(void)
{
	return repairs;
}

void
session_note_apply(bool to_repair)
{
	in_apply_session = true;
	repairs = to_repair;
	lockconflict_note_apply();
}

void
session_require_hold(void)
{
	if (!turn_is_held_by_us())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a node can be repaired only while the same session holds its commits"),
				 errhint("This is for lockstepctl verify --repair.")));
}
