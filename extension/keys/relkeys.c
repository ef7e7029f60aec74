/*
 * relkeys.c
 *	  Which keys do the rows of a relation have?
 *
 * Fills in the part of an LsRelation that keyset.c works with: the identity,
 * unique indexes, exclusion constraints and foreign keys.  Called by relation.c
 * only, in the entry's memory context.
 *
 * What goes into a key has to come out the same on every node: things are
 * known by name, and nothing is chosen by OID.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/index.h"
#include "catalog/partition.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_operator.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "deparse.h"
#include "keyhash.h"
#include "qualifiedname.h"
#include "relation.h"
#include "storedexpression.h"

/* ---------- indexes */

/*
 * The index that stands for it in keys: a partition's index is known by its
 * topmost ancestor, so that a foreign key to the partitioned table and a row
 * of the leaf meet.
 */
static Oid
canonical_index(LsRelation *r, Oid index, Oid *table)
{
	if (get_rel_relispartition(index))
	{
		List	   *ancestors = get_partition_ancestors(index);

		if (ancestors != NIL)
			index = llast_oid(ancestors);
	}
	*table = IndexGetRelation(index, false);
	relation_add_relid(r, index);
	relation_add_relid(r, *table);
	return index;
}

/* Name for people, and seed, of the keys of an index. */
static LsSlice
index_key_name(LsRelation *r, Oid index, uint64 *seed)
{
	Oid			table;
	char	   *schema;

	index = canonical_index(r, index, &table);
	schema = get_namespace_name(get_rel_namespace(table));
	*seed = keyhash_seed('R', schema, get_rel_name(table), get_rel_name(index));
	return ls_slice_of(psprintf("%s %s", qualified_name(schema, get_rel_name(table)), qualified_name(NULL, get_rel_name(index))));
}

static Oid
equality_operator(Relation index, int column)
{
	return get_opfamily_member(index->rd_opfamily[column], index->rd_opcintype[column],
							   index->rd_opcintype[column], BTEqualStrategyNumber);
}

/*
 * By which two rows would be the same to the index.  Of a key WITHOUT OVERLAPS
 * (18), a GiST index, that is && for the last column: of all rows with its other
 * values only itself overlaps a row.
 */
static Oid *
unique_operators(Relation index)
{
	int			n = IndexRelationGetNumberOfKeyAttributes(index);
	Oid		   *operators;
	Oid		   *procs;
	uint16	   *strategies;
	int			i;

	if (index->rd_index->indisexclusion)
	{
		RelationGetExclusionInfo(index, &operators, &procs, &strategies);
		return operators;
	}
	operators = palloc(n * sizeof(Oid));
	for (i = 0; i < n; i++)
		operators[i] = equality_operator(index, i);
	return operators;
}

static void
add_columns_of(LsColumnSet *set, Node *node)
{
	Bitmapset  *attnums = NULL;
	int			member = -1;

	pull_varattnos(node, 1, &attnums);
	while ((member = bms_next_member(attnums, member)) >= 0)
	{
		AttrNumber	attnum = member + FirstLowInvalidHeapAttributeNumber;

		if (attnum > 0)
			column_set_add(set, attnum);
		else if (attnum == 0)	/* the row as a whole */
			memset(set->words, 0xff, set->nwords * sizeof(uint64));
	}
}

static void
build_index_column(LsRelation *r, LsIndex *ix, Relation index, int column,
				   Oid *exclusion_operators, ListCell **next_expression)
{
	LsIndexColumn *ic = &ix->columns[column];
	Oid			type;

	ic->attnum = index->rd_index->indkey.values[column];
	if (ic->attnum == 0)
	{
		type = exprType(lfirst(*next_expression));
		r->needs |= deparse_type_needs(type);
		*next_expression = lnext(ix->expressions, *next_expression);
	}
	else
	{
		type = TupleDescAttr(r->desc, ic->attnum - 1)->atttypid;
		column_set_add(&ix->depends_on, ic->attnum);
	}
	ic->counts = keyhash_init(&ic->hasher, type,
							  exclusion_operators ? exclusion_operators[column] :
							  equality_operator(index, column),
							  index->rd_indcollation[column], r->context);
	if (!ic->counts && exclusion_operators == NULL)
		r->hashable = false;
}

static void
build_index(LsRelation *r, LsIndex *ix, Relation index)
{
	Oid		   *operators = NULL;
	Oid		   *procs;
	uint16	   *strategies;
	ListCell   *next_expression;
	int			i;

	ix->name = index_key_name(r, RelationGetRelid(index), &ix->seed);
	ix->nulls_distinct = index->rd_index->indisexclusion ||
		!index->rd_index->indnullsnotdistinct;
	ix->ncolumns = IndexRelationGetNumberOfKeyAttributes(index);
	ix->columns = palloc0(ix->ncolumns * sizeof(LsIndexColumn));
	ix->expressions = RelationGetIndexExpressions(index);
	ix->predicate = RelationGetIndexPredicate(index);
	relation_init_columns(r, &ix->depends_on);
	add_columns_of(&ix->depends_on, (Node *) ix->expressions);
	add_columns_of(&ix->depends_on, (Node *) ix->predicate);

	if (index->rd_index->indisexclusion)
		RelationGetExclusionInfo(index, &operators, &procs, &strategies);
	next_expression = list_head(ix->expressions);
	for (i = 0; i < ix->ncolumns; i++)
	{
		build_index_column(r, ix, index, i, operators, &next_expression);
		ix->by_text |= ix->columns[i].counts && ix->columns[i].hasher.by == LS_HASH_TEXT;
	}
}

/*
 * Can the index say which row is meant, and its equality be written as a
 * plain comparison of its columns?
 */
static bool
index_identifies(LsRelation *r, Relation index)
{
	Form_pg_index form = index->rd_index;
	Oid		   *operators;
	int			i;

	if (!form->indisunique || !form->indimmediate || !form->indisvalid ||
		RelationGetIndexExpressions(index) != NIL ||
		RelationGetIndexPredicate(index) != NIL)
		return false;
	operators = unique_operators(index);
	for (i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		int			column = form->indkey.values[i] - 1;
		Form_pg_attribute att = TupleDescAttr(r->desc, column);

		if (!att->attnotnull || ls_may_violate_not_null(r->desc, column) || att->attcollation != index->rd_indcollation[i] ||
			!OidIsValid(operators[i]))
			return false;
	}
	return true;
}

/*
 * Every node has to prefer the same index: two updates of one row meet in its
 * key.  The primary key, the replica identity, the first by name.
 */
static bool
identifies_better(Relation a, Relation b)
{
	if (b == NULL)
		return true;
	if (a->rd_index->indisprimary != b->rd_index->indisprimary)
		return a->rd_index->indisprimary;
	if (a->rd_index->indisreplident != b->rd_index->indisreplident)
		return a->rd_index->indisreplident;
	return strcmp(RelationGetRelationName(a), RelationGetRelationName(b)) < 0;
}

static char *
operator_name(Oid operator)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
	Form_pg_operator form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", operator);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	name = psprintf("OPERATOR(%s.%s)",
					quote_identifier(get_namespace_name(form->oprnamespace)),
					NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return name;
}

/*
 * What a value to compare with has to say of its collation.  Its type may have
 * one that is not the column's (those of name differ from "default"), and then
 * neither of them would win.
 */
static char *
collate_clause(Oid type, Oid collation)
{
	HeapTuple	tuple;
	Form_pg_collation form;
	char	   *clause;

	if (!OidIsValid(collation) || collation == get_typcollation(getBaseType(type)))
		return pstrdup("");
	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	clause = psprintf(" COLLATE %s", quote_qualified_identifier(get_namespace_name(form->collnamespace),
																NameStr(form->collname)));
	ReleaseSysCache(tuple);
	return clause;
}

static void
build_identity(LsRelation *r, Relation index)
{
	int			n = IndexRelationGetNumberOfKeyAttributes(index);
	Oid		   *operators = unique_operators(index);
	int			i;

	r->identity = palloc(n * sizeof(LsIdentityColumn));
	r->nidentity = n;
	for (i = 0; i < n; i++)
	{
		r->identity[i].attnum = index->rd_index->indkey.values[i];
		r->identity[i].equals = operator_name(operators[i]);
		r->identity[i].collate = collate_clause(TupleDescAttr(r->desc, r->identity[i].attnum - 1)->atttypid,
												index->rd_indcollation[i]);
	}
}

/*
 * What the indexes, of which the identity is one, need of a row that is deleted, if these are few
 * columns: then the others need not be taken out of it.
 */
static void
build_key_columns(LsRelation *r)
{
	LsColumnSet set;
	int			n = 0;

	relation_init_columns(r, &set);
	for (int i = 0; i < r->nindexes; i++)
	{
		if (r->indexes[i].expressions != NIL || r->indexes[i].predicate != NIL)
			return;
		for (int j = 0; j < r->indexes[i].ncolumns; j++)
			column_set_add(&set, r->indexes[i].columns[j].attnum);
	}
	for (int i = 0; i < r->natts; i++)
	{
		if (!column_set_has(&set, i + 1))
			continue;
		if (n == KEY_COLUMNS)
			return;
		r->key_columns[n++] = i + 1;
	}
	r->nkey_columns = n;
}

/* Of any index: it is made where rows are applied, too. */
static void
look_at_expressions(LsRelation *r, Relation index)
{
	Node	   *expressions = storedexpression_of_index(index, Anum_pg_index_indexprs);
	Node	   *predicate = storedexpression_of_index(index, Anum_pg_index_indpred);

	r->computes |= storedexpression_calls_users(expressions) || storedexpression_calls_users(predicate);
	r->reads_settings |= storedexpression_reads_settings(expressions) || storedexpression_reads_settings(predicate);
	r->folds |= storedexpression_folds_settings(expressions) || storedexpression_folds_settings(predicate);
}

void
relation_build_indexes(LsRelation *r, Relation rel)
{
	List	   *oids = RelationGetIndexList(rel);
	Relation	identity = NULL;
	List	   *opened = NIL;
	ListCell   *lc;

	r->indexes = palloc0(Max(1, list_length(oids)) * sizeof(LsIndex));
	foreach(lc, oids)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		opened = lappend(opened, index);
		look_at_expressions(r, index);
		if (!index->rd_index->indisready ||
			!(index->rd_index->indisunique || index->rd_index->indisexclusion))
			continue;
		build_index(r, &r->indexes[r->nindexes], index);
		r->unproven |= !index->rd_index->indisvalid;
		if (index_identifies(r, index) && identifies_better(index, identity))
		{
			identity = index;
			r->identity_index = &r->indexes[r->nindexes];
		}
		r->nindexes++;
	}
	if (identity != NULL)
	{
		build_identity(r, identity);
		build_key_columns(r);
	}
	foreach(lc, opened)
		index_close(lfirst(lc), AccessShareLock);
}

/* ---------- foreign keys */

static Oid
index_of_foreign_key(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Oid			index;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	index = ((Form_pg_constraint) GETSTRUCT(tuple))->conindid;
	ReleaseSysCache(tuple);
	return index;
}

/* Our column that has to equal the parent's column. */
static AttrNumber
child_column(const ForeignKeyCacheInfo *info, AttrNumber parent_column)
{
	int			i;

	for (i = 0; i < info->nkeys; i++)
	{
		if (info->confkey[i] == parent_column)
			return info->conkey[i];
	}
	elog(ERROR, "foreign key %u does not match its parent's index", info->conoid);
}

static void
build_foreign_key(LsRelation *r, LsForeignKey *fk, const ForeignKeyCacheInfo *info)
{
	Oid			index_oid = index_of_foreign_key(info->conoid);
	Oid			table;
	Relation	index = index_open(index_oid, AccessShareLock);
	int			i;

	fk->name = index_key_name(r, index_oid, &fk->seed);
	(void) canonical_index(r, index_oid, &table);
	relation_init_table(&fk->parent, table);
	fk->ncolumns = info->nkeys;
	fk->attnums = palloc(info->nkeys * sizeof(AttrNumber));
	fk->hashers = palloc0(info->nkeys * sizeof(LsHasher));
	fk->hashable = true;
	relation_init_columns(r, &fk->columns);
	for (i = 0; i < info->nkeys; i++)
	{
		AttrNumber	parent_column = index->rd_index->indkey.values[i];
		AttrNumber	column = child_column(info, parent_column);

		fk->attnums[i] = column;
		column_set_add(&fk->columns, column);
		if (!keyhash_init_child(&fk->hashers[i],
								TupleDescAttr(r->desc, column - 1)->atttypid,
								get_atttype(info->confrelid, parent_column),
								equality_operator(index, i),
								index->rd_indcollation[i], r->context))
			fk->hashable = false;
	}
	index_close(index, AccessShareLock);
}

/* A foreign key to a partitioned table is there once for every partition. */
static bool
foreign_key_is_known(const LsRelation *r, const LsForeignKey *fk)
{
	int			i;

	for (i = 0; i < r->nforeign_keys; i++)
	{
		const LsForeignKey *other = &r->foreign_keys[i];

		if (other->seed == fk->seed && other->ncolumns == fk->ncolumns &&
			memcmp(other->attnums, fk->attnums, fk->ncolumns * sizeof(AttrNumber)) == 0)
			return true;
	}
	return false;
}

void
relation_build_foreign_keys(LsRelation *r, Relation rel)
{
	List	   *infos = copyObject(RelationGetFKeyList(rel));
	ListCell   *lc;

	r->foreign_keys = palloc0(Max(1, list_length(infos)) * sizeof(LsForeignKey));
	foreach(lc, infos)
	{
		LsForeignKey *fk = &r->foreign_keys[r->nforeign_keys];

		if (!ls_is_enforced(lfirst_node(ForeignKeyCacheInfo, lc)))
			continue;
		memset(fk, 0, sizeof(LsForeignKey));
		build_foreign_key(r, fk, lfirst(lc));
		if (!foreign_key_is_known(r, fk))
			r->nforeign_keys++;
	}
}
