/*
 * monotonic.h
 *	  Monotonic time, for everything that waits or expires.
 *
 * GetCurrentTimestamp() is the wall clock; setting it would make waits end at once, or never.
 * The extension measures no duration by it; tests/lint/wall_clock checks that.  These times
 * count from the start of this machine and are equal in all processes, so they may be stored in
 * shared memory, but not on disk.
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
