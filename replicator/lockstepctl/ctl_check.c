/*
 * ctl_check.c
 *	  The cluster's state as one line and an exit status for monitoring systems that run plugins
 *	  (Nagios, Icinga, Zabbix): see the Monitoring Plugins Development Guidelines.
 *
 * Critical is what stops writers, or leaves a node out until somebody acts; a warning is what an
 * operator has done himself, or what ends by itself.
 */
#include <string.h>

#include "buffer.h"
#include "ctl.h"
#include "journal_usage.h"
#include "log.h"

#define SILENT_MS 3000			/* heartbeats come every second */

typedef struct Check
{
	int			state;
	Buffer		problems[CHECK_UNKNOWN];	/* by their state, "; " between
											 * them */
	int			online;
	int			nodes;
} Check;

static const char *const state_names[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

static json_int_t
number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *
text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value != NULL ? value : "";
}

/* Takes the sentence. */
static void
add(Check *c, int state, char *sentence)
{
	Buffer	   *b = &c->problems[state];

	if (b->len > 0)
		buffer_append(b, "; ", 2);

	/* what follows "|" is numbers, and there is one line */
	for (char *p = sentence; *p != '\0'; p++)
		if (*p == '|' || *p == '\n')
			*p = ' ';
	buffer_append(b, sentence, strlen(sentence));
	free(sentence);
	if (state > c->state)
		c->state = state;
}

static int
severity_of_absence(const json_t *node)
{
	bool		on_purpose = json_is_true(json_object_get(node, "administrative"));
	bool		comes_back = strcmp(text(node, "returns"), "by itself") == 0 || strcmp(text(node, "state"), "dropped") != 0;

	return on_purpose || comes_back ? CHECK_WARNING : CHECK_CRITICAL;
}

static void
look_at_node(Check *c, const json_t *node)
{
	const char *name = text(node, "name");
	const char *state = text(node, "state");
	const char *reason = text(node, "reason");
	json_int_t	silent_ms = number(node, "silent_ms");

	c->nodes++;
	c->online += strcmp(state, "online") == 0;
	if (strcmp(state, "online") != 0)
		add(c, severity_of_absence(node),
			xasprintf("node %s is %s%s%s%s", name, state, reason[0] ? " (" : "", reason, reason[0] ? ")" : ""));
	else if (json_is_true(json_object_get(node, "draining")))
		add(c, CHECK_WARNING, xasprintf("node %s is being drained", name));
	else if (silent_ms > SILENT_MS)
		add(c, CHECK_WARNING, xasprintf("node %s has been silent for %.1f s", name, (double) silent_ms / 1000));
}

/* NULL: there is one replicator. */
static void
look_at_group(Check *c, const json_t *group)
{
	size_t		in_sync = json_array_size(json_object_get(group, "in_sync"));
	const char *trouble = text(group, "trouble");
	size_t		i;
	json_t	   *member;

	if (!json_is_object(group))
		return;
	if (trouble[0] != '\0')
		add(c, json_is_true(json_object_get(group, "writers_wait")) ? CHECK_CRITICAL : CHECK_WARNING, xstrdup(trouble));
	json_array_foreach(json_object_get(group, "members"), i, member)
	{
		const char *state = text(member, "state");

		if (strcmp(state, "not connected") == 0 || strcmp(state, "copying") == 0)
			add(c, CHECK_WARNING, xasprintf("replicator %s is %s", text(member, "name"), state));
	}
	if ((json_int_t) in_sync < number(group, "copies"))
		add(c, CHECK_WARNING, xasprintf("the journal has %zu of %lld copies", in_sync, (long long) number(group, "copies")));
}

static void
print_numbers(const json_t *status, const Check *c)
{
	const json_t *counters = json_object_get(status, "counters");
	const json_t *journal = json_object_get(status, "journal");
	const json_t *free_bytes = json_object_get(journal, "disk_free_bytes");
	json_int_t	lag = 0;
	json_int_t	lag_bytes = 0;
	size_t		i;
	json_t	   *node;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		lag = number(node, "lag") > lag ? number(node, "lag") : lag;
		lag_bytes = number(node, "lag_bytes") > lag_bytes ? number(node, "lag_bytes") : lag_bytes;
	}
	printf(" | online=%d;;;0;%d lag=%lld;;;0 lag_bytes=%lldB;;;0 committed=%lldc conflicts=%lldc", c->online, c->nodes,
		   (long long) lag, (long long) lag_bytes, (long long) number(counters, "committed"), (long long) number(counters, "conflicts"));
	if (free_bytes != NULL)
		printf(" journal_disk_free=%lldB;;;0", (long long) json_integer_value(free_bytes));
}

static void
look(Check *c, const json_t *status)
{
	const json_t *journal = json_object_get(status, "journal");
	const char *failing = text(journal, "failing");
	const json_t *free_bytes = json_object_get(journal, "disk_free_bytes");
	size_t		i;
	json_t	   *node;

	if (failing[0] != '\0')
		add(c, CHECK_CRITICAL, xasprintf("the journal cannot be written: %s", failing));
	else if (json_is_integer(free_bytes) && json_integer_value(free_bytes) < JOURNAL_LITTLE_ROOM)
		add(c, CHECK_WARNING, xasprintf("only %lld MB are free on the journal's disk", (long long) json_integer_value(free_bytes) >> 20));
	json_array_foreach(json_object_get(status, "nodes"), i, node)
		look_at_node(c, node);
	look_at_group(c, json_object_get(status, "group"));
	if (c->online == 0)
		add(c, CHECK_CRITICAL, xstrdup("no node takes writes"));
	if (json_is_integer(json_object_get(status, "paused_ms")))
		add(c, CHECK_WARNING, xstrdup("writers are paused"));
}

int
check(const json_t *status)
{
	Check		c = {0};
	bool		ok = json_is_true(json_object_get(status, "ok"));
	const char *separator = "";

	if (ok)
		look(&c, status);
	else
		add(&c, CHECK_CRITICAL, xasprintf("replicator: %s", text(status, "error")));
	printf("LOCKSTEP %s - ", state_names[c.state]);
	for (int state = CHECK_CRITICAL; state > CHECK_OK; state--)
	{
		if (c.problems[state].len > 0)
			printf("%s%.*s", separator, (int) c.problems[state].len, (const char *) c.problems[state].data);
		separator = c.problems[state].len > 0 ? "; " : separator;
		buffer_free(&c.problems[state]);
	}
	if (c.state == CHECK_OK)
		printf("%d of %d nodes online", c.online, c.nodes);
	if (ok)
		print_numbers(status, &c);
	printf("\n");
	return c.state;
}
