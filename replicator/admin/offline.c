/*
 * offline.c
 *	  See offline.h.
 */
#include "offline.h"

#include <stdarg.h>
#include <stdio.h>

bool
offline_refuse(const char *hint, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	fprintf(stderr, "lockstep-replicator: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	if (hint != NULL)
		fprintf(stderr, "HINT:  %s\n", hint);
	return false;
}
