/*
 * ctl_init_replicator.c
 *	  The part of lockstepctl init that makes replicator.conf and starts the replicator, on this
 *	  machine.
 *
 * A replicator.conf that is there keeps its lines; what is missing is added.  One beside which no
 * /etc/lockstep is (--config names another directory) has all its files in that directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"
#include "version.h"

#define START_TIMEOUT_S 60
#define RUN_DIRECTORY "/run/lockstep"
#define LOG_DIRECTORY "/var/log/lockstep"

static bool
is_installed_config(const char *path)
{
	return strcmp(path, LOCKSTEP_CONFIG_FILE) == 0;
}

/* ---------- replicator.conf */

static void
put_missing(char **text, const char *name, const char *value)
{
	char	   *now = conf_get(*text, name);
	char	   *longer;

	if (now == NULL)
	{
		longer = conf_set(*text, name, value);
		free(*text);
		*text = longer;
	}
	free(now);
}

static void
put_paths(char **text, const char *directory)
{
	static const char *const paths[][2] = {
		{"admin_socket", "admin.sock"}, {"pid_file", "replicator.pid"}, {"log_file", "replicator.log"},
		{"secret_file", "secret"}, {"journal_directory", "journal"}
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
	{
		char	   *path = path_in(directory, paths[i][1]);

		put_missing(text, paths[i][0], path);
		free(path);
	}
}

static void
put_nodes(char **text, const SetupNode *nodes, int nnodes, const char *pgpass)
{
	for (int i = 0; i < nnodes; i++)
	{
		char	   *name = xasprintf("node.%s", nodes[i].name);
		char	   *conninfo = xasprintf("host=%s port=%d user=" SETUP_ROLE " passfile=%s", nodes[i].host, nodes[i].port, pgpass);

		put_missing(text, name, conninfo);
		free(name);
		free(conninfo);
	}
}

static const char *
value_of(const PQconninfoOption *options, const char *keyword)
{
	for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, keyword) == 0)
			return o->val != NULL ? o->val : "";
	}
	return "";
}

/* A Unix socket and a service may lead to any address, and of several hosts one may be it. */
static bool
leads_to(const PQconninfoOption *options, const SetupNode *node)
{
	const char *host = value_of(options, "host");
	const char *address = value_of(options, "hostaddr");
	const char *port = value_of(options, "port");

	if (value_of(options, "service")[0] != '\0' || host[0] == '/' || host[0] == '@' || (host[0] == '\0' && address[0] == '\0') ||
		strchr(host, ',') != NULL || strchr(address, ',') != NULL)
		return true;
	return (strcasecmp(host, node->host) == 0 || strcmp(address, node->host) == 0) &&
		(port[0] != '\0' ? atoi(port) : 5432) == node->port;
}

/* Lines that were there before: nothing but the operator knows which of two addresses is right. */
static bool
check_nodes(const Config *c, const char *config_file, const SetupNode *nodes, int nnodes)
{
	bool		ok = true;

	for (int i = 0; ok && i < nnodes; i++)
	{
		PQconninfoOption *options = PQconninfoParse(config_conninfo(c, nodes[i].name), NULL);

		if (options != NULL && !leads_to(options, &nodes[i]))
		{
			const char *host = value_of(options, "host");
			const char *port = value_of(options, "port");

			ok = setup_fail("Correct the line, or give the address that it has.", "node \"%s\" is at %s:%s, says \"%s\", and not at %s:%d",
							nodes[i].name, host[0] != '\0' ? host : value_of(options, "hostaddr"), port[0] != '\0' ? port : "5432",
							config_file, nodes[i].host, nodes[i].port);
		}
		PQconninfoFree(options);
	}
	return ok;
}

/* As the replicator will read it. */
static Config *
parse(const char *text)
{
	int			fd = memfd_create("replicator.conf", MFD_CLOEXEC);
	char		path[64];
	char	   *error = NULL;
	Config	   *c = NULL;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t) strlen(text))
		setup_fail(NULL, "could not check replicator.conf: %s", strerror(errno));
	else if ((c = config_load(path, &error)) == NULL)
		setup_fail("Correct or remove the line.", "replicator.conf: %s", error + (strncmp(error, path, strlen(path)) == 0 ? strlen(path) + 1 : 0));
	free(error);
	if (fd >= 0)
		close(fd);
	return c;
}

/* Where the nodes find it: as said, as it was, or on the first node's machine. */
static bool
choose_address(ReplicatorPlan *p, const InitOptions *o, const SetupNode *first, const char *known_address)
{
	char	   *port_text = conf_get(p->text, "port");
	int			port = port_text != NULL ? atoi(port_text) : 6432;
	const char *said = o->replicator != NULL ? o->replicator : known_address;

	free(port_text);
	p->host = xstrdup(first->host);
	if (said != NULL && !address_split(said, &p->host, &port))
		return setup_fail(NULL, "\"%s\" is no address of a replicator (HOST:PORT)", said);
	p->address = address_join(p->host, port);
	if (port != 6432)
	{
		char		number[16];

		snprintf(number, sizeof(number), "%d", port);
		put_missing(&p->text, "port", number);
	}
	put_missing(&p->text, "listen_addresses", address_is_number(p->host) || strcmp(p->host, "localhost") == 0 ? p->host : "*");
	return true;
}

/* What is there stays. */
static bool
put_tls(ReplicatorPlan *p, bool tls)
{
	char	   *now = conf_get(p->text, "tls_directory");
	char	   *ours = path_in(p->directory, "tls");
	bool		ok = now == NULL || now[0] == '\0' || strcmp(now, ours) == 0;

	p->tls = tls || (now != NULL && now[0] != '\0');
	if (!ok)
		setup_fail("Set up the nodes by hand: \"TLS\" in docs/operating.md.", "the certificates in \"%s\" (tls_directory) are not those of lockstepctl init", now);
	else if (p->tls)
		put_missing(&p->text, "tls_directory", ours);
	else
		put_missing(&p->text, "require_tls", "remote");
	free(now);
	free(ours);
	return ok;
}

bool
replicator_plan(ReplicatorPlan *p, const Setup *s, const InitOptions *o, const SetupNode *nodes, int nnodes,
				const char *known_address, bool tls)
{
	char	   *old;
	int			port = 0;
	char	   *host;

	*p = (ReplicatorPlan) {.directory = directory_of(o->config_file)};
	if (o->config_file[0] != '/')
		return setup_fail(NULL, "--config must be an absolute path: \"%s\"", o->config_file);
	if (!setup_read(s, o->config_file, OWNER_OF_DIRECTORY, &old))
		return false;
	p->text = xstrdup(old != NULL ? old : "# Settings of lockstep-replicator, written by lockstepctl init: see replicator.conf(5).\n");
	p->pgpass = path_in(p->directory, "pgpass");
	if (!choose_address(p, o, &nodes[0], known_address))
		return false;
	if (!is_installed_config(o->config_file))
		put_paths(&p->text, p->directory);
	if (!put_tls(p, tls))
		return false;
	put_nodes(&p->text, nodes, nnodes, p->pgpass);
	p->changed = old == NULL || strcmp(old, p->text) != 0;
	free(old);
	p->config = parse(p->text);
	if (p->config == NULL || !check_nodes(p->config, o->config_file, nodes, nnodes))
		return false;
	if (address_split(p->address, &host, &port) && port != p->config->port)
		return setup_fail("Correct one of them.", "the replicator listens on port %d, says \"%s\", and nodes shall connect to %s",
						  p->config->port, o->config_file, p->address);
	return true;
}

/* ---------- the process */

static bool
has_systemd(const Setup *s, const InitOptions *o)
{
	return s->root && is_installed_config(o->config_file) && access("/run/systemd/system", F_OK) == 0;
}

char *
replicator_start_text(const Setup *s, const InitOptions *o)
{
	if (has_systemd(s, o))
		return xstrdup("systemctl enable --now lockstep-replicator");
	return xasprintf("%s%s%s%s --config %s", s->root ? "runuser -u " : "", s->root ? s->replicator_user : "", s->root ? " -- " : "",
					 program_path("lockstep-replicator"), o->config_file);
}

/* The unit makes them, where systemd runs. */
static bool
make_directories(const Setup *s, const InitOptions *o)
{
	static const char *const directories[] = {RUN_DIRECTORY, LOG_DIRECTORY, "/var/lib/lockstep"};

	for (size_t i = 0; s->root && is_installed_config(o->config_file) && i < 3; i++)
	{
		if (mkdir(directories[i], i == 0 ? 0755 : 0750) == 0)
		{
			if (chown(directories[i], s->replicator_uid, s->replicator_gid) != 0)
				return setup_fail(NULL, "could not give \"%s\" to the replicator's user: %s", directories[i], strerror(errno));
		}
		else if (errno != EEXIST)
			return setup_fail(NULL, "could not create \"%s\": %s", directories[i], strerror(errno));
	}
	return true;
}

/* What libpq would take from the operator's environment is not for the replicator. */
static bool
clean_environment(const Setup *s)
{
	extern char **environ;

	for (char **e = environ; *e != NULL;)
	{
		char	   *name = xstrndup(*e, strcspn(*e, "="));
		bool		libpq = strncmp(name, "PG", 2) == 0;

		if (libpq && unsetenv(name) != 0)
			return false;
		e = libpq ? environ : e + 1;
		free(name);
	}
	return !s->root || setenv("HOME", s->replicator_home, 1) == 0;
}

/* In a session of its own; what it says before it has a log goes there, too. */
static pid_t
spawn(const Setup *s, const InitOptions *o, const char *log)
{
	char	   *argv[] = {program_path("lockstep-replicator"), "--config", (char *) o->config_file, NULL};
	pid_t		pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	if (setsid() >= 0 && chdir("/") == 0 && clean_environment(s) &&
		(!s->root ||
		 (initgroups(s->replicator_user, s->replicator_gid) == 0 && setgid(s->replicator_gid) == 0 && setuid(s->replicator_uid) == 0)))
	{
		int			in = open("/dev/null", O_RDONLY);
		int			out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		if (in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
			execvp(argv[0], argv);
	}
	_exit(127);
}

static bool
await_answer(const InitOptions *o, const ReplicatorPlan *p, pid_t pid, const char *log)
{
	double		end = setup_now() + START_TIMEOUT_S;

	for (;;)
	{
		json_t	   *status = o->status(p->config->admin_socket);
		bool		answers = json_is_true(json_object_get(status, "ok"));
		int			how;

		json_decref(status);
		if (answers)
			return true;
		if (pid > 0 && waitpid(pid, &how, WNOHANG) == pid)
			return setup_fail(NULL, "the replicator did not start: see \"%s\"", log);
		if (setup_now() >= end)
			return setup_fail(NULL, "the replicator does not answer: see %s", log);
		usleep(50 * 1000);
	}
}

bool
replicator_start(Setup *s, const InitOptions *o, const ReplicatorPlan *p)
{
	char	   *text = replicator_start_text(s, o);
	bool		systemd = has_systemd(s, o);
	Run			enable = {.argv = {"systemctl", "enable", "--now", "lockstep-replicator"}};
	char	   *log = p->config->log_file[0] != '\0' ? xstrdup(p->config->log_file) :
	systemd ? xstrdup("journalctl -u lockstep-replicator") : path_in(s->root ? LOG_DIRECTORY : p->directory, "replicator.log");
	bool		ok = true;

	setup_step(s, "start", "%s", text);
	if (!s->dry_run && systemd)
		ok = (run_program(&enable) == 0 || setup_fail(NULL, "the replicator did not start")) && await_answer(o, p, 0, log);
	else if (!s->dry_run)
		ok = make_directories(s, o) && await_answer(o, p, spawn(s, o, log), log);
	free(log);
	free(text);
	return ok;
}
