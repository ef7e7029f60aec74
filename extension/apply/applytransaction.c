/*
 * applytransaction.c
 *	  A transaction of changed rows in one call, and the commit of one that was executed
 *	  before it was decided.
 *
 *	  CALL lockstep.apply_transaction($1)	waits for other transactions, claims the
 *											seqs if it is decided, changes the rows
 *	  CALL lockstep.commit_transaction($1)	the place at which it commits
 *
 * $1 is LsWork of protocol.h.  A decided transaction is one of the first and a Sync, at
 * which it commits.
 *
 * The two are recognized by their texts and executed before PostgreSQL looks at them: a
 * procedure that is really called costs an executor state, and a function in a SELECT even a
 * plan's, a tuple and its description.  Only the client itself can have sent them
 * like that: the text of a command at top level is what the client has sent, and in an apply
 * session the client is the replicator.  Everybody else gets to the procedures
 * themselves, which refuse.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#include "apply.h"
#include "commit.h"
#include "lockstep.h"
#include "turn.h"
#include "xact.h"

static const char apply_command[] = "CALL lockstep.apply_transaction($1)";
static const char commit_command[] = "CALL lockstep.commit_transaction($1)";

/*
 * The queries that follow are in the same transaction: what was waited for must
 * not be hidden by what the caches knew before.
 */
void
applytransaction_wait(uint64 seq)
{
	turn_wait_applied(seq);
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
}

void
applytransaction_claim(uint64 first, JournalPosition last)
{
	if (first == 0 || first > last.seq || last.seq - first >= LS_MAX_TOGETHER)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot apply transactions %llu to %llu as one", (unsigned long long) first, (unsigned long long) last.seq)));
	commit_claim_for_apply(first, last);
	xact_set_apply_position(last);
}

void
applytransaction_commit(JournalPosition position)
{
	commit_check_not_applied(position);
	xact_set_apply_position(position);
}

static void
apply(const LsWork *work)
{
	JournalPosition position = {work->seq, work->chain};

	if (work->wait_for != 0)
		applytransaction_wait(work->wait_for);
	if (work->first != 0)
		applytransaction_claim(work->first, position);
	if (work->rows.len > 0)
		apply_rows(work->rows);
}

static LsWork
work_of(Datum argument)
{
	bytea	   *value = DatumGetByteaPP(argument);
	LsSlice		bytes;
	LsWork		work;

	bytes.data = (const uint8_t *) VARDATA_ANY(value);
	bytes.len = VARSIZE_ANY_EXHDR(value);
	if (!ls_get_work(bytes, &work) || work.wait_for > PG_INT64_MAX || work.seq > PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the description of a transaction is malformed")));
	return work;
}

bool
applytransaction_call(const Node *stmt, const char *source, const ParamListInfoData *params)
{
	bool		applies;
	LsWork		work;
	JournalPosition position;

	if (!IsA(stmt, CallStmt) || params == NULL || params->numParams != 1 ||
		params->params[0].ptype != BYTEAOID || params->params[0].isnull || InLocalUserIdChange())
		return false;
	applies = strcmp(source, apply_command) == 0;
	if (!applies && strcmp(source, commit_command) != 0)
		return false;
	work = work_of(params->params[0].value);
	position.seq = work.seq;
	position.chain = work.chain;
	if (applies)
		apply(&work);
	else
		applytransaction_commit(position);
	return true;
}
