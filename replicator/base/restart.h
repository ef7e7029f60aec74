/*
 * restart.h
 *	  Start this process again from its beginning, with the same process id.
 */
#ifndef LOCKSTEP_RESTART_H
#define LOCKSTEP_RESTART_H

#include <stdbool.h>

/* From now on restart_or_exit() starts again.  arguments: main's; pid_file: as in restart_forbid(), or NULL.  Both stay. */
extern void restart_arm(char **arguments, const char *pid_file);

/*
 * The process has been told to stop: from now on restart_or_exit() ends it instead, with success, and deletes its pid
 * file.  Any thread.
 */
extern void restart_forbid(void);
extern bool restart_is_forbidden(void);

struct signalfd_siginfo;

/*
 * Takes the next signal from a signalfd that does not block; false: there is none.  SIGTERM and SIGINT forbid to start
 * again: such a signal is obeyed by this process, or stays for the one that it becomes.
 */
extern bool restart_take_signal(int fd, struct signalfd_siginfo *info);

/* Exit status of who may succeed when it is started again.  The service's unit knows the others. */
#define EXIT_RETRY 3

/* Any thread.  Without restart_arm(), or if it fails, exits at once with that code. */
extern void restart_or_exit(int code) __attribute__((noreturn));

#endif
