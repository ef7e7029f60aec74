/*
 * test_admin.c
 *	  Proves that the operator's socket answers every line, sense or nonsense,
 *	  with one line of JSON; that commands that wait do so, and end when they
 *	  can't succeed, when their time is over, or when the client goes; that what
 *	  lockstepctl tells of itself is in the status for as long as it is there, and
 *	  nonsense ends its connection; and that only the socket's owner can reach it.  The nodes and the sequencer are
 *	  fakes: what stands below in capitals says what they answer.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit.h"

#include "admin.h"
#include "buffer.h"
#include "group.h"
#include "loop.h"
#include "membership.h"
#include "sequencer.h"
#include "session.h"
#include "waits_rows.h"

/* ---------- fakes */

#define NODES 2

static NodeStatus fakes[NODES];
static uint64_t decided;
static char *last_database;
static NodeDone database_callback;
static void *database_arg;
static char *reload_error;
static char *reload_warning;
static int	stops;

const FactsColumn wait_columns[WAIT_COLUMNS] = {{"node", false}, {"pid", true}};

bool
waits_row(size_t i, const char **cells)
{
	memset(cells, 0, WAIT_COLUMNS * sizeof(cells[0]));
	cells[0] = "n1";
	cells[1] = "4711";
	return i == 0;
}

void
waits_refresh(void (*done) (void *arg), void *arg)
{
	done(arg);
}

int
nodes_count(void)
{
	return NODES;
}

int
node_find(LsSlice name)
{
	for (int i = 0; i < NODES; i++)
	{
		if (strlen(fakes[i].name) == name.len && memcmp(fakes[i].name, name.data, name.len) == 0)
			return i;
	}
	return -1;
}

NodeStatus
node_status(int node)
{
	return fakes[node];
}

bool
node_hint(const NodeStatus *s, char *hint)
{
	drop_hint(s->cause, s->name, hint);
	return hint[0] != '\0';
}

const char *
node_state_name(NodeState s)
{
	static const char *const names[] = {"joining", "catchup", "online", "dropped"};

	return names[s];
}

bool
node_drop(int node, void (*done) (void *), void *arg)
{
	if (fakes[node].state == NODE_DROPPED)
		return false;
	fakes[node].state = NODE_DROPPED;
	fakes[node].reason = "dropped by command";
	fakes[node].cause = DROP_COMMAND;
	fakes[node].administrative = true;
	done(arg);
	return true;
}

bool
node_attach(int node, const char **why)
{
	if (fakes[node].state != NODE_DROPPED)
	{
		*why = "it is not dropped";
		return false;
	}
	fakes[node].state = NODE_JOINING;
	return true;
}

static bool leads;				/* a group of replicators, r1 and r2 */
static int	preferred = -1;

bool
group_is_leader(void)
{
	return leads;
}

bool
group_can_hand_over(void)
{
	return false;
}

bool
group_prefer(int i)
{
	bool		is_new = preferred != i;

	preferred = i;
	return is_new;
}

static EtcdState etcd_state = ETCD_ANSWERS;

void
group_ask_etcd(void)
{
}

EtcdState
group_etcd_state(void)
{
	return etcd_state;
}

void
group_stop_preferring(int i)
{
	if (preferred == i)
		preferred = -1;
}

bool
group_is_ready_to_lead(int i)
{
	return false;
}

static int	drains;
static int64_t paused_ms = -1;

bool
node_drain(int node, bool readers, bool announce, const char **why)
{
	*why = "it is not online";
	if (fakes[node].state != NODE_ONLINE)
		return false;
	fakes[node].draining = true;
	fakes[node].drain_announced = announce;
	fakes[node].drains_readers = readers;
	drains++;
	return true;
}

bool
node_resume(int node)
{
	bool		was = fakes[node].draining;

	fakes[node].draining = false;
	return was;
}

const char *
node_drain_trouble(int node)
{
	return "";
}

void
writers_pause(int ms)
{
	paused_ms = ms;
}

void
writers_resume(void)
{
	paused_ms = -1;
}

int64_t
writers_paused_ms(void)
{
	return paused_ms;
}

void
nodes_database_add(const char *name, NodeDone done, void *arg)
{
	free(last_database);
	last_database = xstrdup(name);
	database_callback = done;
	database_arg = arg;
}

void
nodes_database_drop(const char *name, NodeDone done, void *arg)
{
	nodes_database_add(name, done, arg);
}

const char *const *
metadata_databases(int *n)
{
	static const char *const names[] = {"app", "b\xff" "d"};

	*n = 2;
	return names;
}

uint64_t
sequencer_last_decided(void)
{
	return decided;
}

uint64_t
sequencer_last_durable(void)
{
	return decided;
}

SequencerStats
sequencer_stats(void)
{
	return (SequencerStats) {.committed = 7,.conflicts = 3,.journal_first = 1};
}

int
sessions_of_node(int node)
{
	return 10 + node;
}

static struct Session
{
	uint32_t	pid;
}			session = {4711};

Session *
sessions_next(Session *previous)
{
	return previous == NULL ? &session : NULL;
}

const char *
session_tls_expires(int *days)
{
	*days = 10;
	return "soon";
}

SessionStatus
session_status(const Session *s)
{
	return (SessionStatus)
	{
		.node = "n1",.database = "app",.application = "\xff",.pid = s->pid,
			.state = "queued",.statements = 2,.bytes = 100
	};
}

static char *
fake_reload(char **warning)
{
	*warning = reload_warning ? xstrdup(reload_warning) : NULL;
	return reload_error ? xstrdup(reload_error) : NULL;
}

static void
fake_stop(void)
{
	stops++;
}

/* ---------- a client on the same loop */

typedef struct Client
{
	int			fd;
	Watch	   *watch;
	Buffer		in;
}			Client;

static char directory[] = "/tmp/lockstep_test_admin_XXXXXX";
static Config config;

static void
on_client(void *arg, uint32_t events)
{
	Client	   *c = arg;
	ssize_t		n;

	buffer_reserve(&c->in, 65536);
	n = recv(c->fd, c->in.data + c->in.len, 65536, MSG_DONTWAIT);
	if (n > 0)
		c->in.len += (size_t) n;
	else
		loop_stop();
}

static void
client_open(Client * c, const void *bytes, size_t len)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	memset(c, 0, sizeof(*c));
	strcpy(addr.sun_path, config.admin_socket);
	c->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(c->fd, (struct sockaddr *) &addr, sizeof(addr)), 0);
	assert_int_equal(send(c->fd, bytes, len, MSG_NOSIGNAL), len);
}

static void
client_close(Client * c)
{
	loop_unwatch(c->watch);
	close(c->fd);
	buffer_free(&c->in);
}

/* The answer to these bytes; NULL if there was none. */
static json_t *
client_answer(Client * c)
{
	json_t	   *answer = NULL;

	c->watch = loop_watch(c->fd, EPOLLIN, on_client, c);
	loop_run();
	if (c->in.len > 0)
	{
		assert_int_equal(c->in.data[c->in.len - 1], '\n');
		answer = json_loadb((const char *) c->in.data, c->in.len, 0, NULL);
		assert_non_null(answer);
	}
	client_close(c);
	return answer;
}

static json_t *
ask_bytes(const void *bytes, size_t len)
{
	Client		c;

	client_open(&c, bytes, len);
	return client_answer(&c);
}

static json_t *
ask(const char *line)
{
	return ask_bytes(line, strlen(line));
}

static void
assert_ok(const char *line)
{
	json_t	   *answer = ask(line);

	if (!json_is_true(json_object_get(answer, "ok")))
		fail_msg("%s: %s", line, json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
}

static void
assert_error(const char *line, const char *error)
{
	json_t	   *answer = ask(line);

	assert_true(json_is_false(json_object_get(answer, "ok")));
	assert_string_equal(json_string_value(json_object_get(answer, "error")), error);
	json_decref(answer);
}

static void
later(int ms, TimerCallback callback)
{
	loop_after(ms, callback, NULL);
}

static int
start(void **state)
{
	static const AdminMain calls = {.reload = fake_reload,.stop = fake_stop};
	char	   *error;

	if (mkdtemp(directory) == NULL)
		return 1;
	config.admin_socket = xasprintf("%s/admin.sock", directory);
	config.journal_directory = "/nowhere";
	config.listen_addresses = config.unix_socket = config.secret_file = config.pid_file =
		config.log_file = config.maintenance_database = config.databases =
		config.replicator_name = config.etcd_endpoints = config.etcd_key = config.tls_directory = config.http_listen = config.http_certificate = config.http_key = config.http_token_file = "";
	loop_init();
	error = admin_init(&config, "c1", &calls, admin_command);
	if (error != NULL)
		print_error("%s\n", error);
	return error != NULL;
}

static int
stop(void **state)
{
	struct stat st;
	int			left;

	admin_stop();
	left = stat(config.admin_socket, &st);
	free(config.admin_socket);
	free(last_database);
	return left == 0 || rmdir(directory) != 0;
}

static int
reset(void **state)
{
	fakes[0] = (NodeStatus) {.name = "n1",.state = NODE_ONLINE,.reason = "",.applied = 5};
	fakes[1] = (NodeStatus) {.name = "n2",.state = NODE_ONLINE,.reason = "",.applied = 5};
	decided = 5;
	database_callback = NULL;
	stops = 0;
	return 0;
}

/* ---------- tests */

static void
socket_is_private(void **state)
{
	struct stat st;

	assert_int_equal(stat(config.admin_socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void
status_has_the_facts(void **state)
{
	json_t	   *answer;
	json_t	   *n2;
	json_t	   *databases;

	fakes[1].applied = 2;
	fakes[1].reason = "caf\xe9";	/* Latin-1 from some server */
	answer = ask("status\n");
	n2 = json_array_get(json_object_get(answer, "nodes"), 1);
	assert_string_equal(json_string_value(json_object_get(n2, "name")), "n2");
	assert_string_equal(json_string_value(json_object_get(n2, "reason")), "caf?");
	assert_int_equal(json_integer_value(json_object_get(n2, "lag")), 3);
	assert_int_equal(json_integer_value(json_object_get(n2, "sessions")), 11);
	databases = json_object_get(answer, "databases");
	assert_string_equal(json_string_value(json_array_get(databases, 0)), "app");
	assert_string_equal(json_string_value(json_array_get(databases, 1)), "b?d");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(answer, "counters"), "conflicts")), 3);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(answer, "journal"), "last")), 5);
	json_decref(answer);
}

static void
waits_are_listed(void **state)
{
	json_t	   *answer = ask("waits\n");
	json_t	   *first = json_array_get(json_object_get(answer, "waits"), 0);

	assert_int_equal(json_array_size(json_object_get(answer, "waits")), 1);
	assert_int_equal(json_integer_value(json_object_get(first, "pid")), 4711);
	assert_int_equal(json_array_size(json_object_get(answer, "nodes")), NODES);
	json_decref(answer);
}

static void
sessions_are_listed(void **state)
{
	json_t	   *answer = ask("sessions\n");
	json_t	   *first = json_array_get(json_object_get(answer, "sessions"), 0);

	assert_int_equal(json_integer_value(json_object_get(first, "pid")), 4711);
	assert_string_equal(json_string_value(json_object_get(first, "application")), "?");
	json_decref(answer);
}

static void
config_is_shown(void **state)
{
	json_t	   *answer = ask("config\n");

	assert_true(json_array_size(json_object_get(answer, "settings")) > 15);
	json_decref(answer);
}

static void
drop_works_once(void **state)
{
	assert_error("drop n3\n", "there is no node \"n3\"");
	assert_ok("drop n2\n");
	assert_true(fakes[1].administrative);
	assert_error("drop n2\n", "could not drop node \"n2\": it is dropped");
}

static void
n2_goes_online(void *arg)
{
	fakes[1].state = NODE_ONLINE;
}

static void
n2_is_dropped(void *arg)
{
	fakes[1].state = NODE_DROPPED;
	fakes[1].reason = "does not fit";
}

static void
attach_waits_for_the_outcome(void **state)
{
	assert_error("attach n1\n", "could not attach node \"n1\": it is not dropped");

	n2_is_dropped(NULL);
	later(20, n2_goes_online);
	assert_ok("attach n2\n");

	n2_is_dropped(NULL);
	later(20, n2_is_dropped);
	assert_error("attach n2\n", "node \"n2\" was not attached (dropped): does not fit");

	n2_is_dropped(NULL);
	assert_error("timeout=20 attach n2\n", "node \"n2\" is not online yet (joining): does not fit");
}

static void
n2_applies(void *arg)
{
	fakes[1].applied = 5;
}

static void
drain_waits_for_all(void **state)
{
	assert_ok("drain\n");

	fakes[1].applied = 4;
	later(20, n2_applies);
	assert_ok("drain\n");

	fakes[1].applied = 4;
	assert_error("timeout=20 drain\n", "node \"n2\" (online) has applied 4 of 5");

	/* One that is out by itself comes back, and is waited for. */
	n2_is_dropped(NULL);
	assert_error("timeout=20 drain\n", "node \"n2\" (dropped: does not fit) has applied 4 of 5");
	assert_ok("drain online\n");
	fakes[1].administrative = true;
	assert_ok("drain\n");
	assert_error("drain sideways\n", "there is no node \"sideways\"");
}

static void
n1_is_drained(void *arg)
{
	fakes[0].draining = false;
	fakes[0].administrative = true;
	fakes[0].state = NODE_DROPPED;
}

static void
node_is_drained(void **state)
{
	int			before = drains;

	later(20, n1_is_drained);
	assert_ok("drain n1 readers\n");
	assert_true(fakes[0].drains_readers);
	assert_error("drain n1\n", "could not drain node \"n1\": it is not online");
	fakes[1].writers_open = -1;
	assert_error("timeout=20 drain n2\n", "node \"n2\" is still being drained: it has not answered yet");
	assert_ok("resume n2\n");
	fakes[1].writers_open = 0;
	assert_error("timeout=20 drain n2\n", "node \"n2\" is still being drained: sessions wait for other nodes or for the replicator");
	assert_ok("resume n2\n");
	fakes[1].writers_open = 3;
	assert_error("timeout=20 drain n2\n", "node \"n2\" is still being drained: 3 transactions that write are open");
	assert_false(fakes[1].drains_readers);
	assert_true(fakes[1].draining);
	assert_ok("resume n2\n");
	assert_false(fakes[1].draining);
	assert_error("drain n3 readers\n", "there is no node \"n3\"");
	assert_int_equal(drains, before + 4);
}

static void
nothing_is_open(void *arg)
{
	fakes[0].writers_open = 0;
}

static void
pauses_are_bounded(void **state)
{
	assert_error("pause\n", "a pause takes from 1 second to 1 hour");
	assert_error("timeout=3600001 pause\n", "a pause takes from 1 second to 1 hour");
	assert_error("resume\n", "writes are not paused");
	fakes[0].writers_open = -1;
	fakes[1].writers_open = 0;
	later(20, nothing_is_open);
	assert_ok("timeout=60000 pause\n");
	assert_in_range(paused_ms, 1, 60000);
	assert_ok("resume\n");
	fakes[0].writers_open = -1;
	assert_error("timeout=20 pause\n", "the pause is over, and not all nodes have answered in time");
	fakes[0].writers_open = 2;
	assert_error("timeout=20 pause\n", "the pause is over, and 2 transactions that write are still open");
	writers_resume();
}

static void
database_is_done(void *arg)
{
	database_callback(database_arg, arg);
	database_callback = NULL;
}

static void
databases_answer_later(void **state)
{
	loop_after(10, database_is_done, NULL);
	assert_ok("database add my app\n");
	assert_string_equal(last_database, "my app");

	loop_after(10, database_is_done, "it is not there on n2");
	assert_error("database drop x\n", "it is not there on n2");

	assert_error("database add \n", "unrecognized command, or its argument is missing");
	assert_error("database add 0123456789012345678901234567890123456789012345678901234567890123\n",
				 "a database name has 1 to 63 bytes");
}

static void
stop_loop(void *arg)
{
	loop_stop();
}

static void
run_for(int ms)
{
	loop_after(ms, stop_loop, NULL);
	loop_run();
}

static void
client_may_go(void **state)
{
	Client		c;

	/* while a command runs that calls back */
	client_open(&c, "database add x\n", 15);
	run_for(10);
	assert_non_null(database_callback);
	client_close(&c);
	run_for(10);
	database_is_done(NULL);

	/* while one waits */
	fakes[1].applied = 4;
	client_open(&c, "drain\n", 6);
	run_for(20);
	client_close(&c);
	run_for(20);

	/* before its line is complete, and before anything was said */
	client_open(&c, "stat", 4);
	run_for(10);
	client_close(&c);
	client_open(&c, "", 0);
	client_close(&c);
	run_for(10);
	assert_ok("status\n");
}

/* Nobody waits for a switchover any more: it does not happen later. */
static void
switchover_ends_with_its_client(void **state)
{
	Client		c;
	Client		other;

	leads = true;
	config.nreplicators = 3;
	config.replicator_name = "r1";
	for (int i = 0; i < config.nreplicators; i++)
		snprintf(config.replicators[i].name, sizeof(config.replicators[i].name), "r%d", i + 1);

	client_open(&c, "switchover r2\n", 14);
	run_for(20);
	assert_int_equal(preferred, 1);
	client_close(&c);
	run_for(20);
	assert_int_equal(preferred, -1);

	assert_error("timeout=20 switchover r2\n", "replicator \"r2\" is not in sync");
	assert_int_equal(preferred, -1);

	etcd_state = ETCD_SILENT;
	assert_error("switchover r2\n", "etcd does not answer, so no other replicator could lead");
	etcd_state = ETCD_ANSWERS;
	assert_int_equal(preferred, -1);

	/* the same, or another one, has been ordered meanwhile */
	client_open(&c, "switchover r2\n", 14);
	run_for(20);
	assert_error("switchover r2\n", "a switchover to it is under way");
	assert_int_equal(preferred, 1);
	client_close(&c);
	run_for(20);
	client_open(&c, "switchover r2\n", 14);
	run_for(20);
	client_open(&other, "switchover r3\n", 14);
	run_for(20);
	client_close(&c);
	run_for(20);
	assert_int_equal(preferred, 2);
	client_close(&other);
	run_for(20);
	assert_int_equal(preferred, -1);

	leads = false;
	config.nreplicators = 0;
	config.replicator_name = "";
}

static void
reload_and_stop_reach_main(void **state)
{
	json_t	   *answer;

	reload_error = "replicator.conf:12: unrecognized setting \"prot\"";
	assert_error("reload\n", reload_error);
	reload_error = NULL;
	assert_ok("reload\n");
	reload_warning = "changes of these settings need a restart of the replicator: port";
	answer = ask("reload\n");
	assert_true(json_is_true(json_object_get(answer, "ok")));
	assert_string_equal(json_string_value(json_object_get(answer, "warning")), reload_warning);
	json_decref(answer);
	reload_warning = NULL;
	assert_ok("stop\n");
	assert_int_equal(stops, 1);
}

static void
nonsense_is_refused(void **state)
{
	static const char *const lines[] = {
		"\n", " \n", "statusx\n", "status\r\n", "drop\n", "drop \n", "database\n", "database add\n",
		"timeout=\n", "timeout=5\n", "timeout=-1 status\n", "timeout=x status\n",
		"timeout=99999999999999999999 status\n", "timeout=5  status\n", "{\"a\": 1}\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "drop n1\xff\xfe\n", "attach %s%n%s\n",
	};
	uint8_t		bytes[4096];
	json_t	   *answer;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
	{
		answer = ask(lines[i]);
		assert_true(json_is_false(json_object_get(answer, "ok")));
		json_decref(answer);
	}

	answer = ask_bytes("drop\0n1\n", 8);
	assert_true(json_is_false(json_object_get(answer, "ok")));
	json_decref(answer);

	memset(bytes, 'x', sizeof(bytes));
	json_decref(ask_bytes(bytes, 1024));
	json_decref(ask_bytes(bytes, sizeof(bytes)));

	srandom(1);
	for (int i = 0; i < 500; i++)
	{
		size_t		len = 1 + (size_t) random() % 200;

		for (size_t b = 0; b < len; b++)
			bytes[b] = (uint8_t) random();
		bytes[len] = '\n';
		json_decref(ask_bytes(bytes, len + 1));
	}
	assert_ok("status\n");
	assert_int_equal(stops, 0);
	assert_int_equal(fakes[0].state, NODE_ONLINE);
}

static void
many_clients_are_bounded(void **state)
{
	Client		clients[100];

	for (int i = 0; i < 100; i++)
	{
		client_open(&clients[i], "", 0);
		run_for(0);
	}
	for (int i = 0; i < 100; i++)
		client_close(&clients[i]);
	run_for(10);
	assert_ok("status\n");
}

/* A request that was answered before its line was complete must not leave a timer behind, either: it would fire first. */
static void
silent_ones_are_sent_away(void **state)
{
	uint8_t		bytes[1500];
	Client		c;
	json_t	   *answer;

	memset(bytes, 'x', sizeof(bytes));
	answer = ask_bytes(bytes, sizeof(bytes));
	assert_string_equal(json_string_value(json_object_get(answer, "error")), "request is too long");
	json_decref(answer);
	client_open(&c, "stat", 4);
	assert_null(client_answer(&c));
	assert_ok("status\n");
}

/* ---------- what lockstepctl tells of itself */

#define TOLD "progress {\"command\": \"verify\", \"ran_ms\": 42000, \"text\": "

static json_t *
told(void)
{
	json_t	   *answer = ask("status\n");
	json_t	   *running = json_incref(json_object_get(answer, "running"));

	json_decref(answer);
	return running;
}

static size_t
number_told(void)
{
	json_t	   *running = told();
	size_t		n = json_array_size(running);

	json_decref(running);
	return n;
}

static void
say(Client * c, const char *line)
{
	assert_int_equal(send(c->fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
}

/* Until the replicator has closed it, which is awaited. */
static void
assert_closed(Client * c)
{
	json_decref(client_answer(c));
}

static void
progress_is_in_the_status(void **state)
{
	static const char first[] = TOLD "\"one\", \"database\": \"app\", \"done\": 3, \"all\": 12, \"more\": [1]}\n";
	Client		c;
	json_t	   *running;
	json_t	   *one;

	assert_int_equal(number_told(), 0);
	client_open(&c, first, strlen(first));
	run_for(10);
	running = told();
	one = json_array_get(running, 0);
	assert_int_equal(json_array_size(running), 1);
	assert_string_equal(json_string_value(json_object_get(one, "text")), "one");
	assert_string_equal(json_string_value(json_object_get(one, "database")), "app");
	assert_true(json_is_null(json_object_get(one, "object")));
	assert_null(json_object_get(one, "more"));
	assert_int_equal(json_integer_value(json_object_get(one, "all")), 12);
	assert_int_equal(json_integer_value(json_object_get(one, "pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(one, "uid")), geteuid());
	assert_true(json_integer_value(json_object_get(one, "for_ms")) >= 42000);
	json_decref(running);

	/*
	 * the last one counts, and is looked at a second later; half a line is
	 * none yet
	 */
	say(&c, TOLD "\"two\"}\n" TOLD "\"three\"}\n" TOLD "\"fo");
	run_for(100);
	running = told();
	assert_string_equal(json_string_value(json_object_get(json_array_get(running, 0), "text")), "one");
	json_decref(running);
	run_for(1200);
	running = told();
	assert_string_equal(json_string_value(json_object_get(json_array_get(running, 0), "text")), "three");
	json_decref(running);
	say(&c, "ur\"}\n");
	run_for(1200);
	running = told();
	assert_string_equal(json_string_value(json_object_get(json_array_get(running, 0), "text")), "four");
	json_decref(running);

	client_close(&c);
	run_for(10);
	assert_int_equal(number_told(), 0);
}

static void
progress_that_is_none_ends_its_connection(void **state)
{
	static const char *const lines[] = {
		"progress\n", "progress x\n", "progress []\n", "progress {}\n", TOLD "1}\n", TOLD "\"\"}\n", TOLD "\"x\", \"done\": -1}\n",
		TOLD "\"x\", \"done\": \"1\"}\n", TOLD "\"x\", \"database\": 1}\n", TOLD "\"x\\u0000\"}\n", TOLD "\"\xff\"}\n",
		"progress {\"command\": \"verify\", \"text\": \"x\"}\n",
		"progress {\"command\": \"verify\", \"text\": \"x\", \"ran_ms\": -1}\n",
		"progress {\"command\": \"verify\", \"text\": \"x\", \"ran_ms\": 9223372036854775807}\n",
	};
	static const char good[] = TOLD "\"x\"}\n";
	char		big[1100];
	Client		c;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
	{
		json_t	   *answer = ask(lines[i]);

		assert_true(json_is_false(json_object_get(answer, "ok")));
		json_decref(answer);
	}
	assert_int_equal(number_told(), 0);

	/* one that begins well */
	client_open(&c, good, strlen(good));
	run_for(10);
	say(&c, "status\n");
	assert_closed(&c);
	client_open(&c, good, strlen(good));
	run_for(10);
	memset(big, 'x', sizeof(big));
	assert_int_equal(send(c.fd, big, sizeof(big), MSG_NOSIGNAL), sizeof(big));
	assert_closed(&c);
	assert_int_equal(number_told(), 0);
}

static void
few_can_tell(void **state)
{
	static const char good[] = TOLD "\"x\"}\n";
	Client		c[16];

	for (int i = 0; i < 16; i++)
		client_open(&c[i], good, strlen(good));
	run_for(50);
	assert_int_equal(number_told(), 16);
	assert_error(good, "too many processes tell how far they are");
	for (int i = 0; i < 16; i++)
		client_close(&c[i]);
	run_for(50);
	assert_int_equal(number_told(), 0);
}

/* Its record becomes durable after the socket has been closed. */
static void
may_stop_while_commands_run(void **state)
{
	Client		c;
	Client		waiting;
	json_t	   *answer;

	client_open(&c, "database add x\n", 15);
	client_open(&waiting, "drain n1\n", 9);
	run_for(10);
	assert_non_null(database_callback);
	assert_true(fakes[0].draining);
	admin_stop();
	assert_closed(&c);
	database_is_done(NULL);

	/* the one that waits learns why it waits no more */
	answer = client_answer(&waiting);
	assert_string_equal(json_string_value(json_object_get(answer, "error")),
						"the replicator stopped, or handed over to another one, before the command was done");
	json_decref(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(socket_is_private, reset),
		cmocka_unit_test_setup(status_has_the_facts, reset),
		cmocka_unit_test_setup(waits_are_listed, reset),
		cmocka_unit_test_setup(sessions_are_listed, reset),
		cmocka_unit_test_setup(config_is_shown, reset),
		cmocka_unit_test_setup(drop_works_once, reset),
		cmocka_unit_test_setup(attach_waits_for_the_outcome, reset),
		cmocka_unit_test_setup(drain_waits_for_all, reset),
		cmocka_unit_test_setup(node_is_drained, reset),
		cmocka_unit_test_setup(pauses_are_bounded, reset),
		cmocka_unit_test_setup(databases_answer_later, reset),
		cmocka_unit_test_setup(client_may_go, reset),
		cmocka_unit_test_setup(switchover_ends_with_its_client, reset),
		cmocka_unit_test_setup(reload_and_stop_reach_main, reset),
		cmocka_unit_test_setup(progress_is_in_the_status, reset),
		cmocka_unit_test_setup(progress_that_is_none_ends_its_connection, reset),
		cmocka_unit_test_setup(few_can_tell, reset),
		cmocka_unit_test_setup(nonsense_is_refused, reset),
		cmocka_unit_test_setup(many_clients_are_bounded, reset),
		cmocka_unit_test(silent_ones_are_sent_away),
		cmocka_unit_test_setup(may_stop_while_commands_run, reset),
	};

	log_open(NULL, LOG_ERROR);
	return cmocka_run_group_tests(tests, start, stop);
}
