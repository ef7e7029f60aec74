/*
 * outsiderun.c
 *	  Has this server run without lockstep since it was a node last?  Then it may have
 *	  taken writes of which no other node knows.  Or was its WAL reset after a crash?  Then
 *	  its files are of different times.
 *
 * Without shared_preload_libraries, or without lockstep.node_name, a server captures
 * nothing and its progress stays; nothing that a node stores in its databases tells.
 * But two things are not left as they were:
 *
 *	 the marker		a file that each postmaster removes when it starts, as it has a
 *					name of PostgreSQL's temporary files.  We look for it before that,
 *					and make it again after that.  So it is missing if a postmaster
 *					has started that did not have this module.
 *	 pg_control		the shutdown checkpoint that was the last when we ended cleanly,
 *					and the next transaction id.  Single-user mode removes no
 *					temporary files, but moves these.
 *
 * What we saw is in lockstep_state, in the data directory:
 *
 *	 'S'	started: pg_control as it was at the start, or when the postmaster began to start
 *			its processes anew after one had crashed
 *	 'E'	asked to end
 *	 'C'	ended cleanly: pg_control as it was at the end
 *	 'O'	a run without us was found out; until outsiderun_clear()
 *	 'R'	its WAL was reset; the same
 *
 * A run that took no transaction id has changed nothing, and does not count.  The file
 * says which node it is of: a clone has its donor's, and another name.  What is
 * restored from a backup starts with backup_label or a signal file: it has not run.
 *
 * Not noticed: a crash of single-user mode; a run that crashed, behind a start of ours that
 * was killed before it forked for the first time; who makes the files himself.  A run of a
 * version of this module that does not know of this counts as one without it.
 *
 * A postmaster that starts its processes anew after one has crashed removes temporary files, too, before
 * it forks.  No hook is called before that but the one for messages (outsiderun_note_message()), which is
 * not if log_min_messages is fatal or panic: a server that is killed then looks like a run without us,
 * and so does one that is killed between its shutdown checkpoint and its end.
 *
 * pg_resetwal -f makes a server that has crashed start without recovery.  Pages that were written
 * then are there, others are not, so its progress says nothing of its rows.  It leaves a pg_control that
 * ended cleanly, with the settings of a server that does not exist (RewriteControlFile()).  After a clean end
 * it loses nothing, and is not looked for.
 *
 * The marker has to be there before the startup process writes a checkpoint, or a crash right
 * after that would look like a run without us.  The postmaster calls no hook between the removal
 * of temporary files and the start of that process, so the marker is made when it forks
 * (pthread_atfork).
 */
#include "postgres.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "compat.h"
#include "guc.h"
#include "outsiderun.h"

#define STATE_FILE "lockstep_state"
#define STATE_TMP STATE_FILE ".tmp"
#define MARKER_DIR "base/" PG_TEMP_FILES_DIR
#define MARKER MARKER_DIR "/" PG_TEMP_FILE_PREFIX ".lockstep"
#define VERSION 1

typedef struct State
{
	char		status;			/* 0: there is none */
	char		node[NAMEDATALEN];
	uint64		system;
	XLogRecPtr	checkpoint;
	uint64		next_xid;
} State;

typedef struct OutsideShared
{
	pg_atomic_uint32 status;	/* that of lockstep_state */
} OutsideShared;

static OutsideShared *shared = NULL;

/* ---------- files */

/* What pg_control says of its last checkpoint. */
typedef struct Control
{
	bool		clean;			/* it ended a run */
	bool		reset;			/* by pg_resetwal: wal_level minimal, with
								 * walsenders, does not start */
} Control;

/* false: it can't be read. */
static bool
read_control(State *now, Control *is)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);

	is->clean = control->state == DB_SHUTDOWNED || control->state == DB_SHUTDOWNED_IN_RECOVERY;
	is->reset = control->wal_level == WAL_LEVEL_MINIMAL && control->max_wal_senders > 0;
	memset(now, 0, sizeof(*now));
	now->system = control->system_identifier;
	now->checkpoint = control->checkPoint;
	now->next_xid = U64FromFullTransactionId(control->checkPointCopy.nextXid);
	strlcpy(now->node, ls_node_name, sizeof(now->node));
	pfree(control);
	return crc_ok;
}

static State
read_state(void)
{
	State		state = {0};
	FILE	   *file = AllocateFile(STATE_FILE, "r");
	int			version;
	unsigned long long system,
				checkpoint,
				next_xid;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(FATAL,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", STATE_FILE)));
		return state;
	}
	if (fscanf(file, "%d %c %63s %llu %llx %llu", &version, &state.status, state.node, &system, &checkpoint, &next_xid) != 6 ||
		version != VERSION)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is not what lockstep wrote", STATE_FILE),
				 errhint("If the server has not run without lockstep, and the file was damaged, remove it.")));
	FreeFile(file);
	state.system = system;
	state.checkpoint = checkpoint;
	state.next_xid = next_xid;
	return state;
}

static void
write_state(const State *state, int elevel)
{
	char		text[256];
	int			len = snprintf(text, sizeof(text), "%d %c %s %llu %llX %llu\n", VERSION, state->status, state->node,
							   (unsigned long long) state->system, (unsigned long long) state->checkpoint,
							   (unsigned long long) state->next_xid);
	int			fd = OpenTransientFile(STATE_TMP, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);

	if (fd < 0 || write(fd, text, len) != len || pg_fsync(fd) != 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STATE_TMP)));
		if (fd >= 0)
			(void) CloseTransientFile(fd);
		return;
	}
	if (CloseTransientFile(fd) == 0)
		(void) durable_rename(STATE_TMP, STATE_FILE, elevel);
}

static bool
is_there(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/* Durable, or a crash of the machine would look like a run without lockstep. */
static void
make_marker(int elevel)
{
	int			fd;

	if (MakePGDirectory(MARKER_DIR) < 0 && errno != EEXIST)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", MARKER_DIR)));
	fd = OpenTransientFile(MARKER, O_WRONLY | O_CREAT | PG_BINARY);
	if (fd < 0 || pg_fsync(fd) != 0)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", MARKER)));
	if (fd < 0)
		return;
	(void) CloseTransientFile(fd);
	fsync_fname(MARKER_DIR, true);
	fsync_fname("base", true);
}

/* Temporary files may have been removed since the last time.  What keeps the marker from being made is logged once. */
static void
before_fork(void)
{
	static bool failed = false;

	if (MyProcPid != PostmasterPid || shared == NULL || !ls_is_node() || is_there(MARKER))
		return;
	make_marker(failed ? DEBUG1 : LOG);
	failed = !is_there(MARKER);
}

/* ---------- the start */

static bool
is_found(char status)
{
	return status == 'O' || status == 'R';
}

static char *
reason(char status)
{
	if (status == 'R')
		return psprintf("the write-ahead log of this server was reset (pg_resetwal) after it had crashed as node \"%s\", and its files may be "
						"of different times: clone it anew (lockstepctl join)", ls_node_name);
	return psprintf("this server has run without lockstep (shared_preload_libraries, lockstep.node_name) since it was node \"%s\" last, "
					"and may hold changes that no other node has: lockstepctl verify --repair %s, or clone it anew", ls_node_name, ls_node_name);
}

/* What was done between what state says and now: 'O', 'R', or 'S' if nothing was. */
static char
done_meanwhile(const State *state, const State *now, const Control *control)
{
	bool		same = state->checkpoint == now->checkpoint;

	if (state->status == 0 || state->system != now->system || strcmp(state->node, now->node) != 0)
		return 'S';				/* not of this node: a new one, or a clone */
	if (is_there(BACKUP_LABEL_FILE) || is_there(RECOVERY_SIGNAL_FILE) || is_there(STANDBY_SIGNAL_FILE))
		return 'S';				/* restored: it has not run */
	if (is_found(state->status))
		return state->status;
	if (control->clean && state->status == 'C')
		return same || state->next_xid == now->next_xid ? 'S' : 'O';
	if (control->reset && !same)
		return 'R';
	if (control->clean && state->status == 'S' && !same)
		return 'O';				/* that was not our end: single-user mode */
	return is_there(MARKER) || (state->status != 'C' && same) ? 'S' : 'O';
}

static void
on_end(int code, Datum arg)
{
	State		now;
	Control		control;
	char		before;

	if (MyProcPid != PostmasterPid && IsUnderPostmaster)
		return;
	if (!read_control(&now, &control) || !control.clean)
		return;
	before = read_state().status;	/* shared memory is gone by now */
	now.status = is_found(before) ? before : 'C';
	write_state(&now, LOG);
}

static char
look(void)
{
	State		state = read_state();
	State		now;
	Control		control;

	if (!read_control(&now, &control))
		return state.status;	/* the server will say so */
	now.status = done_meanwhile(&state, &now, &control);
	if (is_found(now.status))
		ereport(LOG,
				(errmsg_internal("%s", reason(now.status)),
				 errdetail("Its last checkpoint is at %X/%X; the one that lockstep knows of is at %X/%X.",
						   LSN_FORMAT_ARGS(now.checkpoint), LSN_FORMAT_ARGS(state.checkpoint))));
	write_state(&now, FATAL);
	return now.status;
}

/* Fails only if pg_control cannot be read, without which the server ends anyway. */
void
outsiderun_note_message(const ErrorData *edata)
{
	static const struct
	{
		const char *message;
		char		status;
	}			known[] = {
		{"all server processes terminated; reinitializing", 'S'},
		{"received smart shutdown request", 'E'},
		{"received fast shutdown request", 'E'}
	};
	State		now;
	Control		control;

	if (likely(MyProcPid != PostmasterPid) || edata->elevel != LOG || edata->message_id == NULL ||
		shared == NULL || !ls_is_node() || is_found((char) pg_atomic_read_u32(&shared->status)))
		return;
	for (int i = 0; i < lengthof(known); i++)
	{
		if (strcmp(edata->message_id, known[i].message) != 0 || !read_control(&now, &control))
			continue;
		now.status = known[i].status;
		write_state(&now, LOG);
	}
}

void
outsiderun_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(OutsideShared)));
}

/* Called with AddinShmemInitLock held; in the postmaster, before anything else runs. */
void
outsiderun_shmem_startup(void)
{
	static bool looked = false;
	bool		found;

	shared = ShmemInitStruct("lockstep outside run", sizeof(OutsideShared), &found);
	if (found)
		return;
	pg_atomic_init_u32(&shared->status, 0);
	if (!ls_is_node() || IsUnderPostmaster)
		return;
	if (looked)
	{
		/* a backend crashed: it is the same run */
		pg_atomic_write_u32(&shared->status, (unsigned char) read_state().status);
		return;
	}
	looked = true;
	pg_atomic_write_u32(&shared->status, (unsigned char) look());
	on_proc_exit(on_end, (Datum) 0);
}

void
outsiderun_init(void)
{
	if (pthread_atfork(before_fork, NULL, NULL) != 0)
		ereport(FATAL,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

/* ---------- while it runs */

void
outsiderun_begin(void)
{
	if (!is_there(MARKER))
		make_marker(ERROR);
}

char *
outsiderun_reason(void)
{
	char		status = (char) pg_atomic_read_u32(&shared->status);

	return is_found(status) ? reason(status) : NULL;
}

void
outsiderun_clear(void)
{
	State		now;
	Control		control;

	if (!read_control(&now, &control))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read pg_control")));
	now.status = 'S';
	outsiderun_begin();
	write_state(&now, ERROR);
	pg_atomic_write_u32(&shared->status, 'S');
}
