/*
 * test_dbfacts.c
 *	  What must be equal of a database on all nodes: a node is compared with those
 *	  that are in, collations by name where both use them.
 */
#include "unit.h"

#include "dbfacts.h"
#include "log.h"

#define FACT_COLUMNS 11				/* as in dbfacts.c */
#define COLUMNS (FACT_COLUMNS + 5)

static Config config;

/* What a node answers: its encoding and its collations; the rest is the same. */
static PGresult *
answer(const char *encoding, const char *collations)
{
	const char *values[COLUMNS] = {"15", encoding, "C", "C", "c", "", "", "", "8192", "63", "32", collations, "1.1", "f", "n1", "t"};
	PGresult   *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc columns[COLUMNS];

	memset(columns, 0, sizeof(columns));
	for (int i = 0; i < COLUMNS; i++)
		columns[i].name = (char *) "x";
	assert_true(PQsetResultAttrs(r, COLUMNS, columns));
	for (int i = 0; i < COLUMNS; i++)
		assert_true(PQsetvalue(r, 0, i, (char *) values[i], (int) strlen(values[i])));
	return r;
}

/* n1 is in, with these; what is said of n2 with those. */
static void
compare(const char *encoding1, const char *collations1, const char *encoding2, const char *collations2, const char *expected)
{
	PGresult   *one = answer(encoding1, collations1);
	PGresult   *two = answer(encoding2, collations2);
	char	   *difference;

	dbfacts_remember(node_get(0), "app", one);
	difference = dbfacts_difference(node_get(1), "app", two);
	if (expected == NULL)
		assert_null(difference);
	else
	{
		assert_non_null(difference);
		assert_string_equal(difference, expected);
	}
	free(difference);
	PQclear(one);
	PQclear(two);
}

static void
facts(void **state)
{
	compare("UTF8", "", "UTF8", "", NULL);
	compare("UTF8", "", "LATIN1", "", "database \"app\" has encoding \"LATIN1\", but \"UTF8\" on node \"n1\"");
}

static void
nobody_is_in(void **state)
{
	node_get(0)->state = NODE_DROPPED;
	compare("UTF8", "", "LATIN1", "", NULL);
	node_get(0)->state = NODE_ONLINE;
}

static void
collations(void **state)
{
	static const char one[] = "pg_catalog.\"de-x-icu\" 153.120\npg_catalog.\"en_US\" 2.36\npublic.\"a name\" 1";

	compare("UTF8", one, "UTF8", one, NULL);
	compare("UTF8", one, "UTF8", "pg_catalog.\"de-x-icu\" 153.121\npg_catalog.\"en_US\" 2.36",
			"database \"app\" has version \"153.121\" of collation pg_catalog.\"de-x-icu\", but \"153.120\" on node \"n1\"");
	compare("UTF8", one, "UTF8", "pg_catalog.\"en_US\" 2.3",
			"database \"app\" has version \"2.3\" of collation pg_catalog.\"en_US\", but \"2.36\" on node \"n1\"");
	compare("UTF8", one, "UTF8", "public.\"a name\" 2",
			"database \"app\" has version \"2\" of collation public.\"a name\", but \"1\" on node \"n1\"");

	/* one that has to catch up does not have all of them, or others still */
	compare("UTF8", one, "UTF8", "", NULL);
	compare("UTF8", "", "UTF8", one, NULL);
	compare("UTF8", one, "UTF8", "pg_catalog.\"de\" 7\npublic.\"a 1\" 9", NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts),
		cmocka_unit_test(nobody_is_in),
		cmocka_unit_test(collations),
	};

	log_open("/dev/null", LOG_ERROR);
	config.nnodes = 2;
	snprintf(config.nodes[0].name, sizeof(config.nodes[0].name), "n1");
	snprintf(config.nodes[1].name, sizeof(config.nodes[1].name), "n2");
	nodes_init(&config, "cluster", "/nowhere", NULL);
	node_get(0)->state = NODE_ONLINE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
