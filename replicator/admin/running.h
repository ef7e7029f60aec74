/*
 * running.h
 *	  What lockstepctl says that it does: verify and its --repair, which work with the nodes, not
 *	  with the replicator.  For the status; nothing depends on it.  Belongs to the loop's thread.
 *
 * A process tells it by lines of JSON on its connection to the admin socket, for as long as it
 * runs: {"command": "verify", "text": "...", ...}.  Only the last line is kept, and it is
 * forgotten with the connection.
 */
#ifndef LOCKSTEP_RUNNING_H
#define LOCKSTEP_RUNNING_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct Running Running;

/* Of that process, as the kernel says; NULL: there are too many. */
extern Running *running_begin(uid_t user, pid_t pid);
extern bool running_say(Running *r, const char *line);	/* false: malformed */
extern void running_end(Running *r);	/* NULL does nothing */

extern json_t *running_json(void);	/* a list, the oldest first */

#endif
