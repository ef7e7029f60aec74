/*
 * sequencer_refuse.c
 *	  Rolling transactions back, and the errors that their clients get.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "log_limit.h"
#include "node.h"
#include "sequencer_private.h"
#include "spill.h"

static const char conflict_message[] = "could not serialize access due to a concurrent change on another node";
static const char read_conflict_message[] =
"could not serialize access due to read/write dependencies among transactions";
static const char retry_hint[] = "The transaction might succeed if retried.";

/* How many, since the start. */
static uint64_t conflicts;
static uint64_t withdrawn;
static uint64_t peer_errors;

/* ---------- verdicts */

/* after: as in LsVerdict; row: hash of the key of a row that is contended, 0: none. */
static void
refuse_after(Transaction *tx, const char *sqlstate, const char *message, const char *detail, const char *hint,
			 uint64_t after, uint64_t row)
{
	LsVerdict	verdict;
	uint8_t		contended[sizeof(uint64_t)];

	memset(&verdict, 0, sizeof(verdict));
	verdict.outcome = LS_OUTCOME_ROLLED_BACK;
	verdict.after = after;
	ls_put_contended(contended, row);
	verdict.contended = (LsSlice) {contended, row != 0 ? sizeof(contended) : 0};
	verdict.error.sqlstate = ls_slice_of(sqlstate);
	verdict.error.message = ls_slice_of(message);
	verdict.error.detail = ls_slice_of(detail);
	verdict.error.hint = ls_slice_of(hint);
	roll_back(tx, &verdict);
}

void
refuse(Transaction *tx, const char *sqlstate, const char *message, const char *detail, const char *hint)
{
	refuse_after(tx, sqlstate, message, detail, hint, 0, 0);
}

static void
remember(const Transaction *tx, Conflict *conflict)
{
	conflict->database = tx->database;
	conflict->node = tx->node;
	conflict->pid = tx->pid;
	conflict->xcount = tx->xcount;
	conflict->queued = tx->lock_ticket != 0;
	conflict_log_add(conflict);
}

/*
 * It has lost to another transaction.  If the winner has a seq, a retry cannot win before the
 * loser's node has applied it.  If the winner is only reserved, its row locks on that node make
 * a retry wait at the right place, or it is rolled back: waiting for it before the whole
 * transaction is repeated would cost 25 to 55 % of the throughput (64 clients, ten hot rows).
 */
static void
refuse_loser(Transaction *tx, const char *message, Conflict *conflict, const char *hint)
{
	conflicts++;
	conflict->sqlstate = "40001";
	remember(tx, conflict);
	sequencer_row_fought(conflict->row);
	refuse_after(tx, "40001", message, conflict->detail, hint, conflict->winner_seq, conflict->row);
}

void
sequencer_row_fought(uint64_t row)
{
	if (row == 0)
		return;
	certifier_set_time(undecided.certifier, loop_now_us() / 1000);
	certifier_row_fought(undecided.certifier, row);
}

bool
refuse_deadlock(Transaction *tx, const Certifier *certifier)
{
	Transaction *loser = deadlock_victim(tx, certifier);
	ConflictDetail w;

	describe_deadlock(loser, tx, certifier, &w);
	remember(loser, &w.conflict);
	refuse(loser, "40P01", "deadlock detected between locks of several nodes", w.detail, retry_hint);
	conflict_detail_free(&w);
	return loser == tx;
}

void
sequencer_refuse_deadlock(Transaction *tx, const char *detail, const char *winner_node, uint32_t winner_pid)
{
	Conflict	conflict = {.winner_node = winner_node,.winner_pid = winner_pid,
		.key = ls_slice_of(tx->asked_for),.reason = "deadlock",.sqlstate = "40P01",.detail = detail
	};

	remember(tx, &conflict);
	refuse(tx, "40P01", "deadlock detected between transactions of several nodes", detail, retry_hint);
}

void
refuse_conflict(Transaction *tx, const KeyList *list, const Certificate *c, const Transaction *winner)
{
	ConflictDetail w;

	describe_key_conflict(tx, list, c, winner, &w);
	refuse_loser(tx, ls_mode_is_read(list->keys[c->key_index].mode) ? read_conflict_message : conflict_message,
				 &w.conflict, retry_hint);
	conflict_detail_free(&w);
}

void
refuse_step(Transaction *step, const Transaction *waiting)
{
	const char *key = waiting->asked_for != NULL ? waiting->asked_for : "its table";
	char	   *detail = xasprintf("A command of node \"%s\" (pid %" PRIu32 ") waits for %s, which must not wait for an index.",
								   waiting->node, waiting->pid, key);
	Conflict	conflict = {.winner_node = waiting->node,.winner_pid = waiting->pid,.key = ls_slice_of(key),
	.whole_table = true,.reason = "in the way",.detail = detail};

	refuse_loser(step, "could not go on with an index that is made or dropped concurrently", &conflict,
				 "An invalid index may be left: drop it, then repeat the command.");
	free(detail);
}

/*
 * The keys of a sequence do not tell its values from before setval() from those behind it, as both
 * are changes of that sequence beside others'.
 */
bool
refused_for_sequence(Transaction *tx)
{
	LsKey		key;
	uint64_t	seq;
	ConflictDetail w;

	if (!leases_outdated(tx, &key, &seq))
		return false;
	describe_sequence_conflict(&key, seq, &w);
	if (tx->alone != NULL)
		refuse(tx, "40001", conflict_message, w.detail, retry_hint);
	else
		refuse_loser(tx, conflict_message, &w.conflict, retry_hint);
	conflict_detail_free(&w);
	return true;
}

/* Its queries could not be stored: false if they could. */
bool
refused_for_failure(Transaction *tx)
{
	const char *sqlstate;
	const char *failure = tx_failure(tx, &sqlstate);

	if (failure == NULL)
		return false;
	refuse(tx, sqlstate, "could not store the queries of a large transaction", failure,
		   "Make room in journal_directory of the replicator, or split the transaction.");
	return true;
}

/* ---------- called by sessions and nodes */

bool
sequencer_is_question(const Transaction *tx)
{
	return tx->state == TX_HELD || tx->state == TX_WAITING || tx->state == TX_RESERVED || tx->awaits_lock;
}

bool
sequencer_withdraw(Transaction *tx)
{
	LsVerdict	verdict;

	if (!sequencer_is_question(tx))
		return false;
	memset(&verdict, 0, sizeof(verdict));
	verdict.outcome = LS_OUTCOME_WITHDRAWN;
	withdrawn++;
	roll_back(tx, &verdict);
	return true;
}

void
sequencer_refuse(Transaction *tx, const char *sqlstate, const char *message, const char *hint)
{
	if (sequencer_is_question(tx))
		refuse(tx, sqlstate, message, NULL, hint);
}

void
sequencer_refuse_blocker(Transaction *tx, Conflict *conflict)
{
	if (sequencer_is_question(tx))
		refuse_loser(tx, conflict_message, conflict, retry_hint);
}

static LogLimit failures = {.max = 100};

void
sequencer_execute_failed(Transaction *tx, int node, const LsErrorFields *error)
{
	LsVerdict	verdict;
	char	   *detail;

	if (tx->state != TX_RESERVED)
		return;
	detail = xasprintf("%.*s%sThis happened on node \"%s\".", (int) error->detail.len,
					   error->detail.data != NULL ? (const char *) error->detail.data : "",
					   error->detail.len > 0 ? " " : "", node_name(node));
	memset(&verdict, 0, sizeof(verdict));
	verdict.outcome = LS_OUTCOME_ROLLED_BACK;
	verdict.error = *error;
	verdict.error.detail = ls_slice_of(detail);
	peer_errors++;
	log_limited(&failures, LOG_INFO, tx->node, "transaction of pid %" PRIu32 " failed on node \"%s\": %.*s: %.*s",
				tx->pid, node_name(node), (int) error->sqlstate.len, (const char *) error->sqlstate.data,
				(int) error->message.len, (const char *) error->message.data);
	roll_back(tx, &verdict);
	free(detail);
}

void
refusals_stats(SequencerStats *stats)
{
	stats->conflicts = conflicts;
	stats->withdrawn = withdrawn;
	stats->peer_errors = peer_errors;
}
