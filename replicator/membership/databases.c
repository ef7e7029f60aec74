/*
 * databases.c
 *	  Adding and dropping replicated databases on all nodes that are online.
 *
 *	 add	if no node has the database, create it on all (on some only: refused);
 *			on each node: connect, create the extension if it is missing, check;
 *			compare the contents, which must be equal; write the identity; open the
 *			apply connections.  Then the journal records that it is replicated, and
 *			its content is the standard for nodes that are attached later.
 *	 drop	its sessions are ended; the journal records that it is not replicated
 *			any more; connections are closed when everything decided is applied; on
 *			each node its progress is kept in another database, and the extension is
 *			dropped, which leaves an ordinary database.
 *
 * Only one job runs at a time.  If a node goes out while a database is added, the job
 * fails; nothing has been promised, and it can be repeated.  Whatever the job has
 * created is removed again: an extension would keep clients from writing to a database
 * that is not replicated.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database_step.h"
#include "dbcheck.h"
#include "journal.h"
#include "kept_progress.h"
#include "log.h"
#include "metadata.h"
#include "sequencer.h"

#define POLL_MS 10				/* how often a drop looks whether connections
								 * are closed */

typedef struct Job
{
	char	   *database;
	NodeDone	done;
	void	   *arg;
	DbCheck    *checks[CONFIG_MAX_NODES];	/* NULL: not online when it began */
	int			at;				/* node that is worked on */
	int			missing;		/* of an add: nodes that don't have it, and
								 * one of */
	int			missing_on;		/* them */
	int			existing_on;	/* one that has it, or -1 */
	Timer	   *timer;
	uint64_t	created_on;		/* nodes where an add has created it */
	int			asked;			/* node whose control connection was asked, or
								 * -1 */
	PgClient   *client;			/* of a drop */
	PgClient   *keeper;			/* in a database that stays */
	char	   *progress;		/* of the node that is worked on */
	char	   *chain;
	char	   *trouble;		/* what went wrong on the way */
	uint64_t	applied;		/* by a node, when it is asked for its turn */
} Job;

static Job *job;

static void look_for_next(void);
static void create_next(void);
static void add_next_check(void);
static void add_next_content(void);
static void add_next_cluster(void);
static void drop_next_extension(void);
static void take_back_next(void);

static void
finish(const char *error)
{
	Job		   *j = job;
	char	   *text = error != NULL ? xstrdup(error) : NULL;

	job = NULL;
	database_job_runs = false;
	loop_cancel(j->timer);
	for (int i = 0; i < CONFIG_MAX_NODES; i++)
		dbcheck_free(j->checks[i]);
	pgclient_close(j->client);
	pgclient_close(j->keeper);
	log_message(LOG_NOTICE, NULL, "database \"%s\": %s", j->database, text != NULL ? text : "done");
	j->done(j->arg, text);
	free(text);
	free(j->progress);
	free(j->chain);
	free(j->trouble);
	free(j->database);
	free(j);
}

static void __attribute__((format(printf, 1, 2)))
fail(const char *fmt,...)
{
	char		text[600];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);

	/* connections opened for it are of no use */
	for (int i = 0; i < nodes_count(); i++)
	{
		Pool	   *p = pool_find(node_get(i), job->database);

		if (p != NULL && !metadata_has_database(job->database))
			pool_close(p);
	}
	/* where one has been looked at, all of them stay: equal, empty */
	for (int i = 0; i < nodes_count(); i++)
	{
		if (job->checks[i] != NULL)
			job->created_on = 0;
	}
	free(job->trouble);
	job->trouble = xstrdup(text);
	job->at = 0;
	take_back_next();
}

static bool
begin(const char *name, NodeDone done, void *arg)
{
	if (database_job_runs)
	{
		done(arg, "another database is being added or dropped");
		return false;
	}
	database_job_runs = true;
	job = xcalloc(1, sizeof(Job));
	job->database = xstrdup(name);
	job->done = done;
	job->arg = arg;
	job->existing_on = job->asked = -1;
	return true;
}

/* The next node that has a check; false: no more. */
static bool
next_check(DbCheck **d)
{
	while (job->at < nodes_count())
	{
		int			i = job->at++;

		if (job->checks[i] == NULL)
			continue;
		*d = job->checks[i];
		return true;
	}
	return false;
}

static const char *
text_of(const DropReason *reason)
{
	return reason != NULL ? reason->text : NULL;
}

/* The node worked on is still in, and the step went well; else the job failed. */
static bool
step_succeeded(const char *error)
{
	const Node *n = node_get(job->at - 1);

	if (error != NULL)
		fail("node \"%s\": %s", n->config->name, error);
	else if (n->state != NODE_ONLINE)
		fail("node \"%s\" is not online any more", n->config->name);
	return error == NULL && n->state == NODE_ONLINE;
}

/* ---------- adding */

static void
on_added(void *arg)
{
	if (job != NULL)
		finish(NULL);
}

/*
 * A node that came while no database was replicated could only be looked at from
 * outside: now it is known which start of its server it is, and there is a
 * database where the control connection finds the extension's functions.
 */
static void
get_to_know(Node *n, DbCheck *d)
{
	if (metadata_has_database(n->control_database))
		return;
	n->boot = dbcheck_boot(d);
	control_move(n, dbcheck_take_client(d), job->database);
}

/* All nodes have it, equal: it is replicated from now on. */
static void
add_to_journal(void)
{
	DbCheck    *d = NULL;
	char	   *text;

	job->at = 0;
	(void) next_check(&d);

	/*
	 * one that came online meanwhile would miss what happens in it from now
	 * on
	 */
	for (int i = 0; i < nodes_count(); i++)
	{
		if (node_get(i)->state == NODE_ONLINE && pool_find(node_get(i), job->database) == NULL)
		{
			fail("node \"%s\" has come online meanwhile: try again", node_name(i));
			return;
		}
	}
	for (int i = 0; i < nodes_count(); i++)
	{
		if (job->checks[i] != NULL && dbcheck_client(job->checks[i]) == NULL)
		{
			fail("node \"%s\": lost the connection", node_name(i));
			return;
		}
	}
	text = metadata_fingerprint_text(job->database, dbcheck_found(d));
	for (int i = 0; i < nodes_count(); i++)
	{
		if (job->checks[i] == NULL)
			continue;
		get_to_know(node_get(i), job->checks[i]);
		pool_passed(node_get(i), job->database);
	}
	sequencer_journal_metadata(RECORD_DATABASE_ADDED, job->database, NULL, NULL);
	sequencer_journal_metadata(RECORD_FINGERPRINT, text, on_added, NULL);
	free(text);
}

static void
wait_for_pools(void *arg)
{
	bool		ready = true;

	job->timer = NULL;
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);
		const char *error;

		if (job->checks[i] == NULL)
			continue;
		if (n->state != NODE_ONLINE)
		{
			fail("node \"%s\" is not online any more: %s", n->config->name, n->reason);
			return;
		}
		error = pool_trial_error(n, job->database);
		if (error != NULL)
		{
			fail("node \"%s\": could not open an apply connection: %s", n->config->name, error);
			return;
		}
		ready = ready && pools_ready(n);
	}
	if (ready)
		add_to_journal();
	else
		job->timer = loop_after(POLL_MS, wait_for_pools, NULL);
}

static void
add_pools(void)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (job->checks[i] != NULL && node_get(i)->state == NODE_ONLINE)
			pool_try(node_get(i), job->database);
	}
	wait_for_pools(NULL);
}

/* The first database of a node opens its turn; later ones find it open. */
static void
on_turn_open(void *arg, const PGresult *r)
{
	const char *error = NULL;

	if (r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK)
		error = "could not open its turn";
	else if (strtoull(PQgetvalue(r, 0, 0), NULL, 10) < job->applied)
		error = "its turn is behind the journal: restart the server";	/* it would wait for
																		 * ever */
	if (step_succeeded(error))
		add_next_cluster();
}

static void
on_cluster_set(void *arg, const DropReason *error)
{
	DbCheck    *d = arg;
	char		applied[24];
	const char *params[] = {applied};

	if (!step_succeeded(error != NULL ? text_of(error) : dbcheck_client(d) == NULL ? "lost the connection" : NULL))
		return;
	job->applied = node_applied(job->at - 1);
	snprintf(applied, sizeof(applied), "%" PRIu64, job->applied);
	pgclient_query(dbcheck_client(d), "SELECT lockstep.turn_open($1)", 1, params, on_turn_open, NULL);
}

static void
on_entered(void *arg, const DropReason *error)
{
	DbCheck    *d = arg;

	if (!step_succeeded(text_of(error)))
		return;
	if (dbcheck_has_cluster(d))
		on_cluster_set(d, NULL);
	else
		dbcheck_set_cluster(d, on_cluster_set, d);
}

/* The node follows our generation in this database, too, if it does in the others. */
static void
add_next_cluster(void)
{
	DbCheck    *d;
	Node	   *n;

	if (!next_check(&d))
	{
		add_pools();
		return;
	}
	n = node_get(job->at - 1);
	if (!dbcheck_knows_generations(d) && n->generation == 0)
		n->no_generations = true;
	if (n->no_generations)
		on_entered(d, NULL);
	else if (!dbcheck_knows_generations(d))
		fail("node \"%s\": database \"%s\" has SQL objects of an earlier version: run ALTER EXTENSION lockstep UPDATE there",
			 n->config->name, job->database);
	else
	{
		if (n->generation == 0)
			n->generation = generation_number();
		dbcheck_enter_generation(d, on_entered, d);
	}
}

static void
compare_contents(void)
{
	DbCheck    *first = NULL;
	DbCheck    *d;

	job->at = 0;
	while (next_check(&d))
	{
		char	   *difference;

		if (first == NULL)
			first = d;
		difference = fingerprint_difference(dbcheck_found(first), dbcheck_found(d));
		if (difference == NULL)
			continue;
		fail("content is not the same on all nodes: node \"%s\" differs in %s", node_name(job->at - 1), difference);
		free(difference);
		return;
	}
	job->at = 0;
	add_next_cluster();
}

static void
on_content(void *arg, const DropReason *error)
{
	if (step_succeeded(text_of(error)))
		add_next_content();
}

static void
add_next_content(void)
{
	DbCheck    *d;

	if (next_check(&d))
		dbcheck_fingerprint(d, on_content, NULL);
	else
		compare_contents();
}

static void
on_checked(void *arg, const DropReason *error)
{
	if (step_succeeded(text_of(error)))
		add_next_check();
}

static void
add_next_check(void)
{
	while (job->at < nodes_count())
	{
		Node	   *n = node_get(job->at++);

		if (n->state != NODE_ONLINE)
			continue;
		job->checks[n->index] = dbcheck_open(n, job->database, true, false, on_checked, NULL);
		return;
	}
	job->at = 0;
	add_next_content();
}

/* ---------- adding one that is not there yet */

/* The next node that is online; NULL: no more. */
static Node *
next_online(void)
{
	while (job->at < nodes_count())
	{
		Node	   *n = node_get(job->at++);

		if (n->state == NODE_ONLINE)
			return n;
	}
	return NULL;
}

static void
on_created(void *arg, const PGresult *r)
{
	job->asked = -1;
	if (!step_succeeded(r == NULL ? "connection lost" : PQresultStatus(r) != PGRES_COMMAND_OK ?
						pgclient_message(PQresultErrorMessage(r)) : NULL))
		return;
	job->created_on |= UINT64_C(1) << (job->at - 1);
	create_next();
}

/* "CREATE DATABASE " or the like, and the name. */
static void
run_with_name(Node *n, const char *verb, PgDone done)
{
	Buffer		command = {0};

	buffer_append(&command, verb, strlen(verb));
	append_quoted_name(&command, job->database);
	buffer_append(&command, "", 1);
	job->asked = n->index;
	pgclient_query(n->control, (const char *) command.data, 0, NULL, done, NULL);
	buffer_free(&command);
}

static void
create_next(void)
{
	Node	   *n = next_online();

	if (n == NULL)
	{
		job->at = 0;
		add_next_check();
		return;
	}
	run_with_name(n, "CREATE DATABASE ", on_created);
}

/*
 * A node refuses to drop it in a database that belongs to a cluster.  Where there
 * is no such table, that has failed, and the rest goes on.
 */
static void
drop_extension(PgClient *client, PgDone done)
{
	pgclient_query(client, "DELETE FROM lockstep.cluster", 0, NULL, NULL, NULL);
	pgclient_query(client, "DROP EXTENSION IF EXISTS lockstep", 0, NULL, done, NULL);
}

/* ---------- taking back what a failed add has made */

static void
on_taken_back(void *arg, const PGresult *r)
{
	job->asked = -1;
	if (r == NULL || PQresultStatus(r) != PGRES_COMMAND_OK)
		log_message(LOG_WARNING, node_name(job->at - 1), "could not take back what was made for database \"%s\": %s",
					job->database, r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost");
	take_back_next();
}

/* The database goes where nothing has looked at it yet, the extension else. */
static void
take_back_next(void)
{
	while (job->at < nodes_count())
	{
		Node	   *n = node_get(job->at++);
		DbCheck    *d = job->checks[n->index];

		if (d != NULL && dbcheck_made_extension(d) && dbcheck_client(d) != NULL)
		{
			drop_extension(dbcheck_client(d), on_taken_back);
			return;
		}
		if (d == NULL && n->state == NODE_ONLINE && (job->created_on & (UINT64_C(1) << n->index)) != 0)
		{
			run_with_name(n, "DROP DATABASE ", on_taken_back);
			return;
		}
	}
	finish(job->trouble);
}

static void
on_looked_for(void *arg, const PGresult *r)
{
	bool		is_known = r != NULL && PQresultStatus(r) == PGRES_TUPLES_OK;
	char	   *no_room = is_known ? database_no_room(PQgetvalue(r, 0, 1)) : NULL;
	bool		succeeded;

	job->asked = -1;
	succeeded = step_succeeded(r == NULL ? "connection lost" : is_known ? no_room : pgclient_message(PQresultErrorMessage(r)));
	free(no_room);
	if (!succeeded)
		return;
	if (PQgetvalue(r, 0, 0)[0] == 't')
		job->existing_on = job->at - 1;
	else
	{
		job->missing++;
		job->missing_on = job->at - 1;
	}
	look_for_next();
}

static void
look_for_next(void)
{
	Node	   *n = next_online();
	const char *params[] = {job->database};

	if (n != NULL)
	{
		job->asked = n->index;
		pgclient_query(n->control, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1), " DATABASE_ROOM, 1, params, on_looked_for, NULL);
		return;
	}
	job->at = 0;
	if (job->missing == 0)
		add_next_check();
	else if (job->existing_on < 0)
		create_next();
	else
		fail("node \"%s\" has it, node \"%s\" does not", node_name(job->existing_on), node_name(job->missing_on));
}

void
nodes_database_add(const char *name, NodeDone done, void *arg)
{
	bool		any = false;

	if (metadata_has_database(name))
	{
		done(arg, "it is replicated already");
		return;
	}
	for (int i = 0; i < nodes_count(); i++)
	{
		NodeState	state = node_get(i)->state;

		any = any || state == NODE_ONLINE;
		if (state == NODE_CATCHUP || state == NODE_JOINING)
		{
			done(arg, "a node is being attached: try again when it is online");
			return;
		}
	}
	if (!any)
		done(arg, "no node is online");
	else if (begin(name, done, arg))
		look_for_next();
}

/* Its control connection is closed without calling back. */
void
databases_node_gone(const Node *n)
{
	if (job == NULL || job->asked != n->index)
		return;
	job->asked = -1;
	if (job->trouble != NULL)
		take_back_next();
	else
		fail("node \"%s\" is not online any more: %s", n->config->name, n->reason);
}

/* ---------- dropping */

static void __attribute__((format(printf, 1, 2)))
note_trouble(const char *fmt,...)
{
	char		text[600];
	va_list		args;

	if (job->trouble != NULL)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	job->trouble = xasprintf("it is not replicated any more, but its extension could not be dropped everywhere: %s", text);
}

/* Of this node, be it done or not. */
static void
leave_node(void)
{
	pgclient_close_at(&job->keeper);
	pgclient_close_at(&job->client);
	drop_next_extension();
}

/* false: it has failed, and the node has been left. */
static bool
is_done(const PGresult *r, ExecStatusType wanted)
{
	if (r != NULL && PQresultStatus(r) == wanted)
		return true;
	note_trouble("node \"%s\": %s", node_name(job->at - 1),
				 r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost");
	leave_node();
	return false;
}

static void
on_extension_dropped(void *arg, const PGresult *r)
{
	if (is_done(r, PGRES_COMMAND_OK))
		leave_node();
}

static void
on_kept(void *arg, const PGresult *r)
{
	if (is_done(r, PGRES_COMMAND_OK))
		drop_extension(job->client, on_extension_dropped);
}

static void
on_keeper_connected(void *arg, const char *error)
{
	if (error != NULL)
	{
		note_trouble("node \"%s\": %s", node_name(job->at - 1), error);
		job->keeper = NULL;		/* closes itself */
		leave_node();
		return;
	}
	progress_keep(job->keeper, job->progress, job->chain, on_kept, NULL);
}

static void
on_progress(void *arg, const PGresult *r)
{
	Node	   *n = node_get(job->at - 1);
	const char *database = progress_keeper(n, job->database);

	/*
	 * a node that was out for lack of the extension may be back, as the
	 * database does not count any more
	 */
	if (!progress_has_no_extension(r) && !is_done(r, PGRES_TUPLES_OK))
		return;
	if (PQntuples(r) == 0 || database == NULL)
	{
		drop_extension(job->client, on_extension_dropped);
		return;
	}
	free(job->progress);
	free(job->chain);
	job->progress = xstrdup(PQgetvalue(r, 0, 0));
	job->chain = PQgetisnull(r, 0, 1) ? NULL : xstrdup(PQgetvalue(r, 0, 1));
	job->keeper = pgclient_open(n->config, database, "lockstep control", pgclient_control_options, node_stall_timeout(),
								on_keeper_connected, NULL);
}

static void
on_drop_connected(void *arg, const char *error)
{
	if (error != NULL)
	{
		note_trouble("node \"%s\": %s", node_name(job->at - 1), error);
		job->client = NULL;		/* closes itself */
		leave_node();
		return;
	}
	pgclient_query(job->client, "SET lock_timeout = '10s'", 0, NULL, NULL, NULL);
	progress_ask(job->client, on_progress, NULL);
}

static void
drop_next_extension(void)
{
	while (job->at < nodes_count())
	{
		Node	   *n = node_get(job->at++);

		if (n->state != NODE_ONLINE)
			continue;
		job->client = pgclient_open(n->config, job->database, "lockstep control",
									pgclient_control_options, node_stall_timeout(),
									on_drop_connected, NULL);
		return;
	}
	finish(job->trouble);
}

/* Until no node has connections to it. */
static void
wait_for_closed(void *arg)
{
	job->timer = NULL;
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		for (const Pool *p = n->pools; p != NULL; p = p->next)
		{
			if (strcmp(p->database, job->database) == 0)
			{
				job->timer = loop_after(POLL_MS, wait_for_closed, NULL);
				return;
			}
		}
		if (n->control != NULL && strcmp(n->control_database, job->database) == 0)
		{
			job->timer = loop_after(POLL_MS, wait_for_closed, NULL);
			return;
		}
	}
	job->at = 0;
	drop_next_extension();
}

static void
on_dropped(void *arg)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		Pool	   *p = pool_find(node_get(i), job->database);

		control_leave_database(node_get(i), job->database);
		if (p != NULL)
			pool_close(p);
	}
	wait_for_closed(NULL);
}

void
nodes_database_drop(const char *name, NodeDone done, void *arg)
{
	if (!metadata_has_database(name))
	{
		done(arg, "it is not replicated");
		return;
	}
	if (!begin(name, done, arg))
		return;

	/* what is not decided is rolled back with its session */
	sequencer_journal_metadata(RECORD_DATABASE_DROPPED, job->database, on_dropped, NULL);
	to_sessions->end_of_database(job->database, "57P03", "this database is not replicated any more", NULL);
}
