/*
 * log_syslog.h
 *	  syslog(3), without the names of syslog.h, some of which are log.h's.
 */
#ifndef LOCKSTEP_LOG_SYSLOG_H
#define LOCKSTEP_LOG_SYSLOG_H

extern void log_syslog_open(void);

/* priority: 3 (error) to 7 (debug) */
extern void log_syslog(int priority, const char *text);

#endif
