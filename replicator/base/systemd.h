/*
 * systemd.h
 *	  What systemd is told: sd_notify(3)'s protocol.  Loop's thread; without NOTIFY_SOCKET all of it
 *	  does nothing.
 *
 * With WatchdogSec= in the unit, a loop that makes no rounds for so long is ended by systemd and
 * started again.
 */
#ifndef LOCKSTEP_SYSTEMD_H
#define LOCKSTEP_SYSTEMD_H

/* The start is complete: from now on the loop runs.  status: one line, for systemctl. */
extern void systemd_ready(const char *status);

/* Until systemd_ready() the loop does not run, however long that takes. */
extern void systemd_busy(const char *status);

extern void systemd_stopping(void);

/* Why it ends, for those who look at the unit's status; the log may be elsewhere. */
extern void systemd_failed(const char *why);

#endif
