/*
 * ctl_progress.c
 *	  How far something long is: on a terminal one line, which the next one replaces, and nothing
 *	  where stderr is none; and in the replicator's status, if it can be reached.
 *
 * A thread of its own tells the replicator, once in TELL_MS, on a connection that is held
 * for as long as this runs (running.h), and brings to the terminal what came too soon after
 * something else.  It never waits for the replicator: what can't be sent now is sent a second later,
 * and a connection that was lost, as the replicator was started again, is opened again.
 * Nothing here is an error: a replicator that can't be told is not told.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"
#include "monotonic.h"

#define PROGRESS_MS 100			/* on the terminal, not more often */
#define TELL_MS 1000			/* as the replicator reads them */
#define TEXT_SIZE 256
#define LINE_MAX_BYTES 1000		/* the replicator takes 1024 */
#define ERASE "\r\033[K"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;		/* of the thread */
static pthread_t teller;
static bool runs;				/* the thread does */

/* Under the lock. */
static bool ending;
static json_t *latest;			/* NULL: nothing yet */
static bool shown;				/* something is on the terminal */
static bool late;				/* ... but not the text */
static char text[TEXT_SIZE];
static int64_t last_ms;

/* Of the thread, set before it starts. */
static const char *path;
static char *command;
static int64_t started_ms;
static int	fd = -1;

/* ---------- the terminal */

/* Under the lock. */
static void
show(void)
{
	const int64_t now = monotonic_ms();

	late = shown && now - last_ms < PROGRESS_MS;
	if (late)
		return;
	shown = true;
	last_ms = now;
	fprintf(stderr, ERASE "%s", text);
	fflush(stderr);
}

/* ---------- the replicator */

static void
hang_up(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}

static void
connect_again(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (fd >= 0 || strlen(path) >= sizeof(addr.sun_path))
		return;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0)
		hang_up();
}

static char *
line_of(const json_t *facts)
{
	char	   *json = json_dumps(facts, JSON_COMPACT);
	char	   *line = xasprintf("progress %s\n", json != NULL ? json : "");

	free(json);
	return line;
}

/* Takes facts over.  A name full of control characters makes a line too long: then it is left out. */
static void
tell(json_t *facts)
{
	char	   *line;
	size_t		len;

	json_object_set_new(facts, "command", json_from_text(command));
	json_object_set_new(facts, "ran_ms", json_integer(monotonic_ms() - started_ms));
	line = line_of(facts);
	if (strlen(line) > LINE_MAX_BYTES)
	{
		free(line);
		json_object_del(facts, "object");
		json_object_set(facts, "text", json_object_get(facts, "phase"));
		line = line_of(facts);
	}
	json_decref(facts);
	len = strlen(line);
	connect_again();
	if (fd >= 0 && len <= LINE_MAX_BYTES)
	{
		ssize_t		n = send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		/* A part of a line would spoil the next. */
		if (n != (ssize_t) len && !(n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
			hang_up();
	}
	free(line);
}

/* Under the lock: until then, or until it ends. */
static void
wait_until_ms(int64_t until)
{
	struct timespec t = {.tv_sec = until / 1000,.tv_nsec = until % 1000 * 1000000};

	while (!ending && pthread_cond_timedwait(&news, &lock, &t) == 0)	/* not the wall clock */
		;
}

static void *
tell_all(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!ending)
	{
		json_t	   *facts = json_deep_copy(latest);
		int64_t		next = monotonic_ms() + TELL_MS;

		if (facts == NULL)
		{
			pthread_cond_wait(&news, &lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		tell(facts);
		pthread_mutex_lock(&lock);
		wait_until_ms(next);
		if (late && !ending)
			show();
	}
	pthread_mutex_unlock(&lock);
	hang_up();
	return NULL;
}

void
progress_begin(const char *socket_path, const char *what)
{
	pthread_condattr_t attributes;
	sigset_t	all;
	sigset_t	before;

	path = socket_path;
	command = xstrdup(what);
	started_ms = monotonic_ms();
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&news, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);	/* signals are for the
													 * others */
	runs = pthread_create(&teller, NULL, tell_all, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
progress_say(const ProgressFacts *f, const char *fmt,...)
{
	const bool	terminal = isatty(STDERR_FILENO);
	char		whole[4 * TEXT_SIZE];
	bool		known;
	json_t	   *facts;
	va_list		args;

	if (!terminal && !runs)
		return;
	va_start(args, fmt);
	vsnprintf(whole, sizeof(whole), fmt, args);
	va_end(args);
	whole[text_cut(whole, strlen(whole), TEXT_SIZE - 1)] = '\0';
	pthread_mutex_lock(&lock);
	strcpy(text, whole);
	if (terminal)
		show();
	facts = json_object();
	json_object_set_new(facts, "text", json_from_text(text));
	json_object_set_new(facts, "phase", json_string(f->phase));
	if (f->database != NULL)
		json_object_set_new(facts, "database", json_from_text(f->database));
	if (f->object != NULL)
		json_object_set_new(facts, "object", json_from_text(f->object));
	if (f->all > 0)
	{
		json_object_set_new(facts, "done", json_integer(f->done));
		json_object_set_new(facts, "all", json_integer(f->all));
	}
	if (f->all_bytes > 0)
	{
		json_object_set_new(facts, "done_bytes", json_integer(f->done_bytes));
		json_object_set_new(facts, "all_bytes", json_integer(f->all_bytes));
	}
	known = latest != NULL;
	json_decref(latest);
	latest = facts;
	if (!known)
		pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
}

void
progress_clear(void)
{
	pthread_mutex_lock(&lock);
	if (shown)
		fputs(ERASE, stderr);
	shown = late = false;
	pthread_mutex_unlock(&lock);
}

void
progress_end(void)
{
	progress_clear();
	pthread_mutex_lock(&lock);
	ending = true;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
	if (runs)
		pthread_join(teller, NULL);
	runs = false;
	json_decref(latest);
	latest = NULL;
	free(command);
	command = NULL;
}
