/*
 * sequencer_restart.c
 *	  The sequencer's state after a start, from the journal: keys and identities of the
 *	  last transactions, and the metadata.
 *
 * The last REMEMBERED transactions are replayed into the certifier; its floor is below them. A
 * transaction with older keys conflicts.  Open transactions survive a restart of the
 * replicator if it had not heard of them (the extension's link_failover.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "log.h"
#include "loop.h"
#include "metadata.h"
#include "sequencer_private.h"

#define REMEMBERED 100000
#define EXIT_JOURNAL_UNREADABLE 2

static OriginId
origin_of(const Config *config, LsSlice name)
{
	for (int i = 0; i < config->nnodes; i++)
	{
		const char *known = config->nodes[i].name;

		if (strlen(known) == name.len && memcmp(known, name.data, name.len) == 0)
			return (OriginId) i;
	}
	return ORIGIN_NONE;
}

static void __attribute__((noreturn))
unreadable(const char *error)
{
	log_full(LOG_ERROR, "journal", "could not read the journal", error,
			 "A journal is never repaired by guessing: see docs/operating.md.");
	exit(EXIT_JOURNAL_UNREADABLE);
}

static void
replay_chain(const JournalRecord *r, uint64_t *chain)
{
	if (r->type == RECORD_TRANSACTION)
		*chain = r->chain;
	else if (r->type == RECORD_CHAIN && !journal_chain_parse(r->text, chain))
		unreadable("A chain is malformed.");
}

static void
replay(Certifier *c, Decided *decided, const Config *config, const char *dir, const JournalRecord *r, uint64_t keys_from)
{
	OriginId	origin = origin_of(config, r->identity.node);
	const char *error;
	KeyList		list;
	bool		keys = r->type == RECORD_TRANSACTION && r->seq >= keys_from;

	/* the body of a large one is read once, by keys_of_record() */
	if ((!keys || r->body.id == 0) && !leases_replay(r, dir, &error))
		unreadable(error);
	if (r->type != RECORD_TRANSACTION)
	{
		metadata_apply(r->type, r->seq, r->text);
		return;
	}
	decided_add(decided, &r->identity, r->seq, loop_now_us() / 1000);
	if (!keys)
		return;
	if (!keys_of_record(r, dir, leases_replay_query, &list, &error))
		unreadable(error);
	certifier_replay(c, origin, r->seq, list.ddl, list.keys, list.n);
	if (origin != ORIGIN_NONE)
		winners_remember(r->seq, origin, r->identity.pid);
}

/* The first of the journal's last n transactions. */
static uint64_t
last_of(uint64_t first, uint64_t last, uint64_t n)
{
	return last > n && last - n > first ? last - n : first;
}

Certifier *
certifier_from_journal(const Config *config, Journal *journal, const char *journal_dir, Decided *decided,
					   uint64_t *chain)
{
	uint64_t	last = journal_last(journal);
	uint64_t	first = journal_first(journal);
	uint64_t	from = last_of(first, last, DECIDED_KEPT);
	uint64_t	keys_from = last_of(first, last, REMEMBERED);
	const char *error = NULL;
	JournalReader *reader;
	JournalRecord record;
	JournalStatus status;
	Certifier  *c;

	reader = journal_reader_open(journal_dir, from, &error);
	if (reader == NULL)
		unreadable(error);
	journal_reader_rewind(reader);	/* for all positions since its head */
	c = certifier_create(keys_from - 1);
	*chain = 0;
	while ((status = journal_read(reader, &record)) == JOURNAL_OK)
	{
		replay_chain(&record, chain);
		replay(c, decided, config, journal_dir, &record, keys_from);
	}
	if (status != JOURNAL_END)
		unreadable(status == JOURNAL_ERROR ? journal_reader_error(reader) : "A record is torn.");
	journal_reader_close(reader);
	return c;
}
