/*
 * lockstep.c
 *	  Loading the extension: settings (guc.c) and hooks (hooks.c).
 *
 * Everything is set up once, in the postmaster, because the interposition on the
 * heap access method has to be there before the first backend, and because the turn
 * lives in shared memory.  A server without lockstep.node_name has the shared memory and
 * the SQL functions, and none of the other hooks: it pays nothing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "guc.h"
#include "hooks.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockstep must be loaded via shared_preload_libraries"),
				 errhint("Add lockstep to shared_preload_libraries in postgresql.conf and restart the server.")));

	guc_define();
	hooks_install_shmem();
	if (ls_is_node())
		hooks_install();
}
