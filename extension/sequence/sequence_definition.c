/*
 * sequence_definition.c
 *	  The name and the definition of a sequence, from the catalogs.
 */
#include "postgres.h"

#include "catalog/pg_sequence.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "capture.h"
#include "sequence_private.h"

bool
sequence_is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId || ls_storage_is_new(rel);
}

char *
sequence_qualified_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

void
sequence_shape(Oid relid, SeqShape *shape)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(relid));
	Form_pg_sequence form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", relid);
	form = (Form_pg_sequence) GETSTRUCT(tuple);
	shape->increment = form->seqincrement;
	shape->min = form->seqmin;
	shape->max = form->seqmax;
	shape->cache = form->seqcache;
	shape->cycle = form->seqcycle;
	ReleaseSysCache(tuple);
}
