/*
 * transaction.h
 *	  A transaction in the replicator: its queue of queries, its state, and the
 *	  one function that moves it.  Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_TRANSACTION_H
#define LOCKSTEP_TRANSACTION_H

#include "buffer.h"
#include "protocol.h"

struct Session;

typedef enum TxState
{
	TX_QUEUED,					/* statements arrive; nothing ordered yet */
	TX_WAITING,					/* asked; a lock asked first by another node
								 * is in the way */
	TX_RESERVED,				/* has a ticket, holds its keys; executing on
								 * peers */
	TX_DECIDED,					/* has a seq; its journal record is being made
								 * durable */
	TX_DURABLE,					/* verdict sent; peers commit it in seq order */
	TX_DONE,					/* applied by every online node */
	TX_ROLLED_BACK				/* never decided: nothing of it remains
								 * anywhere */
} TxState;

typedef struct Transaction
{
	TxState		state;
	int			refs;			/* session, sequencer, each node's use of it */
	struct Session *session;	/* NULL once the session is gone */
	uint32_t	origin;			/* index of the node it came from */
	char	   *node;			/* identity: copies, owned */
	char	   *database;
	uint64_t	boot;
	uint32_t	pid;
	uint64_t	xcount;
	Buffer		queries;		/* 'Q' messages one after the other */
	size_t	   *offsets;		/* of each statement in queries */
	size_t		nstatements;
	size_t		offsets_cap;
	bool		ddl;			/* a statement changes catalogs; kept by
								 * tx_append() and tx_rollback_to() */
	LsCommitWait wait;
	uint64_t	ticket;			/* 0 before RESERVED */
	uint64_t	lock_ticket;	/* of locks asked first, 0 = none */
	uint64_t	seq;			/* 0 before DECIDED */
	uint64_t	depends_on;		/* highest seq a node must have applied before
								 * it */
	uint64_t   *after_tickets;	/* same-origin reserved ones to be decided or
								 * gone first */
	size_t		nafter_tickets;
	uint64_t	executing;		/* bit per node: must execute it before it is
								 * decided */
	uint64_t	applying;		/* bit per node: was given it and has not
								 * applied it */
	bool		awaits_lock;	/* QUEUED, and a lock asked first is not
								 * granted yet */
	uint64_t	oldest_seen;	/* lowest S of its keys so far, UINT64_MAX =
								 * none */
	struct Work *works;			/* on nodes that were given it, see dispatch.h */
	struct Transaction *prev;	/* list of the owner of the state */
	struct Transaction *next;
} Transaction;

extern Transaction *tx_create(const LsIdentity *id, LsSlice database, uint32_t origin);
extern Transaction *tx_ref(Transaction *tx);
extern void tx_unref(Transaction *tx);
extern const char *tx_state_name(TxState s);
extern void tx_move(Transaction *tx, TxState to);	/* the table of legal
													 * moves is in
													 * transaction.c */
extern void tx_append(Transaction *tx, const uint8_t *message, size_t len); /* a whole 'Q' message */
extern bool tx_rollback_to(Transaction *tx, uint64_t keep); /* false: keep >
															 * nstatements */
extern LsSlice tx_statement(const Transaction *tx, size_t i);	/* payload of the i-th
																 * 'Q' */

/* A query's text for a message: in one line, cut after a character (malloc'ed). */
extern char *tx_shown_text(LsSlice query);

/* A decided transaction as the journal has it (catchup): state TX_DURABLE.  NULL
 * when the record's queries are malformed. */
struct JournalRecord;
extern Transaction *tx_from_record(const struct JournalRecord *r, uint32_t origin);

#endif
