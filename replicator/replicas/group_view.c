/*
 * group_view.c
 *	  What people are told of the group: see group_view.h.
 */
#include "group_view.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "copies.h"
#include "log.h"
#include "monotonic.h"
#include "standby.h"

static const Config *config;
static _Atomic(const char *) own_role = "standby";

static atomic_bool writers_wait;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* covers the three */
static GroupKey shown;
static char trouble[400];
static char *nodes;				/* NULL: nothing has been said */

void
group_view_begin(const Config *c)
{
	config = c;
}

void
group_view_role(const char *role)
{
	own_role = role;
}

void
group_view_key(const GroupKey *key)
{
	pthread_mutex_lock(&lock);
	shown = *key;
	pthread_mutex_unlock(&lock);
}

void
group_view_trouble(const char *text)
{
	bool		changed;

	pthread_mutex_lock(&lock);
	changed = strcmp(trouble, text != NULL ? text : "") != 0;
	snprintf(trouble, sizeof(trouble), "%s", text != NULL ? text : "");
	pthread_mutex_unlock(&lock);
	if (changed && text != NULL)
		log_message(LOG_WARNING, "group", "%s", text);
}

void
group_view_writers_wait(bool wait)
{
	writers_wait = wait;
}

void
group_view_nodes(const char *text)
{
	pthread_mutex_lock(&lock);
	free(nodes);
	nodes = xstrdup(text);
	pthread_mutex_unlock(&lock);
}

char *
group_view_last_nodes(int64_t *ms)
{
	const int64_t heard_ms = standby_view.heard_ms;
	char	   *text;

	*ms = monotonic_ms() - heard_ms;
	pthread_mutex_lock(&lock);
	text = nodes != NULL ? xstrdup(nodes) : NULL;
	pthread_mutex_unlock(&lock);
	return text;
}

bool
group_view_follows(char **why)
{
	const bool	follows = standby_view.connected;

	pthread_mutex_lock(&lock);
	if (follows)
		*why = xasprintf("a standby, \"%s\" leads", shown.leader);
	else if (strcmp(own_role, "standby") != 0)
		*why = xstrdup("this replicator is about to lead");
	else
		*why = xstrdup(trouble[0] != '\0' ? trouble : "a standby, which is not connected to a leader");
	pthread_mutex_unlock(&lock);
	return follows;
}

bool
group_view_has(const char *name)
{
	bool		has;

	pthread_mutex_lock(&lock);
	has = group_key_has(&shown, name);
	pthread_mutex_unlock(&lock);
	return has;
}

/* ---------- as JSON */

static void
set_number(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t) value));
}

static void
set_place(json_t *member, uint64_t segment, uint64_t offset)
{
	set_number(member, "segment", segment);
	set_number(member, "offset", offset);
}

/* This replicator itself: its state. */
static const char *
describe_self(json_t *member)
{
	const char *role = own_role;

	if (copies_active)
	{
		JournalPlace end = copies_published();

		set_place(member, end.segment, end.offset);
	}
	else if (strcmp(role, "standby") == 0)
	{
		json_object_set_new(member, "connected", json_boolean(standby_view.connected));
		set_place(member, standby_view.segment, standby_view.offset);
	}
	return role;
}

/* A standby of this leader: its state. */
static const char *
describe_copy(json_t *member, int i)
{
	CopyView	v;

	copies_look(i, &v);
	set_number(member, "silent_ms", (uint64_t) v.silent_ms);
	if (!v.connected)
		return "not connected";
	set_place(member, v.at.segment, v.at.offset);
	set_number(member, "lag_bytes", (uint64_t) v.lag_bytes);
	set_number(member, "free_bytes", v.room);
	return v.live ? "standby" : "copying";
}

static json_t *
member_json(int i, const GroupKey *k)
{
	const char *name = config->replicators[i].name;
	json_t	   *m = json_pack("{s:s, s:s, s:b}", "name", name, "address", config->replicators[i].address,
							  "in_sync", group_key_has(k, name));
	const char *state;

	if (strcmp(name, config->replicator_name) == 0)
		state = describe_self(m);
	else if (copies_active)
		state = describe_copy(m, i);
	else
		state = strcmp(k->leader, name) == 0 ? "leader" : "unknown";
	json_object_set_new(m, "state", json_string(state));
	return m;
}

json_t *
group_view_json(void)
{
	json_t	   *members = json_array();
	json_t	   *in_sync = json_array();
	GroupKey	k;
	char		said[sizeof(trouble)];

	pthread_mutex_lock(&lock);
	k = shown;
	memcpy(said, trouble, sizeof(said));
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < k.n; i++)
		json_array_append_new(in_sync, json_string(k.in_sync[i]));
	for (int i = 0; i < config->nreplicators; i++)
		json_array_append_new(members, member_json(i, &k));
	return json_pack("{s:s, s:s, s:b, s:s, s:I, s:i, s:i, s:o, s:o, s:b, s:s}",
					 "name", config->replicator_name,
					 "role", strcmp(own_role, "leader") == 0 ? "leader" : "standby",
					 "leads", strcmp(own_role, "leader") == 0,
					 "leader", k.leader,
					 "epoch", (json_int_t) k.epoch,
					 "copies", config->copies,
					 "min_copies", config->min_copies,
					 "in_sync", in_sync,
					 "members", members,
					 "writers_wait", (int) writers_wait,
					 "trouble", said);
}
