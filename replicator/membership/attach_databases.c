/*
 * attach_databases.c
 *	  Which databases a node that is attached should have, and which of those it has.
 *
 * An event with the node's own seq may be done there or not: what is complete counts as there,
 * catchup does the event again, which changes nothing if it was done.
 */
#include "attach_databases.h"

#include <stdlib.h>
#include <string.h>

#include "metadata.h"

static void
add(Candidates *c, const char *name, uint64_t number)
{
	for (int i = 0; i < c->n; i++)
	{
		if (strcmp(c->all[i].name, name) == 0)
			return;
	}
	c->all = xrealloc(c->all, (size_t) (c->n + 1) * sizeof(Candidate));
	memset(&c->all[c->n], 0, sizeof(Candidate));
	c->all[c->n].name = xstrdup(name);
	c->all[c->n].number = number;
	c->n++;
}

void
candidates_of_metadata(Candidates *c)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	for (int i = 0; i < count; i++)
		add(c, names[i], 0);
}

void
candidates_of_maintenance(Candidates *c)
{
	add(c, node_config->maintenance_database, 0);
}

/* A number counts if the journal knows it, of that name; else the OID is any. */
static uint64_t
number_of(const PGresult *r, int i)
{
	uint64_t	found = database_number_of((uint32_t) strtoul(PQgetvalue(r, i, 0), NULL, 10));

	return found != 0 && database_event_had_name(found, PQgetvalue(r, i, 1)) ? found : 0;
}

/* What such a database is called on the node; NULL: it has none.  name: of one without a number. */
static const char *
find_on_node(const PGresult *r, const char *name, uint64_t number)
{
	for (int i = 0; i < PQntuples(r); i++)
	{
		if (number_of(r, i) == number && (number != 0 || strcmp(PQgetvalue(r, i, 1), name) == 0))
			return PQgetvalue(r, i, 1);
	}
	return NULL;
}

/* Databases that are replicated come first: the control connection goes to the first one. */
void
candidates_of_node(Candidates *c, const PGresult *r)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	for (int i = 0; i < count; i++)
	{
		uint64_t	number = metadata_database_number(names[i]);
		const char *name = number == 0 ? names[i] : find_on_node(r, names[i], number);

		if (name != NULL)
			add(c, name, number);
	}
	for (int i = 0; i < database_events_count(); i++)
	{
		const DatabaseEvent *e = database_event_at(i);
		const char *name;

		if (e->kind == DATABASE_CREATED || e->kind == DATABASE_RENAMED ||
			(e->kind == DATABASE_PLANNED && (database_event_find(DATABASE_CREATED, e->number) != NULL ||
											 database_command_is_making(e->number))))
			continue;
		name = find_on_node(r, e->name, e->number);
		if (name != NULL)
			add(c, name, e->number);
	}
}

static void
candidate_free(Candidate *c)
{
	dbcheck_free(c->check);
	free(c->name);
}

void
candidates_free(Candidates *c)
{
	for (int i = 0; i < c->n; i++)
		candidate_free(&c->all[i]);
	free(c->all);
	c->all = NULL;
	c->n = 0;
}

void
candidates_remove(Candidates *c, int i)
{
	candidate_free(&c->all[i]);
	c->n--;
	memmove(&c->all[i], &c->all[i + 1], (size_t) (c->n - i) * sizeof(Candidate));
}

/* The last removal of such a database: one without a number may have had several. */
static const DatabaseEvent *
removal_of(const char *name, uint64_t number)
{
	const DatabaseEvent *found = NULL;

	for (int i = 0; i < database_events_count(); i++)
	{
		const DatabaseEvent *e = database_event_at(i);

		if (e->kind == DATABASE_REMOVED && e->number == number && (number != 0 || strcmp(e->name, name) == 0))
			found = e;
	}
	return found;
}

/* It is replicated, or was when it got its number of 0. */
static const DatabaseEvent *
end_of(const Candidate *c)
{
	if (c->number != 0 ? metadata_name_of(c->number) != NULL :
		metadata_has_database(c->name) && metadata_database_number(c->name) == 0)
		return NULL;
	return removal_of(c->name, c->number);
}

bool
candidate_is_doubtful(const Candidate *c)
{
	return c->number != 0 || end_of(c) != NULL;
}

CandidateIs
candidate_is(const Candidate *c, uint64_t applied)
{
	const DatabaseEvent *begin = c->number != 0 ? database_event_find(DATABASE_CREATED, c->number) : NULL;
	const DatabaseEvent *end = end_of(c);
	bool		complete = !c->failed && dbcheck_has_cluster(c->check);

	if (c->number != 0 && begin == NULL)
		return CANDIDATE_LEFT_OVER; /* it was only planned */
	if (end != NULL && end->seq < applied)
		return complete || c->number != 0 ? CANDIDATE_LEFT_OVER : CANDIDATE_LATER;
	if ((begin != NULL && begin->seq > applied) ||
		(!complete && ((begin != NULL && begin->seq == applied) || (end != NULL && end->seq == applied))))
		return CANDIDATE_LATER;
	return CANDIDATE_ATTACHED;
}

static bool
is_there(const Candidates *c, uint64_t number)
{
	for (int i = 0; i < c->n; i++)
	{
		if (c->all[i].number == number)
			return true;
	}
	return false;
}

const char *
candidates_misnamed(const Candidates *c, uint64_t applied, uint64_t *events_from)
{
	for (int i = 0; i < c->n; i++)
	{
		uint64_t	renamed_at;
		const char *wanted = c->all[i].number == 0 ? NULL :
		database_event_misnamed(c->all[i].number, c->all[i].name, applied, &renamed_at);

		if (wanted != NULL)
			return wanted;
		if (c->all[i].number != 0 && renamed_at != 0 && renamed_at < *events_from)
			*events_from = renamed_at;
	}
	return NULL;
}

/*
 * One that DROP DATABASE removed later may be gone, with the progress that it had: then the node has
 * applied more than the others say.
 */
const char *
candidates_missing(const Candidates *c, uint64_t applied)
{
	int			count;

	for (int i = 0; i < database_events_count(); i++)
	{
		const DatabaseEvent *e = database_event_at(i);

		if (e->kind == DATABASE_CREATED && e->seq < applied && database_event_find(DATABASE_REMOVED, e->number) == NULL &&
			!is_there(c, e->number))
			return metadata_name_of(e->number);
	}
	return c->n == 0 ? metadata_databases(&count)[0] : NULL;
}
