/*
 * substitute.c
 *	  While the loop's thread waits for the kernel, another one runs the loop.
 *
 * Handing a short wait (a flush of the journal, 0.1 ms) over to another thread costs two wake-ups,
 * more than the wait itself.  So the thread that has the work waits itself, and if that takes long
 * the other one takes its place for as long:
 *
 *		loop's thread					substitute
 *		away: timer, lets go of `work`	.
 *		waits for the kernel			.
 *		.			 5 ms pass ------->	takes `work`, does it
 *		back: wants it	 ------------->	leaves it
 *		takes `work`, goes on			waits for the timer
 *
 * Locking: `work_lock` belongs to who does the work, and covers `away_since_ms`.
 */
#include "substitute.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "monotonic.h"
#include "wakeup.h"

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t away_since_ms;	/* 0: not away */
static _Atomic bool wanted_back;
static void (*do_work) (void);
static int	timer_fd = -1;
static int	back_fd = -1;

static void
set_timer(int ms)
{
	struct itimerspec after = {.it_value.tv_nsec = ms * 1000000L};

	if (timerfd_settime(timer_fd, 0, &after, NULL) != 0)
		abort();
}

/*
 * The timer may have fired just before the other one was back, and the lock be had only when it is
 * away again.
 */
static bool
is_away_for_long(void)
{
	return away_since_ms != 0 && monotonic_ms() - away_since_ms >= SUBSTITUTE_AFTER_MS;
}

static void *
thread_main(void *arg)
{
	uint64_t	fired;

	for (;;)
	{
		if (read(timer_fd, &fired, sizeof(fired)) != sizeof(fired))
			continue;
		pthread_mutex_lock(&work_lock);
		if (is_away_for_long())
			do_work();
		pthread_mutex_unlock(&work_lock);
	}
	return NULL;
}

int
substitute_start(void (*work) (void))
{
	pthread_t	thread;
	int			rc;

	do_work = work;
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	back_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (timer_fd < 0 || back_fd < 0)
		return -1;
	pthread_mutex_lock(&work_lock);
	rc = pthread_create(&thread, NULL, thread_main, NULL);
	if (rc != 0)
	{
		pthread_mutex_unlock(&work_lock);
		errno = rc;
		return -1;
	}
	pthread_detach(thread);
	return back_fd;
}

void
substitute_away(void)
{
	away_since_ms = monotonic_ms();
	set_timer(SUBSTITUTE_AFTER_MS);
	pthread_mutex_unlock(&work_lock);
}

void
substitute_back(void)
{
	if (pthread_mutex_trylock(&work_lock) != 0)
	{
		wanted_back = true;
		wakeup(back_fd);
		pthread_mutex_lock(&work_lock);
		wanted_back = false;
	}
	set_timer(0);
	away_since_ms = 0;
}

bool
substitute_is_over(void)
{
	return wanted_back;
}
