/*
 * log_limit.c
 *	  Lines of the log that backends can cause: see log_limit.h.
 */
#include "log_limit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void
on_timer(void *arg)
{
	LogLimit   *l = arg;

	l->timer = NULL;
	l->lines = 0;
	if (l->left_out > 0)
		log_message(l->level, NULL, "%" PRIu64 " more lines like these in %d s were left out, the last one: %s",
					l->left_out, LOG_LIMIT_MS / 1000, l->last);
	l->left_out = 0;
	l->level = LOG_DEBUG;
}

void
log_limited(LogLimit *l, LogLevel level, const char *context, const char *fmt,...)
{
	char		text[1100];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (level == LOG_DEBUG)		/* debug lines are not limited */
	{
		log_message(level, context, "%s", text);
		return;
	}
	if (l->timer == NULL)
		l->timer = loop_after(LOG_LIMIT_MS, on_timer, l);
	if (l->lines++ < l->max)
	{
		log_message(level, context, "%s", text);
		return;
	}
	l->left_out++;
	if (level > l->level)
		l->level = level;
	snprintf(l->last, sizeof(l->last), "%.100s%s%.150s", context != NULL ? context : "", context != NULL ? ": " : "", text);
}
