/*
 * session_unauthenticated.c
 *	  Connections that have not proved who they are: how many may there be, which of
 *	  them have to go, and how much of the log do they get?
 *
 * Anybody who reaches the port can be one, so they take nothing from the backends that
 * have authenticated, which alone count for max_sessions:
 *
 *	 silent	(no complete hello)	  a backend's hello comes with its connection, so one
 *								  that is silent may go as soon as there is another:
 *								  the oldest of its address beyond MAX_SILENT, the
 *								  oldest of all beyond MAX_STRANGERS
 *	 challenged (owes its proof)  the oldest goes beyond MAX_STRANGERS, if it has had
 *								  PROOF_MS; till then nobody else is let in, and waits
 *								  in the kernel's queue
 *
 * Whatever they do, each has HANDSHAKE_MS (session.c).  The log has few
 * lines of what becomes of them (log_limit.h).
 *
 * Each list is in the order of arrival, linked by prev and next, which a session needs
 * for the table only when it is none of them any more.
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
	take_off(s->state == SESSION_HELLO ? &silent : &challenged, s);
}

void
unauthenticated_challenged(Session *s)
{
	take_off(&silent, s);
	add(&challenged, s);
}

static void
close_oldest(Session *s, const char *why)
{
	session_fail(s, "53300", "Connect again.", "closed before it had authenticated: %s", why);
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

void
unauthenticated_add(Session *s)
{
	Session    *beyond;

	add(&silent, s);
	beyond = silent_beyond(s->address);
	if (beyond != NULL)
		close_oldest(beyond, "too many connections from its address are silent");
}

bool
sessions_have_room(void)
{
	Session    *s = silent.first != NULL ? silent.first : challenged.first;

	if (silent.count + challenged.count < MAX_STRANGERS)
		return true;
	if (s->state == SESSION_PROOF && loop_now_us() - s->since_us < PROOF_MS * UINT64_C(1000))
		return false;
	close_oldest(s, "too many connections have not");
	return true;
}
