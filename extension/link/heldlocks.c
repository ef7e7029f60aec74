/*
 * heldlocks.c
 *	  Which of the replicator's locks does the current transaction hold?
 *
 * It must not request the same row twice, nor a row of a table that it holds as a whole:
 * others that requested rows of that table wait for this transaction, so it would wait
 * for transactions that wait for it.
 *
 * Both lists are bounded.  A row beyond MAX_ROWS may be requested again, and a table beyond
 * MAX_TABLES row by row, which costs a wait but breaks nothing.
 */
#include "postgres.h"

#include "heldlocks.h"
#include "lockstep.h"

#define MAX_ROWS 64
#define MAX_TABLES 64

typedef struct HeldTable
{
	uint64		hash;
	uint64		asked;			/* by which lock message of the transaction */
} HeldTable;

static uint64 rows[MAX_ROWS];	/* hashes */
static int	nrows = 0;
static int	rows_total = 0;		/* in this transaction, given back or not */

static HeldTable tables[MAX_TABLES];
static int	ntables = 0;

void
heldlocks_note_rows(const LsKey *keys, int n)
{
	for (int i = 0; i < n && nrows < MAX_ROWS; i++)
		rows[nrows++] = keys[i].hash;
	rows_total += n;
}

bool
heldlocks_has_row(uint64 hash)
{
	for (int i = 0; i < nrows; i++)
		if (rows[i] == hash)
			return true;
	return false;
}

int
heldlocks_rows(void)
{
	return nrows;
}

int
heldlocks_rows_total(void)
{
	return rows_total;
}

void
heldlocks_note_tables(const LsKey *keys, int nkeys, uint64 asked)
{
	for (int i = 0; i < nkeys && ntables < MAX_TABLES; i++)
	{
		if (keys[i].mode == LS_TABLE_X && !heldlocks_has_table(keys[i].hash))
			tables[ntables++] = (HeldTable) {keys[i].hash, asked};
	}
}

bool
heldlocks_has_table(uint64 hash)
{
	for (int i = 0; i < ntables; i++)
		if (tables[i].hash == hash)
			return true;
	return false;
}

bool
heldlocks_any_table(void)
{
	return ntables > 0;
}

void
heldlocks_cut(int rows_kept, uint64 asked)
{
	nrows = Min(nrows, rows_kept);
	while (ntables > 0 && tables[ntables - 1].asked > asked)
		ntables--;
}

void
heldlocks_at_xact_end(void)
{
	heldlocks_cut(0, 0);
	rows_total = 0;
}
