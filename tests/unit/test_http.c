/*
 * test_http.c
 *	  Proves who may ask over HTTP: which addresses are loopback, what has the token,
 *	  which names of this machine count; and that the last events are kept.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "unit.h"

#include "buffer.h"
#include "events.h"
#include "http_access.h"
#include "loopback.h"

static void
assert_loopback(const char *listen_on, bool loopback)
{
	struct sockaddr_storage address;
	socklen_t	len;

	assert_null(http_resolve(listen_on, &address, &len));
	assert_int_equal(address_is_loopback(&address), loopback);
}

static void
assert_no_address(const char *listen_on)
{
	struct sockaddr_storage address;
	socklen_t	len;
	char	   *error = http_resolve(listen_on, &address, &len);

	assert_non_null(error);
	free(error);
}

static void
addresses(void **state)
{
	static const char *const wrong[] = {"", ":", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:0", "127.0.0.1:65536",
	"127.0.0.1:99999999999999999999", "::1:80", "[::1]", "[]:80", "[::1:80", "127.0.0.1:80 ", "256.0.0.1:80"};

	assert_loopback("127.0.0.1:80", true);
	assert_loopback("127.255.3.4:80", true);
	assert_loopback("[::1]:80", true);
	assert_loopback("[::ffff:127.0.0.1]:80", true);
	assert_loopback("[::ffff:192.0.2.1]:80", false);
	assert_loopback("[::]:80", false);
	assert_loopback("*:80", false);
	assert_loopback("0.0.0.0:80", false);
	assert_loopback("192.0.2.1:80", false);
	assert_loopback("128.0.0.1:80", false);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_no_address(wrong[i]);
}

static void
tokens(void **state)
{
	static const char *const wrong[] = {"", "Bearer", "Bearer ", "Bearer sixteen-letters", "Bearer sixteen-letters!!", "Bearer sixteen-letters! ",
		"sixteen-letters!", "Basic", "Basic ", "Basic =", "Basic ====", "Basic a", "Basic abcd", "Basic c2l4dGVlbi1sZXR0ZXJzIQ==",
	"Basic c2l4dGVlbi1sZXR0ZXJzITo=", "Basic \xff\xff\xff\xff", "Bearersixteen-letters!"};
	Secret		token = {.len = 16};

	memcpy(token.bytes, "sixteen-letters!", 16);
	assert_true(http_has_token(&token, "Bearer sixteen-letters!"));
	assert_true(http_has_token(&token, "bearer   sixteen-letters!"));
	assert_true(http_has_token(&token, "Basic OnNpeHRlZW4tbGV0dGVycyE="));	/* :token */
	assert_true(http_has_token(&token, "basic YTpzaXh0ZWVuLWxldHRlcnMh"));	/* a:token */
	assert_false(http_has_token(&token, NULL));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(http_has_token(&token, wrong[i]));
}

static void
names_of_this_machine(void **state)
{
	static const char *const right[] = {"", "localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8432", "192.0.2.1:80", "[::1]", "[::1]:80"};
	static const char *const wrong[] = {"evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "::1x", "[localhost]", "[::1.evil"};

	assert_true(http_host_is_local(NULL));
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		assert_true(http_host_is_local(right[i]));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(http_host_is_local(wrong[i]));
}

static void
last_events_are_kept(void **state)
{
	char		text[300];

	assert_null(event_get(0));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	event_note("long", text, text, text);
	assert_int_equal(strlen(event_get(0)->node), sizeof(event_get(0)->node) - 1);
	for (int i = 0; i < EVENTS_KEPT + 5; i++)
	{
		snprintf(text, sizeof(text), "%d", i);
		event_note("event", NULL, text, NULL);
	}
	assert_string_equal(event_get(0)->text, "104");
	assert_string_equal(event_get(EVENTS_KEPT - 1)->text, "5");
	assert_string_equal(event_get(0)->node, "");
	assert_null(event_get(EVENTS_KEPT));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(tokens),
		cmocka_unit_test(names_of_this_machine),
		cmocka_unit_test(last_events_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
