/*
 * inval.c
 *	  Other sessions learn of changes to the catalogs before the turn is passed.
 *
 * A session that waits until a seq is applied relies on what that transaction has done.  If its
 * caches were still old, it could find a table that was dropped, and a CREATE TABLE of that
 * name would fail.  PostgreSQL sends invalidation messages near the end of a commit, after the
 * turn is passed.  The turn cannot be passed later: then the locks would be gone, and
 * others would change the rows with too low an S.  So the messages are also sent
 * here, when the transaction has become visible; a second invalidation does no harm.
 *
 * They are collected before the commit, while memory may still run out.  What
 * PostgreSQL adds later concerns temporary tables of this session.
 */
#include "postgres.h"

#include "storage/sinval.h"
#include "utils/inval.h"

#include "inval.h"

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
