/*
 * test_resolve.c
 *	  Proves that host names are resolved off the loop (replicator/base/resolve.c): a
 *	  name server that is slow delays nothing else, lists keep their length, errors
 *	  arrive, and what was cancelled is never heard of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>

#include "loop.h"
#include "resolve.h"

static char order[100];			/* what happened */
static char hosts_seen[200];
static char addresses_seen[200];
static char error_seen[200];

/* Instead of libc's: names that the test invents. */
static struct addrinfo *
address(const char *text, struct addrinfo *next)
{
	struct addrinfo *a = calloc(1, sizeof(struct addrinfo));
	struct sockaddr_in *sa = calloc(1, sizeof(struct sockaddr_in));

	sa->sin_family = AF_INET;
	inet_pton(AF_INET, text, &sa->sin_addr);
	a->ai_family = AF_INET;
	a->ai_addr = (struct sockaddr *) sa;
	a->ai_addrlen = sizeof(*sa);
	a->ai_next = next;
	return a;
}

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
	if (strcmp(name, "slow.test") == 0)
		usleep(300000);
	if (strcmp(name, "nowhere.test") == 0)
		return EAI_NONAME;
	*found = address("10.0.0.1", strcmp(name, "two.test") == 0 ? address("10.0.0.2", NULL) : NULL);
	return 0;
}

void
freeaddrinfo(struct addrinfo *a)
{
	while (a != NULL)
	{
		struct addrinfo *next = a->ai_next;

		free(a->ai_addr);
		free(a);
		a = next;
	}
}

static void
on_done(void *arg, const char *hosts, const char *addresses, const char *error)
{
	strcat(order, arg);
	strcpy(hosts_seen, error != NULL ? "" : hosts);
	strcpy(addresses_seen, error != NULL ? "" : addresses);
	strcpy(error_seen, error != NULL ? error : "");
}

static void
on_timer(void *arg)
{
	strcat(order, arg);
}

static void
on_end(void *arg)
{
	loop_stop();
}

static void
run_for(int ms)
{
	loop_after(ms, on_end, NULL);
	loop_run();
}

static int
reset(void **state)
{
	order[0] = hosts_seen[0] = addresses_seen[0] = error_seen[0] = '\0';
	return 0;
}

static void
needed_for_names_only(void **state)
{
	assert_false(resolve_is_needed("127.0.0.1"));
	assert_false(resolve_is_needed("::1"));
	assert_false(resolve_is_needed("/run/postgresql"));
	assert_false(resolve_is_needed("@socket"));
	assert_false(resolve_is_needed(""));
	assert_false(resolve_is_needed("10.0.0.1,10.0.0.2"));
	assert_true(resolve_is_needed("localhost"));
	assert_true(resolve_is_needed("10.0.0.1,db.example"));
	assert_true(resolve_is_needed("1.2.3.4.5"));
}

static void
the_loop_goes_on(void **state)
{
	(void) resolve_start("slow.test", on_done, "slow ");
	(void) resolve_start("quick.test", on_done, "quick ");
	loop_after(150, on_timer, "timer ");
	run_for(600);
	assert_string_equal(order, "quick timer slow ");
	assert_string_equal(hosts_seen, "slow.test");
	assert_string_equal(addresses_seen, "10.0.0.1");
}

static void
all_addresses_of_one_name(void **state)
{
	(void) resolve_start("two.test", on_done, "x");
	run_for(100);
	assert_string_equal(hosts_seen, "two.test,two.test");
	assert_string_equal(addresses_seen, "10.0.0.1,10.0.0.2");
}

static void
lists_keep_their_length(void **state)
{
	(void) resolve_start("two.test,10.1.1.1,quick.test", on_done, "x");
	run_for(100);
	assert_string_equal(hosts_seen, "two.test,10.1.1.1,quick.test");
	assert_string_equal(addresses_seen, "10.0.0.1,10.1.1.1,10.0.0.1");
}

static void
errors_arrive(void **state)
{
	(void) resolve_start("nowhere.test", on_done, "x");
	run_for(100);
	assert_string_equal(order, "x");
	assert_non_null(strstr(error_seen, "nowhere.test"));
}

static void
cancelled_is_forgotten(void **state)
{
	Resolve    *r = resolve_start("slow.test", on_done, "never");

	resolve_cancel(r);
	resolve_cancel(NULL);
	run_for(500);
	assert_string_equal(order, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(needed_for_names_only, reset),
		cmocka_unit_test_setup(the_loop_goes_on, reset),
		cmocka_unit_test_setup(all_addresses_of_one_name, reset),
		cmocka_unit_test_setup(lists_keep_their_length, reset),
		cmocka_unit_test_setup(errors_arrive, reset),
		cmocka_unit_test_setup(cancelled_is_forgotten, reset),
	};

	loop_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
