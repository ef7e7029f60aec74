/*
 * addresses.c
 *	  Whether this machine has its addresses: see addresses.h.
 */
#include "addresses.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"

/* Port 0 is never another's. */
static bool
is_missing(const struct addrinfo *a)
{
	int			fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool		missing = fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) != 0 && errno == EADDRNOTAVAIL;

	if (fd >= 0)
		close(fd);
	return missing;
}

/* Other errors are for whoever listens there.  all: on all addresses of a name, not the first only. */
static bool
host_is_missing(const char *host, bool all)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	int			rc = strcmp(host, "*") == 0 ? 0 : getaddrinfo(host, "0", &hints, &list);
	bool		missing = rc == EAI_AGAIN;

	for (struct addrinfo *a = list; a != NULL && !missing; a = all ? a->ai_next : NULL)
		missing = is_missing(a);
	if (list != NULL)
		freeaddrinfo(list);
	return missing;
}

char *
address_host(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t		len = colon != NULL ? (size_t) (colon - address) : strlen(address);
	bool		brackets = len >= 2 && address[0] == '[' && address[len - 1] == ']';

	return brackets ? xstrndup(address + 1, len - 2) : xstrndup(address, len);
}

/* That of HOST:PORT, or NULL. */
static char *
missing_of(const char *address)
{
	char	   *host = address_host(address);

	if (host[0] != '\0' && host_is_missing(host, false))
		return host;
	free(host);
	return NULL;
}

char *
addresses_missing(const Config *config)
{
	int			n;
	char	  **names = config_list(config->listen_addresses, &n);
	char	   *missing = NULL;

	for (int i = 0; i < n && missing == NULL; i++)
		if (host_is_missing(names[i], true))
			missing = xstrdup(names[i]);
	config_list_free(names, n);
	for (int i = 0; i < config->nreplicators && missing == NULL; i++)
		if (strcmp(config->replicators[i].name, config->replicator_name) == 0)
			missing = missing_of(config->replicators[i].address);
	if (missing == NULL)
		missing = missing_of(config->http_listen);
	return missing;
}
