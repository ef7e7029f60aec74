/*
 * fuzz.h
 *	  What the fuzz targets share.
 */
#ifndef LOCKSTEP_FUZZ_H
#define LOCKSTEP_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* What doesn't hold is a finding. */
#define CHECK(condition) \
	do \
	{ \
		if (!(condition)) \
			__builtin_trap(); \
	} while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
