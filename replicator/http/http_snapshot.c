/*
 * http_snapshot.c
 *	  Handing facts from the loop's thread to the HTTP thread.
 *
 * There are two mail boxes, one for each kind of facts.  The loop's thread puts a new snapshot in,
 * and frees the one that was not taken; the HTTP thread takes it out and owns it from then on.
 * The mutex is held for these exchanges only.  The HTTP thread asks through an eventfd, when
 * what it has is older than SNAPSHOT_AGE_MS, and waits for SNAPSHOT_PATIENCE_MS; when that was in
 * vain, it does not wait again before the answer has come, so that a loop that stands
 * still is told at once.
 *
 * The health of the nodes is put in also when the state of a node has changed: no balancer sends
 * writers to a node that is out by what was true a second ago.
 */
#include "http_snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "loop.h"
#include "monotonic.h"
#include "membership.h"
#include "sequencer.h"
#include "status.h"
#include "waits_rows.h"

typedef enum Kind
{
	KIND_HEALTH,
	KIND_STATUS,
	NKINDS
} Kind;

/* Between the threads, under the lock. */
static struct
{
	pthread_mutex_t lock;
	pthread_cond_t put;
	void	   *box[NKINDS];	/* NULL: taken */
	uint64_t	asked_us[NKINDS];	/* 0: it is answered */
	bool		ending;
}			shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Of the loop's thread. */
static int	wake_fd = -1;
static Watch *wake_watch;
static bool with_data;
static bool status_begun;		/* the nodes are being asked who waits */
static void (*review) (Health *h);
static Timer *review_timer;

/* Of the HTTP thread: what it has taken last. */
static void *ours[NKINDS];

static void
snapshot_free(Kind kind, void *snapshot)
{
	Snapshot   *s = snapshot;

	if (kind == KIND_STATUS && s != NULL)
	{
		json_decref(s->status);
		free(s->json);
		free(s->metrics);
	}
	free(snapshot);
}

/* ---------- the loop's thread */

static void
put(Kind kind, void *snapshot)
{
	void	   *old;

	pthread_mutex_lock(&shared.lock);
	old = shared.box[kind];
	shared.box[kind] = snapshot;
	shared.asked_us[kind] = 0;
	pthread_cond_signal(&shared.put);
	pthread_mutex_unlock(&shared.lock);
	snapshot_free(kind, old);
}

static void
health_of_node(HealthOfNode *to, const NodeStatus *s, bool journal_works)
{
	uint64_t	last = sequencer_last_durable();

	snprintf(to->name, sizeof(to->name), "%s", s->name);
	to->writes = s->state == NODE_ONLINE && journal_works && !s->draining;
	to->reads = s->state == NODE_ONLINE && !s->drains_readers;
	to->draining = s->draining;
	to->catches_up = s->state == NODE_CATCHUP;
	to->settles = (s->state == NODE_CATCHUP || s->state == NODE_JOINING) && s->cause == DROP_NONE;
	to->lag = last > s->applied ? last - s->applied : 0;
	snprintf(to->state, sizeof(to->state), "%s%s%s", node_state_name(s->state),
			 s->cause != DROP_NONE ? ": " : s->draining ? ", being drained" : "",
			 s->cause != DROP_NONE ? drop_rule(s->cause)->name : "");
}

static void
put_health(void *arg)
{
	Health	   *h = xcalloc(1, sizeof(Health));
	const char *failing = sequencer_stats().journal_failing;

	h->made_us = (uint64_t) monotonic_us();
	if (failing != NULL)
		snprintf(h->trouble, sizeof(h->trouble), "the journal cannot be written: %s", failing);
	h->nnodes = nodes_count();
	for (int i = 0; i < h->nnodes; i++)
	{
		NodeStatus	s = node_status(i);

		health_of_node(&h->nodes[i], &s, failing == NULL);
	}
	if (review != NULL)
		review(h);
	put(KIND_HEALTH, h);
}

/* The standbys are to know even if nobody asks here. */
static void
on_review(void *arg)
{
	review_timer = loop_after(SNAPSHOT_AGE_MS, on_review, NULL);
	put_health(NULL);
}

void
snapshots_review(void (*callback) (Health *h))
{
	loop_cancel(review_timer);
	review_timer = NULL;
	review = callback;
	if (review != NULL)
		on_review(NULL);
}

/* The objects of locks may be keys, which are data. */
static json_t *
wait_list(void)
{
	json_t	   *list = status_rows(wait_columns, WAIT_COLUMNS, waits_row);
	json_t	   *wait;
	size_t		i;

	if (!with_data)
		json_array_foreach(list, i, wait)
			json_object_del(wait, "object");
	return list;
}

/* The nodes have said who waits there. */
static void
put_status(void *arg)
{
	Snapshot   *s = xcalloc(1, sizeof(Snapshot));

	status_begun = false;
	if (wake_fd < 0)
	{
		free(s);
		return;
	}
	s->made_us = (uint64_t) monotonic_us();
	s->status = status_facts(with_data);
	json_object_set_new(s->status, "ok", json_true());
	json_object_set_new(s->status, "waits", wait_list());
	json_object_set_new(s->status, "conflict_counts",
						status_rows(conflict_count_columns, CONFLICT_COUNT_COLUMNS, conflict_count_row));
	put(KIND_STATUS, s);
}

static void
on_wake(void *arg, uint32_t events)
{
	uint64_t	times;
	bool		asked[NKINDS];

	if (read(wake_fd, &times, sizeof(times)) < 0)
		return;
	pthread_mutex_lock(&shared.lock);
	for (Kind kind = 0; kind < NKINDS; kind++)
		asked[kind] = shared.asked_us[kind] != 0;
	pthread_mutex_unlock(&shared.lock);
	if (asked[KIND_HEALTH])
		put_health(NULL);
	if (asked[KIND_STATUS] && !status_begun)
	{
		status_begun = true;
		waits_refresh(put_status, NULL);
	}
}

char *
snapshots_begin(bool data)
{
	pthread_condattr_t monotonic;

	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd < 0)
		return xasprintf("could not create an eventfd: %s", strerror(errno));
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&shared.put, &monotonic);
	pthread_condattr_destroy(&monotonic);
	with_data = data;
	shared.ending = false;
	wake_watch = loop_watch(wake_fd, EPOLLIN, on_wake, NULL);
	membership_tell_moves(put_health, NULL);
	return NULL;
}

void
snapshots_wake(void)
{
	pthread_mutex_lock(&shared.lock);
	shared.ending = true;
	pthread_cond_signal(&shared.put);
	pthread_mutex_unlock(&shared.lock);
}

void
snapshots_end(void)
{
	membership_tell_moves(NULL, NULL);
	loop_unwatch(wake_watch);
	close(wake_fd);
	wake_watch = NULL;
	wake_fd = -1;
	for (Kind kind = 0; kind < NKINDS; kind++)
	{
		snapshot_free(kind, shared.box[kind]);
		shared.box[kind] = NULL;
		shared.asked_us[kind] = 0;
		snapshot_free(kind, ours[kind]);
		ours[kind] = NULL;
	}
	pthread_cond_destroy(&shared.put);
}

/* ---------- the HTTP thread */

static bool
is_fresh(Kind kind)
{
	uint64_t	made_us;

	if (ours[kind] == NULL)
		return false;
	made_us = kind == KIND_HEALTH ? ((Health *) ours[kind])->made_us : ((Snapshot *) ours[kind])->made_us;
	return made_us + SNAPSHOT_AGE_MS * 1000 > (uint64_t) monotonic_us();
}

/* Locked.  Wait until there is one, or it has been asked for since too long. */
static void *
await(Kind kind)
{
	uint64_t	until = shared.asked_us[kind] + SNAPSHOT_PATIENCE_MS * 1000;
	struct timespec deadline = {.tv_sec = (time_t) (until / 1000000),.tv_nsec = (long) (until % 1000000) * 1000};

	while (shared.box[kind] == NULL && !shared.ending &&
		   pthread_cond_timedwait(&shared.put, &shared.lock, &deadline) != ETIMEDOUT)	/* not the wall clock */
		;
	return shared.box[kind];
}

/* A newer one than ours, for which we ask if need be; NULL: there is none. */
static void *
take(Kind kind, bool fresh)
{
	uint64_t	once = 1;
	void	   *taken;

	pthread_mutex_lock(&shared.lock);
	taken = shared.box[kind];
	if (taken == NULL && !fresh)
	{
		if (shared.asked_us[kind] == 0)
		{
			shared.asked_us[kind] = (uint64_t) monotonic_us();
			if (write(wake_fd, &once, sizeof(once)) < 0)
				shared.asked_us[kind] = 0;	/* never: the counter does not
											 * overflow */
		}
		taken = await(kind);
	}
	shared.box[kind] = NULL;
	pthread_mutex_unlock(&shared.lock);
	return taken;
}

/* Ours is replaced by what has come; NULL: it is old all the same. */
static void *
renewed(Kind kind)
{
	/*
	 * What lies in the box may be old, too: it was put there when a node's
	 * state changed.
	 */
	for (int i = 0; i < 2; i++)
	{
		void	   *newer = take(kind, is_fresh(kind));

		if (newer == NULL)
			break;
		snapshot_free(kind, ours[kind]);
		ours[kind] = newer;
	}
	return is_fresh(kind) ? ours[kind] : NULL;
}

const Health *
snapshot_health(void)
{
	return renewed(KIND_HEALTH);
}

Snapshot *
snapshot_status(void)
{
	return renewed(KIND_STATUS);
}
