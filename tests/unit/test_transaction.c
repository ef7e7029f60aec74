/*
 * test_transaction.c
 *	  Proves that a transaction makes the legal moves and no other (the daemon
 *	  aborts instead), and that its queue keeps, cuts and gives back statements.
 */
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal.h"
#include "log.h"
#include "samples.h"
#include "transaction.h"

static Transaction *
new_tx(void)
{
	LsIdentity	id = {SLICE("n1"), 99, 4711, 5};

	return tx_create(&id, SLICE("db"), 2);
}

static void
test_create(void **state)
{
	Transaction *tx = new_tx();

	assert_int_equal(tx->state, TX_QUEUED);
	assert_string_equal(tx->node, "n1");
	assert_string_equal(tx->database, "db");
	assert_int_equal(tx->origin, 2);
	assert_int_equal(tx->xcount, 5);
	assert_ptr_equal(tx_ref(tx), tx);
	tx_unref(tx);
	assert_int_equal(tx->refs, 1);
	tx_unref(tx);
}

/* rows: from, columns: to, in the order of TxState */
static const char legal[8][9] = {
	"01110001",					/* queued */
	"00110001",					/* held */
	"00010001",					/* waiting */
	"00001001",					/* reserved */
	"00000100",					/* decided */
	"00000010",					/* durable */
	"00000000",					/* done */
	"00000000"					/* rolled back */
};

/* Does the move end the process?  Tried in a child. */
static bool
aborts(TxState from, TxState to)
{
	pid_t		pid;
	int			status;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		Transaction *tx = new_tx();

		signal(SIGABRT, SIG_DFL);
		log_open("/dev/null", LOG_ERROR);
		tx->state = from;
		tx_move(tx, to);
		_exit(tx->state == to ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGABRT;
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

static void
test_moves(void **state)
{
	for (int from = TX_QUEUED; from <= TX_ROLLED_BACK; from++)
	{
		for (int to = TX_QUEUED; to <= TX_ROLLED_BACK; to++)
			assert_int_equal(aborts((TxState) from, (TxState) to), legal[from][to] == '0');
	}
}

static void
append(Transaction *tx, const char *text, bool ddl)
{
	uint8_t		buf[256];
	LsQuery		q = {.xcount = 5,.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,
	.text = {(const uint8_t *) text, strlen(text)},.rows = -1,.ddl = ddl};

	tx_append(tx, buf, ls_put_query(buf, sizeof(buf), &q), q.ddl);
}

static void
assert_statement(const Transaction *tx, size_t i, const char *text)
{
	LsSlice		payload;
	Buffer		copy = {0};
	LsQuery		q;

	assert_true(tx_find_statement(tx, i, &copy, &payload));
	assert_null(ls_get_query(payload, &q));
	assert_int_equal(q.text.len, strlen(text));
	assert_memory_equal(q.text.data, text, q.text.len);
	buffer_free(&copy);
}

static void
test_queue(void **state)
{
	Transaction *tx = new_tx();
	char		text[32];

	for (int i = 0; i < 100; i++)
	{
		snprintf(text, sizeof(text), "statement %d", i);
		append(tx, text, i == 60);
	}
	assert_int_equal(tx->nstatements, 100);
	assert_statement(tx, 0, "statement 0");
	assert_statement(tx, 99, "statement 99");
	assert_true(tx_has_ddl(tx));
	assert_false(tx_rollback_to(tx, 101));
	assert_true(tx_rollback_to(tx, 100));
	assert_true(tx_rollback_to(tx, 61));
	assert_true(tx_has_ddl(tx));
	assert_true(tx_rollback_to(tx, 60));
	assert_false(tx_has_ddl(tx));	/* the DDL went with its savepoint */
	assert_statement(tx, 59, "statement 59");
	append(tx, "after", false);
	assert_int_equal(tx->nstatements, 61);
	assert_statement(tx, 60, "after");
	assert_true(tx_rollback_to(tx, 0));
	assert_int_equal(tx->queries.len, 0);
	tx_unref(tx);
}

static void
test_from_record(void **state)
{
	Transaction *tx = new_tx();
	Transaction *copy;
	const char *error;
	JournalRecord r = {.type = RECORD_TRANSACTION,.seq = 12,.depends_on = 3,.wait = LS_WAIT_ORDERED,
	.identity = {SLICE("n9"), 1, 2, 3},.database = SLICE("db2")};

	append(tx, "one", false);
	append(tx, "two", true);
	r.queries = (LsSlice) {tx->queries.data, tx->queries.len};
	copy = tx_from_record(&r, 7, "/nonexistent", &error);
	assert_int_equal(copy->state, TX_DURABLE);
	assert_int_equal(copy->seq, 12);
	assert_int_equal(copy->depends_on, 3);
	assert_int_equal(copy->wait, LS_WAIT_ORDERED);
	assert_int_equal(copy->origin, 7);
	assert_string_equal(copy->node, "n9");
	assert_string_equal(copy->database, "db2");
	assert_int_equal(copy->nstatements, 2);
	assert_true(tx_has_ddl(copy));
	assert_statement(copy, 1, "two");
	tx_unref(copy);
	r.queries.len--;
	assert_null(tx_from_record(&r, 7, "/nonexistent", &error));
	tx_unref(tx);
}

static Transaction *
decided(uint64_t seq, uint64_t depends_on, LsReason reason, int nstatements)
{
	Transaction *tx = new_tx();

	tx->state = TX_DURABLE;
	tx->seq = seq;
	tx->depends_on = depends_on;
	for (int i = 0; i < nstatements; i++)
	{
		uint8_t		buf[256];
		char		text[32];
		LsQuery		q = {.xcount = 5,.form = LS_FORM_ROW,.reason = reason,.rows = 1};

		snprintf(text, sizeof(text), "%d of %d", i, (int) seq);
		q.text = ls_slice_of(text);
		tx_append(tx, buf, ls_put_query(buf, sizeof(buf), &q), false);
	}
	return tx;
}

static void
test_together(void **state)
{
	Transaction *members[3] = {
		decided(10, 7, LS_REASON_ROW_CHANGED, 2),
		decided(11, 10, LS_REASON_SEQUENCE, 1),
		decided(12, 8, LS_REASON_ROW_CHANGED, 3),
	};
	Transaction *utility = decided(13, 0, LS_REASON_UTILITY, 1);
	Transaction *call = decided(13, 0, LS_REASON_CALL, 1);
	Transaction *ddl = decided(13, 0, LS_REASON_ROW_CHANGED, 1);
	Transaction *tx = tx_together(members, 3);
	TxCursor	cursor = {0};
	LsSlice		payload;
	const char *error;
	size_t		at;

	append(ddl, "ALTER", true);
	assert_true(tx_may_be_together(members[0]));
	assert_true(tx_may_be_together(members[1]));
	assert_false(tx_may_be_together(utility));
	assert_false(tx_may_be_together(call));
	assert_false(tx_may_be_together(ddl));

	assert_int_equal(tx->state, TX_DURABLE);
	assert_int_equal(tx_first_seq(tx), 10);
	assert_int_equal(tx->seq, 12);
	assert_int_equal(tx_first_seq(members[2]), 12);
	assert_int_equal(tx->depends_on, 8);	/* not 10, which is among them */
	assert_int_equal(tx->nstatements, 6);
	assert_statement(tx, 0, "0 of 10");
	assert_statement(tx, 2, "0 of 11");
	assert_statement(tx, 5, "2 of 12");
	assert_int_equal(tx_memory(tx), tx_memory(members[0]) + tx_memory(members[1]) + tx_memory(members[2]));
	for (size_t round = 0; round < 2; round++)
	{
		tx_cursor_start(&cursor);
		for (at = 0; tx_next(&cursor, tx, &payload, &error); at++)
		{
			LsSlice		same;

			assert_true(tx_find_statement(tx, at, NULL, &same));
			assert_ptr_equal(payload.data, same.data);
			assert_int_equal(payload.len, same.len);
		}
		assert_int_equal(at, 6);
	}
	at = 4;
	assert_ptr_equal(tx_member_at(tx, &at), members[2]);
	assert_int_equal(at, 1);
	at = 1;
	assert_ptr_equal(tx_member_at(members[0], &at), members[0]);
	assert_int_equal(at, 1);

	/* the members stay as long as it does */
	for (int i = 0; i < 3; i++)
		tx_unref(members[i]);
	assert_int_equal(tx->members[2]->seq, 12);
	tx_unref(tx);
	tx_unref(utility);
	tx_unref(call);
	tx_unref(ddl);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_from_record),
		cmocka_unit_test(test_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
