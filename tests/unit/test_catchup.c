/*
 * test_catchup.c
 *	  Proves what lockstepctl status says of the time that a node needs to catch up.
 */
#include "unit.h"

#include "catchup_estimate.h"

#define SECOND_US UINT64_C(1000000)
#define DAY_US (86400 * SECOND_US)

static void
expect_left(CatchupSoFar sofar, uint64_t rate, uint64_t seconds)
{
	uint64_t	r;
	uint64_t	s;

	assert_true(catchup_time_left(&sofar, &r, &s));
	assert_int_equal(r, rate);
	assert_int_equal(s, seconds);
}

static void
expect_unknown(CatchupSoFar sofar, uint64_t rate)
{
	uint64_t	r;
	uint64_t	s;

	assert_false(catchup_time_left(&sofar, &r, &s));
	assert_int_equal(r, rate);
}

static void
test_nothing_comes(void **state)
{
	expect_left((CatchupSoFar) {2 * SECOND_US, 1000, 0, 5000}, 500, 10);
	expect_left((CatchupSoFar) {2 * SECOND_US, 1000, 0, 0}, 500, 0);
	expect_left((CatchupSoFar) {SECOND_US / 2, 300, 0, 900}, 600, 1);	/* and a half */
}

/* It applies 500 a second, 400 come: the lag shrinks by 100. */
static void
test_others_go_on(void **state)
{
	expect_left((CatchupSoFar) {2 * SECOND_US, 1000, 800, 5000}, 500, 50);
	expect_left((CatchupSoFar) {10 * SECOND_US, 11, 10, 7}, 1, 70);
}

static void
test_falls_behind(void **state)
{
	expect_unknown((CatchupSoFar) {2 * SECOND_US, 1000, 1000, 5000}, 500);
	expect_unknown((CatchupSoFar) {2 * SECOND_US, 1000, 1200, 5000}, 500);
	expect_unknown((CatchupSoFar) {60 * SECOND_US, 0, 0, 5000}, 0); /* it stands */
}

static void
test_too_early(void **state)
{
	expect_unknown((CatchupSoFar) {0, 0, 0, 5000}, 0);
	expect_unknown((CatchupSoFar) {299999, 200, 0, 5000}, 0);
	expect_left((CatchupSoFar) {300000, 300, 0, 5000}, 1000, 5);
}

/* lag times microseconds is more than 64 bits hold. */
static void
test_large(void **state)
{
	expect_left((CatchupSoFar) {10 * DAY_US, UINT64_C(8640000000), 0, UINT64_C(86400000000)}, 10000, 100 * 86400);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_comes),
		cmocka_unit_test(test_others_go_on),
		cmocka_unit_test(test_falls_behind),
		cmocka_unit_test(test_too_early),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
