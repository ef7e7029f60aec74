/*
 * sequence_effect.c
 *	  The position of a sequence, as a query for the other nodes.
 *
 * It calls lockstep.apply_sequence(effect, name, value, called, extra), in one of these forms:
 *
 *  used		values up to this one were handed out.  extra: boot:count of the node, and where the
 *			sequence goes, which the replicator compares with where it was set
 *  set		the position is exactly this: setval, or new storage.  extra, where the sequence was
 *			altered and goes on: up, down or cycle.  Values beyond this one may be leased then
 *  moved		extra is the new name, key that of its table
 *  dropped
 *
 * The replicator takes note of them, too (replicator/sequencer/lease.c).
 */
#include "postgres.h"

#include "keyset.h"
#include "lockstep.h"
#include "pack.h"
#include "sequence_private.h"
#include "turn.h"

static const char effect_text[] = "SELECT lockstep.apply_sequence($1, $2, $3, $4, $5)";

const char *
sequence_direction(int64 increment, bool cycle)
{
	return cycle ? "cycle" : increment > 0 ? "up" : "down";
}

/* palloc'ed */
char *
sequence_used_extra(uint64 count, int64 increment, bool cycle)
{
	return psprintf(UINT64_FORMAT ":" UINT64_FORMAT ":%s", turn_boot_id(), count, sequence_direction(increment, cycle));
}

/* Its parts are palloc'ed. */
void
sequence_effect_query(LsQuery *query, const char *effect, const char *name,
					  SeqPosition position, const char *extra, const LsKey *key)
{
	LsKey		database = keyset_database_key(LS_TABLE_IX);
	char	   *value = psprintf(INT64_FORMAT, position.value);
	StringInfoData params;
	StringInfoData keys;

	initStringInfo(&params);
	pack_param(&params, effect, strlen(effect));
	pack_param(&params, name, strlen(name));
	pack_param(&params, value, strlen(value));
	pack_param(&params, position.called ? "t" : "f", 1);
	pack_param(&params, extra, strlen(extra));
	initStringInfo(&keys);
	pack_key(&keys, &database);
	if (key != NULL)
		pack_key(&keys, key);

	memset(query, 0, sizeof(*query));
	query->form = LS_FORM_STATEMENT;
	query->reason = LS_REASON_SEQUENCE;
	query->rows = -1;
	query->text = ls_slice_of(effect_text);
	query->nparams = 5;
	query->params = ls_slice_of_buffer(&params);
	query->nkeys = key != NULL ? 2 : 1;
	query->keys = ls_slice_of_buffer(&keys);
}
