/*
 * log.h
 *	  The replicator's log: lines on stderr (or log_file) in PostgreSQL's format: time, pid,
 *	  severity, context in brackets, message; then DETAIL and HINT lines.  Any thread may
 *	  log.
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

/* path NULL or "": stderr.  false (and a line on stderr): the file can't be opened */
extern bool log_open(const char *path, LogLevel min);
extern void log_set_level(LogLevel min);
extern void log_reopen(void);	/* after rotation, on SIGHUP */

/* context: for example "node n2" or "session n1/4711"; NULL for none. */
extern void log_message(LogLevel level, const char *context, const char *fmt,...)
			__attribute__((format(printf, 3, 4)));

/* The same with detail and hint lines (either may be NULL). */
extern void log_full(LogLevel level, const char *context, const char *message,
					 const char *detail, const char *hint);

#endif
