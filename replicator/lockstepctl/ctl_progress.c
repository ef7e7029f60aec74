/*
 * ctl_progress.c
 *	  How far something long is, on a terminal: one line, which the next one replaces.  Nothing where
 *	  stderr is not a terminal.  The caller sees to it that one thread at a time calls.
 */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "ctl_verify.h"

#define PROGRESS_MS 100			/* not more often */
#define ERASE "\r\033[K"

static bool shown;
static int64_t last_ms;

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

void
progress_say(const char *fmt,...)
{
	va_list		args;
	const int64_t now = now_ms();

	if (!isatty(STDERR_FILENO) || (shown && now - last_ms < PROGRESS_MS))
		return;
	shown = true;
	last_ms = now;
	fputs(ERASE, stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fflush(stderr);
}

void
progress_end(void)
{
	if (shown)
		fputs(ERASE, stderr);
	shown = false;
}
