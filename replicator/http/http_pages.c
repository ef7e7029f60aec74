/*
 * http_pages.c
 *	  What each path answers:
 *
 *	 /							the status page
 *	 /status.json, /metrics		the status, for programs and for Prometheus
 *	 /health					200: the replicator works
 *	 /nodes/NAME/write, read	200: send writers, readers there
 *
 * Only the HTTP thread comes here, so answers may lie in static memory.
 */
#include "http_pages.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "http_snapshot.h"
#include "http_standby.h"
#include "journal_usage.h"
#include "metrics.h"
#include "status_page.h"

#define TEXT "text/plain; charset=utf-8"
#define JSON "application/json"
#define METRICS "text/plain; version=0.0.4; charset=utf-8"
#define NOTHING_ELSE "default-src 'none'; frame-ancestors 'none'"

static const char *journal;
static atomic_bool leads;

void
http_pages_begin(const char *journal_directory)
{
	journal = journal_directory;
	leads = false;
}

void
http_pages_lead(void)
{
	leads = true;
}

static HttpAnswer
answer(int status, const char *type, const char *text)
{
	return (HttpAnswer) {.status = status,.type = type,.text = text,.len = strlen(text),.policy = NOTHING_ELSE};
}

static HttpAnswer __attribute__((format(printf, 2, 3)))
say(int status, const char *fmt,...)
{
	static char text[512];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return answer(status, TEXT, text);
}

static HttpAnswer
no_response(void)
{
	return say(503, "the replicator does not respond\n");
}

/* ---------- the status */

/* The loop's thread does not touch the disk for that. */
static void
add_journal_size(json_t *status)
{
	json_t	   *facts = json_object_get(status, "journal");
	uint64_t	bytes;
	uint64_t	disk_free;

	if (!journal_usage(journal, &bytes, &disk_free))
		return;
	json_object_set_new(facts, "bytes", json_integer((json_int_t) bytes));
	json_object_set_new(facts, "disk_free_bytes", json_integer((json_int_t) disk_free));
}

static char *
metrics_of(const json_t *status)
{
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);

	if (out == NULL)
		return NULL;
	metrics_print(out, status);
	return fclose(out) == 0 ? text : NULL;
}

/* This one is a standby: nobody else is asked for it. */
static HttpAnswer
standby_status_answer(bool metrics)
{
	static char *text;
	json_t	   *status = standby_status();

	add_journal_size(status);
	free(text);
	text = metrics ? metrics_of(status) : json_dumps(status, JSON_COMPACT);
	json_decref(status);
	return text != NULL ? answer(200, metrics ? METRICS : JSON, text) : say(503, "out of memory\n");
}

static HttpAnswer
status_answer(bool metrics)
{
	Snapshot   *s;

	if (!leads)
		return standby_status_answer(metrics);
	s = snapshot_status();

	if (s == NULL)
		return no_response();
	if (s->json == NULL)
	{
		add_journal_size(s->status);
		s->json = json_dumps(s->status, JSON_COMPACT);
		s->metrics = metrics_of(s->status);
	}
	if (s->json == NULL || s->metrics == NULL)
		return say(503, "out of memory\n");
	return answer(200, metrics ? METRICS : JSON, metrics ? s->metrics : s->json);
}

/* ---------- checks */

static HttpAnswer
standby_health_answer(void)
{
	char	   *why;
	const bool	healthy = standby_is_healthy(&why);
	HttpAnswer	a = healthy ? say(200, "ok: %s\n", why) : say(503, "%s\n", why);

	free(why);
	return a;
}

static HttpAnswer
health_answer(void)
{
	const Health *h;

	if (!leads)
		return standby_health_answer();
	h = snapshot_health();
	if (h == NULL)
		return no_response();
	return h->trouble[0] == '\0' ? say(200, "ok\n") : say(503, "%s\n", h->trouble);
}

/* Does it lack at most so many transactions? */
static bool
is_close(const HealthOfNode *n, const char *lag)
{
	char	   *end;
	unsigned long long most;

	if (lag == NULL || lag[0] < '0' || lag[0] > '9' || !n->catches_up)
		return false;
	most = strtoull(lag, &end, 10);
	return *end == '\0' && n->lag <= most;
}

/* 404 keeps HAProxy's sessions on a node that is being drained (disable-on-404). */
static int
status_of(const HealthOfNode *n, bool good, const HttpArguments *arguments)
{
	if (good)
		return 200;
	return n->draining && arguments->draining != NULL && strcmp(arguments->draining, "404") == 0 ? 404 : 503;
}

static HttpAnswer
node_answer(const char *path, const HttpArguments *arguments)
{
	const char *slash = strchr(path, '/');
	const Health *h;
	bool		write;

	if (slash == NULL || (strcmp(slash, "/write") != 0 && strcmp(slash, "/read") != 0))
		return say(404, "not found\n");
	write = slash[1] == 'w';
	if ((h = leads ? snapshot_health() : standby_health()) == NULL)
		return no_response();
	for (int i = 0; i < h->nnodes; i++)
	{
		const HealthOfNode *n = &h->nodes[i];

		if (strlen(n->name) != (size_t) (slash - path) || strncmp(n->name, path, strlen(n->name)) != 0)
			continue;
		if (write && h->trouble[0] != '\0')
			return say(503, "%s\n", h->trouble);
		return say(status_of(n, write ? n->writes : n->reads || is_close(n, arguments->lag), arguments), "%s\n", n->state);
	}
	if (h->nnodes == 0 && h->trouble[0] != '\0')
		return say(503, "%s\n", h->trouble);
	return say(404, "there is no such node\n");
}

HttpAnswer
http_page(const char *path, const HttpArguments *arguments)
{
	static const char nodes[] = "/nodes/";

	if (strcmp(path, "/") == 0)
		return (HttpAnswer)
	{
		.status = 200,.type = "text/html; charset=utf-8",.text = status_page,
			.len = strlen(status_page),.policy = status_page_policy()
	};
	if (strcmp(path, "/status.json") == 0)
		return status_answer(false);
	if (strcmp(path, "/metrics") == 0)
		return status_answer(true);
	if (strcmp(path, "/health") == 0)
		return health_answer();
	if (strncmp(path, nodes, strlen(nodes)) == 0)
		return node_answer(path + strlen(nodes), arguments);
	return say(404, "not found\n");
}
