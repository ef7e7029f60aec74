/*
 * group_key.c
 *	  What etcd says of a group of replicators: see group_key.h.  Pure.
 */
#include "group_key.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "json_text.h"

static bool
copy_text(char *to, size_t size, const char *from)
{
	return from[0] != '\0' && (size_t) snprintf(to, size, "%s", from) < size;
}

static bool
parse_object(const json_t *object, GroupKey *key)
{
	const json_t *names = json_object_get(object, "in_sync");
	const char *run = json_text_of(object, "run");
	char	   *end;

	key->epoch = (uint64_t) json_integer_value(json_object_get(object, "epoch"));
	key->run = strtoull(run, &end, 16);
	if (key->epoch == 0 || end == run || *end != '\0' ||
		!copy_text(key->cluster, sizeof(key->cluster), json_text_of(object, "cluster")) ||
		!copy_text(key->leader, sizeof(key->leader), json_text_of(object, "leader")) ||
		json_array_size(names) == 0 || json_array_size(names) > CONFIG_MAX_REPLICATORS)
		return false;
	for (size_t i = 0; i < json_array_size(names); i++)
	{
		const char *name = json_string_value(json_array_get(names, i));

		if (name == NULL || group_key_has(key, name) || !copy_text(key->in_sync[i], sizeof(key->in_sync[i]), name))
			return false;
		key->n++;
	}
	return group_key_has(key, key->leader);
}

bool
group_key_parse(const char *text, GroupKey *key)
{
	json_t	   *object = json_loads(text, 0, NULL);
	bool		ok;

	memset(key, 0, sizeof(GroupKey));
	ok = json_is_object(object) && parse_object(object, key);
	json_decref(object);
	return ok;
}

char *
group_key_text(const GroupKey *key)
{
	char		run[20];
	json_t	   *names = json_array();
	json_t	   *object;
	char	   *text;

	snprintf(run, sizeof(run), "%016" PRIx64, key->run);
	for (int i = 0; i < key->n; i++)
		json_array_append_new(names, json_string(key->in_sync[i]));
	object = json_pack("{s:s, s:I, s:s, s:s, s:o}", "cluster", key->cluster, "epoch", (json_int_t) key->epoch, "run", run,
					   "leader", key->leader, "in_sync", names);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (text == NULL)
		abort();
	return text;
}

static int
place_of(const GroupKey *key, const char *name)
{
	for (int i = 0; i < key->n; i++)
	{
		if (strcmp(key->in_sync[i], name) == 0)
			return i;
	}
	return -1;
}

bool
group_key_has(const GroupKey *key, const char *name)
{
	return place_of(key, name) >= 0;
}

bool
group_key_same(const GroupKey *a, const GroupKey *b)
{
	bool		same = a->epoch == b->epoch && a->run == b->run && a->n == b->n &&
	strcmp(a->cluster, b->cluster) == 0 && strcmp(a->leader, b->leader) == 0;

	for (int i = 0; i < a->n && same; i++)
		same = strcmp(a->in_sync[i], b->in_sync[i]) == 0;
	return same;
}

void
group_key_add(GroupKey *key, const char *name)
{
	if (place_of(key, name) < 0 && key->n < CONFIG_MAX_REPLICATORS)
		snprintf(key->in_sync[key->n++], CONFIG_NAME_SIZE, "%s", name);
}

void
group_key_remove(GroupKey *key, const char *name)
{
	int			i = place_of(key, name);

	if (i < 0)
		return;
	key->n--;
	memmove(key->in_sync[i], key->in_sync[i + 1], (size_t) (key->n - i) * CONFIG_NAME_SIZE);
}

GroupKey
group_key_taken_over(const GroupKey *key, const char *name, uint64_t run)
{
	GroupKey	next = *key;

	if (strcmp(key->leader, name) != 0)
		group_key_remove(&next, key->leader);
	snprintf(next.leader, sizeof(next.leader), "%s", name);
	next.epoch = key->epoch + 1;
	next.run = run;
	return next;
}
