/*
 * http_standby.c
 *	  What a standby answers: see http_standby.h.
 */
#include "http_standby.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "buffer.h"
#include "copies.h"
#include "group_view.h"
#include "json_text.h"
#include "loop.h"

/* ---------- as text, between replicators */

static char *
health_text(const Health *h)
{
	json_t	   *nodes = json_array();
	json_t	   *all;
	char	   *text;

	for (int i = 0; i < h->nnodes; i++)
	{
		const HealthOfNode *n = &h->nodes[i];

		json_array_append_new(nodes, json_pack("{s:s, s:b, s:b, s:b, s:b, s:I, s:s}", "name", n->name, "writes", n->writes, "reads", n->reads,
											   "draining", n->draining, "catches_up", n->catches_up,
											   "lag", (json_int_t) (n->catches_up ? n->lag : 0), "state", n->state));
	}
	all = json_pack("{s:s, s:o}", "trouble", h->trouble, "nodes", nodes);
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	if (text == NULL)
		abort();
	return text;
}

/* false: it is something else. */
static bool
health_parse(const char *text, Health *h)
{
	json_t	   *all = json_loads(text, 0, NULL);
	const json_t *nodes = json_object_get(all, "nodes");
	size_t		i;
	const json_t *n;

	memset(h, 0, sizeof(Health));
	snprintf(h->trouble, sizeof(h->trouble), "%s", json_text_of(all, "trouble"));
	json_array_foreach((json_t *) nodes, i, n)
	{
		HealthOfNode *to = &h->nodes[h->nnodes];

		if (h->nnodes == CONFIG_MAX_NODES)
			break;
		h->nnodes++;
		snprintf(to->name, sizeof(to->name), "%s", json_text_of(n, "name"));
		snprintf(to->state, sizeof(to->state), "%s", json_text_of(n, "state"));
		to->writes = json_is_true(json_object_get(n, "writes"));
		to->reads = json_is_true(json_object_get(n, "reads"));
		to->draining = json_is_true(json_object_get(n, "draining"));
		to->catches_up = json_is_true(json_object_get(n, "catches_up"));
		to->lag = (uint64_t) json_integer_value(json_object_get(n, "lag"));
	}
	json_decref(all);
	return h->nnodes > 0;
}

/* ---------- the leader */

/* What the leader before this one said of nodes that this one is about to attach. */
static void
hold(Health *h)
{
	int64_t		ms;
	char	   *text = group_view_last_nodes(&ms);
	Health	   *last = xmalloc(sizeof(Health));

	if (text != NULL && ms < STANDBY_HELD_MS && health_parse(text, last))
	{
		for (int i = 0; i < h->nnodes; i++)
		{
			for (int j = 0; j < last->nnodes; j++)
			{
				if (!h->nodes[i].settles || strcmp(h->nodes[i].name, last->nodes[j].name) != 0)
					continue;
				h->nodes[i].writes = last->nodes[j].writes;
				h->nodes[i].reads = last->nodes[j].reads;
			}
		}
	}
	free(last);
	free(text);
}

void
standby_review(Health *h)
{
	char	   *text;

	hold(h);
	text = health_text(h);
	copies_tell_nodes(text);
	free(text);
}

/* ---------- a standby */

static void
nobody_leads(Health *h)
{
	snprintf(h->trouble, sizeof(h->trouble), "no replicator leads, or this standby does not reach it");
	for (int i = 0; i < h->nnodes; i++)
	{
		h->nodes[i].writes = h->nodes[i].reads = h->nodes[i].catches_up = h->nodes[i].draining = false;
		snprintf(h->nodes[i].state, sizeof(h->nodes[i].state), "not known: no replicator leads");
	}
}

const Health *
standby_health(void)
{
	static Health h;
	int64_t		ms;
	char	   *text = group_view_last_nodes(&ms);

	if (text == NULL || !health_parse(text, &h))
	{
		memset(&h, 0, sizeof(h));
		snprintf(h.trouble, sizeof(h.trouble), "the replicator that leads has not told this standby of the nodes yet");
	}
	else if (ms >= STANDBY_HELD_MS)
		nobody_leads(&h);
	free(text);
	return &h;
}

bool
standby_is_healthy(char **why)
{
	int64_t		ms;
	char	   *text = group_view_last_nodes(&ms);
	const bool	told = text != NULL;

	free(text);
	return (group_view_follows(why) || ms < STANDBY_HEALTHY_MS) && told;
}

json_t *
standby_status(void)
{
	json_t	   *group = group_view_json();

	return json_pack("{s:b, s:b, s:I, s:i, s:s, s:o, s:[], s:[], s:{}}", "ok", 1, "standby", 1, "time", (json_int_t) loop_wall_us(),
					 "pid", (int) getpid(), "version", LOCKSTEP_VERSION, "group", group, "nodes", "databases", "journal");
}
