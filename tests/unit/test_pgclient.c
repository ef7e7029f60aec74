/*
 * test_pgclient.c
 *	  When pgclient.c says that a server has been heard: not by what each postmaster answers, before
 *	  it refuses the connection, but as soon as it has authenticated us, however slowly it goes on.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "loop.h"
#include "pgclient.h"

static const char authenticated[] = {'R', 0, 0, 0, 8, 0, 0, 0, 0};
static const char starting_up[] = "E\0\0\0\x30" "SFATAL\0" "C57P03\0" "Mthe database is starting up\0";

static int	listener;
static int	server = -1;		/* its end of the connection */
static Watch *listener_watch;
static Watch *server_watch;
static const char *answer;
static size_t answer_len;
static int	answers;			/* to the request for TLS, then to the startup
								 * packet */
static bool ended;

static void
on_failed(void *arg, const char *error)
{
	assert_non_null(error);
	ended = true;
	loop_stop();
}

static void
on_request(void *arg, uint32_t events)
{
	char		packet[1000];
	ssize_t		n = read(server, packet, sizeof(packet));

	if (n <= 0)
		return;
	if (answers++ == 0)
		assert_int_equal(write(server, "N", 1), 1);
	else
		assert_int_equal(write(server, answer, answer_len), answer_len);
}

static void
on_client(void *arg, uint32_t events)
{
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(server >= 0);
	server_watch = loop_watch(server, EPOLLIN, on_request, NULL);
}

/* Until the attempt has failed: it is refused, or time is up. */
static void
connect_with(const char *text, size_t len)
{
	struct sockaddr_in at = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	size = sizeof(at);
	char		conninfo[100];
	NodeConfig	node = {0};

	answer = text;
	answer_len = len;
	answers = 0;
	ended = false;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *) &at, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *) &at, &size), 0);
	snprintf(conninfo, sizeof(conninfo), "host=127.0.0.1 port=%d user=u sslmode=prefer gssencmode=disable", ntohs(at.sin_port));
	node.conninfo = conninfo;
	snprintf(node.name, sizeof(node.name), "n1");
	listener_watch = loop_watch(listener, EPOLLIN, on_client, NULL);
	(void) pgclient_open(&node, "d", "a", "", 300, on_failed, NULL);
	loop_run();
	assert_true(ended);
	assert_int_equal(answers, 2);
	loop_unwatch(server_watch);
	loop_unwatch(listener_watch);
	close(server);
	close(listener);
}

static void
test_refused(void **state)
{
	connect_with(starting_up, sizeof(starting_up));
	assert_int_equal(pgclient_heard_us(), 0);
}

static void
test_slow(void **state)
{
	connect_with(authenticated, sizeof(authenticated));
	assert_int_not_equal(pgclient_heard_us(), 0);
}

/* Each address of a host has a line of its own, some with advice behind a tab. */
static void
test_message(void **state)
{
	static const char several[] =
		"connection to server at \"db1\" (::1), port 5432 failed: Connection refused\n"
		"\tIs the server running on that host and accepting TCP/IP connections?\n"
		"connection to server at \"db1\" (127.0.0.1), port 5432 failed: FATAL:  out of shared memory\n";
	char		long_text[3000];

	assert_string_equal(pgclient_message("ERROR:  no\n"), "no");
	assert_string_equal(pgclient_message(""), "");
	assert_string_equal(pgclient_message("\n\n"), "");
	assert_string_equal(pgclient_message("FATAL:  a\tb\nc"), "a b c");
	assert_string_equal(pgclient_message(several),
						"connection to server at \"db1\" (::1), port 5432 failed: Connection refused "
						"connection to server at \"db1\" (127.0.0.1), port 5432 failed: FATAL:  out of shared memory");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	assert_int_equal(strlen(pgclient_message(long_text)), 1023);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_slow),
	};

	loop_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
