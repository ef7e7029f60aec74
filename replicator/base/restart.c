/*
 * restart.c
 *	  Start this process again from its beginning: see restart.h.
 */
#include "restart.h"

#include <errno.h>
#include <linux/close_range.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define FIRST_DESCRIPTOR 3		/* that is not standard input, output or error */

static char **arguments;

void
restart_arm(char **main_arguments)
{
	arguments = main_arguments;
}

void
restart_or_exit(int code)
{
	if (arguments != NULL)
	{
		/* not closed now: other threads use them until the end */
		(void) close_range(FIRST_DESCRIPTOR, ~0U, CLOSE_RANGE_CLOEXEC);
		(void) execv("/proc/self/exe", arguments);
		log_message(LOG_ERROR, NULL, "could not start again: %s", strerror(errno));
	}
	_exit(code);
}
