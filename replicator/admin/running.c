/*
 * running.c
 *	  What lockstepctl says that it does.
 *
 * What a line may say is in fields[]; others are ignored, so that a newer lockstepctl may say more.
 * The caller bounds the length of a line.
 */
#include "running.h"

#include <stdlib.h>

#include "buffer.h"
#include "loop.h"

#define MAX_RUNNING 16
#define MAX_RAN_MS (INT64_C(1000) * 86400 * 3650)

struct Running
{
	uid_t		user;
	pid_t		pid;
	uint64_t	told_us;
	int64_t		ran_ms;			/* when it was told */
	json_t	   *told;			/* NULL: nothing yet */
	Running    *next;
};

typedef struct Field
{
	const char *name;
	bool		number;
	bool		needed;
} Field;

static const Field fields[] = {
	{"command", false, true},
	{"text", false, true},		/* how far it is, for a person */
	{"phase", false, false},
	{"database", false, false},
	{"object", false, false},	/* what it looks at */
	{"done", true, false},		/* so many objects */
	{"all", true, false},		/* of so many */
	{"done_bytes", true, false},
	{"all_bytes", true, false}
};

#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

static Running *first;

Running *
running_begin(uid_t user, pid_t pid)
{
	Running   **p = &first;
	int			n = 0;

	for (; *p != NULL; p = &(*p)->next)
		n++;
	if (n >= MAX_RUNNING)
		return NULL;
	*p = xcalloc(1, sizeof(Running));
	(*p)->user = user;
	(*p)->pid = pid;
	return *p;
}

/* NULL: it is not as it should be. */
static json_t *
take_fields(const json_t *line)
{
	json_t	   *told = json_object();

	for (size_t i = 0; i < NFIELDS; i++)
	{
		const Field *f = &fields[i];
		json_t	   *value = json_object_get(line, f->name);
		bool		fits = f->number ? json_is_integer(value) && json_integer_value(value) >= 0 :
		json_is_string(value) && json_string_length(value) > 0;

		if (value == NULL && !f->needed)
			value = json_null();
		else if (!fits)
		{
			json_decref(told);
			return NULL;
		}
		json_object_set(told, f->name, value);
	}
	return told;
}

bool
running_say(Running *r, const char *line)
{
	json_t	   *all = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	json_t	   *ran = json_object_get(all, "ran_ms");
	json_t	   *told = NULL;

	if (json_is_object(all) && json_is_integer(ran) && json_integer_value(ran) >= 0 && json_integer_value(ran) <= MAX_RAN_MS)
		told = take_fields(all);
	if (told != NULL)
	{
		json_decref(r->told);
		r->told = told;
		r->told_us = loop_now_us();
		r->ran_ms = json_integer_value(ran);
	}
	json_decref(all);
	return told != NULL;
}

void
running_end(Running *r)
{
	Running   **p = &first;

	if (r == NULL)
		return;
	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	json_decref(r->told);
	free(r);
}

json_t *
running_json(void)
{
	json_t	   *list = json_array();

	for (const Running *r = first; r != NULL; r = r->next)
	{
		json_t	   *one;

		if (r->told == NULL)
			continue;
		one = json_copy(r->told);
		json_object_set_new(one, "for_ms", json_integer(r->ran_ms + (json_int_t) (loop_now_us() - r->told_us) / 1000));
		json_object_set_new(one, "pid", json_integer(r->pid));
		json_object_set_new(one, "uid", json_integer(r->user));
		json_array_append_new(list, one);
	}
	return list;
}
