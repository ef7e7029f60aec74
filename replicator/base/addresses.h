/*
 * addresses.h
 *	  Whether this machine has the addresses that the replicator listens on.
 *
 * After a boot an address may come later than the daemon: from DHCP, on an interface that is
 * plugged in, or of IPv6, which is tried out first.
 */
#ifndef LOCKSTEP_ADDRESSES_H
#define LOCKSTEP_ADDRESSES_H

#include "config.h"

/* HOST of HOST:PORT or [HOST]:PORT; to be freed. */
extern char *address_host(const char *address);

/* The first one that it does not have, or that cannot be resolved now; NULL: none.  May wait for DNS. */
extern char *addresses_missing(const Config *config);

#endif
