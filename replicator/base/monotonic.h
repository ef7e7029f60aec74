/*
 * monotonic.h
 *	  CLOCK_MONOTONIC, for what has no loop (loop_now_us()): threads of their own, and lockstepctl.
 */
#ifndef LOCKSTEP_MONOTONIC_H
#define LOCKSTEP_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline int64_t
monotonic_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

#endif							/* LOCKSTEP_MONOTONIC_H */
