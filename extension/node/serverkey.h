/*
 * serverkey.h
 *	  What proves to the replicator that a process is of this server: see serverkey.c.
 */
#ifndef LOCKSTEP_SERVERKEY_H
#define LOCKSTEP_SERVERKEY_H

#include "protocol.h"

extern void serverkey_shmem_request(void);
extern void serverkey_shmem_startup(void);

/* LS_SERVER_KEY_SIZE bytes, the same from the server's start to its end. */
extern const uint8 *serverkey(void);

/* The replicator has asked for it: from now on it has to prove that it knows it. */
extern void serverkey_told(void);
extern bool serverkey_is_told(void);

#endif							/* LOCKSTEP_SERVERKEY_H */
