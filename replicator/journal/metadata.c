/*
 * metadata.c
 *	  Replicated databases and their fingerprints, the nodes that were dropped by
 *	  command, and the generations of replicators, as the journal has them.
 *
 * A record says something anew or again (every segment begins by repeating what
 * counts), so applying one twice is harmless.  Names live until the database is
 * dropped; callers that keep one longer copy it.
 */
#include "metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database_event.h"

typedef struct Fact
{
	char	   *database;
	char	   *fingerprint;	/* NULL: none recorded */
	uint64_t	number;			/* that CREATE DATABASE gave it; 0: it came by
								 * lockstepctl database add */
} Fact;

static Fact *facts;
static char const **names;		/* of facts, in the same order */
static int	nfacts;
static uint64_t moves;			/* see metadata_database_moves() */

/* Names of databases that were dropped, and when last. */
typedef struct Dropped
{
	char	   *database;
	uint64_t	seq;
} Dropped;

static Dropped *dropped;
static int	ndropped;
static bool said;				/* a database was added or dropped */

/* Names of the nodes that stay out until they are attached by command. */
static char **nodes_out;
static int	nnodes_out;

/* Starts of replicators on this journal, ascending. */
#define GENERATIONS_KEPT 32

typedef struct GenerationStart
{
	uint64_t	number;
	uint64_t	run;
} GenerationStart;

static GenerationStart generations[GENERATIONS_KEPT];
static int	ngenerations;

uint64_t
metadata_generation(void)
{
	return ngenerations > 0 ? generations[ngenerations - 1].number : 0;
}

bool
metadata_knows_generation(uint64_t number, uint64_t run)
{
	for (int i = 0; i < ngenerations; i++)
	{
		if (generations[i].number == number)
			return generations[i].run == run;
	}
	return ngenerations > 0 && number < generations[0].number;	/* too long ago */
}

void
metadata_generation_text(char text[GENERATION_TEXT_SIZE], uint64_t number, uint64_t run)
{
	snprintf(text, GENERATION_TEXT_SIZE, "%" PRIu64 " %016" PRIx64, number, run);
}

static void
add_generation(LsSlice text)
{
	char		copy[GENERATION_TEXT_SIZE] = "";
	GenerationStart start;

	if (text.len >= sizeof(copy))
		return;
	memcpy(copy, text.data, text.len);
	if (sscanf(copy, "%" SCNu64 " %" SCNx64, &start.number, &start.run) != 2 || start.number <= metadata_generation())
		return;
	if (ngenerations == GENERATIONS_KEPT)
		memmove(&generations[0], &generations[1], (size_t) --ngenerations * sizeof(GenerationStart));
	generations[ngenerations++] = start;
}

static int
find_node(LsSlice name)
{
	for (int i = 0; i < nnodes_out; i++)
	{
		if (strlen(nodes_out[i]) == name.len && memcmp(nodes_out[i], name.data, name.len) == 0)
			return i;
	}
	return -1;
}

static void
node_is_out(LsSlice name, bool out)
{
	int			i = find_node(name);

	if (out && i < 0)
	{
		nodes_out = xrealloc(nodes_out, (size_t) (nnodes_out + 1) * sizeof(char *));
		nodes_out[nnodes_out++] = xstrndup(name.data, name.len);
	}
	else if (!out && i >= 0)
	{
		free(nodes_out[i]);
		nodes_out[i] = nodes_out[--nnodes_out];
	}
}

static int
find(LsSlice name)
{
	for (int i = 0; i < nfacts; i++)
	{
		if (strlen(names[i]) == name.len && memcmp(names[i], name.data, name.len) == 0)
			return i;
	}
	return -1;
}

static void
add(LsSlice name)
{
	facts = xrealloc(facts, (size_t) (nfacts + 1) * sizeof(Fact));
	names = xrealloc(names, (size_t) (nfacts + 1) * sizeof(char *));
	facts[nfacts].database = xstrndup(name.data, name.len);
	facts[nfacts].fingerprint = NULL;
	facts[nfacts].number = 0;
	names[nfacts] = facts[nfacts].database;
	nfacts++;
}

static void
remember_dropped(LsSlice name, uint64_t seq)
{
	int			i = 0;

	while (i < ndropped && (strlen(dropped[i].database) != name.len || memcmp(dropped[i].database, name.data, name.len) != 0))
		i++;
	if (i == ndropped)
	{
		dropped = xrealloc(dropped, (size_t) (ndropped + 1) * sizeof(Dropped));
		dropped[ndropped++].database = xstrndup(name.data, name.len);
	}
	dropped[i].seq = seq;
}

static void
drop(int i)
{
	free(facts[i].database);
	free(facts[i].fingerprint);
	nfacts--;
	moves++;
	memmove(&facts[i], &facts[i + 1], (size_t) (nfacts - i) * sizeof(Fact));
	memmove(&names[i], &names[i + 1], (size_t) (nfacts - i) * sizeof(char *));
}

/* The text is the database's name, a line break, the fingerprint. */
static void
set_fingerprint(LsSlice text)
{
	const uint8_t *end = memchr(text.data, '\n', text.len);
	LsSlice		name = {text.data, end != NULL ? (size_t) (end - text.data) : text.len};
	int			i = find(name);

	if (i < 0 || end == NULL)
		return;
	free(facts[i].fingerprint);
	facts[i].fingerprint = xstrndup(end + 1, text.len - name.len - 1);
}

static int
find_number(uint64_t number)
{
	for (int i = 0; i < nfacts; i++)
	{
		if (facts[i].number == number)
			return i;
	}
	return -1;
}

static void
rename_fact(int i, const char *name)
{
	free(facts[i].database);
	facts[i].database = xstrdup(name);
	moves++;
	names[i] = facts[i].database;
}

/*
 * By number, if there is one: the head of a segment has a database with the name that it was created
 * with, which another one may have by now, and behind it how it was renamed.
 */
static void
apply_event(const DatabaseEvent *e)
{
	int			i;

	if (e == NULL)				/* it has been said before */
		return;
	i = e->number != 0 ? find_number(e->number) : find(ls_slice_of(e->name));
	if (e->kind == DATABASE_REMOVED && i >= 0 && facts[i].number == e->number)
		drop(i);
	else if (e->kind == DATABASE_RENAMED && i >= 0)
		rename_fact(i, e->name);
	else if (e->kind == DATABASE_CREATED && i < 0)
	{
		add(ls_slice_of(e->name));
		facts[nfacts - 1].number = e->number;
		facts[nfacts - 1].fingerprint = xstrdup(e->fingerprint);
	}
}

/* The head of each segment says again what was dropped: it may be one of the same name before this one. */
static void
apply_dropped(uint64_t seq, LsSlice name)
{
	int			i = find(name);

	remember_dropped(name, seq);
	if (i < 0 || (facts[i].number != 0 && database_event_named_at(facts[i].number) > seq))
		return;
	if (facts[i].number != 0)
		database_event_withdraw(facts[i].number);
	drop(i);
}

/*
 * One of that name which DROP DATABASE has removed is another one.  Without numbers a node could not tell
 * them apart: so nobody does that DROP again, and what it left counts as dropped by lockstepctl.
 */
static void
apply_added(LsSlice name)
{
	uint64_t	removed_at = database_event_withdraw_removals(name);

	if (removed_at > 0)
		remember_dropped(name, removed_at);
	if (find(name) < 0)
		add(name);
}

void
metadata_apply(RecordType type, uint64_t seq, LsSlice text)
{
	said = said || type == RECORD_DATABASE_ADDED || type == RECORD_DATABASE_DROPPED;
	switch (type)
	{
		case RECORD_DATABASE_ADDED:
			apply_added(text);
			break;
		case RECORD_DATABASE_DROPPED:
			apply_dropped(seq, text);
			break;
		case RECORD_NODE_DROPPED:
		case RECORD_NODE_ATTACHED:
			node_is_out(text, type == RECORD_NODE_DROPPED);
			break;
		case RECORD_FINGERPRINT:
			set_fingerprint(text);
			break;
		case RECORD_GENERATION:
			add_generation(text);
			break;
		case RECORD_DATABASE_EVENT:
			said = true;
			apply_event(database_event_add(seq, text));
			break;
		case RECORD_LEASE:		/* the sequencer's */
		case RECORD_CHAIN:
		case RECORD_TRANSACTION:
			break;
	}
}

const char *const *
metadata_databases(int *n)
{
	*n = nfacts;
	return names;
}

uint64_t
metadata_database_moves(void)
{
	return moves;
}

bool
metadata_has_any(void)
{
	return said;
}

bool
metadata_has_database(const char *name)
{
	return find(ls_slice_of(name)) >= 0;
}

uint64_t
metadata_database_number(const char *name)
{
	int			i = find(ls_slice_of(name));

	return i < 0 ? 0 : facts[i].number;
}

const char *
metadata_name_of(uint64_t number)
{
	int			i = number != 0 ? find_number(number) : -1;

	return i < 0 ? NULL : facts[i].database;
}

bool
metadata_node_is_out(const char *name)
{
	return find_node(ls_slice_of(name)) >= 0;
}

uint64_t
metadata_dropped_at(const char *name)
{
	for (int i = 0; i < ndropped; i++)
	{
		if (strcmp(dropped[i].database, name) == 0)
			return dropped[i].seq;
	}
	return 0;
}

const char *
metadata_fingerprint(const char *database)
{
	int			i = find(ls_slice_of(database));

	return i < 0 ? NULL : facts[i].fingerprint;
}

char *
metadata_fingerprint_text(const char *database, const char *fingerprint)
{
	return xasprintf("%s\n%s", database, fingerprint);
}

void
metadata_encode_record(Buffer *bytes, RecordType type, uint64_t seq, LsSlice text)
{
	JournalRecord record;
	size_t		size;

	memset(&record, 0, sizeof(record));
	record.type = type;
	record.seq = seq;
	record.text = text;
	size = journal_encode(NULL, 0, &record);
	buffer_reserve(bytes, size);
	journal_encode(bytes->data + bytes->len, size, &record);
	bytes->len += size;
}

void
metadata_encode(uint64_t seq, Buffer *bytes)
{
	for (int i = 0; i < ngenerations; i++)
	{
		char		text[GENERATION_TEXT_SIZE];

		metadata_generation_text(text, generations[i].number, generations[i].run);
		metadata_encode_record(bytes, RECORD_GENERATION, seq, ls_slice_of(text));
	}
	for (int i = 0; i < ndropped; i++)
		metadata_encode_record(bytes, RECORD_DATABASE_DROPPED, dropped[i].seq, ls_slice_of(dropped[i].database));
	for (int i = 0; i < database_events_count(); i++)
	{
		const DatabaseEvent *e = database_event_at(i);
		char	   *text;

		if (e->kind == DATABASE_PLANNED && database_event_find(DATABASE_CREATED, e->number) != NULL)
			continue;
		text = database_event_text(e->kind, e->number, e->name, e->command, e->fingerprint);
		metadata_encode_record(bytes, RECORD_DATABASE_EVENT, e->seq, ls_slice_of(text));
		free(text);
	}
	for (int i = 0; i < nnodes_out; i++)
		metadata_encode_record(bytes, RECORD_NODE_DROPPED, seq, ls_slice_of(nodes_out[i]));
	for (int i = 0; i < nfacts; i++)
	{
		char	   *text;

		if (facts[i].number != 0)	/* its event says it */
			continue;
		metadata_encode_record(bytes, RECORD_DATABASE_ADDED, seq, ls_slice_of(facts[i].database));
		if (facts[i].fingerprint == NULL)
			continue;
		text = metadata_fingerprint_text(facts[i].database, facts[i].fingerprint);
		metadata_encode_record(bytes, RECORD_FINGERPRINT, seq, ls_slice_of(text));
		free(text);
	}
}
