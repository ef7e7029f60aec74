/*
 * metrics.c
 *	  The replicator's status in the text format of Prometheus: for lockstepctl metrics and
 *	  for a scraper that asks over HTTP.
 *
 * Pure: from JSON to a stream.  Names of nodes need no quoting in labels.
 */
#include "metrics.h"

#include <string.h>

#include "json_text.h"

typedef struct Metric
{
	const char *name;
	const char *type;
	const char *group;			/* of the status; "": itself; NULL: each node */
	const char *field;
	const char *help;
} Metric;

/* Of each replicator of a group. */
static const Metric member_metrics[] = {
	{"lockstep_replicator_in_sync", "gauge", NULL, "in_sync", "1 if the replicator has everything that was acknowledged."},
	{"lockstep_replicator_lag_bytes", "gauge", NULL, "lag_bytes", "Bytes of the journal that a standby has not been sent."},
	{"lockstep_replicator_silent_ms", "gauge", NULL, "silent_ms", "Milliseconds since the last message of a standby."},
};

static const Metric metrics[] = {
	{"lockstep_node_applied_seq", "gauge", NULL, "applied", "Highest seq that the node has applied."},
	{"lockstep_node_flushed_seq", "gauge", NULL, "flushed", "Highest seq that the node is known to have flushed to disk."},
	{"lockstep_node_lag_transactions", "gauge", NULL, "lag", "Committed transactions that the node has not applied."},
	{"lockstep_node_lag_bytes", "gauge", NULL, "lag_bytes", "Size of these transactions in the replicator's memory."},
	{"lockstep_node_silent_ms", "gauge", NULL, "silent_ms", "Milliseconds since the last message from the node's server."},
	{"lockstep_node_waiting_transactions", "gauge", NULL, "waiting", "Transactions that wait for the node."},
	{"lockstep_node_sessions", "gauge", NULL, "sessions", "Connected backends of the node."},
	{"lockstep_node_connections", "gauge", NULL, "connections", "Connections of the replicator to the node."},
	{"lockstep_node_dropped_by_command", "gauge", NULL, "administrative", "1 if the node was dropped by command and stays out until it is attached."},
	{"lockstep_node_draining", "gauge", NULL, "draining", "1 if the node is being drained."},
	{"lockstep_node_state_ms", "gauge", NULL, "state_ms", "Milliseconds since the node entered its state."},
	{"lockstep_node_slow_drops", "gauge", NULL, "slow_drops", "Number of consecutive drops of the node because of its lag."},
	{"lockstep_node_apply_groups_total", "counter", NULL, "apply_groups", "Groups of transactions that the node executed as one while it was online."},
	{"lockstep_node_grouped_transactions_total", "counter", NULL, "grouped_transactions", "Transactions in these groups."},
	{"lockstep_node_overlong_total", "counter", NULL, "overlong_ended", "Transactions rolled back because the node executed them for too long."},
	{"lockstep_committed_total", "counter", "counters", "committed", "Committed transactions."},
	{"lockstep_conflicts_total", "counter", "counters", "conflicts", "Transactions that lost a conflict."},
	{"lockstep_peer_errors_total", "counter", "counters", "peer_errors", "Transactions that failed on another node."},
	{"lockstep_withdrawn_total", "counter", "counters", "withdrawn", "Transactions that were withdrawn."},
	{"lockstep_in_flight", "gauge", "counters", "reserved_now", "Transactions that other nodes are executing."},
	{"lockstep_certifier_keys", "gauge", "counters", "certifier_keys", "Keys that the certifier remembers."},
	{"lockstep_journal_first_seq", "gauge", "journal", "first", "Lowest seq in the journal."},
	{"lockstep_journal_last_seq", "gauge", "journal", "last", "Highest seq that is durable."},
	{"lockstep_journal_syncs_total", "counter", "journal", "syncs", "Flushes of the journal."},
	{"lockstep_journal_bytes", "gauge", "journal", "bytes", "Size of the journal's files."},
	{"lockstep_journal_disk_free_bytes", "gauge", "journal", "disk_free_bytes", "Free space on the journal's disk."},
	{"lockstep_paused_ms", "gauge", "", "paused_ms", "Milliseconds until a pause of writes ends; 0 if there is none."},
	{"lockstep_replicator_leads", "gauge", "group", "leads", "1 if the replicator that is asked leads the group."},
	{"lockstep_replicator_epoch", "gauge", "group", "epoch", "Number of changes of the replicator that leads, and of those in sync."},
	{"lockstep_replicator_copies_wanted", "gauge", "group", "copies", "Copies of the journal that there should be, the leader's included."},
	{"lockstep_journal_failing", "gauge", "journal", "failing", "1 if the journal cannot be written, so that nothing is committed."},
};

/* A number is its own value, a text is 1, as is true; anything else is 0. */
static void
put_value(FILE *out, const json_t *value)
{
	if (json_is_integer(value))
		fprintf(out, " %" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
	else
		fprintf(out, " %d\n", json_is_true(value) || json_is_string(value));
}

static void
put_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
print_members(FILE *out, const json_t *members)
{
	size_t		i;
	json_t	   *member;

	put_head(out, "lockstep_replicator_connected", "gauge", "1 if the replicator leads, or is connected to the one that does.");
	json_array_foreach((json_t *) members, i, member)
	{
		const char *state = json_text_of(member, "state");

		if (strcmp(state, "unknown") != 0)	/* another standby, to a standby */
			fprintf(out, "lockstep_replicator_connected{replicator=\"%s\"} %d\n", json_text_of(member, "name"),
					strcmp(state, "not connected") != 0 && !json_is_false(json_object_get(member, "connected")));
	}
	for (size_t m = 0; m < sizeof(member_metrics) / sizeof(member_metrics[0]); m++)
	{
		put_head(out, member_metrics[m].name, member_metrics[m].type, member_metrics[m].help);
		json_array_foreach((json_t *) members, i, member)
		{
			const json_t *value = json_object_get(member, member_metrics[m].field);

			if (value == NULL)
				continue;
			fprintf(out, "%s{replicator=\"%s\"}", member_metrics[m].name, json_text_of(member, "name"));
			put_value(out, value);
		}
	}
}

void
metrics_print(FILE *out, const json_t *status)
{
	static const char *const states[] = {"joining", "catchup", "online", "dropped"};
	const json_t *nodes = json_object_get(status, "nodes");
	size_t		i;
	json_t	   *node;

	put_head(out, "lockstep_node_state", "gauge", "1 for the state that the node is in.");
	json_array_foreach((json_t *) nodes, i, node)
	{
		for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++)
			fprintf(out, "lockstep_node_state{node=\"%s\",state=\"%s\"} %d\n", json_text_of(node, "name"), states[s],
					strcmp(json_text_of(node, "state"), states[s]) == 0);
	}
	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++)
	{
		const Metric *metric = &metrics[m];

		if (metric->group != NULL)
		{
			const json_t *group = metric->group[0] != '\0' ? json_object_get(status, metric->group) : status;
			const json_t *value = json_object_get(group, metric->field);

			if (value == NULL)
				continue;		/* not known here */
			put_head(out, metric->name, metric->type, metric->help);
			fputs(metric->name, out);
			put_value(out, value);
			continue;
		}
		put_head(out, metric->name, metric->type, metric->help);
		json_array_foreach((json_t *) nodes, i, node)
		{
			fprintf(out, "%s{node=\"%s\"}", metric->name, json_text_of(node, "name"));
			put_value(out, json_object_get(node, metric->field));
		}
	}
	if (json_is_object(json_object_get(status, "group")))
		print_members(out, json_object_get(json_object_get(status, "group"), "members"));
}
