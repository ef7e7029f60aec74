/*
 * hostchoice.c
 *	  What a client that chooses among several hosts is told of this node.
 *
 * libpq's target_session_attrs = read-write, and its like in other drivers, take a server whose
 * default_transaction_read_only is off: they look at the value that the server reports when they
 * connect, or ask with SHOW.  So a session of a node that can't take writes begins with it on.
 *
 * It is nothing but an announcement.  The first command that is more than a SHOW or a SELECT
 * restores the setting, so that a client that has only this host gets the errors that it always
 * gets (57P03, after lockstep.failover_wait), and a session that outlasts the trouble writes.
 *
 * The variable is set past guc.c, so that settings of the role, of the database and of the client
 * come after it and win.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"

#include "generation.h"
#include "guc.h"
#include "hostchoice.h"
#include "mode.h"
#include "turn.h"
#include "writerhold.h"

#define SETTING "default_transaction_read_only"

/* Heartbeats come every second. */
#define SILENT_MS 3000

static bool announced = false;

/*
 * Dropped, drained, or cut off from the replicator for longer than writes wait for it.  A server
 * that has not been attached since its start may not belong to a cluster yet.
 */
static bool
takes_no_writes(void)
{
	return writerhold_turns_away() || generation_unheard_ms() > Max(SILENT_MS, ls_failover_wait);
}

void
hostchoice_at_connection(void)
{
	if (!ls_is_node() || !takes_no_writes())
		return;
	announced = true;
	DefaultXactReadOnly = true;
}

/* The transaction that runs has begun with the setting, as a BEGIN comes here first. */
static void
restore(void)
{
	announced = false;
	DefaultXactReadOnly = false;
	SetConfigOption(SETTING, NULL, PGC_USERSET, PGC_S_SESSION);
	if (!RecoveryInProgress())
		XactReadOnly = DefaultXactReadOnly;
}

void
hostchoice_forget(void)
{
	if (unlikely(announced))
		restore();
}

void
hostchoice_leave_out(void)
{
	if (!announced)
		return;
	announced = false;
	DefaultXactReadOnly = strcmp(GetConfigOptionResetString(SETTING), "on") == 0;
}

/* SERIALIZABLE notes what a transaction reads that may write. */
void
hostchoice_before_query(const PlannedStmt *pstmt)
{
	if (unlikely(announced) &&
		(pstmt->commandType != CMD_SELECT || pstmt->hasModifyingCTE || pstmt->rowMarks != NIL || IsolationIsSerializable()))
		restore();
}

void
hostchoice_before_utility(const PlannedStmt *pstmt)
{
	if (unlikely(announced) && !IsA(pstmt->utilityStmt, VariableShowStmt))
		restore();
}
