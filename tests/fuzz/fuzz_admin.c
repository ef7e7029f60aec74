/*
 * fuzz_admin.c
 *	  libFuzzer target: what comes by the operator's socket.  It has one line of JSON for an answer, with
 *	  "ok", or none if it is no line, or waits for something.  The cluster is that of test_admin.c.
 */
#define main unit_main
#include "../unit/test_admin.c"
#undef main
#include "fuzz.h"

static void
on_patience(void *arg)
{
	*(Timer **) arg = NULL;
	loop_stop();
}

/* What waits gets what it waits for, and ends. */
static void
let_all_end(void)
{
	NodeDone	done = database_callback;

	database_callback = NULL;
	if (done != NULL)
		done(database_arg, NULL);
	(void) reset(NULL);
	paused_ms = -1;
	run_for(7);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started = false;
	Client		c;
	Timer	   *patience;
	json_t	   *answer;

	if (!started)
	{
		log_open("/dev/null", LOG_ERROR);
		assert_int_equal(start(NULL), 0);
		started = true;
	}
	(void) reset(NULL);
	client_open(&c, data, size);
	shutdown(c.fd, SHUT_WR);
	patience = loop_after(2, on_patience, &patience);
	answer = client_answer(&c);
	loop_cancel(patience);
	if (answer != NULL)
		assert_true(json_is_boolean(json_object_get(answer, "ok")));
	json_decref(answer);
	if (answer == NULL || database_callback != NULL)
		let_all_end();
	stops = 0;
	return 0;
}
