/*
 * strangers.h
 *	  Connections to the port of the members that have proved nothing yet: which of them end when
 *	  there are too many, and how much they may write to the log.
 *
 * Anyone who reaches the port can open one, so the oldest end: the oldest of an address that has
 * too many, and the oldest of all.  A member proves itself within some milliseconds, so it is never
 * among the oldest unless strangers come faster than that, and from its own address, or from many.
 *
 * Any thread.
 */
#ifndef LOCKSTEP_STRANGERS_H
#define LOCKSTEP_STRANGERS_H

#include "log.h"

#define STRANGERS_MAX 128
#define STRANGERS_OF_ADDRESS 32

typedef struct Stranger Stranger;

/* That socket is one; others may lose theirs for it.  NULL: there are no descriptors. */
extern Stranger *strangers_add(int fd);

/* It is none any more; before its socket is closed, or after. */
extern void strangers_remove(Stranger *s);

/* A line that strangers can cause: only some of them in ten seconds, then how many were left out. */
extern void strangers_log(LogLevel level, const char *context, const char *fmt,...) __attribute__((format(printf, 3, 4)));

#endif
