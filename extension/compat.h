/*
 * compat.h
 *	  Differences between server versions, all of them, 15 to 18.
 */
#ifndef LOCKSTEP_COMPAT_H
#define LOCKSTEP_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "lockstep needs PostgreSQL 15 or later"
#endif

#include "access/tableam.h"

/* 16 tells apart updates that concern summarizing indexes only. */
#if PG_VERSION_NUM >= 160000
typedef TU_UpdateIndexes LsUpdateIndexes;
#else
typedef bool LsUpdateIndexes;
#endif

/* 18 has generated columns that are not stored. */
#if PG_VERSION_NUM >= 180000
#define ls_column_is_virtual(att) ((att)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#else
#define ls_column_is_virtual(att) false
#endif

/* 18 renamed what holds a table's checks while rows are written. */
#if PG_VERSION_NUM >= 180000
#define ls_check_expressions(target) ((target)->ri_CheckConstraintExprs)
#else
#define ls_check_expressions(target) ((target)->ri_ConstraintExprs)
#endif

/* 16 keeps COPY's default expressions by column. */
#if PG_VERSION_NUM >= 160000
#define ls_copy_default(cstate, i) ((cstate)->defexprs[(cstate)->defmap[i]])
#else
#define ls_copy_default(cstate, i) ((cstate)->defexprs[i])
#endif

/* 16 has one function for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define ls_may_use_schema(schema, role) \
	(object_aclcheck(NamespaceRelationId, schema, role, ACL_USAGE) == ACLCHECK_OK)
#define ls_owns_relation(relid, role) object_ownercheck(RelationRelationId, relid, role)
#else
#define ls_may_use_schema(schema, role) \
	(pg_namespace_aclcheck(schema, role, ACL_USAGE) == ACLCHECK_OK)
#define ls_owns_relation(relid, role) pg_class_ownercheck(relid, role)
#endif

/* 16 renamed what identifies a relation's file. */
#if PG_VERSION_NUM >= 160000
#define ls_storage_is_new(rel) ((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#define ls_set_new_file(rel) RelationSetNewRelfilenumber(rel, (rel)->rd_rel->relpersistence)
#define ls_set_sequence_file(record, rel) ((record).locator = (rel)->rd_locator)
#else
#define ls_storage_is_new(rel) ((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#define ls_set_new_file(rel) RelationSetNewRelfilenode(rel, (rel)->rd_rel->relpersistence)
#define ls_set_sequence_file(record, rel) ((record).node = (rel)->rd_node)
#endif

/* 17 counts backends as processes. */
#if PG_VERSION_NUM >= 170000
#define ls_proc_of(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define ls_proc_of(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* An index of its own, without looking at rights, and without a word; 16 counts partitions. */
#if PG_VERSION_NUM >= 160000
#define ls_define_index(table, stmt) \
	DefineIndex(table, stmt, InvalidOid, InvalidOid, InvalidOid, -1, false, false, false, false, true)
#else
#define ls_define_index(table, stmt) \
	DefineIndex(table, stmt, InvalidOid, InvalidOid, InvalidOid, false, false, false, false, true)
#endif

#endif							/* LOCKSTEP_COMPAT_H */
