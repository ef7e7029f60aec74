/*
 * heldlocks.h
 *	  The replicator's locks that the current transaction requested before it went on: of
 *	  single rows, and of whole tables.
 */
#ifndef LOCKSTEP_HELDLOCKS_H
#define LOCKSTEP_HELDLOCKS_H

#include "protocol.h"

/* Requested one by one: rows, and tables that are requested in place of rows. */
extern void heldlocks_note_rows(const LsKey *keys, int n);
extern bool heldlocks_has_row(uint64 hash);
extern int	heldlocks_rows(void);
extern int	heldlocks_rows_total(void); /* including those given back */

/* Granted by the asked-th lock message: those that are tables in mode X. */
extern void heldlocks_note_tables(const LsKey *keys, int nkeys, uint64 asked);
extern bool heldlocks_has_table(uint64 hash);
extern bool heldlocks_any_table(void);

/* Keep the first rows, and what the first lock messages asked for; the rest is given back. */
extern void heldlocks_cut(int rows, uint64 asked);
extern void heldlocks_at_xact_end(void);

#endif							/* LOCKSTEP_HELDLOCKS_H */
