/*
 * bodies_send.h
 *	  A connection to a standby beside that for the journal, by which it gets bodies of large
 *	  transactions while they arrive.
 */
#ifndef LOCKSTEP_BODIES_SEND_H
#define LOCKSTEP_BODIES_SEND_H

#include "copies_private.h"

/*
 * Serve the standby i, until this connection is lost, or the one for the journal, which said
 * `nonce`, is.
 */
extern void bodies_serve(MemberChannel *channel, int i, const char *nonce);

#endif
