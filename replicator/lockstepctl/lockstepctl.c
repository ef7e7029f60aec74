/*
 * lockstepctl.c
 *	  The operator's command: sends one request to the replicator's admin socket
 *	  and prints the answer, or reads the journal.  Exit codes are in ctl.h and
 *	  the man page.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "buffer.h"
#include "config.h"
#include "ctl_certs.h"
#include "ctl_restart.h"
#include "ctl_setup.h"
#include "journal_usage.h"
#include "log.h"
#include "metrics.h"
#include "version.h"

#define DEFAULT_TIMEOUT_S 60	/* of drain, attach and join */
#define WATCH_S 2
#define CLEAR_SCREEN "\033[H\033[2J"

typedef struct Options
{
	const char *config_file;
	const char *socket;
	bool		json;
	bool		readers;		/* of drain; restart.announce is, too */
	long		watch_s;		/* 0: once */
	long		timeout_s;		/* -1: not given */
	JournalOptions journal;
	JoinOptions join;
	InitOptions init;
	CertsOptions certs;
	RestartOptions restart;
	bool		rolling;
	bool		help;
	VerifyOptions verify;
	char	  **words;			/* the command and its arguments */
	int			nwords;
} Options;

typedef struct Command
{
	const char *words;			/* how it is called, and what is sent */
	int			arguments;		/* fewest */
	int			most_arguments;
	int			timeout_s;		/* of the answer: -1 soon, 0 never, else
								 * --timeout's default */
	void		(*format) (FILE *out, const json_t *answer);
	const char *help;
} Command;

static const Command commands[] = {
	{"status", 0, 0, -1, format_status, "status                 show nodes, databases, counters and the journal"},
	{"nodes", 0, 0, -1, format_nodes, "nodes                  show the nodes only"},
	{"metrics", 0, 0, -1, metrics_print, "metrics                show the status in the format of Prometheus"},
	{"sessions", 0, 0, -1, format_sessions, "sessions               show the connected backends"},
	{"conflicts", 0, 0, -1, format_conflicts, "conflicts              show the last conflicts, and their number by table"},
	{"waits", 0, 0, -1, format_waits, "waits                  show all waits in the cluster, the longest first"},
	{"drop", 1, 1, -1, NULL, "drop NODE              take a node out; it refuses writes until it is attached"},
	{"attach", 1, 1, DEFAULT_TIMEOUT_S, NULL, "attach NODE            bring a node back and wait until it is online"},
	{"database add", 1, 1, 0, NULL, "database add NAME      replicate a database; create it if no node has it"},
	{"database drop", 1, 1, 0, NULL, "database drop NAME     stop replicating a database; it stays on each node"},
	{"drain", 0, 1, DEFAULT_TIMEOUT_S, NULL, "drain [NODE]           take a node out gently; without NODE: wait until all have applied all"},
	{"resume", 0, 1, DEFAULT_TIMEOUT_S, NULL, "resume [NODE]          bring a drained node back; without NODE: end a pause"},
	{"pause", 0, 0, DEFAULT_TIMEOUT_S, NULL, "pause                  let new writing transactions wait, for --timeout at most"},
	{"config", 0, 0, -1, format_config, "config                 show the settings in force"},
	{"remove", 1, 1, -1, NULL, "remove NODE            retire a node whose line was removed from replicator.conf"},
	{"replicators", 0, 0, -1, format_replicators, "replicators            show the group of replicators: who leads, who has everything"},
	{"switchover", 0, 1, DEFAULT_TIMEOUT_S, format_switchover, "switchover [NAME]      another replicator leads from now on: that one, or one that is in sync"},
	{"reload", 0, 0, -1, NULL, "reload                 read the configuration file again"},
	{"stop", 0, 0, -1, NULL, "stop                   stop the replicator"},
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static void __attribute__((noreturn, format(printf, 2, 3)))
die(int code, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	fprintf(stderr, "lockstepctl: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	if (code == CTL_USAGE)
		fprintf(stderr, "Try \"lockstepctl --help\" for more information.\n");
	exit(code);
}

static void
print_help(void)
{
	printf("lockstepctl controls a lockstep cluster.\n\n"
		   "Usage:\n  lockstepctl [OPTION]... COMMAND\n\nCommands:\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		printf("  %s\n", commands[i].help);
	printf("  certs                  make certificates for TLS\n"
		   "  check                  one line and an exit status for monitoring systems\n"
		   "  doctor                 look for what is wrong with the set-up\n"
		   "  init NODE              make this machine's server the first node of a cluster\n"
		   "  journal                print committed transactions\n"
		   "  join NAME              make a new node on this machine, a clone of another one\n"
		   "  restart NODE           drain nodes, restart their servers, resume; one after the other\n"
		   "  verify                 compare all online nodes while they are in use\n"
		   "\nOptions:\n"
		   "  -c, --config=FILE      configuration file of the replicator (" LOCKSTEP_CONFIG_FILE ")\n"
		   "  -s, --socket=PATH      admin socket of the replicator, instead of --config\n"
		   "      --json             print the result as JSON\n"
		   "      --timeout=SECONDS  time that drain, attach, resume, restart, join and\n"
		   "                         switchover wait (%d), 0\n"
		   "                         for no limit; time that a pause lasts (%d, at most 3600); time that\n"
		   "                         verify may take (no limit)\n"
		   "      --watch[=SECONDS]  with status, nodes, sessions, conflicts and waits: show it again\n"
		   "                         and again (2)\n"
		   "      --readers          with drain NODE: readers are to be sent elsewhere, too\n"
		   "      --announce=SECONDS with drain NODE and restart: load balancers are told so long before\n"
		   "                         writers are refused\n"
		   "      --poolers=COMMAND  with drain NODE and restart: makes poolers connect again behind that\n"
		   "  -h, --help             show this help\n"
		   "  -V, --version          show the version\n"
		   "\nOptions of init, join and certs: lockstepctl init --help, and so on.\n"
		   "\nOptions of journal:\n"
		   "      --from=SEQ         start with this transaction\n"
		   "      --limit=N          print N transactions\n"
		   "      --follow           wait for further transactions\n"
		   "      --keys             print the keys of each query\n"
		   "      --journal-directory=DIR\n"
		   "                         read this directory, instead of --config\n"
		   "\nOptions of restart:\n"
		   "      --rolling          all nodes\n"
		   "      --command=COMMAND  what restarts a server of another machine; %%n is the node's name,\n"
		   "                         %%h its host, %%p its port\n"
		   "      --dry-run          say what would be done, and change nothing\n"
		   "\nOptions of verify:\n"
		   "      --database=NAME    compare this database only\n"
		   "      --table=NAME       compare the rows of this table only\n"
		   "      --jobs=N           number of tables to compare at a time (1)\n"
		   "      --rows=N           number of differing rows of a table to show (10)\n"
		   "      --indexes          also check each btree index against its table (needs amcheck)\n"
		   "      --repair=NODE      make this node equal to the others in rows, sequences and\n"
		   "                         large objects\n"
		   "      --source=NODE      take this node as correct, even if the others differ\n"
		   "\nExit status: 0 done, 1 failed, 2 wrong usage, 3 no replicator at the socket.\n"
		   "Of check: 0 ok, 1 warning, 2 critical, 3 unknown.\n"
		   "Of verify: 0 equal, 1 different, 2 could not compare, 3 no replicator at the socket.\n",
		   DEFAULT_TIMEOUT_S, DEFAULT_TIMEOUT_S);
}

static uint64_t
option_number(const char *name, const char *value, uint64_t max)
{
	char	   *end;
	uint64_t	n;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || n > max)
		die(CTL_USAGE, "invalid value for --%s: \"%s\"", name, value);
	return n;
}

static void
parse_options(int argc, char **argv, Options *o)
{
	enum
	{
		OPT_JSON = 256, OPT_TIMEOUT, OPT_FROM, OPT_LIMIT, OPT_FOLLOW, OPT_KEYS, OPT_DIRECTORY,
		OPT_DONOR, OPT_PGDATA, OPT_SET, OPT_DATABASE, OPT_TABLE, OPT_JOBS, OPT_ROWS,
		OPT_REPAIR, OPT_SOURCE, OPT_INDEXES, OPT_READERS, OPT_SERVER, OPT_REPLICATOR, OPT_RESTART,
		OPT_DRY_RUN, OPT_JOIN_FILE, OPT_WATCH,
		OPT_CERTS_DIRECTORY, OPT_DAYS, OPT_TLS, OPT_ROLLING, OPT_COMMAND,
		OPT_ANNOUNCE, OPT_POOLERS
	};
	static const struct option longs[] = {
		{"config", required_argument, NULL, 'c'},
		{"socket", required_argument, NULL, 's'},
		{"json", no_argument, NULL, OPT_JSON},
		{"timeout", required_argument, NULL, OPT_TIMEOUT},
		{"from", required_argument, NULL, OPT_FROM},
		{"limit", required_argument, NULL, OPT_LIMIT},
		{"follow", no_argument, NULL, OPT_FOLLOW},
		{"keys", no_argument, NULL, OPT_KEYS},
		{"journal-directory", required_argument, NULL, OPT_DIRECTORY},
		{"donor", required_argument, NULL, OPT_DONOR},
		{"pgdata", required_argument, NULL, OPT_PGDATA},
		{"set", required_argument, NULL, OPT_SET},
		{"database", required_argument, NULL, OPT_DATABASE},
		{"table", required_argument, NULL, OPT_TABLE},
		{"jobs", required_argument, NULL, OPT_JOBS},
		{"rows", required_argument, NULL, OPT_ROWS},
		{"indexes", no_argument, NULL, OPT_INDEXES},
		{"readers", no_argument, NULL, OPT_READERS},
		{"repair", required_argument, NULL, OPT_REPAIR},
		{"source", required_argument, NULL, OPT_SOURCE},
		{"server", required_argument, NULL, OPT_SERVER},
		{"replicator", required_argument, NULL, OPT_REPLICATOR},
		{"restart", no_argument, NULL, OPT_RESTART},
		{"dry-run", no_argument, NULL, OPT_DRY_RUN},
		{"join-file", required_argument, NULL, OPT_JOIN_FILE},
		{"watch", optional_argument, NULL, OPT_WATCH},
		{"directory", required_argument, NULL, OPT_CERTS_DIRECTORY},
		{"tls", no_argument, NULL, OPT_TLS},
		{"days", required_argument, NULL, OPT_DAYS},
		{"rolling", no_argument, NULL, OPT_ROLLING},
		{"command", required_argument, NULL, OPT_COMMAND},
		{"announce", required_argument, NULL, OPT_ANNOUNCE},
		{"poolers", required_argument, NULL, OPT_POOLERS},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	int			c;

	while ((c = getopt_long(argc, argv, "c:s:hV", longs, NULL)) != -1)
	{
		switch (c)
		{
			case 'c':
				o->config_file = optarg;
				break;
			case 's':
				o->socket = optarg;
				break;
			case OPT_JSON:
				o->json = true;
				break;
			case OPT_TIMEOUT:
				o->timeout_s = (long) option_number("timeout", optarg, 1000000);
				break;
			case OPT_FROM:
				o->journal.from = option_number("from", optarg, INT64_MAX);
				break;
			case OPT_LIMIT:
				o->journal.limit = option_number("limit", optarg, INT64_MAX);
				break;
			case OPT_FOLLOW:
				o->journal.follow = true;
				break;
			case OPT_KEYS:
				o->journal.keys = true;
				break;
			case OPT_DONOR:
				o->join.donor = optarg;
				break;
			case OPT_PGDATA:
				o->join.pgdata = optarg;
				break;
			case OPT_SET:
				if (strchr(optarg, '=') == NULL || strchr(optarg, '\n') != NULL || o->join.nsettings == JOIN_MAX_SETTINGS)
					die(CTL_USAGE, "invalid value for --set: \"%s\"", optarg);
				o->join.settings[o->join.nsettings++] = optarg;
				break;
			case OPT_DATABASE:
				o->verify.database = optarg;
				if (o->init.ndatabases == INIT_MAX_DATABASES)
					die(CTL_USAGE, "more than %d times --database", INIT_MAX_DATABASES);
				o->init.databases[o->init.ndatabases++] = optarg;
				break;
			case OPT_TABLE:
				o->verify.table = optarg;
				break;
			case OPT_READERS:
				o->readers = true;
				break;
			case OPT_INDEXES:
				o->verify.indexes = true;
				break;
			case OPT_REPAIR:
				o->verify.repair = optarg;
				break;
			case OPT_SOURCE:
				o->verify.source = optarg;
				break;
			case OPT_JOBS:
				o->verify.jobs = (int) option_number("jobs", optarg, VERIFY_MAX_JOBS);
				break;
			case OPT_ROWS:
				o->verify.rows = (int) option_number("rows", optarg, 100000);
				break;
			case OPT_DIRECTORY:
				o->journal.directory = optarg;
				break;
			case OPT_SERVER:
				o->init.server = o->join.server = optarg;
				break;
			case OPT_REPLICATOR:
				o->init.replicator = optarg;
				break;
			case OPT_RESTART:
				o->init.restart = true;
				break;
			case OPT_DRY_RUN:
				o->init.dry_run = o->join.dry_run = o->restart.dry_run = true;
				break;
			case OPT_JOIN_FILE:
				o->join.join_file = optarg;
				break;
			case OPT_CERTS_DIRECTORY:
				o->certs.directory = optarg;
				break;
			case OPT_TLS:
				o->init.tls = true;
				break;
			case OPT_DAYS:
				o->certs.days = (int) option_number("days", optarg, 36500);
				break;
			case OPT_ROLLING:
				o->rolling = true;
				break;
			case OPT_COMMAND:
				o->restart.command = optarg;
				break;
			case OPT_ANNOUNCE:
				o->restart.announce.seconds = (long) option_number("announce", optarg, 3600);
				break;
			case OPT_POOLERS:
				o->restart.announce.poolers = optarg;
				break;
			case OPT_WATCH:
				o->watch_s = optarg != NULL ? (long) option_number("watch", optarg, 86400) : WATCH_S;
				if (o->watch_s == 0)
					die(CTL_USAGE, "invalid value for --watch: \"%s\"", optarg);
				break;
			case 'h':
				o->help = true;
				break;
			case 'V':
				printf("lockstepctl " LOCKSTEP_VERSION "\n");
				exit(CTL_OK);
			default:
				fprintf(stderr, "Try \"lockstepctl --help\" for more information.\n");
				exit(CTL_USAGE);
		}
	}
	o->words = argv + optind;
	o->nwords = argc - optind;
	if (o->help)
	{
		if (o->nwords == 0 || !setup_help(o->words[0]))
			print_help();
		exit(CTL_OK);
	}
	if (o->nwords == 0)
		die(CTL_USAGE, "no command given");
}

static Config *
load_config(const Options *o)
{
	char	   *error;
	Config	   *c = config_load(o->config_file, &error);

	if (c == NULL)
		die(CTL_FAILED, "%s", error);
	return c;
}

/* ---------- the socket */

/* -1: errno says why not. */
static int
try_to_connect(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(addr.sun_path))
		die(CTL_USAGE, "path of the admin socket is too long: \"%s\"", path);
	strcpy(addr.sun_path, path);
	if (fd >= 0 && connect(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0)
	{
		int			cause = errno;

		close(fd);
		errno = cause;
		return -1;
	}
	return fd;
}

static int
connect_to(const char *path)
{
	int			fd = try_to_connect(path);

	if (fd < 0)
	{
		int			cause = errno;

		die(CTL_UNREACHABLE, "could not connect to the replicator at \"%s\": %s%s", path, strerror(cause),
			cause == ECONNREFUSED || cause == ENOENT ? " (it does not run: start it, and look at its log)" :
			cause == EACCES ? " (only root and the replicator's user may)" : "");
	}
	return fd;
}

/* NULL, or what is wrong. */
static char *
send_all(int fd, const char *text)
{
	size_t		len = strlen(text);

	while (len > 0)
	{
		ssize_t		n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return xasprintf("could not send to the replicator: %s", strerror(errno));
		text += n;
		len -= (size_t) n;
	}
	return NULL;
}

static char *
receive_all(int fd, Buffer *in)
{
	for (;;)
	{
		ssize_t		n;

		buffer_reserve(in, 65536);
		n = recv(fd, in->data + in->len, 65536, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return xstrdup("the replicator does not answer");
		if (n < 0)
			return xasprintf("could not receive from the replicator: %s", strerror(errno));
		if (n == 0)
			break;
		in->len += (size_t) n;
	}
	return in->len > 0 ? NULL : xstrdup("the replicator closed the connection without an answer (its log says why)");
}

/* Closes fd.  NULL: *failure says why. */
static json_t *
exchange(int fd, const char *request, long answer_timeout_s, char **failure)
{
	struct timeval tv = {.tv_sec = answer_timeout_s};
	Buffer		in = {0};
	json_t	   *answer = NULL;
	json_error_t error;

	/* 0 means no limit to the kernel, too. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) != 0)
		die(CTL_FAILED, "could not set a timeout: %s", strerror(errno));
	*failure = send_all(fd, request);
	if (*failure == NULL)
		*failure = receive_all(fd, &in);
	if (*failure == NULL && (answer = json_loadb((const char *) in.data, in.len, 0, &error)) == NULL)
		*failure = xasprintf("could not read the replicator's answer: %s", error.text);
	buffer_free(&in);
	close(fd);
	return answer;
}

static json_t *
ask(const char *path, const char *request, long answer_timeout_s)
{
	char	   *failure;
	json_t	   *answer = exchange(connect_to(path), request, answer_timeout_s, &failure);

	if (answer == NULL)
		die(CTL_UNREACHABLE, "%s", failure);
	return answer;
}

/* It may be that the replicator is what is wrong, or that it is not there yet: then die() is not for it. */
static json_t *
ask_or_error(const char *path, const char *request)
{
	int			fd = try_to_connect(path);
	char	   *failure;
	json_t	   *answer;

	if (fd < 0)
		return json_pack("{s:b, s:o}", "ok", 0, "error",
						 json_sprintf("it does not answer at \"%s\": %s", path, strerror(errno)));
	answer = exchange(fd, request, ANSWER_TIMEOUT_S, &failure);
	if (answer == NULL)
		answer = json_pack("{s:b, s:s}", "ok", 0, "error", failure);
	return answer;
}

static json_t *
status_or_error(const char *path)
{
	return ask_or_error(path, "status\n");
}

/* ---------- commands */

/* The command that the words name; *used: how many of them do. */
static const Command *
find_command(const Options *o, int *used)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
	{
		char	   *two = o->nwords > 1 ? xasprintf("%s %s", o->words[0], o->words[1]) : xstrdup("");
		bool		both = strcmp(commands[i].words, two) == 0;

		free(two);
		*used = both ? 2 : 1;
		if (both || strcmp(commands[i].words, o->words[0]) == 0)
			return &commands[i];
	}
	die(CTL_USAGE, "unrecognized command \"%s%s%s\"", o->words[0],
		strcmp(o->words[0], "database") == 0 && o->nwords > 1 ? " " : "",
		strcmp(o->words[0], "database") == 0 && o->nwords > 1 ? o->words[1] : "");
}

/* Of a status: where the journal is on this machine, and may be read. */
static void
add_journal_size(json_t *answer)
{
	json_t	   *journal = json_object_get(answer, "journal");
	const char *directory = json_string_value(json_object_get(journal, "directory"));
	uint64_t	bytes;
	uint64_t	disk_free;

	if (directory == NULL || !journal_usage(directory, &bytes, &disk_free))
		return;
	json_object_set_new(journal, "bytes", json_integer((json_int_t) bytes));
	json_object_set_new(journal, "disk_free_bytes", json_integer((json_int_t) disk_free));
}

static int
print_answer(const Command *command, const Options *o, json_t *answer)
{
	bool		ok = json_is_true(json_object_get(answer, "ok"));
	const char *error = json_string_value(json_object_get(answer, "error"));
	const char *hint = json_string_value(json_object_get(answer, "hint"));
	const char *warning = json_string_value(json_object_get(answer, "warning"));

	if (o->json)
	{
		json_dumpf(answer, stdout, JSON_INDENT(2));
		printf("\n");
	}
	else if (ok && command->format != NULL)
		command->format(stdout, answer);
	if (warning != NULL && !o->json)
		fprintf(stderr, "WARNING:  %s\n", warning);
	if (!ok)
	{
		fprintf(stderr, "lockstepctl: %s\n", error ? error : "the replicator gave no reason");
		if (hint != NULL)
			fprintf(stderr, "HINT:  %s\n", hint);
	}
	if (fflush(stdout) != 0)
		die(CTL_FAILED, "could not write: %s", strerror(errno));
	return ok ? CTL_OK : CTL_FAILED;
}

static json_t *
ask_replicator(void *path, const char *request, long timeout_s)
{
	return ask(path, request, timeout_s);
}

static bool
announces(const Options *o)
{
	return o->restart.announce.seconds > 0 || o->restart.announce.poolers != NULL;
}

static int
run_command(const Options *o)
{
	int			used;
	const Command *command = find_command(o, &used);
	int			arguments = o->nwords - used;
	const char *argument = arguments > 0 ? o->words[used] : "";
	long		timeout_s = o->timeout_s >= 0 ? o->timeout_s : command->timeout_s;
	long		answer_timeout_s;
	Config	   *config = NULL;
	const char *path;
	char	   *request;
	json_t	   *answer;
	int			code;

	if (arguments < command->arguments || arguments > command->most_arguments)
		die(CTL_USAGE, "wrong number of arguments for \"%s\"", command->words);
	if (strchr(argument, '\n') != NULL)
		die(CTL_USAGE, "a name must not contain a line break");
	if (o->timeout_s >= 0 && command->timeout_s <= 0)
		die(CTL_USAGE, "--timeout is for drain, attach, resume, restart, pause, join and switchover");

	/*
	 * Commands that do not wait are answered soon; for the others 0 means no
	 * limit.
	 */
	if (timeout_s < 0)
		answer_timeout_s = ANSWER_TIMEOUT_S;
	else
		answer_timeout_s = timeout_s == 0 ? 0 : timeout_s + ANSWER_TIMEOUT_S;

	if (o->socket == NULL)
		config = load_config(o);
	path = o->socket ? o->socket : config->admin_socket;
	if (strcmp(command->words, "drain") != 0 || arguments == 0 || strcmp(argument, "online") == 0)
	{
		if (o->readers)
			die(CTL_USAGE, "--readers is for drain NODE");
		if (announces(o))
			die(CTL_USAGE, "--announce and --poolers are for drain NODE and restart");
	}
	if (!drain_announce(&o->restart.announce, argument, o->readers, ask_replicator, (void *) path))
		return CTL_FAILED;
	request = xasprintf("timeout=%ld %s%s%s%s\n", timeout_s > 0 ? timeout_s * 1000 : 0,
						command->format == format_nodes || command->format == metrics_print ? "status" : command->words,
						argument[0] ? " " : "", argument, o->readers ? " readers" : "");
	if (o->watch_s > 0 && (command->format == NULL || command->timeout_s >= 0))
		die(CTL_USAGE, "--watch is for status, nodes, sessions, conflicts and waits");
	for (;;)
	{
		answer = ask(path, request, answer_timeout_s);
		add_journal_size(answer);
		if (command->format == format_switchover)
			answer = switchover_outcome(answer, argument, timeout_s, ask_or_error, path);
		if (o->watch_s > 0 && isatty(STDOUT_FILENO))
			printf(CLEAR_SCREEN);
		code = print_answer(command, o, answer);
		json_decref(answer);
		if (o->watch_s == 0 || code != CTL_OK)
			break;
		sleep((unsigned int) o->watch_s);
	}
	free(request);
	config_free(config);
	return code;
}

static int
run_journal(Options *o)
{
	Config	   *config = NULL;
	int			code;

	if (o->nwords > 1)
		die(CTL_USAGE, "wrong number of arguments for \"journal\"");
	if (o->journal.directory == NULL)
	{
		config = load_config(o);
		o->journal.directory = config->journal_directory;
	}
	o->journal.json = o->json;
	code = print_journal(stdout, &o->journal);
	if (fflush(stdout) != 0)
		die(CTL_FAILED, "could not write: %s", strerror(errno));
	config_free(config);
	return code;
}

static int
run_join(Options *o)
{
	Config	   *config = NULL;
	const char *path = o->socket;
	bool		named;

	if (o->nwords != 2)
		die(CTL_USAGE, "wrong number of arguments for \"join\"");
	o->join.name = o->words[1];
	o->join.timeout_s = o->timeout_s >= 0 ? o->timeout_s : DEFAULT_TIMEOUT_S;
	if (o->join.join_file != NULL && o->join.pgdata == NULL && o->join.nsettings == 0)
		return join_server(&o->join);
	if (o->join.join_file != NULL || o->join.dry_run)
		die(CTL_USAGE, "--join-file and --dry-run are not for join with --pgdata and --set");
	if (o->join.donor == NULL || o->join.pgdata == NULL)
		die(CTL_USAGE, "join needs --donor and --pgdata");
	named = strchr(o->join.donor, '=') == NULL && strstr(o->join.donor, "://") == NULL;
	if (named || access(o->config_file, R_OK) == 0)
	{
		config = load_config(o);
		if (config_conninfo(config, o->join.name) == NULL)
			die(CTL_FAILED, "replicator.conf has no line node.%s: add it, then \"lockstepctl reload\"", o->join.name);
		if (named && config_conninfo(config, o->join.donor) == NULL)
			die(CTL_FAILED, "there is no node \"%s\"", o->join.donor);
		if (named)
			o->join.donor = config_conninfo(config, o->join.donor);
		if (path == NULL)
			path = config->admin_socket;
	}
	if (!join_clone(&o->join))
		return CTL_FAILED;

	/* if the replicator is on another machine it cannot be asked */
	if (path == NULL || access(path, F_OK) != 0)
	{
		printf("node %s runs; the replicator attaches it by itself: see \"lockstepctl status\" there\n", o->join.name);
		return CTL_OK;
	}
	printf("waiting until node %s is online\n", o->join.name);
	fflush(stdout);
	o->words[0] = (char *) "attach";
	return run_command(o);
}

/* "Not done" and "different" have exit codes of their own. */
static int
run_verify(Options *o)
{
	char	   *error;
	Config	   *config = config_load(o->config_file, &error);
	json_t	   *status;
	const char *path;
	int			code;

	if (o->nwords != 1)
		die(CTL_USAGE, "wrong number of arguments for \"verify\"");
	if (o->verify.source != NULL && o->verify.repair == NULL)
		die(CTL_USAGE, "--source names the node that is right for --repair");
	if (config == NULL)
		die(VERIFY_NOT_DONE, "%s", error);
	path = o->socket != NULL ? o->socket : config->admin_socket;
	status = ask(path, "status\n", ANSWER_TIMEOUT_S);
	o->verify.json = o->json;
	o->verify.socket = path;
	o->verify.timeout_s = o->timeout_s > 0 ? o->timeout_s : 0;
	if (o->verify.jobs == 0)
		o->verify.jobs = 1;
	code = verify(&o->verify, config, status, ask_replicator, (void *) path);
	if (fflush(stdout) != 0)
		die(VERIFY_NOT_DONE, "could not write: %s", strerror(errno));
	json_decref(status);
	config_free(config);
	return code;
}

static int
run_doctor(const Options *o)
{
	Config	   *config = load_config(o);
	json_t	   *status;
	int			code;

	if (o->nwords != 1)
		die(CTL_USAGE, "wrong number of arguments for \"doctor\"");
	status = status_or_error(o->socket != NULL ? o->socket : config->admin_socket);
	code = doctor(config, o->config_file, status, o->json);
	if (fflush(stdout) != 0)
		die(CTL_FAILED, "could not write: %s", strerror(errno));
	json_decref(status);
	config_free(config);
	return code;
}

static int
run_check(const Options *o)
{
	char	   *error;
	Config	   *config = o->socket == NULL ? config_load(o->config_file, &error) : NULL;
	json_t	   *status;
	int			code;

	if (o->nwords != 1)
		die(CHECK_UNKNOWN, "wrong number of arguments for \"check\"");
	if (o->socket == NULL && config == NULL)
		die(CHECK_UNKNOWN, "%s", error);
	if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0) /* all that is read of a
												 * plugin */
		die(CHECK_UNKNOWN, "could not redirect errors: %s", strerror(errno));
	status = status_or_error(o->socket != NULL ? o->socket : config->admin_socket);
	add_journal_size(status);
	code = check(status);
	if (fflush(stdout) != 0)
		die(CHECK_UNKNOWN, "could not write: %s", strerror(errno));
	json_decref(status);
	config_free(config);
	return code;
}

static int
run_restart(Options *o)
{
	Config	   *config;
	const char *path;
	json_t	   *status;
	int			code;

	o->restart.nodes = o->words + 1;
	o->restart.nnodes = o->nwords - 1;
	if ((o->restart.nnodes > 0) == o->rolling || o->restart.nnodes > CONFIG_MAX_NODES)
		die(CTL_USAGE, "restart needs names of nodes, or --rolling for all");
	config = load_config(o);
	path = o->socket != NULL ? o->socket : config->admin_socket;
	o->restart.timeout_s = o->timeout_s >= 0 ? o->timeout_s : DEFAULT_TIMEOUT_S;
	o->restart.ask = ask_replicator;
	o->restart.ask_arg = (void *) path;
	status = ask(path, "status\n", ANSWER_TIMEOUT_S);
	code = restart_nodes(&o->restart, config, status);
	json_decref(status);
	config_free(config);
	return code;
}

static int
run_init(Options *o)
{
	if (o->nwords < 2)
		die(CTL_USAGE, "init needs the nodes: NAME=HOST[:PORT] ..., this machine's first");
	o->init.nodes = o->words + 1;
	o->init.nnodes = o->nwords - 1;
	o->init.config_file = o->config_file;
	o->init.timeout_s = o->timeout_s >= 0 ? o->timeout_s : DEFAULT_TIMEOUT_S;
	o->init.ask = ask_replicator;
	o->init.status = status_or_error;
	return init_cluster(&o->init);
}

int
main(int argc, char **argv)
{
	Options		o = {.config_file = LOCKSTEP_CONFIG_FILE,.timeout_s = -1,.verify.rows = 10,.certs.directory = CERTS_DIRECTORY};

	log_open(NULL, LOG_WARNING);
	parse_options(argc, argv, &o);
	if (o.init.dry_run && strcmp(o.words[0], "init") != 0 && strcmp(o.words[0], "join") != 0 && strcmp(o.words[0], "restart") != 0)
		die(CTL_USAGE, "--dry-run is for init, join and restart");
	if ((o.rolling || o.restart.command != NULL) && strcmp(o.words[0], "restart") != 0)
		die(CTL_USAGE, "--rolling and --command are for restart");
	if (announces(&o) && strcmp(o.words[0], "restart") != 0 && strcmp(o.words[0], "drain") != 0)
		die(CTL_USAGE, "--announce and --poolers are for drain NODE and restart");
	if (strcmp(o.words[0], "journal") == 0)
		return run_journal(&o);
	if (strcmp(o.words[0], "join") == 0)
		return run_join(&o);
	if (strcmp(o.words[0], "init") == 0)
		return run_init(&o);
	if (strcmp(o.words[0], "restart") == 0)
		return run_restart(&o);
	if (strcmp(o.words[0], "certs") == 0)
	{
		o.certs.words = o.words + 1;
		o.certs.nwords = o.nwords - 1;
		return certs_command(&o.certs);
	}
	if (strcmp(o.words[0], "check") == 0)
		return run_check(&o);
	if (strcmp(o.words[0], "doctor") == 0)
		return run_doctor(&o);
	if (strcmp(o.words[0], "verify") == 0)
		return run_verify(&o);
	return run_command(&o);
}
