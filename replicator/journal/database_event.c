/*
 * database_event.c
 *	  What SQL commands did to the list of replicated databases, in the order of the journal.
 *
 * The text of a record: kind, number, the lengths of name and command, a line break, then name,
 * command and fingerprint, one behind the other.
 */
#include "database_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "buffer.h"
#include "random_bytes.h"

#define OID_BASE UINT32_C(0x80000000)
#define ATTEMPT_BITS 6

static DatabaseEvent *events;
static int	nevents;
static uint64_t last_order;

const char *
database_event_word(DatabaseEventKind kind)
{
	switch (kind)
	{
		case DATABASE_PLANNED:
			return "planned";
		case DATABASE_CREATED:
			return "created";
		case DATABASE_RENAMED:
			return "renamed";
		case DATABASE_REMOVED:
			return "removed";
	}
	return "unknown";
}

/* ---------- text */

char *
database_event_text(DatabaseEventKind kind, uint64_t number, const char *name, const char *command, const char *fingerprint)
{
	return xasprintf("%c %" PRIu64 " %zu %zu\n%s%s%s", (char) kind, number, strlen(name), strlen(command), name,
					 command, fingerprint);
}

static LsSlice
take(LsSlice *rest, size_t len)
{
	LsSlice		part = {rest->data, len};

	rest->data += len;
	rest->len -= len;
	return part;
}

bool
database_event_parse(LsSlice text, DatabaseEventText *e)
{
	const uint8_t *end = memchr(text.data, '\n', text.len);
	char		head[96];
	size_t		name;
	size_t		command;
	char		kind;

	if (end == NULL || (size_t) (end - text.data) >= sizeof(head))
		return false;
	memcpy(head, text.data, (size_t) (end - text.data));
	head[end - text.data] = '\0';
	if (sscanf(head, "%c %" SCNu64 " %zu %zu", &kind, &e->number, &name, &command) != 4 ||
		(kind != DATABASE_PLANNED && kind != DATABASE_CREATED && kind != DATABASE_RENAMED && kind != DATABASE_REMOVED))
		return false;
	e->kind = (DatabaseEventKind) kind;
	(void) take(&text, (size_t) (end - text.data) + 1);
	if (name == 0 || name > LS_MAX_NAME || name > text.len || command > text.len - name ||
		e->number > DATABASE_MAX_NUMBER)
		return false;
	e->name = take(&text, name);
	e->command = take(&text, command);
	e->fingerprint = text;
	return true;
}

/* ---------- the list */

static bool
is_text(const char *text, LsSlice slice)
{
	return strlen(text) == slice.len && memcmp(text, slice.data, slice.len) == 0;
}

/* A database with a number is created and removed once; one without may have been removed several times. */
static bool
is_same(const DatabaseEvent *known, const DatabaseEventText *e, uint64_t seq)
{
	if (known->kind != e->kind || known->number != e->number)
		return false;
	if (e->kind == DATABASE_RENAMED)
		return is_text(known->fingerprint, e->fingerprint);
	return e->number != 0 || (known->seq == seq && is_text(known->name, e->name));
}

static bool
is_known(const DatabaseEventText *e, uint64_t seq)
{
	for (int i = 0; i < nevents; i++)
	{
		if (is_same(&events[i], e, seq))
			return true;
	}
	return false;
}

bool
database_event_is_known(uint64_t seq, LsSlice text)
{
	DatabaseEventText e;

	return database_event_parse(text, &e) && is_known(&e, seq);
}

const DatabaseEvent *
database_event_add(uint64_t seq, LsSlice text)
{
	DatabaseEventText e;
	DatabaseEvent *new;

	if (!database_event_parse(text, &e) || is_known(&e, seq))
		return NULL;
	events = xrealloc(events, (size_t) (nevents + 1) * sizeof(DatabaseEvent));
	new = &events[nevents++];
	new->kind = e.kind;
	new->number = e.number;
	new->seq = seq;
	new->order = ++last_order;
	new->name = xstrndup(e.name.data, e.name.len);
	new->command = xstrndup(e.command.data, e.command.len);
	new->fingerprint = xstrndup(e.fingerprint.data, e.fingerprint.len);
	return new;
}

int
database_events_count(void)
{
	return nevents;
}

const DatabaseEvent *
database_event_at(int i)
{
	return &events[i];
}

const DatabaseEvent *
database_event_find(DatabaseEventKind kind, uint64_t number)
{
	for (int i = 0; i < nevents; i++)
	{
		if (events[i].kind == kind && events[i].number == number)
			return &events[i];
	}
	return NULL;
}

const DatabaseEvent *
database_event_next(uint64_t order, uint64_t seq)
{
	for (int i = 0; i < nevents; i++)
	{
		if (events[i].order > order && events[i].seq >= seq)
			return &events[i];
	}
	return NULL;
}

/* ---------- names */

bool
database_event_had_name(uint64_t number, const char *name)
{
	for (int i = 0; i < nevents; i++)
	{
		const DatabaseEvent *e = &events[i];

		if (e->number == number && (strcmp(e->name, name) == 0 ||
									(e->kind == DATABASE_RENAMED && strcmp(e->command, name) == 0)))
			return true;
	}
	return false;
}

const DatabaseEvent *
database_event_last_renaming(uint64_t number)
{
	const DatabaseEvent *last = NULL;

	for (int i = 0; i < nevents; i++)
	{
		if (events[i].kind == DATABASE_RENAMED && events[i].number == number)
			last = &events[i];
	}
	return last;
}

/* The seq at which it got the name that e takes from it; 0: long ago. */
static uint64_t
named_before(const DatabaseEvent *e)
{
	uint64_t	seq = 0;

	for (const DatabaseEvent *b = events; b < e; b++)
	{
		if (b->number == e->number && (b->kind == DATABASE_CREATED || b->kind == DATABASE_RENAMED))
			seq = b->seq;
	}
	return seq;
}

bool
database_event_was_name(const char *name, uint64_t seq)
{
	for (int i = 0; i < nevents; i++)
	{
		const DatabaseEvent *e = &events[i];

		if (e->kind == DATABASE_RENAMED && strcmp(e->command, name) == 0 && e->seq >= seq && named_before(e) < seq)
			return true;
	}
	return false;
}

uint64_t
database_event_named_at(uint64_t number)
{
	const DatabaseEvent *e = database_event_last_renaming(number);

	if (e == NULL)
		e = database_event_find(DATABASE_CREATED, number);
	return e == NULL ? 0 : e->seq;
}

uint64_t
database_event_next_renaming(uint64_t number)
{
	const DatabaseEvent *last = database_event_last_renaming(number);

	return last == NULL ? 1 : strtoull(last->fingerprint, NULL, 10) + 1;
}

/*
 * A command waits for all nodes that are online, so a node can lack no more than the last one
 * with a lower seq than its own: it went out while it ran.
 */
const char *
database_event_misnamed(uint64_t number, const char *name, uint64_t applied, uint64_t *renamed_at)
{
	const DatabaseEvent *last = NULL;	/* of those that should be done */
	bool		may_be_done = false;

	*renamed_at = 0;
	for (int i = 0; i < nevents; i++)
	{
		const DatabaseEvent *e = &events[i];

		if (e->number != number || (e->kind != DATABASE_CREATED && e->kind != DATABASE_RENAMED) || e->seq > applied)
			continue;
		if (e->seq < applied || last == NULL)
			last = e;
		may_be_done = may_be_done || (e->seq == applied && strcmp(e->name, name) == 0);
	}
	if (last == NULL || may_be_done || strcmp(last->name, name) == 0)
		return NULL;
	if (last->kind != DATABASE_RENAMED || strcmp(last->command, name) != 0)
		return last->name;
	*renamed_at = last->seq;
	return NULL;
}

/* ---------- forgetting */

/* One that exists is kept, whatever its age: its number is that of its OID.  So is its last name. */
static bool
is_of_interest(const DatabaseEvent *e, uint64_t seq)
{
	const DatabaseEvent *end = e->number != 0 ? database_event_find(DATABASE_REMOVED, e->number) : NULL;

	if (e->seq >= seq || (end != NULL && end->seq >= seq))
		return true;
	return end == NULL && (e->kind == DATABASE_CREATED || e == database_event_last_renaming(e->number));
}

static void
keep_only(const bool *keep)
{
	int			kept = 0;

	for (int i = 0; i < nevents; i++)
	{
		if (keep[i])
		{
			events[kept++] = events[i];
			continue;
		}
		free(events[i].name);
		free(events[i].command);
		free(events[i].fingerprint);
	}
	nevents = kept;
}

void
database_events_forget(uint64_t seq)
{
	bool	   *keep;

	if (nevents == 0)
		return;
	keep = xcalloc((size_t) nevents, sizeof(bool));
	for (int i = 0; i < nevents; i++)
		keep[i] = is_of_interest(&events[i], seq);
	keep_only(keep);
	free(keep);
}

void
database_event_withdraw(uint64_t number)
{
	bool	   *keep = xcalloc((size_t) nevents + 1, sizeof(bool));

	for (int i = 0; i < nevents; i++)
		keep[i] = events[i].number != number;
	keep_only(keep);
	free(keep);
}

uint64_t
database_event_withdraw_removals(LsSlice name)
{
	bool	   *keep = xcalloc((size_t) nevents + 1, sizeof(bool));
	uint64_t	last = 0;

	for (int i = 0; i < nevents; i++)
	{
		keep[i] = events[i].kind != DATABASE_REMOVED || events[i].number != 0 || !is_text(events[i].name, name);
		if (!keep[i] && events[i].seq > last)
			last = events[i].seq;
	}
	keep_only(keep);
	free(keep);
	return last;
}

/* ---------- numbers */

/*
 * The first one is random, so that databases of a journal that was lost are not taken for those
 * of the one that took its place.
 */
uint64_t
database_new_number(void)
{
	static uint64_t last;
	uint8_t		bytes[3];

	for (int i = 0; last == 0 && i < nevents; i++)
		last = events[nevents - 1 - i].number;
	if (last == 0 && random_bytes(bytes, sizeof(bytes)))
		last = (uint64_t) bytes[0] << 16 | (uint64_t) bytes[1] << 8 | bytes[2];
	do
		last = last % DATABASE_MAX_NUMBER + 1;
	while (database_event_find(DATABASE_PLANNED, last) != NULL || database_event_find(DATABASE_CREATED, last) != NULL);
	return last;
}

uint32_t
database_new_oid(uint64_t number)
{
	uint8_t		attempt = 0;

	if (!random_bytes(&attempt, 1))
		attempt = 0;
	return OID_BASE | (uint32_t) (number << ATTEMPT_BITS) | (attempt & ((1u << ATTEMPT_BITS) - 1));
}

uint64_t
database_number_of(uint32_t oid)
{
	return oid >= OID_BASE ? (oid - OID_BASE) >> ATTEMPT_BITS : 0;
}
