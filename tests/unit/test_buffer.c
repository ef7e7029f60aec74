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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_traffic),
		cmocka_unit_test(test_empty_starts_over),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
