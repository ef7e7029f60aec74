/*
 * test_loop.c
 *	  Proves the promises of loop.h: timers fire in order and never early, a
 *	  cancelled one never; deferred work runs once per round, before the loop
 *	  waits, without starving sockets; a callback may end any watch, and a
 *	  descriptor that was closed and given to somebody else stays theirs.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#include "buffer.h"
#include "loop.h"

static char trace[64];

static void
note(const char *what)
{
	assert_true(strlen(trace) + strlen(what) < sizeof(trace));
	strcat(trace, what);
}

static uint64_t
clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static int
reset(void **state)
{
	trace[0] = '\0';
	return 0;
}

static int
start(void **state)
{
	loop_init();
	return 0;
}

static void
on_timer(void *arg)
{
	note(arg);
	if (strcmp(arg, "!") == 0)
		loop_stop();
}

/* ---------- timers */

static void
timers_fire_in_order(void **state)
{
	loop_after(30, on_timer, "!");
	loop_after(10, on_timer, "b");
	loop_after(20, on_timer, "d");
	loop_after(10, on_timer, "c");	/* due with b, made later */
	loop_after(0, on_timer, "a");
	loop_run();
	assert_string_equal(trace, "abcd!");
}

static void
timers_are_never_early(void **state)
{
	uint64_t	before = clock_us();

	loop_after(25, on_timer, "!");
	loop_run();
	assert_true(clock_us() - before >= 25000);
	assert_true(loop_now_us() - before >= 25000);
}

static void
cancelled_timers_do_not_fire(void **state)
{
	Timer	   *timers[100];

	for (int i = 0; i < 100; i++)
		timers[i] = loop_after((i * 37) % 20, on_timer, i % 2 ? "x" : ".");
	for (int i = 1; i < 100; i += 2)
		loop_cancel(timers[i]);
	loop_cancel(NULL);
	loop_after(25, on_timer, "!");
	loop_run();
	assert_int_equal(strlen(trace), 51);
	assert_null(strchr(trace, 'x'));
}

static Timer *self;

static void
cancel_self(void *arg)
{
	loop_cancel(self);
	loop_stop();
}

static void
timer_may_cancel_itself(void **state)
{
	self = loop_after(0, cancel_self, NULL);
	loop_run();
}

static int	again;

static void
at_once_again(void *arg)
{
	if (++again == 100)
		loop_stop();
	else
		loop_after(0, at_once_again, NULL);
}

static void
timer_may_make_timers(void **state)
{
	again = 0;
	loop_after(0, at_once_again, NULL);
	loop_run();
	assert_int_equal(again, 100);
}

/* ---------- deferred work */

static Deferred deferred_a;
static Deferred deferred_b;

static void
on_deferred_b(void *arg)
{
	note("B");
	loop_stop();
}

static void
on_deferred_a(void *arg)
{
	note("A");
	loop_defer(&deferred_b);
	loop_defer(&deferred_b);
}

static void
defer_twice(void *arg)
{
	note("t");
	loop_defer(&deferred_a);
	loop_defer(&deferred_a);
}

static void
deferred_runs_once_after_the_events(void **state)
{
	deferred_a = (Deferred) {.callback = on_deferred_a};
	deferred_b = (Deferred) {.callback = on_deferred_b};
	loop_after(0, defer_twice, NULL);
	loop_after(0, defer_twice, NULL);
	loop_run();
	assert_string_equal(trace, "ttAB");
}

static void
undeferred_does_not_run(void **state)
{
	Deferred	gone = {.callback = on_deferred_a};

	deferred_b = (Deferred) {.callback = on_deferred_b};
	loop_undefer(&gone);		/* harmless */
	loop_defer(&gone);
	loop_undefer(&gone);
	loop_defer(&deferred_b);
	loop_run();
	assert_string_equal(trace, "B");

	/* The last of several, so that the queue's end moves back. */
	trace[0] = '\0';
	loop_defer(&deferred_a);
	loop_defer(&gone);
	loop_undefer(&gone);
	loop_run();
	assert_string_equal(trace, "AB");
}

static Deferred endless;

static void
defer_again(void *arg)
{
	loop_defer(&endless);
}

static void
endless_deferring_starves_nobody(void **state)
{
	endless = (Deferred) {.callback = defer_again};
	loop_defer(&endless);
	loop_after(5, on_timer, "!");
	loop_run();
	assert_string_equal(trace, "!");
	loop_undefer(&endless);
}

/* ---------- watches */

typedef struct Pair
{
	int			fd[2];
	Watch	   *watch;
	struct Pair *other;
} Pair;

static void
open_pair(Pair *p, WatchCallback callback)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fd), 0);
	p->watch = loop_watch(p->fd[0], EPOLLIN, callback, p);
}

static void
close_pair(Pair *p)
{
	loop_unwatch(p->watch);
	close(p->fd[0]);
	close(p->fd[1]);
}

static void
read_one(void *arg, uint32_t events)
{
	Pair	   *p = arg;
	char		text[2] = "";

	assert_int_equal(read(p->fd[0], text, 1), 1);
	note(text);
	if (text[0] == '!')
		loop_stop();
}

static void
watch_delivers(void **state)
{
	Pair		p;

	open_pair(&p, read_one);
	assert_int_equal(write(p.fd[1], "abc!", 4), 4);
	loop_run();
	assert_string_equal(trace, "abc!");
	close_pair(&p);
}

static void
changed_events_count(void **state)
{
	Pair		p;

	open_pair(&p, read_one);
	assert_int_equal(write(p.fd[1], "!", 1), 1);
	loop_change(p.watch, 0);
	loop_after(10, on_timer, "!");
	loop_run();
	assert_string_equal(trace, "!");
	trace[0] = '\0';
	loop_change(p.watch, EPOLLIN);
	loop_run();
	assert_string_equal(trace, "!");
	close_pair(&p);
}

static void
end_both(void *arg, uint32_t events)
{
	Pair	   *p = arg;

	note("1");
	loop_unwatch(p->watch);
	loop_unwatch(p->other->watch);
	p->watch = p->other->watch = NULL;
	loop_stop();
}

static void
callback_may_end_any_watch(void **state)
{
	Pair		p;
	Pair		q;

	open_pair(&p, end_both);
	open_pair(&q, end_both);
	p.other = &q;
	q.other = &p;
	/* Both are ready in the same round; only one callback may run. */
	assert_int_equal(write(p.fd[1], "x", 1), 1);
	assert_int_equal(write(q.fd[1], "x", 1), 1);
	loop_run();
	assert_string_equal(trace, "1");
	close_pair(&p);
	close_pair(&q);
}

static void
reused_descriptor_belongs_to_the_second(void **state)
{
	Pair		first;
	Pair		second;
	int			number;

	open_pair(&first, read_one);
	number = first.fd[0];
	close(number);				/* as libpq does, behind its owner's back */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, second.fd), 0);
	if (second.fd[0] != number)
	{
		assert_int_equal(dup2(second.fd[0], number), number);
		close(second.fd[0]);
		second.fd[0] = number;
	}
	second.watch = loop_watch(number, EPOLLIN, read_one, &second);

	loop_change(first.watch, EPOLLOUT); /* must not reach the second */
	loop_unwatch(first.watch);
	assert_int_equal(write(second.fd[1], "2!", 2), 2);
	loop_run();
	assert_string_equal(trace, "2!");
	close(first.fd[1]);
	close_pair(&second);
}

/* as the journal's thread does when libpq has just lost a connection */
static void
closed_descriptor_may_become_a_file(void **state)
{
	Pair		p;
	char		path[] = "/tmp/lockstep-loop-XXXXXX";
	int			file = mkstemp(path);

	assert_true(file >= 0);
	open_pair(&p, read_one);
	assert_int_equal(dup2(file, p.fd[0]), p.fd[0]); /* closes the socket */
	loop_change(p.watch, EPOLLIN | EPOLLOUT);
	loop_unwatch(p.watch);
	close(file);
	close(p.fd[0]);
	close(p.fd[1]);
	unlink(path);
}

static void
closed_descriptor_may_be_unwatched(void **state)
{
	Pair		p;

	open_pair(&p, read_one);
	close(p.fd[0]);
	close(p.fd[1]);
	loop_unwatch(p.watch);
	loop_unwatch(NULL);
}

static Pair *stopped_pair;

/* Meanwhile the timer has become due, and something has come. */
static void
stop_for_a_while(int signo)
{
	const struct timespec while_stopped = {.tv_nsec = 120 * 1000000};

	nanosleep(&while_stopped, NULL);
	if (write(stopped_pair->fd[1], "x", 1) != 1)
		_exit(1);
}

/* What has come while the process was stopped may end the timer that waits for it. */
static void
after_a_stop_sockets_come_before_timers(void **state)
{
	const struct sigaction handler = {.sa_handler = stop_for_a_while};
	const struct itimerval soon = {.it_value = {.tv_usec = 30000}};
	struct sigaction before;
	Pair		p;

	open_pair(&p, read_one);
	stopped_pair = &p;
	assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
	loop_after(100, on_timer, "t");
	loop_after(300, on_timer, "!");
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	loop_run();
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_string_equal(trace, "xt!");
	close_pair(&p);
}

/* ---------- waiting for the kernel */

static pthread_t loop_thread;
static pthread_t timer_thread;

static void
block(void *arg)
{
	note("b");
	usleep(*(useconds_t *) arg);
}

static void
after_block(void *arg)
{
	assert_true(pthread_equal(pthread_self(), loop_thread));
	note("a");
	loop_stop();
}

static void
keep_thread(void *arg)
{
	timer_thread = pthread_self();
	note("t");
}

static void
ask_to_block(void *arg)
{
	loop_thread = pthread_self();
	assert_true(loop_may_block());
	loop_block(block, after_block, arg);
	assert_false(loop_may_block()); /* one at a time */
}

/* Its callbacks come in the thread that called loop_run(), as ever. */
static void
short_wait_is_the_loops_own(void **state)
{
	useconds_t	us = 100;

	loop_after(0, ask_to_block, &us);
	loop_run();
	assert_string_equal(trace, "ba");
}

static void
another_thread_runs_the_loop_meanwhile(void **state)
{
	useconds_t	us = 200 * 1000;

	loop_after(0, ask_to_block, &us);
	loop_after(50, keep_thread, NULL);
	loop_run();
	assert_string_equal(trace, "bta");
	assert_false(pthread_equal(timer_thread, loop_thread));

	/* and no more than meanwhile */
	loop_after(20, keep_thread, NULL);
	loop_after(40, on_timer, "!");
	loop_run();
	assert_string_equal(trace, "btat!");
	assert_true(pthread_equal(timer_thread, loop_thread));
}

/* Stopped by that thread, it ends when the wait does. */
static void
loop_can_be_stopped_meanwhile(void **state)
{
	useconds_t	us = 100 * 1000;
	Timer	   *never;

	loop_after(0, ask_to_block, &us);
	loop_after(30, on_timer, "!");
	never = loop_after(60, on_timer, "never");
	loop_run();
	assert_string_equal(trace, "b!a");
	loop_cancel(never);
}

/* Many of them, with timers and deferred work beside; waits of all lengths around the limit. */
static struct
{
	int			left;
	useconds_t	us;
	uint64_t	timers;
}			many;

static void ask_again(void *arg);
static Deferred more_of_them = {.callback = ask_again};

static void
block_many(void *arg)
{
	usleep(many.us);
}

static void
after_many(void *arg)
{
	many.us = (useconds_t) (many.left * 613 % 9000);
	if (--many.left > 0)
		loop_defer(&more_of_them);
	else
		loop_stop();
}

static void
ask_again(void *arg)
{
	assert_true(loop_may_block());
	loop_block(block_many, after_many, NULL);
}

static void
count_timer(void *arg)
{
	many.timers++;
	if (many.left > 0)
		loop_after(1, count_timer, NULL);
}

static void
loop_goes_from_hand_to_hand(void **state)
{
	many.left = 200;
	loop_defer(&more_of_them);
	loop_after(1, count_timer, NULL);
	loop_run();
	assert_int_equal(many.left, 0);
	assert_true(many.timers > 50);
}

static void
write_and_pace(void *arg)
{
	Pair	   *p = arg;

	loop_pace(1000);
	loop_pace(30000);
	loop_pace(2000);
	assert_int_equal(write(p->fd[1], "a", 1), 1);
}

/* The longest pace counts, for one round. */
static void
next_round_keeps_the_pace(void **state)
{
	Pair		p;
	uint64_t	began = clock_us();

	open_pair(&p, read_one);
	loop_after(0, write_and_pace, &p);
	loop_after(10, on_timer, "!");
	loop_run();
	assert_true(clock_us() - began >= 30000);
	assert_string_equal(trace, "a!");

	began = clock_us();
	loop_after(1, on_timer, "!");
	loop_run();
	assert_true(clock_us() - began < 30000);
	close_pair(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(next_round_keeps_the_pace, reset),
		cmocka_unit_test_setup(timers_fire_in_order, reset),
		cmocka_unit_test_setup(timers_are_never_early, reset),
		cmocka_unit_test_setup(cancelled_timers_do_not_fire, reset),
		cmocka_unit_test_setup(timer_may_cancel_itself, reset),
		cmocka_unit_test_setup(timer_may_make_timers, reset),
		cmocka_unit_test_setup(deferred_runs_once_after_the_events, reset),
		cmocka_unit_test_setup(undeferred_does_not_run, reset),
		cmocka_unit_test_setup(endless_deferring_starves_nobody, reset),
		cmocka_unit_test_setup(watch_delivers, reset),
		cmocka_unit_test_setup(changed_events_count, reset),
		cmocka_unit_test_setup(callback_may_end_any_watch, reset),
		cmocka_unit_test_setup(reused_descriptor_belongs_to_the_second, reset),
		cmocka_unit_test_setup(closed_descriptor_may_be_unwatched, reset),
		cmocka_unit_test_setup(closed_descriptor_may_become_a_file, reset),
		cmocka_unit_test_setup(after_a_stop_sockets_come_before_timers, reset),
		cmocka_unit_test_setup(short_wait_is_the_loops_own, reset),
		cmocka_unit_test_setup(another_thread_runs_the_loop_meanwhile, reset),
		cmocka_unit_test_setup(loop_can_be_stopped_meanwhile, reset),
		cmocka_unit_test_setup(loop_goes_from_hand_to_hand, reset),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
