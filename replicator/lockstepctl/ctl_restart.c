/*
 * ctl_restart.c
 *	  lockstepctl restart: the servers of nodes, one after the other, while clients go on.
 *
 *	  for each node:  (announce -> poolers ->) drain, readers too -> restart its server -> resume -> online
 *
 * All that can be known to be wrong is found before the first drain.  A drain that does not end in
 * time is given up, which leaves the cluster as it was.  Whatever else fails leaves one node out,
 * says so, and touches no other.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_restart.h"
#include "ctl_setup.h"
#include "pgclient.h"

#define ANNOUNCE_S 3			/* before poolers connect again */
#define TOLD_MS 10000			/* until the node knows of a drain that is
								 * announced */
#define LOOK_AGAIN_US (100 * 1000)
#define PING_S "5"

typedef struct Target
{
	const char *name;
	const char *conninfo;
	char	   *command;		/* of the operator, its escapes replaced; NULL */
	Server		server;			/* without a command: the one of this machine */
} Target;

/* ---------- an interruption says where it leaves things */

static char interrupted_text[256];	/* complete before the handler is set */

static void
on_interrupt(int signal_number)
{
	ssize_t		n = write(STDERR_FILENO, interrupted_text, strlen(interrupted_text));

	_exit(n < 0 ? CTL_UNREACHABLE : CTL_FAILED);
}

static void
catch_interrupts(void (*handler) (int))
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_handler = handler};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
	{
		struct sigaction was;

		/* nohup, or a shell's &, has it ignored */
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
	}
}

/* NULL: not any more. */
static void
tell_if_interrupted(const char *name)
{
	catch_interrupts(SIG_DFL);
	if (name == NULL)
		return;
	snprintf(interrupted_text, sizeof(interrupted_text),
			 "\nlockstepctl: interrupted while node \"%s\" was being restarted\nHINT:  To bring it back: lockstepctl resume %s\n", name, name);
	catch_interrupts(on_interrupt);
}

static void
tell_if_drain_is_interrupted(const char *name)
{
	catch_interrupts(SIG_DFL);
	snprintf(interrupted_text, sizeof(interrupted_text),
			 "\nlockstepctl: interrupted while node \"%s\" was being drained: the drain, or its announcement, stands\nHINT:  To end it: lockstepctl resume %s\n",
			 name, name);
	catch_interrupts(on_interrupt);
}

/* ---------- what is to be restarted */

static json_t *
node_facts(const json_t *status, const char *name)
{
	size_t		i;
	json_t	   *node;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		const char *its = json_string_value(json_object_get(node, "name"));

		if (its != NULL && strcmp(its, name) == 0)
			return node;
	}
	return NULL;
}

/* Value of one parameter of a connection string, else that; malloc'ed. */
static char *
conninfo_part(const PQconninfoOption *options, const char *keyword, const char *otherwise)
{
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, keyword) == 0 && o->val != NULL && o->val[0] != '\0')
			return xstrdup(o->val);
	}
	return otherwise != NULL ? xstrdup(otherwise) : NULL;
}

/* %n, %h and %p are name, host and port; %% is %.  NULL, with an error: another one. */
static char *
expand(const char *command, const char *name, const char *host, const char *port)
{
	Buffer		b = {0};

	for (const char *p = command; *p != '\0'; p++)
	{
		const char *value = *p != '%' ? NULL : p[1] == 'n' ? name : p[1] == 'h' ? host : p[1] == 'p' ? port : p[1] == '%' ? "%" : "";

		if (value == NULL)
			buffer_append(&b, p, 1);
		else if (value[0] != '\0')
		{
			buffer_append(&b, value, strlen(value));
			p++;
		}
		else
		{
			buffer_free(&b);
			setup_fail("%n is the node's name, %h its host, %p its port, %% a percent sign.", "--command has an unknown \"%.2s\"", p);
			return NULL;
		}
	}
	buffer_append(&b, "", 1);
	return (char *) b.data;
}

/* By the socket of this machine's server with that port, where its user needs no password. */
static char *
local_conninfo(const Setup *s, const char *conninfo, const char *port)
{
	char	   *local = xasprintf("port=%s dbname=postgres connect_timeout=5", port);
	PGPing		answer;
	PGconn	   *conn;
	bool		ok;

	setup_become_server(s);
	answer = PQping(local);
	conn = answer == PQPING_OK ? PQconnectdb(local) : NULL;
	setup_become_self(s);
	ok = conn != NULL && PQstatus(conn) == CONNECTION_OK;
	PQfinish(conn);
	if (ok)
		return local;
	free(local);
	return xstrdup(conninfo);
}

/* Another node's server may have the same port, on its own machine. */
static bool
open_local(Target *t, const Setup *s, const char *port)
{
	char	   *conninfo = local_conninfo(s, t->conninfo, port);
	char	   *name;
	bool		ok;

	if (!server_open(&t->server, s, conninfo))
		return setup_fail("For a server of another machine say how it is restarted: "
						  "--command='ssh %h sudo systemctl restart postgresql'.", "node \"%s\" cannot be restarted from here", t->name);
	name = server_setting(&t->server, "lockstep.node_name");
	ok = name != NULL && strcmp(name, t->name) == 0;
	if (!ok)
		setup_fail("For a server of another machine say how it is restarted: "
				   "--command='ssh %h sudo systemctl restart postgresql'.",
				   "the server of this machine with port %s is not node \"%s\"%s%s%s", port, t->name,
				   name != NULL ? ", it is \"" : "", name != NULL ? name : "", name != NULL ? "\"" : "");
	free(name);
	server_close(&t->server);
	return ok;
}

static bool
prepare(Target *t, const RestartOptions *o, const Config *config, const json_t *status, const Setup *s)
{
	const json_t *facts = node_facts(status, t->name);
	const char *state = json_string_value(json_object_get(facts, "state"));
	const char *reason = json_string_value(json_object_get(facts, "reason"));
	PQconninfoOption *options;
	char	   *host;
	char	   *port;
	bool		ok;

	t->conninfo = config_conninfo(config, t->name);
	if (facts == NULL || t->conninfo == NULL)
		return setup_fail(NULL, "there is no node \"%s\"", t->name);
	if (state == NULL || strcmp(state, "online") != 0)
	{
		char	   *hint = xasprintf("Bring it back (lockstepctl resume %s), or name the nodes to restart.", t->name);

		setup_fail(hint, "node \"%s\" is not online: %s%s%s", t->name, state ? state : "unknown", reason ? ": " : "", reason ? reason : "");
		free(hint);
		return false;
	}
	options = PQconninfoParse(t->conninfo, NULL);
	host = conninfo_part(options, "host", NULL);
	if (host == NULL)
		host = conninfo_part(options, "hostaddr", "localhost");
	port = conninfo_part(options, "port", "5432");
	if (o->command == NULL)
		ok = open_local(t, s, port);
	else
		ok = (t->command = expand(o->command, t->name, host, port)) != NULL;
	free(host);
	free(port);
	PQconninfoFree(options);
	return ok;
}

/* ---------- one node */

/* false: it has said why.  The replicator's hint is said, too, or, if that is not NULL, *hinted: there is one. */
static bool
request(const RestartOptions *o, const char *what, const char *name, const char *more, bool *hinted)
{
	char	   *line = xasprintf("timeout=%ld %s %s%s\n", o->timeout_s * 1000, what, name, more);
	json_t	   *answer = o->ask(o->ask_arg, line, o->timeout_s > 0 ? o->timeout_s + ANSWER_TIMEOUT_S : 0);
	const char *error = json_string_value(json_object_get(answer, "error"));
	const char *hint = json_string_value(json_object_get(answer, "hint"));
	bool		ok = json_is_true(json_object_get(answer, "ok"));

	if (hinted != NULL)
		*hinted = hint != NULL;
	if (!ok)
		setup_fail(hinted == NULL ? hint : NULL, "%s", error != NULL ? error : "the replicator gave no reason");
	json_decref(answer);
	free(line);
	return ok;
}

/* Nothing has happened to the node yet: it takes writers again.  hint may be NULL. */
static void
give_up_drain(const char *node, const char *hint, AskReplicator ask, void *ask_arg)
{
	char	   *line = xasprintf("timeout=%d resume %s\n", ANSWER_TIMEOUT_S * 1000, node);
	json_t	   *answer = ask(ask_arg, line, 2 * ANSWER_TIMEOUT_S);

	if (json_is_true(json_object_get(answer, "ok")))
		setup_fail(hint, "the drain was given up: node \"%s\" takes writes as before", node);
	else
		setup_fail("See lockstepctl status.", "the drain of node \"%s\" could not be given up: %s", node,
				   json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
	free(line);
}

static bool
announces(const AnnounceOptions *o)
{
	return o->seconds > 0 || o->poolers != NULL;
}

bool
drain_announce(const AnnounceOptions *o, const char *node, bool readers, AskReplicator ask, void *ask_arg)
{
	Run			shell = {.argv = {(char *) "/bin/sh", (char *) "-c", (char *) o->poolers}};
	char	   *line;
	json_t	   *answer;
	bool		ok;
	int			code;

	if (!announces(o))
		return true;
	tell_if_drain_is_interrupted(node);
	line = xasprintf("timeout=%d drain %s%s announce\n", TOLD_MS, node, readers ? " readers" : "");
	answer = ask(ask_arg, line, TOLD_MS / 1000 + ANSWER_TIMEOUT_S);
	ok = json_is_true(json_object_get(answer, "ok"));
	if (!ok)
		setup_fail(json_string_value(json_object_get(answer, "hint")), "%s", json_string_value(json_object_get(answer, "error")));
	json_decref(answer);
	free(line);
	if (!ok)
		return false;
	sleep((unsigned int) (o->seconds > 0 ? o->seconds : ANNOUNCE_S));
	code = o->poolers != NULL ? run_program(&shell) : 0;
	if (code == 0)
		return true;
	setup_fail(NULL, "\"%s\" failed with exit code %d", o->poolers, code);
	give_up_drain(node, NULL, ask, ask_arg);
	return false;
}

static bool
drain(const RestartOptions *o, const Target *t)
{
	bool		goes_on;		/* it was not done in time, rather than
								 * refused */

	if (request(o, "drain", t->name, " readers", &goes_on))
		return true;
	give_up_drain(t->name, goes_on ? "To end its transactions: lockstepctl drop. Or wait longer: --timeout." : NULL, o->ask, o->ask_arg);
	return false;
}

static bool
restart_server(const Target *t, Setup *s)
{
	Run			shell = {.argv = {(char *) "/bin/sh", (char *) "-c", t->command}};
	Run			run = t->command != NULL ? shell : server_command(&t->server, s, "restart");
	char	   *text = t->command != NULL ? xstrdup(t->command) : run_text(&run);
	int			code;

	setup_step(s, "run", "%s", text);
	code = s->dry_run ? 0 : run_program(&run);
	if (code != 0)
		setup_fail(NULL, "\"%s\" failed with exit code %d", text, code);
	free(text);
	return code == 0;
}

static bool
await_server(const RestartOptions *o, const Target *t)
{
	const char *keywords[] = {"connect_timeout", "dbname", NULL};
	const char *values[] = {PING_S, t->conninfo, NULL};
	double		end = setup_now() + (double) o->timeout_s;

	while (PQpingParams(keywords, values, 1) != PQPING_OK)
	{
		if (o->timeout_s > 0 && setup_now() >= end)
			return setup_fail("See the server's log.", "the server of node \"%s\" does not answer after %ld s", t->name, o->timeout_s);
		usleep(LOOK_AGAIN_US);
	}
	return true;
}

static bool
restart(const RestartOptions *o, const Target *t, Setup *s)
{
	double		begin = setup_now();

	if (announces(&o->announce))
		setup_step(s, "announce", "node %s: load balancers and new sessions are told%s%s", t->name,
				   o->announce.poolers != NULL ? ", then: " : "", o->announce.poolers != NULL ? o->announce.poolers : "");
	if (!s->dry_run)
	{
		if (!drain_announce(&o->announce, t->name, true, o->ask, o->ask_arg))
			return false;
		tell_if_interrupted(t->name);
	}
	setup_step(s, "drain", "node %s: writers and readers go to the other nodes", t->name);
	if (s->dry_run)
		return restart_server(t, s);
	if (!drain(o, t))
		return false;
	setup_detail("after %.1f s", setup_now() - begin);
	if (!restart_server(t, s) || !await_server(o, t) || !request(o, "resume", t->name, "", NULL))
	{
		char	   *hint = xasprintf("When its server runs: lockstepctl resume %s", t->name);

		setup_fail(hint, "node \"%s\" is out of the cluster; no further node is restarted", t->name);
		free(hint);
		return false;
	}
	tell_if_interrupted(NULL);
	setup_step(s, "online", "node %s again, after %.1f s", t->name, setup_now() - begin);
	return true;
}

/* ---------- all of them */

/* The nodes that are named; with --rolling all that are configured. */
static int
targets(Target *list, const RestartOptions *o, const Config *config)
{
	int			n = 0;

	if (o->nnodes > 0)
	{
		for (int i = 0; i < o->nnodes; i++)
			list[n++].name = o->nodes[i];
		return n;
	}
	for (int i = 0; i < config->nnodes; i++)
		list[n++].name = config->nodes[i].name;
	return n;
}

int
restart_nodes(const RestartOptions *o, const Config *config, const json_t *status)
{
	Target		list[CONFIG_MAX_NODES] = {0};
	Setup		setup = {.dry_run = o->dry_run};
	double		begin = setup_now();
	int			n = targets(list, o, config);

	/* the operator's command is run as whoever runs lockstepctl */
	if (o->command == NULL && !setup_begin(&setup, o->dry_run, NULL))
		return CTL_FAILED;
	for (int i = 0; i < n; i++)
	{
		for (int j = 0; j < i; j++)
		{
			if (strcmp(list[i].name, list[j].name) == 0)
			{
				setup_fail(NULL, "node \"%s\" is named twice", list[i].name);
				return CTL_USAGE;
			}
		}
		if (!prepare(&list[i], o, config, status, &setup))
			return CTL_FAILED;
	}
	for (int i = 0; i < n; i++)
	{
		if (!restart(o, &list[i], &setup))
			return CTL_FAILED;
	}
	if (o->dry_run)
		printf("Nothing was done.\n");
	else
		printf("%d node%s restarted in %.1f s.\n", n, n == 1 ? "" : "s", setup_now() - begin);
	return CTL_OK;
}
