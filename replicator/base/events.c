/*
 * events.c
 *	  A ring of the last events.
 */
#include "events.h"

#include <stdio.h>

#include "loop.h"

static Event ring[EVENTS_KEPT];
static uint64_t noted;			/* since the start */

void
event_note(const char *name, const char *node, const char *text, const char *detail)
{
	Event	   *e = &ring[noted++ % EVENTS_KEPT];

	e->time_us = loop_wall_us();
	e->name = name;
	snprintf(e->node, sizeof(e->node), "%s", node != NULL ? node : "");
	snprintf(e->text, sizeof(e->text), "%s", text);
	snprintf(e->detail, sizeof(e->detail), "%s", detail != NULL ? detail : "");
}

const Event *
event_get(size_t i)
{
	if (i >= noted || i >= EVENTS_KEPT)
		return NULL;
	return &ring[(noted - 1 - i) % EVENTS_KEPT];
}
