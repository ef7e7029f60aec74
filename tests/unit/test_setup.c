/*
 * test_setup.c
 *	  Proves what lockstepctl init and join make of the text of a configuration file: settings
 *	  are read as PostgreSQL reads them and put in their place, other lines stay; pg_hba.conf gets
 *	  one block, at its top; addresses are taken apart; a join file comes back as it was written.
 */
#include "unit.h"

#include "buffer.h"
#include "ctl_setup.h"

static void
assert_text(char *text, const char *expected)
{
	if (expected == NULL)
		assert_null(text);
	else
	{
		assert_non_null(text);
		assert_string_equal(text, expected);
	}
	free(text);
}

static void
settings_are_read(void **state)
{
	const char *text = "#port = 1\n  Port 5433 # why\nportal = 7\nname = 'it''s a \\\\ and \\' too'\nport=5434";

	assert_text(conf_get(text, "port"), "5434");
	assert_text(conf_get(text, "name"), "it's a \\ and ' too");
	assert_text(conf_get(text, "por"), NULL);
	assert_text(conf_get("port\n", "port"), NULL);
	assert_text(conf_get("port = ''\n", "port"), "");
	assert_text(conf_get("port = 'open\nx = 1\n", "port"), "open");
}

static void
settings_are_put_in_their_place(void **state)
{
	assert_text(conf_set("", "a", "1"), "a = '1'\n");
	assert_text(conf_set("x = 1", "a", "it's \\"), "x = 1\na = 'it''s \\\\'\n");
	assert_text(conf_set("# a = 0\na = 1 # mine\nb = 2\na = 3\n", "a", "4"), "# a = 0\na = '4'\nb = 2\n");
	/* as it is: the line keeps its form and its comment */
	assert_text(conf_set("a = 1 # mine\n", "a", "1"), "a = 1 # mine\n");
	assert_text(conf_without("a = 1\nb = 2\n A=3\n", "a"), "b = 2\n");
	assert_text(conf_get("a = 'it''s \\\\'\n", "a"), "it's \\");
}

static void
includes_are_found(void **state)
{
	assert_true(conf_includes("x = 1\ninclude_dir = 'conf.d'\t# include\n", "include_dir", "conf.d"));
	assert_true(conf_includes("include 'lockstep.conf'\n", "include", "lockstep.conf"));
	assert_false(conf_includes("#include_dir = 'conf.d'\n", "include_dir", "conf.d"));
	assert_false(conf_includes("include_if_exists 'lockstep.conf'\n", "include", "lockstep.conf"));
}

static void
lists_get_an_item_once(void **state)
{
	assert_text(list_with("", "lockstep"), "lockstep");
	assert_text(list_with("pg_stat_statements", "lockstep"), "pg_stat_statements, lockstep");
	assert_text(list_with("a, lockstep ,b", "lockstep"), "a, lockstep ,b");
	assert_text(list_with("\"lockstep\"", "lockstep"), "\"lockstep\"");
	assert_text(list_with("lockstep_fault", "lockstep"), "lockstep_fault, lockstep");
}

static void
hba_gets_one_block(void **state)
{
	char	   *once = hba_with("local all all peer\n", "host a\n");
	char	   *twice = hba_with(once, "host a\n");
	char	   *other = hba_with(once, "host b\n");

	assert_string_equal(once, twice);
	assert_non_null(strstr(other, "host b\n"));
	assert_null(strstr(other, "host a\n"));
	assert_true(strstr(other, "host b\n") < strstr(other, "local all all peer\n"));
	assert_true(strlen(once) == strlen(other));
	free(once);
	free(twice);
	free(other);
}

static void
address_is(const char *text, const char *expected, int expected_port)
{
	char	   *host = NULL;
	int			port = 5432;

	if (expected == NULL)
		assert_false(address_split(text, &host, &port));
	else
	{
		assert_true(address_split(text, &host, &port));
		assert_string_equal(host, expected);
		assert_int_equal(port, expected_port);
	}
	free(host);
}

static void
addresses_are_taken_apart(void **state)
{
	address_is("db1.example.org", "db1.example.org", 5432);
	address_is("10.0.0.1:7000", "10.0.0.1", 7000);
	address_is("[fe80::1]:7000", "fe80::1", 7000);
	address_is("fe80::1", "fe80::1", 5432);
	address_is("[::1]", "::1", 5432);
	address_is("", NULL, 0);
	address_is("host:", NULL, 0);
	address_is("host:0", NULL, 0);
	address_is("host:65536", NULL, 0);
	address_is("host:1x", NULL, 0);
	address_is("[::1]x", NULL, 0);
	address_is("[::1", NULL, 0);
	address_is("a b", NULL, 0);
	address_is("a'b", NULL, 0);
	assert_text(address_join("::1", 5), "[::1]:5");
	assert_text(address_join("h", 5), "h:5");
}

static void
join_files_come_back(void **state)
{
	JoinFile	f = {.server_version = 15,.replicator = (char *) "10.0.0.1:6432",.secret = (char *) "5ec2e7",.password = (char *) "it's",
		.libraries = (char *) "a, lockstep",.max_connections = 115,.reserved = 18,.nnodes = 2,
	.nodes = {{"n1", (char *) "10.0.0.1", 5432}, {"n2", (char *) "fe80::2", 7000}}};
	char	   *text = join_file_text(&f);
	JoinFile	g = {0};

	assert_true(join_file_parse(&g, "join", text));
	assert_string_equal(g.replicator, f.replicator);
	assert_string_equal(g.secret, f.secret);
	assert_string_equal(g.password, f.password);
	assert_string_equal(g.libraries, f.libraries);
	assert_int_equal(g.server_version, 15);
	assert_int_equal(g.max_connections, 115);
	assert_int_equal(g.reserved, 18);
	assert_int_equal(g.nnodes, 2);
	assert_string_equal(g.nodes[1].name, "n2");
	assert_string_equal(g.nodes[1].host, "fe80::2");
	assert_int_equal(g.nodes[1].port, 7000);
	free(g.replicator);
	free(g.secret);
	free(g.password);
	free(g.libraries);
	free(g.nodes[0].host);
	free(g.nodes[1].host);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_read),
		cmocka_unit_test(settings_are_put_in_their_place),
		cmocka_unit_test(includes_are_found),
		cmocka_unit_test(lists_get_an_item_once),
		cmocka_unit_test(hba_gets_one_block),
		cmocka_unit_test(addresses_are_taken_apart),
		cmocka_unit_test(join_files_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
