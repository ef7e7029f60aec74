/*
 * links.c
 *	  Would one connection for each node cost less than one for each backend?  The messages of
 *	  COMMIT without PostgreSQL and without the replicator: what each side pays for sending,
 *	  waiting and receiving, and nothing else.
 *
 *	links direct|shared BACKENDS WORK_US DISK_US SECONDS
 *
 * direct: each backend has a socket to the replicator, and waits as PostgreSQL's WaitEventSetWait()
 * does, for it and for its latch (SIGURG by a signalfd, in one epoll).  shared: a backend writes its
 * question into shared memory and wakes a worker by its latch, if that sleeps; the worker sends what
 * has come together by one socket, and wakes each backend whose verdict it receives.
 *
 * The node is core 0, the replicator core 1.  A backend uses WORK_US of CPU for each transaction; the
 * replicator answers what has come in a group DISK_US later.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUESTION_SIZE 700		/* of a TPC-B transaction */
#define VERDICT_SIZE 48
#define MAX_BACKENDS 1024
#define MAX_FDS (MAX_BACKENDS + 64)

typedef struct Backend
{
	_Atomic int next;			/* of those that have asked: number + 1, 0 =
								 * none */
	_Atomic bool answered;
	pid_t		pid;
	_Atomic uint64_t transactions;
	_Atomic uint64_t work_ns;
	_Atomic uint64_t cpu_ns;
	int			question[QUESTION_SIZE / sizeof(int)];
}			Backend;

typedef struct Shared
{
	_Atomic int asking;			/* number + 1 of the last that has asked */
	_Atomic bool worker_sleeps;
	pid_t		worker;
	_Atomic uint64_t worker_ns;
	_Atomic uint64_t replicator_ns;
	_Atomic uint64_t sends;		/* of the worker */
	Backend		backends[MAX_BACKENDS];
}			Shared;

typedef struct Connection
{
	size_t		len;
	char		bytes[QUESTION_SIZE * MAX_BACKENDS];
} Connection;

typedef struct Asked
{
	int			fd;
	int			backend;
} Asked;

static Shared * shared;
static bool direct;
static int	backends;
static uint64_t work_ns;
static long disk_ns;

static void
need(bool done, const char *what)
{
	if (!done)
	{
		perror(what);
		_exit(1);
	}
}

static uint64_t
clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static uint64_t
cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void
stay_on_core(int core)
{
	cpu_set_t	set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	need(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static void
block_latch_signal(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGURG);
	need(sigprocmask(SIG_BLOCK, set, NULL) == 0, "sigprocmask");
}

static int
latch_fd(void)
{
	sigset_t	set;
	int			fd;

	block_latch_signal(&set);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	need(fd >= 0, "signalfd");
	return fd;
}

static void
reset_latch(int fd)
{
	struct signalfd_siginfo info[16];

	while (read(fd, info, sizeof(info)) == sizeof(info))
		;
}

static void
watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN,.data.fd = fd};

	need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void
no_delay(int fd)
{
	int			on = 1;

	need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "setsockopt");
}

static int
connect_to(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_port = htons((uint16_t) port),.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	need(fd >= 0 && connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0, "connect");
	no_delay(fd);
	return fd;
}

static void
send_all(int fd, const void *bytes, size_t len)
{
	for (const char *at = bytes; len > 0;)
	{
		ssize_t		n = send(fd, at, len, MSG_NOSIGNAL);

		need(n > 0, "send");
		at += n;
		len -= (size_t) n;
	}
}

/* ---------- a backend */

static void
ask_worker(Backend * me, int epoll, int latch)
{
	struct epoll_event event;
	int			number = (int) (me - shared->backends);
	int			last = shared->asking;

	memset(me->question, 0, sizeof(me->question));
	me->answered = false;
	do
		me->next = last;
	while (!atomic_compare_exchange_weak(&shared->asking, &last, number + 1));
	if (last == 0 && atomic_exchange(&shared->worker_sleeps, false))
		kill(shared->worker, SIGURG);
	while (!me->answered)
	{
		epoll_wait(epoll, &event, 1, -1);
		reset_latch(latch);
	}
}

static void
ask_replicator(int number, int epoll, int fd)
{
	int			question[QUESTION_SIZE / sizeof(int)] = {number};
	char		verdict[VERDICT_SIZE];
	struct epoll_event event;
	size_t		len = 0;

	send_all(fd, question, sizeof(question));
	while (len < VERDICT_SIZE)
	{
		ssize_t		n;

		epoll_wait(epoll, &event, 1, -1);
		n = recv(fd, verdict, VERDICT_SIZE - len, MSG_DONTWAIT);
		if (n > 0)
			len += (size_t) n;
	}
}

static void
backend_main(int number, int port)
{
	Backend    *me = &shared->backends[number];
	int			epoll = epoll_create1(0);
	int			latch = latch_fd();
	int			fd = direct ? connect_to(port) : -1;

	stay_on_core(0);
	watch(epoll, latch);
	if (direct)
		watch(epoll, fd);
	for (;;)
	{
		uint64_t	began = cpu_ns();

		while (cpu_ns() - began < work_ns)
			;
		me->work_ns += cpu_ns() - began;
		if (direct)
			ask_replicator(number, epoll, fd);
		else
			ask_worker(me, epoll, latch);
		me->transactions++;
		me->cpu_ns = cpu_ns();
	}
}

/* ---------- the node's worker */

static void
send_questions(int fd)
{
	static int	out[QUESTION_SIZE * MAX_BACKENDS / sizeof(int)];
	size_t		len = 0;

	for (int next = atomic_exchange(&shared->asking, 0); next != 0; next = shared->backends[next - 1].next)
	{
		out[len / sizeof(int)] = next - 1;
		len += QUESTION_SIZE;
	}
	if (len == 0)
		return;
	send_all(fd, out, len);
	shared->sends++;
}

static void
take_verdicts(int fd)
{
	static int	in[VERDICT_SIZE * MAX_BACKENDS / sizeof(int)];
	static size_t have;
	size_t		used = 0;
	ssize_t		n = recv(fd, (char *) in + have, sizeof(in) - have, MSG_DONTWAIT);

	if (n <= 0)
		return;
	for (have += (size_t) n; have - used >= VERDICT_SIZE; used += VERDICT_SIZE)
	{
		Backend    *b = &shared->backends[in[used / sizeof(int)]];

		b->answered = true;
		kill(b->pid, SIGURG);
	}
	memmove(in, (char *) in + used, have - used);
	have -= used;
}

static void
worker_main(int port)
{
	struct epoll_event event;
	int			epoll = epoll_create1(0);
	int			latch = latch_fd();
	int			fd = connect_to(port);

	stay_on_core(0);
	watch(epoll, latch);
	watch(epoll, fd);
	for (;;)
	{
		shared->worker_sleeps = true;
		if (shared->asking == 0)
			epoll_wait(epoll, &event, 1, -1);
		shared->worker_sleeps = false;
		reset_latch(latch);
		send_questions(fd);
		take_verdicts(fd);
		shared->worker_ns = cpu_ns();
	}
}

/* ---------- the replicator */

static void
take_questions(int fd, Connection *c, Asked *asked, int *nasked)
{
	size_t		used = 0;
	ssize_t		n = recv(fd, c->bytes + c->len, sizeof(c->bytes) - c->len, MSG_DONTWAIT);

	if (n <= 0)
		return;
	for (c->len += (size_t) n; c->len - used >= QUESTION_SIZE; used += QUESTION_SIZE)
	{
		Asked	   *a = &asked[(*nasked)++];

		a->fd = fd;
		memcpy(&a->backend, c->bytes + used, sizeof(int));
	}
	memmove(c->bytes, c->bytes + used, c->len - used);
	c->len -= used;
}

/* Those of one connection in one message. */
static void
send_verdicts(const Asked *asked, int n)
{
	static int	out[VERDICT_SIZE * MAX_BACKENDS / sizeof(int)];

	for (int i = 0, first = 0; i < n; i++)
	{
		out[(size_t) (i - first) * VERDICT_SIZE / sizeof(int)] = asked[i].backend;
		if (i + 1 < n && asked[i + 1].fd == asked[i].fd)
			continue;
		send_all(asked[i].fd, out, (size_t) (i + 1 - first) * VERDICT_SIZE);
		first = i + 1;
	}
}

static void
replicator_main(int listener)
{
	static Connection *connections[MAX_FDS];
	static Asked gathered[MAX_BACKENDS];
	static Asked written[MAX_BACKENDS];
	struct epoll_event events[64];
	struct itimerspec disk = {.it_value.tv_nsec = disk_ns};
	int			ngathered = 0;
	int			nwritten = 0;
	int			epoll = epoll_create1(0);
	int			timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	uint64_t	fired;

	stay_on_core(1);
	watch(epoll, listener);
	watch(epoll, timer);
	for (;;)
	{
		int			n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++)
		{
			int			fd = events[i].data.fd;

			if (fd == listener)
			{
				fd = accept(listener, NULL, NULL);
				need(fd >= 0 && fd < MAX_FDS, "accept");
				no_delay(fd);
				connections[fd] = calloc(1, sizeof(Connection));
				watch(epoll, fd);
			}
			else if (fd == timer)
			{
				need(read(timer, &fired, sizeof(fired)) == sizeof(fired), "read");
				send_verdicts(written, nwritten);
				nwritten = 0;
			}
			else
				take_questions(fd, connections[fd], gathered, &ngathered);
		}
		if (nwritten == 0 && ngathered > 0)
		{
			memcpy(written, gathered, (size_t) ngathered * sizeof(Asked));
			nwritten = ngathered;
			ngathered = 0;
			need(timerfd_settime(timer, 0, &disk, NULL) == 0, "timerfd_settime");
		}
		shared->replicator_ns = cpu_ns();
	}
}

/* ---------- all of them */

static pid_t processes[MAX_BACKENDS + 2];
static int	nprocesses;

/* True in the new process. */
static bool
start(void)
{
	pid_t		pid = fork();

	need(pid >= 0, "fork");
	if (pid > 0)
		processes[nprocesses++] = pid;
	return pid == 0;
}

typedef struct Totals
{
	double		transactions,
				backends,		/* CPU, ns, without their work */
				worker,
				replicator,
				sends,
				time;
}			Totals;

static Totals
totals(void)
{
	Totals		t = {.worker = (double) shared->worker_ns,.replicator = (double) shared->replicator_ns,
	.sends = (double) shared->sends,.time = (double) clock_ns(CLOCK_MONOTONIC)};

	for (int i = 0; i < backends; i++)
	{
		const		Backend *b = &shared->backends[i];

		t.transactions += (double) b->transactions;
		t.backends += (double) b->cpu_ns - (double) b->work_ns;
	}
	return t;
}

int
main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	size = sizeof(address);
	int			listener = socket(AF_INET, SOCK_STREAM, 0);
	sigset_t	set;
	Totals		before;
	Totals		after;
	double		n;

	if (argc != 6 || (backends = atoi(argv[2])) < 1 || backends > MAX_BACKENDS)
	{
		fprintf(stderr, "usage: links direct|shared BACKENDS WORK_US DISK_US SECONDS\n");
		return 1;
	}
	direct = strcmp(argv[1], "direct") == 0;
	work_ns = (uint64_t) atoi(argv[3]) * 1000;
	disk_ns = atol(argv[4]) * 1000;
	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(shared != MAP_FAILED, "mmap");
	need(bind(listener, (struct sockaddr *) &address, sizeof(address)) == 0 && listen(listener, MAX_BACKENDS) == 0 &&
		 getsockname(listener, (struct sockaddr *) &address, &size) == 0, "bind");
	block_latch_signal(&set);	/* one that comes before the latch is made is
								 * kept */
	if (start())
		replicator_main(listener);
	if (!direct)
	{
		if (start())
			worker_main(ntohs(address.sin_port));
		shared->worker = processes[nprocesses - 1];
	}
	for (int i = 0; i < backends; i++)
	{
		if (start())
		{
			shared->backends[i].pid = getpid();
			backend_main(i, ntohs(address.sin_port));
		}
	}

	usleep(300 * 1000);			/* not measured: they start */
	before = totals();
	sleep((unsigned) atoi(argv[5]));
	after = totals();
	for (int i = 0; i < nprocesses; i++)
		kill(processes[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	n = after.transactions - before.transactions;
	printf("| %d | %s | %.0f | %.1f | %.1f | %.1f | %.1f |\n", backends, argv[1], n * 1e9 / (after.time - before.time),
		   (after.backends - before.backends) / n / 1000, (after.worker - before.worker) / n / 1000,
		   (after.replicator - before.replicator) / n / 1000, direct ? 1.0 : n / (after.sends - before.sends));
	return 0;
}
