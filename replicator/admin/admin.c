/*
 * admin.c
 *	  The operator's Unix socket: accepts, checks who is there, reads the
 *	  request line, sends the answer.  What a request means is in
 *	  admin_command.c.
 *
 * A request is READING until its line is complete, BUSY while its command
 * runs, ANSWERING until the answer is sent; then it is freed.  When the client
 * goes while BUSY, the request stays, without a socket, until its command
 * answers (a command may hold a pointer to it) and is freed then.
 *
 * One that tells how far it is (running.h) is TELLING, until the client goes.
 * It is read once in TELL_MS, so that it can send as much as it likes: the rest
 * waits in the kernel.
 *
 * Nothing a client sends can do more than fail: lines are bounded, clients are
 * few, one that says nothing is sent away, and only root and the replicator's
 * own user get past the credentials check.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin.h"
#include "buffer.h"
#include "json_text.h"
#include "log.h"
#include "loop.h"
#include "running.h"

#define MAX_REQUESTS 64
#define MAX_LINE 1024
#define READ_TIMEOUT_MS 10000
#define LISTEN_PAUSE_MS 1000
#define TELL_MS 1000
#define TELL "progress "
#define POLL_MS 5				/* how often a waiting command looks again */

typedef enum RequestState
{
	REQUEST_READING,
	REQUEST_BUSY,
	REQUEST_ANSWERING,
	REQUEST_TELLING
} RequestState;

struct AdminRequest
{
	RequestState state;
	int			fd;				/* -1: the client is gone */
	uid_t		user;
	pid_t		pid;
	Watch	   *watch;
	Timer	   *patience;		/* for a slow client; TELLING: until it is
								 * read */
	Running    *running;		/* TELLING: what */
	Buffer		in;
	Buffer		out;
	AdminPoll	poll;			/* BUSY: NULL or what to ask for the answer */
	AdminCancel cancel;			/* NULL, or what to call if the client goes
								 * before that */
	int			poll_node;
	uint64_t	poll_seq;
	uint64_t	deadline_us;	/* 0: none */
	AdminRequest *next;
};

static const Config *config;
static const char *cluster;
static AdminMain main_calls;
static AdminCommand run_command;
static int	listen_fd = -1;
static Watch *listen_watch;
static Timer *listen_pause;		/* accepting failed */
static AdminRequest *requests;
static int	nrequests;
static Timer *poll_timer;

const Config *
admin_config(void)
{
	return config;
}

const char *
admin_cluster(void)
{
	return cluster;
}

const AdminMain *
admin_main(void)
{
	return &main_calls;
}

/* ---------- one request */

static void
request_hang_up(AdminRequest *r)
{
	loop_cancel(r->patience);
	loop_unwatch(r->watch);
	if (r->fd >= 0)
		close(r->fd);
	r->patience = NULL;
	r->watch = NULL;
	r->fd = -1;
}

static void
request_free(AdminRequest *r)
{
	AdminRequest **p = &requests;

	request_hang_up(r);
	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	nrequests--;
	running_end(r->running);
	buffer_free(&r->in);
	buffer_free(&r->out);
	free(r);
}

/* The client went: a command that runs still needs the request. */
static void
request_lost(AdminRequest *r)
{
	if (r->state == REQUEST_BUSY && r->poll == NULL)
	{
		request_hang_up(r);
		return;
	}
	if (r->state == REQUEST_BUSY && r->cancel != NULL)
		r->cancel(r);
	request_free(r);
}

static void
request_write(AdminRequest *r)
{
	while (r->out.pos < r->out.len)
	{
		ssize_t		n = send(r->fd, r->out.data + r->out.pos, r->out.len - r->out.pos, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		{
			loop_change(r->watch, EPOLLOUT);
			return;
		}
		if (n < 0)
			break;
		buffer_consume(&r->out, (size_t) n);
	}
	request_free(r);
}

static void
on_patience(void *arg)
{
	AdminRequest *r = arg;

	r->patience = NULL;
	request_free(r);
}

void
admin_answer(AdminRequest *r, json_t *answer)
{
	char	   *text = json_dumps(answer, JSON_COMPACT);

	assert(r->state == REQUEST_BUSY);
	json_decref(answer);
	r->state = REQUEST_ANSWERING;
	if (r->fd < 0 || text == NULL)
	{
		free(text);
		request_free(r);
		return;
	}
	buffer_append(&r->out, text, strlen(text));
	buffer_append(&r->out, "\n", 1);
	free(text);
	loop_cancel(r->patience);	/* it may still be that for the request */
	r->patience = loop_after(READ_TIMEOUT_MS, on_patience, r);
	request_write(r);
}

json_t *
admin_failure(const char *error, const char *hint)
{
	json_t	   *answer = json_object();

	json_object_set_new(answer, "ok", json_false());
	json_object_set_new(answer, "error", json_from_text(error));
	if (hint != NULL)
		json_object_set_new(answer, "hint", json_from_text(hint));
	return answer;
}

void
admin_failed(AdminRequest *r, const char *error, const char *hint)
{
	admin_answer(r, admin_failure(error, hint));
}

static void
request_run(AdminRequest *r, size_t len)
{
	char	   *line = xstrndup(r->in.data, len);

	loop_cancel(r->patience);
	r->patience = NULL;
	r->state = REQUEST_BUSY;
	loop_change(r->watch, 0);	/* EPOLLHUP comes all the same */
	run_command(r, line);
	free(line);
}

static void
request_read(AdminRequest *r)
{
	char		bytes[MAX_LINE];
	ssize_t		n = recv(r->fd, bytes, sizeof(bytes), 0);
	const uint8_t *end;

	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
	{
		request_free(r);
		return;
	}
	buffer_append(&r->in, bytes, (size_t) n);
	end = memchr(r->in.data, '\n', r->in.len);
	if (end != NULL)
		request_run(r, (size_t) (end - r->in.data));
	else if (r->in.len >= MAX_LINE)
	{
		r->state = REQUEST_BUSY;
		admin_failed(r, "request is too long", NULL);
	}
}

/* ---------- one that tells how far it is */

static void
on_tell_again(void *arg)
{
	AdminRequest *r = arg;

	r->patience = NULL;
	loop_change(r->watch, EPOLLIN);
}

static void
tell_later(AdminRequest *r)
{
	loop_change(r->watch, 0);	/* EPOLLHUP comes all the same */
	r->patience = loop_after(TELL_MS, on_tell_again, r);
}

static void
forget_lines(AdminRequest *r, size_t bytes)
{
	r->in.len -= bytes;
	memmove(r->in.data, r->in.data + bytes, r->in.len);
}

/* A whole line, without its end. */
static bool
tell(AdminRequest *r, const char *line)
{
	return strncmp(line, TELL, strlen(TELL)) == 0 && running_say(r->running, line + strlen(TELL));
}

/* The first line is still in r->in, and perhaps more. */
void
admin_tells(AdminRequest *r, const char *line)
{
	const uint8_t *end = memchr(r->in.data, '\n', r->in.len);

	r->running = running_begin(r->user, r->pid);
	if (r->running == NULL)
		admin_failed(r, "too many processes tell how far they are", NULL);
	else if (!running_say(r->running, line))
		admin_failed(r, "invalid progress", NULL);
	else
	{
		r->state = REQUEST_TELLING;
		forget_lines(r, (size_t) (end + 1 - r->in.data));
		tell_later(r);
	}
}

/* The last whole line of what has come; false: it is none. */
static bool
tell_last(AdminRequest *r)
{
	const uint8_t *bytes = r->in.data;
	size_t		len = r->in.len;
	size_t		end = len;
	size_t		start;
	char	   *line;
	bool		ok;

	while (end > 0 && bytes[end - 1] != '\n')
		end--;
	if (len - end >= MAX_LINE)
		return false;
	if (end == 0)
		return true;
	start = end - 1;
	while (start > 0 && bytes[start - 1] != '\n')
		start--;
	line = xstrndup(bytes + start, end - 1 - start);
	ok = tell(r, line);
	free(line);
	forget_lines(r, end);
	return ok;
}

static void
request_told(AdminRequest *r)
{
	char		bytes[MAX_LINE];
	ssize_t		n = recv(r->fd, bytes, sizeof(bytes), 0);

	if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
	{
		request_free(r);
		return;
	}
	buffer_append(&r->in, bytes, (size_t) n);
	if (tell_last(r))
		tell_later(r);
	else
		request_free(r);
}

static void
on_request(void *arg, uint32_t events)
{
	AdminRequest *r = arg;

	if (r->state == REQUEST_READING && (events & EPOLLIN))
		request_read(r);
	else if (r->state == REQUEST_TELLING && (events & EPOLLIN))
		request_told(r);
	else if (events & (EPOLLHUP | EPOLLERR))
		request_lost(r);
	else if (r->state == REQUEST_ANSWERING && (events & EPOLLOUT))
		request_write(r);
}

/* ---------- commands that wait */

static void
on_poll(void *arg)
{
	bool		more = false;
	AdminRequest *next;

	poll_timer = NULL;
	for (AdminRequest *r = requests; r != NULL; r = next)
	{
		json_t	   *answer;

		next = r->next;
		if (r->poll == NULL)
			continue;
		answer = r->poll(r, r->deadline_us != 0 && loop_now_us() >= r->deadline_us);
		if (answer == NULL)
		{
			more = true;
			continue;
		}
		r->poll = NULL;
		admin_answer(r, answer);
	}
	if (more)
		poll_timer = loop_after(POLL_MS, on_poll, NULL);
}

void
admin_poll(AdminRequest *r, AdminPoll poll, int node, uint64_t seq)
{
	r->poll = poll;
	r->poll_node = node;
	r->poll_seq = seq;
	if (poll_timer == NULL)
		poll_timer = loop_after(0, on_poll, NULL);
}

void
admin_on_cancel(AdminRequest *r, AdminCancel cancel)
{
	r->cancel = cancel;
}

int
admin_poll_node(const AdminRequest *r)
{
	return r->poll_node;
}

uint64_t
admin_poll_seq(const AdminRequest *r)
{
	return r->poll_seq;
}

uid_t
admin_user(const AdminRequest *r)
{
	return r->user;
}

int
admin_timeout_ms(const AdminRequest *r)
{
	uint64_t	now = loop_now_us();

	return r->deadline_us > now ? (int) ((r->deadline_us - now) / 1000) : 0;
}

void
admin_set_timeout(AdminRequest *r, int ms)
{
	r->deadline_us = ms > 0 ? loop_now_us() + (uint64_t) ms * 1000 : 0;
}

/* ---------- the socket */

static bool
peer_is_allowed(int fd, uid_t *user, pid_t *pid)
{
	struct ucred peer;
	socklen_t	len = sizeof(peer);
	char	   *message;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
	{
		log_message(LOG_WARNING, "admin", "could not get credentials of a client: %s", strerror(errno));
		return false;
	}
	*user = peer.uid;
	*pid = peer.pid;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	message = xasprintf("refused a client with user id %u: only root and user id %u may command",
						(unsigned) peer.uid, (unsigned) geteuid());
	log_event(LOG_WARNING, "command_refused", "admin", message, NULL, NULL);
	free(message);
	return false;
}

static void
listen_again(void *arg)
{
	listen_pause = NULL;
	loop_change(listen_watch, EPOLLIN);
}

static void
on_listen(void *arg, uint32_t events)
{
	AdminRequest *r;
	int			fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	uid_t		user;
	pid_t		pid;

	if (fd < 0)
	{
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED)
			return;
		/* Out of descriptors, most likely: it would be ready again at once. */
		log_message(LOG_WARNING, "admin", "could not accept a connection: %s", strerror(errno));
		loop_change(listen_watch, 0);
		listen_pause = loop_after(LISTEN_PAUSE_MS, listen_again, NULL);
		return;
	}
	if (nrequests >= MAX_REQUESTS || !peer_is_allowed(fd, &user, &pid))
	{
		close(fd);
		return;
	}
	r = xcalloc(1, sizeof(AdminRequest));
	r->fd = fd;
	r->user = user;
	r->pid = pid;
	r->watch = loop_watch(fd, EPOLLIN, on_request, r);
	r->patience = loop_after(READ_TIMEOUT_MS, on_patience, r);
	r->next = requests;
	requests = r;
	nrequests++;
}

/* The pid file and the journal's lock keep a second replicator from getting
 * here, so a socket that is in the way is left from a crash. */
static void
remove_old_socket(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(path);
}

char *
admin_init(const Config *c, const char *cluster_id, const AdminMain *calls, AdminCommand command)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	mode_t		mask;
	int			rc;

	config = c;
	cluster = cluster_id;
	main_calls = *calls;
	run_command = command;

	strcpy(addr.sun_path, c->admin_socket); /* config.c checked the length */
	remove_old_socket(c->admin_socket);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listen_fd < 0)
		return xasprintf("could not create the admin socket: %s", strerror(errno));
	mask = umask(0177);
	rc = bind(listen_fd, (struct sockaddr *) &addr, sizeof(addr));
	umask(mask);
	if (rc != 0 || listen(listen_fd, MAX_REQUESTS) != 0)
		return xasprintf("could not listen on admin socket \"%s\": %s", c->admin_socket, strerror(errno));
	listen_watch = loop_watch(listen_fd, EPOLLIN, on_listen, NULL);
	return NULL;
}

/* Its command waits for what this process will not see. */
static void
request_given_up(AdminRequest *r)
{
	if (r->cancel != NULL)
		r->cancel(r);
	r->poll = NULL;
	admin_failed(r, "the replicator stopped, or handed over to another one, before the command was done",
				 "See lockstepctl status when a replicator leads again, and repeat the command if it is still needed.");
}

void
admin_stop(void)
{
	if (listen_fd < 0)
		return;
	loop_cancel(listen_pause);
	loop_unwatch(listen_watch);
	close(listen_fd);
	listen_pause = NULL;
	listen_watch = NULL;
	listen_fd = -1;
	unlink(config->admin_socket);
	loop_cancel(poll_timer);
	poll_timer = NULL;
	for (AdminRequest *r = requests, *next; r != NULL; r = next)
	{
		next = r->next;
		if (r->state == REQUEST_BUSY && r->poll != NULL)
			request_given_up(r);
		else
			request_lost(r);
	}
}
