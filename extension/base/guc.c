/*
 * guc.c
 *	  The settings lockstep.*: one variable each, and their definitions.
 *
 * At the bottom of the extension: any module may read them, and this one calls
 * none.  docs/operating.md describes each for users.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "guc.h"

#define LEAST_MAX_STALENESS 2000	/* ms */

char	   *ls_node_name = NULL;
char	   *ls_replicator = NULL;
char	   *ls_secret_file = NULL;
int			ls_commit_wait = LS_WAIT_EXECUTED;
int			ls_retry_wait = 1000;
int			ls_unreplicated = LS_UNREPLICATED_REFUSE;
bool		ls_replicate = true;
int			ls_connect_timeout = 5000;
int			ls_replicator_timeout = 30000;
int			ls_max_row_keys = 100000;
int			ls_statement_rows = 10000;
bool		ls_causal_reads = false;
int			ls_update_order = LS_ORDER_OPTIMISTIC;
char	   *ls_queued_tables = NULL;
int			ls_queue_timeout = 5000;
int			ls_queue_after = 5;
int			ls_index_patience = 60000;
int			ls_max_sequences = 4096;
int			ls_max_staleness = -1;
void		(*guc_replicate_changed) (bool newval) = NULL;
void		(*guc_session_begins_off) (void) = NULL;

static const struct config_enum_entry commit_wait_options[] = {
	{"ordered", LS_WAIT_ORDERED, false},
	{"executed", LS_WAIT_EXECUTED, false},
	{"applied", LS_WAIT_APPLIED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry update_order_options[] = {
	{"optimistic", LS_ORDER_OPTIMISTIC, false},
	{"queued", LS_ORDER_QUEUED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry unreplicated_options[] = {
	{"refuse", LS_UNREPLICATED_REFUSE, false},
	{"allow", LS_UNREPLICATED_ALLOW, false},
	{NULL, 0, false}
};

/* An idle node is known to be up to date once a second, of the second before. */
static bool
check_max_staleness(int *newval, void **extra, GucSource source)
{
	if (*newval < 0 || *newval >= LEAST_MAX_STALENESS)
		return true;
	GUC_check_errdetail("Heartbeats of an idle cluster come every second, so less than %d ms would fail at random.",
						LEAST_MAX_STALENESS);
	return false;
}

static bool
check_node_name(char **newval, void **extra, GucSource source)
{
	const char *p;

	if (strlen(*newval) > LS_MAX_NAME)
	{
		GUC_check_errdetail("A node's name has at most %d bytes.", LS_MAX_NAME);
		return false;
	}
	for (p = *newval; *p; p++)
	{
		if (!isalnum((unsigned char) *p) && *p != '_' && *p != '-' && *p != '.')
		{
			GUC_check_errdetail("A node's name consists of letters, digits, \"_\", \"-\" and \".\".");
			return false;
		}
	}
	return true;
}

/*
 * Off is what one session says of itself.  As a setting of a database, a role, a
 * function or the server it would let everybody's changes stay on their node,
 * and nobody would notice.
 */
static bool
check_replicate(bool *newval, void **extra, GucSource source)
{
	if (*newval)
		return true;
	if (source == PGC_S_TEST || (source > PGC_S_DEFAULT && source < PGC_S_CLIENT))
	{
		GUC_check_errdetail("Only a session itself can be kept from replicating what it changes.");
		GUC_check_errhint("Use SET, or the options of the connection.");
		return false;
	}
	if (source == PGC_S_CLIENT && guc_session_begins_off)
		guc_session_begins_off();
	return true;
}

static void
assign_replicate(bool newval, void *extra)
{
	if (guc_replicate_changed)
		guc_replicate_changed(newval);
}

static void
define_of_node(void)
{
	DefineCustomStringVariable("lockstep.node_name",
							   "Name of this node in its cluster.",
							   "Empty: this server is not a node and nothing is replicated.",
							   &ls_node_name, "",
							   PGC_POSTMASTER, 0,
							   check_node_name, NULL, NULL);

	DefineCustomStringVariable("lockstep.replicator",
							   "Where the replicator listens: host:port, or the path of its Unix socket.",
							   NULL,
							   &ls_replicator, "localhost:6432",
							   PGC_SIGHUP, 0,
							   NULL, NULL, NULL);

	DefineCustomStringVariable("lockstep.secret_file",
							   "File with the secret that this node shares with the replicator.",
							   NULL,
							   &ls_secret_file, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.connect_timeout",
							"Time allowed for connecting to the replicator.",
							NULL,
							&ls_connect_timeout, 5000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.replicator_timeout",
							"How long a session that waits for the replicator hears nothing from it before it gives up.",
							"The replicator says every second that it is there. A COMMIT that waited then fails with 08007; 0: never.",
							&ls_replicator_timeout, 30000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.index_patience",
							"How long what another node does CONCURRENTLY waits for transactions that have the table open.",
							"They then fail with 40001.",
							&ls_index_patience, 60000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

static void
define_of_shared_memory(void)
{
	DefineCustomIntVariable("lockstep.max_sequences",
							"Number of sequences that may be in use on this node between two starts of the server.",
							"Each takes about 1 kB of shared memory.",
							&ls_max_sequences, 4096, 16, 1000000,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
}

static void
define_of_session(void)
{
	DefineCustomEnumVariable("lockstep.commit_wait",
							 "What COMMIT waits for on the other nodes.",
							 "\"executed\": they can commit it; \"applied\": they have committed it; \"ordered\": nothing.",
							 &ls_commit_wait, LS_WAIT_EXECUTED, commit_wait_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("lockstep.causal_reads",
							 "Lets a statement see everything that was committed on any node before it began.",
							 "It asks the replicator how far that is, and waits until this node has applied it.",
							 &ls_causal_reads, false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.max_staleness",
							"Age above which this node refuses to show what it has.",
							"Queries of tables fail while it is not known to have everything that was committed on any node so long ago; -1: never.",
							&ls_max_staleness, -1, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							check_max_staleness, NULL, NULL);

	DefineCustomIntVariable("lockstep.retry_wait",
							"How long a session that lost a conflict waits for this node to apply the winner.",
							"Before it takes the next query, which then can succeed; 0: not at all.",
							&ls_retry_wait, 1000, 0, 60000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("lockstep.update_order",
							 "Whether a row that other nodes may be changing is waited for.",
							 "\"optimistic\": no, who comes second fails; \"queued\": UPDATE, DELETE and SELECT FOR UPDATE of rows named by their key take their place in the replicator's queue first.",
							 &ls_update_order, LS_ORDER_OPTIMISTIC, update_order_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable("lockstep.queued_tables",
							   "Tables for which lockstep.update_order is queued, whatever it is else.",
							   "A list of names, each with its schema.",
							   &ls_queued_tables, "",
							   PGC_USERSET, GUC_LIST_INPUT,
							   NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.queue_timeout",
							"Time allowed for waiting in the replicator's queue for a row.",
							"0 for ever.",
							&ls_queue_timeout, 5000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.queue_after",
							"Number of conflicts that a session loses in a row before its next transaction waits for its rows or tables.",
							"0 never.",
							&ls_queue_after, 5, 0, INT_MAX,
							PGC_USERSET, 0,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("lockstep.replicate",
							 "Replicates what this session changes.",
							 "Off: changes stay on this node, which then differs from the others.",
							 &ls_replicate, true,
							 PGC_SUSET, 0,
							 check_replicate, assign_replicate, NULL);

	DefineCustomEnumVariable("lockstep.unreplicated",
							 "What happens to a transaction with effects that can't be replicated.",
							 "\"refuse\": it fails; \"allow\": those effects stay on this node.",
							 &ls_unreplicated, LS_UNREPLICATED_REFUSE, unreplicated_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.max_row_keys",
							"Number of changed rows of one table above which a transaction takes the whole table.",
							NULL,
							&ls_max_row_keys, 100000, 1, INT_MAX,
							PGC_SUSET, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.statement_rows",
							"Number of rows from which an UPDATE or DELETE travels as its text, if that is exact.",
							"As estimated by the planner; -1 never. Such a statement takes the whole table.",
							&ls_statement_rows, 10000, -1, INT_MAX,
							PGC_USERSET, 0,
							NULL, NULL, NULL);
}

void
guc_define(void)
{
	define_of_node();
	define_of_shared_memory();
	define_of_session();
	MarkGUCPrefixReserved("lockstep");
}

bool
ls_is_node(void)
{
	return ls_node_name != NULL && ls_node_name[0] != '\0';
}
