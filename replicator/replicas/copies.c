/*
 * copies.c
 *	  The leader's side of the journal's copies: what is published, and who has it.  See copies.h.
 *
 * Locking: see copies_private.h.
 */
#include "copies_private.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "monotonic.h"
#include "wakeup.h"

bool		copies_active;

/* A disk with less room than that is full. */
#define ROOM_SEGMENTS 2
#define BUSY_MS 10000
#define BUSY_PAUSE_MS 20

pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t copies_noticed;
CopiesShared copies_shared;
CopiesSetup copies_setup = {.listen_fd = -1};

/* ---------- the journal's thread */

void
copies_wake(Sender *s)
{
	if (s->state != SENDER_AWAKE)
		wakeup(s->event_fd);
	s->state = SENDER_AWAKE;
}

void
copies_tell_journal(void)
{
	if (copies_shared.waiting)
		wakeup(copies_shared.await_fd);
	copies_shared.waiting = false;
}

void
copies_tell_bodies(void)
{
	if (copies_shared.bodies_awaited)
		wakeup(copies_shared.bodies_fd);
}

void
copies_wake_bodies(int i)
{
	BodySender *s = copies_shared.copies[i].bodies;

	if (s == NULL || s->told)
		return;
	s->told = true;
	wakeup(s->event_fd);
}

/* With the lock. */
static void
wake_senders(void)
{
	copies_shared.changes++;
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		if (copies_shared.copies[i].sender != NULL)
			copies_wake(copies_shared.copies[i].sender);
	}
}

void
copies_will_write(void)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.unsynced_ms = monotonic_ms();
	pthread_mutex_unlock(&copies_lock);
}

/* With the lock: what is published is for that thread; true: for the caller. */
static bool
offer(Sender *s)
{
	const JournalPlace at = copies_shared.copies[s->i].view.at;
	const JournalPlace end = copies_shared.end;

	if (s->state == SENDER_LENDS && copies_shared.body_index < copies_shared.index)
	{
		s->refs++;
		return true;
	}
	if (s->state != SENDER_RESTS || end.segment != at.segment || end.offset - at.offset >= COPIES_REST_BYTES || copies_shared.body_index == copies_shared.index)
		copies_wake(s);
	return false;
}

void
copies_publish(JournalPlace end)
{
	Sender	   *lent[CONFIG_MAX_REPLICATORS];
	int			n = 0;

	pthread_mutex_lock(&copies_lock);
	copies_shared.index++;
	copies_shared.changes++;
	copies_shared.bytes += (int64_t) (end.offset - (end.segment == copies_shared.end.segment ? copies_shared.end.offset : 0));
	copies_shared.end = end;
	copies_shared.waited_for = true;
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		Sender	   *s = copies_shared.copies[i].sender;

		if (s != NULL && offer(s))
			lent[n++] = s;
	}
	pthread_mutex_unlock(&copies_lock);
	for (int i = 0; i < n; i++)
	{
		if (!copies_setup.connections.send(lent[i]))
		{
			pthread_mutex_lock(&copies_lock);
			copies_wake(lent[i]);
			pthread_mutex_unlock(&copies_lock);
		}
		copies_setup.connections.release(lent[i]);
	}
}

/* With the lock. */
static bool
all_have(uint64_t index)
{
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		if (copies_shared.copies[i].view.required && copies_shared.copies[i].view.acked < index)
			return false;
	}
	return copies_shared.enough;
}

/* With the lock, which is released meanwhile: wait for what changes all_have(). */
static void
await_news(void)
{
	struct pollfd p[1 + CONFIG_MAX_REPLICATORS] = {{copies_shared.await_fd, POLLIN, 0}};
	Sender	   *lent[CONFIG_MAX_REPLICATORS];
	nfds_t		n = 0;
	uint64_t	count;

	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		const Copy *c = &copies_shared.copies[i];

		if (c->sender == NULL || c->sender->state != SENDER_LENDS || c->view.acked >= copies_shared.index)
			continue;
		c->sender->refs++;
		lent[n++] = c->sender;
		p[n] = (struct pollfd) {member_channel_fd(c->sender->channel), POLLIN, 0};
	}
	copies_shared.waiting = true;
	pthread_mutex_unlock(&copies_lock);
	(void) poll(p, n + 1, -1);
	pthread_mutex_lock(&copies_lock);
	copies_shared.waiting = false;
	pthread_mutex_unlock(&copies_lock);
	for (nfds_t i = 0; i < n; i++)
	{
		if (p[i + 1].revents != 0)
			copies_setup.connections.hear(lent[i]);
		copies_setup.connections.release(lent[i]);
	}
	if (p[0].revents != 0)
		(void) !read(p[0].fd, &count, sizeof(count));
	pthread_mutex_lock(&copies_lock);
}

bool
copies_await(void)
{
	bool		acknowledged;

	pthread_mutex_lock(&copies_lock);
	copies_shared.unsynced_ms = 0;
	while (!(acknowledged = all_have(copies_shared.index)) && !copies_shared.stop)
		await_news();
	if (acknowledged)
		copies_shared.acknowledged = copies_shared.index;
	copies_shared.waited_for = false;
	pthread_mutex_unlock(&copies_lock);
	return acknowledged;
}

bool
copies_has_room(const CopyView *view)
{
	return view->room >= (uint64_t) ROOM_SEGMENTS * (uint64_t) copies_setup.config->journal_segment_size;
}

bool
copies_room_elsewhere(void)
{
	bool		found = false;

	pthread_mutex_lock(&copies_lock);
	for (int i = 0; i < copies_setup.config->nreplicators && !found; i++)
	{
		const CopyView *v = &copies_shared.copies[i].view;

		found = v->required && v->connected && v->live && copies_has_room(v);
	}
	pthread_mutex_unlock(&copies_lock);
	return found;
}

/* ---------- group.c */

void
copies_look(int i, CopyView *view)
{
	int64_t		silent_ms;

	pthread_mutex_lock(&copies_lock);
	*view = copies_shared.copies[i].view;
	view->bodies = copies_shared.copies[i].bodies != NULL;
	silent_ms = monotonic_ms() - copies_shared.copies[i].heard_ms;
	view->silent_ms = silent_ms < INT_MAX ? (int) silent_ms : INT_MAX;
	view->lag_bytes = view->at.segment == copies_shared.end.segment ? (int64_t) (copies_shared.end.offset - view->at.offset) :
		copies_shared.bytes - copies_shared.copies[i].segment_bytes - (int64_t) view->at.offset;
	pthread_mutex_unlock(&copies_lock);
	if (view->lag_bytes < 0)
		view->lag_bytes = 0;
}

JournalPlace
copies_published(void)
{
	JournalPlace end;

	pthread_mutex_lock(&copies_lock);
	end = copies_shared.end;
	pthread_mutex_unlock(&copies_lock);
	return end;
}

void
copies_require(int i, bool required)
{
	Copy	   *c = &copies_shared.copies[i];

	pthread_mutex_lock(&copies_lock);
	if (required && !c->view.required)
		c->required_from = copies_shared.acknowledged;
	c->view.required = required;
	copies_shared.changes++;
	if (c->sender != NULL)
		copies_wake(c->sender);
	copies_tell_journal();
	copies_tell_bodies();
	pthread_mutex_unlock(&copies_lock);
}

void
copies_tell_key(const GroupKey *now)
{
	char	   *text = group_key_text(now);

	pthread_mutex_lock(&copies_lock);
	free(copies_shared.key_text);
	copies_shared.key_text = text;
	copies_shared.key_version++;
	wake_senders();
	pthread_mutex_unlock(&copies_lock);
}

void
copies_tell_nodes(const char *text)
{
	pthread_mutex_lock(&copies_lock);
	if (copies_shared.nodes_text == NULL || strcmp(text, copies_shared.nodes_text) != 0)
	{
		free(copies_shared.nodes_text);
		copies_shared.nodes_text = xstrdup(text);
		copies_shared.nodes_version++;
		wake_senders();
	}
	pthread_mutex_unlock(&copies_lock);
}

void
copies_set_enough(bool enough)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.enough = enough;
	copies_tell_journal();
	pthread_mutex_unlock(&copies_lock);
}

bool
copies_is_complete(int i)
{
	const Copy *c = &copies_shared.copies[i];
	bool		complete;

	pthread_mutex_lock(&copies_lock);
	complete = c->view.connected && c->view.live && c->view.required && c->view.acked >= c->required_from;
	pthread_mutex_unlock(&copies_lock);
	return complete;
}

bool
copies_are_ready(void)
{
	bool		ready;

	pthread_mutex_lock(&copies_lock);
	ready = all_have(copies_shared.ready_at);
	pthread_mutex_unlock(&copies_lock);
	return ready;
}

bool
copies_are_heard(void)
{
	bool		heard;

	pthread_mutex_lock(&copies_lock);
	heard = copies_shared.enough;
	for (int i = 0; i < copies_setup.config->nreplicators && heard; i++)
		heard = !copies_shared.copies[i].view.required ||
			(copies_shared.copies[i].view.connected && monotonic_ms() - copies_shared.copies[i].heard_ms < MEMBER_SILENCE_MS);
	pthread_mutex_unlock(&copies_lock);
	return heard;
}

void
copies_wait(int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ms % 1000 * 1000000L;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&copies_lock);
	if (!copies_shared.stop)
		pthread_cond_timedwait(&copies_noticed, &copies_lock, &until);	/* not the wall clock */
	pthread_mutex_unlock(&copies_lock);
}

void
copies_ask_reach(bool ask)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.ask_reach = ask;
	pthread_mutex_unlock(&copies_lock);
}

bool
copies_outdated(void)
{
	bool		outdated;

	pthread_mutex_lock(&copies_lock);
	outdated = copies_shared.outdated;
	pthread_mutex_unlock(&copies_lock);
	return outdated;
}

void
copies_stop(void)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.stop = true;
	copies_tell_journal();
	copies_tell_bodies();
	pthread_cond_signal(&copies_noticed);
	pthread_mutex_unlock(&copies_lock);
}

/* With the lock: the one that is told to take over, none that is being copied anew; -1: there is none. */
static int
successor(int to)
{
	int			best = -1;

	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		const Copy *c = &copies_shared.copies[i];

		if (!c->view.required || c->connection == 0 || (c->view.anew && !c->view.live))
			continue;
		if (i == to)
			return i;
		if (best < 0 || (copies_has_room(&c->view) && !copies_has_room(&copies_shared.copies[best].view)))
			best = i;
	}
	return best;
}

/* With the lock: is that over?  If the one that was chosen is lost before it is told, another one is. */
static bool
is_handed_over(int to)
{
	int			chosen = copies_shared.successor;

	if (chosen >= 0 && copies_shared.copies[chosen].connection != 0)
		return false;
	if (chosen >= 0 && copies_shared.copies[chosen].handed_over)
		return true;
	copies_shared.successor = successor(to);
	wake_senders();
	return copies_shared.successor < 0;
}

void
copies_hand_over(int to, int ms)
{
	int64_t		until = monotonic_ms() + ms;
	bool		over = false;

	while (!over && monotonic_ms() < until)
	{
		struct timespec pause = {0, 2 * 1000000};

		pthread_mutex_lock(&copies_lock);
		over = is_handed_over(to);
		pthread_mutex_unlock(&copies_lock);
		if (!over)
			nanosleep(&pause, NULL);	/* its end is a connection's end, at a
										 * stop */
	}
}

/* ---------- beginning */

static void
init_shared(const Journal *journal)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 ||
		pthread_cond_init(&copies_noticed, &attr) != 0)
		abort();
	(void) pthread_condattr_destroy(&attr);
	copies_shared.end = copies_setup.state.history[copies_setup.state.n - 1].place;
	copies_shared.first = journal_first(journal);
	copies_shared.index = copies_shared.ready_at = 1;
	copies_shared.successor = -1;
	if ((copies_shared.await_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
		abort();
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		Copy	   *c = &copies_shared.copies[i];

		c->heard_ms = monotonic_ms();
		c->view.required = strcmp(copies_setup.config->replicators[i].name, copies_setup.config->replicator_name) != 0 &&
			group_key_has(&copies_setup.key, copies_setup.config->replicators[i].name);
	}
	copies_shared.enough = copies_setup.key.n >= copies_setup.config->min_copies;
}

/* One that is ending may have the port still. */
char *
copies_listen(const char *address, const atomic_bool * stop)
{
	const struct timespec pause = {0, BUSY_PAUSE_MS * 1000000L};
	int64_t		until = monotonic_ms() + BUSY_MS;

	while ((copies_setup.listen_fd = member_listen(address)) < 0 && errno == EADDRINUSE && !*stop && monotonic_ms() < until)
		(void) nanosleep(&pause, NULL);
	if (copies_setup.listen_fd >= 0)
		return NULL;
	return xasprintf("could not listen on \"%s\" for the other replicators: %s", address, strerror(errno));
}

/* The thread that accepts sees it, too. */
void
copies_close(void)
{
	if (copies_setup.listen_fd >= 0)
		(void) shutdown(copies_setup.listen_fd, SHUT_RDWR);
}

char *
copies_begin(const Config *c, const MemberKeys *k, const GroupState *s, const GroupKey *with, const Journal *journal,
			 const CopiesConnections *connections)
{
	pthread_t	thread;

	copies_setup.config = c;
	copies_setup.keys = k;
	copies_setup.state = *s;
	copies_setup.key = *with;
	copies_setup.connections = *connections;
	init_shared(journal);
	if (pthread_create(&thread, NULL, connections->listen_main, NULL) != 0)
		return xstrdup("could not start a thread");
	pthread_detach(thread);
	copies_active = true;
	return NULL;
}
