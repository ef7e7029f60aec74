/*
 * dbfacts.c
 *	  Properties of a database that must be equal on all nodes.
 *
 * If one of them differed, nodes could diverge, or a change could be possible on one
 * node and fail on another: encoding, collation, limits of index entries.  A node is
 * compared with the nodes that are in, using the properties found at each node's last
 * check.
 *
 * Versions of collations are compared only for collations in use, by name, since a node
 * that has to catch up may not have all of them yet.  Range partitions, indexes and
 * comparisons depend on how the C library or ICU sorts.
 *
 * Only reported, no reason to refuse a node: indexes that may be corrupt because the
 * collation's version has changed since they were built (PostgreSQL itself only warns),
 * and different time zone data.
 */
#include "dbfacts.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

/* The collations of columns, of indexes and of partition keys. */
#define USED_COLLATIONS \
"(SELECT c.oid, c.collversion, format('%I.%I', n.nspname, c.collname) AS name, " \
"pg_collation_actual_version(c.oid) AS version " \
"FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid <> 100 AND c.oid IN " \
"(SELECT attcollation FROM pg_attribute WHERE attrelid >= 16384 AND NOT attisdropped " \
"UNION ALL SELECT unnest(partcollation::oid[]) FROM pg_partitioned_table))"

const char	dbfacts_query[] =
"SELECT current_setting('server_version_num')::int / 10000, pg_encoding_to_char(d.encoding), "
"d.datcollate, d.datctype, coalesce(to_jsonb(d) ->> 'datlocprovider', 'c'), "
"coalesce(to_jsonb(d) ->> 'daticulocale', to_jsonb(d) ->> 'datlocale', ''), "
"coalesce(to_jsonb(d) ->> 'daticurules', ''), "
"coalesce(pg_database_collation_actual_version(d.oid), ''), "
"current_setting('block_size'), current_setting('max_identifier_length'), current_setting('max_index_keys'), "
"coalesce((SELECT string_agg(name || ' ' || version, E'\\n' ORDER BY name) FROM " USED_COLLATIONS " u "
"WHERE version IS NOT NULL), ''), "
"coalesce((SELECT extversion FROM pg_extension WHERE extname = 'lockstep'), ''), "
"pg_is_in_recovery(), coalesce(current_setting('lockstep.node_name', true), ''), "
"(SELECT rolsuper FROM pg_roles WHERE rolname = current_user) "
"FROM pg_database d WHERE d.datname = current_database()";

/* The first columns of it: what must be equal. */
static const char *const fact_names[] = {
	"PostgreSQL version", "encoding", "collation", "character type", "locale provider",
	"ICU locale", "ICU rules", "collation version", "block size", "maximal length of names",
	"maximal number of index columns"
};

#define NFACTS ((int) (sizeof(fact_names) / sizeof(fact_names[0])))
#define COLUMN_COLLATIONS NFACTS
#define COLUMN_OTHERS (NFACTS + 1)

/*
 * Of the time zone data only those of the system have a version that can be
 * read.
 */
const char	dbfacts_advice_query[] =
"SELECT coalesce((SELECT split_part(pg_read_file(substring(setting from '--with-system-tzdata=([^'' ]+)') || "
"'/tzdata.zi', 0, 40, true), E'\\n', 1) FROM pg_config() WHERE name = 'CONFIGURE'), ''), "
"coalesce((SELECT string_agg(what, ', ') FROM (SELECT 'the database''s' AS what FROM pg_database "
"WHERE datname = current_database() AND datcollversion <> pg_database_collation_actual_version(oid) "
"UNION ALL SELECT name FROM " USED_COLLATIONS " u WHERE collversion <> version) o), '')";

typedef struct Facts
{
	struct Facts *next;
	int			node;
	char	   *database;
	char	   *values[sizeof(fact_names) / sizeof(fact_names[0])];
	char	   *collations;
	char	   *time_zones;
	char	   *outdated;		/* collations of another version than recorded */
} Facts;

static Facts *all_facts;

static Facts *
facts_of(int node, const char *database)
{
	Facts	   *f = all_facts;

	while (f != NULL && (f->node != node || strcmp(f->database, database) != 0))
		f = f->next;
	return f;
}

static void
set_text(char **text, const char *value)
{
	free(*text);
	*text = xstrdup(value);
}

void
dbfacts_remember(const Node *n, const char *database, const PGresult *r)
{
	Facts	   *f = facts_of(n->index, database);

	if (f == NULL)
	{
		f = xcalloc(1, sizeof(Facts));
		f->node = n->index;
		f->database = xstrdup(database);
		f->time_zones = xstrdup("");
		f->outdated = xstrdup("");
		f->next = all_facts;
		all_facts = f;
	}
	for (int i = 0; i < NFACTS; i++)
		set_text(&f->values[i], PQgetvalue(r, 0, i));
	set_text(&f->collations, PQgetvalue(r, 0, COLUMN_COLLATIONS));
}

const char *
dbfacts_value(const PGresult *r, DbFactsColumn column)
{
	return PQgetvalue(r, 0, COLUMN_OTHERS + (int) column);
}

/* ---------- comparing */

/* The line of a collation in others, up to its version; NULL: it isn't there. */
static const char *
find_collation(const char *others, const char *line, size_t name_len)
{
	while (*others != '\0')
	{
		size_t		len = strcspn(others, "\n");

		if (len > name_len && memcmp(others, line, name_len + 1) == 0)
			return others + name_len + 1;
		others += len + (others[len] == '\n');
	}
	return NULL;
}

/* Both are lines of name, space, version; a name may have spaces in it. */
static char *
collations_differ(const char *ours, const char *theirs, const char *database, const char *node)
{
	while (*ours != '\0')
	{
		size_t		len = strcspn(ours, "\n");
		size_t		name_len = len;
		const char *version;

		while (name_len > 0 && ours[name_len] != ' ')
			name_len--;
		version = find_collation(theirs, ours, name_len);
		if (version != NULL &&
			(strcspn(version, "\n") != len - name_len - 1 || memcmp(version, ours + name_len + 1, len - name_len - 1) != 0))
			return xasprintf("database \"%s\" has version \"%.*s\" of collation %.*s, but \"%.*s\" on node \"%s\"", database,
							 (int) (len - name_len - 1), ours + name_len + 1, (int) name_len, ours,
							 (int) strcspn(version, "\n"), version, node);
		ours += len + (ours[len] == '\n');
	}
	return NULL;
}

/* The next node that is in, other than n, of which this database is known. */
static const Facts *
next_known(const Node *n, const char *database, int *node)
{
	for (; *node < nodes_count(); (*node)++)
	{
		NodeState	state = node_get(*node)->state;
		const Facts *f = facts_of(*node, database);

		if (f != NULL && *node != n->index && (state == NODE_CATCHUP || state == NODE_ONLINE))
			return f;
	}
	return NULL;
}

char *
dbfacts_difference(const Node *n, const char *database, const PGresult *r)
{
	const Facts *f;

	for (int node = 0; (f = next_known(n, database, &node)) != NULL; node++)
	{
		char	   *difference;

		for (int i = 0; i < NFACTS; i++)
		{
			if (strcmp(f->values[i], PQgetvalue(r, 0, i)) != 0)
				return xasprintf("database \"%s\" has %s \"%s\", but \"%s\" on node \"%s\"", database,
								 fact_names[i], PQgetvalue(r, 0, i), f->values[i], node_name(node));
		}
		difference = collations_differ(PQgetvalue(r, 0, COLUMN_COLLATIONS), f->collations, database, node_name(node));
		if (difference != NULL)
			return difference;
	}
	return NULL;
}

/* ---------- what is told, once */

static void
advise_time_zones(const Node *n, const char *database, const char *version)
{
	const Facts *f;

	for (int node = 0; version[0] != '\0' && (f = next_known(n, database, &node)) != NULL; node++)
	{
		char	   *message;

		if (f->time_zones[0] == '\0' || strcmp(f->time_zones, version) == 0)
			continue;
		message = xasprintf("the time zone data (\"%s\") are not those of node \"%s\" (\"%s\")", version, node_name(node),
							f->time_zones);
		log_full(LOG_WARNING, n->config->name, message,
				 "Times with the name of a zone, in the text of a command, may mean another moment there.",
				 "Install the same version of tzdata on all nodes, and restart the servers.");
		free(message);
		return;
	}
}

static void
advise_collations(const Node *n, const char *database, const char *outdated)
{
	char	   *message;

	if (outdated[0] == '\0')
		return;
	message = xasprintf("database \"%s\" was made with other versions of its collations: %s", database, outdated);
	log_full(LOG_WARNING, n->config->name, message, "Indexes of text may be out of order.",
			 "See \"Collations\" in docs/operating.md.");
	free(message);
}

void
dbfacts_advise(const Node *n, const char *database, const PGresult *r)
{
	Facts	   *f = facts_of(n->index, database);

	if (f == NULL || PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
		return;
	if (strcmp(f->time_zones, PQgetvalue(r, 0, 0)) != 0)
		advise_time_zones(n, database, PQgetvalue(r, 0, 0));
	set_text(&f->time_zones, PQgetvalue(r, 0, 0));
	if (strcmp(f->outdated, PQgetvalue(r, 0, 1)) != 0)
		advise_collations(n, database, PQgetvalue(r, 0, 1));
	set_text(&f->outdated, PQgetvalue(r, 0, 1));
}
