/*
 * test_nodes.c
 *	  Up to where the journal may be trimmed: what no node has on its disk stays, also when all are out.
 */
#include "unit.h"

#include "membership_private.h"

static Pool pool;

static void
test_flushed(void **state)
{
	Config		config = {.nnodes = 3};

	nodes_init(&config, "", "", NULL);

	/* nobody has said anything yet */
	assert_int_equal(nodes_min_flushed(100), 0);
	for (int i = 0; i < 3; i++)
	{
		node_get(i)->state = NODE_ONLINE;
		node_get(i)->pools = &pool;
		node_get(i)->flushed = 50 + 10 * (uint64_t) i;
	}
	assert_int_equal(nodes_min_flushed(100), 50);

	/* one that is out does not count */
	node_get(0)->state = NODE_DROPPED;
	assert_int_equal(nodes_min_flushed(100), 60);

	/* all are out: one of them has it */
	node_get(1)->state = node_get(2)->state = NODE_DROPPED;
	assert_int_equal(nodes_min_flushed(100), 70);

	/* the first that is back has forgotten what it had not flushed */
	node_get(0)->state = NODE_CATCHUP;
	node_get(0)->flushed = 0;
	assert_int_equal(nodes_min_flushed(100), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flushed)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
