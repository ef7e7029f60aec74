/*
 * ctl_findings.c
 *	  What lockstepctl verify has found so far: differences, numbers of what was compared,
 *	  and why something could not be compared.  Several threads add to it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"

bool
verify_fail(Verify *v, const char *fmt,...)
{
	char		text[2048];
	va_list		args;
	size_t		len;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (len = strlen(text); len > 0 && text[len - 1] == '\n'; len--)
		text[len - 1] = '\0';
	pthread_mutex_lock(&v->lock);
	if (v->error == NULL)
		v->error = xstrdup(text);
	pthread_mutex_unlock(&v->lock);
	return false;
}

/* It can be done in another way; what was said is to be freed. */
char *
verify_take_error(Verify *v)
{
	char	   *error;

	pthread_mutex_lock(&v->lock);
	error = v->error;
	v->error = NULL;
	pthread_mutex_unlock(&v->lock);
	return error;
}

bool
verify_failed(Verify *v)
{
	bool		failed;

	pthread_mutex_lock(&v->lock);
	failed = v->error != NULL;
	pthread_mutex_unlock(&v->lock);
	return failed;
}

json_t *
verify_difference(const char *database, const char *kind, const char *object, json_t *nodes)
{
	json_t	   *difference = json_object();

	if (database != NULL)
		json_object_set_new(difference, "database", json_from_text(database));
	json_object_set_new(difference, "kind", json_string(kind));
	json_object_set_new(difference, "object", json_from_text(object));
	json_object_set_new(difference, "nodes", nodes);
	return difference;
}

void
verify_add(Verify *v, json_t *difference)
{
	pthread_mutex_lock(&v->lock);
	json_array_append_new(v->differences, difference);
	pthread_mutex_unlock(&v->lock);
}

/* Under the lock: what was compared of a database, by kind. */
static json_t *
facts_of(Verify *v, const char *database)
{
	json_t	   *facts = json_object_get(v->facts, database);

	if (facts == NULL)
	{
		facts = json_object();
		json_object_set_new(v->facts, database, facts);
	}
	return facts;
}

void
verify_count(Verify *v, const char *database, const char *what, long long n)
{
	json_t	   *facts;

	pthread_mutex_lock(&v->lock);
	facts = facts_of(v, database);
	json_object_set_new(facts, what, json_integer(json_integer_value(json_object_get(facts, what)) + n));
	pthread_mutex_unlock(&v->lock);
}

void
verify_counted(Verify *v, const char *database, const char *what, long long n)
{
	pthread_mutex_lock(&v->lock);
	json_object_set_new(facts_of(v, database), what, json_integer(n));
	pthread_mutex_unlock(&v->lock);
}

int
verify_start_lanes(const Verify *v, pthread_t *threads, int n, void *(*lane) (void *), void *arg)
{
	int			started = 0;

	while (started < v->options->jobs && started < n && pthread_create(&threads[started], NULL, lane, arg) == 0)
		started++;
	if (started == 0 && n > 0)
		(void) lane(arg);
	return started;
}
