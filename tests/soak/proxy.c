/*
 * proxy.c
 *	  A cable between two TCP ports of this machine, for the crash harness.
 *
 *	proxy LISTEN TARGET lockstep|postgres|raw
 *
 * Passes bytes both ways.  Faults are made from outside, by signals: kill -9
 * cuts all connections at whatever byte they are at (start it again to plug the
 * cable in), SIGSTOP is a network that swallows everything, SIGUSR1 cuts all
 * connections and goes on.  And by a line on standard input,
 *
 *	 cut c|s TYPE before|within|after [NTH [APPLICATION]]
 *
 * the connection on which the client's (c) or the server's (s) side sends the
 * next (or NTH from now on) message of that type ("*": of any) is cut there; only
 * those of the application of that name count, if one is given.  "cut" and the
 * message's type are printed when it has been.  So the proxy follows the messages
 * of the protocol that it was started for: their lengths, nothing else; raw: it
 * does not.
 *
 *	 tell APPLICATION
 *
 * prints the types of that application's messages from now on, "saw c P" for one of
 * the client's; "tell" alone ends that.
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

/* Where a flow is in its messages. */
typedef struct Follower
{
	unsigned char header[8];
	size_t		have;			/* of the header */
	size_t		left;			/* of the message's body */
	bool		startup;		/* what comes first in PostgreSQL's protocol
								 * has no type */
	size_t		bare;			/* bytes to come that are no message */
	bool		lost;			/* not to be followed any more */
}			Follower;

typedef struct Flow
{
	char		bytes[BYTES];
	size_t		from;
	size_t		to;
	bool		ended;			/* nothing more comes */
	Follower	follower;
}			Flow;

typedef struct Pair
{
	int			fd[2];
	Flow		flow[2];		/* flow[i]: what fd[i] has sent */
	bool		doomed;			/* cut when these bytes are through */
	char		application[32];	/* that says so at its beginning */
} Pair;

typedef enum Where
{
	BEFORE, WITHIN, AFTER
}			Where;

static Pair *pairs[MAX_PAIRS];
static int	npairs;
static volatile sig_atomic_t cut;
static bool postgres;			/* the protocol */
static bool raw;

/* The cut that is asked for. */
static struct
{
	bool		wanted;
	int			side;
	char		type;
	Where		where;
	int			nth;
	char		application[32];	/* empty: any */
}			order;

static char told[32];			/* application, of which each message is told */

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
	pairs[npairs]->flow[0].follower.startup = postgres;
	pairs[npairs]->flow[0].follower.lost = pairs[npairs]->flow[1].follower.lost = raw;
	npairs++;
}

/* ---------- messages */

#define SSL_REQUEST 80877103
#define GSS_REQUEST 80877104
#define STARTUP 196608

static uint32_t
number_at(const unsigned char *p)
{
	return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

/* A header is complete: how much comes after it, and what it means for those to
 * come. */
static void
begin_message(Pair *p, int side)
{
	Follower   *f = &p->flow[side].follower;
	uint32_t	length = number_at(f->header + (f->startup ? 0 : 1));

	if (!postgres)
		f->left = length;
	else if (!f->startup)
		f->left = length - 4;
	else
	{
		uint32_t	code = number_at(f->header + 4);

		f->left = length - 8;
		if (code == SSL_REQUEST || code == GSS_REQUEST)
			p->flow[!side].follower.bare++; /* answered by one byte */
		else if (code == STARTUP)
			f->startup = false;
		else
			f->lost = p->flow[!side].follower.lost = true;
	}
}

/* Of the parameters with which a connection begins, which come in one piece. */
static void
note_application(Pair *p, const char *bytes, size_t len)
{
	static const char name[] = "application_name";
	const char *at = memmem(bytes, len, name, sizeof(name));
	size_t		left;

	if (at == NULL)
		return;
	at += sizeof(name);
	left = len - (size_t) (at - bytes);
	snprintf(p->application, sizeof(p->application), "%.*s", (int) strnlen(at, left), at);
}

/* Is a message the one that is asked for? */
static bool
is_ordered(const Pair *p, int side, unsigned char type)
{
	if (!order.wanted || side != order.side || (order.type != '*' && type != (unsigned char) order.type))
		return false;
	if (order.application[0] != '\0' && strcmp(order.application, p->application) != 0)
		return false;
	return --order.nth <= 0;
}

/*
 * Follow the bytes that came; at the message that is asked for, forget those that
 * are not to go through, and doom the connection.
 */
static void
follow(Pair *p, int side, size_t from)
{
	Flow	   *flow = &p->flow[side];
	Follower   *f = &flow->follower;

	for (size_t at = from; at < flow->to && !f->lost;)
	{
		size_t		rest = flow->to - at;
		bool		was_startup = f->startup;

		if (f->bare > 0)
		{
			f->bare--;
			at++;
			continue;
		}
		if (f->left > 0)
		{
			size_t		n = f->left < rest ? f->left : rest;

			f->left -= n;
			at += n;
			continue;
		}
		f->header[f->have++] = (unsigned char) flow->bytes[at++];
		if (f->have < (f->startup ? 8u : 5u))
			continue;
		f->have = 0;
		begin_message(p, side);
		if (was_startup)
			note_application(p, flow->bytes + at, flow->to - at);
		if (told[0] != '\0' && !was_startup && strcmp(told, p->application) == 0)
		{
			printf("saw %c %c\n", side == 0 ? 'c' : 's', f->header[0]);
			fflush(stdout);
		}
		if (was_startup || !is_ordered(p, side, f->header[0]))
			continue;
		order.wanted = false;
		p->doomed = true;
		/* the start of the header may be through already: then it is "within" */
		if (order.where == BEFORE && at >= flow->from + 5)
			flow->to = at - 5;
		else if (order.where == WITHIN && f->left == 0 && at >= flow->from + 3)
			flow->to = at - 3;	/* it is a header only */
		else if (order.where == WITHIN)
			flow->to = at + (f->left < flow->to - at ? f->left : flow->to - at) / 2;
		else if (order.where == AFTER)
			flow->to = at + (f->left < flow->to - at ? f->left : flow->to - at);
		else
			flow->to = at;
		printf("cut %c\n", f->header[0]);
		fflush(stdout);
		return;
	}
}

static void
take_line(const char *line)
{
	char		side;
	char		type;
	char		where[8];
	int			fields;

	if (strncmp(line, "tell", 4) == 0)
	{
		told[0] = '\0';
		(void) sscanf(line, "tell %31[^\n]", told);
		return;
	}
	order.nth = 1;
	order.application[0] = '\0';
	fields = sscanf(line, "cut %c %c %7s %d %31[^\n]", &side, &type, where, &order.nth, order.application);
	if (fields < 3)
	{
		fprintf(stderr, "proxy: what is \"%s\"?\n", line);
		exit(2);
	}
	order.wanted = true;
	order.side = side == 's';
	order.type = type;
	order.where = where[0] == 'b' ? BEFORE : where[0] == 'w' ? WITHIN : AFTER;
}

/* Lines are short and written at once; several may have gathered. */
static void
take_orders(void)
{
	char		lines[1000];
	ssize_t		n = read(0, lines, sizeof(lines) - 1);
	char	   *rest = lines;
	char	   *line;

	if (n <= 0)
		exit(0);				/* who started it is gone */
	lines[n] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
	{
		if (line[0] != '\0')
			take_line(line);
	}
}

/* ---------- bytes */

/* false: the connection is broken. */
static bool
take(Pair *p, int side)
{
	Flow	   *f = &p->flow[side];
	size_t		before;
	ssize_t		n;

	if (p->doomed)
		return true;

	n = recv(p->fd[side], f->bytes + f->to, BYTES - f->to, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		f->ended = true;
	before = f->to;
	f->to += (size_t) n;
	follow(p, side, before);
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
	if (f->from == f->to)
		f->from = f->to = 0;	/* room for more */
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
	return !p->doomed || p->flow[0].from < p->flow[0].to || p->flow[1].from < p->flow[1].to;
}

int
main(int argc, char **argv)
{
	int			listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int			on = 1;
	struct sockaddr_in at;
	static struct pollfd polled[2 + 2 * MAX_PAIRS];
	struct sigaction sa = {.sa_handler = on_cut};

	if (argc != 4)
	{
		fprintf(stderr, "usage: proxy LISTEN TARGET lockstep|postgres|raw\n");
		return 2;
	}
	postgres = strcmp(argv[3], "postgres") == 0;
	raw = strcmp(argv[3], "raw") == 0;
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
		polled[1] = (struct pollfd) {0, POLLIN, 0};
		for (int i = 0; i < npairs; i++)
		{
			for (int side = 0; side < 2; side++)
			{
				const		Flow *in = &pairs[i]->flow[side];
				const		Flow *out = &pairs[i]->flow[!side];
				bool		more = !in->ended && in->to < BYTES && !pairs[i]->doomed;

				polled[2 + 2 * i + side].fd = pairs[i]->fd[side];
				polled[2 + 2 * i + side].events = (short) ((more ? POLLIN : 0) |
														   (out->from < out->to ? POLLOUT : 0));
			}
		}
		if (poll(polled, (nfds_t) (2 + 2 * npairs), -1) < 0 && errno != EINTR)
			fail("proxy: poll");
		/* first: it was given before what now comes was sent */
		if (polled[1].revents & (POLLIN | POLLHUP))
			take_orders();
		for (int i = npairs - 1; i >= 0; i--)
		{
			if (cut || !serve(pairs[i], &polled[2 + 2 * i]))
				pair_end(i, cut || pairs[i]->doomed);
		}
		cut = 0;
		if (polled[0].revents & POLLIN)
			pair_begin(listener, atoi(argv[2]));
	}
}
