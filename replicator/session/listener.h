/*
 * listener.h
 *	  Listening sockets for backends: TCP addresses and a Unix socket.
 */
#ifndef LOCKSTEP_LISTENER_H
#define LOCKSTEP_LISTENER_H

#include "config.h"

/* Read the secret, listen; NULL, or why not (malloc'ed). */
extern char *listener_init(const Config *config, const char *cluster);
extern void listener_stop(void);	/* accepts no more; the sessions live on */

#endif
