/*
 * relation.c
 *	  What capture must know of a relation, looked up once.
 *
 * A cache of LsRelation by OID.  An entry becomes invalid after a relcache invalidation of the
 * relation or of one that it names (partition ancestors, parents of foreign keys, their
 * indexes), after a change to a type of its columns, and after any change to a schema, a
 * collation or an operator (renames).  An invalid entry is rebuilt at the next
 * relation_get(), so a pointer stays good until then; and beyond, while it is held because users' functions
 * are called, whose queries may come here.  These get another entry meanwhile.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "deparse.h"
#include "exacttext.h"
#include "keyhash.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "newestscan.h"
#include "relation.h"
#include "repertoire.h"
#include "sessionsettings.h"
#include "storedexpression.h"

#define SWEEP_MINIMUM 256

static HTAB *relations = NULL;
static long sweep_above = SWEEP_MINIMUM;
static uint64 builds = 0;
static bool some_read_settings = false;

bool
relation_is_replicated(Relation rel)
{
	return RelationGetRelid(rel) >= FirstNormalObjectId &&
		(rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW) &&
		rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		!OidIsValid(rel->rd_rel->relrewrite) &&
		rel->rd_rel->relnamespace != ls_schema_oid();
}

/* ---------- invalidation */

static bool
depends_on_relation(const LsRelation *r, Oid relid)
{
	int			i;

	if (relid == InvalidOid || r->relid == relid)
		return true;
	for (i = 0; i < r->nrelids; i++)
	{
		if (r->relids[i] == relid)
			return true;
	}
	return false;
}

static bool
depends_on_type(const LsRelation *r, uint32 hashvalue)
{
	int			i;

	if (hashvalue == 0)
		return true;
	for (i = 0; i < r->ntypes; i++)
	{
		if (r->types[i] == hashvalue)
			return true;
	}
	return false;
}

void
relation_on_relcache_invalidation(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS scan;
	LsRelation *r;

	if (relations == NULL)
		return;
	hash_seq_init(&scan, relations);
	while ((r = hash_seq_search(&scan)) != NULL)
	{
		if (r->valid && depends_on_relation(r, relid))
			r->valid = false;
	}
}

void
relation_on_type_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS scan;
	LsRelation *r;

	if (relations == NULL)
		return;
	hash_seq_init(&scan, relations);
	while ((r = hash_seq_search(&scan)) != NULL)
	{
		if (r->valid && depends_on_type(r, hashvalue))
			r->valid = false;
	}
}

/* Of what relations name and don't list: schemas, collations, operators. */
void
relation_on_name_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	relation_on_relcache_invalidation(arg, InvalidOid);
}

void
relation_add_relid(LsRelation *r, Oid relid)
{
	r->relids = r->relids == NULL ? palloc(sizeof(Oid)) :
		repalloc(r->relids, (r->nrelids + 1) * sizeof(Oid));
	r->relids[r->nrelids++] = relid;
}

/* Built-in types keep their names and parts. */
static void
add_type(LsRelation *r, Oid type)
{
	Oid			element = get_base_element_type(type);

	if (OidIsValid(element))
		type = element;
	if (type < FirstNormalObjectId)
		return;
	r->types = r->types == NULL ? palloc(sizeof(uint32)) :
		repalloc(r->types, (r->ntypes + 1) * sizeof(uint32));
	r->types[r->ntypes++] = GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(type));
	if (get_typtype(type) == TYPTYPE_COMPOSITE)
		relation_add_relid(r, get_typ_typrelid(type));
}

/* ---------- columns and names */

/* Compared like a number. */
static bool
has_cheap_equality(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

/*
 * Qualified; arrays by their element, as their own names are made up.  But not
 * oidvector and its kind, which have an element, too.
 */
static char *
type_name(Oid type)
{
	Oid			element = get_element_type(type);
	HeapTuple	tuple;
	Form_pg_type form;
	char	   *name;

	if (OidIsValid(element) && get_array_type(element) == type)
		return psprintf("%s[]", type_name(element));
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->typnamespace),
									  NameStr(form->typname));
	ReleaseSysCache(tuple);
	return name;
}

/* unnest() takes arrays of arrays apart to the end, and rows into columns. */
static char
array_delimiter(Oid type)
{
	int16		len;
	bool		byval;
	char		align;
	char		delimiter;
	Oid			typioparam;
	Oid			function;

	if (OidIsValid(get_base_element_type(type)) || type_is_rowtype(type) || !OidIsValid(get_array_type(type)))
		return '\0';
	get_type_io_data(type, IOFunc_input, &len, &byval, &align, &delimiter, &typioparam, &function);
	return delimiter;
}

void
relation_init_columns(const LsRelation *r, LsColumnSet *set)
{
	set->nwords = r->nwords;
	set->words = palloc0(r->nwords * sizeof(uint64));
}

/*
 * Reading such a value evaluates the checks of domains in it, but for parameters
 * (rights.c): where rows are applied, that is in COPY only.
 */
static bool
type_may_check(Oid type)
{
	Oid			element = get_element_type(getBaseType(type));
	char		kind = get_typtype(OidIsValid(element) ? element : type);

	return kind == TYPTYPE_COMPOSITE || (OidIsValid(element) && kind == TYPTYPE_DOMAIN);
}

/* Common types that need not be looked at; for the others that costs little. */
static bool
has_ascii_output(Oid type)
{
	switch (type)
	{
		case NUMERICOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case TIMEOID:
		case INTERVALOID:
		case BYTEAOID:
		case UUIDOID:
			return true;
		default:
			return has_cheap_equality(type);
	}
}

/*
 * The value of a generated column travels if it can't be computed again: because
 * it may depend on more than the row.  If one does, all of the table do, as a
 * server computes all of them or none.
 */
static bool
generated_values_travel(TupleDesc desc)
{
	for (int i = 0; desc->constr != NULL && desc->constr->has_generated_stored && i < desc->constr->num_defval; i++)
	{
		AttrDefault *def = &desc->constr->defval[i];
		Form_pg_attribute att = TupleDescAttr(desc, def->adnum - 1);
		Node	   *expression;

		if (att->attgenerated != ATTRIBUTE_GENERATED_STORED)
			continue;
		expression = stringToNode(def->adbin);
		if (storedexpression_reads_settings(expression) || storedexpression_has_oids(expression))
			return true;
	}
	return false;
}

static void
build_columns(LsRelation *r)
{
	int			i;

	r->has_computed = generated_values_travel(r->desc);

	r->natts = r->desc->natts;
	r->nwords = Max(1, (r->natts + 63) / 64);
	r->columns = palloc0(Max(1, r->natts) * sizeof(LsColumn));
	for (i = 0; i < r->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(r->desc, i);
		LsColumn   *column = &r->columns[i];
		Oid			base;
		Oid			output;
		bool		is_varlena;

		if (!att->attisdropped && ls_column_is_virtual(att))
			r->has_virtual = true;
		if (att->attisdropped || ls_column_is_virtual(att))
			continue;
		base = getBaseType(att->atttypid);
		column->live = true;
		column->generated = att->attgenerated != '\0' && !r->has_computed;
		column->computed = att->attgenerated != '\0' && r->has_computed;
		column->always_identity = att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS;
		column->domain = get_typtype(att->atttypid) == TYPTYPE_DOMAIN;
		column->byval = att->attbyval;
		column->len = att->attlen;
		column->name = pstrdup(quote_identifier(NameStr(att->attname)));
		column->type = type_name(base);
		column->delimiter = array_delimiter(base);
		column->cheap = has_cheap_equality(base);
		r->has_domain |= column->domain;
		getTypeOutputInfo(att->atttypid, &output, &is_varlena);

		/*
		 * The same, but what follows a NUL byte would not be seen. xml:
		 * deparse_init() sees to it that it is the same.
		 */
		if (base == XMLOID || base == BPCHAROID || base == JSONOID)
			output = F_TEXTOUT;
		column->ascii = has_ascii_output(base);
		column->hides_texts = repertoire_hides_texts(base);
		column->exact_text = exacttext_for(base);
		r->may_be_inexact |= column->exact_text != NULL;
		fmgr_info_cxt(output, &column->output, r->context);

		r->needs |= deparse_type_needs(att->atttypid);
		r->has_generated |= column->generated;
		if (type_may_check(att->atttypid))
			r->computes = r->copy_checks = true;
		if (!column->generated)
			r->nsettable++;
		add_type(r, att->atttypid);
	}
	r->old_values = palloc(Max(1, r->natts) * sizeof(Datum));
	r->old_nulls = palloc(Max(1, r->natts) * sizeof(bool));
	relation_init_columns(r, &r->changed);
	relation_init_columns(r, &r->assigned);
	r->slot = MakeSingleTupleTableSlot(r->desc, &TTSOpsVirtual);
}

/* All columns that expressions of generated columns use. */
static void
build_generated_from(LsRelation *r)
{
	TupleConstr *constr = r->desc->constr;
	Bitmapset  *attnums = NULL;
	int			member = -1;
	int			i;

	relation_init_columns(r, &r->generated_from);
	for (i = 0; (r->has_generated || r->has_computed) && i < constr->num_defval; i++)
	{
		AttrDefault *def = &constr->defval[i];

		if (r->columns[def->adnum - 1].generated || r->columns[def->adnum - 1].computed)
			pull_varattnos(stringToNode(def->adbin), 1, &attnums);
	}
	while ((member = bms_next_member(attnums, member)) >= 0)
	{
		AttrNumber	attnum = member + FirstLowInvalidHeapAttributeNumber;

		if (attnum > 0)
			column_set_add(&r->generated_from, attnum);
	}
}

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

void
relation_init_table(LsTable *table, Oid relid)
{
	LsKey		key = keyset_table_key(get_namespace_name(get_rel_namespace(relid)),
									   get_rel_name(relid), LS_TABLE_IX);

	table->hash = key.hash;
	table->name = qualified_name(relid);
}

/* The relation and all its partition ancestors, the root last. */
static void
build_tables(LsRelation *r, Relation rel)
{
	List	   *ancestors = NIL;
	ListCell   *lc;

	if (rel->rd_rel->relispartition)
		ancestors = get_partition_ancestors(r->relid);
	r->tables = palloc((1 + list_length(ancestors)) * sizeof(LsTable));
	relation_init_table(&r->tables[r->ntables++], r->relid);
	foreach(lc, ancestors)
	{
		relation_init_table(&r->tables[r->ntables++], lfirst_oid(lc));
		relation_add_relid(r, lfirst_oid(lc));
	}
	r->image_seed = keyhash_seed('M', get_namespace_name(rel->rd_rel->relnamespace),
								 RelationGetRelationName(rel), "");
	r->image_name = ls_slice_of(psprintf("%s (whole row)", r->name));
}

/* Triggers that would act in a session of the replica role. */
static void
build_replica_triggers(LsRelation *r, Relation rel)
{
	int			i;

	for (i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgenabled == TRIGGER_FIRES_ALWAYS ||
			trigger->tgenabled == TRIGGER_FIRES_ON_REPLICA)
			r->has_replica_trigger = true;
	}
}

/* ---------- the cache */

static bool
is_found_in_batches(const LsRelation *r)
{
	int			i;

	for (i = 0; i < r->nidentity; i++)
	{
		if (r->columns[r->identity[i].attnum - 1].delimiter == '\0')
			return false;
	}
	return r->identity_index != NULL && r->hashable;
}

static void
build(LsRelation *r, Relation rel)
{
	Oid			relid = r->relid;
	uint32		beside = r->beside;
	MemoryContext context = r->context;
	MemoryContext old;

	if (context == NULL)
		context = AllocSetContextCreate(CacheMemoryContext, "lockstep relation",
										ALLOCSET_SMALL_SIZES);
	MemoryContextReset(context);
	memset(r, 0, sizeof(LsRelation));
	r->relid = relid;
	r->beside = beside;
	r->context = context;
	r->build = ++builds;
	r->valid = true;			/* an invalidation meanwhile unsets it */
	r->hashable = true;

	PG_TRY();
	{
		old = MemoryContextSwitchTo(context);
		r->desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
		r->name = qualified_name(relid);
		build_columns(r);
		build_generated_from(r);
		build_tables(r, rel);
		build_replica_triggers(r, rel);
		relation_build_indexes(r, rel);
		relation_build_foreign_keys(r, rel);
		r->batches = is_found_in_batches(r);
		some_read_settings |= r->reads_settings;
		MemoryContextSwitchTo(old);
	}
	PG_CATCH();
	{
		r->valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
forget_index_expressions(LsRelation *r, Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
		RelationCacheInvalidateEntry(lfirst_oid(lc));
	list_free(indexes);
	r->valid = false;
}

/*
 * PostgreSQL evaluates IMMUTABLE functions of constants once, and keeps the value:
 * in plans, those of PL/pgSQL functions too, and in the relation cache, for the
 * expressions of indexes.  If they read settings, that value was right with the
 * settings of that moment.  Called before a statement changes rows.
 */
void
relation_evaluate_anew(Relation rel)
{
	LsRelation *r;

	if (!relation_is_replicated(rel))
		return;
	r = relation_get(rel);
	if (!r->reads_settings && !r->copy_checks)
		return;
	sessionsettings_renew_plans();
	if (r->folds)
		forget_index_expressions(r, rel);
}

/* Is there any such table, as far as this session knows? */
bool
relation_some_read_settings(void)
{
	return some_read_settings;
}

/* Dropped relations leave invalid entries behind. */
static void
sweep(void)
{
	HASH_SEQ_STATUS scan;
	LsRelation *r;

	hash_seq_init(&scan, relations);
	while ((r = hash_seq_search(&scan)) != NULL)
	{
		if (r->valid || r->users > 0)
			continue;
		MemoryContextDelete(r->context);
		hash_search(relations, r, HASH_REMOVE, NULL);
	}
	sweep_above = Max(SWEEP_MINIMUM, 2 * hash_get_num_entries(relations));
}

static LsRelation *
find_entry(Oid relid, uint32 beside)
{
	struct
	{
		Oid			relid;
		uint32		beside;
	}			key = {relid, beside};
	bool		found;
	LsRelation *r = hash_search(relations, &key, HASH_ENTER, &found);

	if (!found)
	{
		r->context = NULL;
		r->valid = false;
		r->users = 0;
	}
	return r;
}

LsRelation *
relation_get(Relation rel)
{
	static LsRelation *last = NULL;
	Oid			relid = RelationGetRelid(rel);
	LsRelation *r;

	if (last != NULL && last->relid == relid && last->valid)
		return last;
	if (relations == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = offsetof(LsRelation, users);
		ctl.entrysize = sizeof(LsRelation);
		ctl.hcxt = CacheMemoryContext;
		relations = hash_create("lockstep relations", 128, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	else if (hash_get_num_entries(relations) > sweep_above)
		sweep();

	last = NULL;				/* perhaps swept */
	r = find_entry(relid, 0);
	if (!r->valid && r->users > 0)
		r = find_entry(relid, 1);
	if (!r->valid && r->users > 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the definition of table \"%s\" has changed while a function of its index was called", RelationGetRelationName(rel)),
				 errhint("Repeat the transaction.")));
	if (!r->valid)
		build(r, rel);
	if (r->beside == 0)
		last = r;
	return r;
}

/* ---------- what is in it */

bool
relation_has_rows(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	NewestScan	scan = newestscan_begin(rel);
	bool		any = newestscan_next(&scan) != NULL;

	newestscan_end(&scan);
	table_close(rel, NoLock);
	return any;
}
