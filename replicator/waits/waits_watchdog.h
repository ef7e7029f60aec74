/*
 * waits_watchdog.h
 *	  Warnings in the log when something stands still.  Belongs to the loop's
 *	  thread.
 */
#ifndef LOCKSTEP_WAITS_WATCHDOG_H
#define LOCKSTEP_WAITS_WATCHDOG_H

extern void waits_watchdog_start(void); /* looks again and again */

#endif
