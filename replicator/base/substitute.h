/*
 * substitute.h
 *	  While the loop's thread waits for the kernel, another one runs the loop.
 */
#ifndef LOCKSTEP_SUBSTITUTE_H
#define LOCKSTEP_SUBSTITUTE_H

#include <stdbool.h>

/* Who waits for longer than that is replaced. */
#define SUBSTITUTE_AFTER_MS 5

/*
 * By the thread that has the work, which it does from now on, but between substitute_away() and
 * substitute_back().  work: returns when there is no more to do, or substitute_is_over().  Returns
 * a descriptor that can be read from when it becomes so, or -1, with errno.
 */
extern int	substitute_start(void (*work) (void));

extern void substitute_away(void);	/* nothing of the work may be touched, */
extern void substitute_back(void);	/* ... and now it may.  Waits until the
									 * other one has left it. */
extern bool substitute_is_over(void);

#endif
