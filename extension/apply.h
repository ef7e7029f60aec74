/*
 * apply.h
 *	  What lockstepfuncs.c, the SQL functions, needs of apply.c and applycopy.c,
 *	  and they of applyrow.c.
 */
#ifndef LOCKSTEP_APPLY_H
#define LOCKSTEP_APPLY_H

#include "storage/lockdefs.h"

#include "lockstep.h"

/* ---------- in apply.c */

extern void apply_start(const char *cluster);
extern void apply_value_settings(void); /* of texts that nodes exchange */
extern void apply_start_repair(void);
extern void apply_check_call(const char *function);
extern void apply_settings(char **values, int n);

/* What RESET search_path gives: as at the origin, or as in this session. */
extern void apply_reset_path(bool origin);

/* ---------- in applycopy.c */

extern uint64 apply_copy(const char *command, const char *data, size_t len);

/* ---------- in applybatch.c */

extern void apply_rows(LsSlice rows);
extern void apply_forget_plans(void);
extern bool apply_reads_params(void);
extern const char *apply_batched_query(void);	/* that it is busy with, NULL:
												 * none */

/* ---------- in applyrow.c */

extern void applyrow_init(void);

/* Before the rows of a table change, in this session's copy of what it is. */
extern void applyrow_make_populated(Relation rel);
struct TriggerDesc;
extern void applyrow_disable_triggers(struct TriggerDesc *triggers);
extern void applyrow_disable_partition_check(Relation rel);

/* ---------- in applywait.c */

extern void applywait_lockers(Oid table, LOCKMODE mode);

#endif							/* LOCKSTEP_APPLY_H */
