/*
 * waits_watchdog.h
 *	  Warnings in the log when something makes no progress.  Belongs to the loop's
 *	  thread.
 */
#ifndef LOCKSTEP_WAITS_WATCHDOG_H
#define LOCKSTEP_WAITS_WATCHDOG_H

extern void waits_watchdog_start(void); /* looks again and again */

#endif
