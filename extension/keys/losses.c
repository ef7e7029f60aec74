/*
 * losses.c
 *	  What this session remembers of transactions that it has lost in a row: how
 *	  many, and the tables that they used.
 *
 * lockorder.c has a session that loses too often lock these rows or tables first.
 * A transaction that commits ends the row.
 */
#include "postgres.h"

#include "guc.h"
#include "keyset.h"
#include "lockstep.h"
#include "losses.h"
#include "turn.h"

static int	conflicts = 0;		/* lost in a row */

static struct
{
	uint64		hash;
	LsKeyMode	mode;			/* X, or S if it was only read */
	char		name[2 * NAMEDATALEN];
}			used[LOSSES_MAX_TABLES];

static int	nused = 0;

void
losses_note_conflict(void)
{
	conflicts++;
}

void
losses_note_commit(void)
{
	conflicts = 0;
}

int
losses_in_a_row(void)
{
	return conflicts;
}

void
losses_at_xact_end(void)
{
	if (conflicts == 0)
		nused = 0;
}

void
losses_note_table(uint64 hash, const char *name, LsKeyMode mode)
{
	if (ls_queue_after == 0)
		return;
	for (int i = 0; i < nused; i++)
	{
		if (used[i].hash == hash)
		{
			if (mode == LS_TABLE_X)
				used[i].mode = mode;
			return;
		}
	}
	if (nused == LOSSES_MAX_TABLES)
		return;
	used[nused].hash = hash;
	used[nused].mode = mode;
	strlcpy(used[nused].name, name, sizeof(used[nused].name));
	nused++;
}

int
losses_tables(LsKey *keys)
{
	for (int i = 0; i < nused; i++)
		keys[i] = (LsKey) {used[i].hash, turn_applied(), used[i].mode, ls_slice_of(used[i].name)};
	return nused;
}
