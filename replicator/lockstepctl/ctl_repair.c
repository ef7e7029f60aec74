/*
 * ctl_repair.c
 *	  lockstepctl verify --repair NODE: make a node equal to the others in what
 *	  differs, while they are written to.
 *
 *	 1. Snapshots of all nodes at a seq H, as for comparing.  The commits of NODE
 *		alone remain held at H.
 *	 2. NODE is dropped: nothing is executed there any more, and it refuses
 *		writes.  The other nodes continue.
 *	 3. In one transaction on NODE, in the session that holds it: rows, sequences
 *		and large objects become what the others have at H (ctl_repair_rows.c).
 *		Local transactions that block it yield.  The checksums have to be equal.
 *	 4. It commits, which the server allows only if NODE is still at H, and releases
 *		the hold; NODE is attached and catches up from H by the journal.
 *
 * So a repair overwrites no later change, is complete or has no effect, and is in no journal.
 * If lockstepctl ends in between, its transaction is rolled back and NODE stays out until
 * "lockstepctl attach".
 *
 * Each database is repaired in a round of its own.  The other nodes are right if they agree;
 * otherwise --source names the node that is right.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_repair.h"
#include "json_text.h"

#define ATTACH_TIMEOUT_S 3600

/* ---------- who is right */

static int
node_index(const Verify *v, const char *name)
{
	for (int i = 0; i < v->nnodes; i++)
	{
		if (strcmp(v->names[i], name) == 0)
			return i;
	}
	return -1;
}

bool
repair_parts(Verify *v, int *target, int *source)
{
	const VerifyOptions *o = v->options;

	*target = node_index(v, o->repair);
	if (*target < 0)
		return verify_fail(v, "node \"%s\" is not online: what cannot be compared cannot be repaired", o->repair);
	*source = o->source != NULL ? node_index(v, o->source) : *target == 0 ? 1 : 0;
	if (*source < 0 || *source == *target)
		return verify_fail(v, "--source has to name another node that is online");
	return true;
}

/* Do the other nodes agree about it? */
static bool
others_agree(const Repair *r, const json_t *difference)
{
	const Verify *v = r->v;
	const json_t *nodes = json_object_get(difference, "nodes");
	const json_t *its = json_object_get(nodes, v->names[r->source]);

	for (int i = 0; i < v->nnodes; i++)
	{
		if (i != r->target && !json_equal(json_object_get(nodes, v->names[i]), its))
			return false;
	}
	return true;
}

static bool
is_kind(const json_t *difference, const char *kind)
{
	return strcmp(json_string_value(json_object_get(difference, "kind")), kind) == 0;
}

static const char *
object_of(const json_t *difference)
{
	return json_string_value(json_object_get(difference, "object"));
}

/* May it be repaired with what the source has? */
bool
repair_may(Repair *r, const json_t *difference)
{
	Verify	   *v = r->v;
	const json_t *nodes = json_object_get(difference, "nodes");
	bool		rows = is_kind(difference, "rows");

	if (is_kind(difference, "index"))
	{
		if (json_object_get(nodes, v->names[r->target]) == NULL)
			return true;		/* on another node */
		return verify_fail(v, "index %s of node %s is damaged: run REINDEX INDEX %s there, and repair then",
						   object_of(difference), v->names[r->target], object_of(difference));
	}
	if (!rows && json_equal(json_object_get(nodes, v->names[r->target]), json_object_get(nodes, v->names[r->source])))
		return true;			/* between other nodes */
	if (!rows && !is_kind(difference, "sequence") && !is_kind(difference, "large object"))
		return verify_fail(v, "node %s cannot be repaired: %s %s differs, and that is more than rows. Clone it anew (lockstepctl "
						   "join), or mend that by hand there with lockstep.replicate = off, and repair then%s", v->names[r->target],
						   json_string_value(json_object_get(difference, "kind")), object_of(difference),
						   v->behind >= 0 ? ". What it lacks may be among the commands of lockstepctl journal" : "");
	if (v->options->source == NULL && !rows && !is_kind(difference, "sequence") && !others_agree(r, difference))
		return verify_fail(v, "the other nodes do not agree about %s %s: name the one that is right by --source",
						   json_string_value(json_object_get(difference, "kind")), object_of(difference));
	return true;
}

/* ---------- on the node */

static bool
repair_sequence(Repair *r, const char *name)
{
	PGconn	   *source = r->snapshots.leaders[r->leader].conns[r->source];
	char	   *sql = xasprintf("SELECT last_value, is_called FROM %s", name);
	PGresult   *its = PQexec(source, sql);
	const char *params[3] = {name};
	PGresult   *result = NULL;

	free(sql);
	if (PQresultStatus(its) != PGRES_TUPLES_OK)
		(void) verify_fail(r->v, "node %s: %s", r->v->names[r->source], PQerrorMessage(source));
	else
	{
		params[1] = PQgetvalue(its, 0, 0);
		params[2] = PQgetvalue(its, 0, 1);
		result = repair_do(r, "SELECT setval($1::regclass, $2::bigint, $3::boolean)", 3, params);
	}
	if (result != NULL)
		repair_note(r, "sequence", name, 1, 1);
	PQclear(result);
	PQclear(its);
	return result != NULL;
}

static bool
is_here(const Repair *r, const json_t *difference)
{
	const char *database = json_string_value(json_object_get(difference, "database"));

	return database != NULL && strcmp(database, r->database) == 0;
}

/* All that differs in this database, in the open transaction. */
bool
repair_all(Repair *r)
{
	bool		large_objects = false;
	size_t		i;
	json_t	   *difference;

	json_array_foreach((json_t *) r->differences, i, difference)
	{
		const char *name = object_of(difference);
		bool		ok = true;

		if (!is_here(r, difference))
			continue;
		if (is_kind(difference, "large object") || strcmp(name, LARGE_OBJECTS) == 0)
			large_objects = true;
		else if (is_kind(difference, "rows"))
			ok = repair_table(r, name);
		else if (is_kind(difference, "sequence"))
			ok = repair_sequence(r, name);
		if (!ok)
			return false;
	}
	return !large_objects || repair_large_objects(r);
}

static bool
repair_transaction(Repair *r)
{
	return repair_run(r, "SELECT lockstep.repair_start()") && repair_run(r, "BEGIN") && repair_all(r) &&
		repair_run(r, "COMMIT");
}

/* ---------- the node goes, and comes back */

/*
 * While the node is out: printed however lockstepctl ends, even if the replicator cannot be
 * reached any more.  NULL: it is not.
 */
static const char *volatile is_out;

void
repair_say_out(void)
{
	const char *text = is_out;

	if (text != NULL)
		(void) !write(STDERR_FILENO, text, strlen(text));
}

static void
on_signal(int signo)
{
	repair_say_out();
	_exit(VERIFY_NOT_DONE);
}

static void
say_when_it_ends(const char *text)
{
	static bool prepared;

	if (!prepared)
		atexit(repair_say_out);
	prepared = true;
	is_out = text;				/* whole at any time, and never freed: a
								 * signal may come */
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
}

void
repair_node_is_out(const char *name)
{
	say_when_it_ends(xasprintf("HINT:  Node %s may still be out: see \"lockstepctl status\", then \"lockstepctl attach %s\".\n", name, name));
}

void
repair_node_is_half_done(const char *name)
{
	say_when_it_ends(xasprintf("HINT:  Node %s stays out: some of its databases are repaired, others are not. Repair it again: "
							   "\"lockstepctl verify --repair %s\".\n", name, name));
}

void
repair_node_is_back(void)
{
	is_out = NULL;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
}

static bool
tell_replicator(Repair *r, const char *command, long timeout_s)
{
	char	   *request = xasprintf("timeout=%ld %s %s\n", timeout_s * 1000, command, r->v->names[r->target]);
	json_t	   *answer = r->ask(r->ask_arg, request, timeout_s + 10);
	bool		ok = json_is_true(json_object_get(answer, "ok"));

	if (!ok)
		(void) verify_fail(r->v, "the replicator: %s", json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
	free(request);
	return ok;
}

static bool
repair_database(Repair *r)
{
	Verify	   *v = r->v;
	size_t		done = json_array_size(r->done);
	bool		dropped = false;
	bool		ok;

	v->ndatabases = 1;
	v->databases[0] = r->database;
	ok = snapshots_open(&r->snapshots, v);
	r->snapshots.keep = r->target;
	r->helper = ok ? peer_connect(v, r->target, r->database) : NULL;
	ok = r->helper != NULL && snapshots_take(&r->snapshots);
	if (ok)
	{
		repair_node_is_out(v->names[r->target]);
		ok = dropped = tell_replicator(r, "drop", 0);
	}
	r->conn = r->snapshots.control.conns[r->target];
	ok = ok && repair_transaction(r);
	while (!ok && json_array_size(r->done) > done)
		json_array_remove(r->done, done);	/* was rolled back */
	if (r->helper != NULL)
		PQfinish(r->helper);
	r->helper = NULL;
	snapshots_close(&r->snapshots); /* rolls back, and releases the hold */
	if (dropped && !tell_replicator(r, "attach", ATTACH_TIMEOUT_S))
		return false;
	repair_node_is_back();
	return ok;
}

static bool
has_work(const Repair *r)
{
	size_t		i;
	json_t	   *difference;

	json_array_foreach((json_t *) r->differences, i, difference)
	{
		if (is_here(r, difference) && !is_kind(difference, "index"))
			return true;
	}
	return false;
}

/* Returns what was done; the reason for what was not is verify_fail()'s. */
json_t *
repair(Verify *v, const json_t *differences, AskReplicator ask, void *ask_arg)
{
	Repair		r = {.v = v,.differences = differences,.ask = ask,.ask_arg = ask_arg,.done = json_array()};
	int			n = v->ndatabases;
	const char *databases[VERIFY_MAX_DATABASES];
	size_t		i;
	json_t	   *difference;

	memcpy(databases, v->databases, sizeof(databases));
	if (!repair_parts(v, &r.target, &r.source))
		return r.done;
	json_array_foreach((json_t *) differences, i, difference)
	{
		if (!repair_may(&r, difference))
			return r.done;
	}
	for (int d = 0; d < n; d++)
	{
		r.database = databases[d];
		if (has_work(&r) && !repair_database(&r))
			break;
	}
	return r.done;
}
