/*
 * loopback.h
 *	  Is an address one of this machine alone?
 */
#ifndef LOCKSTEP_LOOPBACK_H
#define LOCKSTEP_LOOPBACK_H

#include <stdbool.h>
#include <sys/socket.h>

/* 127.0.0.0/8, ::1, and the first as IPv6 writes it. */
extern bool address_is_loopback(const struct sockaddr_storage *address);

#endif
