/*
 * proxy.c
 *	  A cable between two TCP ports of this machine, for the crash harness.
 *
 *	proxy LISTEN TARGET
 *
 * Passes bytes both ways.  Faults are made from outside, by signals: kill -9
 * cuts all connections at whatever byte they are at (start it again to plug the
 * cable in), SIGSTOP is a network that swallows everything, SIGUSR1 cuts all
 * connections and goes on.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PAIRS 1000
#define BYTES 65536

typedef struct Flow
{
	char		bytes[BYTES];
	size_t		from;
	size_t		to;
	bool		ended;			/* nothing more comes */
} Flow;

typedef struct Pair
{
	int			fd[2];
	Flow		flow[2];		/* flow[i]: what fd[i] has sent */
} Pair;

static Pair *pairs[MAX_PAIRS];
static int	npairs;
static volatile sig_atomic_t cut;

static void
on_cut(int signo)
{
	cut = 1;
}

static void
fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct sockaddr_in
local(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,.sin_port = htons((uint16_t) port)};

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

/* Close; with RST, as a host that went away does. */
static void
slam(int fd)
{
	struct linger l = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
}

static void
pair_end(int i, bool rude)
{
	for (int side = 0; side < 2; side++)
	{
		if (rude)
			slam(pairs[i]->fd[side]);
		else
			close(pairs[i]->fd[side]);
	}
	free(pairs[i]);
	pairs[i] = pairs[--npairs];
}

static void
pair_begin(int listener, int target)
{
	struct sockaddr_in to = local(target);
	int			a = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int			b = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			on = 1;

	if (a < 0 || b < 0 || npairs == MAX_PAIRS || connect(b, (struct sockaddr *) &to, sizeof(to)) != 0)
	{
		if (a >= 0)
			slam(a);
		if (b >= 0)
			close(b);
		return;
	}
	setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pairs[npairs] = calloc(1, sizeof(Pair));
	if (pairs[npairs] == NULL)
		fail("proxy: memory");
	pairs[npairs]->fd[0] = a;
	pairs[npairs]->fd[1] = b;
	npairs++;
}

/* false: the connection is broken. */
static bool
take(Pair *p, int side)
{
	Flow	   *f = &p->flow[side];
	ssize_t		n;

	if (f->from == f->to)
		f->from = f->to = 0;
	n = recv(p->fd[side], f->bytes + f->to, BYTES - f->to, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		f->ended = true;
	f->to += (size_t) n;
	return true;
}

static bool
give(Pair *p, int side)
{
	Flow	   *f = &p->flow[side];
	ssize_t		n = send(p->fd[!side], f->bytes + f->from, f->to - f->from, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	f->from += (size_t) n;
	return true;
}

static bool
serve(Pair *p, const struct pollfd *polled)
{
	for (int side = 0; side < 2; side++)
	{
		Flow	   *f = &p->flow[side];

		if (!f->ended && f->to < BYTES && (polled[side].revents & (POLLIN | POLLHUP | POLLERR)) && !take(p, side))
			return false;
		if (f->from < f->to && !give(p, side))
			return false;
		if (f->ended && f->from == f->to)
			return false;		/* neither libpq nor lockstep half-closes */
	}
	return true;
}

int
main(int argc, char **argv)
{
	int			listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			on = 1;
	struct sockaddr_in at;
	static struct pollfd polled[1 + 2 * MAX_PAIRS];
	struct sigaction sa = {.sa_handler = on_cut};

	if (argc != 3)
	{
		fprintf(stderr, "usage: proxy LISTEN TARGET\n");
		return 2;
	}
	at = local(atoi(argv[1]));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *) &at, sizeof(at)) != 0 || listen(listener, 100) != 0)
		fail("proxy: listen");
	sigaction(SIGUSR1, &sa, NULL);
	printf("ready\n");
	fflush(stdout);
	for (;;)
	{
		polled[0] = (struct pollfd) {listener, POLLIN, 0};
		for (int i = 0; i < npairs; i++)
		{
			for (int side = 0; side < 2; side++)
			{
				const Flow *in = &pairs[i]->flow[side];
				const Flow *out = &pairs[i]->flow[!side];

				polled[1 + 2 * i + side].fd = pairs[i]->fd[side];
				polled[1 + 2 * i + side].events = (short) ((!in->ended && in->to < BYTES ? POLLIN : 0) |
														   (out->from < out->to ? POLLOUT : 0));
			}
		}
		if (poll(polled, (nfds_t) (1 + 2 * npairs), -1) < 0 && errno != EINTR)
			fail("proxy: poll");
		for (int i = npairs - 1; i >= 0; i--)
		{
			if (cut || !serve(pairs[i], &polled[1 + 2 * i]))
				pair_end(i, cut);
		}
		cut = 0;
		if (polled[0].revents & POLLIN)
			pair_begin(listener, atoi(argv[2]));
	}
}
