/*
 * linger.c
 *	  Closing a socket whose peer may still be sending.
 *
 * If a socket is closed while data is unread, or arrives later, the kernel answers with RST, and
 * the peer may lose what was sent to it last: the reason why it is closed.  So what comes is
 * read and discarded until the peer has read that and closed, for LINGER_MS at most, and for
 * LINGERING_MAX sockets at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "linger.h"
#include "loop.h"

#define LINGER_MS 2000
#define LINGERING_MAX 256

typedef struct Lingering
{
	int			fd;
	Watch	   *watch;
	Timer	   *timer;
} Lingering;

static int	nlingering = 0;

static void
end(Lingering *l)
{
	loop_cancel(l->timer);
	loop_unwatch(l->watch);
	close(l->fd);
	free(l);
	nlingering--;
}

static void
on_time_over(void *arg)
{
	Lingering  *l = arg;

	l->timer = NULL;
	end(l);
}

static void
on_input(void *arg, uint32_t events)
{
	static char discarded[65536];
	Lingering  *l = arg;
	ssize_t		n = recv(l->fd, discarded, sizeof(discarded), 0);

	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
		end(l);
}

void
linger_close(int fd)
{
	Lingering  *l;

	if (nlingering >= LINGERING_MAX || shutdown(fd, SHUT_WR) != 0)
	{
		close(fd);
		return;
	}
	nlingering++;
	l = xcalloc(1, sizeof(Lingering));
	l->fd = fd;
	l->watch = loop_watch(fd, EPOLLIN, on_input, l);
	l->timer = loop_after(LINGER_MS, on_time_over, l);
}
