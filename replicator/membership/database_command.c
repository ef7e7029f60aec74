/*
 * database_command.c
 *	  CREATE, DROP and ALTER DATABASE RENAME of a session, on all nodes that are online.
 *
 * CREATE	journal: PLANNED -> each online node makes it (database_step.c), those that come online
 *			meanwhile, too -> the contents are compared -> apply connections -> journal: CREATED.
 *			A failure anywhere: it is dropped where it was made, and the command fails.
 * DROP		look for sessions on all online nodes -> no new ones, and what is decided is applied
 *			-> journal: REMOVED -> each online node drops it.  A node that can't goes out.
 * RENAME	the same up to journal: RENAMED -> each online node renames it, and has apply connections
 *			to the new name -> sessions are admitted again
 *
 * A node that is not online does the same when it comes to that place in the journal (catchup.c).
 * What is PLANNED and was never CREATED, as the replicator has ended in between, is dropped when
 * the node is attached.
 *
 * One command runs at a time, the others wait.
 */
#include "database_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database_step.h"
#include "dbcheck.h"
#include "log.h"
#include "metadata.h"
#include "points.h"
#include "sequencer.h"

#define POLL_MS 10
#define LOOK_MS 100
#define LEFT_HINT "It is dropped when the node is attached again."
#define LOOK_PATIENCE_MS 5000	/* as PostgreSQL has for sessions that are
								 * ending */

typedef struct Command
{
	struct Command *next;
	LsDatabaseKind kind;
	char	   *name;
	char	   *text;			/* CREATE DATABASE, or the new name; NULL:
								 * DROP */
	bool		force;
	bool		superuser;
	char	   *role;			/* who ends sessions */
	DatabaseCommandDone done;
	void	   *arg;

	uint64_t	number;
	uint64_t	nodes;			/* that work on it, or have */
	uint64_t	pending;		/* of them, those that are not ready */
	DatabaseStep *steps[CONFIG_MAX_NODES];
	PgClient   *clients[CONFIG_MAX_NODES];
	Timer	   *timer;
	bool		closing;		/* see database_command_closes() */
	bool		deciding;		/* its record is not durable yet */
	bool		taking_back;
	uint64_t	left_on;		/* nodes where it could not be dropped */
	bool		decided;
	uint64_t	seq;			/* to be applied before the decision; 0: not
								 * known yet */
	int			waited_ms;
	char	   *busy;			/* who uses it; NULL: nobody */
	bool		busy_for_good;	/* waiting does not help */
	bool		forbidden;		/* FORCE may not end it */

	char		sqlstate[6];
	char	   *message;		/* NULL: no error */
	char	   *detail;
	char	   *hint;
} Command;

static Command *first;			/* the one that runs */

static void start_next(void);
static void advance(void *arg);
static void look(void *arg);

/* ---------- ends */

static const char *
command_name(const Command *c)
{
	return c->kind == LS_DATABASE_CREATE ? "CREATE DATABASE" : c->kind == LS_DATABASE_DROP ? "DROP DATABASE" :
		"ALTER DATABASE RENAME";
}

static const char *
verb(const Command *c)
{
	return c->kind == LS_DATABASE_CREATE ? "create" : c->kind == LS_DATABASE_DROP ? "drop" : "rename";
}

static uint64_t
bit(int node)
{
	return UINT64_C(1) << node;
}

static void
command_free(Command *c)
{
	loop_cancel(c->timer);
	for (int i = 0; i < CONFIG_MAX_NODES; i++)
	{
		database_step_free(c->steps[i]);
		pgclient_close(c->clients[i]);
	}
	free(c->busy);
	free(c->message);
	free(c->detail);
	free(c->hint);
	free(c->name);
	free(c->text);
	free(c->role);
	free(c);
}

static void
finish(Command *c)
{
	LsErrorFields error;

	memset(&error, 0, sizeof(error));
	error.sqlstate = ls_slice_of(c->message != NULL ? c->sqlstate : NULL);
	error.message = ls_slice_of(c->message);
	error.detail = ls_slice_of(c->detail);
	error.hint = ls_slice_of(c->hint);
	if (c->message != NULL)
		log_full(LOG_NOTICE, NULL, c->message, c->detail, NULL);
	else
		log_message(LOG_NOTICE, NULL, "%s: done: %s", command_name(c), c->name);
	first = c->next;
	database_job_runs = false;
	sequencer_databases_change(false);
	sequencer_databases_close(NULL, NULL);
	c->done(c->arg, c->message == NULL, &error);
	command_free(c);
	start_next();
}

/* The first error counts. */
static void
note_error(Command *c, const char *sqlstate, char *message, char *detail, const char *hint)
{
	if (c->message != NULL)
	{
		free(message);
		free(detail);
		return;
	}
	snprintf(c->sqlstate, sizeof(c->sqlstate), "%s", sqlstate);
	c->message = message;
	c->detail = detail;
	c->hint = hint != NULL ? xstrdup(hint) : NULL;
}

static void
note_node_error(Command *c, const Node *n, const char *sqlstate, const char *error)
{
	note_error(c, sqlstate[0] != '\0' ? sqlstate : "58000",
			   xasprintf("could not %s database \"%s\" on node \"%s\"", verb(c), c->name, n->config->name),
			   xstrdup(error), c->kind == LS_DATABASE_CREATE ? "Nothing is left of it on any node." : NULL);
}

/* ---------- steps on nodes */

static Node *
node_of_step(Command *c, DatabaseStep *const *slot)
{
	return node_get((int) (slot - c->steps));
}

static void
note_ready(Command *c, const Node *n)
{
	c->pending &= ~bit(n->index);
	if (c->timer == NULL)
		c->timer = loop_after(0, advance, c);
}

static void
note_left(Command *c, const Node *n, const char *error)
{
	c->left_on |= bit(n->index);
	if (c->waited_ms < LOOK_PATIENCE_MS)
		return;					/* it is tried again */
	log_full(LOG_WARNING, n->config->name, "could not drop a database that was to be created", error, LEFT_HINT);
	free(c->hint);
	c->hint = xstrdup("It could not be dropped where it had been created. " LEFT_HINT);
}

static void
on_step(void *arg, const char *error)
{
	Command    *c = first;
	DatabaseStep **slot = arg;
	Node	   *n = node_of_step(c, slot);

	if (error != NULL && c->decided)
	{
		/*
		 * it is tried again when the node comes back; a later call frees the
		 * step
		 */
		node_out(n, DROP_DATABASE_STEP, FACTS(.database = c->name,.what = verb(c),.error = error));
		return;
	}
	if (error != NULL && c->taking_back)
		note_left(c, n, error);
	else if (error != NULL)
		note_node_error(c, n, database_step_sqlstate(*slot), error);
	note_ready(c, n);
}

static DatabaseStep *
begin_step(Command *c, Node *n)
{
	DatabaseStep **slot = &c->steps[n->index];

	switch (c->kind)
	{
		case LS_DATABASE_CREATE:
			return database_make(n, c->number, c->name, c->text, NULL, on_step, slot);
		case LS_DATABASE_DROP:
			return database_remove(n, c->number, c->name, c->seq, on_step, slot);
		case LS_DATABASE_RENAME:
			return database_rename(n, database_event_last_renaming(c->number), on_step, slot);
	}
	return NULL;
}

/* On each online node that has not begun. */
static bool
begin_steps(Command *c)
{
	bool		any = false;

	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		if (n->state != NODE_ONLINE || (c->nodes & bit(i)) != 0)
			continue;
		any = true;
		c->nodes |= bit(i);
		c->pending |= bit(i);
		c->steps[i] = begin_step(c, n);
	}
	return any;
}

void
database_command_node_gone(const Node *n)
{
	Command    *c = first;

	if (c == NULL || (c->nodes & bit(n->index)) == 0)
		return;
	database_step_free(c->steps[n->index]);
	c->steps[n->index] = NULL;
	pgclient_close_at(&c->clients[n->index]);
	c->nodes &= ~bit(n->index);
	if (c->kind == LS_DATABASE_CREATE && !c->taking_back && !c->deciding)
		note_error(c, "57P03", xasprintf("could not create database \"%s\", as node \"%s\" is not online any more", c->name,
										 n->config->name), xstrdup(n->reason), "Try again.");
	note_ready(c, n);
}

/* ---------- CREATE */

static void
take_back(Command *c, uint64_t nodes)
{
	c->taking_back = true;
	c->left_on = 0;
	for (int i = 0; i < nodes_count(); i++)
	{
		Pool	   *p = pool_find(node_get(i), c->name);

		if ((c->nodes & nodes & bit(i)) == 0)
			continue;
		if (p != NULL)
			pool_close(p);
		c->pending |= bit(i);
		database_take_back(c->steps[i]);
	}
}

/* A node whose connection was lost may have none left, as those of a new database have taken them. */
static void
take_back_again(void *arg)
{
	Command    *c = arg;

	c->timer = NULL;
	take_back(c, c->left_on);
	if (c->pending == 0)
		finish(c);
}

/* The content of the first node's; NULL: no node has made it. */
static const char *
content(Command *c)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (c->steps[i] != NULL && database_step_fingerprint(c->steps[i]) != NULL)
			return database_step_fingerprint(c->steps[i]);
	}
	return NULL;
}

static void
compare_contents(Command *c)
{
	const char *standard = content(c);

	for (int i = 0; i < nodes_count(); i++)
	{
		const char *found = c->steps[i] != NULL ? database_step_fingerprint(c->steps[i]) : NULL;
		char	   *difference = found != NULL ? fingerprint_difference(standard, found) : NULL;

		if (difference == NULL)
			continue;
		note_error(c, "55000", xasprintf("could not create database \"%s\", as its template is not the same on all nodes", c->name),
				   xasprintf("On node \"%s\" it differs in %s.", node_name(i), difference),
				   "Make the templates equal, or use TEMPLATE template0.");
		free(difference);
		return;
	}
}

/* Apply connections; true: all are ready, or one that is on trial has an error. */
static bool
has_pools(Command *c, const char *name)
{
	bool		ready = true;

	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		if ((c->nodes & bit(i)) == 0)
			continue;
		if (pool_find(n, name) == NULL)
			(void) (c->decided ? pool_open(n, name) : pool_try(n, name));
		if (pool_trial_error(n, name) != NULL)
		{
			note_node_error(c, n, "", pool_trial_error(n, name));
			return true;
		}
		ready = ready && pools_ready(n);
	}
	return ready;
}

static void
on_decided(void *arg)
{
	Command    *c = arg;

	LOCKSTEP_POINT(DATABASE_DECIDED);
	c->deciding = false;
	nodes_look_again();			/* those that catch up have waited for it */
	if (c->kind == LS_DATABASE_CREATE)
	{
		finish(c);
		return;
	}
	c->decided = true;
	c->closing = c->kind == LS_DATABASE_RENAME;
	(void) begin_steps(c);
	advance(c);
}

static void
journal_event(Command *c, DatabaseEventKind kind, void (*done) (void *arg))
{
	char		ordinal[24];
	char	   *text;

	snprintf(ordinal, sizeof(ordinal), "%" PRIu64, database_event_next_renaming(c->number));
	text = kind == DATABASE_RENAMED ? database_event_text(kind, c->number, c->text, c->name, ordinal) :
		database_event_text(kind, c->number, c->name, c->kind == LS_DATABASE_CREATE ? c->text : "",
							kind == DATABASE_CREATED ? content(c) : "");
	sequencer_journal_metadata(RECORD_DATABASE_EVENT, text, done, c);
	free(text);
}

static void
advance_create(Command *c)
{
	if (c->taking_back && c->left_on != 0 && c->waited_ms < LOOK_PATIENCE_MS)
	{
		c->waited_ms += LOOK_MS;
		c->timer = loop_after(LOOK_MS, take_back_again, c);
		return;
	}
	if (c->taking_back)
	{
		finish(c);
		return;
	}
	if (c->message == NULL && begin_steps(c))
		return;
	if (c->message == NULL && c->nodes == 0)
		note_error(c, "57P03", xasprintf("could not create database \"%s\", as no node is online", c->name), NULL, NULL);
	if (c->message == NULL)
		compare_contents(c);
	if (c->message == NULL && !has_pools(c, c->name))
	{
		c->timer = loop_after(POLL_MS, advance, c);
		return;
	}
	if (c->message != NULL)
	{
		take_back(c, c->nodes);
		if (c->pending == 0)
			finish(c);
		return;
	}
	LOCKSTEP_POINT(DATABASE_READY);
	for (int i = 0; i < nodes_count(); i++)
		pool_passed(node_get(i), c->name);
	c->deciding = true;
	journal_event(c, DATABASE_CREATED, on_decided);
}

/* ---------- DROP, RENAME */

/*
 * $2: any session is in the way, none, or those that role $4 may not end: PostgreSQL's rule for
 * DROP DATABASE ... WITH (FORCE).  A role that the node does not have may end none.
 */
static const char users_query[] =
"SELECT coalesce((SELECT format('process %s of role \"%s\"', a.pid, coalesce(a.usename, '?')) || "
"CASE WHEN r.rolsuper THEN ' (a superuser)' ELSE '' END FROM pg_stat_activity a LEFT JOIN pg_roles r ON r.oid = a.usesysid "
"WHERE a.datname = $1 AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker' "
"AND NOT coalesce(r.rolsuper AND a.application_name IN ('lockstep control', 'lockstep apply'), false) "
"AND ($2 = 'any' OR ($2 = 'forbidden' AND a.usesysid IS NOT NULL AND (r.rolsuper OR NOT coalesce("
"(SELECT pg_has_role(me.oid, a.usesysid, 'USAGE') OR pg_has_role(me.oid, 'pg_signal_backend', 'USAGE') "
"FROM pg_roles me WHERE me.rolname = $4), false)))) ORDER BY a.pid LIMIT 1), ''), "
"coalesce((SELECT format('logical replication slot \"%s\"', min(slot_name)) FROM pg_replication_slots "
"WHERE database = $1 AND active HAVING count(*) > 0), "
"(SELECT format('subscription \"%s\"', min(subname)) FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid "
"WHERE d.datname = $1 AND $3 = '' HAVING count(*) > 0), "
"(SELECT format('prepared transaction \"%s\"', min(gid)) FROM pg_prepared_xacts WHERE database = $1 HAVING count(*) > 0), ''), "
"EXISTS (SELECT FROM pg_database WHERE datname = $3)";

static Node *
node_of_client(Command *c, PgClient *const *slot)
{
	return node_get((int) (slot - c->clients));
}

static void
note_busy(Command *c, const Node *n, const char *who, bool for_good)
{
	if (c->busy != NULL)
		return;
	c->busy = xasprintf("It is used by %s on node \"%s\".", who, n->config->name);
	c->busy_for_good = for_good;
}

static void
on_users(void *arg, const PGresult *r)
{
	Command    *c = first;
	PgClient  **slot = arg;
	Node	   *n = node_of_client(c, slot);

	if (r == NULL)
		note_node_error(c, n, "", "connection lost");
	else if (PQresultStatus(r) != PGRES_TUPLES_OK)
		note_node_error(c, n, "", pgclient_message(PQresultErrorMessage(r)));
	else if (PQgetvalue(r, 0, 2)[0] == 't')
		note_error(c, "42P04", xasprintf("database \"%s\" already exists", c->text),
				   xasprintf("It is on node \"%s\", and is not the cluster's.", n->config->name), NULL);
	else if (PQgetvalue(r, 0, 1)[0] != '\0')
		note_busy(c, n, PQgetvalue(r, 0, 1), true);
	else if (PQgetvalue(r, 0, 0)[0] != '\0')
	{
		if (c->busy == NULL)
			c->forbidden = c->force;	/* else another node's reason is told */
		note_busy(c, n, PQgetvalue(r, 0, 0), c->force);
	}
	pgclient_close_at(slot);
	note_ready(c, n);
}

static void
on_connected(void *arg, const char *error)
{
	Command    *c = first;
	PgClient  **slot = arg;
	const char *params[] = {c->name, !c->force ? "any" : c->superuser ? "none" : "forbidden",
	c->kind == LS_DATABASE_RENAME ? c->text : "", c->role != NULL ? c->role : ""};

	if (error == NULL)
		pgclient_query(*slot, users_query, 4, params, on_users, slot);
	else
	{
		*slot = NULL;			/* closes itself */
		note_node_error(c, node_of_client(c, slot), "", error);
		note_ready(c, node_of_client(c, slot));
	}
}

/* Who uses it, on any node that is online? */
static void
look(void *arg)
{
	Command    *c = arg;

	c->timer = NULL;
	free(c->busy);
	c->busy = NULL;
	c->forbidden = false;
	c->nodes = 0;
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		if (n->state != NODE_ONLINE)
			continue;
		c->nodes |= bit(i);
		c->pending |= bit(i);
		c->clients[i] = pgclient_open(n->config, control_another_database(n, c->name), "lockstep control",
									  pgclient_control_options, node_stall_timeout(), on_connected, &c->clients[i]);
		pgclient_limit(c->clients[i], node_stall_timeout());
	}
	if (c->pending == 0)
		note_ready(c, node_get(0));
}

/*
 * Everything in it is decided, and applied: nothing of it is left to come.  A transaction without a
 * session (sequence_positions.c) does not end with the sessions; no new one is made while it closes.
 */
static bool
is_drained(Command *c)
{
	if (sequencer_any_undecided(c->name))
	{
		c->seq = 0;
		return false;
	}
	if (c->seq == 0)
		c->seq = sequencer_last_decided();
	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *n = node_get(i);

		if (n->state == NODE_ONLINE && n->applied < c->seq)
			return false;
	}
	return sequencer_last_durable() >= c->seq;
}

static void
close_database(Command *c)
{
	c->closing = true;
	c->nodes = 0;
	sequencer_databases_close(c->name, c->kind == LS_DATABASE_RENAME ? c->text : NULL);
	to_sessions->end_of_database(c->name, "57P01", c->kind == LS_DATABASE_DROP ? "this database is being dropped" :
								 "this database is being renamed", NULL);
	c->seq = 0;
	c->timer = loop_after(0, advance, c);
}

/* RENAME: those that can't go on have gone out, and the others take its transactions by the new name. */
static void
advance_decided(Command *c)
{
	if (c->kind == LS_DATABASE_RENAME && !has_pools(c, c->text))
		c->timer = loop_after(POLL_MS, advance, c);
	else
		finish(c);
}

static void
advance_drop(Command *c)
{
	if (c->decided)
		advance_decided(c);
	else if (!c->closing && c->message == NULL && c->busy != NULL && !c->busy_for_good && c->waited_ms < LOOK_PATIENCE_MS)
	{
		c->waited_ms += LOOK_MS;
		c->timer = loop_after(LOOK_MS, look, c);
	}
	else if (!c->closing && c->message == NULL && c->busy != NULL)
	{
		note_error(c, c->forbidden ? "42501" : "55006",
				   xasprintf("database \"%s\" is being accessed by other users", c->name), xstrdup(c->busy),
				   c->forbidden ? "A superuser's session can be ended by a superuser only, another one by who has the privileges of its role or of pg_signal_backend." : NULL);
		finish(c);
	}
	else if (!c->closing && c->message != NULL)
		finish(c);
	else if (!c->closing)
		close_database(c);
	else if (!is_drained(c) || sequencer_databases_are_named())
		c->timer = loop_after(POLL_MS, advance, c);
	else
	{
		sequencer_databases_change(true);
		c->seq = sequencer_last_decided();
		c->deciding = true;
		journal_event(c, c->kind == LS_DATABASE_DROP ? DATABASE_REMOVED : DATABASE_RENAMED, on_decided);
	}
}

/* ---------- one after the other */

/* Something is ready, or it is time to look. */
static void
advance(void *arg)
{
	Command    *c = arg;

	loop_cancel(c->timer);
	c->timer = NULL;
	if (c->pending != 0 || c->deciding)
		return;
	if (c->kind == LS_DATABASE_CREATE)
		advance_create(c);
	else
		advance_drop(c);
}

static void
on_planned(void *arg)
{
	LOCKSTEP_POINT(DATABASE_PLANNED);
	((Command *) arg)->deciding = false;
	advance(arg);
}

static void
start_create(Command *c)
{
	if (metadata_has_database(c->name))
	{
		note_error(c, "42P04", xasprintf("database \"%s\" already exists", c->name), NULL, NULL);
		finish(c);
		return;
	}
	c->number = database_new_number();
	c->deciding = true;
	journal_event(c, DATABASE_PLANNED, on_planned);
}

static void
check_drop(Command *c)
{
	int			count;

	(void) metadata_databases(&count);
	if (count == 1)
		note_error(c, "0A000", xasprintf("cannot drop database \"%s\", the only one that is replicated", c->name),
				   xstrdup("Commands of databases that are not replicated run in it."),
				   "Create another one first, or use lockstepctl database drop.");
}

static void
check_rename(Command *c)
{
	if (c->number == 0)
		note_error(c, "0A000", xasprintf("cannot rename database \"%s\", which CREATE DATABASE has not made", c->name),
				   xstrdup("It came by lockstepctl database add or init. After a crash a node could not tell whether it has renamed it."),
				   "Restore a dump of it into a new database. Or, without clients: lockstepctl database drop, rename it on every node with lockstep.replicate = off, lockstepctl database add.");
	else if (strcmp(c->name, node_config->maintenance_database) == 0)
		note_error(c, "55000", xasprintf("cannot rename database \"%s\", to which the replicator connects", c->name), NULL,
				   "Set maintenance_database in replicator.conf to another one first.");
	else if (metadata_has_database(c->text))
		note_error(c, "42P04", xasprintf("database \"%s\" already exists", c->text), NULL, NULL);
}

static void
start_drop(Command *c)
{
	c->number = metadata_database_number(c->name);
	if (!metadata_has_database(c->name))
		note_error(c, "3D000", xasprintf("database \"%s\" is not replicated", c->name), NULL,
				   c->kind == LS_DATABASE_DROP ? "Set lockstep.replicate to off and drop it on the nodes that have it." :
				   "Set lockstep.replicate to off and rename it on the nodes that have it.");
	else if (c->kind == LS_DATABASE_DROP)
		check_drop(c);
	else
		check_rename(c);
	if (c->message != NULL)
		finish(c);
	else
		look(c);
}

static void
start_later(void *arg)
{
	first->timer = NULL;
	start_next();
}

static void
start_next(void)
{
	if (first == NULL)
		return;
	if (database_job_runs)
	{
		first->timer = loop_after(LOOK_MS, start_later, NULL);
		return;
	}
	database_job_runs = true;
	if (first->kind == LS_DATABASE_CREATE)
		start_create(first);
	else
		start_drop(first);
}

static void
queue(Command *c)
{
	Command   **end = &first;

	while (*end != NULL)
		end = &(*end)->next;
	*end = c;
	if (first == c)
		start_next();
}

static Command *
new_command(LsDatabaseKind kind, LsSlice name, DatabaseCommandDone done, void *arg)
{
	Command    *c = xcalloc(1, sizeof(Command));

	c->kind = kind;
	c->name = xstrndup(name.data, name.len);
	c->done = done;
	c->arg = arg;
	return c;
}

void
database_command_create(LsSlice name, LsSlice text, DatabaseCommandDone done, void *arg)
{
	Command    *c = new_command(LS_DATABASE_CREATE, name, done, arg);

	c->text = xstrndup(text.data, text.len);
	queue(c);
}

void
database_command_drop(LsSlice name, bool force, bool superuser, LsSlice role, DatabaseCommandDone done, void *arg)
{
	Command    *c = new_command(LS_DATABASE_DROP, name, done, arg);

	c->force = force;
	c->superuser = superuser;
	c->role = xstrndup(role.data, role.len);
	queue(c);
}

void
database_command_rename(LsSlice name, LsSlice new_name, DatabaseCommandDone done, void *arg)
{
	Command    *c = new_command(LS_DATABASE_RENAME, name, done, arg);

	c->text = xstrndup(new_name.data, new_name.len);
	queue(c);
}

const char *
database_command_closes(const char *name)
{
	if (first == NULL || !first->closing)
		return NULL;
	if (first->kind == LS_DATABASE_DROP)
		return strcmp(first->name, name) == 0 ? "dropped" : NULL;
	return strcmp(first->name, name) == 0 || strcmp(first->text, name) == 0 ? "renamed" : NULL;
}

bool
database_command_is_making(uint64_t number)
{
	return first != NULL && first->kind == LS_DATABASE_CREATE && first->number == number;
}

/* The last one of its kind is that of the command that runs, if there is one. */
bool
database_event_is_durable(const DatabaseEvent *e)
{
	if (first == NULL || !first->deciding || first->number != e->number)
		return true;
	if (first->kind == LS_DATABASE_RENAME)
		return e != database_event_last_renaming(e->number);
	return strcmp(first->name, e->name) != 0 ||
		(first->kind == LS_DATABASE_CREATE ? DATABASE_CREATED : DATABASE_REMOVED) != e->kind;
}
