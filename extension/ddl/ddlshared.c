/*
 * ddlshared.c
 *	  Commands that change what all databases share, from a database that is not replicated.
 *
 * Roles, settings of roles and databases and the like are the same on all nodes, from whatever
 * database they are changed.  But a database without the extension has no table of the progress, by
 * which a node knows after a crash which transactions it has.  So the command runs in a replicated
 * database: a background worker connects there as the same user (sharedworker.c), runs the text that would be
 * forwarded, and commits as any other session.  Locks, order, and nodes that are away are those of any DDL.
 *
 * It is a transaction of its own, and would remain if the caller's were rolled back.  So it is
 * refused within a transaction block, a function and a string of several commands.
 *
 * The caller waits for the worker's end, also when it is cancelled: it passes the cancel on, and
 * the worker's answer says what has become of the command.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/shm_mq.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "ddl.h"
#include "ddlshared.h"
#include "guc.h"
#include "lockconflict.h"

#define QUEUE_SIZE 16384
#define POLL_MS 1000

/* Of the session: on what the command depends, how it commits, and what its client is told. */
static const char *const settings[] = {
	"backslash_quote",
	"client_min_messages",
	"createrole_self_grant",
	"DateStyle",
	"IntervalStyle",
	"lock_timeout",
	"lockstep.commit_wait",
	"lockstep.failover_wait",
	"standard_conforming_strings",
	"synchronous_commit",
	"TimeZone",
	"timezone_abbreviations",
};

/* ---------- the request */

static void
append_settings(StringInfo out)
{
	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i], true, false);

		if (value == NULL)
			continue;
		appendBinaryStringInfo(out, settings[i], strlen(settings[i]) + 1);
		appendBinaryStringInfo(out, value, strlen(value) + 1);
	}
}

static dsm_segment *
make_request(Oid database, const char *text)
{
	SharedRequest request = {.database = database,.session_user = GetSessionUserId(),.user = GetUserId(),
	.encoding = GetDatabaseEncoding()};
	StringInfoData packed;
	dsm_segment *segment;
	char	   *base;

	initStringInfo(&packed);
	append_settings(&packed);
	request.settings = MAXALIGN(sizeof(request));
	request.settings_len = packed.len;
	request.text = request.settings + packed.len;
	request.queue = MAXALIGN(request.text + strlen(text) + 1);

	segment = dsm_create(request.queue + QUEUE_SIZE, 0);
	base = dsm_segment_address(segment);
	memcpy(base, &request, sizeof(request));
	memcpy(base + request.settings, packed.data, packed.len);
	strcpy(base + request.text, text);
	(void) shm_mq_create(base + request.queue, QUEUE_SIZE);
	pfree(packed.data);
	return segment;
}

static BackgroundWorkerHandle *
start_worker(dsm_segment * segment)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "lockstep", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "lockstep_shared_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "lockstep command of process %d", MyProcPid);
	strlcpy(worker.bgw_type, "lockstep command", BGW_MAXLEN);
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(segment));
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a background worker for the command"),
				 errdetail("It changes an object shared by all databases, and runs in a replicated database."),
				 errhint("Increase max_worker_processes, or connect to a replicated database.")));
	return handle;
}

/* ---------- the answer */

/* True: the command is committed.  Its errors are ours. */
static bool
read_message(const void *data, Size size)
{
	StringInfoData message;
	ErrorData	edata;
	char		type;

	initStringInfo(&message);
	appendBinaryStringInfo(&message, data, size);
	type = pq_getmsgbyte(&message);
	if (type == SHARED_COMMITTED)
		return true;
	if (type != 'E' && type != 'N')
		return false;
	pq_parse_errornotice(&message, &edata);
	edata.elevel = Min(edata.elevel, ERROR);
	edata.cursorpos = 0;		/* in a text that the client has not written */
	if (type == 'E' && edata.sqlerrcode == ERRCODE_QUERY_CANCELED)
		CHECK_FOR_INTERRUPTS(); /* which knows why */
	ThrowErrorData(&edata);
	return false;
}

/* False: it is to be tried again, as the worker has no process yet. */
static bool
pass_cancel(BackgroundWorkerHandle *handle)
{
	pid_t		pid;

	if (GetBackgroundWorkerPid(handle, &pid) != BGWH_STARTED)
		return false;
	(void) kill(pid, SIGINT);
	return true;
}

static void
report_no_answer(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the background worker that ran the command ended without an answer"),
			 errdetail("The command may be committed on all nodes, or on none."),
			 errhint("Look whether it is. The server's log may say why the worker ended.")));
}

static void
wait_for_answer(shm_mq_handle * queue, BackgroundWorkerHandle *handle)
{
	bool		cancelled = false;
	bool		committed = false;

	while (!committed)
	{
		Size		size;
		void	   *data;
		shm_mq_result result = shm_mq_receive(queue, &size, &data, true);

		if (result == SHM_MQ_SUCCESS)
			committed = read_message(data, size);
		else if (result == SHM_MQ_DETACHED)
			report_no_answer();
		else
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
		}
		if (!cancelled && (QueryCancelPending || ProcDiePending))
			cancelled = pass_cancel(handle);
		if (!QueryCancelPending || ProcDiePending)
			CHECK_FOR_INTERRUPTS();
	}
	QueryCancelPending = false; /* it came too late */
}

/* ---------- the command */

static void
check_not_in_block(PlannedStmt *pstmt, Oid database, bool is_top_level)
{
	const char *name = GetCommandTagName(CreateCommandTag(pstmt->utilityStmt));
	char	   *other = get_database_name(database);

	if (IsInTransactionBlock(is_top_level))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block of a database that is not replicated", name),
				 errdetail("It changes an object shared by all databases. From here it runs in a replicated database, as a transaction of its own."),
				 other != NULL ? errhint("Run it by itself, or connect to database \"%s\".", other) : 0));
	PreventInTransactionBlock(is_top_level, name);
}

/* It can't be dropped or renamed from within. */
static Oid
not_from_within(const Node *stmt)
{
	if (IsA(stmt, DropdbStmt))
		return get_database_oid(((const DropdbStmt *) stmt)->dbname, true);
	if (IsA(stmt, RenameStmt) && ((const RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
		return get_database_oid(((const RenameStmt *) stmt)->subname, true);
	return InvalidOid;
}

static void
report_not_now(PlannedStmt *pstmt)
{
	if (OidIsValid(not_from_within(pstmt->utilityStmt)) && OidIsValid(lockconflict_applied_database(InvalidOid)))
		ereport(ERROR,
				(errcode(ERRCODE_CANNOT_CONNECT_NOW),
				 errmsg("cannot run %s now", GetCommandTagName(CreateCommandTag(pstmt->utilityStmt))),
				 errdetail("It has to run in a replicated database, and there is none but the one that it is about."),
				 errhint("Use CREATE DATABASE to make another one first.")));
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("cannot run %s now", GetCommandTagName(CreateCommandTag(pstmt->utilityStmt))),
			 errdetail("It changes an object shared by all databases. This database is not replicated, and the replicator is connected to no database of this node."),
			 errhint("Wait until the node is online: see lockstepctl status. In a cluster that has no database yet, set lockstep.replicate to off and run it on every node.")));
}

bool
ddlshared_run(PlannedStmt *pstmt, const char *source, bool is_top_level)
{
	Oid			database = lockconflict_applied_database(not_from_within(pstmt->utilityStmt));
	PlannedStmt *copy = copyObject(pstmt);
	BackgroundWorkerHandle *handle;
	dsm_segment *segment;
	shm_mq	   *queue;
	shm_mq_handle *receiver;

	if (!OidIsValid(database) && ls_unreplicated == LS_UNREPLICATED_ALLOW)
		return false;
	if (!OidIsValid(database))
		report_not_now(pstmt);
	check_not_in_block(pstmt, database, is_top_level);
	segment = make_request(database, ddl_text(&copy, source));
	queue = (shm_mq *) ((char *) dsm_segment_address(segment) +
						((SharedRequest *) dsm_segment_address(segment))->queue);
	shm_mq_set_receiver(queue, MyProc);
	receiver = shm_mq_attach(queue, segment, NULL);
	handle = start_worker(segment);
	shm_mq_set_handle(receiver, handle);
	wait_for_answer(receiver, handle);
	dsm_detach(segment);
	return true;
}
