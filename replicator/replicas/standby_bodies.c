/*
 * standby_bodies.c
 *	  A standby's side of bodies of large transactions that arrive at the leader: see
 *	  standby_bodies.h.
 *
 * Each is a "part", which counts for nothing.  When the leader says that all of it has been sent,
 * it is made durable, and the leader is told.  standby.c gives it its name, by which it is the
 * journal's.  Parts that are left over are removed when the next connection begins, and by
 * journal_open().
 *
 * Nobody waits for the thread's end, as its disk may hang: it creates and removes files with the
 * lock only, and not when it is to end, so it has nothing to do with those of the next one.
 */
#include "standby_bodies.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "journal_body.h"
#include "journal_private.h"
#include "log.h"
#include "points.h"

/* So little is left to flush at the end. */
#define SYNC_EVERY (16 * 1024 * 1024)

typedef struct Part
{
	uint64_t	id;
	int			fd;
	uint64_t	size;
	uint64_t	unsynced;
} Part;

typedef struct Complete
{
	uint64_t	id;
	uint64_t	size;
} Complete;

struct StandbyBodies
{
	/* set once */
	const Config *config;
	const MemberKeys *keys;
	int			leader;
	char		nonce[MEMBER_NONCE_HEX];

	/* covered by lock */
	pthread_mutex_t lock;
	int			refs;
	bool		stop;

	/* covered by complete_lock, which is never held while the disk is at work */
	pthread_mutex_t complete_lock;
	Complete   *complete;		/* on disk, and without a name */
	size_t		ncomplete;
	size_t		complete_cap;

	char	   *_Atomic failed; /* set once */

	/* the thread's */
	MemberChannel *channel;
	int			dir_fd;
	Part	   *parts;
	size_t		nparts;
	size_t		parts_cap;
};

static bool
is_to_stop(StandbyBodies *b)
{
	bool		stop;

	pthread_mutex_lock(&b->lock);
	stop = b->stop;
	pthread_mutex_unlock(&b->lock);
	return stop;
}

static bool
disk_failed(StandbyBodies *b, const char *what)
{
	char	   *why = xasprintf("could not %s the copy of a large transaction in \"%s\": %s", what, b->config->journal_directory, strerror(errno));

	if (b->failed == NULL)		/* only this thread sets it */
		b->failed = why;
	else
		free(why);
	return false;
}

/* ---------- files */

static Part *
find_part(StandbyBodies *b, uint64_t id)
{
	for (size_t i = 0; i < b->nparts; i++)
	{
		if (b->parts[i].id == id)
			return &b->parts[i];
	}
	return NULL;
}

static void
forget_part(StandbyBodies *b, Part *p)
{
	close(p->fd);
	*p = b->parts[--b->nparts];
}

/*
 * A new file, never one that another thread may still be writing; remove: none.  false: errno, 0: it is to stop.
 * Whoever has it open gives back its bytes, without the lock.
 */
static bool
change_directory(StandbyBodies *b, uint64_t id, bool create, int *fd)
{
	char		name[32];
	bool		ok = false;

	body_part_name(name, id);
	*fd = -1;
	pthread_mutex_lock(&b->lock);
	errno = 0;
	if (!b->stop)
	{
		ok = body_remove(b->dir_fd, name) || errno == ENOENT;
		if (ok && create)
		{
			*fd = openat(b->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
			ok = *fd >= 0;
		}
	}
	pthread_mutex_unlock(&b->lock);
	return ok;
}

static Part *
add_part(StandbyBodies *b, uint64_t id)
{
	int			fd;

	if (!change_directory(b, id, true, &fd))
		return NULL;
	if (b->nparts == b->parts_cap)
	{
		b->parts_cap = b->parts_cap > 0 ? b->parts_cap * 2 : 8;
		b->parts = xrealloc(b->parts, b->parts_cap * sizeof(Part));
	}
	b->parts[b->nparts] = (Part) {.id = id,.fd = fd};
	return &b->parts[b->nparts++];
}

static bool
take_piece(StandbyBodies *b, uint64_t id, uint64_t offset, LsSlice bytes)
{
	struct iovec iov = {(void *) bytes.data, bytes.len};
	Part	   *p = find_part(b, id);

	if (p == NULL && offset == 0 && (p = add_part(b, id)) == NULL)
		return errno != 0 ? disk_failed(b, "create") : false;
	if (p == NULL || offset > p->size)
		return false;
	if (!write_all(p->fd, &iov, 1, offset))
		return disk_failed(b, "write");
	p->size = offset + bytes.len;
	p->unsynced += bytes.len;
	if (p->unsynced < SYNC_EVERY)
		return true;
	p->unsynced = 0;
	return fdatasync(p->fd) == 0 || disk_failed(b, "flush");
}

static void
add_complete(StandbyBodies *b, uint64_t id, uint64_t size)
{
	pthread_mutex_lock(&b->complete_lock);
	if (b->ncomplete == b->complete_cap)
	{
		b->complete_cap = b->complete_cap > 0 ? b->complete_cap * 2 : 8;
		b->complete = xrealloc(b->complete, b->complete_cap * sizeof(Complete));
	}
	b->complete[b->ncomplete++] = (Complete) {id, size};
	pthread_mutex_unlock(&b->complete_lock);
}

bool
standby_bodies_take(StandbyBodies *b, uint64_t id, uint64_t size)
{
	bool		found = false;

	pthread_mutex_lock(&b->complete_lock);
	for (size_t i = 0; i < b->ncomplete && !found; i++)
	{
		found = b->complete[i].id == id && b->complete[i].size == size;
		if (found)
			b->complete[i] = b->complete[--b->ncomplete];
	}
	pthread_mutex_unlock(&b->complete_lock);
	return found;
}

static bool
take_end(StandbyBodies *b, uint64_t id, uint64_t size)
{
	Part	   *p = find_part(b, id);

	if (p == NULL || p->size < size)
		return false;
	/* more, if it was cut behind a savepoint */
	if (ftruncate(p->fd, (off_t) size) != 0 || fsync(p->fd) != 0)
		return disk_failed(b, "flush");
	forget_part(b, p);
	add_complete(b, id, size);
	LOCKSTEP_POINT(REPLICAS_BODY_THERE);
	return member_channel_send(b->channel, MEMBER_BODY_THERE, &id, 1, NULL, 0);
}

static void
forget_complete(StandbyBodies *b, uint64_t id)
{
	pthread_mutex_lock(&b->complete_lock);
	for (size_t i = b->ncomplete; i > 0; i--)
	{
		if (b->complete[i - 1].id == id)
			b->complete[i - 1] = b->complete[--b->ncomplete];
	}
	pthread_mutex_unlock(&b->complete_lock);
}

static bool
drop(StandbyBodies *b, uint64_t id)
{
	Part	   *p = find_part(b, id);
	int			none;

	forget_complete(b, id);
	if (!change_directory(b, id, false, &none))
		return errno != 0 && disk_failed(b, "remove");
	if (p != NULL)
		forget_part(b, p);
	return true;
}

/* ---------- the connection */

/* false: it ends. */
static bool
take(StandbyBodies *b, const MemberMessage *m)
{
	LsSlice		rest = m->payload;
	uint64_t	n[2];

	switch (m->type)
	{
		case MEMBER_BODIES:
			return true;
		case MEMBER_BODY:
			return member_numbers(&rest, n, 2) && take_piece(b, n[0], n[1], rest);
		case MEMBER_BODY_END:
			return member_numbers(&rest, n, 2) && take_end(b, n[0], n[1]);
		case MEMBER_BODY_DROP:
			return member_numbers(&rest, n, 1) && drop(b, n[0]);
		default:
			return false;
	}
}

static bool
introduce(StandbyBodies *b)
{
	const char *name = b->config->replicator_name;
	const char *trouble = NULL;
	char		nonce[MEMBER_NONCE_HEX];
	char		own[MEMBER_NONCE_HEX];

	return member_make_nonce(nonce) && member_challenge(b->channel, b->keys, name, nonce, b->nonce, own, &trouble) &&
		member_channel_send_json(b->channel, MEMBER_PROOF, json_pack("{s:s}", "proof", own));
}

/* Until it has a channel; false: it is to stop. */
static bool
connect_to_leader(StandbyBodies *b)
{
	const struct timespec pause = {0, MEMBER_ALIVE_MS * 1000000L};

	LOCKSTEP_POINT(REPLICAS_BODIES);
	while (!is_to_stop(b))
	{
		char	   *error = NULL;

		b->channel = member_channel_connect(b->config->replicators[b->leader].address, b->keys, &error);
		free(error);
		if (b->channel != NULL && introduce(b))
			return true;
		member_channel_close(b->channel);
		b->channel = NULL;
		(void) nanosleep(&pause, NULL);
	}
	return false;
}

static void
follow(StandbyBodies *b)
{
	MemberResult result = MEMBER_NOTHING;
	MemberMessage m;

	member_channel_trust(b->channel);
	while (result != MEMBER_LOST && !is_to_stop(b))
	{
		result = member_channel_receive(b->channel, MEMBER_ALIVE_MS, &m);
		if (result == MEMBER_MESSAGE && !take(b, &m))
			break;
	}
}

static void
unref(StandbyBodies *b)
{
	bool		last;

	pthread_mutex_lock(&b->lock);
	last = --b->refs == 0;
	pthread_mutex_unlock(&b->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->complete_lock);
	free(b->failed);
	free(b->complete);
	free(b);
}

/* If it ends by itself, or does not come, the leader ends the other connection. */
static void *
thread_main(void *arg)
{
	StandbyBodies *b = arg;

	b->dir_fd = open(b->config->journal_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->dir_fd < 0)
		(void) disk_failed(b, "create");
	else if (connect_to_leader(b))
		follow(b);
	member_channel_close(b->channel);
	while (b->nparts > 0)
		forget_part(b, b->parts);
	free(b->parts);
	if (b->dir_fd >= 0)
		close(b->dir_fd);
	unref(b);
	return NULL;
}

StandbyBodies *
standby_bodies_begin(const Config *config, const MemberKeys *keys, int leader, const char *nonce)
{
	StandbyBodies *b = xcalloc(1, sizeof(StandbyBodies));
	pthread_t	thread;
	int			rc;

	b->config = config;
	b->keys = keys;
	b->leader = leader;
	snprintf(b->nonce, sizeof(b->nonce), "%s", nonce);
	b->refs = 2;
	if (pthread_mutex_init(&b->lock, NULL) != 0 || pthread_mutex_init(&b->complete_lock, NULL) != 0)
		abort();
	rc = pthread_create(&thread, NULL, thread_main, b);
	if (rc == 0)
	{
		pthread_detach(thread);
		return b;
	}
	log_message(LOG_WARNING, "journal", "could not start the thread that copies large transactions: %s", strerror(rc));
	b->refs = 1;
	return b;
}

bool
standby_bodies_failed(StandbyBodies *b, char why[300])
{
	const char *failed = b->failed;

	if (failed != NULL)
		snprintf(why, 300, "%s", failed);
	return failed != NULL;
}

void
standby_bodies_end(StandbyBodies *b)
{
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_mutex_unlock(&b->lock);
	unref(b);
}
