/*
 * lockstep_fault.c
 *	  For tests only: makes the COMMIT of an apply session fail, or wait.
 *
 * Constraints are silent under the replica role, so nothing that a client could
 * do makes a COMMIT fail on a peer.  This module, preloaded on one node, does:
 * with lockstep_fault.apply_commit = 'error' every transaction of an apply session
 * that wrote something fails in PRE_COMMIT; with 'wait' it stays there until the
 * setting is changed and the configuration reloaded.
 *
 * With lockstep_fault.slow_invalidations a commit of an apply session stops for
 * so many milliseconds when it is visible and its locks are still held, before
 * PostgreSQL tells other sessions what has changed in the catalogs.
 *
 * lockstep_fault.points names the directory of orders for the hand-over points of
 * extension/base/points.h, which replicator/base/points.c obeys.
 *
 * It also is a provider of security labels, "fault", which takes any.
 *
 * lockstep_fault.fail_on_message makes the reporting of messages that contain
 * it fail, once they reach the server's log: an error at a place where there
 * is none otherwise.
 *
 * lockstep_fault.die_on_message kills the process that logs this message.
 *
 * A query that contains lockstep_fault.slow_parse is analyzed until somebody has
 * sent its session a cancel request.
 *
 * With lockstep_fault.full_disk an apply session has no room on its disk for queries that
 * contain it.
 *
 * With lockstep_fault.numbers_in, a database, a background worker numbers rows there, once
 * there is a table "numbered" and its sequence: its own code calls nextval, as pg_cron's does.
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/seclabel.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "../../replicator/base/points.h"
#include "compat.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);
PGDLLEXPORT void lockstep_fault_numberer(Datum arg);

typedef enum FaultMode
{
	FAULT_NONE,
	FAULT_ERROR,
	FAULT_WAIT
}			FaultMode;

static const struct config_enum_entry fault_modes[] = {
	{"none", FAULT_NONE, false},
	{"error", FAULT_ERROR, false},
	{"wait", FAULT_WAIT, false},
	{NULL, 0, false}
};

static int	apply_commit = FAULT_NONE;

static int	slow_invalidations = 0;

static char *points = NULL;

static char *numbers_in = NULL;

static char *fail_on_message = NULL;
static char *die_on_message = NULL;
static emit_log_hook_type prev_emit_log_hook = NULL;

static char *full_disk = NULL;
static char *slow_parse = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;

static void
fault_in_log(ErrorData *edata)
{
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (die_on_message != NULL && die_on_message[0] != '\0' &&
		edata->elevel == LOG && strcmp(edata->message, die_on_message) == 0)
		kill(getpid(), SIGKILL);
	if (fail_on_message != NULL && fail_on_message[0] != '\0' &&
		edata->elevel == WARNING && strstr(edata->message, fail_on_message) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("reporting made to fail by lockstep_fault")));
}

/* The configuration is reread here because an apply session in PRE_COMMIT does
 * not get back to its main loop. */
static void
wait_for_reload(void)
{
	while (apply_commit == FAULT_WAIT)
	{
		CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}

static void
fault_at_commit(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT || apply_commit == FAULT_NONE)
		return;
	if (strcmp(application_name, "lockstep apply") != 0)
		return;
	if (GetTopTransactionIdIfAny() == InvalidTransactionId)
		return;

	if (apply_commit == FAULT_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("COMMIT made to fail by lockstep_fault")));
	wait_for_reload();
}

static void
fault_at_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase == RESOURCE_RELEASE_BEFORE_LOCKS && is_commit && is_top_level && slow_invalidations > 0 &&
		strcmp(application_name, "lockstep apply") == 0 && GetTopTransactionIdIfAny() != InvalidTransactionId)
		pg_usleep(slow_invalidations * 1000L);
}

static void
fault_in_analysis(ParseState *pstate, Query *query, LsJumbleState *jstate)
{
	if (slow_parse != NULL && slow_parse[0] != '\0' && strstr(pstate->p_sourcetext, slow_parse) != NULL)
	{
		for (int ms = 0; ms < 20000 && !*(volatile sig_atomic_t *) &QueryCancelPending; ms++)
			pg_usleep(1000);
	}
	if (full_disk != NULL && full_disk[0] != '\0' && strcmp(application_name, "lockstep apply") == 0 &&
		strstr(pstate->p_sourcetext, full_disk) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("no room, as lockstep_fault says")));
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

static void
fault_at_point(const char *name)
{
	if (points[0] == '\0')
		return;
	if (!points_armed)
		points_begin(points, PostmasterPid);
	point_reached(name);
}

static void
take_label(const ObjectAddress *object, const char *label)
{
}

/* False: there is no such table yet. */
static bool
number_a_row(void)
{
	Oid			sequence;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sequence = RelnameGetRelid("numbered_n_seq");
	if (OidIsValid(sequence))
	{
		Datum		values[] = {DirectFunctionCall1(nextval_oid, ObjectIdGetDatum(sequence))};
		Oid			types[] = {INT8OID};

		SPI_connect();
		SPI_execute_with_args("INSERT INTO numbered (n) VALUES ($1)", 1, types, values, NULL, false, 0);
		SPI_finish();
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return OidIsValid(sequence);
}

void
lockstep_fault_numberer(Datum arg)
{
	int			rows = 0;

	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(numbers_in, NULL, 0);
	while (rows < 5)
	{
		if (number_a_row())
			rows++;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	proc_exit(0);
}

static void
register_numberer(void)
{
	BackgroundWorker worker = {
		.bgw_name = "lockstep_fault numberer",
		.bgw_type = "lockstep_fault numberer",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 1,
		.bgw_function_name = "lockstep_fault_numberer"
	};

	Dl_info		us;

	if (dladdr(lockstep_fault_numberer, &us) == 0)
		elog(ERROR, "lockstep_fault does not know where it is");
	strlcpy(worker.bgw_library_name, us.dli_fname, sizeof(worker.bgw_library_name));
	RegisterBackgroundWorker(&worker);
}

void
_PG_init(void)
{
	DefineCustomEnumVariable("lockstep_fault.apply_commit",
							 "What happens when an apply session commits.",
							 NULL,
							 &apply_commit,
							 FAULT_NONE,
							 fault_modes,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("lockstep_fault.slow_invalidations",
							"How long a commit of an apply session stops before others hear of its changes.",
							NULL,
							&slow_invalidations,
							0, 0, 10000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.fail_on_message",
							   "Warnings that contain this can't be reported.",
							   NULL,
							   &fail_on_message,
							   "",
							   PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.die_on_message",
							   "Kills the process that logs this message.",
							   NULL,
							   &die_on_message,
							   "",
							   PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.slow_parse",
							   "Queries that contain this are analyzed until they are cancelled.",
							   NULL,
							   &slow_parse,
							   "",
							   PGC_USERSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.full_disk",
							   "Queries of apply sessions that contain this find no room on the disk.",
							   NULL,
							   &full_disk,
							   "",
							   PGC_SIGHUP, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.points",
							   "Directory with orders for hand-over points.",
							   NULL,
							   &points,
							   "",
							   PGC_POSTMASTER, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("lockstep_fault.numbers_in",
							   "Database in which a background worker numbers rows.",
							   NULL,
							   &numbers_in,
							   "",
							   PGC_POSTMASTER, 0,
							   NULL, NULL, NULL);
	MarkGUCPrefixReserved("lockstep_fault");
	*find_rendezvous_variable("lockstep_point") = fault_at_point;
	register_label_provider("fault", take_label);
	if (numbers_in[0] != '\0')
		register_numberer();
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = fault_in_log;
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = fault_in_analysis;
	RegisterXactCallback(fault_at_commit, NULL);
	RegisterResourceReleaseCallback(fault_at_release, NULL);
}
