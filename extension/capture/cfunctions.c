/*
 * cfunctions.c
 *	  Calls of C functions, which may have effects that no other hook sees.
 *
 * Effects of procedural languages pass the executor and ProcessUtility; built-in functions are
 * handled one by one (sequence.c, largeobject.c, notify.c).  There remain C functions of extensions.  Each
 * call of a volatile one is watched through the function manager's hook: if WAL was written
 * meanwhile under a transaction ID, more than reading writes (ownwal.c), but no row was captured or
 * locked, nothing forwarded and no utility command run, then an effect is unaccounted for.  executor.c may
 * still forward the SELECT that made the call; otherwise walwitness.c refuses the
 * transaction.
 *
 * Immutable and stable functions are trusted, so that operators and the like cost nothing.
 *
 * The same hook makes compiled expressions (JIT) call the replacements of built-in functions.
 * Such an expression calls a function by its C symbol, or contains its code, past the table
 * of built-in functions.  If the hook wants to see a function, the expression
 * calls fmgr_security_definer() instead, which looks the function up and finds the
 * replacement.  All other parts of the plan are compiled as usual.
 *
 * Functions of event triggers are counted as well: their effects while an extension's
 * script runs are not part of the script.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "capture.h"
#include "growing.h"
#include "guc.h"
#include "interpose.h"
#include "mode.h"
#include "ownwal.h"
#include "patch.h"
#include "session.h"
#include "xact.h"

typedef enum CallKind
{
	CALL_OTHER,
	CALL_REPLACED,				/* a built-in function, or another name of it */
	CALL_C,
	CALL_NOTIFIES,				/* in C, and seen by no other hook */
	CALL_SURGERY,				/* changes pages of tables, without a
								 * transaction ID */
	CALL_EVENT_TRIGGER
} CallKind;

/* What there was when a watched function was called. */
typedef struct Frame
{
	CallKind	kind;
	int64		wal_records;
	XLogRecPtr	wal_position;
	uint64		rows;
	uint64		statements;
	uint64		commands;
	uint64		sequences;
	bool		locked;
} Frame;

static Frame *frames = NULL;	/* a stack */
static int	nframes = 0;
static int	maxframes = 0;

/* Declared by a user: LANGUAGE internal AS 'nextval_oid'. */
static bool
is_replaced(HeapTuple tuple)
{
	bool		isnull;
	Datum		source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);

	return !isnull && ls_is_replaced(TextDatumGetCString(source));
}

/* contrib/pg_surgery: rows vanish or come back, on this node only. */
static bool
is_surgery(HeapTuple tuple)
{
	bool		isnull;
	Datum		source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	char	   *symbol = isnull ? "" : TextDatumGetCString(source);

	return strcmp(symbol, "heap_force_kill") == 0 || strcmp(symbol, "heap_force_freeze") == 0;
}

static void
refuse_surgery(void)
{
	bool		allowed = ls_unreplicated == LS_UNREPLICATED_ALLOW;

	ereport(allowed ? WARNING : ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 allowed ? errmsg("what pg_surgery does is not replicated") :
			 errmsg("cannot run a function of pg_surgery on a node"),
			 errdetail("It changes rows of this node only, in a way that cannot be captured."),
			 errhint("To repair this node, set lockstep.replicate to off, then run lockstepctl verify.")));
}

static CallKind
kind_of(Oid function)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	CallKind	kind = CALL_OTHER;

	if (function < FirstNormalObjectId)
		return ls_is_replaced_builtin(function) ? CALL_REPLACED : CALL_OTHER;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return CALL_OTHER;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prorettype == EVENT_TRIGGEROID)
		kind = CALL_EVENT_TRIGGER;
	else if (proc->prolang == INTERNALlanguageId)
		kind = is_replaced(tuple) ? CALL_REPLACED : CALL_OTHER;
	else if (proc->prolang == ClanguageId && is_surgery(tuple))
		kind = CALL_SURGERY;
	else if (proc->prolang == ClanguageId && proc->provolatile == PROVOLATILE_VOLATILE &&
			 proc->pronamespace != ls_schema_oid())
		kind = notify_is_hidden_in(proc, tuple) ? CALL_NOTIFIES : CALL_C;
	ReleaseSysCache(tuple);
	return kind;
}

bool
cfunctions_needs_hook(Oid function)
{
	return kind_of(function) != CALL_OTHER;
}

static void
push(CallKind kind)
{
	Frame	   *frame;

	if (kind == CALL_NOTIFIES && ls_mode() == LS_MODE_ORIGIN)
		notify_refuse_hidden();
	if (kind == CALL_SURGERY && ls_mode() == LS_MODE_ORIGIN)
		refuse_surgery();
	frames = ls_with_room(frames, nframes, &maxframes, sizeof(Frame));
	frame = &frames[nframes++];
	frame->kind = kind;
	frame->wal_records = pgWalUsage.wal_records;
	frame->wal_position = ownwal_position();
	frame->rows = capture_rows_seen();
	frame->statements = xact_nstatements();
	frame->commands = walwitness_commands();
	frame->sequences = walwitness_sequence_values();
	frame->locked = capture_rows_were_locked();
	if (kind == CALL_EVENT_TRIGGER)
		nesting.event_trigger++;
}

static bool
wrote_unexplained(const Frame *frame)
{
	return frame->kind == CALL_C &&
		pgWalUsage.wal_records != frame->wal_records &&
		TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		capture_rows_seen() == frame->rows &&
		xact_nstatements() == frame->statements &&
		walwitness_commands() == frame->commands &&
		walwitness_sequence_values() == frame->sequences &&
		capture_rows_were_locked() == frame->locked &&
		ls_mode() == LS_MODE_ORIGIN && !walwitness_is_unexplained() &&
		!ownwal_only_reads(frame->wal_position);
}

static void
pop(bool aborted)
{
	const Frame *frame = &frames[--nframes];

	if (frame->kind == CALL_EVENT_TRIGGER)
		nesting.event_trigger--;
	if (!aborted && wrote_unexplained(frame))
		walwitness_note_unexplained();
}

void
cfunctions_on_call(FmgrHookEventType event, FmgrInfo *flinfo)
{
	switch (event)
	{
		case FHET_START:
			interpose_new_modules();	/* its module has been loaded by now */
			push(kind_of(flinfo->fn_oid));
			break;
		case FHET_END:
			pop(false);
			break;
		case FHET_ABORT:
			pop(true);
			break;
	}
}
