/*
 * ddlconcurrent.c
 *	  CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY, which do not block writers, on
 *	  any node.
 *
 * PostgreSQL runs each of them as a series of transactions, so that other sessions know of each
 * step before the next.  Its own code runs here; where it commits one of these transactions,
 * this file looks at the state of the index and forwards a query that has the same effect on
 * another node (applyindex.c):
 *
 *	 enter	 ->  ready  ->  (checked)  ->  valid
 *								invalid	 ->  dead  ->  gone
 *
 * Each step is a transaction like any other: decided for all nodes or none, executed by the
 * other nodes before that, in the journal for nodes that are away.  All nodes pass through the
 * same states of the index.  A failure leaves what it leaves on one server, an invalid index, on
 * every node.
 *
 * Keys.  A step must not block writers while the other nodes execute it, which may take hours.
 * It has the table in mode IS, which conflicts only with the X of other DDL and TRUNCATE.  On
 * this node the lock on the table, which PostgreSQL holds from the first step to the last, does
 * the same.  A command that blocks another node's transaction here, between two steps, yields
 * like any other transaction.
 *
 * Unique indexes.  The node that runs the command checks that there are no duplicates.  Each row
 * that changes meanwhile is checked against the index here, or is found when the index is
 * completed here: by the session that changed it on this node, or, for changes of other nodes,
 * when they are executed here before they are decided.  The exception is a transaction that was
 * decided before it was executed here (the node was away; its session has died; commit_wait is
 * `ordered`): the session that applies it makes this command fail (applyunproven.c).
 * Transactions that know of the index are never `ordered`.  On the other nodes, too, a change
 * may find a duplicate; then it fails everywhere, as on one server, but only if it is not
 * decided.
 *
 * Keys of rows.  Each node derives keys from the index as soon as the index is ready there, and
 * uses it as the identity of rows when it is valid.  Between the two, and between `invalid` and
 * `dead`, each node waits for all transactions that had the table open before.  So transactions
 * that identify rows by the index, and those that identify them otherwise, share the keys of the
 * index.
 *
 * Left to the plain command (ddloutside.c): what applyindex.c cannot repeat, namely an
 * expression on the whole row, and the names that PostgreSQL gives to the transient indexes of
 * REINDEX CONCURRENTLY, which differ by node.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "nodes/nodeFuncs.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "capture.h"
#include "ddl.h"
#include "ddlobjects.h"
#include "keyset.h"
#include "lockstep.h"

static struct
{
	bool		active;			/* the transaction belongs to such a command */
	bool		running;		/* the command goes on after this transaction */
	bool		drops;
	const char *done;			/* the last step that was forwarded */
	Oid			index;			/* once it is known */
	LockRelId	table_lock;		/* held by the session from the moment when it
								 * is known */
	char		schema[NAMEDATALEN];
	char		table[NAMEDATALEN];
	char		name[NAMEDATALEN];
}			work;

/* ---------- is it one? */

/* Does an expression use the whole row?  When in doubt, true. */
static bool
has_whole_row(Node *node, void *context)
{
	const RangeVar *table = context;

	if (node == NULL)
		return false;
	if (IsA(node, ColumnRef))
	{
		List	   *fields = ((ColumnRef *) node)->fields;
		Node	   *last = llast(fields);

		if (!IsA(last, String) || strcmp(strVal(last), table->relname) == 0)
			return true;

		/* table.name, which is no column, is name(table) */
		return list_length(fields) > 1 &&
			get_attnum(RangeVarGetRelid(table, NoLock, true), strVal(last)) == InvalidAttrNumber;
	}
	return raw_expression_tree_walker(node, has_whole_row, context);
}

static bool
is_repeatable(IndexStmt *stmt)
{
	ListCell   *lc;

	if (stmt->idxname != NULL && ddl_is_name_of_reindex(stmt->idxname))
		return false;
	foreach(lc, stmt->indexParams)
	{
		if (has_whole_row(lfirst_node(IndexElem, lc)->expr, stmt->relation))
			return false;
	}
	return !has_whole_row(stmt->whereClause, stmt->relation);
}

/* On a temporary table PostgreSQL runs the plain command anyway. */
static bool
is_permanent(RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return !OidIsValid(relid) || get_rel_persistence(relid) != RELPERSISTENCE_TEMP;
}

bool
ddlconcurrent_is_wanted(Node *node)
{
	IndexStmt  *create = (IndexStmt *) node;
	DropStmt   *drop = (DropStmt *) node;

	if (IsA(node, IndexStmt))
		return create->concurrent && is_permanent(create->relation) && is_repeatable(create);
	return IsA(node, DropStmt) && drop->concurrent && list_length(drop->objects) == 1 &&
		is_permanent(makeRangeVarFromNameList(linitial_node(List, drop->objects))) &&
		!ddl_drops_leftovers(node);
}

void
ddlconcurrent_weaken(DdlTargets *targets)
{
	for (int i = 0; i < targets->nkeys; i++)
	{
		if (targets->keys[i].mode == LS_TABLE_X && !targets->whole_database)
			targets->keys[i].mode = LS_TABLE_IS;
	}
}

/* ---------- what has become of the index */

static bool
is_of_this_transaction(HeapTuple tuple)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

/* The index that this transaction, the command's first, has entered or made invalid. */
static Oid
changed_index(void)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	Oid			found = InvalidOid;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);

		if (is_of_this_transaction(tuple) && !form->indisvalid &&
			get_rel_relkind(form->indexrelid) == RELKIND_INDEX)
			found = form->indexrelid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * PostgreSQL releases its lock just before the last commit, which may take long here.  This
 * transaction holds it, too, so taking it for the session does not wait.
 */
static void
keep_lock(Oid table)
{
	Relation	rel = table_open(table, ShareUpdateExclusiveLock);

	work.table_lock = rel->rd_lockInfo.lockRelId;
	table_close(rel, NoLock);
	LockRelationIdForSession(&work.table_lock, ShareUpdateExclusiveLock);
}

static void
find_index(void)
{
	Oid			table;

	work.index = changed_index();
	if (!OidIsValid(work.index))
		return;
	table = IndexGetRelation(work.index, false);
	keep_lock(table);
	strlcpy(work.schema, get_namespace_name(get_rel_namespace(table)), NAMEDATALEN);
	strlcpy(work.table, get_rel_name(table), NAMEDATALEN);
	strlcpy(work.name, get_rel_name(work.index), NAMEDATALEN);
}

static const char *
step_done(void)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(work.index));
	Form_pg_index form;
	const char *step;

	if (!HeapTupleIsValid(tuple))
		return "gone";
	form = (Form_pg_index) GETSTRUCT(tuple);
	if (!form->indislive)
		step = "dead";
	else if (work.drops)
		step = "invalid";
	else
		step = form->indisvalid ? "valid" : form->indisready ? "ready" : "enter";
	ReleaseSysCache(tuple);
	return step;
}

/* ---------- forwarding */

static void
forward(const char *step)
{
	bool		enters = strcmp(step, "enter") == 0;
	const char *params[] = {
		step, work.schema, work.table, work.name, enters ? pg_get_indexdef_string(work.index) : ""
	};
	DdlTargets	targets = {0};

	ddl_add_key(&targets, keyset_table_key(work.schema, work.table, LS_TABLE_IS));
	ddl_add_key(&targets, keyset_database_key(LS_TABLE_IX));
	ddl_forward(LS_INDEX_STEP "$1, $2, $3, $4, $5)", params, lengthof(params), &targets, true);
}

void
ddlconcurrent_before_commit(void)
{
	const char *step;

	if (likely(!work.active))
		return;
	CommandCounterIncrement();
	if (!OidIsValid(work.index))
		find_index();
	if (!OidIsValid(work.index))
		return;					/* the command has found nothing to do */
	walwitness_note_command();
	step = step_done();
	if (work.done != NULL && strcmp(work.done, step) == 0)
		return;
	work.done = step;
	forward(step);
}

/* ---------- from the hook */

void
ddlconcurrent_begin(Node *stmt)
{
	memset(&work, 0, sizeof(work));
	work.active = true;
	work.running = true;
	work.drops = IsA(stmt, DropStmt);
}

/* The command's last transaction is still to be committed. */
void
ddlconcurrent_end(void)
{
	work.running = false;
}

/* A rollback releases the session's locks, too. */
void
ddlconcurrent_at_xact_end(bool committed)
{
	if (likely(!work.active) || (committed && work.running))
		return;
	if (committed && OidIsValid(work.index))
		UnlockRelationIdForSession(&work.table_lock, ShareUpdateExclusiveLock);
	work.active = false;
}
