/*
 * wakeup.h
 *	  Waking who waits for an eventfd.
 */
#ifndef LOCKSTEP_WAKEUP_H
#define LOCKSTEP_WAKEUP_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

static inline void
wakeup(int event_fd)
{
	uint64_t	one = 1;

	while (write(event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

#endif							/* LOCKSTEP_WAKEUP_H */
