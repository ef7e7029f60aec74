/*
 * conninfo.c
 *	  TLS and passwords in connection strings of nodes.
 *
 * Pure.
 */
#include "conninfo.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "loopback.h"

static const char *
value_of(const PQconninfoOption *options, const char *keyword)
{
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, keyword) == 0)
			return o->val != NULL && o->val[0] != '\0' ? o->val : NULL;
	}
	return NULL;
}

/* ---------- where */

ConninfoPlace
host_place(const char *host)
{
	struct sockaddr_storage address = {0};

	if (host[0] == '\0' || host[0] == '/' || host[0] == '@')
		return CONNINFO_UNIX;
	if (strcmp(host, "localhost") == 0)
		return CONNINFO_LOOPBACK;
	if (inet_pton(AF_INET, host, &((struct sockaddr_in *) &address)->sin_addr) == 1)
		address.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, host, &((struct sockaddr_in6 *) &address)->sin6_addr) == 1)
		address.ss_family = AF_INET6;
	return address_is_loopback(&address) ? CONNINFO_LOOPBACK : CONNINFO_REMOTE;
}

static ConninfoPlace
place_of_list(const char *hosts)
{
	ConninfoPlace farthest = CONNINFO_UNIX;

	for (const char *p = hosts;; p++)
	{
		size_t		len = strcspn(p, ",");
		char	   *host = xstrndup(p, len);
		ConninfoPlace place = host_place(host);

		farthest = place > farthest ? place : farthest;
		free(host);
		p += len;
		if (*p == '\0')
			return farthest;
	}
}

static ConninfoPlace
place_of_options(const PQconninfoOption *options)
{
	const char *address = value_of(options, "hostaddr");
	const char *host = value_of(options, "host");

	if (options == NULL || value_of(options, "service") != NULL)
		return CONNINFO_REMOTE; /* wherever that leads */
	return address != NULL ? place_of_list(address) : host != NULL ? place_of_list(host) : CONNINFO_UNIX;
}

ConninfoPlace
conninfo_place(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	ConninfoPlace place = place_of_options(options);

	PQconninfoFree(options);
	return place;
}

bool
conninfo_is_verified(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	const char *mode = value_of(options, "sslmode");
	const char *root = value_of(options, "sslrootcert");
	bool		verified = (mode != NULL && strcmp(mode, "verify-full") == 0) ||
	(mode == NULL && root != NULL && strcmp(root, "system") == 0);	/* from 16 on */

	PQconninfoFree(options);
	return verified;
}

/* ---------- the text */

static void
put(Buffer *to, const char *keyword, const char *value)
{
	if (to->len > 0)
		buffer_append(to, " ", 1);
	buffer_append(to, keyword, strlen(keyword));
	buffer_append(to, "='", 2);
	for (const char *p = value; *p != '\0'; p++)
	{
		if (*p == '\'' || *p == '\\')
			buffer_append(to, "\\", 1);
		buffer_append(to, p, 1);
	}
	buffer_append(to, "'", 1);
}

static void
put_file(Buffer *to, const char *keyword, const char *directory, const char *name)
{
	char	   *path = xasprintf("%s/%s", directory, name);

	put(to, keyword, path);
	free(path);
}

static void
put_missing(Buffer *text, const PQconninfoOption *options, const char *directory)
{
	if (value_of(options, "sslmode") == NULL)
		put(text, "sslmode", "verify-full");
	if (value_of(options, "ssl_min_protocol_version") == NULL)
		put(text, "ssl_min_protocol_version", "TLSv1.3");
	if (value_of(options, "sslrootcert") == NULL)
	{
		put_file(text, "sslrootcert", directory, "ca.pem");
		if (value_of(options, "sslcrl") == NULL)
			put_file(text, "sslcrl", directory, "crl.pem"); /* libpq ignores a
															 * missing one */
	}
	if (value_of(options, "sslcert") == NULL && value_of(options, "sslkey") == NULL)
	{
		put_file(text, "sslcert", directory, "cert.pem");
		put_file(text, "sslkey", directory, "key.pem");
	}
}

char *
conninfo_with_tls(const char *conninfo, const char *directory)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	Buffer		text = {0};

	if (options == NULL)
		return xstrdup(conninfo);
	for (PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (o->val != NULL)
			put(&text, o->keyword, o->val);
	}
	put_missing(&text, options, directory);
	PQconninfoFree(options);
	buffer_append(&text, "", 1);
	return (char *) text.data;
}

/* ---------- passwords */

static char *
finish(Buffer *text)
{
	buffer_append(text, "", 1);
	return (char *) text->data;
}

char *
conninfo_without_passwords(const char *conninfo, ConninfoPasswords *passwords)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	Buffer		text = {0};

	*passwords = (ConninfoPasswords) {0};
	if (options == NULL)
		return NULL;
	for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		char	  **password = strcmp(o->keyword, "password") == 0 ? &passwords->password :
		strcmp(o->keyword, "sslpassword") == 0 ? &passwords->sslpassword : NULL;

		if (o->val != NULL && password != NULL)
			*password = xstrdup(o->val);
		else if (o->val != NULL)
			put(&text, o->keyword, o->val);
	}
	/* libpq has no variable of the environment for it, and takes one service */
	if (passwords->sslpassword != NULL && value_of(options, "service") == NULL)
		put(&text, "service", CONNINFO_SERVICE);
	else
	{
		free(passwords->sslpassword);
		passwords->sslpassword = NULL;
	}
	PQconninfoFree(options);
	return finish(&text);
}

char *
conninfo_with(const char *conninfo, const char *keyword, const char *value)
{
	Buffer		text = {0};

	buffer_append(&text, conninfo, strlen(conninfo));
	put(&text, keyword, value);
	return finish(&text);
}
