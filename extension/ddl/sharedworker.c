/*
 * sharedworker.c
 *	  The background worker that runs a command for a session in a database that is not
 *	  replicated (ddlshared.c).
 *
 * It connects as the bootstrap superuser, whom no limit and no missing CONNECT privilege keeps out of
 * the database, and becomes the session's user before it parses the command, which has that
 * user's rights only.  Only commands on shared objects get here, for which no event trigger
 * fires.  Its errors and notices go to the session.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shm_mq.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ddlshared.h"
#include "lockstep.h"
#include "mode.h"

static void
become(const SharedRequest *request)
{
	SetConfigOption("session_authorization", GetUserNameFromId(request->session_user, false),
					PGC_SUSET, PGC_S_SESSION);
	if (request->user != request->session_user)
		SetConfigOption("role", GetUserNameFromId(request->user, false), PGC_USERSET, PGC_S_SESSION);
}

/* The database or the role may have others; the session's timeouts end the session's wait. */
static void
undo_settings(void)
{
	static const char *const values[][2] = {
		{"default_transaction_deferrable", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"lockstep.replicate", "on"},
		{"statement_timeout", "0"},
		{"transaction_timeout", "0"},
	};

	for (int i = 0; i < lengthof(values); i++)
	{
		if (GetConfigOption(values[i][0], true, false) != NULL)
			SetConfigOption(values[i][0], values[i][1], PGC_SUSET, PGC_S_SESSION);
	}
}

static void
take_settings(const SharedRequest *request)
{
	const char *at = (const char *) request + request->settings;
	const char *end = at + request->settings_len;

	SetConfigOption("client_encoding", pg_encoding_to_char(request->encoding), PGC_USERSET, PGC_S_SESSION);
	while (at < end)
	{
		const char *name = at;
		const char *value = name + strlen(name) + 1;

		SetConfigOption(name, value, PGC_SUSET, PGC_S_SESSION);
		at = value + strlen(value) + 1;
	}
}

static PlannedStmt *
parse(const char *text)
{
	RawStmt    *raw = linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT));
	PlannedStmt *pstmt = makeNode(PlannedStmt);

	pstmt->commandType = CMD_UTILITY;
	pstmt->canSetTag = true;
	pstmt->utilityStmt = raw->stmt;
	pstmt->stmt_location = raw->stmt_location;
	pstmt->stmt_len = raw->stmt_len;
	return pstmt;
}

static void
run(const SharedRequest *request)
{
	const char *text = (const char *) request + request->text;
	QueryCompletion completion;

	undo_settings();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	take_settings(request);
	text = pg_any_to_server(text, strlen(text), request->encoding);
	text = MemoryContextStrdup(TopMemoryContext, text);
	debug_query_string = text;
	pgstat_report_activity(STATE_RUNNING, text);
	become(request);
	if (ls_mode() != LS_MODE_ORIGIN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the database in which the command was to run is not replicated any more")));
	PushActiveSnapshot(GetTransactionSnapshot());
	InitializeQueryCompletion(&completion);
	ProcessUtility(parse(text), text, false, PROCESS_UTILITY_TOPLEVEL, NULL, NULL, None_Receiver, &completion);
	if (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	debug_query_string = NULL;
	pgstat_report_activity(STATE_IDLE, NULL);
}

void
lockstep_shared_main(Datum arg)
{
	dsm_segment *segment;
	SharedRequest *request;
	shm_mq	   *queue;
	StringInfoData message;

	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	segment = dsm_attach(DatumGetUInt32(arg));
	if (segment == NULL)		/* the session has ended */
		proc_exit(0);
	request = dsm_segment_address(segment);
	queue = (shm_mq *) ((char *) request + request->queue);
	shm_mq_set_sender(queue, MyProc);
	pq_redirect_to_shm_mq(segment, shm_mq_attach(queue, segment, NULL));

	BackgroundWorkerInitializeConnectionByOid(request->database, InvalidOid, 0);
	run(request);
	pq_beginmessage(&message, SHARED_COMMITTED);
	pq_endmessage(&message);
	proc_exit(0);
}
