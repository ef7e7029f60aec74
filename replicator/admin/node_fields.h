/*
 * node_fields.h
 *	  What lockstepctl status says of each node: one table, for the JSON that the
 *	  replicator sends and for the columns that lockstepctl prints.
 *
 * NODE_FIELD(name in JSON, title of the column, shown as, value).  A field with the
 * title NULL is in the JSON only.  Columns come in this order; the reason is the last,
 * as it is as long as it likes.  value is used by the replicator only, with
 * `const NodeStatus *s`, `int node` and `bool data` (may it quote users' data?); what NodeStatus does not have yet is added to
 * it in membership.h and filled in by node_status().
 */
#ifndef LOCKSTEP_NODE_FIELDS_H
#define LOCKSTEP_NODE_FIELDS_H

typedef enum NodeFieldShown
{
	SHOWN_TEXT,
	SHOWN_NUMBER,
	SHOWN_MS					/* as seconds */
} NodeFieldShown;

#define NODE_FIELDS(NODE_FIELD) \
	NODE_FIELD("name", "node", SHOWN_TEXT, json_from_text(s->name)) \
	NODE_FIELD("state", "state", SHOWN_TEXT, json_string(node_state_name(s->state))) \
	NODE_FIELD("state_ms", "for", SHOWN_MS, json_integer(s->state_ms)) \
	NODE_FIELD("applied", "applied", SHOWN_NUMBER, json_seq(s->applied)) \
	NODE_FIELD("flushed", NULL, SHOWN_NUMBER, json_seq(s->flushed)) \
	NODE_FIELD("lag", "lag", SHOWN_NUMBER, json_seq(lag_of(s))) \
	NODE_FIELD("lag_bytes", NULL, SHOWN_NUMBER, json_seq(s->lag_bytes)) \
	NODE_FIELD("silent_ms", "silent", SHOWN_MS, if_known(s->silent_ms)) \
	NODE_FIELD("waiting", "waiting", SHOWN_NUMBER, json_integer(s->waiting)) \
	NODE_FIELD("sessions", "sessions", SHOWN_NUMBER, json_integer(sessions_of_node(node))) \
	NODE_FIELD("connections", NULL, SHOWN_NUMBER, json_integer(s->connections)) \
	NODE_FIELD("administrative", NULL, SHOWN_TEXT, json_boolean(s->administrative)) \
	NODE_FIELD("boot", NULL, SHOWN_TEXT, boot_text(s)) \
	NODE_FIELD("slow_drops", NULL, SHOWN_NUMBER, json_integer(s->slow_drops)) \
	NODE_FIELD("apply_groups", NULL, SHOWN_NUMBER, json_seq(s->groups)) \
	NODE_FIELD("grouped_transactions", NULL, SHOWN_NUMBER, json_seq(s->grouped)) \
	NODE_FIELD("overlong_ended", NULL, SHOWN_NUMBER, json_seq(s->apply_patience_ended)) \
	NODE_FIELD("draining", NULL, SHOWN_TEXT, json_boolean(s->draining)) \
	NODE_FIELD("writers_open", NULL, SHOWN_NUMBER, if_known(s->writers_open)) \
	NODE_FIELD("retry_seconds", NULL, SHOWN_NUMBER, if_known(s->retry_ms >= 0 ? (s->retry_ms + 999) / 1000 : -1)) \
	NODE_FIELD("catchup_rate", NULL, SHOWN_NUMBER, s->state == NODE_CATCHUP ? json_seq(s->rate) : json_null()) \
	NODE_FIELD("seconds_left", NULL, SHOWN_NUMBER, if_known(s->seconds_left)) \
	NODE_FIELD("cause", NULL, SHOWN_TEXT, if_dropped(s, drop_rule(s->cause)->name)) \
	NODE_FIELD("returns", NULL, SHOWN_TEXT, if_dropped(s, drop_return_name(drop_rule(s->cause)->returns))) \
	NODE_FIELD("hint", NULL, SHOWN_TEXT, hint_text(s)) \
	NODE_FIELD("trouble", NULL, SHOWN_TEXT, trouble_facts(s, data)) \
	NODE_FIELD("reason", "reason", SHOWN_TEXT, reason_text(s, data))

#endif
