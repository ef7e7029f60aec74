/*
 * monotonic.h
 *	  CLOCK_MONOTONIC, for what has no loop (loop_now_us()), or is outside of it: threads of their own, and lockstepctl.
 */
#ifndef LOCKSTEP_MONOTONIC_H
#define LOCKSTEP_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline int64_t
monotonic_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static inline int64_t
monotonic_ms(void)
{
	return monotonic_us() / 1000;
}

#endif							/* LOCKSTEP_MONOTONIC_H */
