/*
 * test_conflicts.c
 *	  What is remembered of conflicts is bounded, whatever tables are called, and
 *	  none is forgotten in the numbers.
 */
#include "unit.h"

#include "conflict_log.h"
#include "log.h"

#define HOSTILE 5000

static Config config = {.log_conflicts = LOG_DEBUG};

static void
add(const char *database, const char *key, const char *reason)
{
	Conflict	c = {.database = database,.node = "n1",.pid = 1,.reason = reason,.sqlstate = "40001"};

	c.key = ls_slice_of(key);
	conflict_log_add(&c);
}

/* Of a table (NULL: of none), or of all if database is NULL. */
static uint64_t
counted(const char *database, const char *table, size_t *rows)
{
	const char *cells[CONFLICT_COUNT_COLUMNS];
	uint64_t	n = 0;

	for (*rows = 0; conflict_count_row(*rows, cells); ++*rows)
	{
		bool		same = table == NULL || cells[1] == NULL ? table == cells[1] : strcmp(table, cells[1]) == 0;

		if (database == NULL || (same && strcmp(database, cells[0]) == 0))
			n += strtoull(cells[3], NULL, 10);
	}
	return n;
}

static void
counted_in_all(void **state)
{
	size_t		rows;
	uint64_t	total = 3;

	conflict_log_init(&config);
	add("app", "public.known public.known_pkey", "changed");
	for (int i = 0; i < HOSTILE; i++, total++)
	{
		char		key[40];

		snprintf(key, sizeof(key), "public.t%d", i);
		add("app", key, "changed");
	}
	add("app", "public.known public.known_pkey", "changed");
	add("other", "public.late", "deadlock");
	assert_int_equal(counted("app", "public.known", &rows), 2);
	assert_int_equal(counted("other", NULL, &rows), 1);
	assert_int_equal(counted(NULL, NULL, &rows), total);
	assert_true(rows < HOSTILE / 2);
}

static void
last_ones(void **state)
{
	const char *cells[CONFLICT_COLUMNS];
	size_t		n = 0;

	add("app", "\"a b\".\"c d\" \"c d_key\"", "reserved");
	assert_true(conflict_log_row(0, cells));
	assert_string_equal(cells[8], "\"a b\".\"c d\"");
	assert_string_equal(cells[9], "\"c d_key\"");
	while (conflict_log_row(n, cells))
		n++;
	assert_int_equal(n, 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counted_in_all),
		cmocka_unit_test(last_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
