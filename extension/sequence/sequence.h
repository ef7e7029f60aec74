/*
 * sequence.h
 *	  Values of sequences: what hooks.c, commit.c, the commands and the SQL functions need.
 */
#ifndef LOCKSTEP_SEQUENCE_H
#define LOCKSTEP_SEQUENCE_H

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

/* ---------- functions in place of the built-in ones */

extern void sequence_replace_functions(void);
extern Query *sequence_before_planning(Query *query);

extern Node *sequence_nextval_call(Oid sequence, Oid type);

/* ---------- values */

extern void sequence_shmem_request(void);
extern void sequence_shmem_startup(void);

/* False: PostgreSQL's own function is to do it. */
extern bool sequence_nextval(Oid relid, bool check, int64 *result);
extern bool sequence_currval(Oid relid, int64 *result);
extern bool sequence_lastval(int64 *result);
extern bool sequence_setval(Oid relid, int64 value, bool called);
extern void sequence_discard(void); /* DISCARD SEQUENCES */

extern void sequence_before_commit(void);	/* forwards what travels */
extern void sequence_in_turn(void); /* this transaction's changes of pages */
extern void sequence_at_xact_end(void);

/* In an apply session, lockstep.apply_sequence(). */
extern void sequence_apply(const char *effect, const char *name, int64 value,
						   bool called, const char *extra);
extern void sequence_put_positions(ReturnSetInfo *rsinfo);
extern void sequence_put_leases(ReturnSetInfo *rsinfo);
extern void sequence_reported(void);

/* ---------- sequences that are set back: RESTART */

extern void sequence_note_restart(Oid relid);
extern void sequence_note_alter(const AlterSeqStmt *stmt);	/* it has been executed:
															 * its name means the
															 * same */
extern void sequence_restart_on_subxact_abort(SubTransactionId subid);

/* ---------- sequences that are dropped */

extern void sequence_drop_on_object_access(ObjectAccessType access, Oid class, Oid object, int subobject);
extern void sequence_drop_on_xact(XactEvent event);

/* ---------- COPY into a table with an identity column */

extern bool copyidentity_is_wanted(Relation rel, const CopyStmt *stmt);
extern uint64 copyidentity_copy(const CopyStmt *stmt, const char *source);

/* ---------- rows that a subscription inserts */

extern void subscribedidentity_check(Relation rel); /* before it is inserted */

#endif							/* LOCKSTEP_SEQUENCE_H */
