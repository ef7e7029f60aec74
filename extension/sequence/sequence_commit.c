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
#include "keyset.h"
#include "lockstep.h"
#include "sequence_private.h"
#include "turn.h"
#include "xact.h"

/* To be done in the turn; in TopMemoryContext. */
typedef enum TurnAction
{
	TURN_USED,
	TURN_SET,
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

	if (nin_turn == max_in_turn)
	{
		max_in_turn = Max(16, max_in_turn * 2);
		in_turn = in_turn == NULL ? MemoryContextAlloc(TopMemoryContext, max_in_turn * sizeof(InTurn)) :
			repalloc(in_turn, max_in_turn * sizeof(InTurn));
	}
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
		LsKey		key;

		if (rel == NULL)
			continue;			/* dropped by us */
		if (sequence_is_new(rel) || sequence_shared_generation(rel) != used[i].generation)
		{
			/* set since then */
			relation_close(rel, NoLock);
			continue;
		}
		key = keyset_table_key(get_namespace_name(RelationGetNamespace(rel)),
							   RelationGetRelationName(rel), LS_TABLE_IX);
		forward_effect("used", sequence_qualified_name(rel), position,
					   psprintf(UINT64_FORMAT ":" UINT64_FORMAT, turn_boot_id(), used[i].count), &key);
		add_in_turn(TURN_USED, used[i].relid, position, turn_boot_id(), used[i].count);
		relation_close(rel, NoLock);
	}
}

/* ---------- before the question: what DDL did */

/* The state before the transaction: its own changes are not visible. */
static Snapshot
snapshot_before(void)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	snapshot->curcid = FirstCommandId;
	return snapshot;
}

static HeapTuple
find_by_oid(Oid catalog, Oid index, AttrNumber column, Oid oid, Snapshot snapshot)
{
	Relation	rel = table_open(catalog, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(rel, index, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tuple;
}

static char *
schema_before(Oid namespace, Snapshot before)
{
	HeapTuple	tuple = find_by_oid(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid,
									namespace, before);

	return HeapTupleIsValid(tuple) ? pstrdup(NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname)) : NULL;
}

/* The name before the transaction; NULL: it was no sequence, or a temporary one. */
static char *
name_before(Oid relid, Snapshot before)
{
	HeapTuple	tuple = find_by_oid(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid, before);
	Form_pg_class form;
	char	   *schema;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relkind != RELKIND_SEQUENCE || form->relpersistence == RELPERSISTENCE_TEMP)
		return NULL;
	schema = schema_before(form->relnamespace, before);
	return schema != NULL ? quote_qualified_identifier(schema, NameStr(form->relname)) : NULL;
}

static void
forward_touched(Oid relid, Snapshot before)
{
	char	   *old = name_before(relid, before);
	Relation	rel = get_rel_relkind(relid) == RELKIND_SEQUENCE ? try_relation_open(relid, AccessShareLock) : NULL;
	SeqPosition nothing = {0, false};
	char	   *name;

	if (rel == NULL || rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
	{
		if (old != NULL)
			forward_effect("dropped", old, nothing, "", NULL);
		if (rel != NULL)
			relation_close(rel, NoLock);
		return;
	}
	name = sequence_qualified_name(rel);
	if (sequence_is_new(rel))
	{
		if (old != NULL && strcmp(old, name) != 0)
			forward_effect("dropped", old, nothing, "", NULL);
		forward_effect("set", name, sequence_page_read(rel), "", NULL);
		/* values that were handed out before must not be reported afterwards */
		add_in_turn(TURN_RENAMED, relid, nothing, 0, 0);
	}
	else if (old != NULL && strcmp(old, name) != 0)
	{
		forward_effect("moved", old, nothing, name, NULL);
		add_in_turn(TURN_RENAMED, relid, nothing, 0, 0);
	}
	relation_close(rel, NoLock);
}

/* Sequences in schemas that were renamed. */
static void
forward_moved_schemas(Snapshot before)
{
	Relation	classes = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(classes, InvalidOid, false, NULL, 0, NULL);
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
			char	   *old = schema_before(form->relnamespace, before);
			char	   *new = get_namespace_name(form->relnamespace);

			namespace = form->relnamespace;
			renamed = old != NULL && new != NULL && strcmp(old, new) != 0;
		}
		if (renamed)
			forward_touched(form->oid, before);
	}
	systable_endscan(scan);
	table_close(classes, AccessShareLock);
}

static void
forward_ddl(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;
	bool		schemas = false;
	int			n;
	int			nrelids = 0;
	Oid		   *relids;
	Snapshot	before;
	int			i;

	CommandCounterIncrement();
	n = xactGetCommittedInvalidationMessages(&messages, &init_file);
	relids = palloc(Max(n, 1) * sizeof(Oid));
	for (i = 0; i < n; i++)
	{
		if (messages[i].id == SHAREDINVALRELCACHE_ID && messages[i].rc.dbId == MyDatabaseId &&
			OidIsValid(messages[i].rc.relId))
			relids[nrelids++] = messages[i].rc.relId;
		else if (messages[i].id == NAMESPACEOID)
			schemas = true;
	}
	qsort(relids, nrelids, sizeof(Oid), oid_cmp);
	before = snapshot_before();
	for (i = 0; i < nrelids; i++)
	{
		if (i == 0 || relids[i] != relids[i - 1])
			forward_touched(relids[i], before);
	}
	if (schemas)
		forward_moved_schemas(before);
	UnregisterSnapshot(before);
	pfree(relids);
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
		action = TURN_SET;
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
}
