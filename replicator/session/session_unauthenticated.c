/*
 * session_unauthenticated.c
 *	  Connections that have not authenticated: which of them are closed when there are too
 *	  many?
 *
 * Anyone who reaches the port can open one, so they must not take anything from
 * authenticated backends, which alone count for max_sessions:
 *
 *	 silent (no complete hello)	   a backend sends its hello with the connection, so a
 *								   silent one is closed when another arrives: the oldest
 *								   of its address beyond MAX_SILENT, the oldest of all
 *								   beyond MAX_STRANGERS
 *	 challenged (owes its proof,   the oldest is closed beyond MAX_STRANGERS if it has
 *	 or with TLS its hello)		   had PROOF_MS; until then, new connections wait in the
 *								   kernel's queue
 *
 * Each has HANDSHAKE_MS at most (session.c), and few lines of the log (log_limit.h).
 *
 * Each list is in order of arrival, linked by prev and next, which the session table
 * needs only after authentication.
 */
#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "session_private.h"

#define MAX_STRANGERS 256
#define MAX_SILENT 32			/* from one address */
#define PROOF_MS 2000

typedef struct List
{
	Session    *first;
	Session    *last;
	int			count;
} List;

static List silent;
static List challenged;

LogLimit	strangers_lines = {.max = 20};

/* ---------- who is there */

static void
add(List *list, Session *s)
{
	s->prev = list->last;
	s->next = NULL;
	*(list->last != NULL ? &list->last->next : &list->first) = s;
	list->last = s;
	list->count++;
}

static void
take_off(List *list, Session *s)
{
	*(s->prev != NULL ? &s->prev->next : &list->first) = s->next;
	*(s->next != NULL ? &s->next->prev : &list->last) = s->prev;
	s->prev = s->next = NULL;
	list->count--;
}

void
unauthenticated_remove(Session *s)
{
	take_off(s->challenged ? &challenged : &silent, s);
}

void
unauthenticated_challenged(Session *s)
{
	if (s->challenged)
		return;
	take_off(&silent, s);
	s->challenged = true;
	add(&challenged, s);
}

/* The oldest silent one of that address, if there are too many. */
static Session *
silent_beyond(uint64_t address)
{
	Session    *oldest = NULL;
	int			n = 0;

	for (Session *s = silent.first; s != NULL; s = s->next)
	{
		if (s->address != address)
			continue;
		oldest = oldest != NULL ? oldest : s;
		n++;
	}
	return n > MAX_SILENT ? oldest : NULL;
}

Session *
unauthenticated_add(Session *s)
{
	add(&silent, s);
	return silent_beyond(s->address);
}

bool
unauthenticated_have_room(Session **oldest)
{
	Session    *s = silent.first != NULL ? silent.first : challenged.first;

	if (silent.count + challenged.count < MAX_STRANGERS)
		return true;
	if (s->challenged && loop_now_us() - s->since_us < PROOF_MS * UINT64_C(1000))
		return false;
	*oldest = s;
	return true;
}
