/*
 * ctl_behind.c
 *	  lockstepctl verify --repair NODE of a node that is not online, because it cannot apply
 *	  a decided transaction, or because the journal no longer has what it lacks.
 *
 * The node cannot be compared with the others at one seq, so its seq is a part of what is
 * repaired:
 *
 *	 1. NODE is dropped by command, so that the replicator sends it nothing, and its
 *		commits are held where it is (A).
 *	 2. Snapshots of the others at one seq (H), one of NODE at A; all is compared.
 *	 3. In one transaction on NODE: rows, sequences and large objects become what the
 *		others have at H, and its progress and its turn go from A to H
 *		(lockstep.repair_place).
 *	 4. NODE is attached: it catches up from H by the journal.
 *
 * It does not apply the transactions between A and H: their effects were copied.  If definitions
 * differ (DDL came between), nothing is changed.
 *
 * After a crash of any process the node is at A, unchanged, or at H.  Several databases cannot
 * commit at once: each but the last gets, with its content, a row of progress that states H with
 * a chain that no journal has.  As long as there is such a row the node cannot be attached, and
 * has to be repaired again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_repair.h"

#define ATTACH_TIMEOUT_S 3600
#define HOLD_TRIES 50

/* A database that is repaired when others are not. */
#define MARK_SLOT "-1"
#define MARK_CHAIN "1"

static struct
{
	AskReplicator ask;
	void	   *arg;
	bool		dropped;		/* by us: it was not out by command before */
	bool		marked;			/* a database is repaired, another is not */
	bool		done;
	uint64_t	at;				/* how far it has applied */
}			behind;

/* ---------- the replicator */

static bool
tell_replicator(Verify *v, const char *command, long timeout_s, bool must)
{
	char	   *request = xasprintf("timeout=%ld %s %s\n", timeout_s * 1000, command, v->names[v->behind]);
	json_t	   *answer = behind.ask(behind.arg, request, timeout_s + 10);
	bool		ok = json_is_true(json_object_get(answer, "ok"));

	if (!ok && must)
		(void) verify_fail(v, "the replicator: %s", json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
	free(request);
	return ok;
}

void
behind_end(Verify *v)
{
	if (behind.done)
	{
		repair_node_is_out(v->names[v->behind]);
		if (!tell_replicator(v, "attach", ATTACH_TIMEOUT_S, true))
			return;
	}
	else if (behind.marked)
		repair_say_out();
	else if (behind.dropped)
		(void) tell_replicator(v, "attach", 1, false);	/* as it was: tried
														 * again and again */
	repair_node_is_back();
}

/* ---------- holding it */

/* One query on the node; NULL: it failed, which was reported. */
static PGresult *
query_node(Verify *v, PGconn *conn, const char *sql, int nparams, const char *const *params)
{
	PGresult   *r = PQexecParams(conn, sql, nparams, NULL, params, NULL, NULL, 0);

	if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
		return r;
	(void) verify_fail(v, "node %s: %s", v->names[v->behind], PQerrorMessage(conn));
	PQclear(r);
	return NULL;
}

/* Is this the right server? */
static bool
check_identity(Verify *v, const Snapshots *s, int other)
{
	static const char sql[] = "SELECT node, cluster, to_regprocedure('lockstep.repair_place(bigint, bigint)') IS NOT NULL "
	"FROM lockstep.node_info()";
	bool		ok = true;

	for (int d = 0; ok && d < v->ndatabases; d++)
	{
		PGresult   *its = query_node(v, s->leaders[d].conns[v->behind], sql, 0, NULL);
		PGresult   *right = its != NULL ? PQexec(s->leaders[d].conns[other], sql) : NULL;

		if (right == NULL)
			ok = false;
		else if (PQresultStatus(right) != PGRES_TUPLES_OK || strcmp(PQgetvalue(its, 0, 0), v->names[v->behind]) != 0 ||
				 (PQgetvalue(its, 0, 1)[0] != '\0' && strcmp(PQgetvalue(its, 0, 1), PQgetvalue(right, 0, 1)) != 0))
			ok = verify_fail(v, "database \"%s\" of node %s belongs to another node or cluster", v->databases[d], v->names[v->behind]);
		else if (PQgetvalue(its, 0, 1)[0] == '\0')
			ok = verify_fail(v, "database \"%s\" of node %s has never been replicated: clone the node (lockstepctl join)",
							 v->databases[d], v->names[v->behind]);
		else if (strcmp(PQgetvalue(its, 0, 2), "t") != 0)
			ok = verify_fail(v, "the extension's objects in database \"%s\" of node %s are old: run ALTER EXTENSION lockstep "
							 "UPDATE there, with lockstep.replicate = off", v->databases[d], v->names[v->behind]);
		PQclear(its);
		PQclear(right);
	}
	return ok;
}

/*
 * The repair is done for the replicator that the node follows: if another takes its place
 * meanwhile, the node refuses the rest.
 */
static bool
follow_generation(Verify *v, const Snapshots *s)
{
	PGresult   *r = query_node(v, s->control.conns[v->behind], "SELECT lockstep.enter_generation(generation, run) "
							   "FROM lockstep.known_generation() WHERE generation <> 0", 0, NULL);
	bool		ok = r != NULL;

	PQclear(r);
	return ok;
}

/*
 * If its server was started since, and could not be attached, it does not know how far it has
 * applied.
 */
static bool
open_turn(Verify *v, const Snapshots *s)
{
	PGresult   *best = NULL;
	bool		ok;

	for (int d = 0; d < v->ndatabases; d++)
	{
		PGresult   *r = query_node(v, s->leaders[d].conns[v->behind], "SELECT seq, chain FROM lockstep.progress "
								   "WHERE slot <> " MARK_SLOT " ORDER BY seq DESC LIMIT 1", 0, NULL);

		if (r == NULL)
		{
			PQclear(best);
			return false;
		}
		if (PQntuples(r) > 0 && (best == NULL || atoll(PQgetvalue(r, 0, 0)) > atoll(PQgetvalue(best, 0, 0))))
		{
			PQclear(best);
			best = r;
		}
		else
			PQclear(r);
	}
	ok = best != NULL;
	if (!ok)
		(void) verify_fail(v, "node %s has never applied anything: clone it (lockstepctl join)", v->names[v->behind]);
	else
	{
		const char *params[2] = {PQgetvalue(best, 0, 0), PQgetisnull(best, 0, 1) ? "0" : PQgetvalue(best, 0, 1)};
		PGresult   *r = query_node(v, s->control.conns[v->behind], "SELECT seq FROM lockstep.turn_open($1, $2)", 2, params);

		ok = r != NULL;
		PQclear(r);
	}
	PQclear(best);
	return ok;
}

/* The transaction that has the next seq may be committing, or may release it. */
static bool
hold(Verify *v, PGconn *conn, uint64_t *at)
{
	for (int i = 0; i < HOLD_TRIES; i++)
	{
		PGresult   *r = query_node(v, conn, "SELECT lockstep.hold_commits(NULL, NULL)", 0, NULL);
		const char *params[1] = {r != NULL ? PQgetvalue(r, 0, 0) : ""};
		PGresult   *reached = r != NULL ? query_node(v, conn, "SELECT lockstep.wait_for($1, '1s')", 1, params) : NULL;
		bool		stands = reached != NULL && strcmp(PQgetvalue(reached, 0, 0), "t") == 0;
		bool		failed = reached == NULL;

		if (stands)
			*at = strtoull(params[0], NULL, 10);
		PQclear(r);
		PQclear(reached);
		if (stands || failed)
			return stands;
		PQclear(query_node(v, conn, "SELECT lockstep.release_commits()", 0, NULL));
	}
	return verify_fail(v, "node %s does not stand still", v->names[v->behind]);
}

bool
behind_begin(Verify *v, Snapshots *s, bool administrative, AskReplicator ask, void *ask_arg)
{
	memset(&behind, 0, sizeof(behind));
	behind.ask = ask;
	behind.arg = ask_arg;
	if (v->options->table != NULL || v->options->database != NULL)
		return verify_fail(v, "node %s is not online: it is repaired as a whole, without --table and --database", v->names[v->behind]);
	if (!check_identity(v, s, v->behind == 0 ? 1 : 0))
		return false;
	if (!administrative)
	{
		repair_node_is_out(v->names[v->behind]);
		behind.dropped = tell_replicator(v, "drop", 0, true);
		if (!behind.dropped)
			return false;
	}
	return follow_generation(v, s) && open_turn(v, s) && hold(v, s->control.conns[v->behind], &behind.at);
}

/* ---------- repairing it */

/* The chain of the journal at H; NULL: not known. */
static char *
chain_at(Repair *r)
{
	char	   *sql = xasprintf("SELECT chain FROM lockstep.progress WHERE seq = %" PRIu64 " AND chain IS NOT NULL", r->snapshots.seq);
	char	   *chain = NULL;

	for (int d = 0; chain == NULL && d < r->v->ndatabases; d++)
	{
		PGresult   *its = PQexec(r->snapshots.leaders[d].conns[r->source], sql);

		if (PQresultStatus(its) == PGRES_TUPLES_OK && PQntuples(its) > 0)
			chain = xstrdup(PQgetvalue(its, 0, 0));
		PQclear(its);
	}
	free(sql);
	return chain;
}

/* With the last database the node goes to H; the others state already that they are there. */
static bool
put_place(Repair *r, const char *chain, bool last)
{
	char		seq[24];
	const char *params[2] = {seq, chain};
	PGresult   *result;

	snprintf(seq, sizeof(seq), "%" PRIu64, r->snapshots.seq);
	if (!repair_run(r, "DELETE FROM lockstep.progress WHERE slot = " MARK_SLOT))
		return false;
	if (!last)
		result = repair_do(r, "INSERT INTO lockstep.progress (slot, seq, chain) VALUES (" MARK_SLOT ", $1, " MARK_CHAIN ")", 1, params);
	else if (r->snapshots.seq == behind.at)
		return true;
	else
		result = repair_do(r, "SELECT lockstep.repair_place($1, $2)", 2, params);
	PQclear(result);
	return result != NULL;
}

/*
 * The hold passes from session to session: each has it when it begins to repair, and when it
 * commits.  It is released at once, whatever happens to the transaction.
 */
static bool
let_go(Repair *r)
{
	bool		idle = PQtransactionStatus(r->conn) == PQTRANS_IDLE;

	/* on its own it would be a commit of that session, which needs the hold */
	return (!idle || repair_run(r, "BEGIN")) && repair_run(r, "SELECT lockstep.release_commits()") &&
		(!idle || repair_run(r, "ROLLBACK"));
}

/* The node must not have applied anything in between. */
static bool
take_hold(Repair *r)
{
	uint64_t	at = 0;

	return hold(r->v, r->conn, &at) && (at == behind.at || verify_fail(r->v, "node %s has gone on meanwhile: try again", r->v->names[r->target]));
}

/* Everything except the commit. */
static bool
begin_repair(Repair *r)
{
	return take_hold(r) && repair_run(r, "SELECT lockstep.repair_start()") && repair_run(r, "BEGIN") && repair_all(r) && let_go(r);
}

static bool
commit_repair(Repair *r, const char *chain, bool last)
{
	bool		ok = take_hold(r) && put_place(r, chain, last) && repair_run(r, "COMMIT");

	if (ok && !last)
	{
		behind.marked = true;
		repair_node_is_half_done(r->v->names[r->target]);
	}
	return ok && (last || let_go(r));
}

/* On the node, in the sessions that had its snapshots, but not in those that repair. */
static bool
run_everywhere(Repair *r, int from, const char *sql)
{
	bool		ok = true;

	for (int d = from; ok && d < r->v->ndatabases; d++)
	{
		PGresult   *result = query_node(r->v, r->snapshots.leaders[d].conns[r->target], sql, 0, NULL);

		ok = result != NULL;
		PQclear(result);
	}
	return ok;
}

static void
choose_database(Repair *r, int d, PGconn *const *conns)
{
	r->database = r->v->databases[d];
	r->leader = d;
	r->conn = conns[d];
	r->helper = r->snapshots.leaders[d].conns[r->target];
}

/* The first is the last to commit, in the session that held the node so far. */
static bool
repair_databases(Repair *r)
{
	Verify	   *v = r->v;
	PGconn	   *conns[VERIFY_MAX_DATABASES] = {r->snapshots.control.conns[r->target]};
	char	   *chain = chain_at(r);
	PGresult   *let = query_node(v, conns[0], "SELECT lockstep.release_commits()", 0, NULL);
	bool		ok = let != NULL;

	PQclear(let);
	ok = ok && run_everywhere(r, 0, "ROLLBACK");	/* these sessions are
													 * helpers from here on */
	for (int d = 0; ok && d < v->ndatabases; d++)
	{
		if (d > 0)
			conns[d] = peer_connect(v, r->target, v->databases[d]);
		choose_database(r, d, conns);
		ok = r->conn != NULL && begin_repair(r);
	}
	for (int d = v->ndatabases - 1; ok && d >= 0; d--)
	{
		choose_database(r, d, conns);
		ok = commit_repair(r, chain, d == 0);
	}
	ok = ok && run_everywhere(r, 1, "DELETE FROM lockstep.progress WHERE slot = " MARK_SLOT);
	for (int d = 1; d < v->ndatabases; d++)
		PQfinish(conns[d]);
	free(chain);
	return ok;
}

/* Its server may have run without lockstep: what it did then is repaired, too. */
static bool
clear_outside_run(Verify *v, PGconn *conn)
{
	PGresult   *r = query_node(v, conn, "SELECT to_regprocedure('lockstep.clear_outside_run()') IS NOT NULL", 0, NULL);
	bool		known = r != NULL && strcmp(PQgetvalue(r, 0, 0), "t") == 0;
	bool		ok = r != NULL;

	PQclear(r);
	if (known)
	{
		r = query_node(v, conn, "SELECT lockstep.clear_outside_run()", 0, NULL);
		ok = r != NULL;
		PQclear(r);
	}
	return ok;
}

json_t *
behind_repair(Verify *v, const Snapshots *s, const json_t *differences, json_t **stood)
{
	Repair		r = {.v = v,.snapshots = *s,.differences = differences,.done = json_array()};
	size_t		i;
	json_t	   *difference;

	if (!repair_parts(v, &r.target, &r.source))
		return r.done;
	if (s->seq < behind.at)
	{
		(void) verify_fail(v, "node %s has applied seq %" PRIu64 ", and the others only %" PRIu64, v->names[v->behind], behind.at, s->seq);
		return r.done;
	}
	json_array_foreach((json_t *) differences, i, difference)
	{
		if (!repair_may(&r, difference))
			return r.done;
	}
	behind.done = repair_databases(&r) && clear_outside_run(v, s->leaders[0].conns[v->behind]);
	if (behind.done)
		*stood = json_pack("{s:s, s:I, s:I}", "node", v->names[v->behind], "from", (json_int_t) behind.at,
						   "to", (json_int_t) s->seq);
	else
		json_array_clear(r.done);
	return r.done;
}
