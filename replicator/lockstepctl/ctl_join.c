/*
 * ctl_join.c
 *	  lockstepctl join: create a new node by cloning one, while the cluster is in use.
 *
 *	 1. pg_basebackup of the donor into --pgdata, with its progress
 *	 2. the clone gets its own name (and what --set says), in
 *		postgresql.auto.conf
 *	 3. it is started
 *	 4. the replicator attaches it: it knows from its own data how far it has
 *		applied, and gets the rest from the journal
 *
 * Runs on the new node's machine, as the user that owns the server.  The replicator must know
 * the node: a node.NAME line in replicator.conf, and a reload.  The donor is only backed up, and
 * replicator.conf is not written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"

/* Its exit code. */
static int
run(char *const *argv)
{
	Run			program = {0};

	for (int i = 0; argv[i] != NULL; i++)
		program.argv[i] = argv[i];
	return run_program(&program);
}

static bool
fail(const char *what, const char *path)
{
	fprintf(stderr, "lockstepctl: could not %s \"%s\": %s\n", what, path, strerror(errno));
	return false;
}

/* A value as postgresql.conf wants it. */
static void
put_setting(FILE *f, const char *name, size_t name_len, const char *value)
{
	fprintf(f, "%.*s = '", (int) name_len, name);
	for (; *value != '\0'; value++)
		fprintf(f, *value == '\'' || *value == '\\' ? "%c%c" : "%c", *value, *value);
	fprintf(f, "'\n");
}

static bool
write_settings(const JoinOptions *o)
{
	char	   *path = xasprintf("%s/postgresql.auto.conf", o->pgdata);
	FILE	   *f = fopen(path, "a");
	bool		ok;

	if (f == NULL)
		return fail("open", path);
	put_setting(f, "lockstep.node_name", strlen("lockstep.node_name"), o->name);
	for (int i = 0; i < o->nsettings; i++)
	{
		const char *equals = strchr(o->settings[i], '=');

		put_setting(f, o->settings[i], (size_t) (equals - o->settings[i]), equals + 1);
	}
	ok = fflush(f) == 0 && fsync(fileno(f)) == 0;
	ok = fclose(f) == 0 && ok;
	if (!ok)
		return fail("write", path);
	free(path);
	return true;
}

static bool
clone(const JoinOptions *o)
{
	char	   *argv[] = {program_path("pg_basebackup"), "-d", (char *) o->donor, "-D", (char *) o->pgdata,
	"-X", "stream", "-c", "fast", "-P", "-l", (char *) "lockstepctl join", NULL};

	printf("cloning the donor into %s\n", o->pgdata);
	if (run(argv) != 0)
	{
		fprintf(stderr, "lockstepctl: the donor could not be cloned\n"
				"HINT:  Its pg_hba.conf must allow replication connections from here, max_wal_senders must be above 0, "
				"and the data directory must be empty.\n");
		return false;
	}
	return true;
}

static bool
start(const JoinOptions *o)
{
	char	   *log = xasprintf("%s/startup.log", o->pgdata);
	char	   *argv[] = {program_path("pg_ctl"), "-D", (char *) o->pgdata, "-l", log, "-w", "-t", "3600", "-s", "start", NULL};

	printf("starting node %s\n", o->name);
	if (run(argv) != 0)
	{
		fprintf(stderr, "lockstepctl: the clone did not start: see %s\n", log);
		return false;
	}
	free(log);
	return true;
}

bool
join_clone(const JoinOptions *o)
{
	if (geteuid() == 0)
	{
		fprintf(stderr, "lockstepctl: join makes a data directory: run it as the user that owns the server, not as root\n");
		return false;
	}
	return clone(o) && write_settings(o) && start(o);
}
