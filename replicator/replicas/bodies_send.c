/*
 * bodies_send.c
 *	  A connection to a standby beside that for the journal, by which it gets bodies of large
 *	  transactions.
 *
 * It is apart so that no commit waits for hundreds of megabytes, here or in the standby, and so
 * that the standby can flush them meanwhile.  What goes by it promises nothing: only the name
 * that a body gets by the other connection does.
 */
#include "bodies_send.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "buffer.h"
#include "copies_bodies.h"
#include "copy_files.h"
#include "journal_private.h"
#include "monotonic.h"

#define LOOK_MS 1000
#define FLUSH_MS 60000			/* of a standby, which reads nothing
								 * meanwhile; if it is dead, the other
								 * connection ends */

typedef struct Stream
{
	MemberChannel *channel;
	int			i;
	uint64_t	connection;		/* that for the journal */
	BodySender	sender;
	uint64_t	id;				/* of the body whose file is open, or was */
	int			fd;				/* -1: none */
	uint8_t    *bytes;
} Stream;

/* With the lock: nobody else is in the place of this one. */
static bool
goes_on(const Stream *s)
{
	return copies_shared.copies[s->i].connection == s->connection;
}

/* The file's end may be behind what is valid, or was read before it was cut: then it is read again. */
static bool
send_piece(Stream *s, const Body *body)
{
	uint64_t	numbers[2] = {body->id, body->sent[s->i]};
	uint64_t	left = body->size - numbers[1];
	ssize_t		n = read_at(s->fd, s->bytes, left < MEMBER_DATA_MAX ? left : MEMBER_DATA_MAX, numbers[1]);
	bool		valid;

	pthread_mutex_lock(&copies_lock);
	valid = goes_on(s) && copies_bodies_sent(s->i, body, n > 0 ? (size_t) n : 0);
	pthread_mutex_unlock(&copies_lock);
	if (valid && n <= 0)
		return false;
	return !valid || member_channel_send(s->channel, MEMBER_BODY, numbers, 2, s->bytes, (size_t) n);
}

/* As long as it is open, what has been deleted keeps its bytes. */
static void
close_body(Stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static bool
open_body(Stream *s, uint64_t id)
{
	if (s->fd >= 0 && s->id == id)
		return true;
	close_body(s);
	s->id = id;
	s->fd = copy_open_body(copies_setup.config->journal_directory, id);
	return s->fd >= 0;
}

static bool
is_known_as_lost(const Stream *s, uint64_t id)
{
	bool		known;

	if (errno != ENOENT)
		return false;
	pthread_mutex_lock(&copies_lock);
	known = goes_on(s) && copies_bodies_lost(s->i, id);
	pthread_mutex_unlock(&copies_lock);
	return known;
}

/* false: the connection is lost, or a file is. */
static bool
do_task(Stream *s, BodyTask task, const Body *body)
{
	uint64_t	numbers[2] = {body->id, body->size};
	bool		valid;

	if (task == BODY_TASK_PIECE)
		return open_body(s, body->id) ? send_piece(s, body) : is_known_as_lost(s, body->id);
	close_body(s);
	pthread_mutex_lock(&copies_lock);
	valid = goes_on(s);
	if (valid && task == BODY_TASK_END)
		copies_bodies_ended(s->i, body->id);
	else if (valid)
		valid = copies_bodies_dropped(s->i, body->id);
	pthread_mutex_unlock(&copies_lock);
	return !valid ||
		member_channel_send(s->channel, task == BODY_TASK_END ? MEMBER_BODY_END : MEMBER_BODY_DROP, numbers, task == BODY_TASK_END ? 2 : 1, NULL, 0);
}

static bool
listen_to(const Stream *s)
{
	MemberResult result;
	MemberMessage m;

	while ((result = member_channel_receive(s->channel, 0, &m)) == MEMBER_MESSAGE)
	{
		LsSlice		payload = m.payload;
		uint64_t	id;

		if (m.type != MEMBER_BODY_THERE || !member_numbers(&payload, &id, 1))
			return false;
		pthread_mutex_lock(&copies_lock);
		if (goes_on(s))
			copies_bodies_there(s->i, id);
		pthread_mutex_unlock(&copies_lock);
	}
	return result != MEMBER_LOST;
}

/* What is next; false: the connection for the journal has ended. */
static bool
find_task(Stream *s, BodyTask *task, Body *body)
{
	bool		found;

	pthread_mutex_lock(&copies_lock);
	s->sender.told = false;
	found = goes_on(s);
	if (found)
		*task = copies_bodies_next(s->i, s->id, body);
	pthread_mutex_unlock(&copies_lock);
	return found;
}

static void
wait_for_news(const Stream *s)
{
	struct pollfd p[2] = {{member_channel_fd(s->channel), POLLIN, 0}, {s->sender.event_fd, POLLIN, 0}};
	uint64_t	count;

	if (poll(p, 2, LOOK_MS) > 0 && p[1].revents != 0)
		(void) !read(s->sender.event_fd, &count, sizeof(count));
}

static void
stream(Stream *s)
{
	BodyTask	task;
	Body		body;

	while (listen_to(s) && find_task(s, &task, &body))
	{
		if (task == BODY_TASK_NONE)
		{
			close_body(s);
			wait_for_news(s);
		}
		else if (!do_task(s, task, &body))
			break;
	}
}

/* Is there a connection for the journal that said so, and none for bodies yet? */
static bool
begin(Stream *s, const char *nonce)
{
	Copy	   *c = &copies_shared.copies[s->i];
	bool		ok;

	pthread_mutex_lock(&copies_lock);
	ok = c->connection != 0 && c->bodies == NULL && !c->bodies_lost && strcmp(c->nonce, nonce) == 0;
	if (ok)
	{
		s->connection = c->connection;
		c->bodies = &s->sender;
		c->bodies_since_ms = monotonic_ms();
	}
	pthread_mutex_unlock(&copies_lock);
	return ok;
}

static void
end(const Stream *s)
{
	Copy	   *c = &copies_shared.copies[s->i];

	pthread_mutex_lock(&copies_lock);
	if (c->bodies == &s->sender)
		c->bodies = NULL;
	if (c->connection == s->connection)
	{
		c->bodies_lost = true;
		copies_shared.changes++;
		if (c->sender != NULL)
			copies_wake(c->sender);
	}
	pthread_mutex_unlock(&copies_lock);
}

void
bodies_serve(MemberChannel *channel, int i, const char *nonce)
{
	Stream		s = {.channel = channel,.i = i,.fd = -1};

	s.sender.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s.sender.event_fd >= 0 && begin(&s, nonce))
	{
		s.bytes = xmalloc(MEMBER_DATA_MAX);
		member_channel_wait_longer(channel, FLUSH_MS);
		if (member_channel_send(channel, MEMBER_BODIES, NULL, 0, NULL, 0))
			stream(&s);
		end(&s);
		free(s.bytes);
	}
	close_body(&s);
	if (s.sender.event_fd >= 0)
		close(s.sender.event_fd);
}
