/*
 * ddldetach.c
 *	  ALTER TABLE ... DETACH PARTITION ... CONCURRENTLY, and FINALIZE, which block neither
 *	  readers nor writers of the partitioned table, on any node.
 *
 * PostgreSQL runs it as two transactions, so that other sessions know of the detach before it
 * takes effect.  Here each of them is a transaction of the cluster, and a third one between them
 * only waits:
 *
 *	 pending	the partition is marked: on this node, newer snapshots do not find it
 *				below the partitioned table; older ones do
 *	 wait		for all transactions that have had the table open since before: on this
 *				node as PostgreSQL does, on the others when they execute the step
 *	 detach		no transaction uses it as a partition any more: its other catalog
 *				entries are removed
 *
 * All nodes pass through the same states.  A failure after the first step leaves a partition
 * pending detach, on every node; FINALIZE, which is `wait` and `detach` in one, completes it
 * from any of them.
 *
 * PostgreSQL's own code goes from the first transaction to the second without a place where
 * locks could be requested.  But the second one locks the partition exclusively on this node
 * before it asks for the verdict, and would block what other nodes have reserved.  So the
 * transactions are made here, and the exclusive lock is requested first, as by all DDL.
 *
 * Keys.  IS on the partitioned table conflicts with other DDL only.  The partition has IS at
 * first, X in the end.  Tables at the other end of its foreign keys have X, as PostgreSQL locks
 * them against writers; in the first step only those that refer to it: their rows have to be
 * checked.  (A referring row that was inserted before is found here; a transaction that inserts
 * one later has not seen the mark, and loses.)
 *
 * The node that runs a statement decides which partitions it sees.  Changed rows name their
 * partition; statements that travel as text (shippable.c) name no partitioned table.  There
 * remains DDL that recurses to partitions: the other nodes execute it with the partitions that
 * they have at its place in the journal, so here its snapshot must not be older than its locks
 * (ddldetach_push_snapshot).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "capture.h"
#include "ddl.h"
#include "ddlobjects.h"
#include "keyset.h"
#include "lockstep.h"
#include "pendingdetach.h"
#include "xact.h"

typedef struct Detach
{
	Oid			parent;
	Oid			partition;
	const char *parent_name;	/* as the command has it */
	const char *partition_name;
} Detach;

typedef enum DetachStep
{
	DETACH_PENDING,
	DETACH_WAIT,
	DETACH_LAST
} DetachStep;

/* ---------- is it one? */

/* Its one subcommand, of this kind; NULL: it isn't. */
static PartitionCmd *
subcommand(Node *node, AlterTableType type)
{
	AlterTableStmt *stmt = (AlterTableStmt *) node;
	AlterTableCmd *cmd;

	if (!IsA(node, AlterTableStmt) || list_length(stmt->cmds) != 1)
		return NULL;
	cmd = linitial_node(AlterTableCmd, stmt->cmds);
	return cmd->subtype == type ? castNode(PartitionCmd, cmd->def) : NULL;
}

bool
ddldetach_is_concurrent(Node *stmt)
{
	PartitionCmd *cmd = subcommand(stmt, AT_DetachPartition);

	return cmd != NULL && cmd->concurrent;
}

static bool
is_finalize(Node *stmt)
{
	return subcommand(stmt, AT_DetachPartitionFinalize) != NULL;
}

static bool
names_temporary(AlterTableStmt *stmt)
{
	return ddl_is_temporary(RangeVarGetRelid(stmt->relation, NoLock, true));
}

bool
ddldetach_is_wanted(Node *stmt)
{
	return (ddldetach_is_concurrent(stmt) || is_finalize(stmt)) && !names_temporary((AlterTableStmt *) stmt);
}

/* ---------- what it is about */

/* False: PostgreSQL will say what is wrong with the names. */
static bool
find_tables(AlterTableStmt *stmt, Detach *d)
{
	PartitionCmd *cmd = castNode(PartitionCmd, linitial_node(AlterTableCmd, stmt->cmds)->def);

	d->parent = RangeVarGetRelid(stmt->relation, NoLock, true);
	d->partition = RangeVarGetRelid(cmd->name, NoLock, true);
	d->parent_name = stmt->relation->relname;
	d->partition_name = cmd->name->relname;
	return OidIsValid(d->parent) && OidIsValid(d->partition) &&
		get_rel_relkind(d->parent) == RELKIND_PARTITIONED_TABLE &&
		get_rel_relispartition(d->partition) &&
		get_partition_parent(d->partition, true) == d->parent;
}

static void
add_shared(DdlTargets *t, Oid relid)
{
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *name = get_rel_name(relid);

	if (schema != NULL && name != NULL)
		ddl_add_key(t, keyset_table_key(schema, name, LS_TABLE_IS));
}

/* X first: a key that is there already is not added in another mode. */
static void
set_targets(const Detach *d, DetachStep step, DdlTargets *t)
{
	List	   *below = pendingdetach_tables_below(d->partition);
	ListCell   *lc;

	t->nkeys = 0;
	foreach(lc, below)
	{
		if (step != DETACH_WAIT)
			ddl_add_fk_neighbours(t, lfirst_oid(lc), step == DETACH_LAST, true);
	}
	if (step == DETACH_LAST)
		ddl_add_relations(t, below);
	foreach(lc, below)
		add_shared(t, lfirst_oid(lc));
	add_shared(t, d->parent);
	ddl_add_key(t, keyset_database_key(LS_TABLE_IX));
}

void
ddldetach_targets(Node *stmt, bool in_block, DdlTargets *targets)
{
	DetachStep	step = DETACH_PENDING;
	Detach		d;

	if (is_finalize(stmt))
		step = in_block ? DETACH_LAST : DETACH_WAIT;
	if (find_tables((AlterTableStmt *) stmt, &d))
		set_targets(&d, step, targets);
	else
		ddlconcurrent_weaken(targets);
}

/* For the later transactions; the tables may have been renamed by now. */
static void
find_wait_targets(void *arg, DdlTargets *targets)
{
	set_targets(arg, DETACH_WAIT, targets);
}

static void
find_last_targets(void *arg, DdlTargets *targets)
{
	set_targets(arg, DETACH_LAST, targets);
}

static bool
has_key_of(const DdlTargets *targets, Oid relid)
{
	DdlTargets	wanted = {0};

	add_shared(&wanted, relid);
	for (int i = 0; wanted.nkeys > 0 && i < targets->nkeys; i++)
	{
		if (targets->keys[i].hash == wanted.keys[0].hash)
			return true;
	}
	return false;
}

/* ---------- partitions that are being detached */

static bool
is_any(HeapTuple tuple, void *arg)
{
	return true;
}

/* The command may recurse from that table, and its snapshot does not see the mark. */
static bool
is_missed(HeapTuple tuple, void *arg)
{
	const DdlTargets *targets = arg;
	Oid			parent = ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent;

	if (!XidInMVCCSnapshot(HeapTupleHeaderGetXmin(tuple->t_data), GetActiveSnapshot()))
		return false;
	return targets->whole_database || has_key_of(targets, parent);
}

/* No transaction has ended since the snapshot was taken. */
static bool
is_latest(Snapshot snapshot)
{
	Snapshot	latest = GetLatestSnapshot();

	return latest->xmax == snapshot->xmax && latest->xcnt == snapshot->xcnt;
}

bool
ddldetach_push_snapshot(const DdlTargets *targets)
{
	if (!ActiveSnapshotSet() || is_latest(GetActiveSnapshot()) || !pendingdetach_find(InvalidOid, is_missed, unconstify(DdlTargets *, targets)))
		return false;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("A partition of the table is being detached since this transaction began."),
				 errhint("The transaction might succeed if retried.")));
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

/* ---------- will it be refused? */

static bool
is_refused_now(AlterTableStmt *stmt, const Detach *d)
{
	if (is_finalize((Node *) stmt))
		return !PartitionHasPendingDetach(d->partition);
	return pendingdetach_find(d->parent, is_any, NULL) ||
		OidIsValid(get_default_partition_oid(d->parent)) ||
		(get_rel_relispartition(d->parent) && PartitionHasPendingDetach(d->parent));
}

/*
 * true: PostgreSQL is to say why.  It must not find meanwhile that there is no reason any more, as what
 * it then did would not be forwarded.  So we wait here for those who may remove the reason, with its lock.
 */
bool
ddldetach_is_refused(AlterTableStmt *stmt)
{
	Detach		d;

	if (!find_tables(stmt, &d))
		return true;
	if (!is_refused_now(stmt, &d))
		return false;
	LockRelationOid(d.parent, ShareUpdateExclusiveLock);
	return !find_tables(stmt, &d) || is_refused_now(stmt, &d);
}

/* ---------- forwarding */

static void
check_still_there(const Detach *d)
{
	if (get_rel_name(d->parent) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partitioned table \"%s\" was removed concurrently", d->parent_name)));
	if (get_rel_name(d->partition) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" was removed concurrently", d->partition_name)));
}

/* On this node only the locks held here prevent other sessions from renaming the tables. */
static void
forward(const char *step, const Detach *d, const char *constraint, const DdlTargets *targets)
{
	const char *params[] = {
		step,
		get_namespace_name(get_rel_namespace(d->parent)), get_rel_name(d->parent),
		get_namespace_name(get_rel_namespace(d->partition)), get_rel_name(d->partition),
		constraint != NULL ? constraint : ""
	};
	bool		known = has_key_of(targets, d->parent) && has_key_of(targets, d->partition);

	check_still_there(d);
	for (int i = 0; i < lengthof(params); i++)
		known &= params[i] != NULL;
	if (!known)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tables \"%s\" and \"%s\" were changed concurrently", d->parent_name, d->partition_name)));
	ddl_forward("SELECT lockstep.apply_detach($1, $2, $3, $4, $5, $6)", params, lengthof(params), targets,
				strcmp(step, "wait") != 0);
	walwitness_note_command();
}

/* ---------- the first transaction */

static void
check_reference(Form_pg_constraint constraint, Relation partition)
{
	Relation	referring = table_open(constraint->conrelid, ShareLock);
	Trigger		trigger = {0};

	(void) find_all_inheritors(constraint->conrelid, ShareLock, NULL);
	trigger.tgname = NameStr(constraint->conname);
	trigger.tgenabled = TRIGGER_FIRES_ON_ORIGIN;
	trigger.tgisinternal = true;
	trigger.tgconstrrelid = RelationGetRelid(partition);
	trigger.tgconstrindid = constraint->conindid;
	trigger.tgconstraint = constraint->oid;
	RI_PartitionRemove_Check(&trigger, referring, partition);
	table_close(referring, NoLock);
}

/* No row may refer to one of the partition by a foreign key to the whole table. */
static void
check_references(Relation partition)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	List	   *found = NIL;
	SysScanDesc scan;
	HeapTuple	tuple;
	ListCell   *lc;

	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

		if (form->contype == CONSTRAINT_FOREIGN && OidIsValid(form->conparentid) &&
			form->confrelid == RelationGetRelid(partition))
			found = lappend(found, heap_copytuple(tuple));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	foreach(lc, found)
		check_reference((Form_pg_constraint) GETSTRUCT((HeapTuple) lfirst(lc)), partition);
}

/*
 * Other sessions of this node wait only for locks held here: their earlier changes are visible
 * now.
 */
static void
check_again(const Detach *d)
{
	if (OidIsValid(get_default_partition_oid(d->parent)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot detach partitions concurrently when a default partition exists")));
	if (get_rel_relispartition(d->parent) && PartitionHasPendingDetach(d->parent))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot alter partition \"%s\" with an incomplete detach", get_rel_name(d->parent)),
				 errhint("Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete the pending detach operation.")));
}

static void
begin(AlterTableStmt *stmt, Detach *d, const DdlTargets *targets)
{
	PartitionCmd *cmd = subcommand((Node *) stmt, AT_DetachPartition);
	Relation	parent;
	Relation	partition;
	const char *constraint;

	(void) find_tables(stmt, d);
	d->parent = AlterTableLookupRelation(stmt, ShareUpdateExclusiveLock);
	parent = table_open(d->parent, NoLock);
	CheckTableNotInUse(parent, "ALTER TABLE");
	partition = table_openrv(cmd->name, ShareUpdateExclusiveLock);
	d->partition = RelationGetRelid(partition);
	check_again(d);
	PushActiveSnapshot(GetLatestSnapshot());
	detachsteps_mark(parent, partition);
	check_references(partition);
	constraint = detachsteps_keep_bounds(parent, partition, NULL);
	PopActiveSnapshot();
	forward("pending", d, constraint, targets);
	table_close(partition, NoLock);
	table_close(parent, NoLock);
}

/* ---------- the others */

static void
wait_for_lockers(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	WaitForLockersMultiple(list_make1(&tag), AccessExclusiveLock, false);
}

/* As FINALIZE does; it has locked the partition by then. */
static void
wait_for_snapshots(void)
{
	int			n;
	VirtualTransactionId *older = GetCurrentVirtualXIDs(GetTransactionSnapshot()->xmin, true, false,
														PROC_IS_AUTOVACUUM | PROC_IN_VACUUM | PROC_IN_SAFE_IC, &n);

	for (int i = 0; i < n; i++)
		(void) VirtualXactLock(older[i], true);
}

static void
next_transaction(void)
{
	while (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	StartTransactionCommand();
}

/*
 * The transaction by which the other nodes wait.  DDL of other nodes on these tables waits
 * meanwhile; the locks are requested first, so that this transaction does not lose to earlier
 * DDL.
 */
static void
have_others_wait(Detach *d, DdlTargets *targets)
{
	AcceptInvalidationMessages();
	check_still_there(d);
	xact_announce();
	set_targets(d, DETACH_WAIT, targets);
	ddl_ask_first("ALTER TABLE", find_wait_targets, d, targets, LS_DDL_NONE);
	forward("wait", d, NULL, targets);
	xact_may_fail_elsewhere();
	next_transaction();
}

static void
lock_tables(const Detach *d)
{
	LockRelationOid(d->parent, ShareUpdateExclusiveLock);
	LockRelationOid(d->partition, AccessExclusiveLock);
}

static void
do_the_rest(Detach *d, DdlTargets *targets)
{
	check_still_there(d);
	xact_announce();
	set_targets(d, DETACH_LAST, targets);
	ddl_ask_first("ALTER TABLE", find_last_targets, d, targets, LS_DDL_DATABASE);
	lock_tables(d);
	forward("detach", d, NULL, targets);
	detachsteps_finish(d->parent, d->partition);
}

static void
run(AlterTableStmt *stmt, DdlTargets *targets)
{
	Detach		d;

	if (is_finalize((Node *) stmt))
	{
		(void) find_tables(stmt, &d);
		d.parent = AlterTableLookupRelation(stmt, ShareUpdateExclusiveLock);
		next_transaction();
		wait_for_snapshots();
	}
	else
	{
		begin(stmt, &d, targets);
		next_transaction();
		wait_for_lockers(d.parent);
	}
	have_others_wait(&d, targets);
	do_the_rest(&d, targets);
}

/* Event triggers fire as in PostgreSQL: before the first transaction, and in the last. */
void
ddldetach_in_steps(AlterTableStmt *stmt, DdlTargets *targets)
{
	bool		complete = EventTriggerBeginCompleteQuery();

	PG_TRY();
	{
		EventTriggerDDLCommandStart((Node *) stmt);
		EventTriggerAlterTableStart((Node *) stmt);
		run(stmt, targets);
		EventTriggerAlterTableEnd();
		EventTriggerSQLDrop((Node *) stmt);
		EventTriggerDDLCommandEnd((Node *) stmt);
	}
	PG_FINALLY();
	{
		if (complete)
			EventTriggerEndCompleteQuery();
	}
	PG_END_TRY();
}

/*
 * The locks are taken first, because the command is forwarded with the names that the tables
 * have then.
 */
void
ddldetach_forward_finalize(AlterTableStmt *stmt, const DdlTargets *targets)
{
	Detach		d;

	(void) AlterTableLookupRelation(stmt, ShareUpdateExclusiveLock);
	if (!find_tables(stmt, &d))
		return;
	lock_tables(&d);
	forward("finalize", &d, NULL, targets);
}
