/*
 * ddlobjects.h
 *	  One object that a utility command names is counted in its DdlTargets.
 *	  Private to ddltargets.c, and those that know their targets otherwise.
 */
#ifndef LOCKSTEP_DDLOBJECTS_H
#define LOCKSTEP_DDLOBJECTS_H

#include "ddl.h"

extern void ddl_add_key(DdlTargets *t, LsKey key);
extern void ddl_add_name(DdlTargets *t, Oid namespace, const char *name);
extern void ddl_add_relations(DdlTargets *t, List *relids);

/* The tables at the other end of a table's foreign keys. */
extern void ddl_add_fk_neighbours(DdlTargets *t, Oid relid, bool parents, bool children);

/* The tables that depend on it, or the whole database. */
extern void ddl_add_dependents(DdlTargets *t, Oid class, Oid object);

extern bool ddl_is_temporary(Oid relid);

/* The relation keeps the command, or a part of it, on this node. */
extern void target_hold(DdlTargets *t, Oid relid);

/* An existing relation that the command changes, InvalidOid if there is none. */
extern Oid	target_relation(DdlTargets *t, RangeVar *rv, bool with_children);

/* One that is needed, but not changed in itself. */
extern void source_relation(DdlTargets *t, RangeVar *rv);

/* The same, where PostgreSQL itself refuses a temporary one. */
extern void needed_relation(DdlTargets *t, RangeVar *rv);

/* What the command names besides: in a namespace; by its kind. */
extern void target_namespace(DdlTargets *t, Oid namespace);
extern void target_type(DdlTargets *t, TypeName *name);
extern void target_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function);
extern void target_of_types(DdlTargets *t, List *types);
extern void target_statistics(DdlTargets *t, List *names);
extern void target_object(DdlTargets *t, ObjectType type, Node *object);
extern void target_schema(DdlTargets *t, const char *name);

/* What it creates. */
extern void target_new_relation(DdlTargets *t, RangeVar *rv);
extern void target_new_object(DdlTargets *t, List *names);
extern void target_new_domain(DdlTargets *t, CreateDomainStmt *stmt);
extern void target_new_function(DdlTargets *t, CreateFunctionStmt *stmt);

/* What it changes, with all that depends on it. */
extern void changed_type(DdlTargets *t, TypeName *name);
extern void changed_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function);
extern void replaced_functions(DdlTargets *t, List *names);

#endif							/* LOCKSTEP_DDLOBJECTS_H */
