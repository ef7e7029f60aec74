/*
 * lockstep.c
 *	  Loading the extension: settings (guc.c), shared memory and the modules' hooks.
 *
 * No logic here.  Everything is set up once, in the postmaster, because the
 * interposition on the heap access method has to be there before the first
 * backend, and because the turn lives in shared memory.  A server without
 * lockstep.node_name has the shared memory and the SQL functions, and none of
 * the hooks: it pays nothing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"

#include "compat.h"
#include "lockstep.h"
#include "outsiderun.h"
#include "points.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* Nobody waits at a point, unless a module says so. */
static LsPointHook no_point_hook = NULL;
LsPointHook *ls_point_hook = &no_point_hook;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	turn_shmem_request();
	generation_shmem_request();
	doubt_shmem_request();
	staleness_shmem_request();
	conflict_shmem_request();
	sequence_shmem_request();
	outsiderun_shmem_request();
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	turn_shmem_startup();
	generation_shmem_startup();
	doubt_shmem_startup();
	staleness_shmem_startup();
	conflict_shmem_startup();
	sequence_shmem_startup();
	outsiderun_shmem_startup();
	LWLockRelease(AddinShmemInitLock);

	/* a module loaded with us may have a worker that calls nextval (pg_cron) */
	callers_look();
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockstep must be loaded via shared_preload_libraries"),
				 errhint("Add lockstep to shared_preload_libraries in postgresql.conf and restart the server.")));

	guc_define();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;

	if (!ls_is_node())
		return;

	ls_point_hook = (LsPointHook *) find_rendezvous_variable("lockstep_point");
	outsiderun_init();
	heap_interpose();
	relation_init();
	sequence_init();
	sequence_drop_init();
	membership_init();
	usersettings_init();
	notify_init();
	largeobject_init();
	capture_init();
	callwatch_init();
	utility_init();
	select_init();
	foreignkey_init();
	mode_init();
	xact_init();
	conflict_init();
	apply_init();
	unproven_init();
}
