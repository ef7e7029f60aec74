/*
 * test_config.c
 *	  Proves that replicator.conf is taken whole or refused with file, line and
 *	  cause; that units, quoting and ranges are PostgreSQL's; that a reload takes
 *	  what may change while running and names what may not; and that passwords
 *	  are not shown.
 */
#include <unistd.h>

#include "unit.h"

#include "buffer.h"
#include "config.h"
#include "conninfo.h"

static char path[] = "/tmp/lockstep_test_config_XXXXXX";

#define NODE "node.n1 = 'host=127.0.0.1 port=5432'\n"

static int
make_file(void **state)
{
	int			fd = mkstemp(path);

	return fd < 0 || close(fd) != 0;
}

static int
remove_file(void **state)
{
	return unlink(path);
}

static void
write_bytes(const char *text, size_t len)
{
	FILE	   *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static Config *
load(const char *text)
{
	char	   *error;
	Config	   *c;

	write_bytes(text, strlen(text));
	c = config_load(path, &error);
	if (c == NULL)
		fail_msg("%s", error);
	assert_null(error);
	return c;
}

/* The file is refused, with this text after its name. */
static void
refused(const char *text, const char *expected)
{
	char	   *error = NULL;
	char	   *full = xasprintf("%s:%s", path, expected);

	write_bytes(text, strlen(text));
	assert_null(config_load(path, &error));
	assert_non_null(error);
	assert_string_equal(error, full);
	free(error);
	free(full);
}

static void
presets(void **state)
{
	Config	   *c = load(NODE);

	assert_string_equal(c->listen_addresses, "127.0.0.1");
	assert_int_equal(c->port, 6432);
	assert_string_equal(c->unix_socket, "");
	assert_string_equal(c->admin_socket, "/run/lockstep/admin.sock");
	assert_int_equal(c->journal_segment_size, 16 * 1024 * 1024);
	assert_int_equal(c->journal_keep, 1024 * 1024 * 1024);
	assert_int_equal(c->log_level, LOG_INFO);
	assert_int_equal(c->apply_connections, 8);
	assert_int_equal(c->max_apply_delay, 1000);
	assert_int_equal(c->yield_delay, 2);
	assert_int_equal(c->node_timeout, 5000);
	assert_string_equal(c->maintenance_database, "postgres");
	assert_int_equal(c->nnodes, 1);
	assert_string_equal(c->nodes[0].name, "n1");
	assert_string_equal(c->nodes[0].conninfo, "host=127.0.0.1 port=5432");
	config_free(c);
}

static void
syntax_is_postgres(void **state)
{
	Config	   *c = load("# comment\n"
						 "\n"
						 "  port=7000 # comment\n"
						 "apply_connections 4\n"
						 "log_level = 'debug'\r\n"
						 "unix_socket = '/tmp/it''s\\'\\\\'#x\n"
						 "port = '7001'\n"
						 "node.a = 'host=x password=''p w'''\n"
						 "node.b_2 = ''");

	assert_int_equal(c->port, 7001);	/* the last one counts */
	assert_int_equal(c->apply_connections, 4);
	assert_int_equal(c->log_level, LOG_DEBUG);
	assert_string_equal(c->unix_socket, "/tmp/it's'\\");
	assert_int_equal(c->nnodes, 2);
	assert_string_equal(c->nodes[0].conninfo, "host=x password='p w'");
	assert_string_equal(c->nodes[1].name, "b_2");
	config_free(c);
}

static void
numbers_have_units(void **state)
{
	Config	   *c = load(NODE
						 "journal_segment_size = 64kB\n"
						 "journal_keep = '2 TB'\n"
						 "max_transaction_size = 100000\n"
						 "max_apply_delay = 1min\n"
						 "yield_delay = 3ms\n"
						 "node_timeout = 1d\n"
						 "reconnect_interval = 250\n");

	assert_int_equal(c->journal_segment_size, 64 * 1024);
	assert_int_equal(c->journal_keep, INT64_C(2) << 40);
	assert_int_equal(c->max_transaction_size, 100000);
	assert_int_equal(c->max_apply_delay, 60000);
	assert_int_equal(c->yield_delay, 3);
	assert_int_equal(c->node_timeout, 86400000);
	assert_int_equal(c->reconnect_interval, 250);
	config_free(c);
}

static void
bad_lines_are_named(void **state)
{
	refused(NODE "\nprot = 1\n", "3: unrecognized setting \"prot\"");
	refused("= 1\n", "1: syntax error near \"= 1\"");
	refused("port = 1 2\n", "1: syntax error near \"2\" (quote values that contain blanks)");
	refused("port =\n", "1: setting \"port\" has no value (quote it if it is empty or contains blanks)");
	refused("port\n", "1: setting \"port\" has no value (quote it if it is empty or contains blanks)");
	refused("databases = 'a\nport = 1\n", "1: setting \"databases\" has a value with no closing quote");
	refused("include 'other.conf'\n", "1: unrecognized setting \"include\"");
}

static void
bad_values_are_named(void **state)
{
	refused("port = ten\n", "1: invalid value for setting \"port\": \"ten\"");
	refused("port = 0\n", "1: \"0\" is outside the valid range for setting \"port\" (1 .. 65535)");
	refused("port = 65536\n", "1: \"65536\" is outside the valid range for setting \"port\" (1 .. 65535)");
	refused("port = 1kB\n", "1: invalid value for setting \"port\": \"1kB\"");
	refused("apply_connections = -3\n",
			"1: \"-3\" is outside the valid range for setting \"apply_connections\" (2 .. 64)");
	refused("journal_keep = 1KB\n",
			"1: invalid value for setting \"journal_keep\": \"1KB\" (units are B, kB, MB, GB and TB)");
	refused("journal_keep = 99999999999TB\n",
			"1: \"99999999999TB\" is outside the valid range for setting \"journal_keep\" (0B .. 1024TB)");
	refused("journal_keep = 99999999999999999999\n",
			"1: \"99999999999999999999\" is outside the valid range for setting \"journal_keep\" (0B .. 1024TB)");
	refused("journal_segment_size = 1kB\n",
			"1: \"1kB\" is outside the valid range for setting \"journal_segment_size\" (64kB .. 1GB)");
	refused("node_timeout = 5sec\n",
			"1: invalid value for setting \"node_timeout\": \"5sec\" (units are ms, s, min, h and d)");
	refused("node_timeout = 25h\n",
			"1: \"25h\" is outside the valid range for setting \"node_timeout\" (100ms .. 1d)");
	refused("log_level = loud\n",
			"1: invalid value for setting \"log_level\": \"loud\" (one of debug, info, notice, warning, error)");
	refused("pid_file = run/pid\n", "1: setting \"pid_file\" must be an absolute path: \"run/pid\"");
}

static void
socket_paths_must_fit(void **state)
{
	char		line[200] = "unix_socket = '/";
	char	   *error;

	memset(line + strlen(line), 'x', 107);
	strcat(line, "'\n");
	write_bytes(line, strlen(line));
	assert_null(config_load(path, &error));
	assert_non_null(strstr(error, ":1: path of setting \"unix_socket\" is longer than a Unix socket's may be (107 bytes)"));
	free(error);
}

static void
bad_nodes_are_named(void **state)
{
	refused("node. = ''\n", "1: invalid node name \"\" (1 to 63 of a-z, 0-9 and _)");
	refused("node.N1 = ''\n", "1: invalid node name \"N1\" (1 to 63 of a-z, 0-9 and _)");
	refused("node.0123456789012345678901234567890123456789012345678901234567890123 = ''\n",
			"1: invalid node name \"0123456789012345678901234567890123456789012345678901234567890123\""
			" (1 to 63 of a-z, 0-9 and _)");
	refused(NODE NODE, "2: node \"n1\" is set twice");
	refused("node.n1 = 'host=a dbname=x'\n",
			"1: node \"n1\": connection string must not contain \"dbname\": the replicator sets it");
	refused("node.n1 = 'options=-cx=y'\n",
			"1: node \"n1\": connection string must not contain \"options\": the replicator sets it");
	refused("node.n1 = 'hots=a'\n",
			"1: node \"n1\": invalid connection string: invalid connection option \"hots\"");
	refused("node.n1 = 'postgresql://h/db'\n",
			"1: node \"n1\": connection string must not contain \"dbname\": the replicator sets it");
}

static void
too_many_nodes(void **state)
{
	char		text[1000] = "";

	for (int i = 0; i <= CONFIG_MAX_NODES; i++)
		sprintf(text + strlen(text), "node.n%d = ''\n", i);
	refused(text, "17: more than 16 nodes");
}

static void
settings_must_fit_together(void **state)
{
	refused("", " no node is set (node.NAME = 'host=... port=...')");
	refused(NODE "secret_file = ''\n", " setting \"secret_file\" must not be empty");
	refused(NODE "journal_directory = ''\n", " setting \"journal_directory\" must not be empty");
	refused(NODE "admin_socket = ''\n", " setting \"admin_socket\" must not be empty");
	refused(NODE "listen_addresses = ''\n",
			" one of \"listen_addresses\" and \"unix_socket\" must not be empty");
	refused(NODE "databases = 'a,,b'\n", " invalid name in setting \"databases\": \"\"");
}

static void
not_text_is_refused(void **state)
{
	const char	zero[] = "port = 1\0\n";
	char	   *error;

	write_bytes(zero, sizeof(zero) - 1);
	assert_null(config_load(path, &error));
	assert_non_null(strstr(error, ":1: a zero byte is not text"));
	free(error);
}

static void
missing_file_is_refused(void **state)
{
	char	   *error;

	assert_null(config_load("/nonexistent/replicator.conf", &error));
	assert_string_equal(error, "could not open \"/nonexistent/replicator.conf\": No such file or directory");
	free(error);
	assert_null(config_load("/tmp", &error));
	assert_string_equal(error, "could not read \"/tmp\": Is a directory");
	free(error);
}

static void
reload_takes_what_may_change(void **state)
{
	Config	   *current = load(NODE "port = 7000\nnode_timeout = 5s\n");
	Config	   *fresh = load(NODE "port = 7000\nnode_timeout = 6s\nlog_level = error\njournal_keep = 2GB\n");
	char	   *names = config_reload(current, fresh);

	assert_string_equal(names, "");
	assert_int_equal(current->node_timeout, 6000);
	assert_int_equal(current->log_level, LOG_ERROR);
	assert_int_equal(current->journal_keep, INT64_C(2) << 30);
	free(names);
	config_free(current);
	config_free(fresh);
}

static void
reload_names_what_needs_a_restart(void **state)
{
	Config	   *current = load(NODE);
	Config	   *fresh = load("node.n1 = 'host=elsewhere sslmode=verify-full'\nport = 7000\npid_file = '/x'\n"
							 "journal_segment_size = 1MB\nyield_delay = 9\n");
	char	   *names = config_reload(current, fresh);

	assert_string_equal(names, "port, journal_segment_size, pid_file");
	assert_int_equal(current->port, 6432);
	assert_string_equal(current->pid_file, "/run/lockstep/replicator.pid");
	assert_string_equal(current->nodes[0].conninfo, "host=elsewhere sslmode=verify-full");	/* that does not */
	assert_int_equal(current->nodes[0].moves, 1);
	assert_int_equal(current->yield_delay, 9);
	free(names);
	config_free(current);
	config_free(fresh);
}

/* A reload with changed TLS settings, which need a restart. */
static char *
reload(Config *current, const char *text)
{
	Config	   *fresh = load(text);
	char	   *names = config_reload(current, fresh);

	config_free(fresh);
	return names;
}

static void
reload_keeps_nodes_when_tls_changes(void **state)
{
	Config	   *current = load("node.n1 = 'host=10.0.0.1'\ntls_directory = '/old'\n");
	char	   *conninfo = xstrdup(current->nodes[0].conninfo);
	char	   *names = reload(current, "node.n1 = 'host=10.0.0.1'\nnode.n2 = 'host=10.0.0.2'\ntls_directory = '/new'\n");

	assert_non_null(strstr(conninfo, "sslrootcert='/old/ca.pem'"));
	assert_string_equal(names, "tls_directory");
	assert_int_equal(current->nodes[0].moves, 0);
	assert_string_equal(current->nodes[0].conninfo, conninfo);
	assert_int_equal(current->nnodes, 2);
	assert_non_null(strstr(current->nodes[1].conninfo, "sslrootcert='/old/ca.pem'"));
	free(names);
	names = reload(current, "node.n1 = 'host=10.0.0.9'\nnode.n2 = 'host=10.0.0.2'\nrequire_tls = remote\n");
	assert_string_equal(names, "tls_directory, require_tls");
	assert_int_equal(current->nodes[0].moves, 1);
	assert_non_null(strstr(current->nodes[0].conninfo, "host='10.0.0.9'"));
	assert_non_null(strstr(current->nodes[0].conninfo, "sslrootcert='/old/ca.pem'"));
	assert_int_equal(current->nodes[1].moves, 0);
	free(names);
	free(conninfo);
	config_free(current);
}

/* What the new file would encrypt, and the settings in force do not. */
static void
reload_takes_no_node_in_the_clear(void **state)
{
	Config	   *current = load("node.n1 = 'host=127.0.0.1'\nrequire_tls = remote\n");
	char	   *names = reload(current, "node.n1 = 'host=10.0.0.1'\nnode.n2 = 'host=10.0.0.2'\nnode.n3 = 'host=10.0.0.3 sslmode=verify-full'\n"
							   "tls_directory = '/new'\nrequire_tls = remote\n");

	assert_string_equal(names, "tls_directory, node.n1, node.n2");
	assert_string_equal(current->nodes[0].conninfo, "host=127.0.0.1");
	assert_int_equal(current->nodes[0].moves, 0);
	assert_int_equal(current->nnodes, 2);
	assert_string_equal(current->nodes[1].name, "n3");
	free(names);
	config_free(current);
}

static void
without_passwords(const char *conninfo, const char *expected, const char *password, const char *sslpassword)
{
	ConninfoPasswords passwords;
	char	   *text = conninfo_without_passwords(conninfo, &passwords);

	assert_string_equal(text, expected);
	if (password == NULL)
		assert_null(passwords.password);
	else
		assert_string_equal(passwords.password, password);
	if (sslpassword == NULL)
		assert_null(passwords.sslpassword);
	else
		assert_string_equal(passwords.sslpassword, sslpassword);
	free(text);
	free(passwords.password);
	free(passwords.sslpassword);
}

static void
passwords_are_taken_out_of_connection_strings(void **state)
{
	ConninfoPasswords passwords;

	without_passwords("host=h user=u", "user='u' host='h'", NULL, NULL);
	without_passwords("host=h password='it\\'s'", "host='h'", "it's", NULL);
	without_passwords("postgresql://u:p%20w@h:5/d", "user='u' dbname='d' host='h' port='5'", "p w", NULL);
	without_passwords("host=h sslpassword=s password=p", "host='h' service='" CONNINFO_SERVICE "'", "p", "s");
	without_passwords("service=own sslpassword=s", "service='own'", NULL, NULL);
	assert_null(conninfo_without_passwords("n1", &passwords));
}

static const char *
shown(const Config *c, const char *name)
{
	const char *value;
	const char *help;
	const char *found;

	for (int i = 0; (found = config_show(c, i, &value, &help)) != NULL; i++)
	{
		assert_true(strlen(help) > 10);
		if (strcmp(found, name) == 0)
			return value;
	}
	return NULL;
}

static void
show_is_readable_and_keeps_secrets(void **state)
{
	Config	   *c = load("node.n1 = 'host=h password=geheim'\nnode_timeout = 90000\n"
						 "journal_keep = 0\nmax_apply_delay = 1500\nlog_level = warning\n");

	assert_string_equal(shown(c, "port"), "6432");
	assert_string_equal(shown(c, "journal_segment_size"), "16MB");
	assert_string_equal(shown(c, "journal_keep"), "0B");
	assert_string_equal(shown(c, "node_timeout"), "90s");
	assert_string_equal(shown(c, "max_apply_delay"), "1500ms");
	assert_string_equal(shown(c, "log_level"), "warning");
	assert_string_equal(shown(c, "node.n1"), "password=******** host=h");
	assert_null(shown(c, "node.n2"));
	config_free(c);
}

static void
lists(void **state)
{
	int			n;
	char	  **items = config_list(" a, b c ,d", &n);

	assert_int_equal(n, 3);
	assert_string_equal(items[0], "a");
	assert_string_equal(items[1], "b c");
	assert_string_equal(items[2], "d");
	config_list_free(items, n);
	assert_null(config_list("  ", &n));
	assert_int_equal(n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets),
		cmocka_unit_test(syntax_is_postgres),
		cmocka_unit_test(numbers_have_units),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(bad_values_are_named),
		cmocka_unit_test(socket_paths_must_fit),
		cmocka_unit_test(bad_nodes_are_named),
		cmocka_unit_test(too_many_nodes),
		cmocka_unit_test(settings_must_fit_together),
		cmocka_unit_test(not_text_is_refused),
		cmocka_unit_test(missing_file_is_refused),
		cmocka_unit_test(reload_takes_what_may_change),
		cmocka_unit_test(reload_names_what_needs_a_restart),
		cmocka_unit_test(reload_keeps_nodes_when_tls_changes),
		cmocka_unit_test(reload_takes_no_node_in_the_clear),
		cmocka_unit_test(passwords_are_taken_out_of_connection_strings),
		cmocka_unit_test(show_is_readable_and_keeps_secrets),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
