/*
 * test_sequencer.c
 *	  Proves what the sequencer makes of a transaction whose S lies below what
 *	  the certifier still knows (its floor): it loses with 40001, whatever its
 *	  keys, and takes nothing with it; one at the floor or above goes on, and
 *	  depends on all that was forgotten.  And that a step of an index made concurrently
 *	  yields to a transaction that waits for its table, and that a transaction is decided when
 *	  those that have to come first are over.  And that questions of a node that lags behind
 *	  are held, and get adjacent seqs.  With fake nodes, sessions and journal
 *	  thread; certifier, keys and transactions are the real ones.
 */
#include "unit.h"

#include <unistd.h>

#include "conflict_log.h"
#include "journal.h"
#include "journal_writer.h"
#include "lease.h"
#include "log.h"
#include "loop.h"
#include "node.h"
#include "samples.h"
#include "sequencer.h"

/* as in sequencer.c: how many seqs below what all have applied it remembers */
#define KEPT 20000
#define DECIDED (KEPT + 100)

/* ---------- the sequencer's neighbours */

static JournalDurable durable;
static LsOutcome last_outcome;
static char last_sqlstate[6];
static char last_detail[300];
static int	verdicts;
static uint64_t oldest_seen = UINT64_MAX;

void
writer_start(Journal *journal, const char *dir, JournalDurable callback, struct LeaseTable *positions,
			 const Buffer *head, uint64_t chain)
{
	durable = callback;
	lease_table_free(positions);
}

JournalItem *
writer_item(const JournalRecord *record)
{
	/* the chain is read from the record's head */
	return calloc(1, sizeof(JournalItem) + 64);
}

JournalItem *
writer_barrier(void)
{
	return calloc(1, sizeof(JournalItem));
}

void
writer_item_free(JournalItem *item)
{
	buffer_free(&item->head);
	free(item);
}

void
writer_push(JournalItem *item)
{
	durable(item);
}

const char *
writer_failing(void)
{
	return NULL;
}

uint64_t
writer_syncs(void)
{
	return 0;
}

void
writer_trim(uint64_t applied, int64_t keep_bytes)
{
}

void
writer_stop(void)
{
}

static bool peers_are_slow;

static void
execute(Transaction *tx)
{
	if (!peers_are_slow)
		sequencer_executed(tx);
}

static void
nothing(Transaction *tx)
{
}

static const PeerOps fake_peers = {
	.execute = execute,
	.commit = sequencer_applied,
	.roll_back = nothing,
	.apply_at_origin = nothing
};

static void
verdict(Transaction *tx, const LsVerdict *v)
{
	verdicts++;
	last_outcome = v->outcome;
	snprintf(last_sqlstate, sizeof(last_sqlstate), "%.5s", (const char *) v->error.sqlstate.data);
	snprintf(last_detail, sizeof(last_detail), "%.*s", (int) v->error.detail.len,
			 v->error.detail.data != NULL ? (const char *) v->error.detail.data : "");
}

static int	granted;

static void
note_granted(Transaction *tx, uint64_t seq)
{
	granted++;
}

static Transaction *
no_transaction(int node, uint32_t pid)
{
	return NULL;
}

static uint64_t
fake_oldest_seen(void)
{
	return oldest_seen;
}

static const SessionOps fake_sessions = {
	.verdict = verdict,
	.granted = note_granted,
	.applied = nothing,
	.transaction = no_transaction,
	.oldest_seen = fake_oldest_seen
};

static void
no_pump(Node *n)
{
}

static const MembershipOps fake_membership = {.pump = no_pump};

/* ---------- asking */

static uint64_t xcount;

static Transaction *
begin(uint32_t origin)
{
	LsIdentity	id = {SLICE("n1"), 99, 4711, ++xcount};

	return tx_create(&id, SLICE("db"), origin);
}

/* A transaction of one row, which has not asked yet. */
static Transaction *
begin_row(uint32_t origin, uint64_t hash, uint64_t seen, LsKeyMode mode)
{
	Transaction *tx = begin(origin);
	LsKey		key = {.hash = hash,.seen = seen,.mode = mode,.name = SLICE("public.t t_pkey")};
	uint8_t		packed[100];
	uint8_t		message[500];
	LsQuery		query = {.xcount = xcount,.form = LS_FORM_ROW,.reason = LS_REASON_ROW_CHANGED,
	.text = SLICE("DELETE FROM public.t WHERE a = $1"),.rows = 1,.nkeys = 1};

	query.keys = sample_pack_keys(packed, sizeof(packed), &key, 1);
	tx_append(tx, message, ls_put_query(message, sizeof(message), &query), false);
	tx->wait = LS_WAIT_EXECUTED;
	return tx;
}

/* A transaction of one row; its seq, or 0 when it lost.  *depends_on may be NULL. */
static uint64_t
ask(uint32_t origin, uint64_t hash, uint64_t seen, uint64_t *depends_on)
{
	Transaction *tx = begin_row(origin, hash, seen, LS_ROW_EXCLUSIVE);
	uint64_t	seq;

	sequencer_ask(tx);
	seq = tx->seq;
	if (depends_on != NULL)
		*depends_on = tx->depends_on;
	assert_int_equal(tx->state, seq != 0 ? TX_DONE : TX_ROLLED_BACK);
	assert_int_equal(tx->refs, 1);
	tx_unref(tx);
	return seq;
}

static void
on_end(void *arg)
{
	loop_stop();
}

/* The sequencer forgets by a timer. */
static void
let_it_forget(void)
{
	loop_after(1500, on_end, NULL);
	loop_run();
}

static void
below_the_floor(void **state)
{
	uint64_t	depends_on;
	uint64_t	last;

	for (uint64_t i = 1; i <= DECIDED; i++)
		assert_int_equal(ask(0, i, i - 1, NULL), i);
	assert_int_equal(verdicts, 0);

	/* before it forgets: nothing of another node meets this key */
	assert_int_equal(ask(1, DECIDED + 1000, 0, NULL), DECIDED + 1);

	/* an open transaction's S keeps it from forgetting */
	oldest_seen = KEPT;
	let_it_forget();
	assert_int_equal(ask(1, DECIDED + 1001, 0, NULL), DECIDED + 2);

	oldest_seen = UINT64_MAX;
	let_it_forget();
	last = sequencer_last_decided();
	assert_int_equal(last, DECIDED + 2);

	/* the floor is last - KEPT now: below it nothing can be told any more */
	assert_int_equal(ask(1, 999999, last - KEPT - 1, NULL), 0);
	assert_int_equal(verdicts, 1);
	assert_int_equal(last_outcome, LS_OUTCOME_ROLLED_BACK);
	assert_string_equal(last_sqlstate, "40001");
	assert_true(last_detail[0] != '\0');
	assert_int_equal(sequencer_last_decided(), last);
	assert_int_equal(sequencer_stats().reserved_now, 0);
	assert_int_equal(sequencer_stats().conflicts, 1);

	/* also one of the same origin, and one whose key was never written */
	assert_int_equal(ask(0, 999999, 0, NULL), 0);
	assert_int_equal(verdicts, 2);

	/* at the floor: goes on, after all that was forgotten */
	assert_int_equal(ask(1, 999999, last - KEPT, &depends_on), last + 1);
	assert_true(depends_on >= last - KEPT);

	/* above it what is remembered counts: another node wrote this key later */
	assert_int_equal(ask(1, DECIDED, last - KEPT + 10, NULL), 0);
	assert_string_equal(last_sqlstate, "40001");
	assert_int_equal(ask(1, DECIDED, DECIDED, NULL), last + 2);
}

/* ---------- indexes made concurrently */

static LsSlice
table_key(uint8_t *packed, size_t size, LsKeyMode mode)
{
	LsKey		key = {.hash = 31,.seen = sequencer_last_decided(),.mode = mode,.name = SLICE("public.t")};

	return sample_pack_keys(packed, size, &key, 1);
}

/* A command that asks to commit, and that the peers execute. */
static Transaction *
executing(uint32_t origin, const char *text)
{
	Transaction *tx = begin(origin);
	uint8_t		packed[100];
	uint8_t		message[500];
	LsQuery		query = {.xcount = xcount,.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,
	.rows = -1,.nkeys = 1,.ddl = true};

	query.text = ls_slice_of(text);
	query.keys = table_key(packed, sizeof(packed), LS_TABLE_IS);
	tx_append(tx, message, ls_put_query(message, sizeof(message), &query), true);
	tx->wait = LS_WAIT_EXECUTED;
	sequencer_ask(tx);
	assert_int_equal(tx->state, TX_RESERVED);
	return tx;
}

static Transaction *
asking(uint32_t origin)
{
	Transaction *tx = begin(origin);
	uint8_t		packed[100];
	LsLock		lock = {.xcount = xcount,.nkeys = 1,.ddl = true};

	lock.keys = table_key(packed, sizeof(packed), LS_TABLE_X);
	sequencer_lock(tx, &lock);
	return tx;
}

static void
finished(Transaction *tx)
{
	assert_int_equal(tx->refs, 1);
	tx_unref(tx);
}

/* A step that the peers execute yields to DDL of another node that waits for its table. */
static void
a_step_yields(void **state)
{
	Transaction *step;
	Transaction *other;
	Transaction *ddl;
	int			before = verdicts;

	peers_are_slow = true;
	granted = 0;
	step = executing(0, "SELECT lockstep.apply_index($1, $2, $3, $4, $5)");
	assert_int_equal(sequencer_stats().reserved_now, 1);
	ddl = asking(1);
	assert_int_equal(step->state, TX_ROLLED_BACK);
	assert_int_equal(verdicts, before + 1);
	assert_string_equal(last_sqlstate, "40001");
	assert_string_equal(last_detail, "A command of node \"n1\" (pid 4711) waits for public.t, which must not wait for an index.");
	assert_int_equal(sequencer_stats().reserved_now, 0);
	finished(step);
	let_it_forget();
	assert_int_equal(granted, 1);
	sequencer_gone(ddl);
	finished(ddl);

	/* not so any other transaction, nor a step of the same node */
	other = executing(0, "ALTER STATISTICS s SET STATISTICS 1");
	ddl = asking(1);
	assert_int_equal(other->state, TX_RESERVED);
	assert_true(ddl->awaits_lock);
	sequencer_gone(ddl);
	finished(ddl);
	sequencer_executed(other);
	assert_int_equal(other->state, TX_DONE);
	finished(other);

	step = executing(1, "SELECT lockstep.apply_index($1, $2, $3, $4, $5)");
	ddl = asking(1);
	assert_false(ddl->awaits_lock);
	assert_int_equal(step->state, TX_RESERVED);
	sequencer_gone(ddl);
	finished(ddl);
	sequencer_executed(step);
	assert_int_equal(step->state, TX_DONE);
	finished(step);
	assert_int_equal(verdicts, before + 1);
	assert_int_equal(sequencer_stats().reserved_now, 0);
	peers_are_slow = false;
}

static Config config;

/* What was decided lately is remembered whatever the number, so who has read long ago, in seqs, goes on. */
static void
history_in_time(void **state)
{
	uint64_t	seen = sequencer_last_decided();
	uint64_t	other = UINT64_C(1) << 41;

	config.key_history = 4000;
	for (uint64_t i = 1; i <= DECIDED; i++)
		assert_true(ask(0, other + i, seen, NULL) != 0);
	let_it_forget();
	assert_true(ask(1, other, seen, NULL) != 0);
	for (int i = 0; i < 4; i++)
		let_it_forget();
	assert_int_equal(ask(1, other - 1, seen, NULL), 0);
	assert_string_equal(last_sqlstate, "40001");
	config.key_history = 0;
}

/* A transaction that has that row's key, and that the peers execute. */
static Transaction *
executing_row(LsKeyMode mode)
{
	Transaction *tx = begin_row(0, UINT64_C(1) << 40, sequencer_last_decided(), mode);

	sequencer_ask(tx);
	assert_int_equal(tx->state, TX_RESERVED);
	return tx;
}

/* Who changes a row is decided when all that have read it are decided or gone, and each has only to be over. */
static void
readers_first(void **state)
{
	Transaction *decided;
	Transaction *gone;
	Transaction *writer;

	peers_are_slow = true;
	for (int i = 0; i < 4; i++)
	{
		uint64_t	seq;

		decided = executing_row(LS_ROW_READ);
		gone = executing_row(LS_ROW_READ);
		writer = executing_row(LS_ROW_UPDATE);
		assert_int_equal(writer->nafter_tickets, 2);
		if (i < 2)
			sequencer_executed(writer); /* they are still being executed */
		else
			writer->executing = 1;
		sequencer_executed(decided);
		seq = decided->seq;
		assert_int_equal(decided->state, TX_DONE);
		finished(decided);
		if (i % 2 == 1)
		{
			sequencer_gone(writer);
			finished(writer);
			writer = NULL;
		}
		sequencer_gone(gone);
		finished(gone);
		loop_finish();
		if (writer == NULL)
			continue;
		if (i >= 2)
		{
			assert_int_equal(writer->state, TX_RESERVED);
			writer->executing = 0;
			sequencer_executed(writer);
		}
		assert_int_equal(writer->state, TX_DONE);
		assert_true(writer->seq > seq && writer->depends_on >= seq);
		finished(writer);
	}
	assert_int_equal(sequencer_stats().reserved_now, 0);
	peers_are_slow = false;
}

/* ---------- runs by origin */

static uint32_t nsessions = 64;

/* One that is decided as soon as it is reserved asks; its session is not looked at. */
static Transaction *
ask_ordered_row(uint32_t origin, uint64_t row, uint64_t seen)
{
	static char session;
	Transaction *tx = begin_row(origin, row, seen, LS_ROW_EXCLUSIVE);

	tx->pid += (uint32_t) xcount % nsessions;
	tx->wait = LS_WAIT_ORDERED;
	tx->session = (struct Session *) &session;
	sequencer_ask(tx);
	return tx;
}

/* ... of a row of its own. */
static Transaction *
ask_ordered(uint32_t origin)
{
	static uint64_t row = UINT64_C(1) << 42;

	return ask_ordered_row(origin, ++row, sequencer_last_decided());
}

static void
over(Transaction *tx, TxState state)
{
	assert_int_equal(tx->state, state);
	tx->session = NULL;
	finished(tx);
}

static void
later(int ms)
{
	loop_after(ms, on_end, NULL);
	loop_run();
}

static void
soon(void)
{
	later(120);
}

/* The first node has not applied this one, which was decided so long ago. */
static void
lags(Transaction *tx, uint64_t us)
{
	Node	   *n = node_get(0);
	Transaction *last;

	while ((last = tx_ring_pop(&n->applying, UINT64_MAX)) != NULL)
		tx_unref(last);
	if (tx == NULL)
		return;
	tx_ring_push(&n->applying, tx);
	tx->since_us = loop_now_us() - us;
}

static void
runs_by_origin(void **state)
{
	Transaction *foreign = ask_ordered(1);
	Transaction *waits[3];
	Transaction *others;
	Transaction *ddl[2];

	node_get(0)->state = NODE_ONLINE;
	assert_int_equal(foreign->state, TX_DONE);

	/*
	 * a node that has all, or lags for less than a millisecond: nothing is
	 * held
	 */
	over(ask_ordered(0), TX_DONE);
	lags(foreign, 500);
	over(ask_ordered(0), TX_DONE);

	/* until it has applied what was decided when the first was held */
	lags(foreign, 5000);
	waits[0] = ask_ordered(0);
	assert_int_equal(waits[0]->state, TX_HELD);
	others = ask_ordered(1);
	assert_int_equal(others->seq, sequencer_last_decided());
	over(others, TX_DONE);
	waits[1] = ask_ordered(0);
	assert_true(sequencer_is_question(waits[1]));
	assert_true(sequencer_any_undecided("db"));
	assert_false(sequencer_any_undecided("other"));
	sequencer_node_applied(0, foreign->seq - 1);
	loop_finish();
	assert_int_equal(waits[0]->state, TX_HELD);
	sequencer_node_applied(0, foreign->seq);
	assert_int_equal(waits[0]->state, TX_HELD);
	loop_finish();
	assert_int_equal(waits[1]->seq, waits[0]->seq + 1);
	assert_int_equal(waits[1]->seq, sequencer_last_decided());
	assert_false(sequencer_any_undecided("db"));
	over(waits[0], TX_DONE);
	over(waits[1], TX_DONE);

	/* but not for long; what is taken back meanwhile is not decided */
	for (int i = 0; i < 3; i++)
		waits[i] = ask_ordered(0);
	assert_true(sequencer_withdraw(waits[0]));
	sequencer_gone(waits[2]);
	over(waits[0], TX_ROLLED_BACK);
	over(waits[2], TX_ROLLED_BACK);
	assert_int_equal(waits[1]->state, TX_HELD);
	soon();
	over(waits[1], TX_DONE);

	/* a node that asks rarely waits for nobody */
	over(ask_ordered(0), TX_DONE);

	/* all of them taken back, and others come before the time is over */
	waits[0] = ask_ordered(0);
	assert_true(sequencer_withdraw(waits[0]));
	over(waits[0], TX_ROLLED_BACK);
	waits[0] = ask_ordered(0);
	assert_int_equal(waits[0]->state, TX_HELD);
	soon();
	over(waits[0], TX_DONE);
	soon();

	/* a report that is under way is no lag */
	over(ask_ordered(0), TX_DONE);
	node_get(0)->round_trip_us = 1000000;
	over(ask_ordered(0), TX_DONE);
	node_get(0)->round_trip_us = 0;

	/*
	 * what peers execute first is not held, and comes behind what has asked
	 * before
	 */
	waits[0] = ask_ordered(0);
	assert_int_equal(waits[0]->state, TX_HELD);
	waits[1] = begin_row(0, UINT64_C(1) << 43, sequencer_last_decided(), LS_ROW_EXCLUSIVE);
	waits[1]->session = waits[0]->session;
	sequencer_ask(waits[1]);
	assert_int_equal(waits[1]->seq, waits[0]->seq + 1);
	over(waits[0], TX_DONE);
	over(waits[1], TX_DONE);

	/* who has lost learns so at once */
	over(ask_ordered_row(1, UINT64_C(1) << 43, sequencer_last_decided()), TX_DONE);
	waits[0] = ask_ordered_row(0, UINT64_C(1) << 43, foreign->seq);
	assert_string_equal(last_sqlstate, "40001");
	over(waits[0], TX_ROLLED_BACK);

	/*
	 * who asks for a lock comes behind; what is asked while somebody waits
	 * for one is not held
	 */
	waits[0] = ask_ordered(0);
	assert_int_equal(waits[0]->state, TX_HELD);
	ddl[0] = asking(1);
	over(waits[0], TX_DONE);
	ddl[1] = asking(0);
	assert_true(ddl[1]->awaits_lock);
	waits[0] = ask_ordered(0);
	assert_int_not_equal(waits[0]->state, TX_HELD);
	for (int i = 0; i < 2; i++)
	{
		sequencer_gone(ddl[i]);
		finished(ddl[i]);
	}
	loop_finish();
	over(waits[0], TX_DONE);

	lags(NULL, 0);
	over(foreign, TX_DONE);
	node_get(0)->state = NODE_DROPPED;
}

/* ---------- rounds at a pace */

static unsigned int asked_pace;

/* Instead of the loop's: see the Makefile. */
void		__wrap_loop_pace(unsigned int us);

void
__wrap_loop_pace(unsigned int us)
{
	asked_pace = us;
}

/* How much later the next round would begin, at the end of this one. */
static unsigned int
pace_of_round(void)
{
	unsigned int us;

	loop_finish();
	us = asked_pace;
	asked_pace = 0;
	return us;
}

/* The first node asks so often, late by that each time. */
static void
asks_late(Transaction *foreign, int times, uint64_t us)
{
	for (int i = 0; i < times; i++)
	{
		Transaction *tx;

		lags(foreign, us);
		tx = ask_ordered(0);
		sequencer_node_applied(0, foreign->seq);
		loop_finish();
		over(tx, TX_DONE);
	}
}

/* Those who have asked have been many for a while. */
static void
many_ask(Transaction *foreign)
{
	asks_late(foreign, 4, 0);
	soon();
	asks_late(foreign, 4, 0);
	soon();
}

static void
rounds_at_a_pace(void **state)
{
	Transaction *foreign = ask_ordered(1);
	Transaction *ddl[2];

	node_get(0)->state = node_get(1)->state = NODE_ONLINE;

	/* late on average, not once */
	asks_late(foreign, 200, 0);
	many_ask(foreign);
	over(ask_ordered(0), TX_DONE);
	asked_pace = 0;
	asks_late(foreign, 2, 9000);
	assert_int_equal(pace_of_round(), 0);
	many_ask(foreign);
	asks_late(foreign, 100, 9000);
	assert_int_equal(pace_of_round(), 4000);
	assert_int_equal(pace_of_round(), 0);

	/* while reports come, too */
	sequencer_node_applied(0, foreign->seq);
	assert_int_equal(pace_of_round(), 4000);

	/* as much as the node is late */
	asks_late(foreign, 300, 2500);
	assert_in_range(pace_of_round(), 2400, 2600);

	/* not if one asks that is not late, for a while */
	asks_late(foreign, 100, 9000);
	over(ask_ordered(1), TX_DONE);
	(void) pace_of_round();
	asks_late(foreign, 3, 9000);
	sequencer_node_applied(0, foreign->seq);
	assert_int_equal(pace_of_round(), 0);
	soon();
	over(ask_ordered(0), TX_DONE);
	asks_late(foreign, 3, 9000);
	assert_int_equal(pace_of_round(), 4000);

	/* whatever it asks for, but not if it is late */
	sequencer_node_waits(0);
	assert_int_equal(pace_of_round(), 4000);
	sequencer_node_waits(1);
	(void) pace_of_round();
	asks_late(foreign, 4, 9000);
	assert_int_equal(pace_of_round(), 0);
	soon();
	over(ask_ordered(0), TX_DONE);
	asks_late(foreign, 3, 9000);
	assert_int_equal(pace_of_round(), 4000);

	/* nor while somebody waits for a lock */
	ddl[0] = asking(1);
	ddl[1] = asking(0);
	assert_true(ddl[1]->awaits_lock);
	asks_late(foreign, 3, 9000);
	sequencer_node_applied(0, foreign->seq);
	assert_int_equal(pace_of_round(), 0);
	for (int i = 0; i < 2; i++)
	{
		sequencer_gone(ddl[i]);
		finished(ddl[i]);
	}
	soon();

	/* it ends by itself */
	over(ask_ordered(0), TX_DONE);
	asks_late(foreign, 3, 9000);
	assert_int_equal(pace_of_round(), 4000);
	asks_late(foreign, 300, 0);
	(void) pace_of_round();
	asks_late(foreign, 3, 0);
	assert_int_equal(pace_of_round(), 0);

	/* nor for a few, as nothing would come together */
	soon();
	nsessions = 3;
	asks_late(foreign, 100, 9000);
	soon();
	asks_late(foreign, 3, 9000);
	assert_int_equal(pace_of_round(), 0);
	nsessions = 64;
	asks_late(foreign, 4, 9000);
	soon();
	asks_late(foreign, 3, 9000);
	assert_int_equal(pace_of_round(), 4000);

	asks_late(foreign, 300, 0);
	lags(NULL, 0);
	over(foreign, TX_DONE);
	node_get(0)->state = node_get(1)->state = NODE_DROPPED;
}

/*
 * The first node asks so often; that the turn of what it was told last has not passed is shown by so
 * many other questions, 3 ms apart, and that it has 2 ms later.
 */
static void
passes_late(int times, int shown)
{
	for (int i = 0; i < times; i++)
	{
		Transaction *tx = ask_ordered(0);
		uint64_t	seq = tx->seq;

		over(tx, TX_DONE);
		for (int j = 0; j < shown; j++)
		{
			sequencer_turn_passed(0, seq - 1);
			later(3);
		}
		later(2);
		sequencer_turn_passed(0, seq);
	}
}

static unsigned int
pace_of_question(bool waited_for)
{
	Transaction *tx = begin(0);
	static char session;

	(void) pace_of_round();
	tx->session = (struct Session *) &session;
	tx->waited_for = waited_for;
	sequencer_ask(tx);
	over(tx, TX_DONE);
	return pace_of_round();
}

static void
late_with_its_own(void **state)
{
	node_get(0)->state = NODE_ONLINE;
	sequencer_turn_passed(0, sequencer_last_decided());
	soon();

	/* shown by one question only, or by none: not late, however long it takes */
	passes_late(20, 0);
	passes_late(20, 1);
	assert_int_equal(pace_of_question(false), 0);

	/* no more than the limit of all pace */
	soon();
	passes_late(50, 2);
	assert_in_range(pace_of_question(false), 3000, 4000);

	/* not while others wait for the locks of who asks */
	assert_int_equal(pace_of_question(true), 0);
	assert_int_equal(pace_of_question(false), 0);
	passes_late(20, 2);
	assert_in_range(pace_of_question(false), 3000, 4000);

	/* it ends by itself */
	passes_late(100, 0);
	assert_int_equal(pace_of_question(false), 0);
	node_get(0)->state = NODE_DROPPED;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_the_floor),
		cmocka_unit_test(a_step_yields),
		cmocka_unit_test(readers_first),
		cmocka_unit_test(history_in_time),
		cmocka_unit_test(runs_by_origin),
		cmocka_unit_test(rounds_at_a_pace),
		cmocka_unit_test(late_with_its_own),
	};
	char		directory[] = "/tmp/lockstep-unit-sequencer-XXXXXX";
	char		command[sizeof(directory) + 20];
	char		cluster[33];
	const char *error = NULL;
	Journal    *journal;
	int			failed;

	log_open(NULL, LOG_ERROR);
	loop_init();
	if (mkdtemp(directory) == NULL)
		abort();
	journal = journal_open(directory, true, 1024 * 1024, cluster, &error);
	if (journal == NULL)
		abort();
	conflict_log_init(&config);
	conflict_log_init(&config);
	config.nnodes = 2;
	snprintf(config.nodes[0].name, sizeof(config.nodes[0].name), "n1");
	snprintf(config.nodes[1].name, sizeof(config.nodes[1].name), "n2");
	nodes_init(&config, cluster, directory, &fake_membership);
	sequencer_init(&config, journal, directory, &fake_peers, &fake_sessions);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	journal_close(journal);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) == 0 ? failed : 1;
}
