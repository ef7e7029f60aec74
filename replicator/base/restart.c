/*
 * restart.c
 *	  Start this process again from its beginning: see restart.h.
 */
#include "restart.h"

#include <errno.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "log.h"

#define FIRST_DESCRIPTOR 3		/* that is not standard input, output or error */

static char **arguments;
static const char *pid_file;

/* held while a signal is taken, and from the decision to start again until that is done */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool forbidden;

void
restart_arm(char **main_arguments, const char *path)
{
	arguments = main_arguments;
	pid_file = path;
}

void
restart_forbid(void)
{
	pthread_mutex_lock(&lock);
	forbidden = true;
	pthread_mutex_unlock(&lock);
}

bool
restart_is_forbidden(void)
{
	bool		is;

	pthread_mutex_lock(&lock);
	is = forbidden;
	pthread_mutex_unlock(&lock);
	return is;
}

bool
restart_take_signal(int fd, struct signalfd_siginfo *info)
{
	bool		taken;

	pthread_mutex_lock(&lock);
	taken = read(fd, info, sizeof(*info)) == (ssize_t) sizeof(*info);
	if (taken && (info->ssi_signo == SIGTERM || info->ssi_signo == SIGINT))
		forbidden = true;
	pthread_mutex_unlock(&lock);
	return taken;
}

void
restart_or_exit(int code)
{
	pthread_mutex_lock(&lock);
	if (forbidden)
	{
		if (pid_file != NULL)
			unlink(pid_file);
		log_message(LOG_NOTICE, NULL, "stopped");
		_exit(EXIT_SUCCESS);
	}
	if (arguments != NULL)
	{
		/* not closed now: other threads use them until the end */
		(void) close_range(FIRST_DESCRIPTOR, ~0U, CLOSE_RANGE_CLOEXEC);
		(void) execv("/proc/self/exe", arguments);
		log_message(LOG_ERROR, NULL, "could not start again: %s", strerror(errno));
	}
	_exit(code);
}
