/*
 * test_strangers.c
 *	  Connections to the port of the members that have proved nothing: who loses which.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "strangers.h"

typedef struct Visitor
{
	int			theirs;
	int			ours;
	Stranger   *stranger;
}			Visitor;

static int	listener;
static struct sockaddr_in at;

static int
begin(void **unused)
{
	socklen_t	len = sizeof(at);

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	at = (struct sockaddr_in) {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return bind(listener, (struct sockaddr *) &at, len) != 0 || listen(listener, 8) != 0 ||
		getsockname(listener, (struct sockaddr *) &at, &len) != 0;
}

/* From 127.0.0.`host`. */
static Visitor
come(int host)
{
	struct sockaddr_in from = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + (uint32_t) host)};
	Visitor		v;

	v.theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(v.theirs, (struct sockaddr *) &from, sizeof(from)), 0);
	assert_int_equal(connect(v.theirs, (struct sockaddr *) &at, sizeof(at)), 0);
	v.ours = accept(listener, NULL, NULL);
	assert_true(v.ours >= 0);
	v.stranger = strangers_add(v.ours);
	assert_non_null(v.stranger);
	return v;
}

static void
go(Visitor * v)
{
	close(v->ours);
	if (v->stranger != NULL)
		strangers_remove(v->stranger);
	close(v->theirs);
}

static bool
is_ended(const Visitor * v)
{
	struct pollfd p = {v->ours, POLLIN, 0};

	return poll(&p, 1, 0) > 0;
}

/* The oldest of an address that has too many ends, and none of another address. */
static void
test_one_address(void **unused)
{
	Visitor		member = come(2);
	Visitor		many[3 * STRANGERS_OF_ADDRESS];
	const int	n = sizeof(many) / sizeof(many[0]);

	for (int i = 0; i < n; i++)
		many[i] = come(1);
	for (int i = 0; i < n; i++)
		assert_int_equal(is_ended(&many[i]), i < n - STRANGERS_OF_ADDRESS);
	assert_false(is_ended(&member));

	/* who has proved who he is, does not count, and ends for nobody */
	for (int i = n - STRANGERS_OF_ADDRESS; i < n; i++)
	{
		strangers_remove(many[i].stranger);
		many[i].stranger = NULL;
	}
	for (int i = 0; i < n - STRANGERS_OF_ADDRESS; i++)
	{
		go(&many[i]);
		many[i] = come(1);
	}
	for (int i = n - STRANGERS_OF_ADDRESS; i < n; i++)
		assert_false(is_ended(&many[i]));
	for (int i = 0; i < n; i++)
		go(&many[i]);
	go(&member);
}

/* From many addresses: the oldest of all. */
static void
test_many_addresses(void **unused)
{
	Visitor		many[STRANGERS_MAX + 10];
	const int	n = sizeof(many) / sizeof(many[0]);

	for (int i = 0; i < n; i++)
		many[i] = come(1 + i % 20);
	for (int i = 0; i < n; i++)
		assert_int_equal(is_ended(&many[i]), i < n - STRANGERS_MAX);
	for (int i = 0; i < n; i++)
		go(&many[i]);
}

/* Its descriptor may be another file's by the time that it is to end. */
static void
test_closed_descriptor(void **unused)
{
	Visitor		first = come(1);
	Visitor		many[STRANGERS_OF_ADDRESS];
	int			pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(dup2(pair[0], first.ours), first.ours);
	for (int i = 0; i < STRANGERS_OF_ADDRESS; i++)
		many[i] = come(1);
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_false(is_ended(&many[0]));
	for (int i = 0; i < STRANGERS_OF_ADDRESS; i++)
		go(&many[i]);
	go(&first);
	close(pair[0]);
	close(pair[1]);
}

static void
test_lines(void **unused)
{
	char		path[] = "/tmp/lockstep-strangers-XXXXXX";
	int			fd = mkstemp(path);
	FILE	   *f;
	char		line[500];
	int			n = 0;

	assert_true(fd >= 0);
	close(fd);
	log_open(path, LOG_DEBUG);
	for (int i = 0; i < 1000; i++)
		strangers_log(LOG_NOTICE, i % 2 == 0 ? "r1" : NULL, "refused: %d", i);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		n += strstr(line, "refused: ") != NULL;
	fclose(f);
	assert_int_equal(n, 20);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_address),
		cmocka_unit_test(test_many_addresses),
		cmocka_unit_test(test_closed_descriptor),
		cmocka_unit_test(test_lines)
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
