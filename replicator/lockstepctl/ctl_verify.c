/*
 * ctl_verify.c
 *	  lockstepctl verify: are all nodes that are online equal?
 *
 * Snapshots of all nodes at one seq are taken (ctl_snapshot.c), then everything is compared by
 * them.  What could not be compared, because DDL came between the snapshot and the lock, is
 * compared again with the next ones, in at most ROUNDS rounds.
 *
 * The result is one JSON object, from which ctl_report.c makes the text.
 */
#include "ctl_verify.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "json_text.h"

#define ROUNDS 8

/* ---------- what there is to compare */

/* The nodes that are online, and the one that is to be repaired; returns the others. */
static json_t *
take_nodes(Verify *v, const Config *config, const json_t *status, bool *administrative)
{
	json_t	   *others = json_array();
	size_t		i;
	json_t	   *node;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		const char *name = json_string_value(json_object_get(node, "name"));
		const char *conninfo = config_conninfo(config, name);

		bool		online = strcmp(json_string_value(json_object_get(node, "state")), "online") == 0;
		const json_t *trouble = json_object_get(node, "trouble");
		bool		behind = v->options->repair != NULL && strcmp(name, v->options->repair) == 0 &&
		(!online || json_is_object(trouble));

		if (!online && !behind)
			json_array_append_new(others, json_pack("{s:s, s:O, s:O}", "name", name, "state", json_object_get(node, "state"),
													"reason", json_object_get(node, "reason")));
		else if (conninfo == NULL)
			(void) verify_fail(v, "the configuration file does not have node \"%s\": is it the replicator's?", name);
		else
		{
			if (behind)
			{
				v->behind = v->nnodes;
				v->behind_until = (uint64_t) json_integer_value(json_object_get(trouble, "seq"));
				*administrative = json_is_true(json_object_get(node, "administrative"));
			}
			v->names[v->nnodes] = name;
			v->conninfos[v->nnodes++] = conninfo;
		}
	}
	if (!json_is_true(json_object_get(status, "ok")))
	{
		const char *hint = json_string_value(json_object_get(status, "hint"));

		(void) verify_fail(v, "%s%s%s", json_string_value(json_object_get(status, "error")), hint != NULL ? ": " : "", hint != NULL ? hint : "");
	}
	else if (v->nnodes < 2)
		(void) verify_fail(v, "fewer than two nodes are online");
	return others;
}

static void
take_databases(Verify *v, const json_t *status)
{
	size_t		i;
	json_t	   *name;

	json_array_foreach(json_object_get(status, "databases"), i, name)
	{
		const char *database = json_string_value(name);

		if (v->options->database != NULL && strcmp(v->options->database, database) != 0)
			continue;
		if (v->ndatabases == VERIFY_MAX_DATABASES)
		{
			(void) verify_fail(v, "there are more than %d databases: name one by --database", VERIFY_MAX_DATABASES);
			return;
		}
		v->databases[v->ndatabases++] = database;
	}
	if (v->ndatabases == 0 && v->options->database != NULL)
		(void) verify_fail(v, "database \"%s\" is not replicated", v->options->database);
	else if (v->ndatabases == 0)
		(void) verify_fail(v, "no database is replicated");
}

/* ---------- rounds */

typedef struct Progress
{
	Snapshots	snapshots;
	Tables		tables[VERIFY_MAX_DATABASES];
	int			round;
	uint64_t	first_seq;
	double		held_ms;		/* the longest of all rounds */
	bool		settled;		/* definitions need not be looked at again */
	json_t	   *suspects;		/* what differed in the round before */
	char	   *why;			/* definitions could not be compared */
} Progress;

/* List the tables again: DDL may have changed their columns. */
static bool
list_again(Progress *p, Verify *v)
{
	for (int d = 0; d < v->ndatabases; d++)
	{
		Tables		old = p->tables[d];
		bool		ok = tables_list(&p->tables[d], &p->snapshots, d, p->round == 0 || v->behind >= 0 ? NULL : &old);

		tables_free(&old);
		if (!ok)
			return false;
	}
	return true;
}

/* The number of comparisons that are to be repeated. */
static int
pending(const Progress *p, const Verify *v)
{
	int			n = !p->settled;

	for (int d = 0; d < v->ndatabases; d++)
		n += tables_pending(&p->tables[d]);
	return n;
}

/* ---------- definitions: they differ if they do so twice, in the same way */

static bool
is_among(const json_t *all, const json_t *one)
{
	size_t		i;
	json_t	   *other;

	json_array_foreach((json_t *) all, i, other)
	{
		if (json_equal(other, (json_t *) one))
			return true;
	}
	return false;
}

/* found is taken over. */
static void
settle(Progress *p, Verify *v, json_t *found)
{
	size_t		i;
	json_t	   *one;
	size_t		confirmed = 0;

	json_array_foreach(found, i, one)
		confirmed += p->suspects != NULL && is_among(p->suspects, one);
	p->settled = confirmed == json_array_size(found);
	json_decref(p->suspects);
	p->suspects = found;
	json_array_foreach(found, i, one)
	{
		if (p->settled)
			verify_add(v, json_incref(one));
	}
}

static bool
compare_definitions(Progress *p, Verify *v)
{
	json_t	   *found = json_array();
	bool		ok = facts_compare_globals(&p->snapshots, found);

	free(p->why);
	p->why = NULL;
	for (int d = 0; d < v->ndatabases && ok; d++)
	{
		ProgressFacts f = {.phase = "definitions",.database = v->databases[d]};

		progress_say(&f, "database %s: definitions are compared", v->databases[d]);
		ok = facts_compare_large_objects(&p->snapshots, d, found);
		if (ok)
			schema_compare(&p->snapshots, d, found, &p->why);
	}
	if (ok && p->why == NULL)
		settle(p, v, found);
	else
		json_decref(found);
	return ok;
}

static bool
compare_round(Progress *p, Verify *v)
{
	if (!snapshots_take(&p->snapshots))
		return false;
	if (p->round == 0)
		p->first_seq = p->snapshots.seq;
	if (p->snapshots.held_ms > p->held_ms)
		p->held_ms = p->snapshots.held_ms;
	if (v->behind >= 0)
	{
		/* everything has to be compared by the snapshots that the repair uses */
		json_array_clear(v->differences);
		json_object_clear(v->facts);
		json_array_clear(v->not_checked);
		p->settled = false;
	}
	if (!list_again(p, v))
		return false;
	if (p->round == 0)
		p->settled = v->options->table != NULL;
	if (p->round == 0 && v->options->table != NULL && pending(p, v) == 0 && json_array_size(v->differences) == 0)
		return verify_fail(v, "no node has a table \"%s\"", v->options->table);
	for (int d = 0; d < v->ndatabases; d++)
	{
		if (!tables_compare(&p->tables[d], &p->snapshots))
			return false;
		if ((p->round == 0 || v->behind >= 0) && v->options->table == NULL && !sequences_compare(v, v->databases[d]))
			return false;
	}
	return p->settled || compare_definitions(p, v);
}

/* After the last round. */
static void
say_pending(const Progress *p, Verify *v)
{
	if (!p->settled)
		(void) verify_fail(v, "definitions were changed each time they were looked at%s%s", p->why != NULL ? ": " : "",
						   p->why != NULL ? p->why : "");
	for (int d = 0; d < v->ndatabases; d++)
	{
		for (int i = 0; i < p->tables[d].n; i++)
		{
			const Table *table = &p->tables[d].tables[i];

			if (table->pending)
				(void) verify_fail(v, "table %s was changed by DDL each time it was looked at%s%s", table->name,
								   table->why != NULL ? ": " : "", table->why != NULL ? table->why : "");
		}
	}
}

static void
compare(Progress *p, Verify *v)
{
	for (p->round = 0; p->round < ROUNDS; p->round++)
	{
		if (!compare_round(p, v) || pending(p, v) == 0)
			break;
	}
	if (!verify_failed(v))
		say_pending(p, v);
}

/* ---------- the result */

static json_t *
result_of(Verify *v, const Progress *p, json_t *others)
{
	bool		different = json_array_size(v->differences) > 0;
	json_t	   *names = json_array();
	json_t	   *result = json_object();

	for (int i = 0; i < v->nnodes; i++)
		json_array_append_new(names, json_string(v->names[i]));
	json_object_set_new(result, "equal", v->error != NULL && !different ? json_null() : json_boolean(!different));
	json_object_set_new(result, "nodes", names);
	json_object_set_new(result, "not_compared", others);
	json_object_set_new(result, "seq", json_integer((json_int_t) p->first_seq));
	json_object_set_new(result, "commits_held_ms", json_real((double) (long long) (p->held_ms * 10) / 10));
	json_object_set_new(result, "databases", v->facts);
	json_object_set_new(result, "indexes_not_checked", v->not_checked);
	json_object_set_new(result, "differences", v->differences);
	if (v->error != NULL)
		json_object_set_new(result, "error", json_from_text(v->error));
	return result;
}

static void
on_alarm(int signo)
{
	static const char message[] = "lockstepctl: verify was not done within --timeout\n";

	(void) !write(STDERR_FILENO, message, sizeof(message) - 1);
	repair_say_out();
	_exit(VERIFY_NOT_DONE);
}

static void
print_result(const VerifyOptions *options, const json_t *result)
{
	if (options->json)
	{
		json_dumpf(result, stdout, JSON_INDENT(2));
		printf("\n");
	}
	else
		verify_report(stdout, result);
	fflush(stdout);
}

/* Its exit code; *result: to be freed.  With --repair, what differs is repaired. */
static int
run(const VerifyOptions *options, const Config *config, const json_t *status, AskReplicator ask, void *ask_arg,
	json_t **result)
{
	Verify		v = {.options = options,.lock = PTHREAD_MUTEX_INITIALIZER,.behind = -1};
	Progress   *p = xcalloc(1, sizeof(Progress));
	json_t	   *others;
	json_t	   *done = NULL;
	json_t	   *stood = NULL;
	bool		administrative = false;
	int			target;
	int			source;
	int			code;

	v.differences = json_array();
	v.facts = json_object();
	v.not_checked = json_array();
	others = take_nodes(&v, config, status, &administrative);
	take_databases(&v, status);
	if (v.error == NULL && (options->repair == NULL || repair_parts(&v, &target, &source)) &&
		(!options->indexes || indexes_possible(&v)) && snapshots_open(&p->snapshots, &v) &&
		(v.behind < 0 || behind_begin(&v, &p->snapshots, administrative, ask, ask_arg)))
		compare(p, &v);
	if (v.behind >= 0)
		alarm(0);				/* the node must not stay out */
	if (v.behind >= 0 && v.error == NULL)
		done = behind_repair(&v, &p->snapshots, v.differences, &stood);
	snapshots_close(&p->snapshots);
	if (v.behind >= 0)
		behind_end(&v);
	if (options->indexes && v.error == NULL)
		indexes_check(&v);
	if (options->repair != NULL && v.behind < 0 && v.error == NULL && json_array_size(v.differences) > 0)
	{
		alarm(0);				/* the node must not stay out */
		progress_clear();
		done = repair(&v, v.differences, ask, ask_arg);
	}

	progress_clear();
	*result = result_of(&v, p, others);
	if (done != NULL)
		json_object_set_new(*result, "repaired", done);
	if (stood != NULL)
		json_object_set_new(*result, "stood", stood);
	code = v.error != NULL ? VERIFY_NOT_DONE : json_is_true(json_object_get(*result, "equal")) ? VERIFY_EQUAL :
		VERIFY_DIFFERENT;
	for (int d = 0; d < VERIFY_MAX_DATABASES; d++)
		tables_free(&p->tables[d]);
	json_decref(p->suspects);
	free(p->why);
	free(p);
	free(v.error);
	return code;
}

int
verify(const VerifyOptions *options, const Config *config, const json_t *status, AskReplicator ask, void *ask_arg)
{
	VerifyOptions again = *options;
	json_t	   *result;
	json_t	   *now;
	json_t	   *after;
	char	   *what;
	int			code;

	if (options->timeout_s > 0)
	{
		signal(SIGALRM, on_alarm);
		alarm((unsigned) options->timeout_s);
	}
	signal(SIGPIPE, SIG_IGN);
	what = options->repair != NULL ? xasprintf("verify --repair %s", options->repair) : xstrdup(options->indexes ? "verify --indexes" : "verify");
	progress_begin(options->socket, what);
	free(what);
	code = run(options, config, status, ask, ask_arg, &result);
	if ((code == VERIFY_DIFFERENT || json_object_get(result, "stood") != NULL) && code != VERIFY_NOT_DONE &&
		options->repair != NULL)
	{
		if (!options->json)
			print_result(options, result);
		again.repair = NULL;
		now = ask(ask_arg, "status\n", ANSWER_TIMEOUT_S);
		code = run(&again, config, now, ask, ask_arg, &after);
		if (options->json)
		{
			json_object_set(after, "repaired", json_object_get(result, "repaired"));
			json_object_set(after, "found", json_object_get(result, "differences"));
		}
		json_decref(result);
		result = after;
		json_decref(now);
	}
	progress_end();
	print_result(options, result);
	if (json_object_get(result, "error") != NULL)
		fprintf(stderr, "lockstepctl: %s\n", json_string_value(json_object_get(result, "error")));
	json_decref(result);
	return code;
}
