/*
 * strangers.c
 *	  Connections to the port of the members that have proved nothing: see strangers.h.
 */
#include "strangers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"

#define LINES 20				/* in ... */
#define LINES_SECONDS 10

struct Stranger
{
	Stranger   *prev;			/* in order of arrival */
	Stranger   *next;
	int			fd;				/* a descriptor of its own: the socket's may
								 * be closed by now */
	uint64_t	address;
	bool		ended;			/* it is not in the list any more */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* covers what follows */
static Stranger *first;
static Stranger *last;
static int	count;
static time_t lines_since;
static int	lines;
static int	left_out;

/* Of the host; of its network, if it has a whole one. */
static uint64_t
address_of(int fd)
{
	struct sockaddr_storage from = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *) &from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &from;
	socklen_t	len = sizeof(from);
	uint64_t	address = 0;

	if (getpeername(fd, (struct sockaddr *) &from, &len) != 0)
		return 0;
	if (from.ss_family == AF_INET)
		memcpy(&address, &v4->sin_addr, 4);
	else if (from.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		memcpy(&address, &v6->sin6_addr.s6_addr[12], 4);
	else if (from.ss_family == AF_INET6)
		memcpy(&address, &v6->sin6_addr, 8);
	return address;
}

/* With the lock. */
static void
take_off(Stranger *s)
{
	*(s->prev != NULL ? &s->prev->next : &first) = s->next;
	*(s->next != NULL ? &s->next->prev : &last) = s->prev;
	count--;
}

/* With the lock: its thread notices, and removes it. */
static void
end(Stranger *s)
{
	take_off(s);
	s->ended = true;
	(void) shutdown(s->fd, SHUT_RDWR);
}

/* With the lock: the oldest of that address, if there are too many. */
static Stranger *
beyond(uint64_t address)
{
	Stranger   *oldest = NULL;
	int			n = 0;

	for (Stranger *s = first; s != NULL; s = s->next)
	{
		if (s->address != address)
			continue;
		oldest = oldest != NULL ? oldest : s;
		n++;
	}
	return n > STRANGERS_OF_ADDRESS ? oldest : NULL;
}

Stranger *
strangers_add(int fd)
{
	Stranger   *s = xcalloc(1, sizeof(Stranger));
	Stranger   *oldest;

	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd < 0)
	{
		free(s);
		return NULL;
	}
	s->address = address_of(fd);
	pthread_mutex_lock(&lock);
	s->prev = last;
	*(last != NULL ? &last->next : &first) = s;
	last = s;
	count++;
	if ((oldest = beyond(s->address)) != NULL)
		end(oldest);
	else if (count > STRANGERS_MAX)
		end(first);
	pthread_mutex_unlock(&lock);
	return s;
}

void
strangers_remove(Stranger *s)
{
	pthread_mutex_lock(&lock);
	if (!s->ended)
		take_off(s);
	pthread_mutex_unlock(&lock);
	close(s->fd);
	free(s);
}

/* ---------- the log */

/* May one more line be written?  *missing: how many were not, before it. */
static bool
may_write(int *missing)
{
	struct timespec now;
	bool		may;

	clock_gettime(CLOCK_MONOTONIC, &now);
	*missing = 0;
	pthread_mutex_lock(&lock);
	if (lines == 0 || now.tv_sec - lines_since >= LINES_SECONDS)
	{
		*missing = left_out;
		lines_since = now.tv_sec;
		lines = left_out = 0;
	}
	may = lines < LINES;
	if (may)
		lines++;
	else
		left_out++;
	pthread_mutex_unlock(&lock);
	return may;
}

void
strangers_log(LogLevel level, const char *context, const char *fmt,...)
{
	char		text[1100];
	va_list		args;
	int			missing;

	if (!may_write(&missing))
		return;
	if (missing > 0)
		log_message(level, NULL, "%d more lines like the last ones, of connections to this replicator's member address, were left out", missing);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_message(level, context, "%s", text);
}
