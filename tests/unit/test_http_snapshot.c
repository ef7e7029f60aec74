/*
 * test_http_snapshot.c
 *	  Proves that the HTTP thread gets fresh facts from a loop that runs; that it waits for one that
 *	  doesn't for a second, once, and not again before the loop has answered; that a change of a node
 *	  reaches it without being asked for; and that what users have stored is left out.  The
 *	  nodes are fakes; run it under the thread sanitizer, too (make unit-tsan).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "unit.h"

#include "http_snapshot.h"
#include "loop.h"
#include "membership.h"
#include "sequencer.h"
#include "status.h"
#include "waits_rows.h"

/* ---------- fakes; they belong to the loop's thread */

static NodeStatus fake = {.name = "n1",.state = NODE_ONLINE,.reason = "",.applied = 3};
static void (*moved) (void *);
static int	statuses;			/* that were made */
static const char *failing;

const FactsColumn wait_columns[WAIT_COLUMNS];
const FactsColumn conflict_count_columns[CONFLICT_COUNT_COLUMNS];

bool
waits_row(size_t i, const char **cells)
{
	return false;
}

bool
conflict_count_row(size_t i, const char **cells)
{
	return false;
}

void
waits_refresh(void (*done) (void *arg), void *arg)
{
	done(arg);
}

int
nodes_count(void)
{
	return 1;
}

NodeStatus
node_status(int node)
{
	return fake;
}

const char *
node_state_name(NodeState s)
{
	return s == NODE_ONLINE ? "online" : "dropped";
}

uint64_t
sequencer_last_durable(void)
{
	return 5;
}

SequencerStats
sequencer_stats(void)
{
	return (SequencerStats) {.journal_failing = failing};
}

void
membership_tell_moves(void (*callback) (void *), void *arg)
{
	moved = callback;
}

json_t *
status_facts(bool data)
{
	statuses++;
	return json_pack("{s:b}", "data", data);
}

json_t *
status_rows(const FactsColumn *columns, int ncolumns, bool (*row) (size_t i, const char **cells))
{
	return columns == wait_columns ? json_pack("[{s:s, s:s}]", "object", "(7)", "node", "n1") : json_array();
}

/* ---------- the loop runs while another thread does something */

typedef struct Run
{
	void		(*todo) (void);
	atomic_bool done;
} Run;

static void *
run_thread(void *arg)
{
	Run		   *run = arg;

	run->todo();
	run->done = true;
	return NULL;
}

static void
look(void *arg)
{
	Run		   *run = arg;

	if (run->done)
		loop_stop();
	else
		loop_after(5, look, run);
}

/* with_loop: else the loop stands still meanwhile. */
static void
as_http_thread(void (*todo) (void), bool with_loop)
{
	Run			run = {.todo = todo};
	pthread_t	thread;

	assert_int_equal(pthread_create(&thread, NULL, run_thread, &run), 0);
	if (with_loop)
	{
		loop_after(0, look, &run);
		loop_run();
	}
	pthread_join(thread, NULL);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* What the HTTP thread found. */
static struct
{
	bool		answered;
	double		seconds;
	Health		health;
	bool		status;
	bool		data;
	bool		has_object;
	uint64_t	made_us;
}			found;

static void
ask_health(void)
{
	double		begun = now();
	const Health *h = snapshot_health();

	found.answered = h != NULL;
	found.seconds = now() - begun;
	if (h != NULL)
		found.health = *h;
}

static void
ask_status(void)
{
	Snapshot   *s = snapshot_status();

	found.status = s != NULL;
	if (s == NULL)
		return;
	found.made_us = s->made_us;
	found.data = json_is_true(json_object_get(s->status, "data"));
	found.has_object = json_object_get(json_array_get(json_object_get(s->status, "waits"), 0), "object") != NULL;
}

/* A machine that is busy may take a second for what takes a millisecond: more than one attempt. */
static void
told_health(void)
{
	int			attempts = 0;

	do
	{
		moved(NULL);
		as_http_thread(ask_health, false);
	} while (!found.answered && ++attempts < 10);
	assert_true(found.answered);
}

static void
asked(void (*todo) (void), const bool *answered)
{
	for (int attempts = 0; attempts < 10; attempts++)
	{
		as_http_thread(todo, true);
		if (*answered)
			return;
	}
	fail();
}

/* ---------- tests */

static void
loop_that_stands_still(void **state)
{
	as_http_thread(ask_health, false);
	assert_false(found.answered);
	assert_true(found.seconds > 0.9);
	as_http_thread(ask_health, false);
	assert_false(found.answered);
	assert_true(found.seconds < 0.9);
}

static void
loop_that_runs(void **state)
{
	asked(ask_health, &found.answered);
	assert_int_equal(found.health.nnodes, 1);
	assert_string_equal(found.health.nodes[0].name, "n1");
	assert_true(found.health.nodes[0].writes && found.health.nodes[0].reads);
	assert_int_equal(found.health.nodes[0].lag, 2);
}

static void
change_is_told(void **state)
{
	fake.state = NODE_DROPPED;
	fake.cause = DROP_COMMAND;
	told_health();
	assert_false(found.health.nodes[0].writes || found.health.nodes[0].reads);
	assert_string_equal(found.health.nodes[0].state, "dropped: command");
	fake.state = NODE_ONLINE;
	fake.cause = DROP_NONE;
	fake.draining = true;
	told_health();
	assert_false(found.health.nodes[0].writes);
	assert_true(found.health.nodes[0].reads && found.health.nodes[0].draining);
	fake.draining = false;
	failing = "No space left";
	told_health();
	assert_false(found.health.nodes[0].writes);
	assert_non_null(strstr(found.health.trouble, "No space left"));
	failing = NULL;
}

static void
status_once_a_second(void **state)
{
	uint64_t	made_us;
	int			made;
	double		begun;

	do
	{
		asked(ask_status, &found.status);
		begun = (double) found.made_us / 1e6;
		assert_false(found.data);
		assert_false(found.has_object);
		made_us = found.made_us;
		made = statuses;
		as_http_thread(ask_status, true);
	} while (now() - begun > 0.9);
	assert_true(found.status);
	assert_int_equal(found.made_us, made_us);
	assert_int_equal(statuses, made);
}

static void
with_data(void **state)
{
	snapshots_wake();
	snapshots_end();
	assert_null(moved);
	assert_null(snapshots_begin(true));
	asked(ask_status, &found.status);
	assert_true(found.data && found.has_object);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(loop_that_stands_still),
		cmocka_unit_test(loop_that_runs),
		cmocka_unit_test(change_is_told),
		cmocka_unit_test(status_once_a_second),
		cmocka_unit_test(with_data),
	};
	int			failed;

	loop_init();
	if (snapshots_begin(false) != NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snapshots_end();
	return failed;
}
