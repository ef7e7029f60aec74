/*
 * sequence_definition.c
 *	  The name and the definition of a sequence, from the catalogs.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_sequence.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "capture.h"
#include "keyset.h"
#include "qualifiedname.h"
#include "sequence_private.h"
#include "turn.h"

bool
sequence_is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId || ls_storage_is_new(rel);
}

char *
sequence_qualified_name(Relation rel)
{
	return qualified_name(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel));
}

/* ---------- before this transaction */

Snapshot
sequence_snapshot_before(void)
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

char *
sequence_schema_before(Oid namespace, Snapshot before)
{
	HeapTuple	tuple = find_by_oid(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid,
									namespace, before);

	return HeapTupleIsValid(tuple) ? pstrdup(NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname)) : NULL;
}

/* false: it was no sequence, or a temporary one. */
static bool
find_names(Oid relid, Snapshot before, char **schema, char **name)
{
	HeapTuple	tuple = find_by_oid(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid, before);
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	if (form->relkind != RELKIND_SEQUENCE || form->relpersistence == RELPERSISTENCE_TEMP)
		return false;
	*schema = sequence_schema_before(form->relnamespace, before);
	*name = pstrdup(NameStr(form->relname));
	return *schema != NULL;
}

char *
sequence_name_before(Oid relid, Snapshot before)
{
	char	   *schema;
	char	   *name;

	return find_names(relid, before, &schema, &name) ? qualified_name(schema, name) : NULL;
}

/*
 * Not from the caches: the turn is passed before a commit's invalidations are sent, and to rename a schema locks
 * none of its sequences.
 */
uint64
sequence_committed_name(Relation rel, char **name, LsKey *key)
{
	uint64		applied = turn_applied();
	Snapshot	before = sequence_snapshot_before();
	char	   *schema;
	char	   *relname;

	if (!find_names(RelationGetRelid(rel), before, &schema, &relname))
		elog(ERROR, "sequence %u is not there", RelationGetRelid(rel));
	UnregisterSnapshot(before);
	*name = qualified_name(schema, relname);
	*key = keyset_table_key(schema, relname, LS_TABLE_IX);
	key->seen = applied;
	return applied;
}

/* ---------- the definition */

static void
shape_of(HeapTuple tuple, SeqShape *shape)
{
	Form_pg_sequence form = (Form_pg_sequence) GETSTRUCT(tuple);

	shape->increment = form->seqincrement;
	shape->min = form->seqmin;
	shape->max = form->seqmax;
	shape->cache = form->seqcache;
	shape->cycle = form->seqcycle;
}

void
sequence_shape(Oid relid, SeqShape *shape)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", relid);
	shape_of(tuple, shape);
	ReleaseSysCache(tuple);
}

void
sequence_shape_before(Oid relid, Snapshot before, SeqShape *shape)
{
	HeapTuple	tuple = find_by_oid(SequenceRelationId, SequenceRelidIndexId, Anum_pg_sequence_seqrelid, relid, before);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "sequence %u was not there", relid);
	shape_of(tuple, shape);
}
