/*
 * subscribedidentity.c
 *	  Rows of a subscription whose identity column the publisher does not send.
 *
 * The worker of a subscription computes such a column, as COPY does (copyidentity.c), by an expression that is neither
 * planned nor a call of a function (NextValueExpr).  PostgreSQL's own nextval takes the value from the
 * sequence of this node only, past the leases, so that another node may hand it out, too.  No hook
 * comes before, but that nextval locks the sequence until the end of the transaction.  So a
 * row is refused when it is inserted while its transaction has such a lock that is not ours.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "sequence_private.h"

#define MAX_ROWS 2000

/* The sequences of a table into which the transaction has inserted. */
typedef struct Target
{
	Oid			relid;
	List	   *sequences;
} Target;

static LocalTransactionId targets_lxid = InvalidLocalTransactionId;
static List *targets = NIL;		/* lives as long as that transaction */

static List *
add_sequences(List *sequences, Relation rel)
{
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

		if (!att->attisdropped && att->attidentity != '\0')
			sequences = lappend_oid(sequences, ls_identity_sequence(rel, attnum));
	}
	return sequences;
}

/* Before 17 only the partitioned table has an identity column. */
static List *
sequences_of(Relation rel)
{
	List	   *sequences = add_sequences(NIL, rel);
	ListCell   *lc;

	if (!rel->rd_rel->relispartition)
		return sequences;
	foreach(lc, get_partition_ancestors(RelationGetRelid(rel)))
	{
		Relation	ancestor = table_open(lfirst_oid(lc), AccessShareLock);

		sequences = add_sequences(sequences, ancestor);
		table_close(ancestor, AccessShareLock);
	}
	return sequences;
}

static const Target *
target_of(Relation rel)
{
	MemoryContext old;
	Target	   *target;
	ListCell   *lc;

	if (targets_lxid != ls_lxid(MyProc))
		targets = NIL;
	targets_lxid = ls_lxid(MyProc);
	foreach(lc, targets)
	{
		target = lfirst(lc);
		if (target->relid == RelationGetRelid(rel))
			return target;
	}
	old = MemoryContextSwitchTo(TopTransactionContext);
	target = palloc(sizeof(Target));
	target->relid = RelationGetRelid(rel);
	target->sequences = sequences_of(rel);
	targets = lappend(targets, target);
	MemoryContextSwitchTo(old);
	return target;
}

static bool
is_locked_by_server(Oid sequence)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, sequence);
	return ls_lock_is_held(&tag, RowExclusiveLock) && !sequence_is_locked_by_us(sequence);
}

/*
 * PostgreSQL's nextval has moved the sequence of this node.  Ours goes as far, and what it hands out moves all
 * nodes, with a transaction that fails, too.  (Of the rows of a COPY there are up to 1000.)
 */
static void
move_everywhere(Oid sequence)
{
	Relation	rel = relation_open(sequence, NoLock);
	SeqPosition moved = sequence_page_read(rel);
	SeqShape	shape;
	int64		value;

	relation_close(rel, NoLock);
	sequence_shape(sequence, &shape);
	for (int i = 0; i < MAX_ROWS && sequence_nextval(sequence, false, &value) && seq_is_behind(&shape, value, moved.value); i++)
		CHECK_FOR_INTERRUPTS();
}

static void
refuse(Relation rel, Oid sequence)
{
	Oid			table;
	int32		attnum;

	move_everywhere(sequence);
	if (!sequenceIsOwned(sequence, DEPENDENCY_INTERNAL, &table, &attnum))
		elog(ERROR, "sequence %u belongs to no identity column", sequence);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot apply a row of table \"%s\" whose identity column \"%s\" a publisher does not send",
					RelationGetRelationName(rel), get_attname(table, attnum, false)),
			 errdetail("The worker of a subscription takes its value from the sequence of this node alone; another node may use the same value."),
			 errhint("Publish the column, or give it a default that calls nextval() instead (DROP IDENTITY, SET DEFAULT).")));
}

void
subscribedidentity_check(Relation rel)
{
	ListCell   *lc;

	if (likely(!IsLogicalWorker()))
		return;
	foreach(lc, target_of(rel)->sequences)
	{
		if (is_locked_by_server(lfirst_oid(lc)))
			refuse(rel, lfirst_oid(lc));
	}
}
