/*
 * attach.c
 *	  Attaching a node: checks, then connections, then catch-up.
 *
 *	 0. which databases it has, if CREATE DATABASE was ever used	(attach_databases.c)
 *	 1. each database: server, extension, identity			(dbcheck.c)
 *	 2. the node's position: within the journal, same history	(history.c)
 *		no other replicator is using the node				(takeover.c)
 *	 3. content, if the node has applied nothing yet: equal to that of the first node
 *		that was ever attached
 *	 4. our generation is entered in each database, durably: from here on the node
 *		refuses an older replicator
 *	 5. apply connections are opened
 *	 6. the identity is written where there is none; the turn is opened, when what an
 *		older replicator had ordered is over; the position is checked again
 *	 7. leases of sequences that it got from any replicator are recorded
 *
 * Nothing is changed on the node before step 4.  Any failure calls node_out(), which
 * logs the reason; the node is tried again later.  The first node's content becomes
 * the standard (a metadata record) in step 6 at the earliest, in the same call that
 * finds that there is none yet.
 *
 * No node gets a lease before the leases of all others are known: if the journal may be a
 * copy, all nodes are heard before the first goes online.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach_databases.h"
#include "journal.h"
#include "log.h"
#include "metadata.h"
#include "points.h"
#include "sequencer.h"

struct Attach
{
	Node	   *node;
	PgClient   *client;			/* that asks which databases it has */
	Candidates	databases;
	struct LeftOver *left_over;
	int			at;
	uint64_t	progress;
	uint64_t	chain;
	uint64_t	events_from;	/* of database_event.h: before that seq they
								 * are done */
	uint64_t	applied;		/* when the turn was opened */
	bool		opening_pools;
	bool		waiting;		/* for a higher generation */
	const char *where;			/* for people */
};

static void check_next(struct Attach *a);
static void read_next_content(struct Attach *a);
static void enter_next_generation(struct Attach *a);
static void set_next_cluster(struct Attach *a);
static void report_next_leases(struct Attach *a);

static DbCheck *
check_of(const struct Attach *a, int i)
{
	return a->databases.all[i].check;
}

/* What the cluster calls it, which the node may have yet to rename. */
static const char *
name_of(const struct Attach *a, int i)
{
	const char *name = metadata_name_of(a->databases.all[i].number);

	return name != NULL ? name : a->databases.all[i].name;
}

static void
note_left_over(struct Attach *a, const Candidate *c)
{
	struct LeftOver *new = xcalloc(1, sizeof(struct LeftOver));

	new->next = a->left_over;
	new->number = c->number;
	new->name = xstrdup(c->name);
	a->left_over = new;
}

static void
free_left_over(struct Attach *a)
{
	struct LeftOver *gone = a->left_over;

	a->left_over = gone->next;
	free(gone->name);
	free(gone);
}

void
attach_cancel(Node *n)
{
	struct Attach *a = n->attach;

	if (a == NULL)
		return;
	n->attach = NULL;
	pgclient_close(a->client);
	candidates_free(&a->databases);
	while (a->left_over != NULL)
		free_left_over(a);
	free(a);
}

const char *
attach_where(const Node *n)
{
	return n->attach != NULL ? n->attach->where : "";
}

/* ---------- 6. identity and turn, 7. leases */

static void
attached(struct Attach *a, uint64_t applied)
{
	Node	   *n = a->node;
	DbCheck    *first = check_of(a, 0);
	char	   *database = xstrdup(dbcheck_database(first));

	if (n->claimed_boot != 0 && n->boot == dbcheck_boot(first))
	{
		n->impostor_boot = n->claimed_boot;
		n->impostor_us = loop_now_us();
		log_full(LOG_WARNING, n->config->name, "another server says that it is this node",
				 "Its backends are refused.", "Set lockstep.node_name there: a clone needs a name of its own.");
	}
	n->claimed_boot = 0;
	if (n->boot != dbcheck_boot(first))
		sequencer_node_restarted(n->config->name);
	n->boot = dbcheck_boot(first);
	n->applied = applied;
	apply_trouble_passed(n, applied);
	control_adopt(n, dbcheck_take_client(first), database);
	free(database);
	n->attach = NULL;
	history_heard(n);
	node_move(n, NODE_CATCHUP);
	catchup_begin(n, a->events_from);
	for (const struct LeftOver *l = a->left_over; l != NULL; l = l->next)
		catchup_left_over(n, l->number, l->name);
	n->attach = a;
	attach_cancel(n);
}

/*
 * Before any node is given a lease that another one has: with a journal that may be
 * a copy all are heard before the first goes online.
 */
static void
on_leases_reported(void *arg, const DropReason *error)
{
	struct Attach *a = arg;

	a->at++;
	if (error != NULL)
		node_out_for(a->node, error);
	else
		report_next_leases(a);
}

static void
report_next_leases(struct Attach *a)
{
	a->where = "asking for its leases of sequences";
	if (a->at == a->databases.n)
		attached(a, a->applied);
	else
		dbcheck_report_leases(check_of(a, a->at), name_of(a, a->at), a->applied, on_leases_reported, a);
}

static void
on_turn_open(void *arg, const PGresult *r)
{
	struct Attach *a = arg;
	uint64_t	applied;
	uint64_t	chain;

	if (a->node->generation != 0)
		generation_check_result(a->node, r);
	if (r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK)
	{
		node_out(a->node, DROP_TURN_NOT_OPENED,
				 FACTS(.error = r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost"));
		return;
	}
	LOCKSTEP_POINT(TURN_OPENED);
	applied = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
	chain = (uint64_t) strtoll(PQgetvalue(r, 0, 1), NULL, 10);

	/* its backends may have gone on since step 2, with verdicts from before */
	if (!history_admits(a->node, applied, applied == a->progress ? 0 : chain))
		return;
	a->applied = applied;
	a->at = 0;
	report_next_leases(a);
}

static void
open_turn(struct Attach *a)
{
	char		progress[24];
	char		chain[24];
	const char *params[] = {progress, chain};
	DbCheck    *first = check_of(a, 0);

	a->where = "opening its turn";
	snprintf(progress, sizeof(progress), "%" PRIu64, a->progress);
	snprintf(chain, sizeof(chain), "%" PRId64, (int64_t) a->chain);
	if (dbcheck_knows_chains(first))
		pgclient_query(dbcheck_client(first), "SELECT seq, chain FROM lockstep.turn_open($1, $2)", 2, params,
					   on_turn_open, a);
	else
		pgclient_query(dbcheck_client(first), "SELECT lockstep.turn_open($1), 0", 1, params, on_turn_open, a);
}

static void
on_cluster_set(void *arg, const DropReason *error)
{
	struct Attach *a = arg;

	if (error != NULL)
		node_out_for(a->node, error);
	else
		set_next_cluster(a);
}

static void
set_next_cluster(struct Attach *a)
{
	while (a->at < a->databases.n)
	{
		DbCheck    *d = check_of(a, a->at++);

		if (!dbcheck_has_cluster(d))
		{
			dbcheck_set_cluster(d, on_cluster_set, a);
			return;
		}
	}
	open_turn(a);
}

/* The content is that of the others, or becomes the standard.  false: it is out. */
static bool
settle_content(struct Attach *a)
{
	for (int i = 0; i < a->databases.n; i++)
	{
		DbCheck    *d = check_of(a, i);
		const char *standard = metadata_fingerprint(name_of(a, i));
		const char *found = dbcheck_found(d);
		char	   *text;

		if (found == NULL)
			continue;
		if (standard != NULL)
		{
			char	   *difference = fingerprint_difference(standard, found);

			if (difference == NULL)
				continue;
			node_out(a->node, DROP_CONTENT_DIFFERS, FACTS(.database = dbcheck_database(d),.error = difference));
			free(difference);
			return false;
		}
		if (a->progress > 0)
		{
			/* the journal is an adopted one, which has no beginning */
			node_out(a->node, DROP_CONTENT_UNKNOWN, FACTS(.database = dbcheck_database(d)));
			return false;
		}
		text = metadata_fingerprint_text(name_of(a, i), found);
		sequencer_journal_metadata(RECORD_FINGERPRINT, text, NULL, NULL);
		free(text);
	}
	return true;
}

/* ---------- 5. apply connections */

void
attach_pool_ready(Node *n)
{
	struct Attach *a = n->attach;

	if (a == NULL || !a->opening_pools || !pools_ready(n))
		return;
	a->opening_pools = false;
	if (!settle_content(a))
		return;
	a->at = 0;
	set_next_cluster(a);
}

static void
on_idle_client_lost(void *arg, const char *error)
{
	struct Attach *a = arg;

	node_out(a->node, DROP_CONTROL_LOST, FACTS(.error = error));
}

static void
open_pools(struct Attach *a)
{
	a->opening_pools = true;
	a->where = "opening apply connections";
	for (int i = 0; i < a->databases.n; i++)
	{
		if (dbcheck_client(check_of(a, i)) == NULL)
		{
			node_out(a->node, DROP_ATTACH_LOST, FACTS(.database = dbcheck_database(check_of(a, i)),.what = a->where));
			return;
		}
		pgclient_on_lost(dbcheck_client(check_of(a, i)), on_idle_client_lost, a);
	}
	for (int i = 0; i < a->databases.n; i++)
		pool_open(a->node, dbcheck_database(check_of(a, i)));
}

/* ---------- 4. generation */

static void
on_entered(void *arg, const DropReason *error)
{
	struct Attach *a = arg;

	if (error != NULL)
		node_out_for(a->node, error);
	else
		enter_next_generation(a);
}

static void
enter_next_generation(struct Attach *a)
{
	a->where = "entering the replicator's generation";
	if (a->node->no_generations || a->at == a->databases.n)
		open_pools(a);
	else
		dbcheck_enter_generation(check_of(a, a->at++), on_entered, a);
}

/* With SQL objects of an earlier version in any of its databases it knows of none. */
static void
begin_generation(struct Attach *a)
{
	Node	   *n = a->node;
	const char *old = NULL;

	for (int i = 0; i < a->databases.n; i++)
	{
		if (!dbcheck_knows_generations(check_of(a, i)))
			old = dbcheck_database(check_of(a, i));
	}
	if (old != NULL && !n->no_generations)
	{
		char		detail[160];

		snprintf(detail, sizeof(detail), "Database \"%s\" has SQL objects of an earlier version of the extension.", old);
		log_full(LOG_WARNING, n->config->name, "this node does not know an outdated replicator from the current one", detail,
				 "ALTER EXTENSION lockstep UPDATE in it, then lockstepctl drop and lockstepctl attach.");
	}
	n->no_generations = old != NULL;
	n->generation = old != NULL ? 0 : generation_number();
	a->at = 0;
	enter_next_generation(a);
}

/* ---------- 3. content */

/* The last seq when one of that name was dropped: another one than this, which has a number. */
static uint64_t
dropped_at(const struct Attach *a, int i)
{
	return a->databases.all[i].number != 0 ? 0 : metadata_dropped_at(a->databases.all[i].name);
}

static void
on_content(void *arg, const DropReason *error)
{
	struct Attach *a = arg;

	if (error != NULL)
		node_out_for(a->node, error);
	else
		read_next_content(a);
}

static void
read_next_content(struct Attach *a)
{
	a->where = "comparing its content";
	while (a->at < a->databases.n)
	{
		DbCheck    *d = check_of(a, a->at++);

		/*
		 * with the last alternative it may be one of the same name that was
		 * dropped
		 */
		if (a->progress == 0 || !dbcheck_has_cluster(d) ||
			(dbcheck_own_progress(d) == 0 && a->progress <= dropped_at(a, a->at - 1)))
		{
			dbcheck_fingerprint(d, on_content, a);
			return;
		}
	}
	begin_generation(a);
}

/* ---------- 2. progress */

/* The highest that one of its databases, or its server, knows. */
static KnownGeneration
known_generation(const struct Attach *a)
{
	KnownGeneration highest = {0};
	bool		has_past = false;

	for (int i = 0; i < a->databases.n; i++)
	{
		const KnownGeneration *known = dbcheck_generation(check_of(a, i));

		if (known->number > highest.number)
			highest = *known;
		has_past = has_past || dbcheck_has_cluster(check_of(a, i));
	}
	highest.has_past = has_past;
	return highest;
}

static void
check_generation(struct Attach *a)
{
	KnownGeneration known = known_generation(a);

	switch (takeover_admits(a->node, &known, dbcheck_boot(check_of(a, 0))))
	{
		case TAKEOVER_OUT:
			break;
		case TAKEOVER_WAIT:
			a->where = "waiting until the journal has a higher generation";
			a->waiting = true;
			break;
		case TAKEOVER_GO_ON:
			history_looked_at(a->node);
			LOCKSTEP_POINT(NODE_CHECKED);
			a->at = 0;
			read_next_content(a);
			break;
	}
}

void
attach_go_on(Node *n)
{
	struct Attach *a = n->attach;

	if (a == NULL || !a->waiting)
		return;
	a->waiting = false;
	check_generation(a);
}

static void
check_progress(struct Attach *a)
{
	for (int i = 0; i < a->databases.n; i++)
	{
		const char *database = dbcheck_database(check_of(a, i));
		uint64_t	progress = dbcheck_progress(check_of(a, i));
		uint64_t	own = dbcheck_own_progress(check_of(a, i));

		if (own > 0 && own <= dropped_at(a, i))
		{
			node_out(a->node, DROP_DATABASE_READDED, FACTS(.database = database));
			return;
		}
		if (progress > a->progress)
		{
			a->progress = progress;
			a->chain = dbcheck_chain(check_of(a, i));
		}
	}
	if (history_admits(a->node, a->progress, a->chain))
		check_generation(a);
}

/* ---------- 1. each database */

/* Which of them are the node's at its place in the journal?  false: it is out. */
static bool
settle_databases(struct Attach *a)
{
	Candidates *all = &a->databases;
	uint64_t	applied = 0;
	const char *missing;

	for (int i = 0; i < all->n; i++)
	{
		if (!all->all[i].failed && dbcheck_progress(all->all[i].check) > applied)
			applied = dbcheck_progress(all->all[i].check);
	}
	for (int i = all->n - 1; i >= 0; i--)
	{
		Candidate  *c = &all->all[i];
		CandidateIs is = candidate_is(c, applied);

		if (is == CANDIDATE_ATTACHED && c->failed)
		{
			node_out_for(a->node, &c->why);
			return false;
		}
		if (is == CANDIDATE_LEFT_OVER)
			note_left_over(a, c);
		if (is != CANDIDATE_ATTACHED)
			candidates_remove(all, i);
	}
	a->events_from = applied;
	missing = candidates_missing(all, applied);
	if (missing == NULL)
		missing = candidates_misnamed(all, applied, &a->events_from);
	if (missing != NULL)
		node_out(a->node, DROP_DATABASE_MISSING, FACTS(.database = missing));
	return missing == NULL;
}

static void
on_checked(void *arg, const DropReason *error)
{
	struct Attach *a = arg;
	Candidate  *c = &a->databases.all[a->at];

	if (error != NULL && !candidate_is_doubtful(c))
	{
		node_out_for(a->node, error);
		return;
	}
	c->failed = error != NULL;
	if (error != NULL)
		c->why = *error;
	a->at++;
	check_next(a);
}

static void
check_next(struct Attach *a)
{
	Candidate  *c = &a->databases.all[a->at];

	if (a->at == a->databases.n)
	{
		if (settle_databases(a))
			check_progress(a);
	}
	else if (!candidate_is_doubtful(c) && !metadata_has_database(c->name))
		node_out(a->node, DROP_DATABASES_CHANGED, FACTS(.what = "dropped"));
	else
		c->check = dbcheck_open(a->node, c->name, false, false, on_checked, a);
}

/* No database is replicated: the server itself is all there is to look at. */
static void
on_plain_checked(void *arg, const DropReason *error)
{
	struct Attach *a = arg;

	if (error != NULL)
		node_out_for(a->node, error);
	else if (history_admits(a->node, sequencer_last_durable(), 0))
	{
		a->node->no_generations = false;
		a->node->generation = 0;
		history_looked_at(a->node);
		a->progress = a->events_from = sequencer_last_durable();
		attached(a, sequencer_last_durable());
	}
}

static void
check_plain(struct Attach *a)
{
	candidates_of_maintenance(&a->databases);
	a->databases.all[0].check = dbcheck_open(a->node, node_config->maintenance_database, false, true, on_plain_checked, a);
}

/* ---------- 0. which has it? */

static void
on_names(void *arg, const PGresult *r)
{
	struct Attach *a = arg;

	if (r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK)
	{
		node_out(a->node, DROP_ATTACH_QUESTION,
				 FACTS(.what = "asking for its databases",.database = node_config->maintenance_database,
					   .error = r != NULL ? pgclient_message(PQresultErrorMessage(r)) : "connection lost"));
		return;
	}
	candidates_of_node(&a->databases, r);
	pgclient_finish(a->client);
	a->client = NULL;
	check_next(a);
}

/*
 * A replicator that died, or a connection that broke, may have left a command on a database running: the
 * server notices that nobody waits for it when it is done.  It must not be done behind our back.
 */
static void
on_ended(void *arg, const PGresult *r)
{
	struct Attach *a = arg;
	bool		answered = r != NULL && PQresultStatus(r) == PGRES_TUPLES_OK;

	if (!answered || PQgetvalue(r, 0, 1)[0] != '0')
	{
		node_out(a->node, DROP_ATTACH_QUESTION,
				 FACTS(.what = "ending an earlier command on databases",.database = node_config->maintenance_database,
					   .error = r == NULL ? "connection lost" : answered ? "it still runs" : pgclient_message(PQresultErrorMessage(r))));
		return;
	}
	if (PQgetvalue(r, 0, 0)[0] != '0')
		log_message(LOG_NOTICE, a->node->config->name, "ended an earlier replicator's command on databases");
	pgclient_query(a->client, "SELECT oid, datname FROM pg_database", 0, NULL, on_names, a);
}

static void
on_connected(void *arg, const char *error)
{
	struct Attach *a = arg;

	if (error == NULL)
	{
		pgclient_query(a->client,
					   "WITH old AS MATERIALIZED (SELECT pid FROM pg_catalog.pg_stat_activity "
					   "WHERE application_name = 'lockstep control' AND pid <> pg_catalog.pg_backend_pid() AND state = 'active' "
					   "AND query ~ '^(CREATE|DROP|ALTER) DATABASE '), "
					   "ended AS MATERIALIZED (SELECT pg_catalog.pg_terminate_backend(pid, 10000) AS gone FROM old) "
					   "SELECT count(*), count(*) FILTER (WHERE NOT gone) FROM ended", 0, NULL, on_ended, a);
		return;
	}
	a->client = NULL;			/* closes itself */
	node_out(a->node, DROP_CONNECT, FACTS(.database = node_config->maintenance_database,.error = error));
}

static void
ask_for_names(struct Attach *a)
{
	a->client = pgclient_open(a->node->config, node_config->maintenance_database, "lockstep control",
							  pgclient_control_options, node_stall_timeout(), on_connected, a);
	pgclient_limit(a->client, node_stall_timeout());
}

void
attach_begin(Node *n)
{
	struct Attach *a;
	int			count;

	if (n->attach != NULL)
		return;
	a = xcalloc(1, sizeof(struct Attach));
	a->node = n;
	a->where = "looking at its databases";
	(void) metadata_databases(&count);
	n->attach = a;
	if (count == 0)
		check_plain(a);
	else if (database_events_count() > 0)
		ask_for_names(a);
	else
	{
		candidates_of_metadata(&a->databases);
		check_next(a);
	}
}
