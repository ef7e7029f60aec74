/*
 * copies.c
 *	  The leader's side of the journal's copies: what is published, and who has it.  See copies.h.
 *
 * Locking: copies_lock covers all of copies_shared; no thread holds it while it sends, reads files
 * or waits, but for the two conditions.
 */
#include "copies_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"

bool		copies_active;

/* A disk with less room than that is full. */
#define ROOM_SEGMENTS 2

pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t copies_changed;
pthread_cond_t copies_noticed;
CopiesShared copies_shared;
CopiesSetup copies_setup;

int64_t
copies_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* ---------- the journal's thread */

void
copies_add_body(uint64_t seq, const BodyRef *body)
{
	pthread_mutex_lock(&copies_lock);
	if (copies_shared.nbodies == copies_shared.bodies_cap)
	{
		copies_shared.bodies_cap = copies_shared.bodies_cap > 0 ? copies_shared.bodies_cap * 2 : 16;
		copies_shared.bodies = xrealloc(copies_shared.bodies, copies_shared.bodies_cap * sizeof(Body));
	}
	copies_shared.bodies[copies_shared.nbodies++] = (Body) {.index = copies_shared.index + 1,.seq = seq,.id = body->id,.size = body->size};
	pthread_mutex_unlock(&copies_lock);
}

/* With the lock. */
static void
wake_senders(void)
{
	uint64_t	one = 1;

	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		Copy	   *c = &copies_shared.copies[i];

		if (c->connection == 0 || c->deaf)
			continue;
		c->deaf = true;
		while (write(c->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}

void
copies_will_write(void)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.unsynced_ms = copies_now_ms();
	pthread_mutex_unlock(&copies_lock);
}

void
copies_publish(JournalPlace end)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.index++;
	copies_shared.end = end;
	wake_senders();
	pthread_mutex_unlock(&copies_lock);
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

bool
copies_await(void)
{
	bool		acknowledged;

	pthread_mutex_lock(&copies_lock);
	copies_shared.unsynced_ms = 0;
	while (!(acknowledged = all_have(copies_shared.index)) && !copies_shared.stop)
		pthread_cond_wait(&copies_changed, &copies_lock);
	if (acknowledged)
		copies_shared.acknowledged = copies_shared.index;
	pthread_mutex_unlock(&copies_lock);
	return acknowledged;
}

void
copies_trimmed(uint64_t first)
{
	size_t		kept = 0;

	pthread_mutex_lock(&copies_lock);
	copies_shared.first = first;
	for (size_t i = 0; i < copies_shared.nbodies; i++)
	{
		if (copies_shared.bodies[i].seq >= first)
			copies_shared.bodies[kept++] = copies_shared.bodies[i];
	}
	copies_shared.nbodies = kept;
	pthread_mutex_unlock(&copies_lock);
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
	pthread_mutex_lock(&copies_lock);
	*view = copies_shared.copies[i].view;
	view->silent_ms = (int) (copies_now_ms() - copies_shared.copies[i].heard_ms);
	view->lag_bytes = (int64_t) (copies_shared.end.segment - view->at.segment) * copies_setup.config->journal_segment_size +
		(int64_t) (copies_shared.end.offset - view->at.offset);
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
	pthread_cond_signal(&copies_changed);
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
copies_set_enough(bool enough)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.enough = enough;
	pthread_cond_signal(&copies_changed);
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
			(copies_shared.copies[i].view.connected && copies_now_ms() - copies_shared.copies[i].heard_ms < MEMBER_SILENCE_MS);
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
	pthread_cond_signal(&copies_changed);
	pthread_cond_signal(&copies_noticed);
	pthread_mutex_unlock(&copies_lock);
}

/* With the lock: the one that is told to take over; -1: there is none. */
static int
successor(int to)
{
	int			best = -1;

	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		const Copy *c = &copies_shared.copies[i];

		if (!c->view.required || c->connection == 0)
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
	int64_t		until = copies_now_ms() + ms;
	bool		over = false;

	while (!over && copies_now_ms() < until)
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
		pthread_cond_init(&copies_changed, &attr) != 0 || pthread_cond_init(&copies_noticed, &attr) != 0)
		abort();
	(void) pthread_condattr_destroy(&attr);
	copies_shared.end = copies_setup.state.history[copies_setup.state.n - 1].place;
	copies_shared.first = journal_first(journal);
	copies_shared.index = copies_shared.ready_at = 1;
	copies_shared.successor = -1;
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		Copy	   *c = &copies_shared.copies[i];

		c->heard_ms = copies_now_ms();
		c->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		c->view.required = strcmp(copies_setup.config->replicators[i].name, copies_setup.config->replicator_name) != 0 &&
			group_key_has(&copies_setup.key, copies_setup.config->replicators[i].name);
	}
	copies_shared.enough = copies_setup.key.n >= copies_setup.config->min_copies;
}

char *
copies_begin(const Config *c, const MemberKeys *k, const GroupState *s, const GroupKey *with, const Journal *journal,
			 void *(*listen_main) (void *arg))
{
	const char *address;
	pthread_t	thread;

	copies_setup.config = c;
	copies_setup.keys = k;
	copies_setup.state = *s;
	copies_setup.key = *with;
	init_shared(journal);
	address = c->replicators[config_replicator(c, c->replicator_name)].address;
	copies_setup.listen_fd = member_listen(address);
	if (copies_setup.listen_fd < 0)
		return xasprintf("could not listen on \"%s\" for the other replicators: %s", address, strerror(errno));
	journal_each_body(journal, copies_add_body);
	for (size_t i = 0; i < copies_shared.nbodies; i++)
		copies_shared.bodies[i].index = 0;
	if (pthread_create(&thread, NULL, listen_main, NULL) != 0)
		return xstrdup("could not start a thread");
	pthread_detach(thread);
	copies_active = true;
	return NULL;
}
