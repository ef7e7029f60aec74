/*
 * in_sync.c
 *	  Which members of a group are to be put in sync, and which are to be taken out: see in_sync.h.
 */
#include "in_sync.h"

#include <string.h>

#include "copies.h"
#include "log.h"
#include "monotonic.h"

#define SLOW_MS 10000			/* until one that was too slow is tried again;
								 * doubles ... */
#define SLOW_MAX_MS 600000		/* ... up to that */

static const Config *config;
static const GroupKey *key;

/* A standby that was too slow to be put in sync: writers are not made to wait for it again at once. */
static struct
{
	int64_t		until_ms;
	int			pause_ms;
}			slow[CONFIG_MAX_REPLICATORS];

void
in_sync_begin(const Config *c, const GroupKey *k)
{
	config = c;
	key = k;
}

bool
in_sync_is_self(int i)
{
	return strcmp(config->replicators[i].name, config->replicator_name) == 0;
}

bool
in_sync_has(int i)
{
	return group_key_has(key, config->replicators[i].name);
}

/* Has that standby everything, and can it get everything, but is not in sync? */
static bool
is_candidate(int i, const CopyView *v)
{
	return !in_sync_is_self(i) && !in_sync_has(i) && v->connected && v->live && v->bodies && v->silent_ms < IN_SYNC_SILENT_MS;
}

/*
 * One that is; one whose disk has room, if there is one, and of these the preferred one.  -1: none.
 * writers_run: they would have to wait for one that is slow.
 */
int
in_sync_candidate(int preferred, bool writers_run, bool *has_room)
{
	int			found = -1;

	*has_room = false;
	for (int i = 0; i < config->nreplicators; i++)
	{
		CopyView	v;
		bool		fits;

		copies_look(i, &v);
		fits = copies_has_room(&v);
		if (!is_candidate(i, &v) || (writers_run && monotonic_ms() < slow[i].until_ms) || (found >= 0 && (!fits || (*has_room && i != preferred))))
			continue;
		found = i;
		*has_room = fits;
		if (fits && i == preferred)
			break;
	}
	return found;
}

/* In sync, connected, and its disk is full; -1: none. */
int
in_sync_full(void)
{
	for (int i = 0; i < config->nreplicators; i++)
	{
		CopyView	v;

		copies_look(i, &v);
		if (!in_sync_is_self(i) && in_sync_has(i) && v.connected && v.live && !copies_has_room(&v))
			return i;
	}
	return -1;
}

/* In sync, and in the place of the preferred one; -1: none. */
int
in_sync_other(void)
{
	for (int i = 0; i < config->nreplicators; i++)
	{
		if (!in_sync_is_self(i) && in_sync_has(i))
			return i;
	}
	return -1;
}

/*
 * In sync, and silent, or connected and without the journal that it had (*anew), as its disk was lost;
 * -1: none.
 */
int
in_sync_lost(bool *anew)
{
	for (int i = 0; i < config->nreplicators; i++)
	{
		CopyView	v;

		copies_look(i, &v);
		*anew = v.connected && v.anew && !v.live;
		if (!in_sync_is_self(i) && in_sync_has(i) && (v.silent_ms >= IN_SYNC_SILENT_MS || *anew))
			return i;
	}
	return -1;
}

void
in_sync_put_off(int i)
{
	if (monotonic_ms() < slow[i].until_ms)
		return;					/* writers waited already */
	slow[i].pause_ms = slow[i].pause_ms == 0 ? SLOW_MS : slow[i].pause_ms < SLOW_MAX_MS / 2 ? slow[i].pause_ms * 2 : SLOW_MAX_MS;
	slow[i].until_ms = monotonic_ms() + slow[i].pause_ms;
	log_message(LOG_WARNING, "group", "replicator \"%s\" is not put in sync: it did not have everything on its disk within %d ms; tried again in %d s",
				config->replicators[i].name, IN_SYNC_SILENT_MS, slow[i].pause_ms / 1000);
}

void
in_sync_is_fast(int i)
{
	slow[i].pause_ms = 0;
}
