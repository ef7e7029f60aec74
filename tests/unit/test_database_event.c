/*
 * test_database_event.c
 *	  Proves that a database is known by its number through all its names, at each place of
 *	  the journal and after reading the journal again, and that leases follow it.
 */
#include "unit.h"

#include "database_event.h"
#include "lease.h"
#include "metadata.h"
#include "samples.h"

static void
say(DatabaseEventKind kind, uint64_t number, uint64_t seq, const char *name, const char *more)
{
	char		ordinal[24] = "";
	char	   *text;

	if (kind == DATABASE_RENAMED)
		snprintf(ordinal, sizeof(ordinal), "%llu", (unsigned long long) database_event_next_renaming(number));
	text = database_event_text(kind, number, name, more, ordinal);
	metadata_apply(RECORD_DATABASE_EVENT, seq, ls_slice_of(text));
	free(text);
}

static void
create(uint64_t number, uint64_t seq, const char *name)
{
	say(DATABASE_PLANNED, number, seq, name, "CREATE DATABASE x");
	say(DATABASE_CREATED, number, seq, name, "CREATE DATABASE x");
}

/* As after a start: nothing is known but what those records say. */
static void
read_again(const Buffer *records)
{
	int			n;
	const char *const *names = metadata_databases(&n);

	while (n > 0)
	{
		char	   *name = xstrdup(names[0]);

		metadata_apply(RECORD_DATABASE_DROPPED, 1000000, ls_slice_of(name));
		free(name);
		names = metadata_databases(&n);
	}
	for (size_t at = 0; at < records->len;)
	{
		JournalRecord r;
		size_t		used;

		assert_int_equal(journal_decode(records->data + at, records->len - at, &r, &used), JOURNAL_OK);
		/* those that were dropped above are of no interest here */
		if (r.type == RECORD_DATABASE_EVENT)
			metadata_apply(r.type, r.seq, r.text);
		at += used;
	}
}

/* What is wrong with that name, if it was renamed at that seq when it has applied so far. */
static void
assert_wanted(uint64_t number, uint64_t applied, const char *name, const char *wanted, uint64_t late)
{
	uint64_t	renamed_at;
	const char *found = database_event_misnamed(number, name, applied, &renamed_at);

	if (wanted == NULL)
		assert_null(found);
	else
		assert_string_equal(found, wanted);
	assert_int_equal(renamed_at, late);
}

static void
test_names(void **state)
{
	const uint64_t moves = metadata_database_moves();

	create(7, 10, "a");
	assert_int_equal(metadata_database_moves(), moves);
	say(DATABASE_RENAMED, 7, 12, "b", "a");
	say(DATABASE_RENAMED, 7, 20, "c", "b");
	assert_int_equal(metadata_database_moves(), moves + 2);
	assert_string_equal(metadata_name_of(7), "c");
	assert_int_equal(metadata_database_number("c"), 7);
	assert_false(metadata_has_database("a"));
	assert_int_equal(database_event_named_at(7), 20);
	assert_true(database_event_had_name(7, "a"));
	assert_false(database_event_had_name(7, "d"));

	assert_wanted(7, 10, "a", NULL, 0);
	assert_wanted(7, 11, "a", NULL, 0);
	assert_wanted(7, 11, "b", "a", 0);
	assert_wanted(7, 12, "a", NULL, 0);
	assert_wanted(7, 12, "b", NULL, 0);
	assert_wanted(7, 12, "c", "a", 0);
	assert_wanted(7, 15, "b", NULL, 0);
	assert_wanted(7, 15, "a", NULL, 12);	/* it went out while it renamed */
	assert_wanted(7, 15, "c", "b", 0);
	assert_wanted(7, 25, "c", NULL, 0);
	assert_wanted(7, 25, "b", NULL, 20);
	assert_wanted(7, 25, "a", "c", 0);
	say(DATABASE_REMOVED, 7, 30, "c", "");
	assert_null(metadata_name_of(7));
	assert_int_equal(metadata_database_moves(), moves + 3);
}

/* Several with one seq: any of them may be done. */
static void
test_one_seq(void **state)
{
	create(8, 40, "a");
	say(DATABASE_RENAMED, 8, 41, "b", "a");
	say(DATABASE_RENAMED, 8, 41, "a", "b");
	say(DATABASE_RENAMED, 8, 41, "b", "a");
	assert_string_equal(metadata_name_of(8), "b");
	assert_wanted(8, 41, "a", NULL, 0);
	assert_wanted(8, 41, "b", NULL, 0);
	assert_wanted(8, 42, "b", NULL, 0);
	assert_wanted(8, 42, "a", NULL, 41);
	say(DATABASE_REMOVED, 8, 43, "b", "");
}

/* The head of a segment says the same, in the order of the journal. */
static void
test_read_again(void **state)
{
	Buffer		head = {0};

	create(11, 50, "x");
	create(12, 51, "y");
	say(DATABASE_RENAMED, 11, 52, "old", "x");
	say(DATABASE_RENAMED, 12, 52, "x", "y");
	create(13, 53, "y");
	metadata_encode(60, &head);
	for (int round = 0; round < 2; round++)
	{
		assert_string_equal(metadata_name_of(11), "old");
		assert_string_equal(metadata_name_of(12), "x");
		assert_string_equal(metadata_name_of(13), "y");
		/* what has been said before changes nothing */
		for (size_t at = 0; at < head.len;)
		{
			JournalRecord r;
			size_t		used;

			assert_int_equal(journal_decode(head.data + at, head.len - at, &r, &used), JOURNAL_OK);
			metadata_apply(r.type, r.seq, r.text);
			at += used;
		}
		assert_string_equal(metadata_name_of(11), "old");
		assert_string_equal(metadata_name_of(12), "x");
		if (round == 0)
			read_again(&head);
	}
	buffer_free(&head);
}

/* A database of that name that lockstepctl dropped is not the one that has got the name since. */
static void
test_dropped_before(void **state)
{
	create(21, 2000001, "p");
	metadata_apply(RECORD_DATABASE_ADDED, 2000001, SLICE("q"));
	metadata_apply(RECORD_DATABASE_DROPPED, 2000002, SLICE("q"));
	say(DATABASE_RENAMED, 21, 2000003, "q", "p");
	metadata_apply(RECORD_DATABASE_DROPPED, 2000002, SLICE("q"));
	assert_string_equal(metadata_name_of(21), "q");
	metadata_apply(RECORD_DATABASE_DROPPED, 2000004, SLICE("q"));
	assert_null(metadata_name_of(21));
}

/*
 * What lockstepctl adds is not what DROP DATABASE removed before, of that name: nobody removes it again,
 * and what came before is not its own.  Nor is what another one did that had the name then.
 */
static void
test_added_since(void **state)
{
	Buffer		head = {0};
	int			before = database_events_count();

	create(31, 3000001, "r");
	say(DATABASE_RENAMED, 31, 3000003, "s", "r");
	metadata_apply(RECORD_DATABASE_ADDED, 3000003, SLICE("r"));
	say(DATABASE_REMOVED, 0, 3000005, "r", "");
	assert_false(metadata_has_database("r"));
	assert_int_equal(metadata_dropped_at("r"), 0);
	metadata_apply(RECORD_DATABASE_ADDED, 3000005, SLICE("r"));
	assert_true(metadata_has_database("r"));
	assert_int_equal(metadata_dropped_at("r"), 3000005);
	assert_int_equal(database_events_count(), before + 3);

	/* as the next segment says it */
	metadata_encode(3000006, &head);
	for (size_t at = 0; at < head.len;)
	{
		JournalRecord r;
		size_t		used;

		assert_int_equal(journal_decode(head.data + at, head.len - at, &r, &used), JOURNAL_OK);
		metadata_apply(r.type, r.seq, r.text);
		at += used;
	}
	buffer_free(&head);
	assert_true(metadata_has_database("r"));
	assert_int_equal(metadata_database_number("r"), 0);
	assert_string_equal(metadata_name_of(31), "s");
	assert_int_equal(database_events_count(), before + 3);

	assert_false(database_event_was_name("r", 3000001));
	assert_true(database_event_was_name("r", 3000002));
	assert_true(database_event_was_name("r", 3000003));
	assert_false(database_event_was_name("r", 3000004));
	assert_false(database_event_was_name("s", 3000004));
}

static int64_t
next_lease(LeaseTable *t, const char *database, int64_t value, bool called)
{
	LsLease		r = {.id = 1,.name = SLICE("s"),.increment = 1,.min = 1,.max = INT64_MAX,.value = value,
	.called = called,.wanted = 1,.applied = 100};
	LeaseGrant	g;

	assert_int_equal(lease_request(t, ls_slice_of(database), &r, SLICE("n"), 0, &g), LEASE_GRANTED);
	return g.first + (int64_t) g.count - 1;
}

static void
test_leases(void **state)
{
	LeaseTable *t = lease_table_create();
	char	   *text = database_event_text(DATABASE_RENAMED, 5, "new", "old", "1");
	int64_t		last = next_lease(t, "old", 1, false);

	(void) next_lease(t, "new", 1000, true);	/* of one that had the name */
	lease_database_event(t, ls_slice_of(text));
	assert_true(next_lease(t, "new", 1, true) > last);
	assert_true(next_lease(t, "new", 1, true) < 1000);
	assert_int_equal(lease_count(t), 1);
	assert_true(next_lease(t, "old", 1, false) <= last);	/* another one */
	free(text);
	lease_table_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_one_seq),
		cmocka_unit_test(test_read_again),
		cmocka_unit_test(test_dropped_before),
		cmocka_unit_test(test_added_since),
		cmocka_unit_test(test_leases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
