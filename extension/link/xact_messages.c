/*
 * xact_messages.c
 *	  Messages of the replicator that concern the current transaction, outside of the
 *	  wait for the verdict; and waiting until this node has applied a seq.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/wait_event.h"

#include "contended.h"
#include "lockstep.h"
#include "ls_link.h"
#include "masking.h"
#include "turn.h"
#include "xact_state.h"

/*
 * Text of another server for the client.  It should be valid in this database's encoding;
 * if it is not, its non-ASCII bytes are replaced.
 */
char *
xact_text_of(LsSlice s)
{
	char	   *text = pnstrdup((const char *) s.data, s.len);

	if (!pg_verifymbstr(text, s.len, true))
		for (size_t i = 0; i < s.len; i++)
			if (IS_HIGHBIT_SET(text[i]) || text[i] == '\0')
				text[i] = '?';
	return text;
}

void
xact_report_error(const LsErrorFields *e)
{
	const uint8_t *s = e->sqlstate.data;
	char	   *detail = xact_text_of(e->detail);

	ereport(ERROR,
			(errcode(MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4])),
			 errmsg_internal("%s", xact_text_of(e->message)),
			 e->detail.len > 0 ? errdetail_internal("%s", masking_for_reader(detail)) : 0,
			 e->detail.len > 0 ? errdetail_log("%s", masking_for_log(detail)) : 0,
			 e->hint.len > 0 ? errhint("%s", xact_text_of(e->hint)) : 0));
}

static void
report_closed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("this node does not take writes yet"),
			 errdetail("Since the server started, the replicator has not opened it."),
			 errhint("The replicator does so as soon as it has reached the node and brought it up to date: see lockstepctl status.")));
}

void
xact_connect(void)
{
	link_connect_or_wait();
	if (!turn_is_open())
		report_closed();
}

/*
 * The connection was lost before the transaction asked, and with it what the replicator knew of
 * the transaction.
 */
void
xact_report_lost(void)
{
	if (!link_loss_is_passing())
		link_report_lost();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not go on with the transaction, because the connection to the replicator was lost"),
			 errdetail_internal("%s", link_lost_message()),
			 errhint("The transaction might succeed if retried.")));
}

bool
xact_has_message(LinkResult result)
{
	if (result == LINK_LOST)
		xact_report_lost();
	return result == LINK_MESSAGE;
}

/*
 * A message that came while the transaction was not waiting for its verdict.  A grant
 * raises *seq.
 */
void
xact_message(LsMsgType type, LsSlice payload, uint64 *seq)
{
	LsGranted	granted;
	LsVerdict	verdict;
	const char *wrong = NULL;

	if (type == LS_MSG_GRANTED)
	{
		wrong = ls_get_granted(payload, &granted);
		if (wrong == NULL && granted.xcount == ls_xact.xcount)
		{
			ls_xact.locks_granted = Max(ls_xact.locks_granted, granted.asked);
			*seq = Max(*seq, granted.seq);
		}
	}
	else if (type == LS_MSG_VERDICT)
	{
		wrong = ls_get_verdict(payload, &verdict);
		if (wrong == NULL && verdict.xcount == ls_xact.xcount)
		{
			ls_xact.told = false;
			ls_xact.ended = true;
			contended_note(verdict.contended);
			strlcpy(ls_xact.ended_why, xact_text_of(verdict.error.detail.len > 0 ? verdict.error.detail :
													verdict.error.message), sizeof(ls_xact.ended_why));
			if (verdict.outcome == LS_OUTCOME_ROLLED_BACK)
				xact_report_error(&verdict.error);
			wrong = "a verdict was given before it was asked for";
		}
	}
	if (wrong != NULL)
		link_report_violation(wrong);
}

/*
 * Wait until this node has applied seq.  A node that is dropped meanwhile may never apply
 * it, but loses the link, which ends the wait.
 */
void
xact_wait_applied(uint64 seq)
{
	uint64		granted = 0;
	LsMsgType	type;
	LsSlice		payload;

	while (turn_must_wait(seq))
	{
		if (xact_has_message(link_receive_applying(&type, &payload, -1, PG_WAIT_EXTENSION)))
			xact_message(type, payload, &granted);
		CHECK_FOR_INTERRUPTS();
	}
}
