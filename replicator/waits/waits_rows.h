/*
 * waits_rows.h
 *	  The wait-for graph as rows of texts.  Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_WAITS_ROWS_H
#define LOCKSTEP_WAITS_ROWS_H

#include "conflict_log.h"
#include "waits.h"

#define WAIT_COLUMNS 13

extern const FactsColumn wait_columns[WAIT_COLUMNS];

/* Row 0 takes a new picture; cells are valid until the next call; false: no more. */
extern bool waits_row(size_t i, const char **cells);

extern int64_t wait_age_ms(const WaitEdge *e);	/* -1: not known */

#endif
