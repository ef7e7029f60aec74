/*
 * ctl_join.c
 *	  lockstepctl join: create a new node by cloning one, while the cluster is in use.
 *
 *	 1. pg_basebackup of the donor into --pgdata, with its progress
 *	 2. the clone gets its own name (and what --set says), in lockstep.conf
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
#include "conninfo.h"
#include "ctl_setup.h"

/* In *text, NAME=VALUE. */
static void
put(char **text, const char *name, const char *value)
{
	char	   *edited = conf_set(*text, name, value);

	free(*text);
	*text = edited;
}

static char *
setting_name(const char *setting)
{
	return xstrndup(setting, strcspn(setting, "="));
}

/* lockstep.conf, which the donor may have, too: the donor's other lines stay. */
static bool
write_lockstep_conf(const JoinOptions *o, Setup *s)
{
	char	   *path = path_in(o->pgdata, "lockstep.conf");
	char	   *secret = path_in(o->pgdata, "lockstep.secret");
	char	   *text;
	bool		ok;

	if (!setup_read(s, path, OWNER_SERVER, &text))
		return false;
	if (text == NULL)
		text = xstrdup("# lockstep: the settings of this node, written by lockstepctl.  Lines may be changed and added.\n");
	put(&text, "lockstep.node_name", o->name);
	if (access(secret, F_OK) == 0)
		put(&text, "lockstep.secret_file", secret); /* the donor's was copied */
	for (int i = 0; i < o->nsettings; i++)
	{
		char	   *name = setting_name(o->settings[i]);

		put(&text, name, strchr(o->settings[i], '=') + 1);
		free(name);
	}
	ok = setup_write(s, path, text, 0600, OWNER_SERVER, NULL);
	free(path);
	free(secret);
	free(text);
	return ok;
}

/* What would override it. */
static bool
clean_auto_conf(const JoinOptions *o, Setup *s)
{
	char	   *path = path_in(o->pgdata, "postgresql.auto.conf");
	char	   *text;
	bool		ok = setup_read(s, path, OWNER_SERVER, &text);

	for (int i = -1; ok && text != NULL && i < o->nsettings; i++)
	{
		char	   *name = i < 0 ? xstrdup("lockstep.node_name") : setting_name(o->settings[i]);
		char	   *edited = conf_without(text, name);

		free(name);
		free(text);
		text = edited;
	}
	ok = ok && (text == NULL || setup_write(s, path, text, 0600, OWNER_SERVER, NULL));
	free(path);
	free(text);
	return ok;
}

static bool
write_settings(const JoinOptions *o)
{
	Setup		s;
	char	   *path = path_in(o->pgdata, "postgresql.conf");
	bool		ok = setup_begin(&s, false, NULL) && write_lockstep_conf(o, &s) && clean_auto_conf(o, &s) &&
	node_include(&s, path, "lockstep.conf");

	free(path);
	return ok;
}

static bool
clone(const JoinOptions *o)
{
	ConninfoPasswords passwords;
	char	   *donor = conninfo_without_passwords(o->donor, &passwords);
	Run			backup = {.argv = {program_path("pg_basebackup"), "-d", donor, "-D", (char *) o->pgdata,
	"-X", "stream", "-c", "fast", "-P", "-l", (char *) "lockstepctl join"},.password = passwords.password,.sslpassword = passwords.sslpassword};

	if (donor == NULL)
	{
		fprintf(stderr, "lockstepctl: --donor is neither a node of replicator.conf nor a connection string\n");
		return false;
	}
	printf("cloning the donor into %s\n", o->pgdata);
	if (run_program(&backup) != 0)
	{
		fprintf(stderr, "lockstepctl: the donor could not be cloned\n"
				"HINT:  Its pg_hba.conf must allow replication connections from here, max_wal_senders must be above 0, "
				"and the data directory must be empty.\n");
		return false;
	}
	free(donor);
	return true;
}

static bool
start(const JoinOptions *o)
{
	char	   *log = xasprintf("%s/startup.log", o->pgdata);
	Run			server = {.argv = {program_path("pg_ctl"), "-D", (char *) o->pgdata, "-l", log, "-w", "-t", "3600", "-s", "start"}};

	printf("starting node %s\n", o->name);
	if (run_program(&server) != 0)
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
