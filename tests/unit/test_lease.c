/*
 * test_lease.c
 *	  Proves that no value of a thing is leased twice, whichever node asks and whatever
 *	  is set, renamed or replayed in between, and that a lone asker gets all
 *	  values, in order.
 */
#include "unit.h"

#include "lease.h"
#include "samples.h"

#define SECOND 1000000

static LeaseTable *t;

static int
setup(void **state)
{
	t = lease_table_create();
	return 0;
}

static int
teardown(void **state)
{
	lease_table_free(t);
	return 0;
}

static LsLease
ask_for(const char *name, int64_t value, bool called)
{
	return (LsLease) {.id = 1, .name = ls_slice_of(name), .increment = 1, .min = 1, .max = INT64_MAX,
		.value = value, .called = called, .wanted = 1, .applied = 100};
}

static LeaseGrant
granted(const LsLease *r, const char *node, uint64_t now)
{
	LeaseGrant	g;

	assert_int_equal(lease_request(t, SLICE("db"), r, ls_slice_of(node), now, &g), LEASE_GRANTED);
	assert_true(g.count > 0);
	return g;
}

/* A query with the effect, as the extension forwards it. */
static LsSlice effect_keys;		/* of the next effects */

static bool
effect(uint64_t seq, const char *what, const char *name, const char *value, const char *called, const char *extra)
{
	uint8_t		bytes[512];
	size_t		len = 0;
	const char *params[] = {what, name, value, called, extra};
	LsQuery		q = {.xcount = 1, .form = LS_FORM_STATEMENT, .reason = LS_REASON_SEQUENCE, .nparams = 5};

	for (int i = 0; i < 5; i++)
		len += ls_put_param(bytes + len, sizeof(bytes) - len, params[i], strlen(params[i]));
	q.params = (LsSlice) {bytes, len};
	q.keys = effect_keys;
	q.nkeys = effect_keys.len > 0 ? 2 : 1;
	return lease_effect(t, SLICE("db"), seq, SLICE("a"), &q);
}

static void
test_lone_asker(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	int64_t		next = 1;

	for (int i = 0; i < 20; i++)
	{
		LeaseGrant	g = granted(&r, "a", (uint64_t) i * 1000);

		assert_int_equal(g.first, next);
		next = g.first + (int64_t) g.count;
		r.value = next - 1;
		r.called = true;
	}
	assert_true(next > 100000); /* it grew */
}

static void
test_sizes(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	uint64_t	first = granted(&r, "a", 0).count;

	assert_int_equal(granted(&r, "a", 1000).count, 2 * first);
	assert_int_equal(granted(&r, "a", 10 * SECOND).count, 2 * first);
	assert_int_equal(granted(&r, "a", 60 * SECOND).count, first);
	assert_int_equal(granted(&r, "b", 60 * SECOND).count, first);
	r.wanted = 5000;
	assert_int_equal(granted(&r, "b", 90 * SECOND).count, 5000);
}

/* Small ranges are not given away at once, and end where they should. */
static void
test_limit(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	bool		given[11] = {false};
	LeaseGrant	g;
	int			n = 0;

	r.max = 10;
	while (lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g) == LEASE_GRANTED)
	{
		assert_true(n++ < 10);
		for (uint64_t i = 0; i < g.count; i++)
		{
			assert_in_range(g.first + (int64_t) i, 1, 10);
			assert_false(given[g.first + (int64_t) i]);
			given[g.first + (int64_t) i] = true;
		}
	}
	for (int i = 1; i <= 10; i++)
		assert_true(given[i]);
	r.cycle = true;
	assert_int_equal(granted(&r, "a", 0).first, 1);
}

static void
test_extremes(void **state)
{
	LsLease		r = ask_for("up", INT64_MAX - 1, false);
	LeaseGrant	g;

	r.min = INT64_MIN;
	r.increment = INT64_MAX;
	assert_int_equal(granted(&r, "a", 0).first, INT64_MAX - 1);
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_EXHAUSTED);
	r = ask_for("down", INT64_MAX, false);
	r.min = INT64_MIN;
	r.increment = INT64_MIN;
	g = granted(&r, "a", 0);
	assert_int_equal(g.first, INT64_MAX);
	assert_int_equal(g.count, 1);
	g = granted(&r, "a", 0);
	assert_int_equal(g.first, -1);
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_EXHAUSTED);
	r.cycle = true;
	assert_int_equal(granted(&r, "a", 0).first, INT64_MAX);
	r = ask_for("all", INT64_MIN, false);
	r.min = INT64_MIN;
	r.wanted = UINT64_MAX;
	g = granted(&r, "a", 0);
	assert_int_equal(g.first, INT64_MIN);
	assert_true(g.count == UINT64_MAX);
}

static void
test_set_and_stale(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);

	assert_true(effect(150, "set", "s", "1000", "t", ""));
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_LATER);
	assert_int_equal(g.seq, 150);
	r.applied = 150;
	assert_int_equal(granted(&r, "a", 0).first, 1001);
	assert_true(effect(160, "set", "s", "5", "f", ""));
	r.applied = 160;
	assert_int_equal(granted(&r, "a", 0).first, 5);
	assert_false(effect(170, "used", "s", "5000", "t", ""));
	assert_false(effect(170, "set", "s", "5x", "t", ""));
	assert_false(effect(170, "set", "", "5", "t", ""));
}

/* A node has leases that the journal, a copy, knows nothing of. */
static void
test_reported(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);
	LsSlice		none = {NULL, 0};
	int64_t		end = g.first + (int64_t) g.count - 1;

	assert_false(lease_reported(t, SLICE("db"), SLICE("s"), 100, end, 1, none));
	assert_false(lease_reported(t, SLICE("db"), SLICE("s"), 100, end - 5, 1, none));
	assert_true(lease_reported(t, SLICE("db"), SLICE("s"), 100, end + 32, 1, none));
	assert_int_equal(granted(&r, "b", 0).first, end + 33);

	assert_true(lease_reported(t, SLICE("db"), SLICE("down"), 100, -32, -1, none));
	assert_false(lease_reported(t, SLICE("db"), SLICE("down"), 100, -3, -1, none));
	assert_true(lease_reported(t, SLICE("db"), SLICE("down"), 100, -64, -1, none));
	r = ask_for("down", -1, false);
	r.increment = -1;
	r.min = INT64_MIN;
	r.max = -1;
	assert_int_equal(granted(&r, "b", 0).first, -65);

	/* void, when that node comes to where it was set */
	assert_true(effect(150, "set", "s", "5", "t", ""));
	assert_false(lease_reported(t, SLICE("db"), SLICE("s"), 149, 1000, 1, none));
	r = ask_for("s", 5, true);
	r.applied = 150;
	assert_int_equal(granted(&r, "b", 0).first, 6);
}

/* As 'Q' messages: values of that name used, by who had applied `seen`. */
static bool
outdated(const char *what, const char *name, uint64_t seen, const char *extra, uint64_t *seq)
{
	uint8_t		params[256];
	uint8_t		packed[256];
	uint8_t		message[1024];
	size_t		len = 0;
	const char *texts[] = {what, name, "20", "t", extra};
	LsKey		database = {.hash = 1,.seen = 1000,.mode = LS_TABLE_IX,.name = ls_slice_of("db")};
	LsKey		key = {.hash = 2,.seen = seen,.mode = LS_TABLE_IX,.name = ls_slice_of("public.s")};
	LsQuery		q = {.xcount = 1,.form = LS_FORM_STATEMENT,.reason = LS_REASON_SEQUENCE,.nparams = 5,.nkeys = 2,.text = ls_slice_of("x")};

	for (int i = 0; i < 5; i++)
		len += ls_put_param(params + len, sizeof(params) - len, texts[i], strlen(texts[i]));
	q.params = (LsSlice) {params, len};
	len = ls_put_key(packed, sizeof(packed), &database);
	len += ls_put_key(packed + len, sizeof(packed) - len, &key);
	q.keys = (LsSlice) {packed, len};
	len = ls_put_query(message, sizeof(message), &q);
	assert_true(len <= sizeof(message));
	return lease_outdated(t, SLICE("db"), (LsSlice) {message, len}, &key, seq);
}

/* What was used before the sequence was set does not lead it back. */
static void
test_outdated(void **state)
{
	uint64_t	seq = 0;

	assert_false(outdated("used", "s", 0, "1:20:up", &seq));	/* never set */
	assert_true(effect(150, "set", "s", "5", "t", ""));
	assert_true(outdated("used", "s", 149, "1:20:up", &seq));
	assert_int_equal(seq, 150);
	assert_false(outdated("used", "s", 150, "1:20:up", &seq));
	assert_false(outdated("used", "other", 149, "1:20:up", &seq));
	assert_false(outdated("set", "s", 149, "up", &seq));	/* the later one counts */
	assert_false(outdated("used", "s", 149, "1:20:down", &seq));	/* the nodes stay where it was set */
	assert_true(effect(155, "set", "s", "50", "f", ""));
	assert_false(outdated("used", "s", 154, "1:20:up", &seq));
	assert_true(outdated("used", "s", 154, "1:20:down", &seq));
	assert_true(outdated("used", "s", 154, "1:20:cycle", &seq));
	assert_true(outdated("used", "s", 154, "1:20", &seq));
	assert_true(effect(157, "set", "s", "20", "f", ""));
	assert_true(outdated("used", "s", 156, "1:20:up", &seq));
	assert_true(effect(160, "dropped", "s", "0", "f", ""));
	assert_true(outdated("used", "s", 159, "1:20:up", &seq));
	assert_int_equal(seq, 160);
	assert_false(lease_outdated(t, SLICE("db"), (LsSlice) {(const uint8_t *) "Q", 1}, &(LsKey) {0}, &seq));
}

/* A sequence that has been changed on one node alone is not led back. */
static void
test_asker_is_ahead(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);

	r.value = 7777;
	r.called = true;
	assert_int_equal(granted(&r, "b", 0).first, 7778);
	r.value = 3;
	assert_true(granted(&r, "a", 0).first > 7778);
	assert_true(g.first == 1);
}

static void
count_each(void *arg, LsSlice name, int64_t value, LsSlice keys)
{
	assert_int_equal(name.len, strlen("newest"));
	assert_memory_equal(name.data, "newest", name.len);
	assert_int_equal(keys.len, strlen("its keys"));
	assert_memory_equal(keys.data, "its keys", keys.len);
	++*(int *) arg;
}

/* It is still among those that are made equal after a crash. */
static void
test_moved_with_keys(void **state)
{
	LsLease		r = ask_for("old", 1, false);
	int			n = 0;

	r.keys = SLICE("old keys");
	(void) granted(&r, "a", 0);
	assert_true(effect(120, "moved", "old", "0", "f", "new"));
	lease_each(t, SLICE("db"), count_each, &n);
	assert_int_equal(n, 0);		/* from an extension that gives no keys */
	effect_keys = SLICE("its keys");
	assert_true(effect(121, "moved", "new", "0", "f", "newest"));
	effect_keys = SLICE("");
	lease_each(t, SLICE("db"), count_each, &n);
	assert_int_equal(n, 1);
}

/* What node a has altered goes on behind all that anybody may have handed out. */
static void
test_altered(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);
	int64_t		next;

	/* nobody else has any: the rest of the lease is not lost */
	assert_true(effect(120, "set", "s", "5", "t", "up"));
	r.applied = 120;
	g = granted(&r, "a", 0);
	assert_int_equal(g.first, 6);

	/* another node may have handed out what a has not heard of */
	g = granted(&r, "b", 0);
	next = g.first + (int64_t) g.count;
	assert_true(effect(130, "set", "s", "6", "t", "up"));
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_LATER);
	r.applied = 130;
	r.value = 6;
	assert_int_equal(granted(&r, "a", 0).first, next);

	/* so may one whose leases are of before */
	next = 1000;
	assert_true(effect(140, "set", "s", "1000", "t", "up"));
	r.applied = 140;
	g = granted(&r, "b", 0);
	assert_int_equal(g.first, 1001);
	next = g.first + (int64_t) g.count;
	assert_true(effect(150, "set", "s", "1000", "t", "up"));
	assert_true(effect(151, "set", "s", "1000", "t", "up"));
	r.applied = 151;
	r.max = 1003;				/* what is left within the new bounds may be in
								 * use */
	r.value = 1000;
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_EXHAUSTED);
	r.max = INT64_MAX;
	assert_int_equal(granted(&r, "a", 0).first, next);

	/* the other way those before come again */
	r.increment = -1;
	r.called = true;
	assert_int_equal(granted(&r, "a", 0).first, 999);

	/* RESTART */
	assert_true(effect(160, "set", "s", "3", "f", ""));
	r = ask_for("s", 3, false);
	r.applied = 160;
	assert_int_equal(granted(&r, "a", 0).first, 3);

	/* its server was started anew, and may have forgotten some */
	lease_node_restarted(t, SLICE("a"));
	g = granted(&r, "a", 0);
	assert_true(effect(170, "set", "s", "4", "t", "up"));
	r.applied = 170;
	assert_int_equal(granted(&r, "a", 0).first, g.first + (int64_t) g.count);
}

static void
test_altered_cycle_and_name(void **state)
{
	LsLease		r = ask_for("s", 1, false);
	LeaseGrant	g;

	r.max = 100;
	r.cycle = true;
	(void) granted(&r, "a", 0);
	g = granted(&r, "b", 0);
	assert_true(effect(120, "set", "s", "90", "t", "cycle"));
	r.applied = 120;
	r.value = 90;
	r.called = true;
	assert_int_equal(granted(&r, "a", 0).first, g.first + (int64_t) g.count);

	/* leases under the old name are still used */
	assert_true(effect(130, "set", "s", "7", "t", ""));
	r.cycle = false;
	r.applied = 130;
	r.value = 7;
	g = granted(&r, "b", 0);
	assert_true(effect(140, "moved", "s", "0", "f", "new"));
	assert_true(effect(140, "set", "new", "8", "t", "up"));
	r.name = SLICE("new");
	r.applied = 140;
	assert_int_equal(granted(&r, "a", 0).first, g.first + (int64_t) g.count);
}

/* A node that was out has not applied the move: its name is not that of an unknown sequence. */
static void
test_forgotten(void **state)
{
	LsLease		r = ask_for("old", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);

	assert_true(effect(120, "moved", "old", "0", "f", "new"));
	lease_forget_gone(t, 120);
	assert_int_equal(lease_count(t), 1);
	r.applied = 119;
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("b"), 0, &g), LEASE_LATER);
	assert_int_equal(g.seq, 120);
	r = ask_for("another", 1, false);
	r.applied = 120;
	assert_int_equal(granted(&r, "b", 0).first, 1);
}

static void
test_moved_and_dropped(void **state)
{
	LsLease		r = ask_for("old", 1, false);
	LeaseGrant	g = granted(&r, "a", 0);
	int64_t		next = g.first + (int64_t) g.count;

	assert_true(effect(120, "moved", "old", "0", "f", "new"));
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_LATER);
	r = ask_for("new", 1, true);
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_LATER);
	r.applied = 120;
	assert_int_equal(granted(&r, "a", 0).first, next);

	/* another one of the old name */
	r = ask_for("old", 3, false);
	r.applied = 120;
	assert_int_equal(granted(&r, "a", 0).first, 3);
	assert_true(effect(130, "dropped", "old", "0", "f", ""));
	assert_int_equal(lease_request(t, SLICE("db"), &r, SLICE("a"), 0, &g), LEASE_LATER);
	r.applied = 130;
	assert_int_equal(granted(&r, "a", 0).first, 3);
	assert_int_equal(lease_count(t), 2);
	assert_true(effect(140, "dropped", "old", "0", "f", ""));
	lease_forget_gone(t, 139);
	assert_int_equal(lease_count(t), 2);
	lease_forget_gone(t, 140);
	assert_int_equal(lease_count(t), 1);
	lease_forget_database(t, SLICE("other"));
	assert_int_equal(lease_count(t), 1);
	lease_forget_database(t, SLICE("db"));
	assert_int_equal(lease_count(t), 0);
}

static void
copy_one(void *arg, LsSlice text)
{
	assert_true(lease_decode(arg, text));
}

/* What is read from the journal goes on where it was. */
static void
test_records(void **state)
{
	LeaseTable *before = t;
	LsLease		r = ask_for("public.\"a b\"", 10, true);
	LsLease		down = ask_for("d", -5, false);
	Buffer		text = {0};
	LeaseGrant	g;
	int64_t		next;

	down.min = INT64_MIN;
	down.max = 0;
	down.increment = -3;
	g = granted(&down, "a", 0);
	g = granted(&r, "a", 0);
	next = g.first + (int64_t) g.count;
	effect(99, "dropped", "x", "0", "f", "");
	t = lease_table_create();
	lease_encode_all(before, copy_one, t);
	assert_int_equal(lease_count(t), 2);
	assert_int_equal(granted(&r, "b", 0).first, next);

	lease_encode(before, SLICE("db"), SLICE("nothing"), &text);
	assert_int_equal(text.len, 0);
	lease_encode(before, SLICE("db"), r.name, &text);
	assert_true(text.len > 0);
	for (size_t len = 0; len < text.len; len++)
		(void) lease_decode(t, (LsSlice) {text.data, len});
	assert_false(lease_decode(t, SLICE("")));
	assert_false(lease_decode(t, SLICE("1 t 3 2 db")));
	assert_false(lease_decode(t, SLICE("1 x 3 2 dbs")));
	assert_false(lease_decode(t, SLICE("1 t -3 2 dbs")));
	assert_false(lease_decode(t, SLICE("1 t 3 200 dbs")));
	assert_false(lease_decode(t, SLICE("1 t 3 -2 dbs")));
	buffer_free(&text);
	lease_table_free(t);
	t = before;
}

/* Three nodes at random: every value at most once between two settings. */
static void
test_random(void **state)
{
	static bool given[2000001];
	LsLease		r = ask_for("s", 1, false);
	const char *nodes[] = {"a", "b", "c"};
	uint64_t	now = 0;
	int64_t		highest = 0;

	unit_seed(1);
	memset(given, 0, sizeof(given));
	for (int i = 0; i < 300; i++)
	{
		LeaseGrant	g;

		now += unit_random() % (30 * SECOND);
		r.value = highest > 0 ? 1 + (int64_t) (unit_random() % (uint64_t) highest) : 1;
		r.called = highest > 0;
		g = granted(&r, nodes[unit_random() % 3], now);
		for (uint64_t k = 0; k < g.count && g.first + (int64_t) k <= 2000000; k++)
		{
			assert_false(given[g.first + (int64_t) k]);
			given[g.first + (int64_t) k] = true;
		}
		highest = g.first + (int64_t) g.count - 1;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lone_asker, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_extremes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_and_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outdated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asker_is_ahead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_with_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_altered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_altered_cycle_and_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_and_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
