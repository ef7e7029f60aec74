/*
 * main.c
 *	  What a commit costs the replicator: a cluster of any size without PostgreSQL, and the
 *	  replicator's own CPU time for each of its commits.  tests/bench/grow/run calls it.
 *
 *	grow OPTION=VALUE ...
 *
 *	dir=DIR			where nodes listen
 *	socket=PATH		the replicator's unix_socket
 *	secret=FILE		its secret_file
 *	pid_file=FILE	its process, whose time is taken
 *	nodes=2 databases=1 sessions=64	(writers) idle=0 (sessions that do nothing)
 *	rows=4			that a transaction changes
 *	keys=10000		rows that are changed in turn, and that the replicator is made to remember
 *	waiters=0		sessions that wait for one row, which another one has
 *	takers=0		sessions that change one row, each when it is its turn
 *	wait=certified	or ordered, executed, applied
 *	warm=2 seconds=5	how long
 *	transactions=0	so many instead of seconds, or a few more
 *	on_begin=COMMAND, on_end=COMMAND	run there, as by callgrind's client
 *
 * Prints one line of name=value.
 */
#include "grow.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "loop.h"

#define LOOK_MS 20
#define MAX_SESSIONS 20000

static struct
{
	const char *dir;
	const char *pid_file;
	int			idle;
	int			waiters;
	int			takers;
	int			transactions;
	double		warm;
	double		seconds;
	const char *on_begin;
	const char *on_end;
}			options = {.warm = 2,.seconds = 5};

static struct Backend *backends[MAX_SESSIONS];
static int	nbackends;
static int	nwriting;			/* the first of them */
static int	nothers;			/* those behind them that begin first */

/* What a process, or its threads, have used. */
typedef struct Use
{
	double		user;			/* seconds */
	double		system;
	double		loop;			/* of the first thread; both */
	double		own;			/* of this process */
	double		wall;
	uint64_t	switches;		/* of the first thread: times that it slept */
	Counts		counts;
}			Use;

static Use before;

void
grow_fail(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fprintf(stderr, "grow: ");
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

/* ---------- measuring */

static int
replicator_pid(void)
{
	FILE	   *f = fopen(options.pid_file, "r");
	int			pid = 0;

	if (f == NULL || fscanf(f, "%d", &pid) != 1)
		grow_fail("there is no process in \"%s\"", options.pid_file);
	fclose(f);
	return pid;
}

static void
read_stat(const char *path, double *user, double *system)
{
	FILE	   *f = fopen(path, "r");
	char		line[1024];
	const char *at;
	unsigned long u,
				s;

	if (f == NULL || fgets(line, sizeof(line), f) == NULL)
		grow_fail("the replicator has ended");
	fclose(f);
	at = strrchr(line, ')');
	if (at == NULL || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &s) != 2)
		grow_fail("\"%s\" is not understood", path);
	*user = (double) u / (double) sysconf(_SC_CLK_TCK);
	*system = (double) s / (double) sysconf(_SC_CLK_TCK);
}

static uint64_t
read_switches(const char *path)
{
	FILE	   *f = fopen(path, "r");
	char		line[256];
	uint64_t	n = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		(void) sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &n);
	if (f != NULL)
		fclose(f);
	return n;
}

static Use
use_now(void)
{
	Use			use = {.counts = counts};
	char		path[64];
	int			pid = replicator_pid();
	double		user,
				system;
	struct timespec ts;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_stat(path, &use.user, &use.system);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, pid);
	read_stat(path, &user, &system);
	use.loop = user + system;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, pid);
	use.switches = read_switches(path);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	use.own = (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	use.wall = (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
	return use;
}

static void
command(const char *text)
{
	if (text != NULL && system(text) != 0)
		grow_fail("\"%s\" has failed", text);
}

static void
print_use(const Use * after)
{
	double		n = (double) (after->counts.committed - before.counts.committed);
	double		seconds = after->wall - before.wall;
	double		us = n > 0 ? 1e6 / n : 0;

	printf("nodes=%d databases=%d sessions=%d idle=%d rows=%d keys=%" PRIu64 " waiters=%d takers=%d commits=%.0f refused=%" PRIu64
		   " per_second=%.0f user_us=%.2f system_us=%.2f cpu_us=%.2f loop_us=%.2f busy=%.3f load_busy=%.3f sleeps=%.3f applied=%.3f\n",
		   load.nodes, load.databases, load.writers, options.idle, load.rows, load.keys, options.waiters, options.takers, n,
		   after->counts.refused - before.counts.refused, n / seconds,
		   (after->user - before.user) * us, (after->system - before.system) * us,
		   (after->user + after->system - before.user - before.system) * us, (after->loop - before.loop) * us,
		   (after->user + after->system - before.user - before.system) / seconds,
		   (after->own - before.own) / seconds,
		   n > 0 ? (double) (after->switches - before.switches) / n : 0,
		   n > 0 ? (double) (after->counts.applied - before.counts.applied) / n : 0);
}

/* ---------- what is done, one after the other */

static void
on_measured(void *arg)
{
	Use			after = use_now();

	command(options.on_end);
	print_use(&after);
	loop_stop();
}

static void
on_counting(void *arg)
{
	if (counts.committed - before.counts.committed >= (uint64_t) options.transactions)
		on_measured(NULL);
	else
		loop_after(LOOK_MS, on_counting, NULL);
}

static void
on_warm(void *arg)
{
	command(options.on_begin);
	before = use_now();
	if (options.transactions > 0)
		loop_after(LOOK_MS, on_counting, NULL);
	else
		loop_after((int) (options.seconds * 1000), on_measured, NULL);
}

static void
write_all(void)
{
	for (int i = 0; i < nwriting; i++)
		backend_begin(backends[i]);
	loop_after((int) (options.warm * 1000), on_warm, NULL);
}

static void
on_filled(void *arg)
{
	for (int i = 0; i < load.writers; i++)
	{
		if (!backend_is_filled(backends[i]) || !backend_is_ready(backends[i]))
		{
			loop_after(LOOK_MS, on_filled, NULL);
			return;
		}
	}
	load.filling = false;
	write_all();
}

/* Those that wait have to find the lock taken. */
static void
on_others(void *arg)
{
	if (options.waiters > 0 && counts.granted == 0)
	{
		loop_after(LOOK_MS, on_others, NULL);
		return;
	}
	for (int i = nwriting + 1; i < nwriting + nothers; i++)
		backend_begin(backends[i]);
	if (load.keys <= (uint64_t) (load.rows * load.writers))
	{
		write_all();
		return;
	}
	load.filling = true;
	for (int i = 0; i < load.writers; i++)
		backend_begin(backends[i]);
	loop_after(LOOK_MS, on_filled, NULL);
}

static void
on_connected(void *arg)
{
	for (int i = 0; i < nbackends; i++)
	{
		if (!backend_is_ready(backends[i]))
		{
			loop_after(LOOK_MS, on_connected, NULL);
			return;
		}
	}
	backend_begin(backends[nwriting]);	/* has the lock, or keeps history */
	on_others(NULL);
}

static void
add(Role role, int n)
{
	if (nbackends + n > MAX_SESSIONS)
		grow_fail("at most %d sessions are possible", MAX_SESSIONS);
	for (int i = 0; i < n; i++, nbackends++)
		backends[nbackends] = backend_open(role, nbackends);
}

static void
open_all(void)
{
	add(BACKEND_WRITES, load.writers);
	add(BACKEND_TAKES_TURNS, options.takers);
	nwriting = nbackends;
	if (options.waiters > 0)
		add(BACKEND_HOLDS, 1);
	add(BACKEND_WAITS, options.waiters);
	add(BACKEND_KEEPS_HISTORY, 1);
	nothers = nbackends - nwriting;
	add(BACKEND_IDLE, options.idle);
}

/* ---------- options */

static const char *
is_option(const char *arg, const char *name)
{
	size_t		len = strlen(name);

	return strncmp(arg, name, len) == 0 && arg[len] == '=' ? arg + len + 1 : NULL;
}

static bool
take_text(const char *arg, const char *name, const char **to)
{
	const char *value = is_option(arg, name);

	if (value != NULL)
		*to = value;
	return value != NULL;
}

static bool
take_number(const char *arg, const char *name, int *to)
{
	const char *value = is_option(arg, name);

	if (value != NULL)
		*to = atoi(value);
	return value != NULL;
}

static bool
take_wait(const char *arg)
{
	const char *value = is_option(arg, "wait");

	if (value == NULL)
		return false;
	load.certain = strcmp(value, "certified") == 0;
	load.wait = value[0] == 'o' ? LS_WAIT_ORDERED : value[0] == 'a' ? LS_WAIT_APPLIED : LS_WAIT_EXECUTED;
	return true;
}

static void
take_option(const char *arg)
{
	static const char *secret;
	const char *value;
	char	   *error;

	if (take_text(arg, "dir", &options.dir) || take_text(arg, "socket", &load.socket) ||
		take_text(arg, "pid_file", &options.pid_file) || take_text(arg, "on_begin", &options.on_begin) ||
		take_text(arg, "on_end", &options.on_end) || take_wait(arg) ||
		take_number(arg, "nodes", &load.nodes) || take_number(arg, "databases", &load.databases) ||
		take_number(arg, "sessions", &load.writers) || take_number(arg, "rows", &load.rows) ||
		take_number(arg, "idle", &options.idle) || take_number(arg, "waiters", &options.waiters) ||
		take_number(arg, "takers", &options.takers) || take_number(arg, "transactions", &options.transactions))
		return;
	if (take_text(arg, "secret", &secret))
	{
		error = auth_read_secret(secret, &load.secret);
		if (error != NULL)
			grow_fail("%s", error);
	}
	else if ((value = is_option(arg, "keys")) != NULL)
		load.keys = strtoull(value, NULL, 10);
	else if ((value = is_option(arg, "warm")) != NULL)
		options.warm = atof(value);
	else if ((value = is_option(arg, "seconds")) != NULL)
		options.seconds = atof(value);
	else
		grow_fail("unknown option \"%s\"", arg);
}

int
main(int argc, char **argv)
{
	struct rlimit limit;

	load = (Load) {.nodes = 2,.databases = 1,.rows = 4,.keys = 10000,.writers = 64,.wait = LS_WAIT_EXECUTED,.certain = true};
	for (int i = 1; i < argc; i++)
		take_option(argv[i]);
	if (options.dir == NULL || load.socket == NULL || options.pid_file == NULL || load.secret.len == 0)
		grow_fail("dir, socket, secret and pid_file are needed");
	if (load.nodes < 1 || load.nodes > MAX_NODES)
		grow_fail("1 to %d nodes are possible", MAX_NODES);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		(void) setrlimit(RLIMIT_NOFILE, &limit);
	}
	loop_init();
	for (int i = 0; i < load.nodes; i++)
		node_listen(i, options.dir);
	open_all();
	loop_after(LOOK_MS, on_connected, NULL);
	loop_run();
	return 0;
}
