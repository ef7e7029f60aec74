/*
 * compat.h
 *	  Differences between server versions, all of them, 15 to 19.
 */
#ifndef LOCKSTEP_COMPAT_H
#define LOCKSTEP_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "lockstep needs PostgreSQL 15 or later"
#endif

#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"

/* 16 tells apart updates that concern summarizing indexes only. */
#if PG_VERSION_NUM >= 160000
typedef TU_UpdateIndexes LsUpdateIndexes;
#define ls_heap_update(rel, tid, tuple) simple_heap_update(rel, tid, tuple, &(LsUpdateIndexes) {TU_None})
#define ls_updates_summarizing_only(update) ((update) == TU_Summarizing)
#define ls_is_summarizing(info) ((info)->ii_Summarizing)
#else
typedef bool LsUpdateIndexes;
#define ls_updates_summarizing_only(update) false
#define ls_is_summarizing(info) false
#define ls_heap_update(rel, tid, tuple) simple_heap_update(rel, tid, tuple)
#endif

/* 17 has one kind of pruning for readers, and others for VACUUM.  op: without flags. */
#if PG_VERSION_NUM >= 170000
#define ls_is_prune_record(op) ((op) == XLOG_HEAP2_PRUNE_ON_ACCESS)
#else
#define ls_is_prune_record(op) ((op) == XLOG_HEAP2_PRUNE)
#endif

/* 17 has a setting for the pages of the NOTIFY queue, before they are half of PostgreSQL's QUEUE_MAX_PAGE. */
#if PG_VERSION_NUM >= 170000
#define LS_NOTIFY_QUEUE_PAGES max_notify_queue_pages
#else
#define LS_NOTIFY_QUEUE_PAGES 1048576
#endif

/* Before 17 nearly every asynchronous commit wakes the WAL writer (commit/walwriter.c). */
#if PG_VERSION_NUM < 170000
#define LS_COMMITS_WAKE_WAL_WRITER
#endif

/* 17 lets an index finish what it has begun with a row. */
#if PG_VERSION_NUM >= 170000
#define ls_index_insert_cleanup(index, info) index_insert_cleanup(index, info)
#else
#define ls_index_insert_cleanup(index, info) ((void) 0)
#endif

/* An ordinary row's entries. */
#if PG_VERSION_NUM >= 190000
#define ls_insert_index_tuples(target, slot, estate) ExecInsertIndexTuples(target, estate, 0, slot, NIL, NULL)
#elif PG_VERSION_NUM >= 160000
#define ls_insert_index_tuples(target, slot, estate) ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL, false)
#else
#define ls_insert_index_tuples(target, slot, estate) ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL)
#endif

/* 18 counts searches of an index; 19 has flags for all scans. */
#if PG_VERSION_NUM >= 190000
#define ls_index_beginscan(rel, index, snapshot, nkeys) index_beginscan(rel, index, snapshot, NULL, nkeys, 0, SO_NONE)
#define ls_table_beginscan(rel, snapshot, nkeys, keys) table_beginscan(rel, snapshot, nkeys, keys, SO_NONE)
#elif PG_VERSION_NUM >= 180000
#define ls_index_beginscan(rel, index, snapshot, nkeys) index_beginscan(rel, index, snapshot, NULL, nkeys, 0)
#define ls_table_beginscan(rel, snapshot, nkeys, keys) table_beginscan(rel, snapshot, nkeys, keys)
#else
#define ls_index_beginscan(rel, index, snapshot, nkeys) index_beginscan(rel, index, snapshot, nkeys, 0)
#define ls_table_beginscan(rel, snapshot, nkeys, keys) table_beginscan(rel, snapshot, nkeys, keys)
#endif

/* 18 has virtual generated columns. */
#if PG_VERSION_NUM >= 180000
#define ls_has_generated(constr) ((constr)->has_generated_stored || (constr)->has_generated_virtual)
#else
#define ls_has_generated(constr) ((constr)->has_generated_stored)
#endif

/* 18 has constraints NOT NULL that are not valid: rows that were there may violate them.  desc: the relation cache's, or a copy with constraints. */
#if PG_VERSION_NUM >= 180000
#define ls_may_violate_not_null(desc, i) (TupleDescCompactAttr(desc, i)->attnullability == ATTNULLABLE_INVALID)
#else
#define ls_may_violate_not_null(desc, i) false
#endif

/* 16 has what a query needs permissions for apart from its range table. */
#if PG_VERSION_NUM >= 160000
typedef RTEPermissionInfo LsPermissions;
#define ls_permissions_of_item(item) ((item)->p_perminfo)
#define ls_check_permissions(pstate) ExecCheckPermissions((pstate)->p_rtable, (pstate)->p_rteperminfos, true)
#define ls_check_statement(stmt) ExecCheckPermissions((stmt)->rtable, (stmt)->permInfos, true)
#define ls_updated_columns(stmt, rte) (getRTEPermissionInfo((stmt)->permInfos, rte)->updatedCols)
#else
typedef RangeTblEntry LsPermissions;
#define ls_permissions_of_item(item) ((item)->p_rte)
#define ls_check_permissions(pstate) ExecCheckRTPerms((pstate)->p_rtable, true)
#define ls_check_statement(stmt) ExecCheckRTPerms((stmt)->rtable, true)
#define ls_updated_columns(stmt, rte) ((rte)->updatedCols)
#endif

/* 16 makes the list of settings when it is asked for. */
#ifdef GUC_TABLES_H
static inline struct config_generic **
ls_guc_variables(int *n)
{
#if PG_VERSION_NUM >= 160000
	return get_guc_variables(n);
#else
	*n = GetNumConfigOptions();
	return get_guc_variables();
#endif
}
#endif							/* GUC_TABLES_H */

/* 16 moved what settings call into a header of its own. */
#if PG_VERSION_NUM >= 160000
#include "utils/guc_hooks.h"
#endif

/* 16 moved the header that has CleanQuerytext(). */
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

/* 16 moved how values of variable length are made up. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 refuses to change large objects in a transaction that is READ ONLY; before, they are changed. */
#if PG_VERSION_NUM >= 160000
#define ls_refuses_large_objects() XactReadOnly
#else
#define ls_refuses_large_objects() false
#endif

/* 16 lets TRUNCATE run as the owner of the table. */
#if PG_VERSION_NUM >= 160000
#define ls_truncate(rels, relids, logged, behavior, restart) ExecuteTruncateGuts(rels, relids, logged, behavior, restart, false)
#else
#define ls_truncate(rels, relids, logged, behavior, restart) ExecuteTruncateGuts(rels, relids, logged, behavior, restart)
#endif

/* 16 lets functions of input report errors softly. */
#if PG_VERSION_NUM >= 160000
#define ls_qualified_names(text) stringToQualifiedNameList(text, NULL)
#else
#define ls_qualified_names(text) stringToQualifiedNameList(text)
#endif

/* 17 numbers processes by their place among all, and has their virtual transaction id in one field. */
#if PG_VERSION_NUM >= 170000
#define ls_lxid(proc) ((proc)->vxid.lxid)
#define ls_lock_lxid(lock) ((lock)->vxid.localTransactionId)
#define ls_procno(proc) GetNumberFromPGProc(proc)
#define ls_signal_id(proc) GetNumberFromPGProc(proc)
#else
#define ls_lxid(proc) ((proc)->lxid)
#define ls_lock_lxid(lock) ((lock)->lxid)
#define ls_procno(proc) ((proc)->pgprocno)
#define ls_signal_id(proc) ((proc)->backendId)
#endif

/* 17 has a resource owner free what one waits for. */
#if PG_VERSION_NUM >= 170000
#define ls_create_wait_event_set(context, n) CreateWaitEventSet(NULL, n)
#else
#define ls_create_wait_event_set(context, n) CreateWaitEventSet(context, n)
#endif

/* 17 ends a session whose transaction takes too long. */
#if PG_VERSION_NUM >= 170000
#define ls_transaction_timed_out() TransactionTimeoutPending
#define ls_forget_transaction_timeout() (TransactionTimeoutPending = false)
#else
#define ls_transaction_timed_out() false
#define ls_forget_transaction_timeout() ((void) 0)
#endif

/* 17 has event triggers that fire when a session begins. */
#if PG_VERSION_NUM >= 170000
#define ls_skip_login_triggers() (MyDatabaseHasLoginEventTriggers = false)
#else
#define ls_skip_login_triggers() ((void) 0)
#endif

/* 17 wants the table open. */
#if PG_VERSION_NUM >= 170000
#define ls_identity_sequence(rel, attnum) getIdentitySequence(rel, attnum, false)
#else
#define ls_identity_sequence(rel, attnum) getIdentitySequence(RelationGetRelid(rel), attnum, false)
#endif

/* 17 can ask for stronger locks as well. */
#if PG_VERSION_NUM >= 170000
#define ls_lock_is_held(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define ls_lock_is_held(tag, mode) LockHeldByMe(tag, mode)
#endif

/* 17 moved the names of temporary files. */
#if PG_VERSION_NUM >= 170000
#include "common/file_utils.h"
#endif

/* 17 gave these an argument more, which has a default. */
#if PG_VERSION_NUM >= 170000
#define LS_F_EMIT_MESSAGE_TEXT F_PG_LOGICAL_EMIT_MESSAGE_BOOL_TEXT_TEXT_BOOL
#define LS_F_EMIT_MESSAGE_BYTEA F_PG_LOGICAL_EMIT_MESSAGE_BOOL_TEXT_BYTEA_BOOL
#else
#define LS_F_EMIT_MESSAGE_TEXT F_PG_LOGICAL_EMIT_MESSAGE_BOOL_TEXT_TEXT
#define LS_F_EMIT_MESSAGE_BYTEA F_PG_LOGICAL_EMIT_MESSAGE_BOOL_TEXT_BYTEA
#endif

/* 18 has generated columns that are not stored. */
#if PG_VERSION_NUM >= 180000
#define ls_column_is_virtual(att) ((att)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define ls_column_is_virtual(att) false
#endif

/* 18 no longer says whether a query runs but once. */
#if PG_VERSION_NUM >= 180000
#define LS_ONCE_PARAM
#define LS_ONCE_ARG
#else
#define LS_ONCE_PARAM , bool once
#define LS_ONCE_ARG , once
#endif

/* 18 counts the frozen pages of a table, too: for the planner, as the others. */
#if PG_VERSION_NUM >= 180000
#define ls_is_statistic(attnum) \
	((attnum) == Anum_pg_class_reltuples || (attnum) == Anum_pg_class_relpages || \
	 (attnum) == Anum_pg_class_relallvisible || (attnum) == Anum_pg_class_relallfrozen)
#else
#define ls_is_statistic(attnum) \
	((attnum) == Anum_pg_class_reltuples || (attnum) == Anum_pg_class_relpages || \
	 (attnum) == Anum_pg_class_relallvisible)
#endif

/* 18 has foreign keys that are not enforced. */
#if PG_VERSION_NUM >= 180000
#define ls_is_enforced(info) ((info)->conenforced)
#else
#define ls_is_enforced(info) true
#endif

/* 18 renamed what holds a table's checks while rows are written. */
#if PG_VERSION_NUM >= 180000
#define ls_check_expressions(target) ((target)->ri_CheckConstraintExprs)
#else
#define ls_check_expressions(target) ((target)->ri_ConstraintExprs)
#endif

/*
 * 16 keeps the expressions of generated columns for INSERT and UPDATE apart; 18
 * says by a flag of its own that the columns that an UPDATE changes are known.
 */
#if PG_VERSION_NUM >= 180000
#define ls_set_generated_expressions(target, none) \
	((target)->ri_GeneratedExprsI = (target)->ri_GeneratedExprsU = (none), \
	 (target)->ri_NumGeneratedNeededI = (target)->ri_NumGeneratedNeededU = 0, \
	 (target)->ri_extraUpdatedCols_valid = true)
#elif PG_VERSION_NUM >= 160000
#define ls_set_generated_expressions(target, none) \
	((target)->ri_GeneratedExprsI = (target)->ri_GeneratedExprsU = (none), \
	 (target)->ri_NumGeneratedNeededI = (target)->ri_NumGeneratedNeededU = 0)
#else
#define ls_set_generated_expressions(target, none) \
	((target)->ri_GeneratedExprs = (none), (target)->ri_NumGeneratedNeeded = 0)
#endif

/* 19 has the places of the first columns in a row, to be found again when any has changed. */
#if PG_VERSION_NUM >= 190000
#define ls_attributes_changed(desc) TupleDescFinalize(desc)
#else
#define ls_attributes_changed(desc) ((void) 0)
#endif

/* 18 has the most important of a column twice. */
#if PG_VERSION_NUM >= 180000
#define ls_attribute_changed(desc, attnum) populate_compact_attribute(desc, (attnum) - 1)
#else
#define ls_attribute_changed(desc, attnum) ((void) 0)
#endif

/* 17 can give a generated column another expression. */
#define LS_CAN_SET_EXPRESSION (PG_VERSION_NUM >= 170000)

/* CREATE MATERIALIZED VIEW of 17, but not within EXPLAIN: made without data, its file is exchanged for one with the rows. */
#define LS_MATVIEW_IS_REFRESHED (PG_VERSION_NUM >= 170000)

/* 18 has generated columns that are not stored: of a column's definition. */
#if PG_VERSION_NUM >= 180000
#define ls_is_stored(constraint) ((constraint)->generated_kind == ATTRIBUTE_GENERATED_STORED)
#else
#define ls_is_stored(constraint) true
#endif

/*
 * 16 keeps COPY's default expressions by column, as its DEFAULT option wants them
 * for columns in its list, too.  NULL: COPY has none of this column.
 */
#ifdef COPYFROM_INTERNAL_H
static inline ExprState **
ls_copy_default(CopyFromState cstate, AttrNumber attnum)
{
#if PG_VERSION_NUM >= 160000
	return cstate->defexprs[attnum - 1] != NULL ? &cstate->defexprs[attnum - 1] : NULL;
#else
	for (int i = 0; i < cstate->num_defaults; i++)
	{
		if (cstate->defmap[i] == attnum - 1)
			return &cstate->defexprs[i];
	}
	return NULL;
#endif
}
#endif							/* COPYFROM_INTERNAL_H */

/* 18 refuses generated columns, which have no value yet, in COPY's WHERE. */
#define LS_COPY_WHERE_HAS_GENERATED (PG_VERSION_NUM < 180000)

/* 16 has one function for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define ls_may_use_schema(schema, role) \
	(object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE) == ACLCHECK_OK)
#define ls_may_create_in(schema, role) \
	(object_aclcheck(NamespaceRelationId, schema, role, ACL_CREATE) == ACLCHECK_OK)
#define ls_owns_relation(relid, role) object_ownercheck(RelationRelationId, relid, role)
#define ls_owns(class, object, role) object_ownercheck(class, object, role)
#define ls_owns_database(database, role) object_ownercheck(DatabaseRelationId, database, role)
#define ls_may_create_in_tablespace(tablespace, role) \
	(object_aclcheck(TableSpaceRelationId, tablespace, role, ACL_CREATE) == ACLCHECK_OK)
#define ls_check_may_give_to(role, owner) check_can_set_role(role, owner)
#else
#define ls_owns_database(database, role) pg_database_ownercheck(database, role)
#define ls_may_create_in_tablespace(tablespace, role) \
	(pg_tablespace_aclcheck(tablespace, role, ACL_CREATE) == ACLCHECK_OK)
#define ls_check_may_give_to(role, owner) check_is_member_of_role(role, owner)
#define ls_may_create_in(schema, role) \
	(pg_namespace_aclcheck(schema, role, ACL_CREATE) == ACLCHECK_OK)
#define ls_owns(class, object, role) \
	((class) == NamespaceRelationId ? pg_namespace_ownercheck(object, role) : \
	 (class) == ProcedureRelationId ? pg_proc_ownercheck(object, role) : \
	 (class) == TypeRelationId ? pg_type_ownercheck(object, role) : \
	 pg_class_ownercheck(object, role))
#define ls_may_use_schema(schema, role) \
	(pg_namespace_aclcheck(schema, role, ACL_USAGE) == ACLCHECK_OK)
#define ls_owns_relation(relid, role) pg_class_ownercheck(relid, role)
#endif

/* 17 lets others than the owner CLUSTER a table. */
#if PG_VERSION_NUM >= 170000
#define ls_may_cluster(relid, role) (pg_class_aclcheck(relid, role, ACL_MAINTAIN) == ACLCHECK_OK)
#else
#define ls_may_cluster(relid, role) ls_owns_relation(relid, role)
#endif

/* 16 renamed what identifies a relation's file. */
#if PG_VERSION_NUM >= 160000
#define ls_storage_is_new(rel) ((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#define LsRelFile RelFileLocator
#define ls_rel_file(rel) ((rel)->rd_locator)
#define ls_set_new_file(rel) RelationSetNewRelfilenumber(rel, (rel)->rd_rel->relpersistence)
#define ls_set_sequence_file(record, rel) ((record).locator = (rel)->rd_locator)
#else
#define ls_storage_is_new(rel) ((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#define LsRelFile RelFileNode
#define ls_rel_file(rel) ((rel)->rd_node)
#define ls_set_new_file(rel) RelationSetNewRelfilenode(rel, (rel)->rd_rel->relpersistence)
#define ls_set_sequence_file(record, rel) ((record).node = (rel)->rd_node)
#endif

/* 17 counts backends as processes. */
#if PG_VERSION_NUM >= 170000
#define ls_proc_of(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define ls_proc_of(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* An index of its own, without looking at rights, and without a word; 16 counts partitions, 19 shows where errors are. */
#if PG_VERSION_NUM >= 190000
#define ls_define_index(table, stmt) \
	DefineIndex(NULL, table, stmt, InvalidOid, InvalidOid, InvalidOid, -1, false, false, false, false, true)
#elif PG_VERSION_NUM >= 160000
#define ls_define_index(table, stmt) \
	DefineIndex(table, stmt, InvalidOid, InvalidOid, InvalidOid, -1, false, false, false, false, true)
#else
#define ls_define_index(table, stmt) \
	DefineIndex(table, stmt, InvalidOid, InvalidOid, InvalidOid, false, false, false, false, true)
#endif

/* 19 has one function for all copies of an index; this one, without content yet, is for CONCURRENTLY. */
#if PG_VERSION_NUM >= 190000
#define ls_copy_index(rel, model, tablespace, name) \
	index_create_copy(rel, INDEX_CREATE_SKIP_BUILD | INDEX_CREATE_CONCURRENT, model, tablespace, name)
#else
#define ls_copy_index(rel, model, tablespace, name) index_concurrently_create_copy(rel, model, tablespace, name)
#endif

/* 18 has constraints that are not enforced. */
#if PG_VERSION_NUM >= 180000
#define ls_enforce(constraint) ((void) ((constraint)->is_enforced = true))
#else
#define ls_enforce(constraint) ((void) (constraint))
#endif

/*
 * 19 has options for changes of rows, of which that a row moves to another partition is one:
 * the parameters and arguments behind the command's number, and the last one of a deletion.
 * The functions without any.
 */
#if PG_VERSION_NUM >= 190000
typedef uint32 LsInsertOptions;
#define LS_OPTIONS_PARAM uint32 options,
#define LS_OPTIONS_ARG options,
#define LS_MOVES_PARAM
#define LS_MOVES_ARG
#define LS_MOVES ((options & TABLE_DELETE_CHANGING_PARTITION) != 0)
#define LS_SET_MOVES (options |= TABLE_DELETE_CHANGING_PARTITION)
#define ls_table_tuple_update(rel, tid, row, cid, ...) table_tuple_update(rel, tid, row, cid, 0, __VA_ARGS__)
#define ls_table_tuple_delete(rel, tid, cid, ...) table_tuple_delete(rel, tid, cid, 0, __VA_ARGS__)
#else
typedef int LsInsertOptions;
#define LS_OPTIONS_PARAM
#define LS_OPTIONS_ARG
#define LS_MOVES_PARAM , bool changing_part
#define LS_MOVES_ARG , changing_part
#define LS_MOVES changing_part
#define LS_SET_MOVES (changing_part = true)
#define ls_table_tuple_update(rel, tid, row, cid, ...) table_tuple_update(rel, tid, row, cid, __VA_ARGS__)
#define ls_table_tuple_delete(rel, tid, cid, ...) table_tuple_delete(rel, tid, cid, __VA_ARGS__, false)
#endif

/* 19 has the tables that a statement changes as a set. */
#if PG_VERSION_NUM >= 190000
#define ls_result_relations(stmt) ls_members((stmt)->resultRelationRelids)
#define ls_has_result_relations(stmt) ((stmt)->resultRelationRelids != NULL)
#define ls_is_result_relation(stmt, i) bms_is_member(i, (stmt)->resultRelationRelids)
#define ls_moves_rows(modify) false /* with a root relation, which is asked
									 * for */

static inline List *
ls_members(const Bitmapset *set)
{
	List	   *result = NIL;
	int			i = -1;

	while ((i = bms_next_member(set, i)) >= 0)
		result = lappend_int(result, i);
	return result;
}
#else
#define ls_result_relations(stmt) ((stmt)->resultRelations)
#define ls_has_result_relations(stmt) ((stmt)->resultRelations != NIL)
#define ls_is_result_relation(stmt, i) list_member_int((stmt)->resultRelations, i)
#define ls_moves_rows(modify) ((modify)->partColsUpdated)
#endif

/* 19 tells the planner for which EXPLAIN it plans; what is known of a query's text is read-only. */
#if PG_VERSION_NUM >= 190000
#define LS_EXPLAIN_PARAM , struct ExplainState *explain
#define LS_EXPLAIN_ARG , explain
#define ls_plan_query(query, source, options) pg_plan_query(query, source, options, NULL, NULL)
typedef const JumbleState LsJumbleState;
#else
#define LS_EXPLAIN_PARAM
#define LS_EXPLAIN_ARG
#define ls_plan_query(query, source, options) pg_plan_query(query, source, options, NULL)
typedef JumbleState LsJumbleState;
#endif

/* 19 can read, and lock, the row that is there instead of inserting one. */
#if PG_VERSION_NUM >= 190000
#define ls_conflict_lock(modify) \
	((modify)->onConflictAction == ONCONFLICT_SELECT ? (modify)->onConflictLockStrength : LCS_NONE)
#else
#define ls_conflict_lock(modify) LCS_NONE
#endif

/* 19 has workers that set sequences to what a publisher has. */
#ifdef LOGICALWORKER_H
#if PG_VERSION_NUM >= 190000
#include "replication/worker_internal.h"
#define ls_is_sequence_worker() (MyLogicalRepWorker != NULL && isSequenceSyncWorker(MyLogicalRepWorker))
#else
#define ls_is_sequence_worker() false
#endif
#endif							/* LOGICALWORKER_H */

/* 19 has REPACK, of which CLUSTER is a form, and a command that waits for a place in the WAL. */
#if PG_VERSION_NUM >= 190000
#define LS_COMMANDS_OF_19 {T_WaitStmt, DDL_PASS, false, NULL},
#define ls_is_repack_concurrently(stmt) ddl_option_is_on((stmt)->params, "concurrently")
typedef RepackStmt LsClusterStmt;
#define T_LsClusterStmt T_RepackStmt
#define ls_clustered_table(stmt) ((stmt)->relation != NULL ? (stmt)->relation->relation : NULL)
#else
#define LS_COMMANDS_OF_19
#define ls_is_repack_concurrently(stmt) false
typedef ClusterStmt LsClusterStmt;
#define T_LsClusterStmt T_ClusterStmt
#define ls_clustered_table(stmt) ((stmt)->relation)
#endif

/* 19 remembers in the map of visible pages what a reader has pruned. */
#ifdef HEAPAM_H
static inline void
ls_prune_page(Relation rel, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer		map = InvalidBuffer;

	heap_page_prune_opt(rel, buffer, &map, false);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
#else
	heap_page_prune_opt(rel, buffer);
#endif
}
#endif							/* HEAPAM_H */

/* 19 says why it finds no function. */
#ifdef NAMESPACE_H
static inline FuncCandidateList
ls_functions_named(List *names)
{
#if PG_VERSION_NUM >= 190000
	int			why;

	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true, &why);
#else
	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true);
#endif
}
#endif							/* NAMESPACE_H */

/* 19 tells handlers of signals who has sent it. */
#if PG_VERSION_NUM >= 190000
#define LS_SIGNAL_ARGS postgres_signal_arg, pg_siginfo
#else
#define LS_SIGNAL_ARGS postgres_signal_arg
#endif

/* 19 makes hash tables in shared memory for as many entries as they may have. */
#if PG_VERSION_NUM >= 190000
#define ls_shmem_hash(name, n, info, flags) ShmemInitHash(name, n, info, flags)
#else
#define ls_shmem_hash(name, n, info, flags) ShmemInitHash(name, n, n, info, flags)
#endif

/* 19 reads no strings with backslashes as escapes, and warns of none. */
#if PG_VERSION_NUM >= 190000
#define ls_no_escape_warning(extra) ((void) (extra))
#else
#define ls_no_escape_warning(extra) ((void) ((extra)->escape_string_warning = false))
#endif

/* 19 keeps in one place what a transaction applies of a subscription. */
#if PG_VERSION_NUM >= 190000
#define ls_has_replication_origin() (replorigin_xact_state.origin != InvalidReplOriginId)
#else
#define ls_has_replication_origin() (replorigin_session_origin != InvalidRepOriginId)
#endif

/* 19 looks for temporary objects of all kinds in a query. */
#if PG_VERSION_NUM >= 190000
#define ls_query_is_temporary(query) query_uses_temp_object(query, &(ObjectAddress) {0})
#else
#define ls_query_is_temporary(query) isQueryUsingTempRelation(query)
#endif

/* 19 has a level of messages for each kind of process. */
#if PG_VERSION_NUM >= 190000
#define ls_log_min_messages() (log_min_messages[MyBackendType])
#else
#define ls_log_min_messages() log_min_messages
#endif

/* 19 has 32 bits by one name only. */
#if PG_VERSION_NUM >= 190000
typedef uint32 LsBits;
#else
typedef bits32 LsBits;
#endif

/* 19 moved names of databases, the number of waits of extensions, and what is written about sequences to other headers. */
#if PG_VERSION_NUM >= 190000
#include "catalog/pg_database.h"
#include "utils/lsyscache.h"
#include "utils/wait_classes.h"
#define LS_SEQUENCE_XLOG_HEADER "commands/sequence_xlog.h"
#define LS_CLUSTER_HEADER "commands/repack.h"
#else
#define LS_SEQUENCE_XLOG_HEADER "commands/sequence.h"
#define LS_CLUSTER_HEADER "commands/cluster.h"
#endif

#endif							/* LOCKSTEP_COMPAT_H */
