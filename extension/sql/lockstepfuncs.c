/*
 * lockstepfuncs.c
 *	  The SQL functions: those that the replicator calls, and those for people.
 *
 * Each takes its arguments apart, calls the module that knows, and puts the
 * result together.  Rights: what the replicator calls outside of applying is
 * revoked from PUBLIC in the extension's script; what it calls while applying
 * checks the session instead (apply_check_call).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "apply.h"
#include "capture.h"
#include "cluster.h"
#include "commit.h"
#include "crashhold.h"
#include "compat.h"
#include "delivery.h"
#include "generation.h"
#include "guc.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "lockstepfuncs.h"
#include "ls_link.h"
#include "masking.h"
#include "mode.h"
#include "monotonic.h"
#include "outsiderun.h"
#include "progress.h"
#include "querysettings.h"
#include "reading.h"
#include "sequence.h"
#include "serverkey.h"
#include "staleness.h"
#include "turn.h"
#include "unlogged.h"
#include "writerhold.h"
#include "xact.h"

#define LS_VERSION "1.1"

LS_FUNCTION(lockstep_node_info);
LS_FUNCTION(lockstep_set_cluster);
LS_FUNCTION(lockstep_heartbeat);
LS_FUNCTION(lockstep_staleness);
LS_FUNCTION(lockstep_turn_open);
LS_FUNCTION(lockstep_turn_open_at);
LS_FUNCTION(lockstep_enter_generation);
LS_FUNCTION(lockstep_missing_unlogged);
LS_FUNCTION(lockstep_send_unlogged);
LS_FUNCTION(lockstep_unlogged_settled);
LS_FUNCTION(lockstep_apply_refill);
LS_FUNCTION(lockstep_known_generation);
LS_FUNCTION(lockstep_server_key);
LS_FUNCTION(lockstep_recovered);
LS_FUNCTION(lockstep_hold_writers);
LS_FUNCTION(lockstep_outside_run);
LS_FUNCTION(lockstep_clear_outside_run);
LS_FUNCTION(lockstep_apply_start);
LS_FUNCTION(lockstep_apply_wait);
LS_FUNCTION(lockstep_apply_settings);
LS_FUNCTION(lockstep_apply_copy);
LS_FUNCTION(lockstep_apply_transaction);
LS_FUNCTION(lockstep_commit_transaction);
LS_FUNCTION(lockstep_deliver_verdict);
LS_FUNCTION(lockstep_apply_begin);
LS_FUNCTION(lockstep_apply_begin_several);
LS_FUNCTION(lockstep_apply_commit);
LS_FUNCTION(lockstep_apply_rollback);
LS_FUNCTION(lockstep_apply_sequence);
LS_FUNCTION(lockstep_sequence_positions);
LS_FUNCTION(lockstep_sequences_reported);
LS_FUNCTION(lockstep_sequence_leases);
LS_FUNCTION(lockstep_blockers);
LS_FUNCTION(lockstep_deny_verdict);
LS_FUNCTION(lockstep_yield);
LS_FUNCTION(lockstep_yield_in_circle);
LS_FUNCTION(lockstep_turn_waits);
LS_FUNCTION(lockstep_step_waits);
LS_FUNCTION(lockstep_rows_fingerprint);
LS_FUNCTION(lockstep_forwarded_queries);
LS_FUNCTION(lockstep_status);
LS_FUNCTION(lockstep_last_seq);
LS_FUNCTION(lockstep_applied_seq);
LS_FUNCTION(lockstep_wait_for);

/* ---------- arguments and results */

/* A seq in SQL is a bigint; none is negative. */
static uint64
seq_argument(Datum value)
{
	int64		seq = DatumGetInt64(value);

	if (seq < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a sequence number of the journal is not negative: %lld",
						(long long) seq)));
	return (uint64) seq;
}

static Datum
row_result(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static Datum
slice_text(LsSlice s)
{
	return PointerGetDatum(cstring_to_text_with_len((const char *) s.data, s.len));
}

/* One-dimensional text[]; NULL elements for those with nulls[i]. */
static Datum
text_array(Datum *values, bool *nulls, int n)
{
	int			dims[1] = {n};
	int			lbounds[1] = {1};

	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, lbounds,
											  TEXTOID, -1, false, TYPALIGN_INT));
}

static void
require_extension(void)
{
	if (!OidIsValid(ls_progress_relid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the tables of extension lockstep are missing in this database")));
}

/* ---------- the node, for the replicator */

Datum
lockstep_node_info(PG_FUNCTION_ARGS)
{
	Datum		values[7];
	bool		nulls[7] = {false};

	require_extension();
	staleness_answered();
	values[0] = CStringGetTextDatum(ls_node_name);
	values[1] = CStringGetTextDatum(cluster_identity());
	values[2] = CStringGetTextDatum(psprintf(UINT64_FORMAT, turn_boot_id()));
	values[3] = BoolGetDatum(turn_is_open());
	values[4] = Int64GetDatum((int64) turn_applied());
	values[5] = Int64GetDatum((int64) progress_read());
	values[6] = CStringGetTextDatum(LS_VERSION);
	return row_result(fcinfo, values, nulls);
}

/*
 * The argument may be 0: nothing has been decided yet; or negative: the replicator does not know
 * whether it still leads, so it says nothing of how far the cluster has come.
 */
Datum
lockstep_heartbeat(PG_FUNCTION_ARGS)
{
	uint64		seq = (uint64) Max(PG_GETARG_INT64(0), 0);

	generation_heartbeat();
	turn_check_divergence();
	if (PG_GETARG_INT64(0) < 0)
	{
		staleness_answered();
		PG_RETURN_INT64((int64) turn_applied());
	}
	crashhold_heartbeat(seq);
	PG_RETURN_INT64((int64) staleness_heartbeat(seq));
}

Datum
lockstep_hold_writers(PG_FUNCTION_ARGS)
{
	char	   *how = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_RETURN_INT64(writerhold_set(how, PG_GETARG_INT64(1)));
}

Datum
lockstep_recovered(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(crashhold_is_recovered());
}

Datum
lockstep_staleness(PG_FUNCTION_ARGS)
{
	int64		ms = staleness_ms();
	Interval   *result;

	if (ms < 0)
		PG_RETURN_NULL();
	result = palloc0(sizeof(Interval));
	result->time = ms * 1000;
	PG_RETURN_INTERVAL_P(result);
}

Datum
lockstep_set_cluster(PG_FUNCTION_ARGS)
{
	char	   *identity = text_to_cstring(PG_GETARG_TEXT_PP(0));

	require_extension();
	generation_check();
	if (identity[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the identity of a cluster must not be empty")));
	cluster_set_identity(identity);
	PG_RETURN_VOID();
}

/* seq, or seq and chain, which SQL knows as a bigint of any sign. */
static JournalPosition
place_arguments(FunctionCallInfo fcinfo)
{
	JournalPosition position;

	position.seq = seq_argument(PG_GETARG_DATUM(0));
	position.chain = PG_NARGS() > 1 ? (uint64) PG_GETARG_INT64(1) : 0;
	return position;
}

static Generation
generation_arguments(FunctionCallInfo fcinfo)
{
	Generation	generation = {seq_argument(PG_GETARG_DATUM(0)), (uint64) PG_GETARG_INT64(1)};

	if (generation.number == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a generation is greater than 0")));
	return generation;
}

Datum
lockstep_enter_generation(PG_FUNCTION_ARGS)
{
	require_extension();
	generation_enter(generation_arguments(fcinfo));
	unlogged_note_reset();
	PG_RETURN_VOID();
}

/* ---------- unlogged tables */

Datum
lockstep_missing_unlogged(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(list_length(unlogged_missing()));
}

Datum
lockstep_send_unlogged(PG_FUNCTION_ARGS)
{
	generation_check();
	refill_all(PG_GETARG_BOOL(0));
	PG_RETURN_VOID();
}

Datum
lockstep_unlogged_settled(PG_FUNCTION_ARGS)
{
	generation_check();
	unlogged_settled();
	PG_RETURN_VOID();
}

Datum
lockstep_apply_refill(PG_FUNCTION_ARGS)
{
	RangeVar   *name = makeRangeVar(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1)), -1);

	apply_check_call("apply_refill");
	if (PG_GETARG_BOOL(2))
		unlogged_begin_refill(RangeVarGetRelid(name, RowExclusiveLock, false));
	else
		unlogged_end_refill();
	PG_RETURN_VOID();
}

Datum
lockstep_known_generation(PG_FUNCTION_ARGS)
{
	int64		served_ms;
	Generation	known = generation_known(&served_ms);
	Datum		values[3];
	bool		nulls[3] = {false};

	values[0] = Int64GetDatum((int64) known.number);
	values[1] = Int64GetDatum((int64) known.run);
	values[2] = Int64GetDatum(served_ms);
	nulls[2] = served_ms < 0;
	return row_result(fcinfo, values, nulls);
}

/* Whoever has it can do on all nodes what a superuser can, so no right to it can be granted. */
Datum
lockstep_server_key(PG_FUNCTION_ARGS)
{
	bytea	   *key = palloc(VARHDRSZ + LS_SERVER_KEY_SIZE);

	if (!superuser_arg(GetSessionUserId()) || !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only a superuser's session may ask for the key of this server")));
	SET_VARSIZE(key, VARHDRSZ + LS_SERVER_KEY_SIZE);
	memcpy(VARDATA(key), serverkey(), LS_SERVER_KEY_SIZE);
	serverkey_told();
	PG_RETURN_BYTEA_P(key);
}

Datum
lockstep_outside_run(PG_FUNCTION_ARGS)
{
	char	   *reason = outsiderun_reason();

	if (reason == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(reason));
}

Datum
lockstep_clear_outside_run(PG_FUNCTION_ARGS)
{
	outsiderun_clear();
	PG_RETURN_VOID();
}

/* For the replicator that the node follows, when the last of an older one is over. */
static JournalPosition
open_turn(FunctionCallInfo fcinfo)
{
	JournalPosition position = place_arguments(fcinfo);

	generation_require();
	turn_drain();
	turn_check_divergence();
	outsiderun_begin();
	return turn_open(position);
}

Datum
lockstep_turn_open(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) open_turn(fcinfo).seq);
}

Datum
lockstep_turn_open_at(PG_FUNCTION_ARGS)
{
	JournalPosition position = open_turn(fcinfo);
	Datum		values[2];
	bool		nulls[2] = {false};

	values[0] = Int64GetDatum((int64) position.seq);
	values[1] = Int64GetDatum((int64) position.chain);
	return row_result(fcinfo, values, nulls);
}

/* ---------- applying */

Datum
lockstep_apply_start(PG_FUNCTION_ARGS)
{
	apply_start(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}

Datum
lockstep_apply_wait(PG_FUNCTION_ARGS)
{
	apply_check_call("apply_wait");
	applytransaction_wait(seq_argument(PG_GETARG_DATUM(0)));
	PG_RETURN_VOID();
}

Datum
lockstep_apply_settings(PG_FUNCTION_ARGS)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n = 0;
	char	  **values = NULL;

	apply_check_call("apply_settings");
	if (!PG_ARGISNULL(0))
	{
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT,
						  &elements, &nulls, &n);
		values = palloc(Max(n, 1) * sizeof(char *));
		for (int i = 0; i < n; i++)
		{
			if (nulls[i])
				ereport(ERROR,
						(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						 errmsg("settings must not be null")));
			values[i] = TextDatumGetCString(elements[i]);
		}
	}
	if (n % 2 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("settings must be pairs of name and value")));
	querysettings_set(values, n);
	PG_RETURN_VOID();
}

Datum
lockstep_apply_copy(PG_FUNCTION_ARGS)
{
	text	   *data = PG_GETARG_TEXT_PP(1);

	apply_check_call("apply_copy");
	PG_RETURN_INT64((int64) apply_copy(text_to_cstring(PG_GETARG_TEXT_PP(0)),
									   VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)));
}

/* These two are executed by applytransaction.c; a call that gets here comes from elsewhere. */
Datum
lockstep_apply_transaction(PG_FUNCTION_ARGS)
{
	apply_refuse_call("apply_transaction");
	PG_RETURN_VOID();
}

Datum
lockstep_commit_transaction(PG_FUNCTION_ARGS)
{
	apply_refuse_call("commit_transaction");
	PG_RETURN_VOID();
}

Datum
lockstep_deliver_verdict(PG_FUNCTION_ARGS)
{
	JournalPosition position = {seq_argument(PG_GETARG_DATUM(3)), (uint64) PG_GETARG_INT64(4)};

	apply_check_call("deliver_verdict");
	commit_check_not_applied(position);
	delivery_make(PG_GETARG_INT32(0), (uint64) PG_GETARG_INT64(1), (uint64) PG_GETARG_INT64(2), position);
	commit_check_not_applied(position);
	PG_RETURN_VOID();
}

Datum
lockstep_apply_begin(PG_FUNCTION_ARGS)
{
	JournalPosition position = place_arguments(fcinfo);

	apply_check_call("apply_begin");
	applytransaction_claim(position.seq, position);
	PG_RETURN_VOID();
}

/* From the first seq to that of the place. */
Datum
lockstep_apply_begin_several(PG_FUNCTION_ARGS)
{
	uint64		first = seq_argument(PG_GETARG_DATUM(0));
	JournalPosition last = {seq_argument(PG_GETARG_DATUM(1)), (uint64) PG_GETARG_INT64(2)};

	apply_check_call("apply_begin");
	applytransaction_claim(first, last);
	PG_RETURN_VOID();
}

Datum
lockstep_apply_commit(PG_FUNCTION_ARGS)
{
	JournalPosition position = place_arguments(fcinfo);

	apply_check_call("apply_commit");
	applytransaction_commit(position);
	PG_RETURN_VOID();
}

Datum
lockstep_apply_rollback(PG_FUNCTION_ARGS)
{
	apply_check_call("apply_rollback");
	ereport(ERROR,
			(errcode(LS_ERRCODE_APPLY_ROLLBACK),
			 errmsg("transaction rolled back at the replicator's request")));
	PG_RETURN_VOID();
}

Datum
lockstep_apply_sequence(PG_FUNCTION_ARGS)
{
	apply_check_call("apply_sequence");
	sequence_apply(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1)),
				   PG_GETARG_INT64(2), PG_GETARG_BOOL(3), text_to_cstring(PG_GETARG_TEXT_PP(4)));
	PG_RETURN_VOID();
}

Datum
lockstep_sequences_reported(PG_FUNCTION_ARGS)
{
	generation_check();
	sequence_reported();
	PG_RETURN_VOID();
}

Datum
lockstep_sequence_positions(PG_FUNCTION_ARGS)
{
	generation_check();
	InitMaterializedSRF(fcinfo, 0);
	sequence_put_positions((ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

Datum
lockstep_sequence_leases(PG_FUNCTION_ARGS)
{
	generation_check();
	InitMaterializedSRF(fcinfo, 0);
	sequence_put_leases((ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/* ---------- who is in the way */

static void
put_blocker(ReturnSetInfo *rsinfo, int waiting, const LockInstanceData *lock)
{
	Datum		values[8];
	bool		nulls[8] = {false};
	bool		is_apply;
	uint64		since = 0;
	bool		writes = lockconflict_pid_writes(lock->leaderPid, &is_apply);

	values[0] = Int32GetDatum(waiting);
	values[1] = Int32GetDatum(lock->leaderPid);
	values[2] = BoolGetDatum(writes);
	values[3] = BoolGetDatum(is_apply);

	/*
	 * not before version 1.1; a parallel worker's transaction is not its
	 * leader's
	 */
	values[4] = Int32GetDatum(lockconflict_row_of(waiting));
	values[5] = Int64GetDatum(lock->pid == lock->leaderPid ? ls_lock_lxid(lock) : InvalidLocalTransactionId);
	values[6] = Int64GetDatum((int64) delivery_awaited(lock->leaderPid, &since));
	values[7] = Int64GetDatum((int64) since);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * Held for an instant only, by any process: waiting for it is not being in
 * the way of another.
 */
static bool
lock_is_brief(const LOCKTAG *tag)
{
	switch ((LockTagType) tag->locktag_type)
	{
		case LOCKTAG_RELATION_EXTEND:
		case LOCKTAG_PAGE:
		case LOCKTAG_SPECULATIVE_TOKEN:
		case LOCKTAG_DATABASE_FROZEN_IDS:
			return true;
		default:
			return false;
	}
}

/* Does the other hold the lock in a mode that ours can't have beside it? */
static bool
holds_conflicting(const LockInstanceData *other, LOCKMODE wanted)
{
	for (LOCKMODE mode = AccessShareLock; mode <= AccessExclusiveLock; mode++)
		if ((other->holdMask & LOCKBIT_ON(mode)) && DoLockModesConflict(wanted, mode))
			return true;
	return false;
}

/* Does the other wait before us for what we could not have beside it? */
static bool
waits_before(const BlockedProcsData *data, const BlockedProcData *proc,
			 const LockInstanceData *other, LOCKMODE wanted)
{
	if (other->waitLockMode == NoLock || !DoLockModesConflict(wanted, other->waitLockMode))
		return false;
	for (int i = 0; i < proc->num_waiters; i++)
		if (data->waiter_pids[proc->first_waiter + i] == other->pid)
			return true;
	return false;
}

/* As pg_blocking_pids(), but for the locks that are brief. */
static void
put_blockers_of(ReturnSetInfo *rsinfo, int waiting)
{
	BlockedProcsData *data = GetBlockerStatusData(waiting);

	for (int i = 0; i < data->nprocs; i++)
	{
		const BlockedProcData *proc = &data->procs[i];
		const LockInstanceData *locks = &data->locks[proc->first_lock];
		const LockInstanceData *ours = NULL;

		for (int j = 0; j < proc->num_locks; j++)
			if (locks[j].pid == proc->pid)
				ours = &locks[j];
		if (ours == NULL || ours->waitLockMode == NoLock || lock_is_brief(&ours->locktag))
			continue;
		for (int j = 0; j < proc->num_locks; j++)
		{
			const LockInstanceData *other = &locks[j];

			if (other != ours && other->leaderPid != ours->leaderPid &&
				(holds_conflicting(other, ours->waitLockMode) ||
				 waits_before(data, proc, other, ours->waitLockMode)))
				put_blocker(rsinfo, waiting, other);
		}
	}
}

Datum
lockstep_blockers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *pids;
	bool	   *nulls;
	int			n;

	generation_check();
	InitMaterializedSRF(fcinfo, 0);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT4OID, sizeof(int32), true, TYPALIGN_INT,
					  &pids, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			put_blockers_of(rsinfo, DatumGetInt32(pids[i]));
	return (Datum) 0;
}

Datum
lockstep_deny_verdict(PG_FUNCTION_ARGS)
{
	generation_check();
	delivery_deny(PG_GETARG_INT32(0), (uint64) PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

Datum
lockstep_yield(PG_FUNCTION_ARGS)
{
	char	   *detail = text_to_cstring(PG_GETARG_TEXT_PP(1));
	bool		is_old = PG_NARGS() == 2;	/* version 1.0 */
	uint64		seq = is_old ? 0 : seq_argument(PG_GETARG_DATUM(2));
	int64		lxid = is_old ? InvalidLocalTransactionId : PG_GETARG_INT64(3);

	generation_check();
	PG_RETURN_BOOL(lockconflict_yield(PG_GETARG_INT32(0), (LocalTransactionId) lxid, detail, seq, false));
}

/* As it waits in a circle, that goes through several nodes. */
Datum
lockstep_yield_in_circle(PG_FUNCTION_ARGS)
{
	generation_check();
	PG_RETURN_BOOL(lockconflict_yield(PG_GETARG_INT32(0), (LocalTransactionId) PG_GETARG_INT64(1),
									  text_to_cstring(PG_GETARG_TEXT_PP(2)), 0, true));
}

static void
put_turn_wait(ReturnSetInfo *rsinfo, int pid, uint64 seq, bool holds)
{
	Datum		values[3] = {Int32GetDatum(pid), Int64GetDatum((int64) seq), BoolGetDatum(holds)};
	bool		nulls[3] = {false};

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
lockstep_turn_waits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int		   *pids = palloc(MaxBackends * sizeof(int));
	uint64	   *seqs = palloc(MaxBackends * sizeof(uint64));
	int			holder;
	uint64		held_at;
	int			n = turn_waiters(pids, seqs, &holder, &held_at);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
		put_turn_wait(rsinfo, pids[i], seqs[i], false);
	if (holder != 0)
		put_turn_wait(rsinfo, holder, held_at, true);
	return (Datum) 0;
}

/* Of commands that run CONCURRENTLY on another node. */
Datum
lockstep_step_waits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int slot = 0; slot < MaxBackends; slot++)
	{
		int			pid;
		int			blocker = lockconflict_step_wait(slot, &pid);
		Datum		values[2] = {Int32GetDatum(pid), Int32GetDatum(blocker)};
		bool		nulls[2] = {false};

		if (blocker != 0)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ---------- comparing nodes */

/*
 * Number of rows and a hash of their texts that does not depend on their
 * order.  The caller sets the formats of the texts.
 */
Datum
lockstep_rows_fingerprint(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *name = get_rel_name(relid);
	char	   *query;
	char	   *result;
	text	   *copy;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext spi;
	bool		guarded;
	int			done;

	if (schema == NULL || name == NULL)
		PG_RETURN_NULL();
	query = psprintf("SELECT count(*) || ' ' || coalesce(sum(hashtextextended(row(t.*)::text, 0)::numeric), 0)"
					 " FROM ONLY %s t", quote_qualified_identifier(schema, name));
	SPI_connect();
	guarded = reading_guard(true);
	PG_TRY();
	{
		done = SPI_execute(query, true, 0);
	}
	PG_FINALLY();
	{
		(void) reading_guard(guarded);
	}
	PG_END_TRY();
	if (done != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not compute the fingerprint of \"%s\"", name);
	result = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	spi = MemoryContextSwitchTo(caller);
	copy = cstring_to_text(result);
	MemoryContextSwitchTo(spi);
	SPI_finish();
	PG_RETURN_TEXT_P(copy);
}

/* ---------- for people */

static const char *
key_mode_text(LsKeyMode mode)
{
	switch (mode)
	{
		case LS_ROW_SHARE:
			return "share";
		case LS_ROW_UPDATE:
			return "update";
		case LS_ROW_EXCLUSIVE:
			return "exclusive";
		case LS_TABLE_IS:
			return "table IS";
		case LS_TABLE_IX:
			return "table IX";
		case LS_TABLE_S:
			return "table S";
		case LS_TABLE_X:
			return "table X";
		case LS_ROW_LOCK:
			return "lock";
		case LS_ROW_READ:
			return "read";
		case LS_TABLE_READ_ROWS:
			return "table read rows";
		case LS_TABLE_READ:
			return "table read";
	}
	return "?";
}

static Datum
params_array(const LsQuery *query)
{
	Datum	   *values = palloc(Max(query->nparams, 1) * sizeof(Datum));
	bool	   *nulls = palloc(Max(query->nparams, 1) * sizeof(bool));
	LsSlice		rest = query->params;
	LsSlice		param;
	int			n = 0;

	while (ls_next_param(&rest, &param))
	{
		nulls[n] = param.data == NULL;
		if (query->form == LS_FORM_PIECE)
			values[n] = CStringGetTextDatum(psprintf("%zu bytes", param.len));	/* no text */
		else
			values[n] = nulls[n] ? (Datum) 0 : slice_text(param);
		n++;
	}
	return text_array(values, nulls, n);
}

static Datum
keys_array(const LsQuery *query)
{
	Datum	   *values = palloc(Max(query->nkeys, 1) * sizeof(Datum));
	LsSlice		rest = query->keys;
	LsKey		key;
	int			n = 0;

	while (ls_next_key(&rest, &key))
		values[n++] = CStringGetTextDatum(psprintf("%s %.*s", key_mode_text(key.mode),
												   (int) key.name.len,
												   (const char *) key.name.data));
	return text_array(values, NULL, n);
}

static void
put_forwarded(ReturnSetInfo *rsinfo, int64 n, const LsQuery *query)
{
	Datum		values[7];
	bool		nulls[7] = {false};

	values[0] = Int64GetDatum(n);
	values[1] = CStringGetTextDatum(ls_form_text(query->form));
	values[2] = CStringGetTextDatum(ls_reason_text(query->reason));
	values[3] = slice_text(query->text);
	values[4] = params_array(query);
	values[5] = Int64GetDatum(query->rows);
	nulls[5] = query->rows < 0;
	values[6] = keys_array(query);
	if (!masking_shows_query(query))
		nulls[3] = nulls[4] = nulls[6] = true;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
lockstep_forwarded_queries(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LsSlice		rest;
	LsMsgType	type;
	LsSlice		payload;
	LsQuery		query;
	bool		truncated;
	int64		n = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (ls_mode() == LS_MODE_ORIGIN)
		capture_flush();
	rest = xact_forwarded(&truncated);
	while (ls_frame(rest.data, rest.len, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		if (ls_get_query(payload, &query) == NULL)
			put_forwarded(rsinfo, ++n, &query);
		rest.data += LS_HEADER_SIZE + payload.len;
		rest.len -= LS_HEADER_SIZE + payload.len;
	}
	if (truncated)
		ereport(WARNING,
				(errmsg("only the first queries of this transaction are shown"),
				 errdetail("It has forwarded %llu queries; the first %d kB of them are kept.",
						   (unsigned long long) xact_nstatements(), LS_FORWARDED_KEPT / 1024)));
	return (Datum) 0;
}

static const char *
mode_text(LsMode mode)
{
	switch (mode)
	{
		case LS_MODE_OFF:
			return "off";
		case LS_MODE_ORIGIN:
			return "origin";
		case LS_MODE_APPLY:
			return "apply";
	}
	return "?";
}

Datum
lockstep_status(PG_FUNCTION_ARGS)
{
	Datum		values[5];
	bool		nulls[5] = {false};

	values[0] = CStringGetTextDatum(ls_node_name);
	values[1] = CStringGetTextDatum(mode_text(ls_mode()));
	values[2] = Int64GetDatum((int64) turn_applied());
	values[3] = BoolGetDatum(link_is_open());
	values[4] = CStringGetTextDatum(ls_replicator);
	return row_result(fcinfo, values, nulls);
}

/* ---------- reading one's own writes on another node */

Datum
lockstep_last_seq(PG_FUNCTION_ARGS)
{
	if (verdict_last_seq() == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) verdict_last_seq());
}

Datum
lockstep_applied_seq(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) turn_applied());
}

/* The moment at which an interval from now ends. */
MonoTime
mono_after_interval(Interval *interval)
{
	/* months and days are as long as they are now, by the calendar */
	TimestampTz now = GetCurrentTimestamp();	/* wall clock: only a
												 * difference */
	TimestampTz then = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
															   TimestampTzGetDatum(now),
															   IntervalPGetDatum(interval)));

	return mono_after(TimestampDifferenceMilliseconds(now, then));
}

/*
 * A block's snapshot is there already, so what is waited for would not be seen
 * in it.
 */
static void
check_wait_is_useful(void)
{
	if (IsolationUsesXactSnapshot() && IsTransactionBlock())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot wait for other transactions in a transaction that does not see them"),
				 errdetail("From isolation level REPEATABLE READ up a transaction has one snapshot."),
				 errhint("Call lockstep.wait_for before BEGIN, or set lockstep.causal_reads to on.")));
}

Datum
lockstep_wait_for(PG_FUNCTION_ARGS)
{
	uint64		seq;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	seq = seq_argument(PG_GETARG_DATUM(0));
	check_wait_is_useful();
	if (!PG_ARGISNULL(1))
		PG_RETURN_BOOL(turn_wait_applied_until(seq, mono_after_interval(PG_GETARG_INTERVAL_P(1))));
	turn_wait_applied(seq);
	PG_RETURN_BOOL(true);
}
