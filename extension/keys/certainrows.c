/*
 * certainrows.c
 *	  Can a node that holds the same data refuse this row?  For commit_wait = certified.
 *
 * A list of what is known to be harmless, so that whatever is not thought of is executed
 * before it is decided.  The relation is judged once, when the first row of its entry is asked
 * for, from the relation cache; DDL rebuilds the entry.  Only sizes are looked at for each row.
 *
 * A row that fits here may not fit there: rows carry no settings, and a value that was
 * compressed by lz4 here may be larger there.  So sizes count before compression, and stay
 * far below the limits (2704 bytes of an entry in a btree, 8160 of a row).
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

#include "certainrows.h"

#define MAX_COLUMNS 100			/* so many TOAST pointers always fit */
#define MAX_INDEXED 1000		/* bytes in indexes, uncompressed, all
								 * together */
#define MAX_DEPTH 100			/* of JSON: max_stack_depth may be 100 kB
								 * there */

/*
 * Types whose input neither calls users' functions nor depends on the server's build, and reads
 * whatever their output writes.  That of interval doesn't read the smallest ones and, before
 * version 17, infinity; that of timetz no zone beyond 16 hours, which AT TIME ZONE makes; that of
 * json what people cast from text WITHOUT FUNCTION.
 */
static bool
type_is_certain(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case BYTEAOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case NUMERICOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
			return true;
		default:
			return false;
	}
}

static bool
columns_are_certain(LsRelation *r)
{
	int			i;

	if (r->natts > MAX_COLUMNS || r->has_generated || r->has_computed || r->has_virtual || r->has_domain)
		return false;
	for (i = 0; i < r->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(r->desc, i);
		Oid			element;

		if (att->attisdropped)
			continue;
		if (att->atttypid == JSONBOID)
		{
			column_set_add(&r->nested, i + 1);
			r->has_nested = true;
			continue;
		}
		element = get_element_type(att->atttypid);
		if (OidIsValid(element) && get_array_type(element) != att->atttypid)
			return false;
		if (!type_is_certain(OidIsValid(element) ? element : att->atttypid))
			return false;
		if (att->attlen == -1 && att->attstorage == TYPSTORAGE_PLAIN)
			return false;
	}
	return true;
}

/* Only plain columns, and only what PostgreSQL has built in. */
static bool
index_is_certain(LsRelation *r, Relation index)
{
	Form_pg_index form = index->rd_index;
	int			i;

	if (index->rd_rel->relam != BTREE_AM_OID || form->indisexclusion || !form->indisvalid || !form->indisready ||
		RelationGetIndexExpressions(index) != NIL || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (i = 0; i < form->indnatts; i++)
		column_set_add(&r->indexed, form->indkey.values[i]);
	for (i = 0; i < form->indnkeyatts; i++)
	{
		if (index->rd_opfamily[i] >= FirstNormalObjectId || index->rd_indcollation[i] >= FirstNormalObjectId)
			return false;
	}
	return true;
}

static bool
indexes_are_certain(LsRelation *r, Relation rel)
{
	List	   *oids = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		certain = true;

	foreach(lc, oids)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		certain = certain && index_is_certain(r, index);
		index_close(index, AccessShareLock);
	}
	list_free(oids);
	return certain;
}

static void
judge(LsRelation *r, Relation rel)
{
	TupleConstr *constr = r->desc->constr;
	MemoryContext old = MemoryContextSwitchTo(r->context);

	relation_init_columns(r, &r->indexed);
	relation_init_columns(r, &r->nested);
	r->certain = rel->rd_rel->relkind == RELKIND_RELATION && !rel->rd_rel->relispartition &&
		!rel->rd_rel->relhasrules && !rel->rd_rel->relrowsecurity &&
		(constr == NULL || constr->num_check == 0) &&
		!r->has_replica_trigger &&
		!r->computes && !r->unproven && !r->reads_settings && !r->copy_checks &&
		columns_are_certain(r) && indexes_are_certain(r, rel);
	MemoryContextSwitchTo(old);
	r->judged = true;
}

/* ---------- a row */

/* A level takes at least the header of a container and that of its element. */
static bool
jsonb_is_shallow(JsonbContainer *container, int len)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	int			depth = 0;

	if (len <= (int) (MAX_DEPTH * 2 * sizeof(uint32)))
		return true;
	it = JsonbIteratorInit(container);
	while (depth <= MAX_DEPTH && (token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT)
			depth++;
		else if (token == WJB_END_ARRAY || token == WJB_END_OBJECT)
			depth--;
	}
	return depth <= MAX_DEPTH;
}

/*
 * The parser's depth is limited by the stack, and values need not come from a parser.  One that is
 * stored elsewhere is large, and costs too much to read.
 */
static bool
is_shallow(Datum value)
{
	Jsonb	   *jsonb;
	bool		shallow;

	if (VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
		return false;
	jsonb = DatumGetJsonbP(value);
	shallow = jsonb_is_shallow(&jsonb->root, VARSIZE(jsonb) - VARHDRSZ);
	if ((Pointer) jsonb != DatumGetPointer(value))
		pfree(jsonb);
	return shallow;
}

static bool
nested_are_shallow(const LsRelation *r, const TupleTableSlot *slot)
{
	for (int i = 0; i < r->natts; i++)
	{
		if (column_set_has(&r->nested, i + 1) && !slot->tts_isnull[i] &&
			!is_shallow(slot->tts_values[i]))
			return false;
	}
	return true;
}

/* A row without an identity is found by all of its values, which takes a search. */
static bool
is_found_by_identity(const LsRelation *r)
{
	return r->nidentity > 0 && r->hashable;
}

bool
certainrows_has(LsRelation *r, Relation rel, bool is_new, TupleTableSlot *slot)
{
	Size		bytes = 0;
	int			i;

	if (!r->judged)
		judge(r, rel);
	if (!r->certain || !(is_new || is_found_by_identity(r)))
		return false;
	if (slot == NULL)
		return true;
	slot_getallattrs(slot);
	for (i = 0; i < r->natts; i++)
	{
		if (!column_set_has(&r->indexed, i + 1) || slot->tts_isnull[i])
			continue;
		if (r->columns[i].len > 0)
			bytes += r->columns[i].len;
		else
			bytes += toast_raw_datum_size(slot->tts_values[i]);
	}
	return bytes <= MAX_INDEXED && (!r->has_nested || nested_are_shallow(r, slot));
}
