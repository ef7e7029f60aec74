/*
 * sequence_commit.c
 *	  Sequences at the end of a transaction: what is forwarded, and what happens in the turn.
 *
 * A position travels as a query: see sequence_effect.c.  Where it runs, the sequence is found
 * and locked; the page is changed in the turn, so that all nodes change it in the same order.
 *
 * Effects of DDL on sequences are not derived from commands: each sequence whose row in pg_class
 * has changed is compared with its state before this transaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "capture.h"
#include "compat.h"
#include "growing.h"
#include "keyset.h"
#include "lockstep.h"
#include "qualifiedname.h"
#include "sequence_private.h"
#include "turn.h"
#include "xact.h"

/* To be done in the turn; in TopMemoryContext. */
typedef enum TurnAction
{
	TURN_USED,
	TURN_SET,
	TURN_ALTERED,
	TURN_RENAMED
} TurnAction;

typedef struct InTurn
{
	TurnAction	action;
	Oid			relid;
	SeqPosition position;
	uint64		boot;
	uint64		count;
} InTurn;

static InTurn *in_turn = NULL;
static int	nin_turn = 0;
static int	max_in_turn = 0;

static void
add_in_turn(TurnAction action, Oid relid, SeqPosition position, uint64 boot, uint64 count)
{
	InTurn	   *what;

	in_turn = ls_with_room(in_turn, nin_turn, &max_in_turn, sizeof(InTurn));
	what = &in_turn[nin_turn++];
	what->action = action;
	what->relid = relid;
	what->position = position;
	what->boot = boot;
	what->count = count;
}

/* ---------- before the question: values that this transaction has used */

static void
forward_effect(const char *effect, const char *name, SeqPosition position,
			   const char *extra, const LsKey *key)
{
	LsQuery		query;

	sequence_effect_query(&query, effect, name, position, extra, key);
	xact_forward(&query);
}

static void
forward_used(void)
{
	int			n;
	const SeqUsed *used = sequence_used(&n);
	int			i;

	for (i = 0; i < n; i++)
	{
		Relation	rel = try_relation_open(used[i].relid, NoLock);
		SeqPosition position = {used[i].value, true};
		uint64		seen = turn_applied();	/* before the generation is read */
		SeqShape	shape;
		LsKey		key;

		if (rel == NULL)
			continue;			/* dropped by us */
		if (sequence_is_new(rel) || sequence_shared_generation(rel) != used[i].generation)
		{
			/* set since then */
			relation_close(rel, NoLock);
			continue;
		}
		key = keyset_relation_key(rel, LS_TABLE_IX);
		key.seen = seen;
		sequence_shape(used[i].relid, &shape);
		forward_effect("used", sequence_qualified_name(rel), position,
					   sequence_used_extra(used[i].count, shape.increment, shape.cycle), &key);
		add_in_turn(TURN_USED, used[i].relid, position, turn_boot_id(), used[i].count);
		relation_close(rel, NoLock);
	}
}

/* ---------- before the question: what DDL did */

/*
 * Names may be exchanged, or that of a dropped sequence taken.  So all names are left before any is taken: by way of one
 * that nothing can have, as its schema's name is empty.
 */
typedef enum NamePhase
{
	LEAVE_NAMES,
	TAKE_NAMES
} NamePhase;

static char *
name_between(Oid relid)
{
	return psprintf("\"\".\"%u\"", relid);
}

/* As it was: the leases are of that time. */
static const char *
where_it_goes(Oid relid, Snapshot before)
{
	SeqShape	shape;

	sequence_shape_before(relid, before, &shape);
	return sequence_direction(shape.increment, shape.cycle);
}

static void
forward_touched(Oid relid, Snapshot before, NamePhase phase)
{
	char	   *old = sequence_name_before(relid, before);
	Relation	rel = get_rel_relkind(relid) == RELKIND_SEQUENCE ? try_relation_open(relid, AccessShareLock) : NULL;
	bool		gone = rel == NULL || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
	char	   *name = gone ? NULL : sequence_qualified_name(rel);
	bool		renamed = old != NULL && (gone || strcmp(old, name) != 0);
	SeqPosition nothing = {0, false};

	if (phase == LEAVE_NAMES && renamed)
	{
		if (gone || (sequence_is_new(rel) && !sequence_goes_on(rel)))
			forward_effect("dropped", old, nothing, "", NULL);
		else
			forward_effect("moved", old, nothing, name_between(relid), NULL);
	}
	else if (phase == TAKE_NAMES && !gone && (renamed || sequence_is_new(rel)))
	{
		if (renamed && (!sequence_is_new(rel) || sequence_goes_on(rel)))
		{
			LsKey		key = keyset_relation_key(rel, LS_TABLE_IX);

			forward_effect("moved", name_between(relid), nothing, name, &key);
		}
		if (sequence_is_new(rel))
			forward_effect("set", name, sequence_page_read(rel), sequence_goes_on(rel) ? where_it_goes(relid, before) : "", NULL);
		/* values that were handed out before must not be reported afterwards */
		add_in_turn(TURN_RENAMED, relid, nothing, 0, 0);
	}
	if (rel != NULL)
		relation_close(rel, NoLock);
}

/* Sequences in schemas that were renamed. */
static List *
in_renamed_schemas(Snapshot before)
{
	Relation	classes = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(classes, InvalidOid, false, NULL, 0, NULL);
	List	   *relids = NIL;
	HeapTuple	tuple;
	Oid			namespace = InvalidOid;
	bool		renamed = false;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relkind != RELKIND_SEQUENCE || form->relpersistence == RELPERSISTENCE_TEMP)
			continue;
		if (form->relnamespace != namespace)
		{
			char	   *old = sequence_schema_before(form->relnamespace, before);
			char	   *new = get_namespace_name(form->relnamespace);

			namespace = form->relnamespace;
			renamed = old != NULL && new != NULL && strcmp(old, new) != 0;
		}
		if (renamed)
			relids = lappend_oid(relids, form->oid);
	}
	systable_endscan(scan);
	table_close(classes, AccessShareLock);
	return relids;
}

static void
forward_ddl(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;
	bool		schemas = false;
	int			n;
	List	   *relids = NIL;
	ListCell   *lc;
	Snapshot	before;

	CommandCounterIncrement();
	n = xactGetCommittedInvalidationMessages(&messages, &init_file);
	for (int i = 0; i < n; i++)
	{
		if (messages[i].id == SHAREDINVALRELCACHE_ID && messages[i].rc.dbId == MyDatabaseId &&
			OidIsValid(messages[i].rc.relId))
			relids = lappend_oid(relids, messages[i].rc.relId);
		else if (messages[i].id == NAMESPACEOID)
			schemas = true;
	}
	before = sequence_snapshot_before();
	if (schemas)
		relids = list_concat(relids, in_renamed_schemas(before));
	list_sort(relids, list_oid_cmp);
	list_deduplicate_oid(relids);
	foreach(lc, relids)
		forward_touched(lfirst_oid(lc), before, LEAVE_NAMES);
	foreach(lc, relids)
		forward_touched(lfirst_oid(lc), before, TAKE_NAMES);
	UnregisterSnapshot(before);
	list_free(relids);
}

/*
 * A transaction that only used values asks for no verdict: the replicator fetches the position
 * later.
 */
void
sequence_before_commit(void)
{
	if (xact_nstatements() == 0)
		return;
	nin_turn = 0;
	forward_used();
	if (walwitness_has_commands())
		forward_ddl();
}

/* ---------- where it is applied */

static Oid
lookup_and_lock(const char *name)
{
	List	   *names = ls_qualified_names(name);

	return RangeVarGetRelid(makeRangeVarFromNameList(names), RowExclusiveLock, true);
}

void
sequence_apply(const char *effect, const char *name, int64 value, bool called, const char *extra)
{
	TurnAction	action;
	SeqPosition position = {value, called};
	uint64		boot = 0;
	uint64		count = 0;
	char	   *end;
	Oid			relid;

	if (strcmp(effect, "dropped") == 0)
		return;
	if (strcmp(effect, "moved") == 0)
	{
		action = TURN_RENAMED;
		name = extra;
	}
	else if (strcmp(effect, "set") == 0)
		action = extra[0] == '\0' ? TURN_SET : TURN_ALTERED;
	else if (strcmp(effect, "used") == 0)
	{
		action = TURN_USED;
		boot = strtou64(extra, &end, 10);
		count = *end == ':' ? strtou64(end + 1, NULL, 10) : 0;
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown effect on a sequence: %s", effect)));
	relid = lookup_and_lock(name);
	if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_SEQUENCE)
		add_in_turn(action, relid, position, boot, count);
}

static void
do_in_turn(const InTurn *what)
{
	Relation	rel = try_relation_open(what->relid, NoLock);
	SeqShape	shape;

	if (rel == NULL)
		return;
	switch (what->action)
	{
		case TURN_USED:
			sequence_shape(what->relid, &shape);
			sequence_shared_ordered(rel, &shape, what->position.value, what->boot, what->count);
			break;
		case TURN_SET:
			sequence_shared_set(rel, what->position);
			break;
		case TURN_ALTERED:
			sequence_shared_altered(rel, what->position);
			break;
		case TURN_RENAMED:
			sequence_shared_renamed(rel);
			break;
	}
	relation_close(rel, NoLock);
}

void
sequence_in_turn(void)
{
	int			i;

	for (i = 0; i < nin_turn; i++)
		do_in_turn(&in_turn[i]);
	nin_turn = 0;
}

void
sequence_at_xact_end(void)
{
	nin_turn = 0;
	sequence_forget_used();
	sequence_forget_restarts();
}
