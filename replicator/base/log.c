/*
 * log.c
 *	  Log lines: written whole, with one write each, so that lines of the two
 *	  threads never mix and a rotated or shared file stays readable.
 *
 * A line is
 *
 *	  2026-11-21 08:15:02.345 UTC [4711] WARNING:  [node n2] message
 *
 * Line breaks and other control characters within a message are escaped, so that nothing that a
 * client sends can look like a line of its own.
 *
 * Any thread may log.  `lock` covers the descriptor while it is replaced.  A failed write is not
 * reported, as there is no other place to report it.  The level is set before the second thread
 * starts, or changed on the loop's thread: a reader may see the old one for a moment, which is
 * harmless.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

/* Longer lines are cut: a message is a sentence, not a place for data. */
#define LINE_MAX_BYTES 8192

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int	log_fd = STDERR_FILENO; /* protected by lock */
static char *log_path;			/* NULL: stderr.  Set once */
static _Atomic int min_level = LOG_INFO;

typedef struct Line
{
	char		text[LINE_MAX_BYTES];
	size_t		len;
} Line;

static const char *
level_name(LogLevel level)
{
	switch (level)
	{
		case LOG_DEBUG:
			return "DEBUG";
		case LOG_INFO:
			return "INFO";
		case LOG_NOTICE:
			return "LOG";
		case LOG_WARNING:
			return "WARNING";
		case LOG_ERROR:
			return "ERROR";
	}
	return "LOG";
}

/* One byte is always kept for the line's end. */
static void
line_put(Line *line, const char *text)
{
	for (const char *p = text; *p != '\0' && line->len < LINE_MAX_BYTES - 3; p++)
	{
		if (*p == '\n')
		{
			line->text[line->len++] = '\\';
			line->text[line->len++] = 'n';
		}
		else
			line->text[line->len++] =
				((unsigned char) *p < ' ' && *p != '\t') || *p == 0x7f ? '?' : *p;
	}
}

static void
line_start(Line *line, const char *severity, const char *context)
{
	struct timeval tv;
	struct tm	tm;
	char		stamp[128];
	size_t		n;

	gettimeofday(&tv, NULL);
	gmtime_r(&tv.tv_sec, &tm);
	n = strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(stamp + n, sizeof(stamp) - n, ".%03d UTC [%d] %s:  ",
			 (int) (tv.tv_usec / 1000), (int) getpid(), severity);

	line->len = 0;
	line_put(line, stamp);
	if (context != NULL && context[0] != '\0')
	{
		line_put(line, "[");
		line_put(line, context);
		line_put(line, "] ");
	}
}

/* With the lock held. */
static void
line_write(Line *line)
{
	size_t		done = 0;

	line->text[line->len++] = '\n';
	while (done < line->len)
	{
		ssize_t		n = write(log_fd, line->text + done, line->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		done += (size_t) n;
	}
}

static int
open_file(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

bool
log_open(const char *path, LogLevel min)
{
	int			fd;

	log_set_level(min);
	if (path == NULL || path[0] == '\0')
		return true;

	fd = open_file(path);
	if (fd < 0)
	{
		log_message(LOG_ERROR, NULL, "could not open log file \"%s\": %s",
					path, strerror(errno));
		return false;
	}
	pthread_mutex_lock(&lock);
	free(log_path);
	log_path = strdup(path);
	log_fd = fd;
	pthread_mutex_unlock(&lock);
	return true;
}

void
log_set_level(LogLevel min)
{
	atomic_store_explicit(&min_level, (int) min, memory_order_relaxed);
}

void
log_reopen(void)
{
	int			fd;
	int			old;

	if (log_path == NULL)
		return;
	fd = open_file(log_path);
	if (fd < 0)
	{
		log_message(LOG_ERROR, NULL, "could not reopen log file \"%s\": %s",
					log_path, strerror(errno));
		return;
	}
	pthread_mutex_lock(&lock);
	old = log_fd;
	log_fd = fd;
	pthread_mutex_unlock(&lock);
	close(old);
}

void
log_full(LogLevel level, const char *context, const char *message,
		 const char *detail, const char *hint)
{
	const struct
	{
		const char *severity;
		const char *text;
	}			parts[] = {
		{level_name(level), message},
		{"DETAIL", detail},
		{"HINT", hint},
	};
	Line		line;

	if ((int) level < atomic_load_explicit(&min_level, memory_order_relaxed))
		return;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
	{
		if (parts[i].text == NULL || parts[i].text[0] == '\0')
			continue;
		line_start(&line, parts[i].severity, context);
		line_put(&line, parts[i].text);
		line_write(&line);
	}
	pthread_mutex_unlock(&lock);
}

void
log_message(LogLevel level, const char *context, const char *fmt,...)
{
	char		text[LINE_MAX_BYTES];
	va_list		args;

	if ((int) level < atomic_load_explicit(&min_level, memory_order_relaxed))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_full(level, context, text, NULL, NULL);
}
