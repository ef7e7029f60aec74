/*
 * copies_bodies.c
 *	  The leader: bodies of large transactions, and who has them.  See copies_bodies.h.
 *
 *	 BODY_ARRIVES	its transaction goes on; what is behind a savepoint may be cut off again
 *	 BODY_SEALED	nothing more comes; when all that are waited for have it, the transaction may
 *					be decided
 *	 BODY_DECIDED	a record refers to it
 *	 BODY_TRIMMED	none does any more; copies that have it, or a part, are told
 *	 BODY_GONE		its transaction has failed; copies that have a part are told
 *
 * That a sealed one is awaited is only so that nobody else waits for it: a record is never sent
 * before its body is there (copies_send.c), whoever has come to be waited for in between.
 */
#include "copies_bodies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "buffer.h"
#include "journal_body.h"
#include "loop.h"
#include "monotonic.h"

/* Parts leave that much to the journal, and are dropped if it has less: they count for nothing. */
#define KEPT_SEGMENTS 4
#define NEEDED_SEGMENTS 3
#define ROOM_MS (2 * MEMBER_ALIVE_MS)	/* what it says may be half as old */

typedef struct Awaiting
{
	struct Awaiting *next;
	uint64_t	id;
	void		(*done) (void *arg);
	void	   *arg;
} Awaiting;

static Awaiting *awaiting;		/* the loop's */

/* ---------- with the lock */

static Body *
find(uint64_t id)
{
	for (size_t i = copies_shared.nbodies; i > 0; i--)
	{
		if (copies_shared.bodies[i - 1].id == id)
			return &copies_shared.bodies[i - 1];
	}
	return NULL;
}

static Body *
add(uint64_t id)
{
	Body	   *b;

	if (copies_shared.nbodies == copies_shared.bodies_cap)
	{
		copies_shared.bodies_cap = copies_shared.bodies_cap > 0 ? copies_shared.bodies_cap * 2 : 16;
		copies_shared.bodies = xrealloc(copies_shared.bodies, copies_shared.bodies_cap * sizeof(Body));
	}
	b = &copies_shared.bodies[copies_shared.nbodies++];
	*b = (Body) {.id = id,.state = BODY_ARRIVES};
	return b;
}

static void
take_out(Body *b)
{
	const size_t i = (size_t) (b - copies_shared.bodies);

	memmove(b, b + 1, (--copies_shared.nbodies - i) * sizeof(Body));
}

static uint32_t
bit(int i)
{
	return UINT32_C(1) << i;
}

static bool
has_room(int i, uint64_t segments, uint64_t bytes)
{
	return copies_shared.copies[i].view.room >= segments * (uint64_t) copies_setup.config->journal_segment_size + bytes;
}

/* What is on its way may not be in the room that it has said. */
static bool
has_room_for_parts(int i)
{
	return has_room(i, KEPT_SEGMENTS, copies_shared.copies[i].bodies_sent + copies_shared.copies[i].bodies_sent_before);
}

static void
wake_senders(void)
{
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
		copies_wake_bodies(i);
}

/* It will not be needed, and nobody has anything of it. */
static bool
is_over(const Body *b)
{
	if ((b->state != BODY_GONE && b->state != BODY_TRIMMED) || b->named != 0)
		return false;
	for (int i = 0; i < CONFIG_MAX_REPLICATORS; i++)
	{
		if (b->sent[i] > 0)
			return false;
	}
	return true;
}

static void
take_out_what_is_over(void)
{
	size_t		kept = 0;

	for (size_t n = 0; n < copies_shared.nbodies; n++)
	{
		if (!is_over(&copies_shared.bodies[n]))
			copies_shared.bodies[kept++] = copies_shared.bodies[n];
	}
	copies_shared.nbodies = kept;
}

typedef struct Had
{
	uint64_t	id;
	bool		known;
} Had;

static int
compare_had(const void *a, const void *b)
{
	uint64_t	x = ((const Had *) a)->id,
				y = ((const Had *) b)->id;

	return x < y ? -1 : x > y;
}

/* Those that are not known have been trimmed while it was away, or were cut off there. */
void
copies_bodies_connected(int i, const json_t *ids)
{
	const size_t n = json_array_size(ids);
	const size_t before = copies_shared.nbodies;
	Had		   *had = xmalloc((n + 1) * sizeof(Had));

	for (size_t j = 0; j < n; j++)
		had[j] = (Had) {.id = (uint64_t) json_integer_value(json_array_get(ids, j))};
	qsort(had, n, sizeof(Had), compare_had);
	for (size_t b = 0; b < before; b++)
	{
		Body	   *body = &copies_shared.bodies[b];
		const Had	key = {.id = body->id};
		Had		   *found = bsearch(&key, had, n, sizeof(Had), compare_had);

		if (found == NULL)
			continue;
		found->known = true;
		if (body->state != BODY_DECIDED && body->state != BODY_TRIMMED)
			continue;
		body->there |= bit(i);
		body->named |= bit(i);
	}
	for (size_t j = 0; j < n; j++)
	{
		Body	   *body;

		if (had[j].known || (j > 0 && had[j].id == had[j - 1].id))
			continue;
		body = add(had[j].id);
		body->state = BODY_TRIMMED;
		body->seq = copies_shared.first > 0 ? copies_shared.first - 1 : 0;	/* with all segments
																			 * that are trimmed by
																			 * now */
		body->named = bit(i);
	}
	free(had);
	copies_shared.copies[i].to_name = copies_shared.copies[i].to_delete = true;
}

void
copies_bodies_disconnected(int i)
{
	for (size_t b = 0; b < copies_shared.nbodies; b++)
	{
		Body	   *body = &copies_shared.bodies[b];

		body->sent[i] = 0;
		body->ended &= ~bit(i);
		body->there &= ~bit(i);
		body->named &= ~bit(i);
		body->refused &= ~bit(i);
	}
	take_out_what_is_over();
	copies_shared.copies[i].bodies_checked = 0;
	copies_tell_bodies();
}

/* Each commit asks; there may be thousands. */
bool
copies_bodies_missing(int i, uint64_t index)
{
	Copy	   *c = &copies_shared.copies[i];
	bool		lacks = false;

	if (c->bodies_checked == copies_shared.bodies_decided && c->bodies_checked != 0)
		return false;
	for (size_t b = 0; b < copies_shared.nbodies; b++)
	{
		const Body *body = &copies_shared.bodies[b];

		if (body->state != BODY_DECIDED || (body->there & bit(i)) != 0)
			continue;
		if (body->index <= index)
			return true;
		lacks = true;
	}
	c->bodies_checked = lacks ? 0 : copies_shared.bodies_decided;
	return false;
}

/* This and what is to be deleted are asked for at each commit, too. */
bool
copies_bodies_name(int i, uint64_t index, Body *body)
{
	Copy	   *c = &copies_shared.copies[i];
	bool		later = false;

	for (size_t n = 0; c->to_name && n < copies_shared.nbodies; n++)
	{
		Body	   *b = &copies_shared.bodies[n];

		if (b->state != BODY_DECIDED || (b->there & bit(i)) == 0 || (b->named & bit(i)) != 0)
			continue;
		if (b->index > index)
		{
			later = true;
			continue;
		}
		b->named |= bit(i);
		*body = *b;
		return true;
	}
	c->to_name = later;
	return false;
}

size_t
copies_bodies_to_delete(int i, uint64_t first, uint64_t *ids, size_t max)
{
	Copy	   *c = &copies_shared.copies[i];
	size_t		n = 0;
	bool		later = false;

	for (size_t b = 0; c->to_delete && b < copies_shared.nbodies; b++)
	{
		Body	   *body = &copies_shared.bodies[b];

		if (body->state != BODY_TRIMMED || (body->named & bit(i)) == 0)
			continue;
		if (body->seq >= first || n == max)
		{
			later = true;
			continue;
		}
		body->named &= ~bit(i);
		ids[n++] = body->id;
	}
	c->to_delete = later;
	if (n > 0)
		take_out_what_is_over();
	return n;
}

/* ---------- what is sent next, with the lock */

static BodyTask
task_of(const Body *b, int i)
{
	if (b->state == BODY_GONE || b->state == BODY_TRIMMED)
		return b->sent[i] > 0 ? BODY_TASK_DROP : BODY_TASK_NONE;
	if (b->state == BODY_ARRIVES && b->sent[i] > 0 && !has_room(i, NEEDED_SEGMENTS, 0))
		return BODY_TASK_DROP;	/* a sealed one soon counts */
	if ((b->there & bit(i)) != 0 || (b->ended & bit(i)) != 0)
		return BODY_TASK_NONE;
	if (b->state != BODY_DECIDED && ((b->refused & bit(i)) != 0 || !has_room_for_parts(i)))
		return BODY_TASK_NONE;
	if (b->sent[i] < b->size)
		return BODY_TASK_PIECE;
	return b->state != BODY_ARRIVES ? BODY_TASK_END : BODY_TASK_NONE;
}

/* What makes room comes before what needs it; decided ones are waited for, sealed ones soon will be. */
BodyTask
copies_bodies_next(int i, uint64_t after, Body *body)
{
	static const BodyState first[] = {BODY_DECIDED, BODY_SEALED, BODY_ARRIVES};

	for (size_t n = 0; n < copies_shared.nbodies; n++)
	{
		if (task_of(&copies_shared.bodies[n], i) != BODY_TASK_DROP)
			continue;
		*body = copies_shared.bodies[n];
		return BODY_TASK_DROP;
	}
	for (size_t s = 0; s < sizeof(first) / sizeof(first[0]); s++)
	{
		const Body *found = NULL;
		bool		passed = false;

		for (size_t n = 0; n < copies_shared.nbodies; n++)
		{
			const Body *b = &copies_shared.bodies[n];

			if (b->state == first[s] && task_of(b, i) != BODY_TASK_NONE && (found == NULL || (passed && first[s] != BODY_DECIDED)))
			{
				found = b;
				if (passed)
					break;
			}
			passed = passed || b->id == after;
		}
		if (found == NULL)
			continue;
		*body = *found;
		return task_of(found, i);
	}
	return BODY_TASK_NONE;
}

bool
copies_bodies_sent(int i, const Body *body, size_t n)
{
	Body	   *b = find(body->id);

	if (b == NULL || b->state == BODY_GONE || b->state == BODY_TRIMMED || b->cuts != body->cuts)
		return false;
	b->sent[i] = body->sent[i] + n;
	copies_shared.copies[i].bodies_sent += n;
	return true;
}

void
copies_bodies_room(int i, uint64_t room)
{
	Copy	   *c = &copies_shared.copies[i];
	const int64_t now = monotonic_ms();
	const bool	had = has_room_for_parts(i);

	c->view.room = room;
	copies_tell_bodies();
	if (now - c->room_ms < ROOM_MS)
		return;
	c->room_ms = now;
	c->bodies_sent_before = c->bodies_sent;
	c->bodies_sent = 0;
	if (!had || !has_room(i, NEEDED_SEGMENTS, 0))
		copies_wake_bodies(i);
}

void
copies_bodies_ended(int i, uint64_t id)
{
	Body	   *b = find(id);

	if (b != NULL)
		b->ended |= bit(i);
}

bool
copies_bodies_lost(int i, uint64_t id)
{
	Body	   *b = find(id);

	if (b == NULL || b->state == BODY_GONE || b->state == BODY_TRIMMED)
		return true;
	if (b->state != BODY_DECIDED)
		return false;
	b->there |= bit(i);			/* it is being trimmed */
	b->named |= bit(i);
	return true;
}

bool
copies_bodies_dropped(int i, uint64_t id)
{
	Body	   *b = find(id);

	if (b == NULL || task_of(b, i) != BODY_TASK_DROP)
		return false;			/* it has been sealed meanwhile */
	b->sent[i] = 0;
	b->refused |= bit(i);
	if (is_over(b))
		take_out(b);
	return true;
}

void
copies_bodies_there(int i, uint64_t id)
{
	Body	   *b = find(id);

	if (b == NULL || (b->ended & bit(i)) == 0)
		return;
	b->there |= bit(i);
	copies_shared.copies[i].to_name = true;
	copies_shared.changes++;
	if (copies_shared.copies[i].sender != NULL)
		copies_wake(copies_shared.copies[i].sender);
	copies_tell_bodies();
}

/* ---------- the loop: bodies that arrive */

static void
grown(uint64_t id, uint64_t size)
{
	Body	   *b;

	pthread_mutex_lock(&copies_lock);
	b = find(id);
	if (b == NULL)
		b = add(id);
	b->size = size;
	wake_senders();
	pthread_mutex_unlock(&copies_lock);
}

static void
cut(uint64_t id, uint64_t offset)
{
	Body	   *b;

	pthread_mutex_lock(&copies_lock);
	if ((b = find(id)) != NULL)
	{
		b->size = offset;
		b->cuts++;
		for (int i = 0; i < CONFIG_MAX_REPLICATORS; i++)
		{
			if (b->sent[i] > offset)
				b->sent[i] = offset;
		}
	}
	pthread_mutex_unlock(&copies_lock);
}

static void
sealed(uint64_t id, uint64_t size)
{
	Body	   *b;

	pthread_mutex_lock(&copies_lock);
	if ((b = find(id)) != NULL)
	{
		b->size = size;
		b->state = BODY_SEALED;
		wake_senders();
	}
	pthread_mutex_unlock(&copies_lock);
}

static void
gone(uint64_t id)
{
	Body	   *b;

	pthread_mutex_lock(&copies_lock);
	if ((b = find(id)) != NULL)
	{
		b->state = BODY_GONE;
		if (is_over(b))
			take_out(b);
		else
			wake_senders();
		copies_tell_bodies();
	}
	pthread_mutex_unlock(&copies_lock);
}

/* ---------- the loop: who waits for copies */

/* With the lock: all that are waited for have it, or it is of no use to wait. */
static bool
is_copied(uint64_t id)
{
	const Body *b = find(id);

	if (b == NULL || b->state != BODY_SEALED || copies_shared.stop)
		return true;
	for (int i = 0; i < copies_setup.config->nreplicators; i++)
	{
		const Copy *c = &copies_shared.copies[i];

		if (c->view.required && ((b->there | b->refused) & bit(i)) == 0 && has_room(i, KEPT_SEGMENTS, 0))
			return false;
	}
	return true;
}

static void
on_copied(void *arg, uint32_t events)
{
	uint64_t	count;
	Awaiting  **at = &awaiting;
	Awaiting   *ready = NULL;

	(void) !read(copies_shared.bodies_fd, &count, sizeof(count));
	pthread_mutex_lock(&copies_lock);
	while (*at != NULL)
	{
		Awaiting   *a = *at;

		if (!is_copied(a->id))
		{
			at = &a->next;
			continue;
		}
		*at = a->next;
		a->next = ready;
		ready = a;
	}
	copies_shared.bodies_awaited = awaiting != NULL;
	pthread_mutex_unlock(&copies_lock);
	while (ready != NULL)
	{
		Awaiting   *a = ready;

		ready = a->next;
		a->done(a->arg);
		free(a);
	}
}

static void
await(uint64_t id, void (*done) (void *arg), void *arg)
{
	bool		copied;

	pthread_mutex_lock(&copies_lock);
	copied = is_copied(id);
	if (!copied)
	{
		Awaiting   *a = xmalloc(sizeof(Awaiting));

		*a = (Awaiting) {awaiting, id, done, arg};
		awaiting = a;
		copies_shared.bodies_awaited = true;
	}
	pthread_mutex_unlock(&copies_lock);
	if (copied)
		done(arg);
}

/* ---------- decided ones: the journal's thread */

/* It is on disk here: the next record that is published refers to it. */
void
copies_add_body(uint64_t seq, const BodyRef *body)
{
	Body	   *b;

	pthread_mutex_lock(&copies_lock);
	if ((b = find(body->id)) == NULL)
		b = add(body->id);
	b->state = BODY_DECIDED;
	b->size = body->size;
	b->seq = seq;
	b->index = copies_shared.body_index = copies_shared.index + 1;
	copies_shared.bodies_decided++;
	for (int i = 0; i < CONFIG_MAX_REPLICATORS; i++)
		copies_shared.copies[i].to_name = true;
	wake_senders();
	pthread_mutex_unlock(&copies_lock);
}

void
copies_trimmed(uint64_t first)
{
	bool		any = false;

	pthread_mutex_lock(&copies_lock);
	copies_shared.first = first;
	for (size_t n = 0; n < copies_shared.nbodies; n++)
	{
		Body	   *b = &copies_shared.bodies[n];

		if (b->state != BODY_DECIDED || b->seq >= first)
			continue;
		b->state = BODY_TRIMMED;
		any = true;
		for (int i = 0; i < CONFIG_MAX_REPLICATORS; i++)
		{
			if ((b->named & b->ended & bit(i)) != 0)
				b->sent[i] = 0; /* it is no part any more */
		}
	}
	if (any)
	{
		for (int i = 0; i < CONFIG_MAX_REPLICATORS; i++)
			copies_shared.copies[i].to_delete = true;
		take_out_what_is_over();
		wake_senders();
	}
	pthread_mutex_unlock(&copies_lock);
}

/* ---------- beginning */

static void
add_of_journal(uint64_t seq, const BodyRef *body)
{
	Body	   *b = add(body->id);

	b->state = BODY_DECIDED;
	b->seq = seq;
	b->size = body->size;
}

void
copies_bodies_begin(const Journal *journal)
{
	static const BodyWatcher watcher = {.grown = grown,.cut = cut,.sealed = sealed,.gone = gone,.await = await};

	copies_shared.bodies_decided = 1;
	copies_shared.bodies_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	loop_watch(copies_shared.bodies_fd, EPOLLIN, on_copied, NULL);
	journal_each_body(journal, add_of_journal);
	body_watcher = &watcher;
}
