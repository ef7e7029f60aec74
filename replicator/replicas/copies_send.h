/*
 * copies_send.h
 *	  A thread for each standby, which sends it the journal.
 */
#ifndef LOCKSTEP_COPIES_SEND_H
#define LOCKSTEP_COPIES_SEND_H

#include "copies.h"

/* For copies_begin(). */
extern const CopiesConnections copies_connections;

#endif
