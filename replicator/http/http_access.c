/*
 * http_access.c
 *	  Addresses, tokens and the header Host.
 *
 * Takes values and returns values, but for http_resolve(), which may ask for a name's address.
 */
#include "http_access.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buffer.h"

/* ---------- addresses */

/* Takes "name:port", "[name]:port" or ":port" apart; false: it isn't one. */
static bool
split(const char *text, char *name, size_t size, const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t		len;

	if (colon == NULL || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	len = (size_t) (colon - text);
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
	{
		text++;
		len -= 2;
	}
	else if (memchr(text, ':', len) != NULL)
		return false;
	if (len == 0 || len >= size || atol(colon + 1) < 1 || atol(colon + 1) > 65535)
		return false;
	memcpy(name, text, len);
	name[len] = '\0';
	*port = colon + 1;
	return true;
}

char *
http_resolve(const char *listen_on, struct sockaddr_storage *address, socklen_t *len)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	char		name[256];
	const char *port;
	int			rc;

	if (!split(listen_on, name, sizeof(name), &port))
		return xasprintf("invalid value for setting \"http_listen\": \"%s\" (it is ADDRESS:PORT)", listen_on);
	rc = getaddrinfo(strcmp(name, "*") == 0 ? NULL : name, port, &hints, &list);
	if (rc != 0)
		return xasprintf("could not resolve \"%s\" of http_listen: %s", name, gai_strerror(rc));
	memcpy(address, list->ai_addr, list->ai_addrlen);
	*len = list->ai_addrlen;
	freeaddrinfo(list);
	return NULL;
}

/* ---------- tokens */

#define MAX_HEADER 4096

/* The same time, whatever differs. */
static bool
is_token(const Secret *token, const char *text, size_t len)
{
	return len == token->len && CRYPTO_memcmp(text, token->bytes, len) == 0;
}

/* base64 of "user:password" */
static bool
has_password(const Secret *token, const char *encoded)
{
	uint8_t		plain[MAX_HEADER];
	size_t		len = strlen(encoded);
	const uint8_t *colon;
	int			n;
	bool		same;

	if (len == 0 || len % 4 != 0 || len > MAX_HEADER)
		return false;
	n = EVP_DecodeBlock(plain, (const unsigned char *) encoded, (int) len);
	if (n <= 0)
		return false;
	n -= (encoded[len - 1] == '=') + (encoded[len - 2] == '=');
	colon = memchr(plain, ':', (size_t) n);
	same = colon != NULL && is_token(token, (const char *) colon + 1, (size_t) (plain + n - colon - 1));
	OPENSSL_cleanse(plain, sizeof(plain));
	return same;
}

bool
http_has_token(const Secret *token, const char *authorization)
{
	if (authorization == NULL)
		return false;
	if (strncasecmp(authorization, "Bearer ", 7) == 0)
	{
		authorization += 7 + strspn(authorization + 7, " ");
		return is_token(token, authorization, strlen(authorization));
	}
	if (strncasecmp(authorization, "Basic ", 6) == 0)
		return has_password(token, authorization + 6 + strspn(authorization + 6, " "));
	return false;
}

/* ---------- Host */

bool
http_host_is_local(const char *host)
{
	char		name[256];
	struct in6_addr number;
	size_t		len;
	bool		six;

	if (host == NULL || host[0] == '\0')
		return true;
	six = host[0] == '[';
	host += six;
	len = strcspn(host, six ? "]" : ":");
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return inet_pton(six ? AF_INET6 : AF_INET, name, &number) == 1 || (!six && strcasecmp(name, "localhost") == 0);
}
