/*
 * log_syslog.c
 *	  The replicator's log by syslog(3).
 */
#include "log_syslog.h"

#include <syslog.h>

void
log_syslog_open(void)
{
	openlog("lockstep-replicator", LOG_PID | LOG_NDELAY, LOG_DAEMON);
}

void
log_syslog(int priority, const char *text)
{
	syslog(priority, "%s", text);
}
