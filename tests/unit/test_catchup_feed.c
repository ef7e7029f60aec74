/*
 * test_catchup_feed.c
 *	  Proves that a node in CATCHUP is fed further when everything in flight has been
 *	  committed by the node's own backends: its tasks are gone, none of them has run, and
 *	  nothing else happens that would pump the node.  With the real journal, sequencer
 *	  and tasks, and a pool without connections, in which no task starts.
 */
#include "unit.h"

#include <unistd.h>

#include "conflict_log.h"
#include "journal.h"
#include "log.h"
#include "loop.h"
#include "membership_private.h"
#include "samples.h"
#include "sequencer.h"

/* as in catchup.c: how many are in flight at most */
#define IN_FLIGHT 512
#define DECIDED (IN_FLIGHT + 100)

/* ---------- a journal of transactions that other nodes have committed */

static void
append(Journal *journal, uint64_t seq)
{
	LsKey		key = {.hash = seq,.seen = seq - 1,.mode = LS_ROW_EXCLUSIVE,.name = SLICE("public.t t_pkey")};
	uint8_t		keys[100];
	uint8_t		message[500];
	uint8_t		bytes[1000];
	LsQuery		query = {.xcount = seq,.form = LS_FORM_ROW,.reason = LS_REASON_ROW_CHANGED,
	.text = SLICE("DELETE FROM public.t WHERE a = $1"),.rows = 1,.nkeys = 1};
	JournalRecord r = {.type = RECORD_TRANSACTION,.seq = seq,.identity = {SLICE("n2"), 99, 4711, seq},
	.database = SLICE("db"),.wait = LS_WAIT_EXECUTED};
	LsSlice		record = {bytes, 0};

	query.keys = sample_pack_keys(keys, sizeof(keys), &key, 1);
	r.queries = (LsSlice) {message, ls_put_query(message, sizeof(message), &query)};
	record.len = journal_encode(bytes, sizeof(bytes), &r);
	assert_true(record.len <= sizeof(bytes));
	assert_int_equal(journal_append(journal, &record, 1, seq), JOURNAL_OK);
}

/* ---------- the loop */

static void
on_end(void *arg)
{
	loop_stop();
}

static void
run_deferred_work(void)
{
	loop_after(0, on_end, NULL);
	loop_run();
}

/* ---------- catching up */

static uint64_t
last_given(const Node *n)
{
	uint64_t	last = 0;

	for (const ApplyTask *task = n->tasks; task != NULL; task = task->node_next)
	{
		assert_int_equal(task->state, TASK_QUEUED);
		last = task->tx->seq > last ? task->tx->seq : last;
	}
	return last;
}

static void
all_in_flight_are_committed_by_backends(void **state)
{
	Node	   *n = node_get(0);
	Pool	   *p = calloc(1, sizeof(Pool));

	p->node = n;
	p->database = "db";
	n->pools = p;
	n->state = NODE_CATCHUP;
	assert_int_equal(sequencer_last_durable(), DECIDED);
	catchup_begin(n, n->applied);
	run_deferred_work();
	assert_int_equal(last_given(n), IN_FLIGHT);

	node_heard_applied(n->index, IN_FLIGHT);
	run_deferred_work();
	assert_int_equal(n->applied, IN_FLIGHT);
	assert_int_equal(last_given(n), DECIDED);

	node_heard_applied(n->index, DECIDED);
	run_deferred_work();
	assert_null(n->tasks);
	catchup_end(n);
	n->pools = NULL;
	free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_in_flight_are_committed_by_backends),
	};
	char		directory[] = "/tmp/lockstep-unit-catchup-XXXXXX";
	char		command[sizeof(directory) + 20];
	char		cluster[33];
	const char *error = NULL;
	Config		config;
	Journal    *journal;
	int			failed;

	log_open(NULL, LOG_ERROR);
	loop_init();
	memset(&config, 0, sizeof(config));
	config.max_apply_lag = 1024 * 1024;
	if (mkdtemp(directory) == NULL)
		abort();
	journal = journal_open(directory, true, 1024 * 1024, cluster, &error);
	if (journal == NULL)
		abort();
	for (uint64_t seq = 1; seq <= DECIDED; seq++)
		append(journal, seq);
	if (journal_sync(journal) != JOURNAL_OK)
		abort();
	config.nnodes = 2;
	snprintf(config.nodes[0].name, sizeof(config.nodes[0].name), "n1");
	snprintf(config.nodes[1].name, sizeof(config.nodes[1].name), "n2");
	conflict_log_init(&config);
	membership_init(&config, cluster, directory);
	sequencer_init(&config, journal, directory, &peer_ops, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	sequencer_stop();
	journal_close(journal);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) == 0 ? failed : 1;
}
