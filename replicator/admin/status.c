/*
 * status.c
 *	  The state of the cluster as JSON: what lockstepctl status and the pages over HTTP show.
 *
 * data: whether errors, statements and details are in it, which may quote what users have
 * stored.  Nothing is kept here.
 */
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "buffer.h"
#include "events.h"
#include "group_view.h"
#include "json_text.h"
#include "loop.h"
#include "membership.h"
#include "metadata.h"
#include "node_fields.h"
#include "running.h"
#include "sequencer.h"
#include "session.h"

json_t *
json_seq(uint64_t seq)
{
	return json_integer((json_int_t) seq);
}

/* ---------- a node */

static uint64_t
lag_of(const NodeStatus *s)
{
	uint64_t	last = sequencer_last_durable();

	return last > s->applied ? last - s->applied : 0;
}

/* -1: it is not. */
static json_t *
if_known(int64_t value)
{
	return value >= 0 ? json_integer(value) : json_null();
}

static json_t *
boot_text(const NodeStatus *s)
{
	char		boot[17];

	snprintf(boot, sizeof(boot), "%016" PRIx64, s->boot);
	return json_string(boot);
}

/* Of a node that catches up: how far it is. */
static json_t *
reason_text(const NodeStatus *s, bool data)
{
	char		where[256];

	if (!data && s->cause != DROP_NONE &&
		(strstr(drop_rule(s->cause)->text, "{error}") != NULL || strstr(drop_rule(s->cause)->text, "{found}") != NULL))
	{
		snprintf(where, sizeof(where), "%s: lockstepctl status has the server's error", drop_rule(s->cause)->name);
		return json_string(where);
	}
	if (s->state == NODE_ONLINE && s->draining)
	{
		if (s->drain_announced)
			snprintf(where, sizeof(where), "is to be drained: load balancers and new sessions are told, writers go on");
		else if (s->writers_open >= 0)
			snprintf(where, sizeof(where), "is being drained: %" PRId64 " transactions that write are open", s->writers_open);
		else
			snprintf(where, sizeof(where), "is being drained");
		return json_string(where);
	}
	if (s->state != NODE_CATCHUP || s->reason[0] != '\0')
		return json_from_text(s->reason);
	if (s->seconds_left >= 0)
		snprintf(where, sizeof(where), "%" PRIu64 " transactions to go, %" PRIu64 " a second, about %" PRId64 " s left",
				 lag_of(s), s->rate, s->seconds_left);
	else
		snprintf(where, sizeof(where), "%" PRIu64 " transactions to go", lag_of(s));
	return json_from_text(where);
}

static json_t *
if_dropped(const NodeStatus *s, const char *text)
{
	return s->cause != DROP_NONE ? json_string(text) : json_null();
}

/* What the operator can do about it. */
static json_t *
hint_text(const NodeStatus *s)
{
	char		hint[DROP_TEXT_SIZE];

	return node_hint(s, hint) ? json_from_text(hint) : json_null();
}

/* Takes ways over. */
static json_t *
trouble_json(const NodeTrouble *t, json_t *ways, bool data)
{
	json_t	   *facts = json_pack("{s:o, s:o, s:s, s:i, s:o}",
								  "seq", json_seq(t->seq),
								  "database", json_from_text(t->database),
								  "sqlstate", t->sqlstate,
								  "times", t->times,
								  "ways_out", ways);

	if (!data)
		return facts;
	json_object_set_new(facts, "statement", t->statement != NULL ? json_from_text(t->statement) : json_null());
	json_object_set_new(facts, "error", json_from_text(t->message));
	json_object_set_new(facts, "detail", t->detail != NULL ? json_from_text(t->detail) : json_null());
	return facts;
}

/* What it can't apply, and what can be done; NULL: nothing. */
static json_t *
trouble_facts(const NodeStatus *s, bool data)
{
	const NodeTrouble *t = s->trouble;
	json_t	   *ways = json_array();
	char	   *mend;
	char	   *repair;
	char	   *clone;

	if (t == NULL)
	{
		json_decref(ways);
		return json_null();
	}
	if (node_trouble_is_servers(t))
	{
		mend = xasprintf("mend what the server of node %s says (disk, memory, connections); nothing else is needed: it is tried again by itself, "
						 "or now by: lockstepctl attach %s", s->name, s->name);
		json_array_append_new(ways, json_from_text(mend));
		free(mend);
		return trouble_json(t, ways, data);
	}
	mend = xasprintf("mend the cause on node %s (with lockstep.replicate = off, if something there has to be changed); "
					 "it is tried again by itself, or now by: lockstepctl attach %s", s->name, s->name);
	repair = xasprintf("give it what the others have, past that seq: lockstepctl verify --repair %s", s->name);
	clone = xasprintf("clone it anew: lockstepctl join %s", s->name);
	json_array_append_new(ways, json_from_text(mend));
	json_array_append_new(ways, json_from_text(repair));
	json_array_append_new(ways, json_from_text(clone));
	free(mend);
	free(repair);
	free(clone);
	return trouble_json(t, ways, data);
}

json_t *
status_node(int node, bool data)
{
	NodeStatus	status = node_status(node);
	const NodeStatus *s = &status;
	json_t	   *facts = json_object();

#define SET_FIELD(name, title, shown, value) json_object_set_new(facts, name, value);
	NODE_FIELDS(SET_FIELD);
#undef SET_FIELD
	return facts;
}

/* ---------- the replicator */

static json_t *
counters(void)
{
	SequencerStats s = sequencer_stats();

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}",
					 "committed", json_seq(s.committed),
					 "conflicts", json_seq(s.conflicts),
					 "peer_errors", json_seq(s.peer_errors),
					 "withdrawn", json_seq(s.withdrawn),
					 "reserved_now", json_seq(s.reserved_now),
					 "certifier_keys", json_seq(s.certifier_keys));
}

static json_t *
journal_facts(void)
{
	SequencerStats s = sequencer_stats();

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s?}",
					 "directory", admin_config()->journal_directory,
					 "first", json_seq(s.journal_first),
					 "last", json_seq(sequencer_last_durable()),
					 "decided", json_seq(sequencer_last_decided()),
					 "syncs", json_seq(s.journal_syncs),
					 "failing", s.journal_failing);
}

static json_t *
event_list(bool data)
{
	json_t	   *list = json_array();
	const Event *e;

	for (size_t i = 0; (e = event_get(i)) != NULL; i++)
	{
		json_t	   *event = json_pack("{s:o, s:s, s:o, s:o}",
									  "time", json_seq(e->time_us),
									  "event", e->name,
									  "node", e->node[0] != '\0' ? json_from_text(e->node) : json_null(),
									  "text", json_from_text(e->text));

		if (data && e->detail[0] != '\0')
			json_object_set_new(event, "detail", json_from_text(e->detail));
		json_array_append_new(list, event);
	}
	return list;
}

/* NULL: without. */
static json_t *
tls_facts(void)
{
	int			days = 0;
	const char *expires = session_tls_expires(&days);

	return expires == NULL ? json_null() : json_pack("{s:s, s:i}", "certificate_expires", expires, "certificate_days", days);
}

json_t *
status_facts(bool data)
{
	json_t	   *answer = json_object();
	json_t	   *nodes = json_array();
	json_t	   *databases = json_array();
	const char *const *names;
	int			n;

	for (int i = 0; i < nodes_count(); i++)
		json_array_append_new(nodes, status_node(i, data));
	names = metadata_databases(&n);
	for (int i = 0; i < n; i++)
		json_array_append_new(databases, json_from_text(names[i]));

	json_object_set_new(answer, "time", json_seq(loop_wall_us()));
	json_object_set_new(answer, "pid", json_integer(getpid()));
	json_object_set_new(answer, "version", json_string(LOCKSTEP_VERSION));
	json_object_set_new(answer, "cluster", json_from_text(admin_cluster()));
	json_object_set_new(answer, "tls", tls_facts());
	json_object_set_new(answer, "group", admin_config()->nreplicators > 0 ? group_view_json() : json_null());
	json_object_set_new(answer, "paused_ms", if_known(writers_paused_ms()));
	json_object_set_new(answer, "running", running_json());
	json_object_set_new(answer, "nodes", nodes);
	json_object_set_new(answer, "databases", databases);
	json_object_set_new(answer, "counters", counters());
	json_object_set_new(answer, "journal", journal_facts());
	json_object_set_new(answer, "events", event_list(data));
	return answer;
}

/* ---------- tables */

json_t *
status_rows(const FactsColumn *columns, int ncolumns, bool (*row) (size_t i, const char **cells))
{
	json_t	   *list = json_array();
	const char *cells[FACTS_MAX_COLUMNS];

	for (size_t i = 0; row(i, cells); i++)
	{
		json_t	   *object = json_object();

		for (int j = 0; j < ncolumns; j++)
			json_object_set_new(object, columns[j].name, cells[j] == NULL ? json_null() :
								columns[j].number ? json_seq(strtoull(cells[j], NULL, 10)) : json_from_text(cells[j]));
		json_array_append_new(list, object);
	}
	return list;
}
