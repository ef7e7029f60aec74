/*
 * sequencer_leases.c
 *	  Leases of values, journaled before they are used.  Loop's thread.
 *
 *	  session: 'S' --> position advances --> record ----> journal thread
 *			   's' <---------------------------------- durable
 *
 * The position advances when the record is queued, not when it is durable: the next
 * lease starts behind this one, and its record follows in the journal.  If the
 * replicator crashes in between, only leases are lost that were never granted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "database_event.h"
#include "journal.h"
#include "journal_writer.h"
#include "lease.h"
#include "log_limit.h"
#include "loop.h"
#include "sequencer_private.h"

static LeaseTable *leases;

static LeaseTable *
table(void)
{
	if (leases == NULL)
		leases = lease_table_create();
	return leases;
}

/* ---------- effects of transactions */

bool
leases_decided(const Transaction *tx)
{
	LsSlice		effects = {tx->effects.data, tx->effects.len};

	return lease_effects(table(), ls_slice_of(tx->database), tx->seq, ls_slice_of(tx->node), effects);
}

bool
leases_outdated(const Transaction *tx, LsKey *key, uint64_t *seq)
{
	LsSlice		effects = {tx->effects.data, tx->effects.len};

	return lease_outdated(table(), ls_slice_of(tx->database), effects, key, seq);
}

void
leases_replay_query(LsSlice database, uint64_t seq, const LsQuery *query)
{
	(void) lease_effect(table(), database, seq, ls_slice_of(NULL), query);
}

/* A large transaction, whose queries are in a file of their own. */
static bool
replay_body(const JournalRecord *r, const char *dir, const char **error)
{
	Transaction *tx = tx_from_record(r, 0, dir, error);
	TxCursor	cursor = {0};
	LsSlice		payload;
	LsQuery		query;

	if (tx == NULL)
		return false;
	tx_cursor_start(&cursor);
	*error = NULL;
	while (tx_next(&cursor, tx, &payload, error))
	{
		if (ls_get_query(payload, &query) == NULL)
			leases_replay_query(r->database, r->seq, &query);
	}
	tx_cursor_free(&cursor);
	tx_unref(tx);
	return *error == NULL;
}

bool
leases_replay(const JournalRecord *r, const char *dir, const char **error)
{
	switch (r->type)
	{
		case RECORD_LEASE:
			(void) lease_decode(table(), r->text);
			break;
		case RECORD_DATABASE_DROPPED:
			lease_forget_database(table(), r->text);
			break;
		case RECORD_DATABASE_EVENT:

			/*
			 * the head of a segment says it again: by now the names may be
			 * those of others
			 */
			if (!database_event_is_known(r->seq, r->text))
				lease_database_event(table(), r->text);
			break;
		case RECORD_TRANSACTION:
			if (r->body.id != 0)
				return replay_body(r, dir, error);
			(void) lease_effects(table(), r->database, r->seq, ls_slice_of(NULL), r->queries);
			break;
		default:
			break;
	}
	return true;
}

void
leases_forget_gone(uint64_t applied)
{
	lease_forget_gone(table(), applied);
}

void
sequencer_node_restarted(const char *node)
{
	lease_node_restarted(table(), ls_slice_of(node));
}

void
leases_forget_database(LsSlice database)
{
	lease_forget_database(table(), database);
}

void
leases_database_event(LsSlice text)
{
	lease_database_event(table(), text);
}

static void
copy_one(void *arg, LsSlice text)
{
	(void) lease_decode(arg, text);
}

LeaseTable *
leases_copy(void)
{
	LeaseTable *copy = lease_table_create();

	lease_encode_all(table(), copy_one, copy);
	return copy;
}

/* ---------- asking */

typedef struct Asked
{
	LsLeased	answer;
	LeaseDone	done;
	void	   *arg;
} Asked;

static void
on_durable(void *arg)
{
	Asked	   *asked = arg;

	if (asked == NULL)
		return;					/* no backend waits for it */
	asked->done(asked->arg, &asked->answer);
	free(asked);
}

static void
journal_position(LsSlice database, LsSlice name, Asked *asked)
{
	JournalRecord r;
	JournalItem *item;
	Buffer		text = {0};

	lease_encode(table(), database, name, &text);
	memset(&r, 0, sizeof(r));
	r.type = RECORD_LEASE;
	r.seq = sequencer_last_decided();
	r.text = (LsSlice) {text.data, text.len};
	item = writer_item(&r);
	item->done = on_durable;
	item->arg = asked;
	writer_push(item);
	buffer_free(&text);
}

void
sequencer_lease(const char *node, LsSlice database, const LsLease *request,
				LeaseDone leased, void *arg)
{
	Asked	   *asked = xcalloc(1, sizeof(Asked));
	LeaseGrant	grant;

	asked->done = leased;
	asked->arg = arg;
	asked->answer.id = request->id;
	switch (lease_request(table(), database, request, ls_slice_of(node), loop_now_us(), &grant))
	{
		case LEASE_GRANTED:
			asked->answer.first = grant.first;
			asked->answer.count = grant.count;
			journal_position(database, request->name, asked);
			break;
		case LEASE_LATER:
			asked->answer.seq = grant.seq;
			on_durable(asked);
			break;
		case LEASE_EXHAUSTED:
			on_durable(asked);
			break;
	}
}

static LogLimit reported_lines = {.max = 20};

void
sequencer_lease_reported(LsSlice database, LsSlice name, uint64_t seq, int64_t value,
						 int64_t increment, LsSlice keys)
{
	if (!lease_reported(table(), database, name, seq, value, increment, keys))
		return;
	log_limited(&reported_lines, LOG_NOTICE, "journal", "sequence %.*s of database \"%.*s\" goes on behind %" PRId64 ": a node has leases up to there of which the journal did not know",
				(int) name.len, (const char *) name.data, (int) database.len, (const char *) database.data, value);
	journal_position(database, name, NULL);
}

void
sequencer_leased(LsSlice database, LeasedThing each, void *arg)
{
	lease_each(table(), database, each, arg);
}
