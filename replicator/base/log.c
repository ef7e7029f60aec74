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
 * With systemd's journal as standard error, its priority is before it (sd-daemon(3)), so that
 * `journalctl -p warning` works.
 *
 * syslog(3) is called by log_syslog.c, as syslog.h has names for levels that log.h uses, too.
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
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "log_syslog.h"

/* Longer lines are cut: a message is a sentence, not a place for data. */
#define LINE_MAX_BYTES 8192

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int	log_fd = STDERR_FILENO; /* protected by lock */
static char *log_path;			/* NULL: stderr.  Set once */
static _Atomic int min_level = LOG_INFO;
static LogDestination destination = LOG_TO_STDERR;
static LogJson json_text;
static bool to_journal;			/* standard error is systemd's journal */

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

/* Of syslog(3), which systemd's journal uses, too. */
static int
level_priority(LogLevel level)
{
	static const int priorities[] = {
		[LOG_DEBUG] = 7,[LOG_INFO] = 6,[LOG_NOTICE] = 5,[LOG_WARNING] = 4,[LOG_ERROR] = 3,
	};

	return priorities[level];
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
print_time(char *to, size_t size)
{
	struct timeval tv;
	struct tm	tm;
	size_t		n;

	gettimeofday(&tv, NULL);
	gmtime_r(&tv.tv_sec, &tm);
	n = strftime(to, size, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(to + n, size - n, ".%03d UTC", (int) (tv.tv_usec / 1000));
}

static void
line_put_context(Line *line, const char *context)
{
	if (context == NULL || context[0] == '\0')
		return;
	line_put(line, "[");
	line_put(line, context);
	line_put(line, "] ");
}

static void
line_start(Line *line, LogLevel level, const char *severity, const char *context)
{
	char		stamp[64];
	char		start[160];

	print_time(stamp, sizeof(stamp));
	line->len = 0;
	if (to_journal)
	{
		snprintf(start, sizeof(start), "<%d>", level_priority(level));
		line_put(line, start);
	}
	snprintf(start, sizeof(start), "%s [%d] %s:  ", stamp, (int) getpid(), severity);
	line_put(line, start);
	line_put_context(line, context);
}

/* With the lock held. */
static void
write_all(const char *text, size_t len)
{
	size_t		done = 0;

	while (done < len)
	{
		ssize_t		n = write(log_fd, text + done, len - done);

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

/* JOURNAL_STREAM: device and inode of the journal's socket; a child may have another standard error. */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device;
	unsigned long long inode;
	struct stat st;

	return stream != NULL && log_path == NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
		fstat(STDERR_FILENO, &st) == 0 && (unsigned long long) st.st_dev == device && (unsigned long long) st.st_ino == inode;
}

void
log_set_destination(LogDestination to, LogJson json)
{
	destination = to;
	json_text = json;
	to_journal = stderr_is_journal();
	if (to == LOG_TO_SYSLOG)
		log_syslog_open();
}

void
log_set_level(LogLevel min)
{
	atomic_store_explicit(&min_level, (int) min, memory_order_relaxed);
}

bool
log_is_on(LogLevel level)
{
	return (int) level >= atomic_load_explicit(&min_level, memory_order_relaxed);
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

/* ---------- a message */

/* With the lock held. */
static void
write_lines(const LogRecord *m)
{
	const struct
	{
		const char *severity;
		const char *text;
	}			parts[] = {
		{level_name(m->level), m->text},
		{"DETAIL", m->detail},
		{"HINT", m->hint},
	};
	Line		line;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
	{
		if (parts[i].text == NULL || parts[i].text[0] == '\0')
			continue;
		line_start(&line, m->level, parts[i].severity, m->context);
		line_put(&line, parts[i].text);
		line.text[line.len++] = '\n';
		write_all(line.text, line.len);
	}
}

/* With the lock held. */
static void
write_json(const LogRecord *m)
{
	char		stamp[64];
	char		priority[8];
	char	   *text;

	print_time(stamp, sizeof(stamp));
	snprintf(priority, sizeof(priority), "<%d>", level_priority(m->level));
	text = json_text(m, stamp, level_name(m->level));
	if (text == NULL)
		return;
	if (to_journal)				/* a line ends with its line break only */
		write_all(priority, strlen(priority));
	write_all(text, strlen(text));
	free(text);
}

/* One message, as a server's log may be read by the line. */
static void
write_syslog(const LogRecord *m)
{
	Line		line = {.len = 0};

	line_put_context(&line, m->context);
	line_put(&line, m->text);
	if (m->detail != NULL && m->detail[0] != '\0')
	{
		line_put(&line, "  DETAIL:  ");
		line_put(&line, m->detail);
	}
	if (m->hint != NULL && m->hint[0] != '\0')
	{
		line_put(&line, "  HINT:  ");
		line_put(&line, m->hint);
	}
	line.text[line.len] = '\0';
	log_syslog(level_priority(m->level), line.text);
}

void
log_event(LogLevel level, const char *event, const char *context, const char *message,
		  const char *detail, const char *hint)
{
	LogRecord	m = {level, event, context, message, detail, hint};

	if (!log_is_on(level))
		return;
	pthread_mutex_lock(&lock);
	if (destination == LOG_TO_SYSLOG)
		write_syslog(&m);
	else if (destination == LOG_TO_JSONLOG)
		write_json(&m);
	else
		write_lines(&m);
	pthread_mutex_unlock(&lock);
}

void
log_full(LogLevel level, const char *context, const char *message,
		 const char *detail, const char *hint)
{
	log_event(level, NULL, context, message, detail, hint);
}

void
log_message(LogLevel level, const char *context, const char *fmt,...)
{
	char		text[LINE_MAX_BYTES];
	va_list		args;

	if (!log_is_on(level))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	log_full(level, context, text, NULL, NULL);
}
