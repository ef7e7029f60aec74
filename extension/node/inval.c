/*
 * inval.c
 *	  Sessions of a node hear of changes to the catalogs before the turn passes.
 *
 * Whoever waits for the turn to reach a seq relies on what that transaction has
 * done, so its caches must not show what was before: a table that was dropped is
 * found once more otherwise, and a CREATE TABLE of that name fails.  PostgreSQL
 * tells the other sessions when a commit is nearly done, after the point where
 * the turn is passed.  (Passing it later would not do: then the locks are gone,
 * and others would change the rows with too low an S.)  So the messages are
 * sent by ourselves, too, when the transaction has become visible; to hear of a
 * change twice does no harm.
 *
 * They are collected before the commit, where memory may still run out.  What
 * PostgreSQL adds after that concerns temporary tables of this session.
 */
#include "postgres.h"

#include "storage/sinval.h"
#include "utils/inval.h"

#include "lockstep.h"

static SharedInvalidationMessage *messages; /* in the transaction's memory */
static int	nmessages = 0;

void
inval_collect(void)
{
	bool		init_file;

	nmessages = xactGetCommittedInvalidationMessages(&messages, &init_file);
}

/* Does not fail. */
void
inval_send(void)
{
	if (nmessages > 0)
		SendSharedInvalidMessages(messages, nmessages);
	nmessages = 0;
}

void
inval_forget(void)
{
	nmessages = 0;
}
