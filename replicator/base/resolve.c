/*
 * resolve.c
 *	  Resolving host names without blocking the loop.
 *
 * getaddrinfo() waits for name servers, and libpq calls it when a connection is started, so an
 * unresponsive name server would stop the whole cluster.  Each request has a thread of its own,
 * which ends with it.  The thread fills in the result and returns the request through a pipe;
 * before and afterwards the request belongs to the loop's thread, which alone frees it.  So
 * nothing needs a lock: a cancelled request is discarded when it comes back.
 */
#include "resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "buffer.h"
#include "log.h"
#include "loop.h"

struct Resolve
{
	/* the loop's thread */
	ResolveDone done;			/* NULL: cancelled */
	void	   *arg;

	/* whose it is at the time */
	char	   *host;
	Buffer		hosts;
	Buffer		addresses;
	char	   *error;
};

static int	returned[2] = {-1, -1}; /* pipe of pointers */

static bool
is_name(const char *host, size_t len)
{
	char		text[INET6_ADDRSTRLEN + 1];
	unsigned char address[sizeof(struct in6_addr)];

	if (len == 0 || host[0] == '/' || host[0] == '@')
		return false;			/* a socket's directory */
	if (len >= sizeof(text))
		return true;
	memcpy(text, host, len);
	text[len] = '\0';
	return inet_pton(AF_INET, text, address) != 1 && inet_pton(AF_INET6, text, address) != 1;
}

bool
resolve_is_needed(const char *host)
{
	for (;;)
	{
		size_t		len = strcspn(host, ",");

		if (is_name(host, len))
			return true;
		if (host[len] == '\0')
			return false;
		host += len + 1;
	}
}

/* ---------- in the request's thread */

static void
append(Buffer *list, const char *text)
{
	if (list->len > 0)
		buffer_append(list, ",", 1);
	buffer_append(list, text, strlen(text));
}

/* Append the addresses of the name: all of them, or the first. */
static void
look_up(Resolve *r, const char *name, bool all)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int			rc = getaddrinfo(name, NULL, &hints, &found);

	if (rc != 0)
	{
		r->error = xasprintf("could not translate host name \"%s\" to address: %s", name, gai_strerror(rc));
		return;
	}
	for (struct addrinfo *a = found; a != NULL; a = a->ai_next)
	{
		char		text[NI_MAXHOST];

		if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0)
			continue;
		append(&r->hosts, name);
		append(&r->addresses, text);
		if (!all)
			break;
	}
	freeaddrinfo(found);
}

/* The list may be paired with a list of ports, so its length must not change. */
static void *
run(void *arg)
{
	Resolve    *r = arg;
	bool		single = strchr(r->host, ',') == NULL;
	const char *at = r->host;

	while (r->error == NULL)
	{
		size_t		len = strcspn(at, ",");
		char	   *name = strndup(at, len);

		if (name == NULL)
			abort();
		if (is_name(name, len))
			look_up(r, name, single);
		else
		{
			append(&r->hosts, name);
			append(&r->addresses, name);
		}
		free(name);
		if (at[len] == '\0')
			break;
		at += len + 1;
	}
	while (write(returned[1], &r, sizeof(r)) < 0 && errno == EINTR)
		;
	return NULL;
}

/* ---------- in the loop's thread */

static void
finish(Resolve *r)
{
	buffer_append(&r->hosts, "", 1);
	buffer_append(&r->addresses, "", 1);
	if (r->done != NULL && r->error == NULL && r->addresses.len == 1)
		r->error = xasprintf("host name \"%s\" has no address", r->host);
	if (r->done != NULL)
		r->done(r->arg, (const char *) r->hosts.data, (const char *) r->addresses.data, r->error);
	buffer_free(&r->hosts);
	buffer_free(&r->addresses);
	free(r->error);
	free(r->host);
	free(r);
}

static void
on_returned(void *arg, uint32_t events)
{
	Resolve    *r;

	while (read(returned[0], &r, sizeof(r)) == (ssize_t) sizeof(r))
		finish(r);
}

/* Both ends stay open until the process ends: threads may still be running. */
static void
open_pipe(void)
{
	if (returned[0] >= 0)
		return;
	if (pipe2(returned, O_CLOEXEC) != 0 || fcntl(returned[0], F_SETFL, O_NONBLOCK) != 0)
	{
		log_message(LOG_ERROR, NULL, "could not create a pipe: %s", strerror(errno));
		abort();
	}
	loop_watch(returned[0], EPOLLIN, on_returned, NULL);
}

Resolve *
resolve_start(const char *host, ResolveDone done, void *arg)
{
	Resolve    *r = xcalloc(1, sizeof(Resolve));
	pthread_t	thread;
	pthread_attr_t attributes;
	int			rc;

	open_pipe();
	r->host = xstrdup(host);
	r->done = done;
	r->arg = arg;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attributes, run, r);
	pthread_attr_destroy(&attributes);
	if (rc != 0)
	{
		r->error = xasprintf("could not start a thread: %s", strerror(rc));
		while (write(returned[1], &r, sizeof(r)) < 0 && errno == EINTR)
			;
	}
	return r;
}

void
resolve_cancel(Resolve *r)
{
	if (r != NULL)
		r->done = NULL;
}
