/*
 * monotonic.h
 *	  Time that only ever goes on, for everything that waits or has an end.
 *
 * GetCurrentTimestamp() is the wall clock: whoever sets it would make waits end
 * at once, or never.  Nothing in the extension counts by that; tests/lint/wall_clock
 * looks for it.  The times here are those of this machine since it was started,
 * the same in all processes, so they may be in shared memory, and mean nothing
 * on disk or anywhere else.
 */
#ifndef LOCKSTEP_MONOTONIC_H
#define LOCKSTEP_MONOTONIC_H

#include <limits.h>
#include <time.h>

/* Microseconds.  0 is never now, and means none. */
typedef int64 MonoTime;

static inline MonoTime
mono_now(void)
{
	struct timespec ts;

	(void) clock_gettime(CLOCK_MONOTONIC, &ts);
	return (MonoTime) ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + 1;
}

static inline MonoTime
mono_after(int64 ms)
{
	return mono_now() + ms * 1000;
}

/* Rounded up, so that who sleeps for as long is not early; 0: it is over. */
static inline long
mono_ms_left(MonoTime deadline)
{
	MonoTime	now = mono_now();

	if (now >= deadline)
		return 0;
	return (long) Min((deadline - now + 999) / 1000, INT_MAX);
}

static inline int64
mono_ms_since(MonoTime start)
{
	return (mono_now() - start) / 1000;
}

#endif
