/*
 * conflict_log.h
 *	  The last conflicts (loser, winner, reason), and their number by table.  Lost when
 *	  the replicator ends.  Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_CONFLICT_LOG_H
#define LOCKSTEP_CONFLICT_LOG_H

#include "buffer.h"
#include "config.h"
#include "protocol.h"

/* Texts may be NULL (not known); numbers 0. */
typedef struct Conflict
{
	uint64_t	time;			/* set by conflict_log_add */
	const char *database;
	const char *node;			/* who lost */
	uint32_t	pid;
	uint64_t	xcount;			/* number of its transaction; 0: none yet */
	const char *winner_node;
	uint32_t	winner_pid;
	uint64_t	winner_seq;		/* 0: not decided then */
	const char *reason;
	const char *sqlstate;
	LsSlice		key;			/* its name */
	uint64_t	row;			/* its hash, if it is a row's; 0: not known */
	bool		whole_table;	/* key is a table's */
	bool		queued;			/* it had asked for rows or tables first */
	const char *detail;
} Conflict;

/* Who won, and why; slices point into copy. */
typedef struct ConflictDetail
{
	Conflict	conflict;		/* but for the loser */
	char	   *detail;
	Buffer		copy;
} ConflictDetail;

extern void conflict_detail_free(ConflictDetail *w);

extern void conflict_log_init(const Config *config);	/* again: after a reload */
extern void conflict_log_add(const Conflict *c);	/* copies; logs it */

/*
 * Tables of texts, for SQL and for lockstepctl.  Cells are valid until the next
 * call in here; NULL: not known.
 */
typedef struct FactsColumn
{
	const char *name;
	bool		number;
} FactsColumn;

#define CONFLICT_COLUMNS 14
#define CONFLICT_COUNT_COLUMNS 5
#define FACTS_MAX_COLUMNS 14

extern const FactsColumn conflict_columns[CONFLICT_COLUMNS];
extern const FactsColumn conflict_count_columns[CONFLICT_COUNT_COLUMNS];

extern bool conflict_log_row(size_t i, const char **cells); /* 0: the latest; false:
															 * no more */
extern bool conflict_count_row(size_t i, const char **cells);

#endif
