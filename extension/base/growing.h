/*
 * growing.h
 *	  Arrays that outlive a transaction: room for one more element.
 */
#ifndef LOCKSTEP_GROWING_H
#define LOCKSTEP_GROWING_H

#include "utils/memutils.h"

/* The array of n elements of *max, or in its place a larger one, in TopMemoryContext; NULL: there is none yet. */
static inline void *
ls_with_room(void *array, int n, int *max, Size size)
{
	if (n < *max)
		return array;
	*max = Max(16, *max * 2);
	return array == NULL ? MemoryContextAlloc(TopMemoryContext, *max * size) : repalloc(array, *max * size);
}

#endif							/* LOCKSTEP_GROWING_H */
