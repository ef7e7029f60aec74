/*
 * journal.h
 *	  The redo log of the cluster: every decided transaction, in seq order.
 *
 * A directory of segments, named by the first seq that they may hold (%016lx.journal).  A
 * segment is a header and records; every record has its length and a checksum of its content.
 * Only the last segment may end in a torn record, which opening cuts off.  A bad record anywhere
 * else is corruption, and opening fails.
 *
 * Reading and encoding are pure functions over bytes (journal_encode, journal_decode); the rest
 * does file I/O and belongs to one thread, except JournalReader, which any thread may use on an
 * open journal's directory.
 *
 * The records form a chain: the checksum of a transaction's record identifies the history up to
 * its seq, and each record has the checksum of the previous one.  A node stores it with its seq,
 * so that a node and a journal with different histories detect that, however far either has gone
 * on since.  Records and nodes of earlier versions have none (0): history can be compared from
 * the first record that has one.
 *
 * journal.c lists what a crash leaves at each step.
 */
#ifndef LOCKSTEP_JOURNAL_H
#define LOCKSTEP_JOURNAL_H

#include "protocol.h"

typedef enum RecordType
{
	RECORD_TRANSACTION = 't',
	RECORD_DATABASE_ADDED = 'b',	/* text: the name.  Metadata records take
									 * no seq */
	RECORD_DATABASE_DROPPED = 'B',
	RECORD_NODE_DROPPED = 'N',	/* by command; text: the name */
	RECORD_NODE_ATTACHED = 'n',
	RECORD_FINGERPRINT = 'f',	/* text: what the nodes held at seq 0, see
								 * dbcheck.c */
	RECORD_LEASE = 'l',			/* text: the position of a thing, see lease.c */
	RECORD_CHAIN = 'c',			/* text: the chain at seq; at a segment's head */
	RECORD_GENERATION = 'G',	/* text: that of a replicator's start, and its
								 * run, see takeover.c */
	RECORD_DATABASE_EVENT = 'd' /* text: see database_event.h */
} RecordType;

/* A file beside the journal that has the queries of a large transaction, see
 * journal_body.h. */
typedef struct BodyRef
{
	uint64_t	id;				/* 0: there is none */
	uint64_t	size;			/* of the file */
	uint64_t	nstatements;
	uint64_t	first_ddl;		/* index of the first that changes catalogs,
								 * UINT64_MAX = none */
} BodyRef;

typedef struct JournalRecord
{
	RecordType	type;
	uint64_t	seq;			/* of a transaction; else the last one before
								 * it */
	LsIdentity	identity;		/* transaction only */
	LsSlice		database;		/* transaction only */
	uint64_t	depends_on;		/* transaction only: seq to apply before it */
	uint64_t	time;			/* microseconds since 1970-01-01 UTC, when
								 * decided */
	LsCommitWait wait;
	LsSlice		queries;		/* transaction only: its 'Q' messages, headers
								 * included, one after the other; ls_frame() */
	BodyRef		body;			/* transaction only: where they are, if its id
								 * is not 0 */
	uint64_t	parent;			/* transaction only: the chain before it, 0:
								 * not known */
	uint64_t	chain;			/* of a transaction that was read: with it */
	LsSlice		text;			/* the other types */
} JournalRecord;

/* Bytes needed for the record (written if <= cap). */
extern size_t journal_encode(uint8_t *buf, size_t cap, const JournalRecord *r);

/* The chain with this transaction, whose encoded record it is. */
extern uint64_t journal_chain_of(const uint8_t *record);

/* The text of RECORD_CHAIN, and back; false: malformed. */
#define CHAIN_TEXT_SIZE 17
extern void journal_chain_text(char text[CHAIN_TEXT_SIZE], uint64_t chain);
extern bool journal_chain_parse(LsSlice text, uint64_t *chain);

typedef enum JournalStatus
{
	JOURNAL_OK,
	JOURNAL_END,				/* nothing (more) here */
	JOURNAL_TORN,				/* the bytes end, or stop making sense, here */
	JOURNAL_ERROR				/* errno or message: see journal_error() */
} JournalStatus;

/* Decode the record at the front of buf; slices point into buf. *used: its size. */
extern JournalStatus journal_decode(const uint8_t *buf, size_t len, JournalRecord *r, size_t *used);

typedef struct Journal Journal;

/*
 * Open (creating it when create is set and the directory is empty), lock the
 * directory against a second replicator, cut a torn tail.  *cluster receives
 * the cluster identity (random, 32 hex digits, made at creation).  NULL on
 * failure: *error then says why (static or malloc'ed once, never freed).
 */
extern Journal *journal_open(const char *dir, bool create, size_t segment_size,
							 char cluster[33], const char **error);

/*
 * The same for a journal that was copied here: what its group marks say was durable, was so on another
 * disk, so all of its last segment is brought to this one.
 */
extern Journal *journal_open_copy(const char *dir, size_t segment_size, char cluster[33], const char **error);

/*
 * The last journal_open() or journal_open_copy() of this thread has failed: is what the directory has damaged?  Otherwise it
 * could not be read or written now, and may be whole.
 */
extern bool journal_open_found_damage(void);
extern void journal_close(Journal *j);

/*
 * Create one for that cluster that begins with seq `first`, with this metadata at its head, in a
 * directory without a journal.  false: *error as above.
 */
extern bool journal_create(const char *dir, size_t segment_size, const char *cluster,
						   uint64_t first, LsSlice head, const char **error);

/*
 * The directory is, as far as can be known, not the one in which the journal was written: it is
 * a copy, perhaps an old one (journal_position.c).  journal_settle(): from now on it is the
 * right one; any thread; false: errno.
 */
extern bool journal_is_copy(const Journal *j);
extern bool journal_settle(const char *dir);

/* Its end: the last segment, by its name, and the bytes used in it. */
extern void journal_end(const Journal *j, uint64_t *segment, uint64_t *offset);

/* An identity for journal_create(); false: there are no random numbers. */
extern bool journal_new_cluster(char cluster[33]);
extern uint64_t journal_first(const Journal *j);	/* lowest seq it can
													 * replay; 1 when new */
extern uint64_t journal_last(const Journal *j); /* highest seq, 0 when none */

/*
 * Append encoded records (one writev per call, in order), then make them durable.  Seqs have no
 * gaps.  After a failed append the file is cut back to the last durable record, so that a retry
 * starts clean.  After a failed sync the state of the disk is unknown: every later call fails,
 * and the process has to start again.
 */
extern JournalStatus journal_append(Journal *j, const LsSlice *records, size_t n, uint64_t last_seq);
extern JournalStatus journal_sync(Journal *j);

/*
 * Create the next segment's file, if it will be needed soon: if there is no room for it, there
 * still is some for what has been decided.
 */
extern JournalStatus journal_prepare(Journal *j);
extern const char *journal_error(const Journal *j); /* of the last
													 * JOURNAL_ERROR */
extern bool journal_broken(const Journal *j);	/* trying again is of no use */

/* The transaction seq that has just been appended has this body: it goes when the
 * transaction is trimmed */
extern void journal_add_body(Journal *j, uint64_t seq, const BodyRef *body);

/* Calls add for each body of the journal's transactions. */
extern void journal_each_body(const Journal *j, void (*add) (uint64_t seq, const BodyRef *body));

/* Bytes of the bodies of transactions in [from, below). */
extern uint64_t journal_body_bytes(const Journal *j, uint64_t from, uint64_t below);

/* Delete whole segments of which every transaction has seq < keep_from. */
extern void journal_trim(Journal *j, uint64_t keep_from);

/*
 * Every current metadata record is repeated at the head of each new segment, so that trimming
 * never loses one; this sets what is repeated.
 */
extern void journal_set_metadata(Journal *j, const LsSlice *records, size_t n);

/* Is there no next segment to be prepared yet? */
extern bool journal_is_prepared(const Journal *j);

/* Will appending so many bytes begin a new segment? */
extern bool journal_begins_segment(const Journal *j, size_t size);

/*
 * Read from seq on, metadata records included: first those in the segment that contains seq,
 * from its beginning.  journal_read returns JOURNAL_OK and a record that is valid until the next
 * call, JOURNAL_END at the current end (call again later: it may have grown), or TORN / ERROR.
 *
 * A record can be read before it is durable.  A reader that acts on records sets a limit:
 * transactions with a higher seq, and what follows them, are hidden from it.
 */
typedef struct JournalReader JournalReader;

extern JournalReader *journal_reader_open(const char *dir, uint64_t from_seq, const char **error);

/* Before the first read: begin with the first transaction of the segment where
 * seq is. */
extern void journal_reader_rewind(JournalReader *r);
extern void journal_reader_limit(JournalReader *r, uint64_t last_seq);
extern JournalStatus journal_read(JournalReader *r, JournalRecord *record);
extern const char *journal_reader_error(const JournalReader *r);
extern void journal_reader_close(JournalReader *r);

/*
 * The chain at seq, which is in the journal or the one before its first; 0: it
 * was written before there were chains.  false: it can't be read, *error says why.
 */
extern bool journal_chain_at(const char *dir, uint64_t seq, uint64_t *chain, const char **error);

#endif							/* LOCKSTEP_JOURNAL_H */
