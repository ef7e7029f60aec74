/*
 * config_tls.c
 *	  Is everything encrypted that has to be?
 *
 * Unix sockets need no TLS; connections within this machine none if require_tls = remote; all
 * others do, and there is no setting for less.
 */
#include "config_tls.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "conninfo.h"
#include "loopback.h"

#define HINT_LISTEN \
	"Make certificates (\"lockstepctl certs\") and set tls_directory here and lockstep.tls_directory on the nodes; " \
	"if all nodes are on this machine, require_tls = remote, here and as lockstep.require_tls, does without."
#define HINT_NODE \
	"With tls_directory set, it is sslmode=verify-full unless the line says otherwise; if the node is on this machine, " \
	"require_tls = remote does without."

/* Can others than this machine reach it? */
static bool
is_local(const char *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE};
	struct addrinfo *list = NULL;
	bool		local = true;

	/*
	 * what cannot be resolved is not listened on either, and complained of
	 * there
	 */
	if (strcmp(name, "*") == 0)
		return false;
	if (getaddrinfo(name, NULL, &hints, &list) != 0)
		return true;
	for (struct addrinfo *a = list; a != NULL; a = a->ai_next)
	{
		struct sockaddr_storage address = {0};

		memcpy(&address, a->ai_addr, a->ai_addrlen);
		local = local && address_is_loopback(&address);
	}
	freeaddrinfo(list);
	return local;
}

static char *
check_listening(const Config *c)
{
	char	  **names;
	char	   *error = NULL;
	int			n;

	if (c->tls_directory[0] != '\0')
		return NULL;
	names = config_list(c->listen_addresses, &n);
	for (int i = 0; i < n && error == NULL; i++)
	{
		if (c->require_tls == REQUIRE_TLS_ALL)
			error = xasprintf("backends would connect to \"%s\" of listen_addresses without TLS: tls_directory is not set, and require_tls is all", names[i]);
		else if (!is_local(names[i]))
			error = xasprintf("backends would connect to \"%s\" of listen_addresses from other machines without TLS: tls_directory is not set", names[i]);
	}
	config_list_free(names, n);
	return error;
}

char *
config_tls_check(const Config *c, const char **hint)
{
	char	   *error = check_listening(c);

	*hint = HINT_LISTEN;
	for (int i = 0; i < c->nnodes && error == NULL; i++)
	{
		ConninfoPlace place = conninfo_place(c->nodes[i].conninfo);

		if (place == CONNINFO_UNIX || (place == CONNINFO_LOOPBACK && c->require_tls == REQUIRE_TLS_REMOTE) ||
			conninfo_is_verified(c->nodes[i].conninfo))
			continue;
		*hint = HINT_NODE;
		error = xasprintf("the connection to node \"%s\" would not be encrypted and verified: node.%s lacks sslmode=verify-full",
						  c->nodes[i].name, c->nodes[i].name);
	}
	return error;
}
