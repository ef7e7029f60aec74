/*
 * database_step.c
 *	  What CREATE, DROP and ALTER DATABASE RENAME do on one node.
 *
 *	 make	look whether it is there -> CREATE DATABASE ... OID -> the extension -> its content
 *			-> our generation -> the cluster's identity
 *	 remove	look whether it is there -> close the connections to it -> wait until seq is applied
 *			-> copy its progress to another database -> DROP DATABASE
 *	 rename	the same -> end the sessions in it -> ALTER DATABASE ... RENAME
 *
 * PostgreSQL commits CREATE and DROP DATABASE by themselves, and synchronously, and so does a session
 * that renames: a node that has done it after applying seq can't forget seq in a crash.
 *
 * The node's position in the journal is the highest progress of its databases, and may be in the one
 * that is dropped: so another one gets it before.  Else a node that starts anew would be taken back.
 *
 * One that is there has its identity, and is complete; or an attempt has been stopped before that,
 * and it is made anew.
 *
 * Whether a database is the wanted one is known by its number (database_event.h), a part of its
 * OID.  One of that name with another number is left alone; without a number, one that has no
 * identity.  The wanted one may have another name
 * already, which it gets by a later event with the same seq: a node that has applied that seq may
 * have done all of these events, or the first of them.  So nothing is closed before it was looked
 * for: by now our connections to a database of that name may be those to another one.
 */
#include "database_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database_event.h"
#include "dbcheck.h"
#include "kept_progress.h"
#include "log.h"
#include "metadata.h"
#include "points.h"

#define POLL_MS 10
#define RENAME_TRIES 4			/* each takes 5 s, while others connect */
#define OTHER_CONNECTIONS 3		/* of a new database, beside those that apply */

struct DatabaseStep
{
	Node	   *node;
	uint64_t	number;
	uint64_t	seq;
	char	   *name;			/* that it has on the node, as far as known */
	char	   *command;		/* NULL: it is to be removed, or renamed */
	char	   *new_name;		/* NULL: it is not to be renamed */
	uint64_t	order;			/* of the event that renames it */
	int			tries;
	char	   *expected;		/* its content; NULL: not known */
	char	   *progress;		/* of one that is dropped */
	char	   *chain;
	DatabaseStepDone done;
	void	   *arg;
	bool		taken_back;		/* it was made, and is never to be used */
	bool		is_template;	/* the one that is there, and is to be dropped */
	bool		is_invalid;		/* ... and DROP DATABASE was stopped there */
	PgClient   *client;
	PgClient   *inner;			/* to the one that is dropped, then to one
								 * that stays */
	DbCheck    *check;
	Timer	   *timer;
	char		sqlstate[6];
};

bool		database_job_runs;

void
append_quoted_name(Buffer *b, const char *name)
{
	buffer_append(b, "\"", 1);
	for (const char *p = name; *p != '\0'; p++)
		buffer_append(b, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
	buffer_append(b, "\"", 1);
}

void
database_step_free(DatabaseStep *s)
{
	if (s == NULL)
		return;
	loop_cancel(s->timer);
	pgclient_close(s->client);
	pgclient_close(s->inner);
	dbcheck_free(s->check);
	free(s->name);
	free(s->command);
	free(s->new_name);
	free(s->expected);
	free(s->progress);
	free(s->chain);
	free(s);
}

const char *
database_step_fingerprint(const DatabaseStep *s)
{
	return s->check != NULL ? dbcheck_found(s->check) : NULL;
}

const char *
database_step_sqlstate(const DatabaseStep *s)
{
	return s->sqlstate;
}

/* The caller may free the step.  One that has made something keeps the connection to take it back. */
static void
end(DatabaseStep *s, const char *error)
{
	if (s->command == NULL && !s->taken_back)
		pgclient_close_at(&s->client);
	pgclient_close_at(&s->inner);
	s->done(s->arg, error);
}

/* false: the step has failed with the result's error. */
static bool
succeeded(DatabaseStep *s, const PGresult *r)
{
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
	char		text[600];
	const char *detail;

	if (r == NULL)
	{
		pgclient_close_at(&s->client);
		end(s, "connection lost");
		return false;
	}
	if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
		return true;
	detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
	snprintf(s->sqlstate, sizeof(s->sqlstate), "%s", sqlstate != NULL ? sqlstate : "");
	snprintf(text, sizeof(text), "%s%s%s%s", PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) != NULL ?
			 PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : pgclient_message(PQresultErrorMessage(r)),
			 detail != NULL ? " (" : "", detail != NULL ? detail : "", detail != NULL ? ")" : "");
	end(s, text);
	return false;
}

/* All databases of the node. */
static void
look(DatabaseStep *s, PgDone done)
{
	pgclient_query(s->client, "SELECT oid, datname, datistemplate, datconnlimit FROM pg_database", 0, NULL, done, s);
}

static uint64_t
number_of_row(const PGresult *r, int i)
{
	return database_number_of((uint32_t) strtoul(PQgetvalue(r, i, 0), NULL, 10));
}

static int
row_of_name(const PGresult *r, const char *name)
{
	for (int i = 0; i < PQntuples(r); i++)
	{
		if (strcmp(PQgetvalue(r, i, 1), name) == 0)
			return i;
	}
	return -1;
}

/* Is it one that the journal does not know by number? */
static bool
has_no_number(const PGresult *r, int i)
{
	uint64_t	number = number_of_row(r, i);

	return number == 0 || !database_event_had_name(number, PQgetvalue(r, i, 1));
}

/* The one that is meant, whatever its name; -1: it is not there. */
static int
row_of_meant(const DatabaseStep *s, const PGresult *r)
{
	int			i = row_of_name(r, s->name);

	if (s->number == 0)
		return i >= 0 && has_no_number(r, i) ? i : -1;
	for (i = 0; i < PQntuples(r); i++)
	{
		if (number_of_row(r, i) == s->number &&
			(strcmp(PQgetvalue(r, i, 1), s->name) == 0 || database_event_had_name(s->number, PQgetvalue(r, i, 1))))
			return i;
	}
	return -1;
}

static void
note_name(DatabaseStep *s, const char *name)
{
	char	   *old = s->name;

	s->name = xstrdup(name);
	free(old);
}

/* It is there. */
static void
note_row(DatabaseStep *s, const PGresult *r, int i)
{
	note_name(s, PQgetvalue(r, i, 1));
	s->is_template = PQgetvalue(r, i, 2)[0] == 't';
	s->is_invalid = strcmp(PQgetvalue(r, i, 3), "-2") == 0;
}

const char *
database_step_name(const DatabaseStep *s)
{
	return s->name;
}

static DatabaseStep *
begin(Node *n, uint64_t number, const char *name, DatabaseStepDone done, void *arg)
{
	DatabaseStep *s = xcalloc(1, sizeof(DatabaseStep));

	s->node = n;
	s->number = number;
	s->name = xstrdup(name);
	s->done = done;
	s->arg = arg;
	return s;
}

/* To a database that is not the one. */
static void
connect_beside(DatabaseStep *s, PgConnected connected)
{
	s->client = pgclient_open(s->node->config, s->node->control_database, "lockstep control",
							  pgclient_control_options, node_stall_timeout(), connected, s);
}

/* false: the step has failed. */
static bool
is_connected(DatabaseStep *s, const char *error)
{
	char		text[300];

	if (error == NULL)
		return true;
	snprintf(text, sizeof(text), "could not connect: %s", error);
	s->client = NULL;			/* closes itself */
	end(s, text);
	return false;
}

/* ---------- make */

static void
on_checked_step(DatabaseStep *s, const DropReason *error, void (*next) (DatabaseStep *s))
{
	if (error != NULL)
		end(s, error->text);
	else
		next(s);
}

static void
made(DatabaseStep *s)
{
	LOCKSTEP_POINT(DATABASE_MADE);
	end(s, NULL);
}

static void
on_identity(void *arg, const DropReason *error)
{
	on_checked_step(arg, error, made);
}

static void
set_identity(DatabaseStep *s)
{
	if (dbcheck_has_cluster(s->check))
		made(s);
	else
		dbcheck_set_cluster(s->check, on_identity, s);
}

static void
on_generation(void *arg, const DropReason *error)
{
	on_checked_step(arg, error, set_identity);
}

static void
enter_generation(DatabaseStep *s)
{
	if (s->node->generation == 0 || !dbcheck_knows_generations(s->check))
		set_identity(s);
	else
		dbcheck_enter_generation(s->check, on_generation, s);
}

static void
compare_content(DatabaseStep *s)
{
	char	   *difference = s->expected != NULL ? fingerprint_difference(s->expected, dbcheck_found(s->check)) : NULL;
	char		text[300];

	if (difference == NULL)
	{
		enter_generation(s);
		return;
	}
	snprintf(text, sizeof(text), "its template is not that of the other nodes: it differs in %s", difference);
	free(difference);
	end(s, text);
}

static void
on_content(void *arg, const DropReason *error)
{
	on_checked_step(arg, error, compare_content);
}

static void
read_content(DatabaseStep *s)
{
	LOCKSTEP_POINT(DATABASE_CHECKED);
	dbcheck_fingerprint(s->check, on_content, s);
}

static void
on_check(void *arg, const DropReason *error)
{
	on_checked_step(arg, error, read_content);
}

static void
check(DatabaseStep *s)
{
	s->check = dbcheck_open(s->node, s->name, true, false, on_check, s);
}

static void
on_created(void *arg, const PGresult *r)
{
	if (!succeeded(arg, r))
		return;
	LOCKSTEP_POINT(DATABASE_CREATED);
	check(arg);
}

static void
create(DatabaseStep *s)
{
	char	   *sql = xasprintf("%s OID = %" PRIu32, s->command, database_new_oid(s->number));

	pgclient_query(s->client, sql, 0, NULL, on_created, s);
	free(sql);
}

static void
on_dropped(void *arg, const PGresult *r)
{
	if (!succeeded(arg, r))
		return;
	LOCKSTEP_POINT(DATABASE_DROPPED);
	if (((DatabaseStep *) arg)->command != NULL)
		create(arg);			/* it was in its place */
	else
		end(arg, NULL);
}

static void
drop_now(DatabaseStep *s)
{
	Buffer		command = {0};

	if (s->is_template)
	{
		buffer_append(&command, "ALTER DATABASE ", 15);
		append_quoted_name(&command, s->name);
		buffer_append(&command, " IS_TEMPLATE false", 19);	/* and NUL */
		pgclient_query(s->client, (const char *) command.data, 0, NULL, NULL, NULL);
		command.len = 0;
	}
	buffer_append(&command, "DROP DATABASE ", 14);
	append_quoted_name(&command, s->name);
	buffer_append(&command, " WITH (FORCE)", 14);	/* and NUL */
	pgclient_query(s->client, (const char *) command.data, 0, NULL, on_dropped, s);
	buffer_free(&command);
}

/* ---------- the progress of one that is dropped */

static void
on_kept(void *arg, const PGresult *r)
{
	if (!succeeded(arg, r))
		return;
	pgclient_close_at(&((DatabaseStep *) arg)->inner);
	LOCKSTEP_POINT(DATABASE_KEPT);
	drop_now(arg);
}

static void
open_inner(DatabaseStep *s, const char *database, PgConnected connected)
{
	s->inner = pgclient_open(s->node->config, database, "lockstep control", pgclient_control_options, node_stall_timeout(),
							 connected, s);
}

/* false: the step has failed. */
static bool
is_inside(DatabaseStep *s, const char *error)
{
	char		text[300];

	if (error == NULL)
		return true;
	snprintf(text, sizeof(text), "could not connect: %s", error);
	s->inner = NULL;			/* closes itself */
	end(s, text);
	return false;
}

static void
on_keeper_connected(void *arg, const char *error)
{
	DatabaseStep *s = arg;

	if (is_inside(s, error))
		progress_keep(s->inner, s->progress, s->chain, on_kept, s);
}

static void
on_progress(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	const char *database = progress_keeper(s->node, s->name);

	if (!progress_has_no_extension(r) && !succeeded(s, r))	/* it may not be
															 * complete */
		return;
	pgclient_close_at(&s->inner);
	if (PQntuples(r) == 0 || database == NULL)
	{
		drop_now(s);
		return;
	}
	free(s->progress);
	free(s->chain);
	s->progress = xstrdup(PQgetvalue(r, 0, 0));
	s->chain = PQgetisnull(r, 0, 1) ? NULL : xstrdup(PQgetvalue(r, 0, 1));
	open_inner(s, database, on_keeper_connected);
}

static void
on_inside(void *arg, const char *error)
{
	DatabaseStep *s = arg;

	if (is_inside(s, error))
		progress_ask(s->inner, on_progress, s);
}

static void
drop(DatabaseStep *s)
{
	if (s->is_invalid || s->taken_back || progress_keeper(s->node, s->name) == NULL)
		drop_now(s);
	else
		open_inner(s, s->name, on_inside);
}

/* ---------- make: what is there already */

/* Of a command that failed, or of a database that was dropped, and a crash came between. */
static bool
is_left_over(const PGresult *r, int i)
{
	uint64_t	number = number_of_row(r, i);

	return !has_no_number(r, i) &&
		(database_event_find(DATABASE_REMOVED, number) != NULL || database_event_find(DATABASE_CREATED, number) == NULL);
}

/* Has the attempt that created it come to its end? */
static void
on_looked_inside(void *arg, const DropReason *error)
{
	DatabaseStep *s = arg;

	if (error == NULL && dbcheck_has_cluster(s->check))
	{
		enter_generation(s);
		return;
	}
	dbcheck_free(s->check);
	s->check = NULL;
	drop(s);
}

static void
look_inside(DatabaseStep *s)
{
	s->check = dbcheck_open(s->node, s->name, false, false, on_looked_inside, s);
}

static void
on_looked_before(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	char		text[160];
	int			meant;
	int			named;

	if (!succeeded(s, r))
		return;
	meant = row_of_meant(s, r);
	named = row_of_name(r, s->name);
	if (meant >= 0)
	{
		note_row(s, r, meant);
		look_inside(s);
	}
	else if (named < 0)
		create(s);
	else if (is_left_over(r, named))
	{
		note_row(s, r, named);
		drop(s);
	}
	else
	{
		snprintf(s->sqlstate, sizeof(s->sqlstate), "42P04");
		snprintf(text, sizeof(text), "it has a database \"%s\" of its own, which is not the cluster's", s->name);
		end(s, text);
	}
}

char *
database_no_room(const char *left)
{
	int			wanted = node_config->apply_connections + node_config->reserved_connections + OTHER_CONNECTIONS;

	return atoi(left) >= wanted ? NULL :
		xasprintf("the replicator needs %d connections for a database, of max_connections %s are left", wanted, left);
}

static void
on_room(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	char	   *error;

	if (!succeeded(s, r))
		return;
	error = database_no_room(PQgetvalue(r, 0, 0));
	if (error == NULL)
	{
		look(s, on_looked_before);
		return;
	}
	snprintf(s->sqlstate, sizeof(s->sqlstate), "53300");
	end(s, error);
	free(error);
}

static void
on_connected_to_make(void *arg, const char *error)
{
	DatabaseStep *s = arg;

	if (is_connected(s, error))
		pgclient_query(s->client, "SELECT " DATABASE_ROOM, 0, NULL, on_room, s);
}

DatabaseStep *
database_make(Node *n, uint64_t number, const char *name, const char *command, const char *expected,
			  DatabaseStepDone done, void *arg)
{
	DatabaseStep *s = begin(n, number, name, done, arg);

	s->command = xstrdup(command);
	s->expected = expected != NULL ? xstrdup(expected) : NULL;
	connect_beside(s, on_connected_to_make);
	return s;
}

/* ---------- remove and rename: first, nobody of ours is in it */

static void on_connected_to_remove(void *arg, const char *error);
static void on_looked_after(void *arg, const PGresult *r);
static void on_connected_to_rename(void *arg, const char *error);

static bool
has_pool(const Node *n, const char *name)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		if (strcmp(p->database, name) == 0)
			return true;
	}
	return false;
}

static void
wait_for_closed(void *arg)
{
	DatabaseStep *s = arg;
	Node	   *n = s->node;

	s->timer = NULL;
	if (has_pool(n, s->name) || strcmp(n->control_database, s->name) == 0 || n->applied < s->seq)
		s->timer = loop_after(POLL_MS, wait_for_closed, s);
	else if (s->client != NULL)
		look(s, on_looked_after);
	else
		connect_beside(s, s->new_name != NULL ? on_connected_to_rename : on_connected_to_remove);
}

/* The connection that has looked for it may be in it, too, but not the one that has made it. */
static void
close_connections(DatabaseStep *s)
{
	Pool	   *p = pool_find(s->node, s->name);

	if (!s->taken_back)
		pgclient_close_at(&s->client);
	control_leave_database(s->node, s->name);
	if (p != NULL)
		pool_close(p);
	s->timer = loop_after(0, wait_for_closed, s);
}

/* ---------- remove */

/* One without the cluster's identity is somebody's who has made it anew. */
static void
on_looked_whose(void *arg, const DropReason *error)
{
	DatabaseStep *s = arg;
	bool		ours = error == NULL && dbcheck_has_cluster(s->check);

	if (error != NULL && error->cause != DROP_NO_EXTENSION)
	{
		end(s, error->text);
		return;
	}
	dbcheck_free(s->check);
	s->check = NULL;
	if (ours)
		drop(s);
	else
		end(s, NULL);
}

static void
on_looked_after(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	int			meant;

	if (!succeeded(s, r))
		return;
	meant = row_of_meant(s, r);
	if (meant < 0)
	{
		end(s, NULL);
		return;
	}
	note_row(s, r, meant);
	if (s->number != 0 || s->is_invalid)
		drop(s);
	else
		s->check = dbcheck_open(s->node, s->name, false, false, on_looked_whose, s);
}

static void
on_connected_to_remove(void *arg, const char *error)
{
	if (is_connected(arg, error))
		look(arg, on_looked_after);
}

static void
on_looked_to_remove(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	int			meant;

	if (!succeeded(s, r))
		return;
	meant = row_of_meant(s, r);
	if (meant >= 0)
		note_row(s, r, meant);
	if (meant >= 0 || row_of_name(r, s->name) < 0)
		close_connections(s);
	else
		end(s, NULL);			/* it is gone, and another has its name */
}

static void
on_connected_to_look_to_remove(void *arg, const char *error)
{
	if (is_connected(arg, error))
		look(arg, on_looked_to_remove);
}

DatabaseStep *
database_remove(Node *n, uint64_t number, const char *name, uint64_t seq, DatabaseStepDone done, void *arg)
{
	DatabaseStep *s = begin(n, number, name, done, arg);

	s->seq = seq;
	connect_beside(s, on_connected_to_look_to_remove);
	return s;
}

void
database_take_back(DatabaseStep *s)
{
	free(s->command);
	s->command = NULL;
	s->taken_back = true;
	dbcheck_free(s->check);
	s->check = NULL;
	if (s->client != NULL)
		look(s, on_looked_to_remove);
	else
		connect_beside(s, on_connected_to_look_to_remove);
}

/* ---------- rename */

static void end_sessions(DatabaseStep *s);

static void
on_renamed(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

	/* somebody has connected meanwhile, or has a lock */
	if (sqlstate != NULL && (strcmp(sqlstate, "55006") == 0 || strcmp(sqlstate, "55P03") == 0) && ++s->tries < RENAME_TRIES)
	{
		end_sessions(s);
		return;
	}
	if (!succeeded(s, r))
		return;
	LOCKSTEP_POINT(DATABASE_RENAMED);
	note_name(s, s->new_name);
	end(s, NULL);
}

static void
on_sessions_ended(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	Buffer		command = {0};

	if (!succeeded(s, r))
		return;
	buffer_append(&command, "ALTER DATABASE ", 15);
	append_quoted_name(&command, s->name);
	buffer_append(&command, " RENAME TO ", 11);
	append_quoted_name(&command, s->new_name);
	buffer_append(&command, "", 1);
	pgclient_query(s->client, (const char *) command.data, 0, NULL, on_renamed, s);
	buffer_free(&command);
}

/* What is in the way of something decided has to give way: also a transaction elsewhere that names it. */
static void
end_sessions(DatabaseStep *s)
{
	const char *params[] = {s->name, s->tries > 0 ? "t" : "f"};

	pgclient_query(s->client, "SET synchronous_commit = local", 0, NULL, NULL, NULL);
	pgclient_query(s->client, "SET lock_timeout = '2s'", 0, NULL, NULL, NULL);
	pgclient_query(s->client, "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = $1 UNION "
				   "SELECT pid FROM pg_locks WHERE $2 AND granted AND ((locktype = 'object' AND classid = 'pg_database'::regclass "
				   "AND objid = (SELECT oid FROM pg_database WHERE datname = $1)) OR (locktype = 'relation' AND mode = 'RowExclusiveLock' "
				   "AND relation = 'pg_database'::regclass))) AS a WHERE pid <> pg_backend_pid()",
				   2, params, on_sessions_ended, s);
}

/* Has a later event with the same seq given it that name?  NULL: has one dropped it? */
static bool
is_past(const DatabaseStep *s, const char *name)
{
	for (const DatabaseEvent *e = database_event_next(s->order, s->seq); e != NULL && e->seq == s->seq;
		 e = database_event_next(e->order, s->seq))
	{
		if (e->number == s->number &&
			(name == NULL ? e->kind == DATABASE_REMOVED : e->kind == DATABASE_RENAMED && strcmp(e->name, name) == 0))
			return true;
	}
	return false;
}

static void
fail_to_rename(DatabaseStep *s, const char *sqlstate, const char *format, const char *name)
{
	char		text[200];

	snprintf(s->sqlstate, sizeof(s->sqlstate), "%s", sqlstate);
	snprintf(text, sizeof(text), format, name);
	end(s, text);
}

static void
on_looked_for_old(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	int			meant;
	bool		taken;
	const char *name;

	if (!succeeded(s, r))
		return;
	meant = row_of_meant(s, r);
	taken = row_of_name(r, s->new_name) >= 0;
	name = meant >= 0 ? PQgetvalue(r, meant, 1) : NULL;
	if (name != NULL && strcmp(name, s->name) == 0 && !taken)
		end_sessions(s);
	else if (name != NULL && (strcmp(name, s->new_name) == 0 || is_past(s, name)))
	{
		note_name(s, name);
		end(s, NULL);
	}
	else if (name == NULL && is_past(s, NULL))
	{
		free(s->name);
		s->name = NULL;
		end(s, NULL);
	}
	else if (name != NULL && strcmp(name, s->name) == 0)
		fail_to_rename(s, "42P04", "it has a database \"%s\" of its own, which is not the cluster's", s->new_name);
	else if (name != NULL)
		fail_to_rename(s, "55000", "it has the database by the name \"%s\"", name);
	else
		fail_to_rename(s, "3D000", "it has no database \"%s\"", s->name);
}

static void
on_connected_to_rename(void *arg, const char *error)
{
	if (is_connected(arg, error))
		look(arg, on_looked_for_old);
}

static void
on_looked_to_rename(void *arg, const PGresult *r)
{
	DatabaseStep *s = arg;
	int			meant = r != NULL && PQresultStatus(r) == PGRES_TUPLES_OK ? row_of_meant(s, r) : -1;

	if (meant >= 0 && strcmp(PQgetvalue(r, meant, 1), s->name) == 0)
		close_connections(s);
	else
		on_looked_for_old(s, r);	/* it is not called that: there is nothing
									 * to be done, or the step fails */
}

static void
on_connected_to_look_to_rename(void *arg, const char *error)
{
	if (is_connected(arg, error))
		look(arg, on_looked_to_rename);
}

DatabaseStep *
database_rename(Node *n, const DatabaseEvent *e, DatabaseStepDone done, void *arg)
{
	DatabaseStep *s = begin(n, e->number, e->command, done, arg);

	s->new_name = xstrdup(e->name);
	s->order = e->order;
	s->seq = e->seq;
	connect_beside(s, on_connected_to_look_to_rename);
	return s;
}
