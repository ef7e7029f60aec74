/*
 * wholetables.c
 *	  Which tables does this transaction hold as a whole, by a lock asked first?
 *
 * Whoever asks for their rows waits for it, so it must not ask for rows of them
 * itself: it would wait for those who wait for it.  Tables beyond MAX_WHOLE are not
 * remembered, which costs no more than such a wait.
 */
#include "postgres.h"

#include "lockstep.h"
#include "wholetables.h"

#define MAX_WHOLE 64

static struct
{
	uint64		hash;
	uint64		asked;			/* by which lock message of the transaction */
}			whole[MAX_WHOLE];

static int	nwhole = 0;

void
wholetables_note(const LsKey *keys, int nkeys, uint64 asked)
{
	for (int i = 0; i < nkeys && nwhole < MAX_WHOLE; i++)
	{
		if (keys[i].mode != LS_TABLE_X || wholetables_has(keys[i].hash))
			continue;
		whole[nwhole].hash = keys[i].hash;
		whole[nwhole].asked = asked;
		nwhole++;
	}
}

bool
wholetables_has(uint64 hash)
{
	for (int i = 0; i < nwhole; i++)
	{
		if (whole[i].hash == hash)
			return true;
	}
	return false;
}

bool
wholetables_any(void)
{
	return nwhole > 0;
}

void
wholetables_keep(uint64 asked)
{
	while (nwhole > 0 && whole[nwhole - 1].asked > asked)
		nwhole--;
}
