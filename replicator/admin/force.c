/*
 * force.c
 *	  Making a replicator lead that is not in sync: see force.h.
 *
 * Who is in sync has everything that was acknowledged, and nobody else leads.  If none of them
 * comes back, a person may decide to go on with what another one has.  This says what that is,
 * beside what the nodes have:
 *
 *	 1. the journal here, which must be complete up to its end
 *	 2. the key in etcd, which must not say that this one is in sync: then it needs no force, but if
 *		its journal is another one than that of the group, made from the nodes
 *	 3. no other replicator may lead now.  One that does not answer may be cut off from here only, so it
 *		is named: a person has to know that it is stopped
 *	 4. the nodes: one that has more than this journal can't go on with it.  If all have more, a
 *		journal made from them (adopt.h) loses less
 *	 5. the key is changed, if nobody has changed it meanwhile, to a new epoch of this one alone
 *
 * Started then, it takes over as any member that is in sync, and the others are cut back to what
 * it has.  Runs instead of the replicator, in the foreground, with blocking connections.  Failing
 * at any step leaves nothing that doing it again would mind.
 */
#include "force.h"

#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "etcd.h"
#include "group_key.h"
#include "group_state.h"
#include "journal.h"
#include "member_channel.h"
#include "node_certificate.h"
#include "offline.h"
#include "random_bytes.h"

typedef struct Facts
{
	GroupState	state;
	char		cluster[33];
	uint64_t	last;			/* seq of the journal here */
	bool		has_key;
	GroupKey	key;
	EtcdValue	etcd;			/* but for its text */
	int			nodes_behind;	/* that may go on with this journal */
	int			nodes_ahead;
	uint64_t	furthest;		/* seq of a node */
} Facts;

/* ---------- the journal */

static bool
look_at_journal(const Config *config, Facts *f)
{
	const char *why;
	char	   *error;
	Journal    *j;

	if (!group_state_read(config->journal_directory, &f->state, &error))
		return offline_refuse(NULL, "%s", error);
	if (f->state.name[0] != '\0' && strcmp(f->state.name, config->replicator_name) != 0)
		return offline_refuse(NULL, "the journal in \"%s\" belongs to replicator \"%s\"", config->journal_directory, f->state.name);
	if (f->state.name[0] != '\0' && f->state.copy_epoch == 0)
		return offline_refuse("Choose another replicator, or make a journal from the nodes: --adopt-nodes.",
							  "the journal in \"%s\" is an incomplete copy", config->journal_directory);
	j = journal_open(config->journal_directory, false, (size_t) config->journal_segment_size, f->cluster, &why);
	if (j == NULL)
		return offline_refuse("A replicator that runs has to be stopped before.", "could not open the journal: %s", why);
	f->last = journal_last(j);
	journal_close(j);
	printf("replicator %s: its journal, of cluster %s, ends with seq %" PRIu64 "\n", config->replicator_name, f->cluster, f->last);
	return true;
}

/* ---------- etcd */

static void
print_key(const GroupKey *key)
{
	printf("etcd: replicator %s leads in epoch %" PRIu64 "; in sync:", key->leader, key->epoch);
	for (int i = 0; i < key->n; i++)
		printf(" %s", key->in_sync[i]);
	printf("\n");
}

/* What only a judge that has lost its memory says. */
static bool
is_doubtful(const Facts *f)
{
	return (f->state.etcd_cluster != 0 && f->state.etcd_cluster != f->etcd.cluster) ||
		f->etcd.revision < f->state.etcd_revision || f->key.epoch < f->state.promised;
}

static bool
look_at_etcd(const Config *config, Etcd *etcd, Facts *f)
{
	bool		ok = true;

	if (!etcd_read(etcd, &f->etcd))
		return offline_refuse(NULL, "could not read etcd's key \"%s\": %s", config->etcd_key, etcd_error(etcd));
	f->has_key = f->etcd.text != NULL;
	if (f->has_key && !group_key_parse(f->etcd.text, &f->key))
		ok = offline_refuse("If it is of no use to anybody else, delete it.", "etcd's key \"%s\" has something else than a group of replicators", config->etcd_key);
	free(f->etcd.text);
	f->etcd.text = NULL;
	if (!ok)
		return false;
	if (!f->has_key)
	{
		printf("etcd: there is no key\n");
		return true;
	}
	print_key(&f->key);
	if (strcmp(f->key.cluster, f->cluster) != 0)
		return offline_refuse(NULL, "etcd's key is of another cluster, %s", f->key.cluster);
	if (is_doubtful(f))
		printf("etcd: it is not what this replicator has met, or it was set back\n");
	else if (f->state.name[0] != '\0' && group_key_has(&f->key, config->replicator_name))
		return offline_refuse("Start it: it takes over by itself, and nothing is lost.",
							  "this replicator is in sync, and has everything that was acknowledged");
	return true;
}

static bool
nobody_leads(const Config *config)
{
	for (int i = 0; i < config->nreplicators; i++)
	{
		const ReplicatorConfig *r = &config->replicators[i];

		if (strcmp(r->name, config->replicator_name) == 0)
			continue;
		if (member_is_there(r->address))
			return offline_refuse("lockstepctl replicators and switchover are for that. If it is to lead no more, stop it.",
								  "replicator \"%s\" runs, and leads: it listens on %s", r->name, r->address);
		printf("replicator %s: nobody answers at %s; make sure that it is stopped: if it is only out of reach, what it acknowledges meanwhile is lost\n",
			   r->name, r->address);
	}
	return true;
}

/* ---------- the nodes */

/* false: *error says why (malloc'ed). */
static bool
ask_database(const NodeConfig *node, const char *database, const char *query, PGresult **r, char **error)
{
	const char *keywords[] = {"connect_timeout", "dbname", "dbname", "application_name", "options", NULL};
	const char *values[] = {"5", node->conninfo, database, "lockstep force",
	"-c role=none -c session_preload_libraries= -c local_preload_libraries= -c statement_timeout=5s -c search_path=pg_catalog -c lockstep.replicate=off", NULL};
	PGconn	   *conn = PQconnectdbParams(keywords, values, 1);

	*r = NULL;
	if (PQstatus(conn) != CONNECTION_OK)
		*error = xstrdup(PQerrorMessage(conn));
	else if ((*error = node_certificate_check(conn, node->name)) == NULL)
	{
		*r = PQexec(conn, query);
		if (PQresultStatus(*r) != PGRES_TUPLES_OK)
			*error = xstrdup(PQerrorMessage(conn));
	}
	PQfinish(conn);
	if (*error == NULL)
		return true;
	PQclear(*r);
	*r = NULL;
	return false;
}

static bool
ask_node(const Config *config, const NodeConfig *node, uint64_t *seq, char **error)
{
	PGresult   *databases;
	bool		ok = ask_database(node, config->maintenance_database, "SELECT datname FROM pg_database WHERE datallowconn", &databases, error);

	*seq = 0;
	for (int i = 0; ok && i < PQntuples(databases); i++)
	{
		const char *name = PQgetvalue(databases, i, 0);
		PGresult   *r;

		ok = ask_database(node, name, "SELECT to_regclass('lockstep.progress') IS NOT NULL", &r, error);
		if (ok && PQgetvalue(r, 0, 0)[0] == 't')
		{
			PQclear(r);
			ok = ask_database(node, name, "SELECT coalesce(max(seq), 0) FROM lockstep.progress", &r, error);
			if (ok && strtoull(PQgetvalue(r, 0, 0), NULL, 10) > *seq)
				*seq = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
		}
		PQclear(r);
	}
	PQclear(databases);
	return ok;
}

static void
look_at_nodes(const Config *config, Facts *f)
{
	for (int i = 0; i < config->nnodes; i++)
	{
		const NodeConfig *node = &config->nodes[i];
		char	   *error = NULL;
		uint64_t	seq;

		if (!ask_node(config, node, &seq, &error))
		{
			error[strcspn(error, "\n")] = '\0';
			printf("node %s: not known, what it has: %s\n", node->name, error);
			free(error);
			continue;
		}
		if (seq > f->last)
			printf("node %s: seq %" PRIu64 ": it has %" PRIu64 " transactions that this journal lacks, and has to be cloned anew\n",
				   node->name, seq, seq - f->last);
		else
			printf("node %s: seq %" PRIu64 ": it goes on\n", node->name, seq);
		f->nodes_ahead += seq > f->last;
		f->nodes_behind += seq <= f->last;
		if (seq > f->furthest)
			f->furthest = seq;
	}
}

static bool
say_what_is_lost(const Config *config, const Facts *f)
{
	if (f->nodes_ahead > 0 && f->nodes_behind == 0)
		return offline_refuse("Make a journal from the nodes: --adopt-nodes, in an empty directory (\"Those in sync are lost\" in docs/replicators.md).",
							  "all nodes that can be reached have more than this journal, and could not go on with it");
	printf("lost: all transactions behind seq %" PRIu64, f->last);
	if (f->nodes_ahead > 0)
		printf(", to %" PRIu64 " at least", f->furthest);
	printf(", which are those that were acknowledged without replicator %s, if there are any\n", config->replicator_name);
	if (f->nodes_ahead > 0)
		printf("a journal made from the nodes (--adopt-nodes) would begin behind seq %" PRIu64 "\n", f->furthest);
	return true;
}

/* ---------- the new key */

static bool
change_key(const Config *config, Etcd *etcd, Facts *f)
{
	GroupKey	next = {.epoch = f->key.epoch};
	char	   *text;
	EtcdResult	result;

	if (next.epoch < f->state.promised)
		next.epoch = f->state.promised;
	next.epoch++;
	if (!random_bytes((uint8_t *) &next.run, sizeof(next.run)))
		return offline_refuse(NULL, "the system's random numbers cannot be used");
	snprintf(next.cluster, sizeof(next.cluster), "%s", f->cluster);
	snprintf(next.leader, sizeof(next.leader), "%s", config->replicator_name);
	group_key_add(&next, config->replicator_name);
	text = group_key_text(&next);
	result = etcd_swap(etcd, f->etcd.mod_revision, text);
	free(text);
	if (result == ETCD_CONFLICT)
		return offline_refuse("Begin again.", "etcd's key has been changed meanwhile");
	if (result == ETCD_UNKNOWN)
		return offline_refuse("Begin again.", "etcd did not say whether its key was changed: %s", etcd_error(etcd));
	f->key = next;
	return true;
}

/* What this one has met is what there is now. */
static bool
remember(const Config *config, Facts *f)
{
	snprintf(f->state.name, sizeof(f->state.name), "%s", config->replicator_name);
	f->state.promised = f->key.epoch;
	if (f->state.copy_epoch == 0)
		f->state.copy_epoch = 1;	/* it was no group's */
	f->state.etcd_cluster = f->etcd.cluster;
	f->state.etcd_revision = f->etcd.revision;
	return group_state_write(config->journal_directory, &f->state) ||
		offline_refuse("Begin again.", "could not write \"%s/group\": %s", config->journal_directory, strerror(errno));
}

bool
force_leader(const Config *config, bool accept_loss)
{
	Facts		f = {.last = 0};
	Etcd	   *etcd;

	if (config->nreplicators == 0)
		return offline_refuse(NULL, "no group of replicators is configured");
	etcd = etcd_open(config->etcd_endpoints, config->etcd_key, config->tls_directory);
	if (etcd == NULL)
		return offline_refuse(NULL, "libcurl cannot be used");
	if (!look_at_journal(config, &f) || !look_at_etcd(config, etcd, &f) || !nobody_leads(config))
		return false;
	look_at_nodes(config, &f);
	if (!say_what_is_lost(config, &f))
		return false;
	if (!accept_loss)
		return offline_refuse("If none of those that are in sync comes back, add --accept-loss.", "nothing was changed");
	if (!change_key(config, etcd, &f) || !remember(config, &f))
		return false;
	printf("replicator %s is to lead, from epoch %" PRIu64 " on: start it, then the others, which are cut back to what it has\n",
		   config->replicator_name, f.key.epoch);
	return true;
}
