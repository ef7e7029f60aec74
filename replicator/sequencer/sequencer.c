/*
 * sequencer.c
 *	  The only place that orders: which transaction may go on - be reserved, be
 *	  executed, be decided - and which has to wait?
 *
 *	session			sequencer							nodes			journal
 *	  ask ------------> keys meet others'? -- yes: 40001
 *					  ticket, RESERVED ---------------> execute
 *					  <-------------------------------- executed
 *					  seq, DECIDED ---------------------------------> record
 *					  <--------------------------------------------- durable
 *	  <---- verdict -- DURABLE -----------------------> commit
 *	  <---- applied -- DONE <-------------------------- applied
 *
 * commit_wait = ordered leaves out the round of executing, for transactions of
 * which a failure on a peer is not to be expected (no DDL, no whole tables, not
 * large, no transaction of the same origin to wait for).  So does commit_wait =
 * certified for rows that no node refuses, in tables that all online nodes have
 * been able to change (sequencer_proven.c).
 *
 * A transaction that is not decided is in one list at most, by its state: see
 * sequencer_undecided.c.  The sequencer has a reference from HELD, WAITING or RESERVED to
 * the end.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "journal_writer.h"
#include "loop.h"
#include "node.h"
#include "points.h"
#include "sequencer_private.h"
#include "spill.h"

#define LARGE_STATEMENTS 1000	/* larger ones are not `ordered` */
#define FIRST_KEYS 16
#define FORGET_MS 1000
#define KEPT_SEQS 20000			/* history kept below what all nodes have
								 * applied: for S of keys that have not
								 * arrived yet */
#define HISTORY_KEYS 500000		/* for so many, about 100 MB, that of
								 * key_history */
#define HISTORY_MARKS 32		/* key_history is told apart by so much */
#define MAX_REMEMBERED_KEYS 2000000 /* about 500 MB */

static const Config *config;
static uint64_t last_ticket;
static SequencerStats stats;

uint64_t
sequencer_last_ddl(void)
{
	return certifier_last_ddl(undecided.certifier);
}

Transaction *
sequencer_find(int node, uint32_t pid)
{
	return to_sessions->transaction(node, pid);
}

/* ---------- deciding */

/* All nodes that have to execute it have done so; only its number is missing. */
static bool
may_be_decided(const Transaction *tx)
{
	return tx->state == TX_RESERVED && tx->nafter_tickets == 0 &&
		(tx->spill == NULL || tx->spill->durable);
}

/* From here on it exists, if the record reaches the journal; or it is refused. */
static void
decide(Transaction *tx)
{
	assert(may_be_decided(tx));
	if (refused_for_sequence(tx))
		return;
	undecided_unreserve(tx);
	if (tx_has_ddl(tx))
		proven_forget(true);
	else
		proven_note(tx);
	seqs_next(tx);
	certifier_decide(undecided.certifier, tx->ticket, tx->seq);
	if (tx->origin != ORIGIN_NONE)
	{
		node_get((int) tx->origin)->own_decided = tx->seq;
		winners_remember(tx->seq, tx->origin, tx->pid);
	}
	undecided_give_back_locks(tx);
	undecided_ticket_over(tx);
	if (undecided.lock_waiters.first != NULL)
		loop_defer(&undecided.look_again);
	order_journal(tx);
}

void
sequencer_executed(Transaction *tx)
{
	assert(tx->state == TX_RESERVED);
	LOCKSTEP_POINT(EXECUTED);
	if (may_be_decided(tx))		/* else when what is missing has come */
		decide(tx);
}

/* ---------- reserving */

static void
wait_for_lock(Transaction *tx, uint64_t lock_ticket)
{
	if (tx->state != TX_WAITING)
	{
		if (!undecided_leave(tx))
			tx_ref(tx);
		tx_move(tx, TX_WAITING);
		list_add(&undecided.waiting, tx);
	}
	undecided_note_wait(tx, lock_ticket);
	undecided_wait_for(tx, lock_ticket);
	while (tx->lock_ticket != 0 &&
		   certifier_lock_blocked(undecided.certifier, tx->lock_ticket, lock_ticket) == LOCK_DEADLOCK)
		if (refuse_deadlock(tx, undecided.certifier))
			return;
}

/* May it be decided before the peers have executed it? */
static bool
may_be_ordered(const Transaction *tx, const KeyList *list)
{
	if (tx->wait != LS_WAIT_ORDERED && !(tx->certain && proven_has(list) && !proven_nodes_go_first()))
		return false;
	return !tx_has_ddl(tx) && !list->whole_table &&
		tx->spill == NULL && !nodes_lagging() && tx->nafter_tickets == 0 && tx->nstatements <= LARGE_STATEMENTS;
}

/* The first table among the first keys; every transaction also has the database's key. */
static uint64_t
first_table(const KeyList *list)
{
	for (size_t i = 0; i < list->n && i < FIRST_KEYS; i++)
	{
		const LsKey *k = &list->keys[i];

		if (ls_mode_is_table(k->mode) && !is_database_key(k))
			return k->hash;
	}
	return 0;
}

/* As in LsVerdict; malloc'ed. */
static LsSlice
contended_of(const uint64_t *hashes, size_t n)
{
	uint8_t    *packed = xmalloc(n * sizeof(uint64_t));

	for (size_t i = 0; i < n; i++)
		ls_put_contended(packed + i * sizeof(uint64_t), hashes[i]);
	return (LsSlice) {packed, n * sizeof(uint64_t)};
}

static void
reserved_now(Transaction *tx, const KeyList *list, const Certificate *c)
{
	if (!undecided_leave(tx))
		tx_ref(tx);
	if (tx->lock_ticket != 0)
		(void) certifier_lock_blocked(undecided.certifier, tx->lock_ticket, 0);
	tx->ticket = ++last_ticket;
	tx->table = first_table(list);
	tx->depends_on = c->depends_on;
	if (c->ncontended > 0)
		tx->contended = contended_of(c->contended, c->ncontended);
	if (c->ntickets > 0)
		undecided_await_tickets(tx, c->tickets, c->ntickets);
	tx_move(tx, TX_RESERVED);
	undecided_add_reserved(tx);
	tx->proof = proven_epoch();
	tx->index_step = list->index_step;
	undecided.reserved_steps += tx->index_step;
	if (tx->spill != NULL)
		tx_forget_keys(tx);		/* the certifier has them */
	LOCKSTEP_POINT(RESERVED);
	if (may_be_ordered(tx, list))
	{
		tx->wait = LS_WAIT_ORDERED;
		decide(tx);
	}
	else
		to_peers->execute(tx);
}

/*
 * DROP DATABASE and ALTER DATABASE RENAME are done by each node when it is decided: what names the
 * database, executed before on its node, would be in the journal behind that, where no node has it
 * by that name.
 */
static bool databases_change;

/* The word is in each command that names one, and perhaps in others. */
static bool
has_word_database(LsSlice text)
{
	static const char word[] = "database";
	const size_t len = sizeof(word) - 1;

	for (size_t i = 0; i + len <= text.len; i++)
	{
		if (strncasecmp((const char *) text.data + i, word, len) == 0)
			return true;
	}
	return false;
}

static bool
names_database(const Transaction *tx)
{
	TxCursor	cursor = {0};
	LsSlice		payload;
	LsQuery		query;
	const char *error = NULL;
	bool		found = false;

	if (!tx_has_ddl(tx))
		return false;
	tx_cursor_start(&cursor);
	while (!found && tx_next(&cursor, tx, &payload, &error))
		found = ls_get_query(payload, &query) == NULL && query.ddl && has_word_database(query.text);
	tx_cursor_free(&cursor);
	return found || error != NULL;
}

bool
sequencer_databases_are_named(void)
{
	for (const Transaction *tx = undecided.reserved.first; tx != NULL; tx = tx->next)
	{
		if (names_database(tx))
			return true;
	}
	return false;
}

static bool
any_of(const TxList *list, const char *database)
{
	for (const Transaction *tx = list->first; tx != NULL; tx = tx->next)
	{
		if (strcmp(tx->database, database) == 0)
			return true;
	}
	return false;
}

bool
sequencer_any_undecided(const char *database)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (any_of(&undecided.held[i], database))
			return true;
	}
	return any_of(&undecided.reserved, database) || any_of(&undecided.waiting, database) ||
		any_of(&undecided.lock_waiters, database);
}

static const char *closing[2];

void
sequencer_databases_close(const char *name, const char *new_name)
{
	closing[0] = name;
	closing[1] = new_name;
}

bool
sequencer_database_closes(const char *name)
{
	return (closing[0] != NULL && strcmp(closing[0], name) == 0) || (closing[1] != NULL && strcmp(closing[1], name) == 0);
}

void
sequencer_databases_change(bool change)
{
	databases_change = change;
}

static void
reserve(Transaction *tx)
{
	KeyList		list = keys_of(tx);
	Certificate c;

	if (databases_change && names_database(tx))
	{
		refuse(tx, "40001", "could not serialize access due to a database that is being renamed or dropped",
			   "The transaction names a database.", "The transaction might succeed if retried.");
		return;
	}
	certifier_set_time(undecided.certifier, loop_now_us() / 1000);
	switch (certifier_reserve(undecided.certifier, tx->origin, last_ticket + 1, tx_has_ddl(tx), list.keys, list.n, &c))
	{
		case CERTIFY_RESERVED:
			reserved_now(tx, &list, &c);
			break;
		case CERTIFY_CONFLICT:
			refuse_conflict(tx, &list, &c,
							c.kind == CONFLICT_RESERVED ? undecided_find_reserved(c.winner_ticket) : NULL);
			break;
		case CERTIFY_WAIT:
			wait_for_lock(tx, c.lock_ticket);
			break;
	}
}

/* ---------- asked */

/* All of it is on disk, or storing it has failed. */
static void
on_stored(Transaction *tx)
{
	if (!sequencer_is_question(tx))
		return;					/* rolled back meanwhile */
	if (refused_for_failure(tx))
		return;
	if (tx->state == TX_RESERVED && tx->executing == 0)
		undecided_decide_later(tx);
}

/* Only what would be decided now: what loses, waits, or is executed first should begin to. */
static bool
is_held(Transaction *tx)
{
	if (runs_should_hold(tx))
	{
		KeyList		list = keys_of(tx);
		Certificate c;

		certifier_set_time(undecided.certifier, loop_now_us() / 1000);
		if (may_be_ordered(tx, &list) && certifier_check(undecided.certifier, tx->origin, list.keys, list.n, &c) == CERTIFY_RESERVED &&
			c.ntickets == 0)
		{
			runs_hold(tx);
			return true;
		}
	}
	runs_release(tx->origin);	/* they have asked before */
	return false;
}

static bool
refused_for_failing_journal(Transaction *tx)
{
	if (writer_failing() == NULL)
		return false;
	refuse(tx, "53100", "the replicator's journal cannot be written", writer_failing(),
		   "Make room in journal_directory of the replicator; it tries again every second.");
	return true;
}

void
sequencer_ask(Transaction *tx)
{
	assert(tx->state == TX_QUEUED);
	LOCKSTEP_POINT(QUESTION);
	if (tx->awaits_lock)
	{
		/*
		 * its backend has given up waiting; the locks that it has are kept to
		 * the end
		 */
		list_remove(&undecided.lock_waiters, tx);
		tx->awaits_lock = false;
		certifier_lock_give_up(undecided.certifier, tx->lock_ticket);
		undecided_lock_changed(tx->lock_ticket);
		loop_defer(&undecided.look_again);
	}
	if (refused_for_failing_journal(tx))
		return;
	if (tx->spill != NULL)
	{
		if (refused_for_failure(tx))
			return;
		tx_seal(tx, config, on_stored);
		if (refused_for_failure(tx))
			return;
	}
	if (!is_held(tx))
		reserve(tx);
}

static void
reserve_held(Transaction *tx)
{
	if (!refused_for_failing_journal(tx))
		reserve(tx);
}

void
sequencer_single_query(const LsIdentity *id, LsSlice database, uint32_t origin,
					   const uint8_t *queries, size_t len, SingleQueryDone done, void *arg)
{
	Transaction *tx = tx_create(id, database, origin);
	size_t		at = 0;

	tx->oldest_seen = UINT64_MAX;
	tx->alone = xmalloc(sizeof(struct SingleQuery));
	tx->alone->done = done;
	tx->alone->arg = arg;
	while (at < len)
	{
		LsMsgType	type;
		LsSlice		payload;

		/* the caller has checked them */
		if (ls_frame(queries + at, len - at, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK)
			break;
		tx_keep_effect(tx, queries + at, LS_HEADER_SIZE + payload.len);
		tx_append(tx, queries + at, LS_HEADER_SIZE + payload.len, false);
		at += LS_HEADER_SIZE + payload.len;
	}
	sequencer_ask(tx);
	tx_unref(tx);
}

/* ---------- locks requested first */

/*
 * A step of CREATE or DROP INDEX CONCURRENTLY may be executed for hours, and must not block
 * anything.  But other DDL on the table waits for it, and behind that DDL the table's writers
 * and other nodes' DDL on any table.  So the step yields, as the command does between two steps.
 * It is undecided, so it is rolled back everywhere, and the index remains as the previous step
 * left it, invalid.
 */
static void
steps_yield(const Transaction *waiter)
{
	Transaction *next;

	for (Transaction *tx = undecided.reserved_steps > 0 ? undecided.reserved.first : NULL; tx != NULL; tx = next)
	{
		next = tx->next;
		if (tx->index_step && certifier_lock_waits_for(undecided.certifier, waiter->lock_ticket, tx->ticket))
			refuse_step(tx, waiter);
	}
}

/* When the last lock was granted that a transaction had waited for. */
static uint64_t granted_us;

uint64_t
sequencer_granted_us(void)
{
	return granted_us;
}

static void
begin_to_wait(Transaction *tx)
{
	if (!tx->awaits_lock)
		list_add(&undecided.lock_waiters, tx);
	tx->awaits_lock = true;
	tx->since_us = tx->waits_since_us = loop_now_us();
	tx->waits_for = certifier_lock_first_blocker(undecided.certifier, tx->lock_ticket);
	steps_yield(tx);
}

static void
granted(Transaction *tx, uint64_t seq)
{
	if (tx->awaits_lock)
	{
		list_remove(&undecided.lock_waiters, tx);
		granted_us = loop_now_us();
		tx->has_waited = true;
		tx->since_us = loop_now_us();
	}
	tx->awaits_lock = false;
	to_sessions->granted(tx, seq);
}

void
sequencer_lock(Transaction *tx, const LsLock *lock)
{
	LsKey	   *keys = xmalloc((lock->nkeys + 1) * sizeof(LsKey));
	LsSlice		rest = lock->keys;
	size_t		n = 0;
	uint64_t	seq = 0;
	DdlLock		ddl = {lock->ddl, lock->parallel != 0, lock->scope};
	LockResult	result;
	bool		refused = false;

	assert(tx->state == TX_QUEUED);
	runs_release_all();			/* they have asked before, and the certifier
								 * does not know them */
	while (ls_next_key(&rest, &keys[n]))
		n++;
	if (tx->lock_ticket == 0)
		tx->lock_ticket = ++last_ticket;
	if (n > 0)
	{
		free(tx->asked_for);
		tx->asked_for = text_printable(keys[0].name.data, keys[0].name.len);
	}
	tx->since_us = loop_now_us();
	undecided_lock_changed(tx->lock_ticket);
	certifier_set_time(undecided.certifier, loop_now_us() / 1000);
	do
		result = certifier_lock(undecided.certifier, tx->origin, tx->lock_ticket, keys, n, ddl, lock->yields != 0, &seq);
	while (result == LOCK_DEADLOCK && !(refused = refuse_deadlock(tx, undecided.certifier)));
	free(keys);
	if (refused)
		return;
	certifier_lock_set_owner(undecided.certifier, tx->lock_ticket, tx);
	if (result == LOCK_GRANTED)
		granted(tx, seq);
	else
		begin_to_wait(tx);
}

void
sequencer_unlock(Transaction *tx, uint64_t keep)
{
	assert(tx->state == TX_QUEUED);
	if (tx->lock_ticket == 0)
		return;
	if (tx->awaits_lock)
		list_remove(&undecided.lock_waiters, tx);
	tx->awaits_lock = false;
	certifier_unlock_after(undecided.certifier, tx->lock_ticket, keep);
	undecided_lock_changed(tx->lock_ticket);
	loop_defer(&undecided.look_again);
}

static void
grant_locks(void)
{
	uint64_t	ticket;
	uint64_t	seq;

	while (certifier_next_grant(undecided.certifier, &ticket, &seq))
	{
		Transaction *tx = certifier_lock_owner(undecided.certifier, ticket);

		if (tx->awaits_lock)
			granted(tx, seq);
	}
}

/*
 * Something ended that others may have waited for.  Only those are looked at, because their
 * number may be large and this happens often.
 */
static void
on_look_again(void *arg)
{
	grant_locks();
	while (undecided.retries.first != NULL)
	{
		Transaction *tx = undecided.retries.first;

		undecided_stop_waiting(tx);
		reserve(tx);
	}
	for (Transaction *tx = undecided.reserved_steps > 0 ? undecided.lock_waiters.first : NULL; tx != NULL; tx = tx->next)
		steps_yield(tx);

	while (undecided.decisions.first != NULL)
	{
		Transaction *tx = undecided.decisions.first;

		undecided_stop_waiting(tx);
		if (tx->executing == 0 && may_be_decided(tx))
			decide(tx);
	}
}

/* ---------- stuck */

bool
sequencer_is_stalled(int patience_ms)
{
	uint64_t	now = loop_now_us();
	uint64_t	patience_us = (uint64_t) patience_ms * 1000;
	bool		stuck = undecided.reserved.first != NULL && now - undecided.reserved.first->since_us >= patience_us;
	static unsigned looks;

	for (Transaction *tx = undecided.lock_waiters.first; tx != NULL; tx = tx->next)
	{
		undecided_note_wait(tx, certifier_lock_first_blocker(undecided.certifier, tx->lock_ticket));
		stuck |= now - tx->waits_since_us >= patience_us;
	}

	/*
	 * The lock that it waits for may have moved behind it in the queue,
	 * without having changed. Not if that lock has been granted; and a large
	 * transaction takes long to look at.
	 */
	looks++;
	for (Transaction *tx = undecided.waiting.first; tx != NULL; tx = tx->next)
	{
		if (now - tx->waits_since_us < patience_us)
			continue;
		stuck = true;
		if ((tx->spill == NULL || looks % 16 == 0) && certifier_lock_first_blocker(undecided.certifier, tx->waits_for) != 0)
			undecided_retry_later(tx);
	}
	return stuck;
}

/* ---------- taking back */

void
sequencer_gone(Transaction *tx)
{
	if (tx->state == TX_QUEUED || tx->state == TX_HELD || tx->state == TX_WAITING || tx->state == TX_RESERVED)
		roll_back(tx, NULL);
}

/* ---------- forgetting */

/* How far it had come key_history ago; 0: not known, or it was not running. */
static uint64_t
seq_before_history(void)
{
	static struct
	{
		uint64_t	us;
		uint64_t	seq;
	}			marks[HISTORY_MARKS + 1];
	static unsigned next;
	uint64_t	history_us = (uint64_t) config->key_history * 1000;
	uint64_t	now = loop_now_us();
	unsigned	last = (next + HISTORY_MARKS) % (HISTORY_MARKS + 1);
	uint64_t	seq = 0;

	if (history_us == 0)
		return UINT64_MAX;
	if (now - marks[last].us >= history_us / HISTORY_MARKS)
	{
		marks[next].us = now;
		marks[next].seq = sequencer_last_durable();
		next = (next + 1) % (HISTORY_MARKS + 1);
	}
	for (int i = 0; i <= HISTORY_MARKS; i++)
	{
		if (now - marks[i].us >= history_us && marks[i].seq > seq)
			seq = marks[i].seq;
	}
	return seq;
}

/* Transactions that have read, or locked, up to here have told so, or are told that it was too long ago. */
static uint64_t
forgettable(uint64_t all)
{
	uint64_t	floor = certifier_floor(undecided.certifier);
	uint64_t	before = seq_before_history();
	uint64_t	most = all > KEPT_SEQS ? all - KEPT_SEQS : 0;

	if (most <= floor || before >= most)
		return most;
	if (certifier_keys(undecided.certifier) <= HISTORY_KEYS)
		return before;
	return floor + (most - floor) / 2 + 1;
}

static void
on_forget(void *arg)
{
	uint64_t	all = nodes_min_applied(sequencer_last_durable());
	uint64_t	oldest = to_sessions->oldest_seen();

	leases_forget_gone(all);
	if (oldest < all)
		all = oldest;
	certifier_forget(undecided.certifier, forgettable(all));

	/*
	 * A transaction that stays open must not make it grow without bound: it
	 * conflicts instead.
	 */
	if (certifier_keys(undecided.certifier) > MAX_REMEMBERED_KEYS)
	{
		uint64_t	floor = certifier_floor(undecided.certifier);

		if (sequencer_last_durable() > floor + KEPT_SEQS)
			certifier_forget(undecided.certifier, floor + (sequencer_last_durable() - KEPT_SEQS - floor) / 2 + 1);
	}
	loop_after(FORGET_MS, on_forget, NULL);
}

/* ---------- start and end */

void
sequencer_init(const Config *c, Journal *j, const char *journal_dir, const PeerOps *peers, const SessionOps *sessions)
{
	to_peers = peers;
	to_sessions = sessions;
	config = c;
	undecided.look_again.callback = on_look_again;
	runs_start(reserve_held);
	undecided.certifier = order_start(c, j, journal_dir);
	loop_after(FORGET_MS, on_forget, NULL);
}

SequencerStats
sequencer_stats(void)
{
	stats.reserved_now = undecided.nreserved;
	stats.certifier_keys = certifier_keys(undecided.certifier);
	order_stats(&stats);
	refusals_stats(&stats);
	return stats;
}
