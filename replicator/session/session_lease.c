/*
 * session_lease.c
 *	  Requests of a session outside of its transaction: values of a sequence, single queries
 *	  that are ordered at once, CREATE and DROP DATABASE, the seq for a causal read, outcomes.
 *
 * The answer comes later, when the session may be gone and another may be in its place,
 * so the session is looked up again by node, pid and boot id.  A new session with the
 * same pid ignores an answer whose id it does not know.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "database_command.h"
#include "node.h"
#include "points.h"
#include "sequencer.h"
#include "session_private.h"

typedef struct Asker
{
	int			node;
	uint32_t	pid;
	uint64_t	boot;
	uint64_t	id;
} Asker;

static Asker *
asker_of(Session *s, uint64_t id)
{
	Asker	   *a = xmalloc(sizeof(Asker));

	a->node = s->node;
	a->pid = s->pid;
	a->boot = s->boot;
	a->id = id;
	s->questions++;
	return a;
}

/* NULL: it is gone.  Frees the asker. */
static Session *
find_again(Asker *a)
{
	Session    *s = session_table_find(a->node, a->pid);

	if (s != NULL && s->boot != a->boot)
		s = NULL;
	if (s != NULL && s->questions > 0)
		s->questions--;
	free(a);
	return s;
}

/* ---------- leases */

static void
on_leased(void *arg, const LsLeased *leased)
{
	Session    *s = find_again(arg);
	uint8_t		bytes[128];

	LOCKSTEP_POINT(LEASE_DURABLE);
	if (s != NULL)
		session_send(s, bytes, ls_put_leased(bytes, sizeof(bytes), leased));
}

void
session_lease(Session *s, LsSlice payload)
{
	LsLease		m;
	const char *wrong = ls_get_lease(payload, &m);

	if (!session_decoded(s, "lease message", wrong))
		return;
	LOCKSTEP_POINT(LEASE_ASKED);
	sequencer_lease(node_name(s->node), ls_slice_of(s->database), &m, on_leased, asker_of(s, m.id));
}

/* ---------- queries on their own */

static void
on_ordered(void *arg, uint64_t seq, const LsErrorFields *error)
{
	LsOrdered	m;
	uint8_t    *bytes;
	size_t		size;
	Session    *s;

	LOCKSTEP_POINT(ALONE_ORDERED);
	memset(&m, 0, sizeof(m));
	m.id = ((Asker *) arg)->id;
	m.seq = seq;
	if (error != NULL)
		m.error = *error;
	s = find_again(arg);
	if (s == NULL)
		return;
	size = ls_put_ordered(NULL, 0, &m);
	bytes = xmalloc(size);
	ls_put_ordered(bytes, size, &m);
	session_send(s, bytes, size);
	free(bytes);
}

void
session_single_query(Session *s, LsSlice payload)
{
	LsSingleQuery m;
	LsQuery		query;
	const char *wrong = ls_get_single_query(payload, &m, &query);
	LsIdentity	id;

	if (!session_decoded(s, "message of a query on its own", wrong))
		return;
	if (m.id <= s->last_xcount)
	{
		session_fail(s, "08P01", NULL, "query on its own %" PRIu64 " after transaction %" PRIu64, m.id, s->last_xcount);
		return;
	}
	LOCKSTEP_POINT(ALONE_ASKED);
	id = (LsIdentity) {ls_slice_of(node_name(s->node)), s->boot, s->pid, m.id};
	sequencer_single_query(&id, ls_slice_of(s->database), (uint32_t) s->node, m.query.data, m.query.len,
						   on_ordered, asker_of(s, m.id));
}

/* ---------- databases */

static void
on_database_done(void *arg, bool done, const LsErrorFields *error)
{
	LsDatabaseDone m;
	uint8_t    *bytes;
	size_t		size;
	Session    *s;

	memset(&m, 0, sizeof(m));
	m.id = ((Asker *) arg)->id;
	if (!done)
		m.error = *error;
	s = find_again(arg);
	if (s == NULL)
		return;
	size = ls_put_database_done(NULL, 0, &m);
	bytes = xmalloc(size);
	ls_put_database_done(bytes, size, &m);
	session_send(s, bytes, size);
	free(bytes);
}

void
session_database(Session *s, LsSlice payload)
{
	LsDatabase	m;
	const char *wrong = ls_get_database(payload, &m);

	if (!session_decoded(s, "message of a database", wrong))
		return;
	if (m.kind == LS_DATABASE_CREATE)
		database_command_create(m.name, m.command, on_database_done, asker_of(s, m.id));
	else if (m.kind == LS_DATABASE_RENAME)
		database_command_rename(m.name, m.command, on_database_done, asker_of(s, m.id));
	else
		database_command_drop(m.name, m.force, m.superuser, m.role, on_database_done, asker_of(s, m.id));
}

/* ---------- causal reads */

/*
 * One must see everything that any client may know of.  A verdict is sent, and a node commits,
 * only after the record is durable.
 */
static void
on_confirmed(void *arg)
{
	LsGranted	m = {((Asker *) arg)->id, sequencer_last_durable(), 0};
	Session    *s = find_again(arg);
	uint8_t		bytes[64];

	if (s != NULL)
		session_send(s, bytes, ls_put_seq(bytes, sizeof(bytes), &m));
}

void
session_now(Session *s, uint64_t question)
{
	sequencer_confirm(on_confirmed, asker_of(s, question));
}

/* ---------- outcomes */

typedef struct Told
{
	Asker	   *asker;
	LsOutcomeAnswer answer;
} Told;

static void
on_outcome_confirmed(void *arg)
{
	Told	   *told = arg;
	Session    *s = find_again(told->asker);
	uint8_t		bytes[64];

	if (s != NULL)
		session_send(s, bytes, ls_put_outcome_answer(bytes, sizeof(bytes), &told->answer));
	free(told);
}

/* One that was not decided here may have been by another replicator, that leads meanwhile. */
void
session_tell_outcome(Session *s, const LsOutcomeAnswer *answer)
{
	Told	   *told = xmalloc(sizeof(Told));

	told->asker = asker_of(s, answer->question);
	told->answer = *answer;
	sequencer_confirm(on_outcome_confirmed, told);
}
