/*
 * guc.c
 *	  The settings lockstep.*: one variable each, and their definitions.
 *
 * Any file may read them; this one calls no other.  docs/operating.md describes each
 * setting for users.
 */
#include "postgres.h"

#include <limits.h>
#include <sys/resource.h>

#include "utils/guc.h"

#include "address_list.h"
#include "guc.h"
#include "lockstep.h"

#define LEAST_MAX_STALENESS 2000	/* ms */

char	   *ls_node_name = NULL;
char	   *ls_replicator = NULL;
char	   *ls_secret_file = NULL;
char	   *ls_tls_directory = NULL;
int			ls_require_tls = LS_REQUIRE_TLS_ALL;
int			ls_commit_wait = LS_COMMIT_CERTIFIED;
int			ls_failover_wait = 5000;
int			ls_retry_wait = 1000;
int			ls_unreplicated = LS_UNREPLICATED_REFUSE;
bool		ls_replicate = true;
int			ls_connect_timeout = 5000;
int			ls_replicator_timeout = 30000;
int			ls_max_row_keys = 100000;
int			ls_statement_rows = 10000;
bool		ls_causal_reads = false;
int			ls_update_order = LS_ORDER_AUTO;
char	   *ls_queued_tables = NULL;
int			ls_queue_timeout = 5000;
int			ls_queue_after = 5;
int			ls_index_patience = 60000;
int			ls_max_sequences = 4096;
int			ls_max_staleness = -1;
bool		ls_local_flush = false;
int			ls_recovery_wait = 10000;
int			ls_server_nice = 0;
int			ls_scheduling_priority = 0;
int			ls_apply_priority = 0;
void		(*guc_replicate_changed) (bool newval) = NULL;
void		(*guc_unreplicated_changed) (void) = NULL;
void		(*guc_session_begins_off) (void) = NULL;
bool		(*guc_priority_check) (int newval, GucSource source) = NULL;
void		(*guc_priority_changed) (int newval) = NULL;
void		(*guc_apply_priority_changed) (int newval) = NULL;

static const struct config_enum_entry commit_wait_options[] = {
	{"ordered", LS_WAIT_ORDERED, false},
	{"certified", LS_COMMIT_CERTIFIED, false},
	{"executed", LS_WAIT_EXECUTED, false},
	{"applied", LS_WAIT_APPLIED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry update_order_options[] = {
	{"auto", LS_ORDER_AUTO, false},
	{"optimistic", LS_ORDER_OPTIMISTIC, false},
	{"queued", LS_ORDER_QUEUED, false},
	{NULL, 0, false}
};

static const struct config_enum_entry require_tls_options[] = {
	{"all", LS_REQUIRE_TLS_ALL, false},
	{"remote", LS_REQUIRE_TLS_REMOTE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry unreplicated_options[] = {
	{"refuse", LS_UNREPLICATED_REFUSE, false},
	{"allow", LS_UNREPLICATED_ALLOW, false},
	{NULL, 0, false}
};

/* Heartbeats report the position of an idle cluster once a second. */
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
 * A session may turn replication off for itself only.  As a setting of a
 * database, a role, a function or the server it would keep the changes of all
 * clients on their node, unnoticed.
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
assign_unreplicated(int newval, void *extra)
{
	if (guc_unreplicated_changed)
		guc_unreplicated_changed();
}

static bool
check_replicator(char **newval, void **extra, GucSource source)
{
	const char *wrong = address_list_check(*newval);

	if (wrong != NULL)
		GUC_check_errdetail("%s", wrong);
	return wrong == NULL;
}

static bool
check_scheduling_priority(int *newval, void **extra, GucSource source)
{
	return guc_priority_check == NULL || guc_priority_check(*newval, source);
}

static void
assign_scheduling_priority(int newval, void *extra)
{
	if (guc_priority_changed)
		guc_priority_changed(newval);
}

static void
assign_apply_priority(int newval, void *extra)
{
	if (guc_apply_priority_changed)
		guc_apply_priority_changed(newval);
}

static void
define_of_node(void)
{
	DefineCustomStringVariable("lockstep.node_name",
							   "Sets the name of this node in its cluster.",
							   "An empty name means that this server is not a node and replicates nothing.",
							   &ls_node_name, "",
							   PGC_POSTMASTER, 0,
							   check_node_name, NULL, NULL);

	DefineCustomStringVariable("lockstep.replicator",
							   "Sets the address of the replicator, or a comma-separated list of the addresses of several.",
							   "Each is host:port or the path of its Unix socket.",
							   &ls_replicator, "localhost:6432",
							   PGC_SIGHUP, 0,
							   check_replicator, NULL, NULL);

	DefineCustomStringVariable("lockstep.secret_file",
							   "Sets the file with the secret that the nodes share with the replicator.",
							   NULL,
							   &ls_secret_file, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);

	DefineCustomStringVariable("lockstep.tls_directory",
							   "Sets the directory with the certificates for TLS with the replicator.",
							   "It has cert.pem, key.pem, ca.pem and, if there is one, crl.pem. Empty: no TLS.",
							   &ls_tls_directory, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);

	DefineCustomEnumVariable("lockstep.require_tls",
							 "Sets which connections to the replicator must use TLS.",
							 "\"all\": all; \"remote\": all but those within this machine. Unix sockets need none.",
							 &ls_require_tls, LS_REQUIRE_TLS_ALL, require_tls_options,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.connect_timeout",
							"Sets the maximum time to connect to the replicator.",
							NULL,
							&ls_connect_timeout, 5000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.replicator_timeout",
							"Sets the maximum time to wait for the replicator without hearing from it.",
							"The replicator sends a message every second. A COMMIT that times out fails with 08007. 0 disables the timeout.",
							&ls_replicator_timeout, 30000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.recovery_wait",
							"Sets the maximum time that queries wait, after a crash or promotion of this server, for it to catch up.",
							"Then they fail with 57P03 or, if the replicator cannot be heard, see what this node has. Superusers do not wait.",
							&ls_recovery_wait, 10000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.index_patience",
							"Sets the time that replicated CONCURRENTLY commands wait for transactions that use the table.",
							"These transactions then fail with 40001.",
							&ls_index_patience, 60000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

static void
define_of_shared_memory(void)
{
	DefineCustomIntVariable("lockstep.max_sequences",
							"Sets the maximum number of sequences in use on this node.",
							"Each takes about 1 kB of shared memory.",
							&ls_max_sequences, 4096, 16, 1000000,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
}

static void
define_of_session(void)
{
	DefineCustomEnumVariable("lockstep.commit_wait",
							 "Sets what COMMIT waits for on the other nodes.",
							 "\"certified\": nothing if no node can refuse its rows, else that they have executed it; \"executed\": they have executed it and can commit it; \"applied\": they have committed it; \"ordered\": nothing.",
							 &ls_commit_wait, LS_COMMIT_CERTIFIED, commit_wait_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("lockstep.local_flush",
							 "Makes COMMIT of a replicated transaction wait until this node has flushed its WAL, too.",
							 "When off, it relies on the journal, from which a node that crashed gets its last transactions back.",
							 &ls_local_flush, false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("lockstep.causal_reads",
							 "Makes each statement see everything that was committed on any node before it began.",
							 "The session asks the replicator for the current position and waits until this node has applied it.",
							 &ls_causal_reads, false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.max_staleness",
							"Sets the age of its data above which this node refuses queries of tables.",
							"A query fails with 57P03 unless this node is known to have everything that was committed on any node before that time. -1 disables the check.",
							&ls_max_staleness, -1, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							check_max_staleness, NULL, NULL);

	DefineCustomIntVariable("lockstep.failover_wait",
							"Sets the maximum time that writes wait for a replicator that restarts, or attaches this node again.",
							"Then they fail with 57P03. 0 disables the wait.",
							&ls_failover_wait, 5000, 0, 3600000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.retry_wait",
							"Sets the maximum time that a session that lost a conflict waits for this node to apply the winner.",
							"The session waits before its next query, which would otherwise lose again. 0 disables the wait.",
							&ls_retry_wait, 1000, 0, 60000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("lockstep.update_order",
							 "Sets whether changes of rows wait for transactions of other nodes.",
							 "\"queued\": UPDATE, DELETE and SELECT FOR UPDATE of rows that are named by their key first lock them in the cluster; \"auto\": only rows that several nodes have changed at the same time lately; \"optimistic\": none, the second to commit fails.",
							 &ls_update_order, LS_ORDER_AUTO, update_order_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable("lockstep.queued_tables",
							   "Lists tables for which lockstep.update_order is always \"queued\".",
							   "Names are separated by commas and include the schema.",
							   &ls_queued_tables, "",
							   PGC_USERSET, GUC_LIST_INPUT,
							   NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.queue_timeout",
							"Sets the maximum time to wait for a row or table that is locked in the cluster.",
							"0 disables the timeout.",
							&ls_queue_timeout, 5000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.queue_after",
							"Sets the number of conflicts lost in a row after which a session locks its rows or tables in the cluster.",
							"0 disables this.",
							&ls_queue_after, 5, 0, INT_MAX,
							PGC_USERSET, 0,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("lockstep.replicate",
							 "Replicates the changes of this session.",
							 "When off, changes stay on this node, which then differs from the others.",
							 &ls_replicate, true,
							 PGC_SUSET, 0,
							 check_replicate, assign_replicate, NULL);

	DefineCustomEnumVariable("lockstep.unreplicated",
							 "Sets what happens to a transaction with changes that cannot be replicated.",
							 "\"refuse\": it fails; \"allow\": these changes stay on this node.",
							 &ls_unreplicated, LS_UNREPLICATED_REFUSE, unreplicated_options,
							 PGC_SUSET, 0,
							 NULL, assign_unreplicated, NULL);

	DefineCustomIntVariable("lockstep.max_row_keys",
							"Sets the number of changed rows of a table above which a transaction conflicts with all changes of it.",
							NULL,
							&ls_max_row_keys, 100000, 1, INT_MAX,
							PGC_SUSET, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("lockstep.statement_rows",
							"Sets the number of rows from which an UPDATE or DELETE is sent as a statement instead of rows.",
							"The planner's estimate counts. Only statements of the simple query protocol that come first in their message and have the same effect on all nodes are sent so; they conflict with all other changes of the table and with commands that may change what names mean. -1 disables this.",
							&ls_statement_rows, 10000, -1, INT_MAX,
							PGC_USERSET, 0,
							NULL, NULL, NULL);
}

static void
define_of_priorities(void)
{
	ls_server_nice = getpriority(PRIO_PROCESS, 0);

	DefineCustomIntVariable("lockstep.scheduling_priority",
							"Sets the CPU priority of a session, as the nice value of its processes.",
							"Higher values get less of the CPU. Below the value that the session began with: superusers, and only as far as the operating system lets.",
							&ls_scheduling_priority, ls_server_nice, -20, 19,
							PGC_USERSET, 0,
							check_scheduling_priority, assign_scheduling_priority, NULL);

	DefineCustomIntVariable("lockstep.apply_priority",
							"Sets the CPU priority of the replicator's sessions that apply transactions, as the nice value of their processes.",
							NULL,
							&ls_apply_priority, ls_server_nice, -20, 19,
							PGC_SIGHUP, 0,
							NULL, assign_apply_priority, NULL);
}

void
guc_define(void)
{
	define_of_node();
	define_of_shared_memory();
	define_of_session();
	define_of_priorities();
	MarkGUCPrefixReserved("lockstep");
}

bool
ls_is_node(void)
{
	return ls_node_name != NULL && ls_node_name[0] != '\0';
}
