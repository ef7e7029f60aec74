/*
 * clock.c
 *	  For tests only: a wall clock that a test sets, while everybody runs.
 *
 * Preloaded by the dynamic linker (LD_PRELOAD), into servers and the replicator.
 * The file that LOCKSTEP_CLOCK names holds an int64, in the machine's order:
 * seconds that the wall clock is ahead.  The monotonic clocks are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

static int	(*real_clock_gettime) (clockid_t, struct timespec *);

/* The constructors of other libraries (gnutls) may ask for the time before ours has run. */
static void
find_real_clock(void)
{
	if (real_clock_gettime == NULL)
		real_clock_gettime = (int (*) (clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
}

static void __attribute__((constructor))
open_clock(void)
{
	const char *path = getenv("LOCKSTEP_CLOCK");
	int			fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void	   *at;

	find_real_clock();
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		ahead = at;
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			rc;

	find_real_clock();
	rc = real_clock_gettime(clock, ts);
	if (rc == 0 && ahead != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *ahead;
	return rc;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *t)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	if (t != NULL)
		*t = ts.tv_sec;
	return ts.tv_sec;
}
