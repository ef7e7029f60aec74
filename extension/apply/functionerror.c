/*
 * functionerror.c
 *	  Errors of users' functions where a transaction is applied.
 *
 * The replicator tells by the SQLSTATE whether the transaction or the node is to blame: a full disk or a corrupted page
 * drops the node, and the classes of lockstep itself say how far it has come.  But a function in the expression of an
 * index, or one that ALTER TABLE ... USING calls, can raise any SQLSTATE, or make PostgreSQL raise it (LOAD), and whoever owns
 * it could drop all nodes but his own.  So what comes out of a user's function has another SQLSTATE:
 *
 *	  08, 53, 57, 58, F0, LS, XX	38000 (external routine exception): the transaction fails
 *	  53200, 40001, 40P01,			LS006: may pass, so the transaction is tried again a few
 *	  55P03, 57014					times, then fails with 38000
 *	  others						the same: they are the transaction's
 *
 * A disk that is really full is then noticed by the next change that calls no such function.
 *
 * These functions, that is all which are not built in and not in C, are watched by the hook of the function manager.
 * PostgreSQL does not put the body of a watched SQL function in place of its call, and finds it not immutable
 * where the body would be: so one whose body is an expression is not watched.  What it calls
 * is.  The SQLSTATE changes where the error leaves the outermost function, because others may catch it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "apply.h"
#include "lockstep.h"
#include "mode.h"
#include "session.h"

static int	depth = 0;			/* of functions that are watched */

static bool
has_sublink(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || raw_expression_tree_walker(node, has_sublink, context);
}

/* SQL of the standard; see PostgreSQL's inline_function(). */
static bool
is_parsed_expression(Node *body)
{
	List	   *queries = IsA(body, List) ? linitial_node(List, castNode(List, body)) : list_make1(body);
	Query	   *query = list_length(queries) == 1 ? linitial_node(Query, queries) : NULL;

	return query != NULL && query->commandType == CMD_SELECT && query->jointree->fromlist == NIL &&
		query->cteList == NIL && query->rowMarks == NIL && !query->hasSubLinks;
}

static bool
is_text_expression(const char *source)
{
	List	   *statements = raw_parser(source, RAW_PARSE_DEFAULT);
	SelectStmt *select;

	if (list_length(statements) != 1 || !IsA(linitial_node(RawStmt, statements)->stmt, SelectStmt))
		return false;
	select = (SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	return select->op == SETOP_NONE && select->fromClause == NIL && select->withClause == NULL &&
		select->valuesLists == NIL && select->lockingClause == NIL && select->intoClause == NULL &&
		!has_sublink((Node *) select, NULL);
}

static bool
read_is_expression(HeapTuple tuple)
{
	bool		none;
	Datum		body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosqlbody, &none);

	if (!none)
		return is_parsed_expression(stringToNode(TextDatumGetCString(body)));
	body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &none);
	return !none && is_text_expression(TextDatumGetCString(body));
}

/* It is asked for at the begin and the end of each call. */
#define KNOWN 16

static bool
is_expression(HeapTuple tuple)
{
	static struct
	{
		TransactionId xmin;
		ItemPointerData tid;
		Oid			function;
		bool		is_expression;
	}			known[KNOWN];
	Oid			function = ((Form_pg_proc) GETSTRUCT(tuple))->oid;
	TransactionId xmin = HeapTupleHeaderGetRawXmin(tuple->t_data);
	int			at = function % KNOWN;

	if (known[at].function != function || known[at].xmin != xmin || !ItemPointerEquals(&known[at].tid, &tuple->t_self))
	{
		known[at].function = InvalidOid;	/* reading may fail */
		known[at].is_expression = read_is_expression(tuple);
		known[at].function = function;
		known[at].xmin = xmin;
		known[at].tid = tuple->t_self;
	}
	return known[at].is_expression;
}

bool
functionerror_needs_hook(Oid function)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	bool		needed;

	if (likely(!session_applies()) || function < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return false;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	needed = proc->prolang != INTERNALlanguageId && proc->prolang != ClanguageId &&
		proc->pronamespace != ls_schema_oid() &&
		!(proc->prolang == SQLlanguageId && is_expression(tuple));
	ReleaseSysCache(tuple);
	return needed;
}

/* Would the replicator take it for something else than an error of the transaction? */
static bool
is_misleading(int sqlstate)
{
	static const int categories[] = {
		ERRCODE_CONNECTION_EXCEPTION, ERRCODE_INSUFFICIENT_RESOURCES, ERRCODE_OPERATOR_INTERVENTION,
		ERRCODE_SYSTEM_ERROR, ERRCODE_CONFIG_FILE_ERROR, ERRCODE_INTERNAL_ERROR, LS_ERRCODE_ALREADY_APPLIED
	};

	for (int i = 0; i < lengthof(categories); i++)
	{
		if (ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(categories[i]))
			return true;
	}
	return false;
}

/* Would it be tried again without end? */
static bool
may_pass(int sqlstate)
{
	return sqlstate == ERRCODE_OUT_OF_MEMORY || sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED || sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ||
		sqlstate == ERRCODE_QUERY_CANCELED;
}

static void
change_sqlstate(void)
{
	int			sqlstate = geterrcode();

	if (may_pass(sqlstate))
		errcode(LS_ERRCODE_FUNCTION_FOR_NOW);
	else if (is_misleading(sqlstate))
		errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION);
}

void
functionerror_on_call(FmgrHookEventType event, const FmgrInfo *flinfo)
{
	if (!functionerror_needs_hook(flinfo->fn_oid))
		return;					/* watched for another reason */
	switch (event)
	{
		case FHET_START:
			depth++;
			break;
		case FHET_END:
			depth--;
			break;
		case FHET_ABORT:
			if (--depth == 0)
				change_sqlstate();
			break;
	}
}
