/*
 * restart.h
 *	  Start this process again from its beginning, with the same process id.
 */
#ifndef LOCKSTEP_RESTART_H
#define LOCKSTEP_RESTART_H

#include <stdbool.h>

/* From now on restart_or_exit() starts again; arguments: main's. */
extern void restart_arm(char **arguments);

/* Any thread.  Without restart_arm(), or if it fails, exits at once with that code. */
extern void restart_or_exit(int code) __attribute__((noreturn));

#endif
