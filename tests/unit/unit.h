/*
 * unit.h
 *	  What every unit test includes: cmocka, and random numbers that are the
 *	  same in every run unless SEED says otherwise.
 */
#ifndef LOCKSTEP_UNIT_H
#define LOCKSTEP_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/crypto.h>

/* Threads that are not joined may still use what OpenSSL would free at the end. */
__attribute__((constructor)) static void
leave_openssl_alone(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static uint64_t unit_random_state __attribute__((unused));

static inline uint64_t
unit_env(const char *name, uint64_t value)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : value;
}

/* Begin a random test; prints what makes it happen again. */
static inline void
unit_seed(uint64_t seed)
{
	unit_random_state = unit_env("SEED", seed);
	printf("SEED=%llu\n", (unsigned long long) unit_random_state);
	fflush(stdout);
}

/* splitmix64 */
static inline uint64_t
unit_random(void)
{
	uint64_t	z = (unit_random_state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* 0 .. n-1 */
static inline uint64_t
unit_below(uint64_t n)
{
	return unit_random() % n;
}

#endif
