/*
 * xact_state.c
 *	  The current transaction as the replicator knows it: its number, and whether the
 *	  replicator still knows it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "ls_link.h"
#include "masking.h"
#include "xact_state.h"

XactState	ls_xact;

static uint64 last_xcount = 0;

bool
xact_is_known(void)
{
	return ls_xact.writes;
}

bool
xact_is_told(void)
{
	return ls_xact.told;
}

/*
 * For a transaction, or for a query that is ordered on its own.
 *
 * While the server runs, a later session may get the process ID of this one.  Counting
 * starts at the microsecond in which the session started, so that node, boot, process ID
 * and number name one transaction only, for those who ask for its outcome.
 */
uint64
xact_new_number(void)
{
	if (last_xcount == 0)
		last_xcount = (uint64) Max(MyStartTimestamp, 0);
	return ++last_xcount;
}

/*
 * Transactions up to this number have ended, or cannot ask to commit by a connection that
 * is made now: one that was announced by an earlier connection ends with that connection.
 * So the replicator may report them as aborted if it does not know them: see
 * session_outcome.c.
 */
uint64
xact_last_finished(void)
{
	if (ls_xact.writes && !ls_xact.told && !ls_xact.ended)
		return ls_xact.xcount - 1;
	return last_xcount != 0 ? last_xcount : (uint64) Max(MyStartTimestamp, 0);
}

/* The replicator forgot the transaction when that connection ended. */
bool
xact_told_elsewhere(void)
{
	return ls_xact.told && ls_xact.told_by != link_number();
}

/* ROLLBACK TO restores a savepoint here, but not what the replicator has forgotten. */
void
xact_check_not_ended(void)
{
	if (ls_xact.ended)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not go on with a transaction that the replicator has rolled back"),
				 errdetail("A savepoint was kept here when that was reported: %s", masking_for_reader(ls_xact.ended_why)),
				 errhint("The transaction might succeed if retried.")));
}
