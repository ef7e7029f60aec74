/*
 * losses.h
 *	  What this session remembers of transactions that it has lost in a row.
 */
#ifndef LOCKSTEP_LOSSES_H
#define LOCKSTEP_LOSSES_H

#include "protocol.h"

extern void losses_note_conflict(void); /* the session got a 40001 or 40P01 */
extern void losses_note_commit(void);	/* it got through */
extern int	losses_in_a_row(void);

/*
 * The current transaction writes this table (mode LS_TABLE_X) or has read it
 * (LS_TABLE_S).  Cheap when repeated; beyond LOSSES_MAX_TABLES a table is not remembered.
 */
#define LOSSES_MAX_TABLES 16
extern void losses_note_table(uint64 hash, const char *name, LsKeyMode mode);

/*
 * Table keys of what the lost transactions and the current one have used, as of now;
 * keys: LOSSES_MAX_TABLES of them.  Returns their number.  Names are valid until
 * the end of the transaction.
 */
extern int	losses_tables(LsKey *keys);

extern void losses_at_xact_end(void);

#endif							/* LOCKSTEP_LOSSES_H */
