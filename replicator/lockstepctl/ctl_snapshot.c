/*
 * ctl_snapshot.c
 *	  Snapshots of all nodes at one seq, while they are written to.
 *
 *		nodes at 17, 18, 18		 hold where you are	   -> 18, 18, 19
 *								 hold at 19 (the highest), wait until applied
 *								 BEGIN, pg_export_snapshot() in every database
 *								 let go
 *
 * No transaction commits meanwhile: for a few round trips, and the time that the slowest node
 * needs for the seqs between.  A hold ends with its session, and by itself after HOLD_MS; if it
 * ended before the snapshots were taken, the release reports that, and everything is repeated.
 * Before the hold the nodes catch up with each other, so that a node that lags does not prolong
 * it.
 *
 * The transactions stay open: sessions that read import the snapshot for one table at a time, so
 * that their locks are short.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_verify.h"

#define HOLD_MS "1000"
#define HOLD_WAIT_MS "800"		/* for the slowest node */
#define CATCH_UP "60s"
#define TRIES 50
#define PAUSE_US 50000

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

bool
snapshots_open(Snapshots *s, Verify *v)
{
	memset(s, 0, sizeof(*s));
	s->v = v;
	s->keep = -1;
	if (!peers_open(&s->control, v, v->databases[0]))
		return false;
	for (int d = 0; d < v->ndatabases; d++)
	{
		if (!peers_open(&s->leaders[d], v, v->databases[d]))
			return false;
	}
	return true;
}

void
snapshots_close(Snapshots *s)
{
	for (int d = 0; d < VERIFY_MAX_DATABASES; d++)
		peers_close(&s->leaders[d]);
	peers_close(&s->control);
}

static uint64_t
highest(const Answer *answers, int n)
{
	uint64_t	seq = 0;

	for (int i = 0; i < n; i++)
	{
		uint64_t	its = strtoull(answer_value(&answers[i], 0), NULL, 10);

		if (its > seq)
			seq = its;
	}
	return seq;
}

/* Have all answered yes? */
static bool
all_true(Answer *answers, int n, int result)
{
	bool		yes = true;

	for (int i = 0; i < n; i++)
		yes &= strcmp(answer_value(&answers[i], result), "t") == 0;
	return yes;
}

/* The commits of a node that is to be repaired, and is behind, are held all the time. */
static void
send_all(Snapshots *s, const char *sql, const char *to_behind)
{
	for (int i = 0; i < s->v->nnodes; i++)
		peers_send(&s->control, i, i == s->v->behind ? to_behind : sql);
}

/* False, and reported: one has failed.  Else answers are to be freed. */
static bool
ask_all(Snapshots *s, const char *sql, const char *to_behind, Answer *answers)
{
	bool		ok = true;

	send_all(s, sql, to_behind);
	for (int i = 0; i < s->v->nnodes; i++)
	{
		peers_receive(&s->control, i, &answers[i]);
		if (answers[i].error != NULL)
			ok = verify_fail(s->v, "node %s: %s", s->v->names[i], answers[i].error);
	}
	if (!ok)
		answers_free(answers, s->v->nnodes);
	return ok;
}

/* Wait until nodes that lag have caught up with the others. */
static bool
catch_up(Snapshots *s)
{
	Answer		answers[CONFIG_MAX_NODES];
	int			n = s->v->nnodes;
	uint64_t	seq;
	char	   *sql;
	bool		ok;

	if (!ask_all(s, "SELECT lockstep.applied_seq()", "SELECT 0", answers))
		return false;
	seq = highest(answers, n);
	if (seq < s->v->behind_until)
		seq = s->v->behind_until;
	sql = xasprintf("SELECT lockstep.wait_for(%" PRIu64 ", '" CATCH_UP "')", seq);
	answers_free(answers, n);
	ok = ask_all(s, sql, "SELECT true", answers);
	free(sql);
	if (!ok)
		return false;
	for (int i = 0; i < n && ok; i++)
	{
		if (strcmp(answer_value(&answers[i], 0), "t") != 0)
			ok = verify_fail(s->v, "node %s is behind, and did not catch up within " CATCH_UP, s->v->names[i]);
	}
	answers_free(answers, n);
	return ok;
}

/* Do all hold?  An error with that SQLSTATE is temporary: try again. */
static bool
receive_holds(Snapshots *s, Answer *answers, const char *passes)
{
	bool		ok = true;

	for (int i = 0; i < s->v->nnodes; i++)
	{
		peers_receive(&s->control, i, &answers[i]);
		if (answers[i].error == NULL)
			continue;
		if (strcmp(answers[i].sqlstate, passes) != 0)
			(void) verify_fail(s->v, "node %s: %s", s->v->names[i], answers[i].error);
		ok = false;
	}
	return ok;
}

/* Hold each node where it is.  False: try again, or it has failed. */
static bool
hold_here(Snapshots *s, uint64_t *seq)
{
	Answer		answers[CONFIG_MAX_NODES];
	int			n = s->v->nnodes;
	bool		ok;

	send_all(s, "SELECT lockstep.hold_commits(NULL, '" HOLD_MS "ms')", "SELECT 0");
	ok = receive_holds(s, answers, "55006");	/* another session holds */
	*seq = highest(answers, n);
	answers_free(answers, n);
	return ok;
}

static bool
hold_at(Snapshots *s, uint64_t seq)
{
	Answer		answers[CONFIG_MAX_NODES];
	int			n = s->v->nnodes;
	bool		ok;
	char	   *sql = xasprintf("SELECT lockstep.hold_commits(%" PRIu64 ", '" HOLD_MS "ms'); "
								"SELECT lockstep.wait_for(%" PRIu64 ", '" HOLD_WAIT_MS "ms')", seq, seq);

	send_all(s, sql, "SELECT 0; SELECT true");
	free(sql);
	ok = receive_holds(s, answers, "55000");	/* the hold has ended by
												 * itself */
	ok = ok && all_true(answers, n, 1);
	answers_free(answers, n);
	return ok;
}

/* taken: else the one to be kept goes, too. */
static bool
let_go(Snapshots *s, bool taken)
{
	Answer		answers[CONFIG_MAX_NODES];
	char	   *stay = xasprintf("SELECT lockstep.hold_commits(%" PRIu64 ", NULL) = %" PRIu64, s->seq, s->seq);
	bool		ok = true;

	for (int i = 0; i < s->v->nnodes; i++)
		peers_send(&s->control, i, taken && i == s->keep ? stay : i == s->v->behind ? "SELECT true" : "SELECT lockstep.release_commits()");
	free(stay);
	for (int i = 0; i < s->v->nnodes; i++)
	{
		peers_receive(&s->control, i, &answers[i]);
		ok &= answers[i].error == NULL;
	}
	ok = ok && all_true(answers, s->v->nnodes, 0);
	answers_free(answers, s->v->nnodes);
	if (!ok && taken && s->keep >= 0)
		(void) let_go(s, false);
	return ok;
}

static bool
begin_all(Snapshots *s)
{
	int			n = s->v->nnodes;
	bool		ok = true;

	for (int d = 0; d < s->v->ndatabases; d++)
	{
		for (int i = 0; i < n; i++)
			peers_send(&s->leaders[d], i, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_export_snapshot()");
	}
	for (int d = 0; d < s->v->ndatabases; d++)
	{
		for (int i = 0; i < n; i++)
		{
			Answer		a;

			peers_receive(&s->leaders[d], i, &a);
			if (a.error != NULL)
				ok = verify_fail(s->v, "node %s: %s", s->v->names[i], a.error);
			snprintf(s->ids[d][i], sizeof(s->ids[d][i]), "%s", answer_value(&a, 0));
			answer_free(&a);
		}
	}
	return ok;
}

static void
end_all(Snapshots *s)
{
	for (int d = 0; d < s->v->ndatabases; d++)
	{
		for (int i = 0; i < s->v->nnodes; i++)
		{
			Answer		a;

			if (PQtransactionStatus(s->leaders[d].conns[i]) == PQTRANS_IDLE)
				continue;
			peers_send(&s->leaders[d], i, "ROLLBACK");
			peers_receive(&s->leaders[d], i, &a);
			if (a.error != NULL)
				(void) verify_fail(s->v, "node %s: %s", s->v->names[i], a.error);
			answer_free(&a);
		}
	}
}

bool
snapshots_take(Snapshots *s)
{
	end_all(s);
	for (int i = 0; i < TRIES && !verify_failed(s->v); i++)
	{
		double		start;
		bool		taken;

		if (!catch_up(s))
			return false;
		start = now_ms();
		taken = hold_here(s, &s->seq) && hold_at(s, s->seq) && begin_all(s);
		taken = let_go(s, taken) && taken;
		s->held_ms = now_ms() - start;
		if (taken && !verify_failed(s->v))
			return true;
		end_all(s);
		usleep(PAUSE_US);
	}
	return verify_fail(s->v, "the nodes did not stand still at one seq for a moment, in %d tries", TRIES);
}

char *
snapshot_begin(const Snapshots *s, int database, int node)
{
	return xasprintf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '%s';",
					 s->ids[database][node]);
}
