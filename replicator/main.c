/*
 * main.c
 *	  lockstep-replicator: command line, start-up in order, signals, shutdown.
 *
 * Start-up goes from what can refuse most cheaply to what others can see:
 * settings, pid file, journal (it is locked, too: two replicators on one
 * journal would be two truths), state rebuilt from it, sockets, nodes.  Stopping
 * goes back: no new sessions, those there are told, the journal thread writes
 * what was decided, files are closed.
 *
 * Exit codes: 0 stopped cleanly; 1 wrong usage, configuration or start-up; 2
 * something at run time that must not be gone on with (a journal that can't be
 * read; see the log).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "addresses.h"
#include "admin.h"
#include "adopt.h"
#include "auth.h"
#include "buffer.h"
#include "config.h"
#include "config_tls.h"
#include "conflict_log.h"
#include "events.h"
#include "force.h"
#include "group.h"
#include "group_state.h"
#include "http.h"
#include "journal.h"
#include "journal_writer.h"
#include "listener.h"
#include "log.h"
#include "log_json.h"
#include "loop.h"
#include "membership.h"
#include "metadata.h"
#include "node_certificate.h"
#include "peer.h"
#include "pgclient.h"
#include "points.h"
#include "reach.h"
#include "restart.h"
#include "sequencer.h"
#include "session.h"
#include "stranded.h"
#include "systemd.h"
#include "version.h"
#include "waits_rows.h"
#include "waits_watchdog.h"

#define EXIT_STARTUP 1
#define MMAP_FROM (1024 * 1024)
#define ADDRESS_PATIENCE_S 60
#define ADDRESS_TRIES (2 * ADDRESS_PATIENCE_S)

static const char *config_file = LOCKSTEP_CONFIG_FILE;
static Config *config;
static char cluster[33];
static Journal *journal;
static bool adopt;
static bool force;
static bool accept_loss;
static bool switching_over;
static bool chosen;				/* to lead its group */
static int	pid_fd = -1;
static int	signal_fd = -1;

/* ---------- command line */

static void
print_help(void)
{
	printf("lockstep-replicator orders the transactions of a lockstep cluster and keeps its journal.\n\n"
		   "Usage:\n  lockstep-replicator [OPTION]...\n\nOptions:\n"
		   "  -c, --config=FILE      configuration file (" LOCKSTEP_CONFIG_FILE ")\n"
		   "      --check            check the configuration file and exit\n"
		   "      --adopt-nodes      make a new journal from the nodes' positions when it is lost,\n"
		   "                         and exit (see docs/operating.md)\n"
		   "      --force-leader     say what would be lost if this replicator, which is not in sync,\n"
		   "                         led its group, and exit (see docs/replicators.md)\n"
		   "      --accept-loss      with --adopt-nodes: even if a node's server has crashed;\n"
		   "                         with --force-leader: make it lead\n"
		   "      --describe-config  print every setting with its default and exit\n"
		   "  -h, --help             show this help\n"
		   "  -V, --version          show the version\n"
		   "\nIt runs in the foreground.  SIGHUP reloads the configuration and reopens the log;\n"
		   "SIGTERM and SIGINT stop it.\n"
		   "\nExit status: 0 stopped, 1 could not start, 2 could not continue.\n");
}

/* Returns whether only a check of the configuration is wanted. */
static bool
parse_options(int argc, char **argv)
{
	enum
	{
		OPT_CHECK = 256, OPT_DESCRIBE, OPT_ADOPT, OPT_FORCE, OPT_ACCEPT_LOSS
	};
	static const struct option longs[] = {
		{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, OPT_CHECK},
		{"adopt-nodes", no_argument, NULL, OPT_ADOPT},
		{"force-leader", no_argument, NULL, OPT_FORCE},
		{"accept-loss", no_argument, NULL, OPT_ACCEPT_LOSS},
		{"describe-config", no_argument, NULL, OPT_DESCRIBE},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0}
	};
	bool		check = false;
	int			c;

	while ((c = getopt_long(argc, argv, "c:hV", longs, NULL)) != -1)
	{
		switch (c)
		{
			case 'c':
				config_file = optarg;
				break;
			case OPT_CHECK:
				check = true;
				break;
			case OPT_ADOPT:
				adopt = true;
				break;
			case OPT_FORCE:
				force = true;
				break;
			case OPT_ACCEPT_LOSS:
				accept_loss = true;
				break;
			case OPT_DESCRIBE:
				config_describe();
				exit(EXIT_SUCCESS);
			case 'h':
				print_help();
				exit(EXIT_SUCCESS);
			case 'V':
				printf("lockstep-replicator " LOCKSTEP_VERSION "\n");
				exit(EXIT_SUCCESS);
			default:
				fprintf(stderr, "Try \"lockstep-replicator --help\" for more information.\n");
				exit(EXIT_STARTUP);
		}
	}
	if ((accept_loss && !adopt && !force) || (adopt && force))
	{
		fprintf(stderr, "lockstep-replicator: --accept-loss belongs to either --adopt-nodes or --force-leader\n");
		exit(EXIT_STARTUP);
	}
	if (optind < argc)
	{
		fprintf(stderr, "lockstep-replicator: unexpected argument \"%s\"\n"
				"Try \"lockstep-replicator --help\" for more information.\n", argv[optind]);
		exit(EXIT_STARTUP);
	}
	return check;
}

/* ---------- start-up */

static void __attribute__((noreturn))
refuse_to_start(const char *message, const char *detail, const char *hint)
{
	log_full(LOG_ERROR, NULL, message, detail, hint);
	systemd_failed(message);
	if (pid_fd >= 0)
		unlink(config->pid_file);
	exit(chosen ? EXIT_RETRY : EXIT_STARTUP);
}

/* After a boot the machine may get its addresses later.  Whoever listens says what is wrong then. */
static void
await_addresses(void)
{
	char	   *missing = addresses_missing(config);

	for (int tries = 0; missing != NULL && tries < ADDRESS_TRIES; tries++)
	{
		if (tries == 0)
		{
			char	   *status = xasprintf("waits for the address \"%s\"", missing);

			log_message(LOG_WARNING, NULL, "this machine does not have the address \"%s\" yet, or cannot resolve it: the start waits for it for a minute", missing);
			systemd_busy(status);
			free(status);
		}
		usleep(1000 * 1000 * ADDRESS_PATIENCE_S / ADDRESS_TRIES);
		free(missing);
		missing = addresses_missing(config);
	}
	free(missing);
}

/*
 * The lock says whether a replicator runs, not the file: after a crash the file
 * stays and does no harm.
 */
static void
take_pid_file(void)
{
	char		text[32] = "";
	int			fd;

	if (config->pid_file[0] == '\0')
		return;
	fd = open(config->pid_file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
	{
		char	   *message = xasprintf("could not open pid file \"%s\": %s", config->pid_file, strerror(errno));

		refuse_to_start(message, NULL, "Its directory must exist and be writable for this user.");
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
	{
		char	   *message = xasprintf("pid file \"%s\" is locked: another replicator is running",
										config->pid_file);
		ssize_t		n = read(fd, text, sizeof(text) - 1);

		text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
		refuse_to_start(message, text[0] ? xasprintf("Its process id is %s.", text) : NULL,
						NULL);
	}
	pid_fd = fd;
	snprintf(text, sizeof(text), "%d\n", (int) getpid());
	if (ftruncate(fd, 0) != 0 || write(fd, text, strlen(text)) != (ssize_t) strlen(text))
		refuse_to_start(xasprintf("could not write pid file \"%s\": %s", config->pid_file, strerror(errno)),
						NULL, NULL);
}

/* Each backend of each node has a connection here. */
static void
raise_descriptor_limit(void)
{
	struct rlimit limit;
	rlim_t		needed = (rlim_t) config->max_sessions + 1024 + (config->http_listen[0] != '\0' ? HTTP_MAX_CONNECTIONS : 0);

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_cur < needed)
	{
		limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < needed)
			log_message(LOG_WARNING, NULL, "the limit of open files (%llu) is too low for max_sessions = %d",
						(unsigned long long) limit.rlim_cur, config->max_sessions);
	}
}

/* Nothing that has to be encrypted goes in the clear, not even once. */
static void
check_tls(void)
{
	const char *hint = "\"lockstepctl certs\" makes certificates: see \"TLS\" in docs/operating.md.";
	char	   *error = session_tls_check(config);

	if (error == NULL)
		error = config_tls_check(config, &hint);
	if (error != NULL)
		refuse_to_start(error, NULL, hint);
}

/* Others may have more than it has, and lead. */
static void
refuse_journal_of_group(void)
{
	GroupState	state;
	char	   *error;

	if (!group_state_read(config->journal_directory, &state, &error))
		refuse_to_start(error, NULL, NULL);
	if (state.name[0] != '\0')
		refuse_to_start(xasprintf("the journal in \"%s\" is part of a group of replicators, and none is configured", config->journal_directory), NULL,
						"If this replicator is to be alone, and nobody has more than it has, remove the file \"group\" in this directory: "
						"see \"More and fewer\" in docs/replicators.md.");
}

static void
make_journal_directory(void)
{
	const char *hint = "Its parent directory must exist and be writable for this user.";

	if (mkdir(config->journal_directory, 0700) == 0 ||
		(errno == EEXIST && (access(config->journal_directory, W_OK) == 0 || errno != EROFS)))
		return;
	if (errno == EROFS)
		hint = "The unit lets the replicator write in /var/lib/lockstep only: see \"Under systemd\" in docs/operating.md.";
	refuse_to_start(xasprintf("could not make or write journal directory \"%s\": %s", config->journal_directory, strerror(errno)), NULL, hint);
}

static void
open_journal(void)
{
	const char *error = NULL;

	make_journal_directory();
	journal = journal_open(config->journal_directory, true, (size_t) config->journal_segment_size,
						   cluster, &error);
	if (journal == NULL)
		refuse_to_start(xasprintf("could not open journal \"%s\"", config->journal_directory), error,
						"A journal is never repaired by guessing: see \"The journal cannot be read\" "
						"in docs/operating.md.");
	if (journal_last(journal) == 0)
		log_message(LOG_NOTICE, NULL, "journal of cluster %s is empty", cluster);
	else
		log_message(LOG_NOTICE, NULL, "journal of cluster %s holds seq %" PRIu64 " to %" PRIu64,
					cluster, journal_first(journal), journal_last(journal));
}

/*
 * The databases that are replicated: what the journal says (sequencer_init() has
 * read it), or, in a new journal, what the settings say, which is journaled.
 */
static void
begin_databases(void)
{
	char	  **names;
	int			n;

	if (metadata_has_any() || journal_last(journal) != 0)
		return;
	names = config_list(config->databases, &n);
	for (int i = 0; i < n; i++)
		sequencer_journal_metadata(RECORD_DATABASE_ADDED, names[i], NULL, NULL);
	config_list_free(names, n);
}

/* ---------- signals */

static char *
reload_config(char **warning)
{
	char	   *error;
	Config	   *fresh = config_load(config_file, &error);
	const char *hint = NULL;
	char	   *need_restart;

	*warning = NULL;
	if (fresh != NULL && (error = config_tls_check(fresh, &hint)) != NULL)
	{
		config_free(fresh);
		fresh = NULL;
	}
	if (fresh == NULL)
	{
		log_full(LOG_ERROR, NULL, "configuration was not reloaded: the old settings stay", error, hint);
		return error;
	}
	need_restart = config_reload(config, fresh);
	config_free(fresh);
	raise_descriptor_limit();
	error = NULL;
	if (config->nreplicators > 0)
		error = group_tls_reload();
	if (config->nreplicators == 0 || group_is_leader())
	{
		membership_reload();
		if (error == NULL)
			error = session_tls_reload();
	}
	if (need_restart[0] != '\0')
		*warning = xasprintf("changes of these settings need a restart of the replicator: %s", need_restart);
	if (error != NULL)
	{
		log_full(LOG_ERROR, NULL, "certificates were not reloaded: the old ones stay", error, NULL);
		free(*warning);			/* the worse of both */
		*warning = xasprintf("certificates were not reloaded, the old ones stay: %s", error);
	}
	free(error);
	log_set_level(config->log_level);
	log_event(LOG_NOTICE, "reload", NULL, "configuration reloaded", NULL, NULL);
	event_note("reload", NULL, "configuration reloaded", need_restart);
	if (need_restart[0] != '\0')
		log_message(LOG_WARNING, NULL, "changes of these settings need a restart: %s", need_restart);
	free(need_restart);
	return NULL;
}

static void
stop(void)
{
	restart_forbid();
	loop_stop();
}

static void
on_signal(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	char	   *warning;

	while (restart_take_signal(signal_fd, &info))
	{
		if (info.ssi_signo == SIGHUP)
		{
			log_reopen();
			free(reload_config(&warning));
			free(warning);
			continue;
		}
		log_message(LOG_NOTICE, NULL, "received %s, stopping",
					info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
		stop();
	}
}

/* Before the journal thread starts, so that it inherits the mask. */
static void
catch_signals(void)
{
	sigset_t	set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
		(signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
		refuse_to_start("could not set up signals", strerror(errno), NULL);
	loop_watch(signal_fd, EPOLLIN, on_signal, NULL);
}

/* ---------- a group of replicators */

static bool group_answered;

static void
on_group(char *error)
{
	if (error != NULL)
		refuse_to_start(error, NULL, "See docs/replicators.md.");
	group_answered = true;
	loop_stop();
}

/* Another replicator leads, or this one stops before it leads. */
static void
end_as_standby(void)
{
	systemd_stopping();
	group_will_end();
	group_end();
	http_stop();
	admin_stop();
	if (pid_fd >= 0)
		unlink(config->pid_file);
	log_message(LOG_NOTICE, NULL, "stopped");
	exit(EXIT_SUCCESS);
}

static void
await_group(void)
{
	while (!group_answered)
	{
		loop_run();
		if (restart_is_forbidden() || !group_answered)
			end_as_standby();
	}
	group_answered = false;
}

/* Follow the leader, until etcd says that this one leads. */
static void
follow_group(void)
{
	static Secret secret;
	LsSlice		bytes;
	char	   *error = auth_read_secret(config->secret_file, &secret);

	if (error != NULL)
		refuse_to_start(error, NULL, NULL);
	make_journal_directory();
	bytes.data = secret.bytes;
	bytes.len = secret.len;
	group_begin(config, bytes, on_group);
	reach_begin(config);
	await_group();
	chosen = true;
	if (journal_settle(config->journal_directory))
		return;
	group_check_room();
	refuse_to_start(xasprintf("could not write in \"%s\": %s", config->journal_directory, strerror(errno)), NULL, NULL);
}

static void
switch_over(void)
{
	switching_over = true;
	loop_stop();
}

/* Nothing is answered before the others have what this journal has. */
static void
lead_group(void)
{
	writer_on_leave(switch_over);
	group_lead(journal, on_group);
	await_group();
	log_event(LOG_NOTICE, "takeover", "group", "this replicator has what it needs to lead", NULL, NULL);
	event_note("takeover", NULL, "this replicator leads", NULL);
}

/*
 * What was decided gets to the disk, then its verdict to the backends and its
 * COMMIT to the peers, so that no turn waits for our return.
 */
static void
stop_all(void)
{
	if (!switching_over)
		systemd_stopping();
	http_stop();
	admin_stop();
	listener_stop();
	if (config->nreplicators > 0)
		group_will_end();
	sequencer_stop();
	loop_finish();				/* the last verdicts: what follows may take a
								 * second, or end the process */
	if (config->nreplicators > 0)
		group_end();
	loop_finish();
	sessions_stop();
	journal_close(journal);
	if (pid_fd >= 0)
		unlink(config->pid_file);
	log_message(LOG_NOTICE, NULL, "stopped");
}

/* For tests only. */
static void
arm_points(void)
{
	const char *directory = getenv("LOCKSTEP_POINTS");

	if (directory == NULL)
		return;
	points_begin(directory, 0);
	log_message(LOG_WARNING, NULL, "LOCKSTEP_POINTS is set: this replicator ends or stops where \"%s\" says", directory);
}

/*
 * Large memory is given back when it is freed.  Left alone, the C library keeps up to
 * 32 MB for the next time wherever it was freed once, in pieces between which small things
 * have come to lie.
 */
static void
give_memory_back(void)
{
	(void) mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	(void) mallopt(M_TRIM_THRESHOLD, 4 * MMAP_FROM);
}

/* Where nodes are, and that they have to use TLS, says replicator.conf: libpq must not find another place. */
static void
ignore_environment(void)
{
	static const char *const names[] = {"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSSLMODE", "PGREQUIRESSL"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void) unsetenv(names[i]);
}

int
main(int argc, char **argv)
{
	static const AdminMain admin_calls = {.reload = reload_config,.stop = stop,.switchover = switch_over};
	bool		check;
	const char *hint;
	char	   *error;
	char	   *ready;

	/* threads of members' connections may use it until the end */
	(void) OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	check = parse_options(argc, argv);

	/* after restart_or_exit() it is "exe" */
	(void) prctl(PR_SET_NAME, "lockstep-replicator");
	ignore_environment();
	config = config_load(config_file, &error);
	if (config == NULL)
		refuse_to_start(error, NULL, NULL);
	if (check)
	{
		if ((error = http_check(config, &hint)) != NULL)
			refuse_to_start(error, NULL, hint);
		check_tls();
		printf("%s is valid\n", config_file);
		return EXIT_SUCCESS;
	}
	if (adopt || force)
	{
		bool		done;

		check_tls();
		take_pid_file();
		done = adopt ? adopt_nodes(config, accept_loss) : force_leader(config, accept_loss);
		if (pid_fd >= 0)
			unlink(config->pid_file);
		return done ? EXIT_SUCCESS : EXIT_STARTUP;
	}
	if (!log_open(config->log_file, config->log_level))
	{
		systemd_failed("could not open log_file");
		return EXIT_STARTUP;
	}
	log_set_destination(config->log_destination, log_json);
	arm_points();
	give_memory_back();
	log_message(LOG_NOTICE, NULL, "lockstep-replicator " LOCKSTEP_VERSION " starting");

	check_tls();
	take_pid_file();
	await_addresses();			/* as long as SIGTERM ends it */
	raise_descriptor_limit();
	loop_init();
	catch_signals();
	pgclient_check_servers(node_certificate_check);
	if (config->nreplicators > 0)
	{
		if ((error = admin_init(config, cluster, &admin_calls, admin_command)) != NULL)
			refuse_to_start(error, NULL, NULL);
		if ((error = http_start(config, &hint)) != NULL)
			refuse_to_start(error, NULL, hint);
		restart_arm(argv, pid_fd >= 0 ? xstrdup(config->pid_file) : NULL);
		systemd_ready("standby");
		follow_group();
		systemd_busy("begins to lead");
	}
	else
		refuse_journal_of_group();
	open_journal();
	if (config->nreplicators > 0)
		lead_group();
	membership_init(config, cluster, config->journal_directory);
	conflict_log_init(config);
	sequencer_init(config, journal, config->journal_directory, &peer_ops, &session_ops);
	begin_databases();
	if ((error = listener_init(config, cluster)) != NULL ||
		(config->nreplicators == 0 && (error = admin_init(config, cluster, &admin_calls, admin_command)) != NULL))
		refuse_to_start(error, NULL, NULL);
	if (config->nreplicators == 0 && (error = http_start(config, &hint)) != NULL)
		refuse_to_start(error, NULL, hint);
	if ((error = http_lead(config)) != NULL)
		refuse_to_start(error, NULL, NULL);
	if (journal_is_copy(journal))
		nodes_doubt_journal();
	waits_start();
	waits_watchdog_start();
	sessions_tell_waits(waits_refresh, WAIT_COLUMNS, waits_row);
	membership_start();
	if (config->nreplicators > 0)
		stranded_watch(switch_over);
	ready = xasprintf("ready: %d nodes", nodes_count());
	log_event(LOG_NOTICE, "start", NULL, ready, NULL, NULL);
	free(ready);
	event_note("start", NULL, "the replicator has started", NULL);
	systemd_ready(config->nreplicators > 0 ? "leads" : "ready");

	loop_run();
	stop_all();
	if (switching_over && !restart_is_forbidden())
		restart_or_exit(EXIT_RETRY);
	return EXIT_SUCCESS;
}
