/*
 * ddlconcurrent.c
 *	  CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY: they keep nobody from
 *	  writing, on any node.
 *
 * PostgreSQL runs each of them as a series of transactions, so that all others
 * learn of what is coming.  Here it does just that, by its own code; and where it
 * commits one of them, we look at what has become of the index, and forward a
 * query that has the same effect on another node (applyindex.c):
 *
 *	 enter	 ->  ready  ->  (checked)  ->  valid
 *								invalid	 ->  dead  ->  gone
 *
 * So each step is a transaction like any other: decided for all nodes or none,
 * executed by the others before that, in the journal for those that are away.
 * All nodes pass through the same states of the index; what a failure at any
 * point leaves is what it leaves on one server, an invalid index, on every node.
 *
 * Keys.  A step must not keep writers away while the others execute it, which
 * may take hours.  It has the table in mode IS, which meets nothing but the X of
 * other DDL and TRUNCATE; the lock on the table, which PostgreSQL keeps from
 * the first step to the last, does the same on this node.  Whose command is in the
 * way of another node's here, between two steps, yields, as everybody does.
 *
 * Unique indexes.  That there are no duplicates is found out here, on the node
 * that runs the command.  Every change of a row in the meantime is checked
 * against the index here, or is found when it is completed here: by the session
 * that made it, if it was made here, and else when it is executed here before it
 * is decided.  There is one exception, a transaction that was decided before it
 * was executed here (the node was away; the session that made it has died;
 * commit_wait is `ordered`): who applies that one makes this command fail
 * (applyunproven.c).  Transactions that know of the index are never
 * `ordered`.  On the other nodes a change may find a duplicate, too, and fails
 * everywhere then, as it would on one server; but never one that is decided.
 *
 * Keys of rows.  Each node makes keys from the index as soon as it is ready
 * there, and takes it for the identity of rows when it is valid.  Between the
 * two, and between `invalid` and `dead`, each of them waits for all who had the
 * table open before: so transactions that know rows by the index, and those that
 * know them by something else, have the keys of the index in common.
 *
 * Left to the plain command (ddloutside.c): what applyindex.c can't repeat, an
 * expression on the row as a whole, and names that PostgreSQL gives to what REINDEX
 * CONCURRENTLY works with, which is each node's own.
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
	bool		running;		/* which goes on after this transaction */
	bool		drops;
	const char *done;			/* the last step that was forwarded */
	Oid			index;			/* once it is known */
	LockRelId	table_lock;		/* held by the session from then on */
	char		schema[NAMEDATALEN];
	char		table[NAMEDATALEN];
	char		name[NAMEDATALEN];
}			work;

/* ---------- is it one? */

/* Does an expression have the row as a whole?  Rather too often than not. */
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

/* Of a temporary table PostgreSQL itself runs the plain command. */
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

/* The command's first transaction has entered it, or made it invalid. */
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
 * PostgreSQL gives its lock back just before the last commit, which here may take
 * long.  We have it in this transaction, so we need not wait for it.
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
		return;					/* it has found nothing to do */
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

/* Its last transaction is still to be committed. */
void
ddlconcurrent_end(void)
{
	work.running = false;
}

/* When it is rolled back, the locks of the session go, too. */
void
ddlconcurrent_at_xact_end(bool committed)
{
	if (likely(!work.active) || (committed && work.running))
		return;
	if (committed && OidIsValid(work.index))
		UnlockRelationIdForSession(&work.table_lock, ShareUpdateExclusiveLock);
	work.active = false;
}
