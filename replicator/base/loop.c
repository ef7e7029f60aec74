/*
 * loop.c
 *	  The event loop: epoll for file descriptors, a binary heap for timers, a
 *	  queue for work that is done once per round.
 *
 * A round: wait; run the callbacks of descriptors that are ready; run the timers that are due,
 * unless a signal ended the wait; run deferred work, and what that defers in turn; call what is to
 * wait for the kernel (loop_block()).  The loop does not wait while something is deferred.
 *
 * Invariants:
 *	 - One loop per process and one thread in it; nothing here is locked.  While that one waits
 *	   for the kernel it is another (substitute.h), which is in it alone then.
 *	 - Memory of a watch lives until the round ends, so a callback may end any
 *	   watch: its own, or one whose event is still to be delivered.
 *	 - owners[fd] is the latest watch of that descriptor.  libpq closes sockets by
 *	   itself, and the kernel then forgets them and may reuse the number; the table
 *	   prevents the late loop_unwatch() of the first owner from ending the watch of
 *	   the second.
 *
 * Any code on the loop's thread may call it.  Failure of epoll itself is fatal: without it the
 * replicator cannot communicate.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "log.h"
#include "loop.h"
#include "substitute.h"

#define EVENTS_PER_ROUND 256

/* Rounds of deferred work before sockets are looked at again: work that keeps
 * deferring itself must not starve them. */
#define DEFERRED_PASSES 8

struct Watch
{
	int			fd;
	uint32_t	events;
	WatchCallback callback;		/* NULL once unwatched */
	void	   *arg;
	Watch	   *next;			/* among the ended ones of this round */
};

struct Timer
{
	uint64_t	due_us;
	uint64_t	order;			/* of two due together the older goes first */
	size_t		index;			/* in the heap, FIRING while its callback runs */
	TimerCallback callback;
	void	   *arg;
};

#define FIRING ((size_t) -1)

static int	epoll_fd = -1;
static bool running;
static uint64_t now_us;

static Watch **owners;			/* by file descriptor */
static size_t owners_cap;
static Watch *ended;

static Timer **heap;
static size_t heap_len;
static size_t heap_cap;
static uint64_t timers_made;

static struct
{
	void		(*block) (void *arg);	/* NULL: none */
	void		(*after) (void *arg);
	void	   *arg;
	bool		away;			/* block() is being called */
	bool		started;
	Watch	   *back;			/* NULL: there can be no substitute */
}			blocking;

static Deferred *deferred_first;
static Deferred **deferred_end = &deferred_first;

static void
loop_fatal(const char *what)
{
	log_message(LOG_ERROR, NULL, "%s failed: %s", what, strerror(errno));
	abort();
}

static uint64_t
clock_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

void
loop_init(void)
{
	assert(epoll_fd < 0);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		loop_fatal("epoll_create1");
	now_us = clock_us(CLOCK_MONOTONIC);
}

uint64_t
loop_now_us(void)
{
	return now_us;
}

uint64_t
loop_wall_us(void)
{
	return clock_us(CLOCK_REALTIME);	/* wall clock */
}

/* ---------- watches */

static void
epoll_set(int operation, Watch *w)
{
	struct epoll_event event = {.events = w->events,.data.ptr = w};

	if (epoll_ctl(epoll_fd, operation, w->fd, &event) == 0)
		return;

	/*
	 * The owner (libpq, on a lost connection) closed the descriptor before
	 * ending its watch: the kernel has removed it already.  Another thread
	 * may have opened something under its number: a socket (ENOENT), or a
	 * file, such as the journal's next segment (EPERM).
	 */
	if (operation != EPOLL_CTL_ADD && (errno == EBADF || errno == ENOENT || errno == EPERM))
		return;
	loop_fatal("epoll_ctl");
}

Watch *
loop_watch(int fd, uint32_t events, WatchCallback callback, void *arg)
{
	Watch	   *w = xcalloc(1, sizeof(Watch));

	assert(epoll_fd >= 0 && fd >= 0 && callback != NULL);
	w->fd = fd;
	w->events = events;
	w->callback = callback;
	w->arg = arg;

	if ((size_t) fd >= owners_cap)
	{
		size_t		cap = (size_t) fd + 64;

		owners = xrealloc(owners, cap * sizeof(Watch *));
		memset(owners + owners_cap, 0, (cap - owners_cap) * sizeof(Watch *));
		owners_cap = cap;
	}
	owners[fd] = w;
	epoll_set(EPOLL_CTL_ADD, w);
	return w;
}

void
loop_change(Watch *w, uint32_t events)
{
	assert(w->callback != NULL);
	if (w->events == events)
		return;
	w->events = events;
	if (owners[w->fd] == w)
		epoll_set(EPOLL_CTL_MOD, w);
}

void
loop_unwatch(Watch *w)
{
	if (w == NULL)
		return;
	assert(w->callback != NULL);
	if (owners[w->fd] == w)
	{
		epoll_set(EPOLL_CTL_DEL, w);
		owners[w->fd] = NULL;
	}
	w->callback = NULL;
	w->next = ended;
	ended = w;
}

static void
free_ended_watches(void)
{
	while (ended != NULL)
	{
		Watch	   *w = ended;

		ended = w->next;
		free(w);
	}
}

/* ---------- timers */

static bool
timer_before(const Timer *a, const Timer *b)
{
	if (a->due_us != b->due_us)
		return a->due_us < b->due_us;
	return a->order < b->order;
}

static void
heap_place(size_t i, Timer *t)
{
	heap[i] = t;
	t->index = i;
}

static void
heap_up(size_t i, Timer *t)
{
	while (i > 0)
	{
		size_t		parent = (i - 1) / 2;

		if (!timer_before(t, heap[parent]))
			break;
		heap_place(i, heap[parent]);
		i = parent;
	}
	heap_place(i, t);
}

static void
heap_down(size_t i, Timer *t)
{
	for (;;)
	{
		size_t		child = 2 * i + 1;

		if (child >= heap_len)
			break;
		if (child + 1 < heap_len && timer_before(heap[child + 1], heap[child]))
			child++;
		if (!timer_before(heap[child], t))
			break;
		heap_place(i, heap[child]);
		i = child;
	}
	heap_place(i, t);
}

static void
heap_remove(Timer *t)
{
	size_t		i = t->index;
	Timer	   *last = heap[--heap_len];

	t->index = FIRING;
	if (last == t)
		return;
	if (i > 0 && timer_before(last, heap[(i - 1) / 2]))
		heap_up(i, last);
	else
		heap_down(i, last);
}

Timer *
loop_after(int ms, TimerCallback callback, void *arg)
{
	Timer	   *t = xcalloc(1, sizeof(Timer));

	/* From the clock, not from the round's start: never early. */
	t->due_us = clock_us(CLOCK_MONOTONIC) + (uint64_t) (ms > 0 ? ms : 0) * 1000;
	t->order = timers_made++;
	t->callback = callback;
	t->arg = arg;

	if (heap_len == heap_cap)
	{
		heap_cap = heap_cap ? heap_cap * 2 : 64;
		heap = xrealloc(heap, heap_cap * sizeof(Timer *));
	}
	heap_len++;
	heap_up(heap_len - 1, t);
	return t;
}

void
loop_cancel(Timer *t)
{
	/* A timer that is firing is freed when its callback returns. */
	if (t == NULL || t->index == FIRING)
		return;
	heap_remove(t);
	free(t);
}

static void
run_timers(void)
{
	/*
	 * Timers made meanwhile wait for the next round, otherwise ms = 0 would
	 * spin.
	 */
	uint64_t	made = timers_made;

	while (heap_len > 0 && heap[0]->due_us <= now_us && heap[0]->order < made)
	{
		Timer	   *t = heap[0];

		heap_remove(t);
		t->callback(t->arg);
		free(t);
	}
}

/* How long to wait in epoll: whole milliseconds, rounded up, -1 for ever. */
static int
wait_ms(void)
{
	uint64_t	now;
	uint64_t	ms;

	if (deferred_first != NULL || blocking.block != NULL)
		return 0;
	if (heap_len == 0)
		return -1;
	now = clock_us(CLOCK_MONOTONIC);
	if (heap[0]->due_us <= now)
		return 0;
	ms = (heap[0]->due_us - now + 999) / 1000;
	return ms > INT32_MAX ? INT32_MAX : (int) ms;
}

/* ---------- deferred work */

void
loop_defer(Deferred *d)
{
	if (d->queued)
		return;
	d->queued = true;
	d->next = NULL;
	d->link = deferred_end;
	*deferred_end = d;
	deferred_end = &d->next;
}

void
loop_undefer(Deferred *d)
{
	if (!d->queued)
		return;
	*d->link = d->next;
	*(d->next != NULL ? &d->next->link : &deferred_end) = d->link;
	d->queued = false;
}

static void
run_deferred(void)
{
	for (int pass = 0; pass < DEFERRED_PASSES && deferred_first != NULL; pass++)
	{
		/* A marker ends the pass: what is deferred from here on comes after. */
		static Deferred marker;

		loop_defer(&marker);
		while (deferred_first != &marker)
		{
			Deferred   *d = deferred_first;

			loop_undefer(d);
			d->callback(d->arg);
		}
		loop_undefer(&marker);
	}
}

/* ---------- waiting for the kernel */

static void run_round(void);

static void
substitute_rounds(void)
{
	while (running && !substitute_is_over())
		run_round();
}

static void
on_wanted_back(void *arg, uint32_t events)
{
}

bool
loop_may_block(void)
{
	int			fd;

	if (!blocking.started)
	{
		blocking.started = true;
		fd = substitute_start(substitute_rounds);
		if (fd < 0)
			log_message(LOG_WARNING, NULL, "could not start a thread that takes the loop's place: %s", strerror(errno));
		else
			blocking.back = loop_watch(fd, EPOLLIN | EPOLLET, on_wanted_back, NULL);
	}
	return blocking.back != NULL && blocking.block == NULL && !blocking.away;
}

void
loop_block(void (*block) (void *arg), void (*after) (void *arg), void *arg)
{
	assert(loop_may_block());
	blocking.block = block;
	blocking.after = after;
	blocking.arg = arg;
}

/* Last in a round, when nothing of it is on the stack. */
static void
run_block(void)
{
	void		(*block) (void *arg) = blocking.block;
	void		(*after) (void *arg) = blocking.after;
	void	   *arg = blocking.arg;

	blocking.block = NULL;
	blocking.away = true;
	substitute_away();
	block(arg);
	substitute_back();
	blocking.away = false;
	now_us = clock_us(CLOCK_MONOTONIC);
	after(arg);
	run_deferred();
	free_ended_watches();
}

/* ---------- rounds */

static uint64_t next_round_us = 0;	/* not before */

void
loop_pace(unsigned int us)
{
	if (now_us + us > next_round_us)
		next_round_us = now_us + us;
}

static void
keep_pace(void)
{
	struct timespec at = {.tv_sec = (time_t) (next_round_us / 1000000),.tv_nsec = (long) (next_round_us % 1000000) * 1000};

	if (clock_us(CLOCK_MONOTONIC) < next_round_us)
		(void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	next_round_us = 0;
}

static void
run_round(void)
{
	struct epoll_event events[EVENTS_PER_ROUND];
	int			n;

	if (next_round_us != 0 && !blocking.away)	/* a substitute is to be there
												 * at once */
		keep_pace();
	n = epoll_wait(epoll_fd, events, EVENTS_PER_ROUND, wait_ms());
	if (n < 0 && errno != EINTR)
		loop_fatal("epoll_wait");
	now_us = clock_us(CLOCK_MONOTONIC);

	for (int i = 0; i < n; i++)
	{
		Watch	   *w = events[i].data.ptr;

		if (w->callback != NULL)
			w->callback(w->arg, events[i].events);
	}

	/*
	 * Stopped while it waited (SIGSTOP, a debugger): what has come meanwhile
	 * may end a timer that is late by that.
	 */
	if (n >= 0)
		run_timers();
	run_deferred();
	free_ended_watches();
	if (blocking.block != NULL)
		run_block();
}

void
loop_run(void)
{
	running = true;
	while (running)
		run_round();
}

void
loop_stop(void)
{
	running = false;
}

void
loop_finish(void)
{
	run_deferred();
	free_ended_watches();
}
