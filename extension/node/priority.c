/*
 * priority.c
 *	  CPU priority of sessions: lockstep.scheduling_priority is the nice value of the
 *	  backend's process, and of its parallel workers.
 *
 * An unprivileged process can raise its nice value, and can't lower it again, unless
 * RLIMIT_NICE lets it.  So:
 *
 *  - SET to a value that the operating system refuses fails.
 *  - What would have to be taken back when a transaction or a function ends (SET LOCAL, set_config(), the
 *    SET clause of a function) fails, if it could not be.
 *  - Where PostgreSQL goes back without asking (RESET, DISCARD ALL, ROLLBACK of a SET, a reload) a WARNING says
 *    that the process stays as it is.
 *
 * Values of the configuration, the database and the role take effect before the session's first
 * query, as it is only then known whose session it is: those of the replicator and of lockstepctl, which
 * begin with lockstep.replicate off, have only what they ask for themselves.  An apply session has
 * lockstep.apply_priority, which its parallel workers (of CREATE INDEX) inherit; nothing that it executes changes it.
 *
 * Linux shares the processor among *autogroups* first, where sched_autogroup_enabled is on and no
 * group of processes is set up for the CPU: one for each setsid(), which each backend calls.  There the
 * nice value of a process counts only among its own.  So the autogroup gets the same nice value.
 * The kernel takes ten such changes in a second, of all processes, and refuses the others by
 * EAGAIN; a timer repeats them.
 *
 * Locking: a slot is written by its own process and read by any.  A torn slot shows, for a
 * moment, the value before.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "access/parallel.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timeout.h"

#include "compat.h"
#include "guc.h"
#include "priority.h"
#include "session.h"

#define LOWEST_NICE (-20)
#define AUTOGROUPS_ENABLED "/proc/sys/kernel/sched_autogroup_enabled"
#define AUTOGROUP_RETRY_MS 100

typedef struct Slot
{
	int			pid;			/* whose the rest is */
	int			asked;
	LsPriorityKind kind;
} Slot;

static Slot *slots = NULL;		/* by number of the process */

static bool begun = false;		/* the first query has come */
static bool left_out = false;	/* began with lockstep.replicate off */
static bool asks = false;		/* has asked for a priority itself */
static bool persists = false;	/* what runs is a SET for the session */

/* What the autogroup is to have, as text; the timer's handler writes it. */
static char autogroup_nice[8];
static volatile sig_atomic_t autogroup_pending = false;
static bool autogroup_timer_runs = false;

/* ---------- shared memory */

static Size
priority_shmem_size(void)
{
	return mul_size(MaxBackends, sizeof(Slot));
}

void
priority_shmem_request(void)
{
	RequestAddinShmemSpace(priority_shmem_size());
}

/* Called with AddinShmemInitLock held. */
void
priority_shmem_startup(void)
{
	bool		found;

	slots = ShmemInitStruct("lockstep priorities", priority_shmem_size(), &found);
	if (!found)
		memset(slots, 0, priority_shmem_size());
}

static void
note(LsPriorityKind kind, int asked)
{
	Slot	   *slot = &slots[ls_procno(MyProc)];

	slot->kind = kind;
	slot->asked = asked;
	slot->pid = MyProcPid;
}

/* ---------- the operating system's side */

static int
nice_now(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

/* Can this process, whose nice value is higher, go down to this one?  It stays where it is. */
static bool
may_lower_to(int value)
{
	int			now = nice_now();

	if (setpriority(PRIO_PROCESS, 0, value) != 0)
		return false;
	(void) setpriority(PRIO_PROCESS, 0, now);
	return true;
}

/*
 * Once its nice value is higher, can this process return to the present one?  Either the limit says so, or it has
 * the privilege, which shows if it can go still lower.
 */
static bool
may_return(void)
{
	int			now = nice_now();
#ifdef RLIMIT_NICE
	struct rlimit limit;

	if (getrlimit(RLIMIT_NICE, &limit) == 0 &&
		(limit.rlim_cur == RLIM_INFINITY || (int64) limit.rlim_cur >= 20 - now))
		return true;
#endif
	return now > LOWEST_NICE && may_lower_to(now - 1);
}

/* 0, or the reason why the kernel refuses.  Safe in a signal handler. */
static int
autogroup_write(void)
{
	int			fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	int			error = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (write(fd, autogroup_nice, strlen(autogroup_nice)) < 0)
		error = errno;
	close(fd);
	return error;
}

static bool
autogroup_is_to_be_repeated(int error)
{
	return error == EAGAIN || error == EINTR;
}

static void
autogroup_on_timer(void)
{
	if (autogroup_pending && !autogroup_is_to_be_repeated(autogroup_write()))
		autogroup_pending = false;
}

static void
autogroup_start_timer(void)
{
	static TimeoutId timer = MAX_TIMEOUTS;
	int			ms = AUTOGROUP_RETRY_MS + MyProcPid % 32;	/* not all at once */

	if (timer == MAX_TIMEOUTS && !autogroup_pending)
		return;
	if (timer == MAX_TIMEOUTS)
		timer = RegisterTimeout(USER_TIMEOUT, autogroup_on_timer);
	if (!autogroup_pending)
		disable_timeout(timer, false);
	else if (!get_timeout_active(timer))
	{
		TimestampTz now = GetCurrentTimestamp();	/* wall clock, as
													 * PostgreSQL counts
													 * timeouts */

		enable_timeout_every(timer, TimestampTzPlusMilliseconds(now, ms), ms);
	}
	autogroup_timer_runs = autogroup_pending;
}

static bool
autogroups_are_enabled(void)
{
	char		enabled = '0';
	int			fd = open(AUTOGROUPS_ENABLED, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (read(fd, &enabled, 1) != 1)
		enabled = '0';
	close(fd);
	return enabled == '1';
}

static void
autogroup_set(int value)
{
	int			error;

	if (!autogroups_are_enabled())
		return;
	autogroup_pending = false;	/* keeps the handler away */
	snprintf(autogroup_nice, sizeof(autogroup_nice), "%d", value);
	error = autogroup_write();
	autogroup_pending = autogroup_is_to_be_repeated(error);
	autogroup_start_timer();
	errno = error;
	if (error != 0 && !autogroup_pending)
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not set the nice value of this process's autogroup to %d: %m", value),
				 errdetail("While the kernel's sched_autogroup_enabled is on, the nice value of the process alone has little effect.")));
}

/* The process may stay as it is: that is what the WARNING says. */
static void
set_nice(int value)
{
	int			now = nice_now();

	if (now == value)
		return;
	if (setpriority(PRIO_PROCESS, 0, value) != 0)
		ereport(WARNING,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("could not set the nice value of this process to %d: %m", value),
				 errdetail("It stays %d.", now),
				 errhint("A new connection begins with the server's. To let sessions return to it, give the server a LimitNICE (systemd) or RLIMIT_NICE.")));
	else
		autogroup_set(value);
}

/* ---------- who asks for what */

/* A parallel worker first gets what its role and database have, then all that its leader has. */
static bool
is_for_this_process(void)
{
	if (!ls_is_node() || !IsUnderPostmaster)
		return false;
	if (IsParallelWorker())
		return !IsInitProcessingMode();
	return begun && MyBackendType == B_BACKEND && !session_applies() && (asks || !left_out);
}

void
priority_assign(int newval)
{
	if (!is_for_this_process())
		return;
	set_nice(newval);
	note(IsParallelWorker() ? LS_PRIORITY_WORKER : LS_PRIORITY_CLIENT, newval);
}

static void
begin(void)
{
	begun = true;
	if (IsParallelWorker() || MyBackendType != B_BACKEND)
		return;
	if (left_out && !asks)
	{
		/* for its parallel workers */
		ls_scheduling_priority = ls_server_nice;
		note(LS_PRIORITY_REPLICATOR, LS_NO_PRIORITY);
	}
	else
	{
		/* the server's may have changed since it started */
		if (ls_scheduling_priority != ls_server_nice)
			set_nice(ls_scheduling_priority);
		note(LS_PRIORITY_CLIENT, ls_scheduling_priority);
	}
}

void
priority_leave_out(void)
{
	left_out = true;
}

void
priority_before_query(void)
{
	persists = false;
	if (unlikely(!begun))
		begin();
	if (unlikely(autogroup_timer_runs))
		autogroup_start_timer();	/* an error has ended it, or it has done
									 * its work */
}

void
priority_before_utility(const PlannedStmt *pstmt)
{
	priority_before_query();
	persists = IsA(pstmt->utilityStmt, VariableSetStmt) && !((VariableSetStmt *) pstmt->utilityStmt)->is_local;
}

void
priority_assign_apply(int newval)
{
	if (!session_applies())
		return;
	ls_scheduling_priority = newval;	/* for its parallel workers */
	set_nice(newval);
	note(LS_PRIORITY_APPLY, newval);
}

void
priority_begin_apply(void)
{
	char		value[16];

	snprintf(value, sizeof(value), "%d", ls_apply_priority);
	(void) set_config_option("lockstep.scheduling_priority", value, PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SET, true, 0, false);
	set_nice(ls_apply_priority);
	note(LS_PRIORITY_APPLY, ls_apply_priority);
}

/* ---------- may it be set? */

static bool
refuse_right(int least)
{
	GUC_check_errcode(ERRCODE_INSUFFICIENT_PRIVILEGE);
	GUC_check_errmsg("permission denied to set \"lockstep.scheduling_priority\" below %d", least);
	GUC_check_errdetail("Only superusers may give a process more priority than it began with.");
	return false;
}

static bool
refuse_by_system(int value)
{
	GUC_check_errcode(ERRCODE_INSUFFICIENT_PRIVILEGE);
	GUC_check_errmsg("could not set the nice value of this process to %d: %m", value);
	GUC_check_errdetail("The operating system does not let the server's processes go down from %d to it.", nice_now());
	GUC_check_errhint("A new connection begins with the server's. To let sessions return to it, give the server a LimitNICE (systemd) or RLIMIT_NICE.");
	return false;
}

static bool
refuse_for_a_while(void)
{
	GUC_check_errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
	GUC_check_errmsg("\"lockstep.scheduling_priority\" cannot be set for a transaction or in a function here");
	GUC_check_errdetail("The operating system would not let this process return to the nice value %d.", nice_now());
	GUC_check_errhint("Use SET, or ALTER ROLE ... SET for a role of its own, or give the server a LimitNICE (systemd) or RLIMIT_NICE.");
	return false;
}

static bool
check_for_session(int newval, int least, GucSource source)
{
	int			now = nice_now();

	if (newval < least && !superuser())
		return refuse_right(least);
	if (newval < now && !may_lower_to(newval))
		return refuse_by_system(newval);
	if (newval > now && !persists && source != PGC_S_CLIENT && !may_return())
		return refuse_for_a_while();
	asks = true;
	return true;
}

/*
 * Values that are stored, in files and for databases and roles, are for other sessions: whether the
 * operating system takes them shows there.  Who may store a value that gives more than the
 * server's priority is checked here.
 *
 * An apply session has to do what was done at the origin, and ignores what it sets.
 */
bool
priority_check(int newval, GucSource source)
{
	if (!ls_is_node() || !IsUnderPostmaster || InitializingParallelWorker || session_applies())
		return true;
	switch (source)
	{
		case PGC_S_TEST:
			return newval >= ls_server_nice || superuser() || refuse_right(ls_server_nice);
		case PGC_S_CLIENT:
			return check_for_session(newval, ls_server_nice, source);
		case PGC_S_INTERACTIVE:
		case PGC_S_SESSION:
			return check_for_session(newval, atoi(GetConfigOptionResetString("lockstep.scheduling_priority")), source);
		default:
			return true;
	}
}

/* ---------- what is shown */

int
priority_count(void)
{
	return MaxBackends;
}

/* LS_NO_PRIORITY: there are no autogroups here, or the process has ended. */
static int
autogroup_of(int pid)
{
	char		path[64];
	char		line[64];
	int			value;
	ssize_t		n;
	int			fd;

	if (!autogroups_are_enabled())
		return LS_NO_PRIORITY;
	snprintf(path, sizeof(path), "/proc/%d/autogroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return LS_NO_PRIORITY;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0)
		return LS_NO_PRIORITY;
	line[n] = '\0';
	return sscanf(line, "%*s nice %d", &value) == 1 ? value : LS_NO_PRIORITY;
}

bool
priority_of(int i, LsPriority *priority)
{
	const Slot *slot = &slots[i];

	priority->pid = slot->pid;
	if (priority->pid == 0 || GetPGProcByNumber(i)->pid != priority->pid)
		return false;
	priority->kind = slot->kind;
	priority->asked = slot->asked;
	errno = 0;
	priority->nice = getpriority(PRIO_PROCESS, priority->pid);
	if (errno != 0)
		priority->nice = LS_NO_PRIORITY;
	priority->autogroup = autogroup_of(priority->pid);
	return true;
}
