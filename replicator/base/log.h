/*
 * log.h
 *	  The replicator's log.  Any thread may log.
 *
 *		stderr		lines in PostgreSQL's format: time, pid, severity, context in brackets, message; then
 *					DETAIL and HINT lines
 *		jsonlog		an object a line, with PostgreSQL's names: timestamp, pid, error_severity, message,
 *					detail, hint, context; and event
 *		syslog		as syslog(3) has it, facility daemon
 *
 * The first two are written to standard error, or to log_file.
 */
#ifndef LOCKSTEP_LOG_H
#define LOCKSTEP_LOG_H

#include <stdbool.h>

typedef enum LogLevel
{
	LOG_DEBUG,
	LOG_INFO,
	LOG_NOTICE,					/* what an operator wants to see */
	LOG_WARNING,
	LOG_ERROR
} LogLevel;

typedef enum LogDestination
{
	LOG_TO_STDERR,
	LOG_TO_JSONLOG,
	LOG_TO_SYSLOG
} LogDestination;

typedef struct LogRecord
{
	LogLevel	level;
	const char *event;			/* these may be NULL, but text */
	const char *context;
	const char *text;
	const char *detail;
	const char *hint;
} LogRecord;

/* A line (malloc'ed); NULL: no memory. */
typedef char *(*LogJson) (const LogRecord *record, const char *time, const char *severity);

/* path NULL or "": standard error.  false (and a line on standard error): the file can't be opened */
extern bool log_open(const char *path, LogLevel min);

/* Before other threads begin, after log_open(); json: log_json(). */
extern void log_set_destination(LogDestination destination, LogJson json);
extern void log_set_level(LogLevel min);
extern bool log_is_on(LogLevel level);	/* else a message is discarded */
extern void log_reopen(void);	/* after rotation, on SIGHUP */

/* context: for example "node n2" or "session n1/4711"; NULL for none. */
extern void log_message(LogLevel level, const char *context, const char *fmt,...)
			__attribute__((format(printf, 3, 4)));

/* The same with detail and hint lines (either may be NULL). */
extern void log_full(LogLevel level, const char *context, const char *message,
					 const char *detail, const char *hint);

/* The same; programs know this message by the name of the event, which is stable. */
extern void log_event(LogLevel level, const char *event, const char *context, const char *message,
					  const char *detail, const char *hint);

#endif
