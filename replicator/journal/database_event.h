/*
 * database_event.h
 *	  What SQL commands did to the list of replicated databases, in the order of the journal.
 *	  Belongs to the loop's thread, but for the parser, which is pure.
 *
 * CREATE DATABASE takes a number, which the database has for its life: a part of its OID on every
 * node.  So a node's databases can be compared with the journal, whatever became of their names.
 *
 *	 PLANNED	nodes may have made it; it is not replicated
 *	 CREATED	all that were online have it
 *	 RENAMED	ALTER DATABASE ... RENAME is decided
 *	 REMOVED	DROP DATABASE is decided.  number 0: it came by lockstepctl database add
 *
 * An event has the seq of the last transaction before it.  A node performs it when it has applied
 * that one, and no other.
 */
#ifndef LOCKSTEP_DATABASE_EVENT_H
#define LOCKSTEP_DATABASE_EVENT_H

#include "protocol.h"

typedef enum DatabaseEventKind
{
	DATABASE_PLANNED = 'p',
	DATABASE_CREATED = 'c',
	DATABASE_RENAMED = 'n',
	DATABASE_REMOVED = 'r'
} DatabaseEventKind;

typedef struct DatabaseEvent DatabaseEvent;

struct DatabaseEvent
{
	DatabaseEventKind kind;
	uint64_t	number;
	uint64_t	seq;
	uint64_t	order;			/* ascending, in this process */
	char	   *name;			/* of RENAMED: the new one */
	char	   *command;		/* CREATE DATABASE, without the OID; of
								 * RENAMED: the old name; "" of a removal */
	char	   *fingerprint;	/* of CREATED: what it held; of RENAMED: its
								 * ordinal; else "" */
};

/* The text of a record (malloc'ed), and its parts. */
typedef struct DatabaseEventText
{
	DatabaseEventKind kind;
	uint64_t	number;
	LsSlice		name;
	LsSlice		command;
	LsSlice		fingerprint;
} DatabaseEventText;

extern char *database_event_text(DatabaseEventKind kind, uint64_t number, const char *name,
								 const char *command, const char *fingerprint);
extern bool database_event_parse(LsSlice text, DatabaseEventText *e);	/* false: malformed */
extern const char *database_event_word(DatabaseEventKind kind);

/* One that is in the journal; the same again is ignored (NULL). */
extern const DatabaseEvent *database_event_add(uint64_t seq, LsSlice text);

/* In the order of the journal.  A pointer is valid until the next call that changes them. */
extern int	database_events_count(void);
extern const DatabaseEvent *database_event_at(int i);
extern const DatabaseEvent *database_event_find(DatabaseEventKind kind, uint64_t number);

/* The same again: it has been added. */
extern bool database_event_is_known(uint64_t seq, LsSlice text);

/* Has it, or had it once, that name? */
extern bool database_event_had_name(uint64_t number, const char *name);

/* Had a database with a number that name at that seq, and has another one since? */
extern bool database_event_was_name(const char *name, uint64_t seq);

/* The seq at which it got its name. */
extern uint64_t database_event_named_at(uint64_t number);

/* Its last RENAMED; NULL: it was never renamed.  The ordinal of the next one. */
extern const DatabaseEvent *database_event_last_renaming(uint64_t number);
extern uint64_t database_event_next_renaming(uint64_t number);

/*
 * The name of a database on a node that has applied so far, where it is called `name` now.
 * *renamed_at: not 0 if the node has yet to rename it, which stands at that seq.  NULL: it has
 * the right one.  Else the one that it should have.
 */
extern const char *database_event_misnamed(uint64_t number, const char *name, uint64_t applied, uint64_t *renamed_at);

/* Behind that one (0: from the beginning) the first with that seq or a higher one; NULL: none. */
extern const DatabaseEvent *database_event_next(uint64_t order, uint64_t seq);

/* Nodes that have applied less than seq are of no interest any more. */
extern void database_events_forget(uint64_t seq);

/* lockstepctl database drop has ended what CREATE DATABASE began: nothing of it is to be done again. */
extern void database_event_withdraw(uint64_t number);

/*
 * The same of removals of databases of that name without a number, as another one gets it, which nodes
 * could not tell from those.  The seq of the last one; 0: none.
 */
extern uint64_t database_event_withdraw_removals(LsSlice name);

extern uint64_t database_new_number(void);

/*
 * OIDs.  A command that a crash has stopped may leave files, which PostgreSQL does not overwrite:
 * so each attempt takes another one of those that the number has.
 */
#define DATABASE_MAX_NUMBER ((UINT64_C(1) << 25) - 1)
extern uint32_t database_new_oid(uint64_t number);
extern uint64_t database_number_of(uint32_t oid);	/* 0: it has none */

#endif
