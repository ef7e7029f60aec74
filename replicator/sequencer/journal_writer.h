/*
 * journal_writer.h
 *	  Takes encoded records from the loop, makes them durable in batches, itself or by
 *	  a thread of its own, and hands them back.  Private to the sequencer.
 */
#ifndef LOCKSTEP_JOURNAL_WRITER_H
#define LOCKSTEP_JOURNAL_WRITER_H

#include "journal.h"
#include "transaction.h"

typedef struct JournalItem
{
	struct JournalItem *next;
	uint64_t	seq;			/* of a transaction, 0 for metadata */
	Transaction *tx;			/* a reference; NULL for metadata */
	BodyRef		body;			/* that the record refers to; id 0: none */
	void		(*done) (void *arg);	/* metadata: when durable; may be NULL */
	void	   *arg;
	RecordType	type;
	Buffer		text;			/* of a lease, and of a database that goes */
	bool		positions;		/* the transaction sets positions of things */
	Buffer		head;			/* metadata: what new segments begin with,
								 * from now on: records one after the other */
	size_t		len;
	uint8_t		record[];
} JournalItem;

/* Durable, in order; on the loop's thread.  Frees the item. */
typedef void (*JournalDurable) (JournalItem *item);

struct LeaseTable;

/* positions: of all things that are leased; the thread's from now on.  head: the
 * metadata records that count.  chain: after the last transaction. */
extern void writer_start(Journal *journal, const char *dir, JournalDurable durable,
						 struct LeaseTable *positions, const Buffer *head, uint64_t chain);

/* With size bytes of record, to be encoded by the caller. */
extern JournalItem *writer_item(const JournalRecord *record);

/* Of no bytes: done when the copies (copies.h) have answered after it was pushed. */
extern JournalItem *writer_barrier(void);
extern void writer_item_free(JournalItem *item);
extern void writer_push(JournalItem *item);

/* NULL, or why records can't be written at the moment (they are tried again). */
extern const char *writer_failing(void);

/* They can't, and another replicator could lead: callback is called, on the loop's thread. */
extern void writer_on_leave(void (*callback) (void));
extern uint64_t writer_syncs(void);

/* Delete segments of which every node that counts has all on its disk, but keep the
 * newest keep_bytes. */
extern void writer_trim(uint64_t flushed, int64_t keep_bytes);

/* Write what is queued, end the thread, deliver. */
extern void writer_stop(void);

#endif
