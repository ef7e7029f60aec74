/*
 * reach.c
 *	  Trying whether any node can be reached: see reach.h.
 *
 * While it is wanted, connections to all nodes are attempted at the same time, round after round.
 * One that is made is closed at once, and shows that nodes can be reached; a round in which none
 * is made shows that none can.
 */
#include "reach.h"

#include <stdatomic.h>
#include <stdint.h>

#include "loop.h"
#include "monotonic.h"
#include "pgclient.h"

#define LOOK_MS 100
#define WANTED_MS 2000
#define CONNECT_MS 1000

static const Config *config;
static _Atomic int64_t wanted_until_ms;
static _Atomic Reach known;
static PgClient *attempts[CONFIG_MAX_NODES];
static int	under_way;
static bool found;				/* in this round */

static void
on_connected(void *arg, const char *error)
{
	PgClient  **attempt = arg;

	if (error == NULL)
	{
		found = true;
		known = REACH_SOME;
		pgclient_close(*attempt);
	}
	*attempt = NULL;			/* else it closes itself */
	if (--under_way == 0 && !found)
		known = REACH_NONE;
}

static void
begin_round(void)
{
	found = false;
	for (int i = 0; i < config->nnodes; i++)
	{
		if (config->nodes[i].retired)
			continue;
		under_way++;
		attempts[i] = pgclient_open(&config->nodes[i], config->maintenance_database, "lockstep probe",
									pgclient_control_options, CONNECT_MS, on_connected, &attempts[i]);
	}
}

static void
on_look(void *arg)
{
	loop_after(LOOK_MS, on_look, NULL);
	if (monotonic_ms() > wanted_until_ms)
		known = REACH_UNKNOWN;
	else if (under_way == 0)
		begin_round();
}

void
reach_begin(const Config *c)
{
	config = c;
	loop_after(LOOK_MS, on_look, NULL);
}

void
reach_wanted(void)
{
	wanted_until_ms = monotonic_ms() + WANTED_MS;
}

Reach
reach_known(void)
{
	return known;
}
