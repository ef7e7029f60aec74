/*
 * loopback.c
 *	  Is an address one of this machine alone?
 */
#include "loopback.h"

#include <netinet/in.h>

bool
address_is_loopback(const struct sockaddr_storage *address)
{
	const struct in6_addr *six;

	if (address->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr) >> 24 == 127;
	if (address->ss_family != AF_INET6)
		return false;
	six = &((const struct sockaddr_in6 *) address)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}
