/*
 * test_decided.c
 *	  Identities of decided transactions: found while they are kept, and only
 *	  those.
 */
#include "unit.h"

#include "decided.h"

#define CHUNK 16
#define KEPT 64
#define MOST 128
#define KEPT_MS 1000

static LsIdentity
identity(const char *node, uint64_t n)
{
	return (LsIdentity) {ls_slice_of(node), 0x1122334455667788 + n % 3, (uint32_t) (100 + n % 7), n};
}

static uint64_t ms_each;

static void
add(Decided *d, uint64_t seq)
{
	LsIdentity	id = identity(seq % 2 ? "n1" : "n2", seq);

	decided_add(d, &id, seq, seq * ms_each);
}

static uint64_t
find(const Decided *d, uint64_t seq)
{
	LsIdentity	id = identity(seq % 2 ? "n1" : "n2", seq);

	return decided_find(d, &id);
}

static void
nothing_yet(void **state)
{
	Decided    *d = decided_create(CHUNK, KEPT, MOST, KEPT_MS);

	assert_int_equal(decided_first(d), 0);
	assert_int_equal(find(d, 1), 0);
	decided_free(d);
}

/* Goes on with as many as are kept, but for what is forgotten at once; and all of them are found, no others. */
static void
added_in_time(uint64_t each, uint64_t most)
{
	Decided    *d = decided_create(CHUNK, KEPT, MOST, KEPT_MS);

	ms_each = each;
	for (uint64_t last = 1; last <= 5 * MOST; last++)
	{
		uint64_t	first;

		add(d, last);
		first = decided_first(d);
		assert_true(first == 1 || last - first + 1 >= KEPT);
		assert_true(first == 1 || last - first + 1 > most - 2 * CHUNK);
		assert_true(last - first + 1 <= most + 2 * CHUNK);
		for (uint64_t seq = 1; seq <= last + 3; seq++)
			assert_int_equal(find(d, seq), seq >= first && seq <= last ? seq : 0);
	}
	decided_free(d);
	ms_each = 0;
}

static void
those_kept_are_found(void **state)
{
	added_in_time(KEPT_MS, KEPT);	/* all are old */
	added_in_time(0, MOST);		/* none is */
	added_in_time(KEPT_MS / 100, 100);	/* so many are young */
}

static void
begins_anywhere(void **state)
{
	Decided    *d = decided_create(CHUNK, KEPT, MOST, KEPT_MS);

	for (uint64_t seq = 1000; seq < 1000 + KEPT; seq++)
		add(d, seq);
	assert_int_equal(decided_first(d), 1000);
	assert_int_equal(find(d, 1000), 1000);
	assert_int_equal(find(d, 1000 - KEPT), 0);
	decided_free(d);
}

static void
every_part_of_the_identity_counts(void **state)
{
	Decided    *d = decided_create(CHUNK, KEPT, MOST, KEPT_MS);
	LsIdentity	id = identity("n1", 7);
	LsIdentity	other;

	decided_add(d, &id, 1, 0);
	assert_int_equal(decided_find(d, &id), 1);
	other = id;
	other.node = ls_slice_of("n2");
	assert_int_equal(decided_find(d, &other), 0);
	other = id;
	other.boot++;
	assert_int_equal(decided_find(d, &other), 0);
	other = id;
	other.pid++;
	assert_int_equal(decided_find(d, &other), 0);
	other = id;
	other.xcount++;
	assert_int_equal(decided_find(d, &other), 0);
	decided_free(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_yet),
		cmocka_unit_test(those_kept_are_found),
		cmocka_unit_test(begins_anywhere),
		cmocka_unit_test(every_part_of_the_identity_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
