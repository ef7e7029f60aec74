/*
 * apply.h
 *	  What lockstepfuncs.c, the SQL functions, needs of apply.c and applycopy.c,
 *	  and they of applyrow.c.
 */
#ifndef LOCKSTEP_APPLY_H
#define LOCKSTEP_APPLY_H

#include "access/tupdesc.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "optimizer/planner.h"
#include "parser/parse_node.h"
#include "storage/lockdefs.h"
#include "tcop/utility.h"
#include "utils/relcache.h"

#include "compat.h"
#include "lockstep.h"
#include "querysettings.h"

/* ---------- in apply.c */

extern void apply_replace_functions(void);
extern void apply_start(const char *cluster);
extern void apply_value_settings(void); /* of texts that nodes exchange */
extern void apply_start_repair(void);
extern void apply_check_call(const char *function);
LS_NORETURN extern void apply_refuse_call(const char *function);

/* ---------- in applycopy.c */

extern uint64 apply_copy(const char *command, const char *data, size_t len);

/* ---------- in applytransaction.c */

/* Is the command one of the replicator's two?  Then it has been executed. */
extern bool applytransaction_call(const Node *stmt, const char *source, const ParamListInfoData *params);
extern void applytransaction_wait(uint64 seq);
extern void applytransaction_claim(uint64 first, JournalPosition last);
extern void applytransaction_commit(JournalPosition position);

/* ---------- in applybatch.c */

extern void apply_rows(LsSlice rows);
extern void apply_row(const LsRow *row);	/* one of them */
extern void apply_forget_plans(void);
extern PlannedStmt *applybatch_plan(planner_hook_type next, Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM);
extern const char *apply_batched_query(void);	/* that it is busy with, NULL:
												 * none */

/* ---------- in applydirect.c */

struct DirectPlan;
extern uint64 applydirect_change(struct DirectPlan **direct, SPIPlanPtr plan, int nparams, Datum *values, const char *nulls,
								 MemoryContext context, bool *all);

/* ---------- in applyrow.c */

/* Hooks in an apply session; next is what they wrap (hooks.c). */
extern void applyrow_after_analysis(ParseState *pstate, Query *query);
extern void applyrow_executor_start(ExecutorStart_hook_type next, QueryDesc *queryDesc, int eflags);
extern void applyrow_executor_run(ExecutorRun_hook_type next, QueryDesc *queryDesc,
								  ScanDirection direction, uint64 count LS_ONCE_PARAM);
extern void applyrow_process_utility(ProcessUtility_hook_type next, PlannedStmt *pstmt,
									 const char *queryString, bool readOnlyTree,
									 ProcessUtilityContext context, ParamListInfo params,
									 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc);

/* Before the rows of a table change, in this session's copy of what it is. */
extern void applyrow_make_populated(Relation rel);
struct TriggerDesc;
extern void applyrow_disable_triggers(struct TriggerDesc *triggers);
extern void applyrow_disable_not_null(Relation rel);
extern void applyrow_disable_partition_check(Relation rel);

/* ---------- in applygenerated.c: generated columns whose values come with the row */

struct Bitmapset;
struct QueryDesc;
struct List;
struct PlannedStmt;
struct Query;
struct ResultRelInfo;

/* Past the rewriter, which refuses them: behind parse analysis, before planning. */
extern void applygenerated_hide(struct Query *query);
extern void applygenerated_show(struct Query *query);

/* The target, open, if none of its columns is to be computed; else NULL. */
extern Relation applygenerated_open(const struct PlannedStmt *plan);
extern void applygenerated_leave_out(struct QueryDesc *queryDesc, struct ResultRelInfo *target);

/* COPY: are there any among the columns?  Then none is generated meanwhile. */
extern bool applygenerated_is_named(const struct List *columns, Relation rel);
extern struct Bitmapset *applygenerated_unmark(TupleDesc desc);
extern void applygenerated_mark_again(TupleDesc desc, const struct Bitmapset *columns);

/* ---------- in functionerror.c: errors of users' functions */

extern bool functionerror_needs_hook(Oid function);
extern void functionerror_on_call(FmgrHookEventType event, const FmgrInfo *flinfo);

/* ---------- in applywait.c */

extern void applywait_lockers(Oid table, LOCKMODE mode);

/* ---------- in applyunproven.c: unique indexes that aren't valid */

extern void applyunproven_on_index_invalidation(Datum arg, int cacheid, uint32 hashvalue);
extern void applyunproven_before_rows(Relation rel);	/* in an apply session */

#endif							/* LOCKSTEP_APPLY_H */
