/*
 * offline.h
 *	  What is done to the journal instead of running the replicator (adopt.h, force.h) says why it
 *	  can't go on.
 */
#ifndef LOCKSTEP_OFFLINE_H
#define LOCKSTEP_OFFLINE_H

#include <stdbool.h>

/* On stderr, behind what has been printed; hint: NULL, or what to do.  Returns false. */
extern bool offline_refuse(const char *hint, const char *fmt,...) __attribute__((format(printf, 2, 3)));

#endif
