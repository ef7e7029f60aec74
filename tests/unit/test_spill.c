/*
 * test_spill.c
 *	  Proves that a transaction whose queue is partly on disk has the same
 *	  statements and keys as one in memory, whatever savepoints are rolled back;
 *	  that its file is durable when it says so and gone when it is not decided;
 *	  and that the journal finds, refuses, trims and cleans up such files.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "journal_body.h"
#include "journal_sync.h"
#include "log.h"
#include "loop.h"
#include "samples.h"
#include "spill.h"

static char dir[64];
static Config config = {.journal_directory = dir};

static int
count_files(const char *suffix)
{
	DIR		   *d = opendir(dir);
	struct dirent *e;
	int			n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
	{
		size_t		len = strlen(e->d_name);

		n += len > strlen(suffix) && strcmp(e->d_name + len - strlen(suffix), suffix) == 0;
	}
	closedir(d);
	return n;
}

static void
remove_files(void)
{
	DIR		   *d = opendir(dir);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		(void) unlinkat(dirfd(d), e->d_name, 0);
	if (d != NULL)
		closedir(d);
}

static int
setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/lockstep-test-spill-%d", (int) getpid());
	remove_files();
	return mkdir(dir, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

static int
teardown(void **state)
{
	remove_files();
	rmdir(dir);
	return 0;
}

static Transaction *
new_tx(void)
{
	LsIdentity	id = {SLICE("n1"), 99, 4711, 5};

	return tx_create(&id, SLICE("db"), 0);
}

/* Statement `number` has a text that tells, padding of any size, and number % 4 keys. */
static void
append(Transaction *tx, uint64_t number)
{
	size_t		padding = (size_t) (number * 7919 % 3000);
	char	   *text = malloc(padding + 64);
	uint8_t		keys[1024];
	size_t		len = 0;
	LsQuery		q = {.xcount = 5,.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,.rows = -1,
	.ddl = number % 1000 == 999};
	uint8_t    *message;
	size_t		size;

	memset(text, 'x', padding + 63);
	text[padding + 63] = '\0';
	text[snprintf(text, 32, "statement %llu ", (unsigned long long) number)] = ' ';
	for (q.nkeys = 0; q.nkeys < number % 4; q.nkeys++)
	{
		LsKey		key = {number * 10 + q.nkeys, number, LS_ROW_EXCLUSIVE, SLICE("public.t t_pkey")};

		len += ls_put_key(keys + len, sizeof(keys) - len, &key);
	}
	q.keys = (LsSlice) {keys, len};
	q.text = ls_slice_of(text);
	size = ls_put_query(NULL, 0, &q);
	message = malloc(size);
	ls_put_query(message, size, &q);
	tx_append(tx, message, size, q.ddl);
	free(message);
	free(text);
}

static void
assert_is(LsSlice payload, uint64_t number)
{
	LsQuery		q;
	char		text[32];
	int			n = snprintf(text, sizeof(text), "statement %llu ", (unsigned long long) number);

	assert_null(ls_get_query(payload, &q));
	assert_int_equal(q.text.len, number * 7919 % 3000 + 63);
	assert_memory_equal(q.text.data, text, n);
}

/* Statements are the numbers, in order; keys too. */
static void
assert_holds(const Transaction *tx, const uint64_t *numbers, size_t n)
{
	TxCursor	cursor = {0};
	LsSlice		payload;
	const char *error;
	bool		ddl = false;

	assert_int_equal(tx->nstatements, n);
	tx_cursor_start(&cursor);
	for (size_t i = 0; i < n; i++)
	{
		assert_true(tx_next(&cursor, tx, &payload, &error));
		assert_is(payload, numbers[i]);
		ddl = ddl || numbers[i] % 1000 == 999;
	}
	assert_false(tx_next(&cursor, tx, &payload, &error));
	assert_null(error);
	tx_cursor_free(&cursor);
	assert_int_equal(tx_has_ddl(tx), ddl);
}

static void
test_like_memory(void **state)
{
	unit_seed(1);
	for (int round = 0; round < 30; round++)
	{
		static uint64_t numbers[20000];
		size_t		n = 0;
		Transaction *tx = new_tx();
		Buffer		copy = {0};
		LsSlice		payload;
		uint64_t	next = 0;
		size_t		nkeys = 0;

		for (int step = 0; step < 3000; step++)
		{
			uint64_t	what = unit_below(1000);

			if (what < 985)
			{
				numbers[n++] = next;
				append(tx, next++);
				if (tx_memory(tx) >= (tx->spill != NULL ? BODY_CHUNK : 100000))
					assert_true(tx_store(tx, &config));
			}
			else if (what < 995)
			{
				/* mostly a little, sometimes nearly all */
				uint64_t	back = unit_below(unit_below(4) == 0 ? n + 1 : 20);

				n = back < n ? n - back : 0;
				assert_true(tx_rollback_to(tx, n));
			}
			else if (tx->spill != NULL)
				assert_true(tx_store(tx, &config));
		}
		assert_false(tx_rollback_to(tx, n + 1));
		assert_holds(tx, numbers, n);
		for (int i = 0; i < 50 && n > 0; i++)
		{
			size_t		at = unit_below(n);

			assert_true(tx_find_statement(tx, at, &copy, &payload));
			assert_is(payload, numbers[at]);
		}
		assert_false(tx_find_statement(tx, n, &copy, &payload));

		if (tx->spill != NULL)
		{
			assert_true(tx_store(tx, &config));
			assert_holds(tx, numbers, n);
			for (size_t i = 0; i < n; i++)
			{
				for (uint64_t k = 0; k < numbers[i] % 4; k++, nkeys++)
				{
					LsKey		key;
					LsQuery		query;

					assert_int_equal(tx->spill->keys[nkeys].hash, numbers[i] * 10 + k);
					if (unit_below(50) != 0)
						continue;
					assert_true(tx_find_key(tx, nkeys, &copy, &query, &key));
					assert_int_equal(key.hash, numbers[i] * 10 + k);
					assert_int_equal(key.name.len, strlen("public.t t_pkey"));
				}
			}
			assert_int_equal(tx->spill->nkeys, nkeys);
		}
		buffer_free(&copy);
		tx_unref(tx);
		assert_int_equal(count_files(".body"), 0);
		assert_int_equal(tx_memory_of_all(), 0);
	}
}

static void
on_durable(Transaction *tx)
{
	loop_stop();
}

/* A sealed one with n statements. */
static Transaction *
sealed_tx(uint64_t n)
{
	Transaction *tx = new_tx();

	for (uint64_t i = 0; i < n; i++)
	{
		append(tx, i);
		if (tx_memory(tx) >= BODY_CHUNK)
			assert_true(tx_store(tx, &config));
	}
	assert_true(tx_store(tx, &config));
	tx_seal(tx, &config, on_durable);
	assert_false(tx->spill->durable);
	loop_run();
	assert_true(tx->spill->durable);
	return tx;
}

static JournalRecord
record_of(const Transaction *tx, uint64_t seq, BodyRef body)
{
	return (JournalRecord) {
		.type = RECORD_TRANSACTION,.seq = seq,.identity = {SLICE("n1"), 99, 4711, seq},
		.database = SLICE("db"),.depends_on = seq - 1,.time = 5,.wait = LS_WAIT_EXECUTED,.body = body
	};
}

static void
test_from_journal(void **state)
{
	uint64_t	numbers[1000];
	Transaction *tx = sealed_tx(1000);
	BodyRef		ref = tx_keep_body(tx);
	JournalRecord r = record_of(tx, 3, ref);
	JournalRecord decoded;
	uint8_t		bytes[SAMPLE_MAX];
	size_t		used;
	size_t		len = journal_encode(bytes, sizeof(bytes), &r);
	const char *error;
	Transaction *copy;
	TxCursor	cursor = {0};
	LsSlice		payload;
	char		path[128];
	int			fd;

	for (uint64_t i = 0; i < 1000; i++)
		numbers[i] = i;
	tx_unref(tx);
	assert_int_equal(count_files(".body"), 1);	/* the journal's */
	assert_int_equal(journal_decode(bytes, len, &decoded, &used), JOURNAL_OK);
	assert_int_equal(decoded.type, RECORD_TRANSACTION);
	assert_memory_equal(&decoded.body, &ref, sizeof(ref));

	copy = tx_from_record(&decoded, 0, dir, &error);
	assert_non_null(copy);
	assert_int_equal(copy->state, TX_DURABLE);
	assert_true(tx_has_ddl(copy));	/* number 999 */
	assert_int_equal(copy->first_ddl, 999);
	tx_cursor_start(&cursor);
	for (size_t i = 0; i < 1000; i++)
	{
		assert_true(tx_next(&cursor, copy, &payload, &error));
		assert_is(payload, numbers[i]);
	}
	assert_false(tx_next(&cursor, copy, &payload, &error));
	assert_null(error);

	/* a bit that flips is found, and said */
	snprintf(path, sizeof(path), "%s/%016llx.body", dir, (unsigned long long) ref.id);
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, bytes, 1, (off_t) ref.size - 100), 1);
	bytes[0] ^= 1;
	assert_int_equal(pwrite(fd, bytes, 1, (off_t) ref.size - 100), 1);
	tx_cursor_start(&cursor);
	while (tx_next(&cursor, copy, &payload, &error))
		;
	assert_true(cursor.next < 1000);
	assert_non_null(strstr(error, "corrupt"));
	tx_cursor_free(&cursor);
	tx_unref(copy);

	/* another size, no file */
	assert_int_equal(ftruncate(fd, (off_t) ref.size - 1), 0);
	assert_null(tx_from_record(&decoded, 0, dir, &error));
	assert_non_null(strstr(error, "size"));
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_null(tx_from_record(&decoded, 0, dir, &error));
	assert_non_null(strstr(error, "No such file"));
}

/* Disk full: said once, the file goes, the rest of the queue is ignored. */
static void
test_disk_full(void **state)
{
	struct rlimit old;
	struct rlimit small = {1024 * 1024, RLIM_INFINITY};
	Transaction *tx = new_tx();
	const char *sqlstate = NULL;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (uint64_t i = 0; i < 5000 && tx_failure(tx, &sqlstate) == NULL; i++)
	{
		append(tx, i);
		if (tx_memory(tx) >= BODY_CHUNK)
			(void) tx_store(tx, &config);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(tx_failure(tx, &sqlstate));
	assert_string_equal(sqlstate, "58030");	/* EFBIG, not ENOSPC */
	tx_discard(tx);
	assert_int_equal(count_files(".body"), 0);
	assert_int_equal(tx_memory_of_all(), 0);
	tx_unref(tx);
}

/* ---------- the journal's part */

static Journal *
open_journal(const char **error)
{
	char		cluster[33];

	return journal_open(dir, true, 4096, cluster, error);
}

static void
append_record(Journal *j, const JournalRecord *r)
{
	uint8_t		bytes[SAMPLE_MAX];
	LsSlice		record = {bytes, journal_encode(bytes, sizeof(bytes), r)};

	assert_int_equal(journal_append(j, &record, 1, r->seq), JOURNAL_OK);
	assert_int_equal(journal_sync(j), JOURNAL_OK);
	if (r->body.id != 0)
		journal_add_body(j, r->seq, &r->body);
}

static void
test_journal_owns(void **state)
{
	const char *error;
	Journal    *j;
	BodyRef		first;
	Transaction *tx;
	char		path[128];

	remove_files();
	j = open_journal(&error);
	assert_non_null(j);
	for (uint64_t seq = 1; seq <= 3; seq++)
	{
		JournalRecord r;

		tx = sealed_tx(100);
		r = record_of(tx, seq, tx_keep_body(tx));
		if (seq == 1)
			first = r.body;
		append_record(j, &r);
		tx_unref(tx);
	}
	assert_int_equal(count_files(".body"), 3);
	assert_int_equal(count_files(".journal"), 3);	/* each is more than a segment may have */
	assert_true(journal_body_bytes(j, 1, 2) == first.size);
	assert_true(journal_body_bytes(j, 1, 4) > 2 * first.size);
	journal_close(j);

	/* one that no record refers to is what a crash leaves */
	tx = sealed_tx(100);
	tx_keep_body(tx);
	tx_unref(tx);
	assert_int_equal(count_files(".body"), 4);
	j = open_journal(&error);
	assert_non_null(j);
	assert_int_equal(count_files(".body"), 3);
	journal_trim(j, 3);
	assert_int_equal(journal_first(j), 3);
	assert_int_equal(count_files(".body"), 1);
	journal_close(j);

	/* one that is missing is not */
	j = open_journal(&error);
	assert_non_null(j);
	tx = sealed_tx(100);
	first = tx_keep_body(tx);
	append_record(j, &(JournalRecord) {.type = RECORD_TRANSACTION,.seq = 4,.identity = {SLICE("n1"), 1, 2, 3},
	.database = SLICE("db"),.wait = LS_WAIT_EXECUTED,.body = first});
	tx_unref(tx);
	journal_close(j);
	snprintf(path, sizeof(path), "%s/%016llx.body", dir, (unsigned long long) first.id);
	assert_int_equal(unlink(path), 0);
	assert_null(open_journal(&error));
	assert_non_null(strstr(error, "queries of transaction 4"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_like_memory),
		TEST(test_from_journal),
		TEST(test_disk_full),
		TEST(test_journal_owns),
	};
	int			failed;

	log_open("/dev/null", LOG_ERROR);
	loop_init();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	body_sync_stop();
	return failed;
}
