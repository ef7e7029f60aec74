/*
 * test_group.c
 *	  A group of replicators: the key in etcd, and where a copy of the journal can go on.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "group_key.h"
#include "group_state.h"

static GroupKey
example(void)
{
	GroupKey	k = {.cluster = "00112233445566778899aabbccddeeff",.epoch = 7,.run = 0xfedcba9876543210,.leader = "r1"};

	group_key_add(&k, "r1");
	group_key_add(&k, "r2");
	return k;
}

static void
test_key_text(void **unused)
{
	GroupKey	k = example();
	GroupKey	read;
	char	   *text = group_key_text(&k);

	assert_true(group_key_parse(text, &read));
	assert_true(group_key_same(&k, &read));
	free(text);
	group_key_remove(&read, "r2");
	assert_false(group_key_same(&k, &read));
	assert_true(group_key_has(&k, "r2"));
	assert_false(group_key_has(&read, "r2"));
}

static void
test_malformed_keys(void **unused)
{
	static const char *const texts[] = {
		"", "{}", "[]", "7", "{\"epoch\":1}",
		/* the leader is not in sync */
		"{\"cluster\":\"c\",\"epoch\":1,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r2\"]}",

		/*
		 * no epoch; a run that is no number; a name that is none; a member
		 * twice; too many members
		 */
		"{\"cluster\":\"c\",\"epoch\":0,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r1\"]}",
		"{\"cluster\":\"c\",\"epoch\":1,\"run\":\"x\",\"leader\":\"r1\",\"in_sync\":[\"r1\"]}",
		"{\"cluster\":\"c\",\"epoch\":1,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r1\",7]}",
		"{\"cluster\":\"c\",\"epoch\":1,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r1\",\"r1\"]}",
		"{\"cluster\":\"c\",\"epoch\":1,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\"]}",
		"{\"cluster\":\"0123456789012345678901234567890123456789\",\"epoch\":1,\"run\":\"1\",\"leader\":\"r1\",\"in_sync\":[\"r1\"]}"
	};
	GroupKey	k;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(group_key_parse(texts[i], &k));
}

/* Who replaces the leader leaves him out; who was restarted keeps the others. */
static void
test_taken_over(void **unused)
{
	GroupKey	k = example();
	GroupKey	by_other = group_key_taken_over(&k, "r2", 5);
	GroupKey	again = group_key_taken_over(&k, "r1", 6);

	assert_int_equal(by_other.epoch, 8);
	assert_int_equal(by_other.run, 5);
	assert_string_equal(by_other.leader, "r2");
	assert_int_equal(by_other.n, 1);
	assert_true(group_key_has(&by_other, "r2"));
	assert_int_equal(again.epoch, 8);
	assert_int_equal(again.n, 2);
}

static JournalPlace
at(uint64_t segment, uint64_t offset)
{
	JournalPlace place;

	place.segment = segment;
	place.offset = offset;
	return place;
}

static GroupState
history(void)
{
	GroupState	s = {.name = "r1"};

	group_state_begin_epoch(&s, 1, at(1, 100));
	group_state_begin_epoch(&s, 2, at(1, 5000));
	group_state_begin_epoch(&s, 4, at(50, 300));
	return s;
}

static void
test_common(void **unused)
{
	GroupState	s = history();
	JournalPlace common;

	/*
	 * a copy of the last epoch goes on at its end; one of an earlier epoch at
	 * most where the next begins
	 */
	assert_true(group_state_common(&s, 4, at(60, 10), &common));
	assert_int_equal(journal_place_compare(common, at(60, 10)), 0);
	assert_true(group_state_common(&s, 2, at(60, 10), &common));
	assert_int_equal(journal_place_compare(common, at(50, 300)), 0);
	assert_true(group_state_common(&s, 2, at(50, 299), &common));
	assert_int_equal(journal_place_compare(common, at(50, 299)), 0);
	assert_true(group_state_common(&s, 1, at(50, 299), &common));
	assert_int_equal(journal_place_compare(common, at(1, 5000)), 0);

	/* or where one after that begins, whose leader had less */
	group_state_begin_epoch(&s, 6, at(40, 7));
	assert_true(group_state_common(&s, 2, at(60, 10), &common));
	assert_int_equal(journal_place_compare(common, at(40, 7)), 0);

	/*
	 * of an epoch that the journal does not know, nothing is known; nor of no
	 * journal
	 */
	assert_false(group_state_common(&s, 3, at(60, 10), &common));
	assert_false(group_state_common(&s, 5, at(60, 10), &common));
	assert_false(group_state_common(&s, 4, at(0, 0), &common));
}

static void
test_history_is_bounded(void **unused)
{
	GroupState	s = {.name = "r1"};
	JournalPlace common;

	for (uint64_t epoch = 1; epoch <= GROUP_HISTORY + 10; epoch++)
		group_state_begin_epoch(&s, epoch, at(epoch, 1));
	assert_int_equal(s.n, GROUP_HISTORY);
	assert_int_equal(s.promised, GROUP_HISTORY + 10);
	assert_false(group_state_common(&s, 10, at(5, 5), &common));
	assert_true(group_state_common(&s, 11, at(11, 5), &common));
}

static void
test_state_file(void **unused)
{
	char		dir[] = "/tmp/lockstep-group-XXXXXX";
	GroupState	s = history();
	GroupState	read;
	char	   *error;
	char	   *path;
	FILE	   *f;

	assert_non_null(mkdtemp(dir));
	assert_true(group_state_read(dir, &read, &error));
	assert_int_equal(read.n, 0);
	s.etcd_cluster = UINT64_C(0x7cdef01234567890);
	s.etcd_revision = 1234567;
	assert_true(group_state_write(dir, &s));
	assert_true(group_state_read(dir, &read, &error));
	assert_memory_equal(&s, &read, sizeof(s));

	path = xasprintf("%s/group", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"name\":", f);
	fclose(f);
	assert_false(group_state_read(dir, &read, &error));
	assert_non_null(strstr(error, "not what a replicator has written"));
	free(error);
	unlink(path);
	rmdir(dir);
	free(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key_text),
		cmocka_unit_test(test_malformed_keys),
		cmocka_unit_test(test_taken_over),
		cmocka_unit_test(test_common),
		cmocka_unit_test(test_history_is_bounded),
		cmocka_unit_test(test_state_file)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
