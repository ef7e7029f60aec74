/*
 * admin_command.c
 *	  What the operator can ask and order: one function per command, one table
 *	  of them.  Called by admin.c on the loop's thread.
 *
 * A command answers at once, when it is called back (databases), or when
 * its poll says so (drain, attach): see admin.h.  Facts come from node.h,
 * sequencer.h and session.h; nothing is kept here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "buffer.h"
#include "conflict_log.h"
#include "events.h"
#include "group.h"
#include "group_view.h"
#include "json_text.h"
#include "log.h"
#include "loop.h"
#include "membership.h"
#include "points.h"
#include "sequencer.h"
#include "session.h"
#include "status.h"
#include "waits_rows.h"

/* Which nodes a drain waits for. */
#define DRAIN_MEMBERS 0			/* all but those dropped by command */
#define DRAIN_ONLINE 1

#define PAUSE_MAX_MS 3600000

static json_t *
success(void)
{
	return json_pack("{s:b}", "ok", 1);
}

/* warning may be NULL. */
static json_t *
success_but(const char *warning)
{
	json_t	   *answer = success();

	if (warning != NULL)
		json_object_set_new(answer, "warning", json_from_text(warning));
	return answer;
}

/* The log and the events have what an operator has ordered. */
static void
tell_command(const AdminRequest *r, const char *name, const char *argument)
{
	char	   *text = xasprintf("%s%s%s", name, argument[0] ? " " : "", argument);
	char	   *message = xasprintf("command of user id %u: %s", (unsigned) admin_user(r), text);

	log_event(LOG_NOTICE, "command", "admin", message, NULL, NULL);
	event_note("command", NULL, text, NULL);
	free(message);
	free(text);
}

/* ---------- status */

static void
command_status(AdminRequest *r, const char *arg)
{
	json_t	   *answer = status_facts(true);

	json_object_set_new(answer, "ok", json_true());
	admin_answer(r, answer);
}

static void
command_sessions(AdminRequest *r, const char *arg)
{
	json_t	   *answer = success();
	json_t	   *list = json_array();

	for (Session *s = sessions_next(NULL); s != NULL; s = sessions_next(s))
	{
		SessionStatus status = session_status(s);

		json_array_append_new(list, json_pack("{s:o, s:I, s:o, s:o, s:s, s:o, s:o, s:b}",
											  "node", json_from_text(status.node),
											  "pid", (json_int_t) status.pid,
											  "database", json_from_text(status.database),
											  "application", json_from_text(status.application),
											  "state", status.state,
											  "statements", json_seq(status.statements),
											  "bytes", json_seq(status.bytes),
											  "tls", status.tls));
	}
	json_object_set_new(answer, "sessions", list);
	admin_answer(r, answer);
}

static void
command_conflicts(AdminRequest *r, const char *arg)
{
	json_t	   *answer = success();

	json_object_set_new(answer, "conflicts", status_rows(conflict_columns, CONFLICT_COLUMNS, conflict_log_row));
	json_object_set_new(answer, "counts", status_rows(conflict_count_columns, CONFLICT_COUNT_COLUMNS, conflict_count_row));
	admin_answer(r, answer);
}

static void
command_config(AdminRequest *r, const char *arg)
{
	json_t	   *answer = success();
	json_t	   *list = json_array();
	const char *name;
	const char *value;
	const char *help;

	for (int i = 0; (name = config_show(admin_config(), i, &value, &help)) != NULL; i++)
		json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "name", name,
											  "value", json_from_text(value), "help", help));
	json_object_set_new(answer, "settings", list);
	admin_answer(r, answer);
}

/* The nodes have been asked who waits there. */
static void
waits_are_known(void *arg)
{
	json_t	   *answer = success();
	json_t	   *nodes = json_array();

	json_object_set_new(answer, "waits", status_rows(wait_columns, WAIT_COLUMNS, waits_row));
	for (int i = 0; i < nodes_count(); i++)
		json_array_append_new(nodes, status_node(i, true));
	json_object_set_new(answer, "nodes", nodes);
	admin_answer(arg, answer);
}

static void
command_waits(AdminRequest *r, const char *arg)
{
	waits_refresh(waits_are_known, r);
}

/* ---------- nodes */

/* Index of the node that arg names; -1 after having said that there is none. */
static int
named_node(AdminRequest *r, const char *arg)
{
	LsSlice		name = {(const uint8_t *) arg, strlen(arg)};
	int			node = node_find(name);
	char	   *error;

	if (node < 0)
	{
		error = xasprintf("there is no node \"%s\"", arg);
		admin_failed(r, error, "The nodes are those of replicator.conf: see lockstepctl nodes.");
		free(error);
	}
	return node;
}

static void
drop_is_durable(void *arg)
{
	LOCKSTEP_POINT(DROP_DURABLE);
	admin_answer(arg, success());
}

static void
command_drop(AdminRequest *r, const char *arg)
{
	int			node = named_node(r, arg);
	char	   *error;

	if (node < 0)
		return;
	if (node_drop(node, drop_is_durable, r))
		return;
	error = xasprintf("could not drop node \"%s\": it is %s", arg, node_state_name(node_status(node).state));
	admin_failed(r, error, NULL);
	free(error);
}

static json_t *
poll_attach(AdminRequest *r, bool expired)
{
	NodeStatus	s = node_status(admin_poll_node(r));
	char	   *error;
	json_t	   *answer;

	if (s.state == NODE_ONLINE && (!s.writers_held || expired))
		return success();
	if (s.state != NODE_DROPPED && !expired)
		return NULL;
	error = xasprintf(s.state == NODE_DROPPED ? "node \"%s\" was not attached (%s): %s" :
					  "node \"%s\" is not online yet (%s): %s",
					  s.name, node_state_name(s.state), s.reason[0] ? s.reason : "no reason given");
	answer = admin_failure(error, s.state == NODE_DROPPED ? NULL :
						   "It goes on in the background: see lockstepctl status.");
	free(error);
	return answer;
}

static void
command_attach(AdminRequest *r, const char *arg)
{
	int			node = named_node(r, arg);
	const char *why = "no reason given";
	char	   *error;

	if (node < 0)
		return;
	if (node_attach(node, &why))
	{
		admin_poll(r, poll_attach, node, 0);
		return;
	}
	error = xasprintf("could not attach node \"%s\": %s", arg, why);
	admin_failed(r, error, NULL);
	free(error);
}

/* Does a drain wait for that node? */
static bool
drain_counts(const NodeStatus *s, int scope)
{
	if (scope == DRAIN_ONLINE)
		return s->state == NODE_ONLINE;
	return !(s->state == NODE_DROPPED && s->administrative);
}

static json_t *
poll_drain(AdminRequest *r, bool expired)
{
	uint64_t	seq = admin_poll_seq(r);

	for (int i = 0; i < nodes_count(); i++)
	{
		NodeStatus	s = node_status(i);
		char	   *error;
		json_t	   *answer;

		if (!drain_counts(&s, admin_poll_node(r)) || (s.state == NODE_ONLINE && s.applied >= seq))
			continue;
		if (!expired)
			return NULL;
		error = xasprintf("node \"%s\" (%s%s%s) has applied %" PRIu64 " of %" PRIu64,
						  s.name, node_state_name(s.state), s.reason[0] ? ": " : "", s.reason,
						  s.applied, seq);
		answer = admin_failure(error, "A node that is to stay out is not waited for after lockstepctl drop.");
		free(error);
		return answer;
	}
	return json_pack("{s:b, s:o}", "ok", 1, "seq", json_seq(seq));
}

/* Of one node: until it is out. */
static json_t *
poll_node_drain(AdminRequest *r, bool expired)
{
	int			node = admin_poll_node(r);
	NodeStatus	s = node_status(node);
	const char *trouble = node_drain_trouble(node);
	char	   *error;
	json_t	   *answer;

	if (s.draining && !expired)
		return NULL;
	if (s.draining && s.writers_open < 0)
		error = xasprintf("node \"%s\" is still being drained: it has not answered yet", s.name);
	else if (s.draining && s.writers_open == 0)
		error = xasprintf("node \"%s\" is still being drained: sessions wait for other nodes or for the replicator", s.name);
	else if (s.draining)
		error = xasprintf("node \"%s\" is still being drained: %" PRId64 " transactions that write are open", s.name, s.writers_open);
	else if (s.administrative)
		return success();
	else
		error = xasprintf("node \"%s\" was not drained: %s", s.name, trouble[0] != '\0' ? trouble : "lockstepctl resume");
	answer = admin_failure(error, s.draining ? "It goes on in the background: see lockstepctl status. To end these transactions: "
						   "lockstepctl drop. To give up: lockstepctl resume." : NULL);
	free(error);
	return answer;
}

/* Until the node knows of a drain that is announced: else that is given up, as nobody has heard of it. */
static json_t *
poll_node_announce(AdminRequest *r, bool expired)
{
	int			node = admin_poll_node(r);
	NodeStatus	s = node_status(node);
	const char *trouble = node_drain_trouble(node);
	char	   *error;
	json_t	   *answer;

	if (s.draining && (s.drain_told || !s.drain_announced))
		return success();		/* or somebody drains it already */
	if (s.draining && !expired)
		return NULL;
	if (s.draining)
	{
		node_resume(node);
		error = xasprintf("node \"%s\" has not answered: the drain is given up", s.name);
	}
	else
		error = xasprintf("node \"%s\" was not drained: %s", s.name,
						  trouble[0] != '\0' ? trouble : s.reason[0] != '\0' ? s.reason : "lockstepctl resume");
	answer = admin_failure(error, NULL);
	free(error);
	return answer;
}

/* Is that the end of it?  Then it is cut off. */
static bool
take_last_word(char *text, const char *word)
{
	size_t		len = strlen(text);
	size_t		word_len = strlen(word);

	if (len <= word_len || strcmp(text + len - word_len, word) != 0)
		return false;
	text[len - word_len] = '\0';
	return true;
}

/* drain NODE [readers] [announce] */
static void
drain_node(AdminRequest *r, const char *arg)
{
	char	   *name = xstrdup(arg);
	bool		announce = take_last_word(name, " announce");
	bool		readers = take_last_word(name, " readers");
	int			node = named_node(r, name);
	const char *why;

	if (node >= 0 && node_drain(node, readers, announce, &why))
	{
		tell_command(r, "drain", arg);
		admin_poll(r, announce ? poll_node_announce : poll_node_drain, node, 0);
	}
	else if (node >= 0)
	{
		char	   *error = xasprintf("could not drain node \"%s\": %s", name, why);

		admin_failed(r, error, NULL);
		free(error);
	}
	free(name);
}

/* A node of the name "online" can't be drained. */
static void
command_drain(AdminRequest *r, const char *arg)
{
	if (arg[0] == '\0' || strcmp(arg, "online") == 0)
		admin_poll(r, poll_drain, arg[0] != '\0' ? DRAIN_ONLINE : DRAIN_MEMBERS, sequencer_last_decided());
	else
		drain_node(r, arg);
}

/* Until nothing is open that writes. */
static json_t *
poll_pause(AdminRequest *r, bool expired)
{
	int64_t		open = 0;
	bool		known = true;
	char	   *error;
	json_t	   *answer;

	for (int i = 0; i < nodes_count() && writers_paused_ms() < 0 && !expired; i++)
	{
		if (node_drain_trouble(i)[0] == '\0')
			continue;
		error = xasprintf("writes could not be paused on node \"%s\": %s", node_status(i).name, node_drain_trouble(i));
		answer = admin_failure(error, "After an upgrade, run ALTER EXTENSION lockstep UPDATE there.");
		free(error);
		return answer;
	}
	if (writers_paused_ms() < 0 && !expired)
		return admin_failure("the pause was ended", NULL);
	for (int i = 0; i < nodes_count(); i++)
	{
		NodeStatus	s = node_status(i);

		if (s.state != NODE_ONLINE)
			continue;
		known = known && s.writers_open >= 0;
		open += s.writers_open > 0 ? s.writers_open : 0;
	}
	if (known && open == 0 && !expired)
		return json_pack("{s:b, s:o}", "ok", 1, "paused_ms", json_integer(writers_paused_ms()));
	if (!expired)
		return NULL;
	if (open == 0)
		return admin_failure("the pause is over, and not all nodes have answered in time", "See lockstepctl status. A longer pause: --timeout.");
	error = xasprintf("the pause is over, and %" PRId64 " transactions that write are still open", open);
	answer = admin_failure(error, "lockstepctl sessions shows them. A longer pause: --timeout.");
	free(error);
	return answer;
}

static void
command_pause(AdminRequest *r, const char *arg)
{
	int			ms = admin_timeout_ms(r);

	if (ms <= 0 || ms > PAUSE_MAX_MS)
	{
		admin_failed(r, "a pause takes from 1 second to 1 hour", NULL);
		return;
	}
	writers_pause(ms);
	admin_poll(r, poll_pause, 0, 0);
}

static void
command_resume(AdminRequest *r, const char *arg)
{
	int			node;

	if (arg[0] == '\0')
	{
		if (writers_paused_ms() < 0)
		{
			admin_failed(r, "writes are not paused", "To bring a node back, name it: lockstepctl resume NODE.");
			return;
		}
		writers_resume();
		admin_answer(r, success());
		return;
	}
	node = named_node(r, arg);
	if (node < 0)
		return;
	if (node_resume(node))
		admin_poll(r, poll_attach, node, 0);
	else
		command_attach(r, arg);
}

/* ---------- databases */

static void
database_done(void *arg, const char *error)
{
	AdminRequest *r = arg;

	if (error != NULL)
		admin_failed(r, error, NULL);
	else
		admin_answer(r, success());
}

/* A node that is away does nothing any more of what was done in that database, also of what all databases share. */
static void
database_is_dropped(void *arg, const char *error)
{
	AdminRequest *r = arg;
	char	   *warning = NULL;

	for (int i = 0; i < nodes_count() && warning == NULL; i++)
	{
		NodeStatus	s = node_status(i);

		if (s.state != NODE_ONLINE && !admin_config()->nodes[i].retired)
			warning = xasprintf("node \"%s\" is not online, and will lack what was changed in this database since it was, also roles and their rights: compare them with lockstepctl verify when it is back",
								s.name);
	}
	if (error != NULL)
		admin_failed(r, error, NULL);
	else
		admin_answer(r, success_but(warning));
	free(warning);
}

static bool
check_database_name(AdminRequest *r, const char *arg)
{
	if (arg[0] != '\0' && strlen(arg) <= LS_MAX_NAME)
		return true;
	admin_failed(r, "a database name has 1 to 63 bytes", NULL);
	return false;
}

static void
command_database_add(AdminRequest *r, const char *arg)
{
	if (check_database_name(r, arg))
		nodes_database_add(arg, database_done, r);
}

static void
command_database_drop(AdminRequest *r, const char *arg)
{
	if (check_database_name(r, arg))
		nodes_database_drop(arg, database_is_dropped, r);
}

/* ---------- the replicator itself */

static void
command_reload(AdminRequest *r, const char *arg)
{
	char	   *warning;
	char	   *error = admin_main()->reload(&warning);

	if (error != NULL)
		admin_failed(r, error, "The old settings stay.");
	else
		admin_answer(r, success_but(warning));
	free(error);
	free(warning);
}

/* The file is the operator's: what it says now decides. */
static void
command_remove(AdminRequest *r, const char *arg)
{
	int			node = named_node(r, arg);
	char	   *error;
	char	   *warning;

	if (node < 0)
		return;
	error = admin_main()->reload(&warning);
	if (error != NULL)
		admin_failed(r, error, "The old settings stay.");
	else if (!admin_config()->nodes[node].retired)
	{
		error = xasprintf("replicator.conf still has the line node.%s", arg);
		admin_failed(r, error, "Take it out first; then this retires the node without a restart.");
	}
	else
		admin_answer(r, success_but(warning));
	free(error);
	free(warning);
}

static void
command_stop(AdminRequest *r, const char *arg)
{
	admin_answer(r, success());
	admin_main()->stop();
}

/* ---------- a group of replicators */

static void
command_replicators(AdminRequest *r, const char *arg)
{
	if (admin_config()->nreplicators == 0)
		admin_failed(r, "this is the only replicator", "See docs/replicators.md for a group of several.");
	else
	{
		json_t	   *answer = group_view_json();

		json_object_set_new(answer, "ok", json_true());
		admin_answer(r, answer);
	}
}

#define ANY_REPLICATOR (-1)

/* To that replicator, as soon as it is in sync; etcd has been asked whether anybody else can lead now. */
static json_t *
poll_switchover(AdminRequest *r, bool expired)
{
	const int	i = admin_poll_node(r);
	const EtcdState etcd = group_etcd_state();
	char	   *error;
	json_t	   *answer;

	if (etcd == ETCD_ANSWERS && (i == ANY_REPLICATOR || group_is_ready_to_lead(i)))
	{
		json_t	   *group = group_view_json();

		answer = json_pack("{s:b, s:O, s:O}", "ok", 1, "leader", json_object_get(group, "leader"), "epoch", json_object_get(group, "epoch"));
		json_decref(group);
		admin_main()->switchover();
		return answer;
	}
	if (!expired && etcd != ETCD_SILENT)
		return NULL;
	group_stop_preferring(i);
	if (etcd != ETCD_ANSWERS)
		return admin_failure("etcd does not answer, so no other replicator could lead", "This one goes on. If others reach etcd, lockstepctl stop has one of them lead.");
	error = xasprintf("replicator \"%s\" is not in sync", admin_config()->replicators[i].name);
	answer = admin_failure(error, "It has to be connected, to have everything, and to have room on its disk. See lockstepctl replicators.");
	free(error);
	return answer;
}

static void
cancel_switchover(AdminRequest *r)
{
	group_stop_preferring(admin_poll_node(r));
}

static void
switch_over_to(AdminRequest *r, const char *name)
{
	int			i = config_replicator(admin_config(), name);

	if (i < 0)
		admin_failed(r, "there is no replicator of that name", "See lockstepctl replicators.");
	else if (strcmp(name, admin_config()->replicator_name) == 0)
		admin_failed(r, "this replicator leads already", NULL);
	else if (!group_prefer(i))
		admin_failed(r, "a switchover to it is under way", NULL);
	else
	{
		group_ask_etcd();
		admin_poll(r, poll_switchover, i, 0);
		admin_on_cancel(r, cancel_switchover);
	}
}

static void
command_switchover(AdminRequest *r, const char *arg)
{
	if (arg[0] != '\0' && group_is_leader())
		switch_over_to(r, arg);
	else if (!group_can_hand_over())
		admin_failed(r, "no other replicator is in sync", "See lockstepctl replicators.");
	else
	{
		group_ask_etcd();
		admin_poll(r, poll_switchover, ANY_REPLICATOR, 0);
	}
}

static void
refuse_on_standby(AdminRequest *r)
{
	json_t	   *group = group_view_json();
	char	   *hint = xasprintf("Replicator \"%s\" leads.", json_text_of(group, "leader"));

	admin_failed(r, "this replicator is a standby", hint);
	free(hint);
	json_decref(group);
}

/* ---------- how far lockstepctl is */

static void
command_progress(AdminRequest *r, const char *arg)
{
	admin_tells(r, arg);
}

/* ---------- dispatch */

typedef struct Command
{
	const char *name;
	bool		changes;		/* is logged */
	bool		argument;		/* must have one */
	bool		anywhere;		/* also on a standby */
	void		(*run) (AdminRequest *r, const char *arg);
} Command;

static const Command commands[] = {
	{"status", false, false, false, command_status},
	{"sessions", false, false, false, command_sessions},
	{"conflicts", false, false, false, command_conflicts},
	{"waits", false, false, false, command_waits},
	{"config", false, false, true, command_config},
	{"drop", true, true, false, command_drop},
	{"attach", true, true, false, command_attach},
	{"drain", false, false, false, command_drain},
	{"resume", true, false, false, command_resume},
	{"pause", true, false, false, command_pause},
	{"database add", true, true, false, command_database_add},
	{"database drop", true, true, false, command_database_drop},
	{"remove", true, true, false, command_remove},
	{"reload", true, false, true, command_reload},
	{"stop", true, false, true, command_stop},
	{"replicators", false, false, true, command_replicators},
	{"progress", false, true, false, command_progress},
	{"switchover", true, false, false, command_switchover},
};

/* Takes "timeout=MS " off the line; NULL if it is not a number. */
static char *
take_timeout(AdminRequest *r, char *line)
{
	static const char prefix[] = "timeout=";
	char	   *end;
	long		ms;

	if (strncmp(line, prefix, strlen(prefix)) != 0)
		return line;
	line += strlen(prefix);
	ms = strtol(line, &end, 10);
	if (end == line || *end != ' ' || ms < 0 || ms > INT32_MAX)
		return NULL;
	admin_set_timeout(r, (int) ms);
	return end + 1;
}

void
admin_command(AdminRequest *r, char *line)
{
	char	   *command = take_timeout(r, line);

	if (command == NULL)
	{
		admin_failed(r, "invalid timeout", NULL);
		return;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
	{
		const Command *c = &commands[i];
		size_t		n = strlen(c->name);

		if (strncmp(command, c->name, n) != 0 || (command[n] != '\0' && command[n] != ' '))
			continue;
		command += n + (command[n] == ' ');
		if (c->argument && command[0] == '\0')
			break;
		if (!c->anywhere && admin_config()->nreplicators > 0 && !group_is_leader())
		{
			refuse_on_standby(r);
			return;
		}
		if (c->changes)
			tell_command(r, c->name, command);
		c->run(r, command);
		return;
	}
	admin_failed(r, "unrecognized command, or its argument is missing", NULL);
}
