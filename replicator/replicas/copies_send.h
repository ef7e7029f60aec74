/*
 * copies_send.h
 *	  A thread for each standby, which sends it the journal.
 */
#ifndef LOCKSTEP_COPIES_SEND_H
#define LOCKSTEP_COPIES_SEND_H

/* Accepts standbys; for copies_begin(). */
extern void *copies_listen_main(void *arg);

#endif
