/*
 * session.h
 *	  What this session is, and what runs in it now.
 *
 * Owners: apply.c makes a session one of the replicator's; executor.c, utility.c and
 * cfunctions.c count what they have on the stack.  All others only ask.
 */
#ifndef LOCKSTEP_SESSION_H
#define LOCKSTEP_SESSION_H

#include "commands/extension.h"

/* ---------- a session of the replicator */

extern bool session_applies(void);
extern bool session_repairs(void);	/* it repairs this node, and has no seqs */

/* From now on, for good.  Called by mode_begin_apply(). */
extern void session_note_apply(bool repairs);

/* ERROR unless this session holds the commits of the node, as a repair must. */
extern void session_require_hold(void);

/* ---------- what is on the stack; each counter goes back when its call ends or fails */

typedef struct Nesting
{
	int			executor;		/* runs of the executor */
	int			utility;		/* utility commands, */
	int			local_utility;	/* of them, those that stay on this node, */
	int			drop_owned;		/* of them, DROP OWNED; in apply sessions, too */
	int			event_trigger;	/* functions of event triggers */
} Nesting;

extern Nesting nesting;

static inline bool
executor_is_running(void)
{
	return nesting.executor > 0;
}

static inline bool
utility_is_running(void)
{
	return nesting.utility > 0;
}

static inline bool
utility_is_local(void)
{
	return nesting.local_utility > 0;
}

/* What an event trigger drops on that occasion is another matter. */
static inline bool
utility_drops_owned(void)
{
	return nesting.drop_owned > 0 && nesting.event_trigger == 0;
}

/*
 * Is what happens now part of a forwarded command, so that the other nodes do
 * it by themselves (an extension's script)?  Then nothing is captured.
 */
static inline bool
utility_is_replayed(void)
{
	return creating_extension && nesting.event_trigger == 0;
}

#endif							/* LOCKSTEP_SESSION_H */
