/*
 * listener.c
 *	  Listening sockets for backends: one for each address, and one Unix socket.  Each
 *	  connection becomes a session.
 *
 * Without free descriptors, accepting pauses: connections wait in the kernel's queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#include "buffer.h"
#include "listener.h"
#include "log.h"
#include "loop.h"
#include "loopback.h"
#include "session.h"

#define MAX_LISTENERS 32
#define ACCEPTS_PER_EVENT 64
#define PAUSE_MS 200
#define FULL_PAUSE_MS 20
#define DATA_SECONDS 2			/* the kernel keeps a connection that says
								 * nothing for itself so long */

typedef struct Listener
{
	int			fd;
	Watch	   *watch;
	Timer	   *pause;
} Listener;

static Listener listeners[MAX_LISTENERS];
static int	nlisteners;
static char *unix_path;
static Secret secret;
static const Config *config;

/* ---------- accepting */

/* A connection whose other end has vanished must be detected. */
static void
set_tcp_options(int fd)
{
	int			on = 1;
	int			idle = 10;
	int			interval = 5;
	int			probes = 3;
	unsigned int user_timeout = 30000;

	/* failure of these costs speed, not correctness */
	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}

static void
describe_peer(const struct sockaddr_storage *addr, socklen_t len, char *text, size_t size)
{
	char		host[64];
	char		port[16];

	if (addr->ss_family != AF_UNIX &&
		getnameinfo((const struct sockaddr *) addr, len, host, sizeof(host), port, sizeof(port),
					NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, size, "%s:%s", host, port);
	else
		snprintf(text, size, "the Unix socket");
}

/* Of the host, or the user on this one. */
static uint64_t
address_of(int fd, const struct sockaddr_storage *addr)
{
	struct ucred peer = {.uid = (uid_t) -1};
	socklen_t	len = sizeof(peer);

	if (addr->ss_family == AF_INET)
	{
		const struct sockaddr_in *in = (const struct sockaddr_in *) addr;

		return XXH3_64bits(&in->sin_addr, sizeof(in->sin_addr));
	}
	if (addr->ss_family == AF_INET6)
	{
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) addr;

		return XXH3_64bits(&in6->sin6_addr, 8); /* a network's */
	}
	(void) getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	return (uint64_t) peer.uid;
}

static void listen_again(void *arg);

static void
pause_listening(Listener *l, int ms)
{
	loop_change(l->watch, 0);
	l->pause = loop_after(ms, listen_again, l);
}

static void
listen_again(void *arg)
{
	Listener   *l = arg;

	l->pause = NULL;
	loop_change(l->watch, EPOLLIN);
}

static void
on_listen(void *arg, uint32_t events)
{
	Listener   *l = arg;

	for (int i = 0; i < ACCEPTS_PER_EVENT; i++)
	{
		struct sockaddr_storage addr;
		socklen_t	len = sizeof(addr);
		char		from[96];
		int			fd;

		if (!sessions_have_room())
		{
			pause_listening(l, FULL_PAUSE_MS);
			return;
		}
		fd = accept4(l->fd, (struct sockaddr *) &addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
		{
			if (errno != EAGAIN && errno != EWOULDBLOCK)
			{
				log_limited(&strangers_lines, LOG_WARNING, NULL, "could not accept a backend: %s", strerror(errno));
				pause_listening(l, PAUSE_MS);
			}
			return;
		}
		if (addr.ss_family != AF_UNIX)
			set_tcp_options(fd);
		describe_peer(&addr, len, from, sizeof(from));
		session_accept(fd, from, address_of(fd, &addr),
					   addr.ss_family == AF_UNIX || session_tls_may_be_clear(config, address_is_loopback(&addr)));
	}
}

/* ---------- listening */

static char *
start_listening(int fd, const char *where)
{
	Listener   *l;

	if (nlisteners == MAX_LISTENERS)
	{
		close(fd);
		return xstrdup("listen_addresses names too many addresses");
	}
	if (listen(fd, SOMAXCONN) != 0)
	{
		char	   *error = xasprintf("could not listen on %s: %s", where, strerror(errno));

		close(fd);
		return error;
	}
	l = &listeners[nlisteners++];
	l->fd = fd;
	l->watch = loop_watch(fd, EPOLLIN, on_listen, l);
	return NULL;
}

static char *
listen_address(const struct addrinfo *a, const char *where)
{
	int			fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int			on = 1;
	int			seconds = DATA_SECONDS;
	char	   *error;

	if (fd < 0)
		return xasprintf("could not create a socket for %s: %s", where, strerror(errno));
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	(void) setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
	if (a->ai_family == AF_INET6)
		(void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) != 0)
	{
		error = xasprintf("could not bind to %s: %s", where, strerror(errno));
		close(fd);
		return error;
	}
	return start_listening(fd, where);
}

/*
 * All addresses of one name of listen_addresses; "*" stands for all addresses of this machine.
 */
static char *
listen_name(const char *name, int port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE};
	struct addrinfo *list = NULL;
	char		service[16];
	char	   *where = xasprintf("address \"%s\", port %d", name, port);
	char	   *error = NULL;
	int			rc;

	snprintf(service, sizeof(service), "%d", port);
	rc = getaddrinfo(strcmp(name, "*") == 0 ? NULL : name, service, &hints, &list);
	if (rc != 0)
		error = xasprintf("could not resolve \"%s\" of listen_addresses: %s", name, gai_strerror(rc));
	for (struct addrinfo *a = list; a != NULL && error == NULL; a = a->ai_next)
		error = listen_address(a, where);
	if (list != NULL)
		freeaddrinfo(list);
	free(where);
	return error;
}

/*
 * The journal's lock stops a second replicator before it gets here, so an existing socket is
 * left from a crash.  The secret controls access, so the socket's permissions let any user
 * connect.
 */
static char *
listen_unix(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stat st;
	char	   *where;
	char	   *error;
	int			fd;

	strcpy(addr.sun_path, path);	/* config.c checked the length */
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0 || chmod(path, 0666) != 0)
	{
		error = xasprintf("could not listen on Unix socket \"%s\": %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return error;
	}
	where = xasprintf("Unix socket \"%s\"", path);
	error = start_listening(fd, where);
	free(where);
	unix_path = xstrdup(path);
	return error;
}

char *
listener_init(const Config *c, const char *cluster)
{
	char	   *error = auth_read_secret(c->secret_file, &secret);
	char	  **names;
	int			n;

	config = c;
	if (error != NULL || (error = session_tls_init(config)) != NULL)
		return error;
	sessions_init(config, cluster, &secret);
	names = config_list(config->listen_addresses, &n);
	for (int i = 0; i < n && error == NULL; i++)
		error = listen_name(names[i], config->port);
	config_list_free(names, n);
	if (error == NULL && config->unix_socket[0] != '\0')
		error = listen_unix(config->unix_socket);
	return error;
}

void
listener_stop(void)
{
	for (int i = 0; i < nlisteners; i++)
	{
		loop_cancel(listeners[i].pause);
		loop_unwatch(listeners[i].watch);
		close(listeners[i].fd);
	}
	nlisteners = 0;
	if (unix_path != NULL)
		unlink(unix_path);
	free(unix_path);
	unix_path = NULL;
}
