/*
 * journal_sync.c
 *	  Making bodies durable in a thread of its own.
 *
 * A body may have gigabytes, and its sync may take seconds, which the journal's thread must not
 * spend while transactions wait for their verdict.  The loop hands over a file and is notified
 * when it is done.  The same for freeing the space of a deleted one.
 *
 * Locking: `lock` covers the two lists and `stop`; the thread holds it while
 * taking and giving, never while syncing.  A request holds a reference to its
 * body, which only the loop counts.
 */
#include "journal_sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"
#include "points.h"
#include "wakeup.h"

typedef struct Request
{
	struct Request *next;
	JournalBody *body;			/* NULL: only close fd */
	int			fd;
	BodySynced	done;
	void	   *arg;
	int			error;
} Request;

typedef struct RequestList
{
	Request    *first;
	Request    *last;
} RequestList;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static RequestList todo;
static RequestList done;
static bool stop;

/* The loop's: */
static bool running;
static pthread_t thread;
static int	event_fd = -1;
static Watch *event_watch;

static void
list_add(RequestList *list, Request *r)
{
	r->next = NULL;
	*(list->last != NULL ? &list->last->next : &list->first) = r;
	list->last = r;
}

static Request *
list_take(RequestList *list)
{
	Request    *r = list->first;

	if (r == NULL)
		return NULL;
	list->first = r->next;
	if (list->first == NULL)
		list->last = NULL;
	return r;
}

/* ---------- the thread */

static void *
thread_main(void *arg)
{
	for (;;)
	{
		Request    *r;

		pthread_mutex_lock(&lock);
		while (todo.first == NULL && !stop)
			pthread_cond_wait(&wanted, &lock);
		r = stop ? NULL : list_take(&todo); /* what is left is closed by
											 * body_sync_stop() */
		pthread_mutex_unlock(&lock);
		if (r == NULL)
			return NULL;

		if (r->body == NULL)
		{
			close(r->fd);
			free(r);
			continue;
		}
		r->error = fdatasync(r->body->fd) != 0 || fsync(r->body->dir_fd) != 0 ? errno : 0;
		LOCKSTEP_POINT(BODY_SYNCED);

		pthread_mutex_lock(&lock);
		list_add(&done, r);
		pthread_mutex_unlock(&lock);
		wakeup(event_fd);
	}
}

/* ---------- the loop */

static void
on_event(void *arg, uint32_t events)
{
	uint64_t	count;
	RequestList list;
	Request    *r;

	if (read(event_fd, &count, sizeof(count)) != sizeof(count))
		return;
	pthread_mutex_lock(&lock);
	list = done;
	done.first = done.last = NULL;
	pthread_mutex_unlock(&lock);
	while ((r = list_take(&list)) != NULL)
	{
		r->done(r->arg, r->error);
		body_unref(r->body);
		free(r);
	}
}

static void
push(Request *r)
{
	pthread_mutex_lock(&lock);
	list_add(&todo, r);
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
}

static void
close_there(int fd)
{
	Request    *r = xcalloc(1, sizeof(Request));

	r->fd = fd;
	push(r);
}

void
body_sync_start(void)
{
	int			rc;

	event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = event_fd < 0 ? errno : pthread_create(&thread, NULL, thread_main, NULL);
	if (rc != 0)
	{
		log_message(LOG_ERROR, "journal", "could not start the thread that syncs large transactions: %s", strerror(rc));
		exit(1);
	}
	event_watch = loop_watch(event_fd, EPOLLIN, on_event, NULL);
	running = true;
	body_close = close_there;
}

void
body_sync(JournalBody *b, BodySynced callback, void *arg)
{
	Request    *r = xcalloc(1, sizeof(Request));

	if (!running)
		body_sync_start();
	r->body = body_ref(b);
	r->done = callback;
	r->arg = arg;
	push(r);
}

void
body_sync_stop(void)
{
	Request    *r;

	if (!running)
		return;
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	running = stop = false;
	body_close = body_close_here;
	loop_unwatch(event_watch);
	close(event_fd);
	while ((r = list_take(&todo)) != NULL || (r = list_take(&done)) != NULL)
	{
		if (r->body == NULL)
			close(r->fd);
		body_unref(r->body);
		free(r);
	}
}
