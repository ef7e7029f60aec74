/*
 * systemd.c
 *	  What systemd is told: see systemd.h.
 *
 * The protocol is stable and small (sd_notify(3)): datagrams with NAME=VALUE lines.  A message that
 * cannot be sent is no fault of ours: systemd then acts as if the process hung.
 */
#include "systemd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"

#define BUSY_US UINT64_C(86400000000)	/* a day: reading a journal is bounded
										 * by its size only */
#define MAX_WATCHDOG_US UINT64_C(3600000000)

static uint64_t watchdog_us;	/* 0: none */
static Timer *timer;

static void
notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t		len = path != NULL ? strlen(path) : 0;
	int			fd;

	if (len == 0)
		return;
	if ((path[0] != '/' && path[0] != '@') || len >= sizeof(to.sun_path))
	{
		log_message(LOG_WARNING, NULL, "NOTIFY_SOCKET \"%s\" is no address of a socket", path);
		return;
	}
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';	/* abstract */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* the loop never waits for systemd */
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *) &to,
						 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_message(LOG_WARNING, NULL, "could not notify systemd: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* ---------- the watchdog */

/* Of this process, and not inherited by it from one that has it; 0: none, or nonsense. */
static uint64_t
watchdog_of_unit(void)
{
	const char *interval = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t	us;
	char	   *end;

	if (interval == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long) getpid()))
		return 0;
	us = strtoull(interval, &end, 10);
	return interval[0] >= '0' && interval[0] <= '9' && *end == '\0' && us <= MAX_WATCHDOG_US ? us : 0;
}

static void
on_time(void *arg)
{
	timer = loop_after((int) (watchdog_us / 3000) + 1, on_time, NULL);
	notify("WATCHDOG=1");
}

/* ---------- states */

void
systemd_ready(const char *status)
{
	char		text[300];

	watchdog_us = watchdog_of_unit();
	if (watchdog_us > 0)
		snprintf(text, sizeof(text), "READY=1\nWATCHDOG_USEC=%" PRIu64 "\nSTATUS=%s", watchdog_us, status);
	else
		snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
	notify(text);
	if (watchdog_us > 0 && timer == NULL)
		on_time(NULL);
}

void
systemd_busy(const char *status)
{
	char		text[300];

	loop_cancel(timer);
	timer = NULL;
	if (watchdog_us > 0)
		snprintf(text, sizeof(text), "WATCHDOG_USEC=%" PRIu64 "\nSTATUS=%s", BUSY_US, status);
	else
		snprintf(text, sizeof(text), "STATUS=%s", status);
	notify(text);
}

void
systemd_stopping(void)
{
	loop_cancel(timer);
	timer = NULL;
	notify("STOPPING=1\nSTATUS=stops");
}

void
systemd_failed(const char *why)
{
	char		text[300];

	snprintf(text, sizeof(text), "STATUS=%s", why);
	text[strcspn(text, "\n")] = '\0';
	notify(text);
}
