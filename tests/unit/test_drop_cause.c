/*
 * test_drop_cause.c
 *	  The table of causes for which a node is dropped: each has a name of its own, a
 *	  text that its facts fill, a part of the program that notices it, and a way back.
 */
#include <stdio.h>
#include <string.h>

#include "drop_cause.h"
#include "unit.h"

#define FOR_EACH_CAUSE(c) for (DropCause c = DROP_NONE + 1; c < NDROP_CAUSES; c++)

static const DropFacts all_facts = {
	.self = "n1",.node = "n2",.database = "app",.what = "looking",.error = "an error",.sqlstate = "XX000",
	.found = "this",.expected = "that",.seq = 3,.journal = 4,.chain = 5,.journal_chain = 6,.generation = 7,.run = 8,
	.transactions = 9,.megabytes = 10,.pid = 11,.blocker = 12,.times = 13,.ms = 14000
};

static void
test_rows(void **state)
{
	FOR_EACH_CAUSE(c)
	{
		const DropRule *r = drop_rule(c);

		assert_non_null(r->name);
		assert_int_equal(strspn(r->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(r->name));
		assert_non_null(r->text);
		assert_non_null(r->noticed_by);
		assert_true(r->level == LOG_NOTICE || r->level == LOG_WARNING);
		assert_non_null(drop_return_name(r->returns));
		for (DropCause other = DROP_NONE + 1; other < c; other++)
			assert_string_not_equal(drop_rule(other)->name, r->name);
	}
}

/* "The same" means the row before: there has to be one with something of its own. */
static void
test_noticed(void **state)
{
	assert_string_not_equal(drop_rule(DROP_NONE + 1)->noticed_by, "the same");
}

static void
test_texts(void **state)
{
	FOR_EACH_CAUSE(c)
	{
		DropReason	r = drop_reason(c, all_facts);
		char		hint[DROP_TEXT_SIZE];

		assert_int_equal(r.cause, c);
		assert_true(r.text[0] != '\0');
		assert_null(strpbrk(r.text, "{}"));
		drop_hint(c, "n1", hint);
		assert_true(hint[0] != '\0');
		assert_null(strpbrk(hint, "{}"));
	}
}

static void
test_facts(void **state)
{
	assert_string_equal(drop_reason(DROP_APPLY_FAILED, all_facts).text, "could not apply seq 3: an error (XX000)");
	assert_string_equal(drop_reason(DROP_HUNG, all_facts).text, "has not answered for 14 s");
	assert_non_null(strstr(drop_reason(DROP_LAG, all_facts).text, "tried again after 14.0 s"));
	assert_non_null(strstr(drop_reason(DROP_OTHER_PAST, all_facts).text, "(chain 0000000000000005 there, 0000000000000006 in"));
	/* a fact that was not given is empty, and braces in one are its own */
	assert_string_equal(drop_reason(DROP_CONTROL_LOST, FACTS()).text, "lost the control connection: ");
	assert_string_equal(drop_reason(DROP_CONTROL_LOST, FACTS(.error = "{seq}")).text, "lost the control connection: {seq}");
}

static void
test_long_facts(void **state)
{
	char		error[2 * DROP_TEXT_SIZE];
	DropReason	r;

	memset(error, 'x', sizeof(error) - 1);
	error[sizeof(error) - 1] = '\0';
	r = drop_reason(DROP_APPLY_FAILED, FACTS(.seq = 3,.error = error,.sqlstate = "XX000"));
	assert_int_equal(strlen(r.text), DROP_TEXT_SIZE - 1);
	assert_memory_equal(r.text, "could not apply seq 3: xxx", 26);
}

static void
test_no_hint(void **state)
{
	char		hint[DROP_TEXT_SIZE];

	drop_hint(DROP_NONE, "n1", hint);
	assert_string_equal(hint, "");
	drop_hint(DROP_COMMAND, "n1", hint);
	assert_string_equal(hint, "Run: lockstepctl attach n1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_noticed),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_long_facts),
		cmocka_unit_test(test_no_hint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
