/*
 * fuzz_http.c
 *	  libFuzzer target: what a request over HTTP can say, as libmicrohttpd hands it to us.  The
 *	  input's lines are the path, the arguments lag and draining, and the headers Authorization and
 *	  Host; a missing line is a missing header.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http_access.h"
#include "http_pages.h"
#include "http_snapshot.h"
#include "http_standby.h"

#define TOKEN "fuzzed-token"

static Health health = {
	.nnodes = 2,
	.nodes = {
		{.name = "n1",.writes = true,.reads = true,.state = "online"},
		{.name = "n2",.catches_up = true,.draining = true,.lag = 7,.state = "catching up"},
	},
};

/* ---------- in place of the loop's thread */

const Health *
snapshot_health(void)
{
	return &health;
}

Snapshot *
snapshot_status(void)
{
	return NULL;				/* the status is not the client's to say */
}

/* ---------- in place of what a standby knows; its status is not the client's to say, either */

const Health *
standby_health(void)
{
	return &health;
}

bool
standby_is_healthy(char **why)
{
	*why = strdup("a standby");
	return *why != NULL;
}

json_t *
standby_status(void)
{
	return json_object();
}

/* ---------- the target */

static char *
next_line(char **rest)
{
	char	   *line = *rest;

	if (line == NULL)
		return NULL;
	*rest = strchr(line, '\n');
	if (*rest != NULL)
		*(*rest)++ = '\0';
	return line;
}

/* Which paths are there is known; all else is 404. */
static void
check_page(const char *path, const HttpArguments *arguments, bool leads)
{
	HttpAnswer	a = http_page(path, arguments);

	CHECK(a.status == 200 || a.status == 404 || a.status == 503);
	CHECK(a.text != NULL && a.len == strlen(a.text) && a.type != NULL && a.policy != NULL);
	if (a.status == 200)
		CHECK(strcmp(path, "/") == 0 || (!leads && (strcmp(path, "/metrics") == 0 || strcmp(path, "/status.json") == 0)) || strcmp(path, "/health") == 0 || strcmp(path, "/nodes/n1/read") == 0 ||
			  strcmp(path, "/nodes/n1/write") == 0 ||
			  (strcmp(path, "/nodes/n2/read") == 0 && arguments->lag != NULL && strtoull(arguments->lag, NULL, 10) >= 7));
}

static void
check_token(const char *authorization)
{
	Secret		token = {.len = strlen(TOKEN)};

	memcpy(token.bytes, TOKEN, token.len);
	if (authorization != NULL && http_has_token(&token, authorization) && (authorization[1] | 0x20) == 'e')
	{
		const char *word = strrchr(authorization, ' ');

		CHECK(word != NULL && strcmp(word + 1, TOKEN) == 0);
	}
}

/* No name of another site. */
static void
check_host(const char *host)
{
	if (host != NULL && http_host_is_local(host))
		CHECK(host[0] == '\0' || host[0] == '[' || strspn(host, "0123456789.") == strcspn(host, ":") ||
			  (strncasecmp(host, "localhost", 9) == 0 && (host[9] == '\0' || host[9] == ':')));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = malloc(size + 1);
	char	   *rest = text;
	HttpArguments arguments;
	const char *path;

	memcpy(text, data, size);
	text[size] = '\0';
	path = next_line(&rest);
	arguments.lag = next_line(&rest);
	arguments.draining = next_line(&rest);
	http_pages_begin("/nonexistent");
	check_page(path, &arguments, false);
	http_pages_lead();
	check_page(path, &arguments, true);
	check_token(next_line(&rest));
	check_host(next_line(&rest));
	free(text);
	return 0;
}
