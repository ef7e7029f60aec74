/*
 * test_buffer.c
 *	  Proves that a buffer gives back what was put in, in order, whatever the
 *	  sizes, and that one which is filled and drained for ever doesn't grow.
 */
#include "unit.h"

#include "buffer.h"

static void
test_random_traffic(void **state)
{
	Buffer		b = {0};
	uint8_t		next_in = 0,
				next_out = 0;

	unit_seed(5);
	for (int i = 0; i < 100000; i++)
	{
		uint8_t		bytes[300];
		size_t		n = unit_below(sizeof(bytes));

		if (b.len - b.pos < 2000 && unit_below(2))
		{
			for (size_t j = 0; j < n; j++)
				bytes[j] = next_in++;
			buffer_append(&b, bytes, n);
		}
		else
		{
			if (n > b.len - b.pos)
				n = b.len - b.pos;
			for (size_t j = 0; j < n; j++)
				assert_int_equal(b.data[b.pos + j], next_out++);
			buffer_consume(&b, n);
		}
	}
	assert_in_range(b.cap, 1, 16384);
	buffer_free(&b);
}

static void
test_empty_starts_over(void **state)
{
	Buffer		b = {0};

	buffer_append(&b, "abc", 3);
	buffer_append(&b, NULL, 0);
	buffer_consume(&b, 1);
	assert_int_equal(b.pos, 1);
	buffer_consume(&b, 2);
	assert_int_equal(b.pos, 0);
	assert_int_equal(b.len, 0);
	buffer_free(&b);
	assert_null(b.data);
	buffer_append(&b, "d", 1);
	assert_int_equal(b.data[0], 'd');
	buffer_free(&b);
}

static void
test_reserve(void **state)
{
	Buffer		b = {0};

	buffer_reserve(&b, 0);
	buffer_reserve(&b, 100000);
	assert_in_range(b.cap, 100000, 262144);
	assert_int_equal(b.len, 0);
	memset(b.data, 1, 100000);
	buffer_free(&b);
}

static void
test_strings(void **state)
{
	char	   *s = xstrndup("abcdef", 3);
	char	   *t = xasprintf("%s-%d", s, 7);
	char	   *u = xstrdup(t);
	char	   *v = xstrndup(NULL, 0);

	assert_string_equal(u, "abc-7");
	assert_string_equal(v, "");
	free(s);
	free(t);
	free(u);
	free(v);
}

static void
test_text_is_cut_between_characters(void **state)
{
	static const char text[] = "a\xc3\xa4\xe2\x82\xac!";	/* of 1, 2, 3 and 1 bytes */
	static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 7, 7};

	for (size_t max = 0; max < sizeof(expected) / sizeof(expected[0]); max++)
		assert_int_equal(text_cut(text, strlen(text), max), expected[max]);
}

static void
test_text_is_utf8_or_not(void **state)
{
	static const char *const good[] = {"", "a", "\xc3\xa4", "a\xe2\x82\xac!", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\xe4", "a\xc3", "\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\x80", "\xe2\x82'", "\xf8\x88\x80\x80\x80", "\xff"};
	char		text[] = "a\xe4z\0\xff";

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(text_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(text_is_utf8(bad[i], strlen(bad[i])));
	assert_false(text_is_utf8("a\0b", 3));
	text_make_ascii(text, 5);
	assert_string_equal(text, "a?z??");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_traffic),
		cmocka_unit_test(test_empty_starts_over),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_text_is_cut_between_characters),
		cmocka_unit_test(test_text_is_utf8_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
