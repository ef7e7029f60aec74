/*
 * log_limit.h
 *	  Log lines that backends can cause at will: a limited number in ten seconds, then only
 *	  the number of suppressed ones.  Loop's thread.
 */
#ifndef LOCKSTEP_LOG_LIMIT_H
#define LOCKSTEP_LOG_LIMIT_H

#include <stdint.h>

#include "log.h"
#include "loop.h"

/* Of one kind of lines; static, zeros but for max. */
typedef struct LogLimit
{
	int			max;			/* lines in LOG_LIMIT_MS */
	int			lines;			/* since the timer was started */
	uint64_t	left_out;
	LogLevel	level;			/* highest of these */
	char		last[256];
	Timer	   *timer;
} LogLimit;

#define LOG_LIMIT_MS 10000

extern void log_limited(LogLimit *limit, LogLevel level, const char *context,
						const char *fmt,...) __attribute__((format(printf, 4, 5)));

#endif
