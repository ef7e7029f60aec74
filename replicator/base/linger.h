/*
 * linger.h
 *	  Closing a socket whose peer may still be sending.  Loop's thread.
 */
#ifndef LOCKSTEP_LINGER_H
#define LOCKSTEP_LINGER_H

/* Takes the socket, which is not watched any more. */
extern void linger_close(int fd);

#endif
