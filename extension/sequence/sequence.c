/*
 * sequence.c
 *	  Replacements of built-in functions that change something which is neither a row of a
 *	  table nor a command.
 *
 * nextval and its family are implemented in sequence_session.c; pg_logical_emit_message is
 * forwarded.  Their entries in the server's table of built-in functions are replaced;
 * queries, defaults, the fastpath protocol and functions in LANGUAGE internal call through that
 * table.  Compiled expressions (JIT) do not: see cfunctions.c.  Other modules that call these
 * functions as C functions are redirected by interpose.c.
 *
 * One way to a sequence's next value calls no function: NextValueExpr, of identity columns.
 * Before planning it is turned into a call of nextval with a second argument, by which nextval does not check
 * permissions, as NextValueExpr does not.  COPY makes such expressions without planning them:
 * copyidentity.c.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "capture.h"
#include "compat.h"
#include "guc.h"
#include "interpose.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "pack.h"
#include "patch.h"
#include "sequence_private.h"
#include "session.h"
#include "xact.h"

/* ---------- refusing */

static bool
is_captured(void)
{
	return ls_mode() == LS_MODE_ORIGIN;
}

/* True: the effect stays on this node, and the call goes on. */
static void
refuse(const char *what, const char *detail, const char *hint)
{
	bool		allowed = ls_unreplicated == LS_UNREPLICATED_ALLOW;

	ereport(allowed ? WARNING : ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 allowed ? errmsg("%s is not replicated", what) :
			 errmsg("cannot run %s on a node", what),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
	walwitness_note_command();
}

static void
refuse_collations(const char *what)
{
	if (is_captured())
		refuse(what, "Its result depends on the node's operating system.",
			   "Use CREATE COLLATION.");
}

/* ---------- the functions in place of the built-in ones */

#define ORIGINAL(name) static PGFunction original_##name

#define REFUSED(name, how) \
	ORIGINAL(name); \
	static Datum \
	instead_of_##name(PG_FUNCTION_ARGS) \
	{ \
		how(#name); \
		return original_##name(fcinfo); \
	}

REFUSED(pg_import_system_collations, refuse_collations)

ORIGINAL(nextval);
ORIGINAL(currval);
ORIGINAL(lastval);
ORIGINAL(setval);
ORIGINAL(setval_is_called);
ORIGINAL(emit_text);
ORIGINAL(emit_bytea);

/*
 * The session is no origin: it keeps its changes to itself, or executes another node's
 * transaction.  That transaction has all values in its queries; a nextval that something calls
 * there would hand out a value that no lease covers.  Sequences that the transaction has made
 * are an exception.
 */
static void
check_uncaptured(Oid relid, const char *what)
{
	Relation	rel;
	bool		wrong;

	if (ls_mode() != LS_MODE_APPLY && !utility_is_replayed())
		return;
	if (session_repairs() && strcmp(what, "setval") == 0)
		return;					/* lockstepctl verify --repair */
	rel = relation_open(relid, AccessShareLock);
	wrong = rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP && !sequence_is_new(rel);
	relation_close(rel, AccessShareLock);
	if (wrong)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run %s in a command that every node runs by itself", what),
				 errdetail("A constraint, an index, or the script of an extension calls it; each node would get another value.")));
}

static Datum
instead_of_nextval(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	bool		check = PG_NARGS() != 2;
	int64		result;

	if (!is_captured())
		check_uncaptured(relid, "nextval");
	else if (sequence_nextval(relid, check, &result))
		PG_RETURN_INT64(result);
	if (!check)
		PG_RETURN_INT64(nextval_internal(relid, false));
	return original_nextval(fcinfo);
}

/* Called from C only. */
static Datum
instead_of_nextval_text(PG_FUNCTION_ARGS)
{
	RangeVar   *name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));

	return DirectFunctionCall1(instead_of_nextval, ObjectIdGetDatum(RangeVarGetRelid(name, NoLock, false)));
}

static int64
instead_of_nextval_internal(Oid relid, bool check)
{
	int64		result;

	if (!is_captured())
		check_uncaptured(relid, "nextval");
	else if (sequence_nextval(relid, check, &result))
		return result;
	return nextval_internal(relid, check);
}

static Datum
instead_of_currval(PG_FUNCTION_ARGS)
{
	int64		result;

	if (sequence_currval(PG_GETARG_OID(0), &result))
		PG_RETURN_INT64(result);
	return original_currval(fcinfo);
}

static Datum
instead_of_lastval(PG_FUNCTION_ARGS)
{
	int64		result;

	if (sequence_lastval(&result))
		PG_RETURN_INT64(result);
	return original_lastval(fcinfo);
}

static Datum
instead_of_setval(PG_FUNCTION_ARGS)
{
	if (!is_captured())
		check_uncaptured(PG_GETARG_OID(0), "setval");
	else if (sequence_setval(PG_GETARG_OID(0), PG_GETARG_INT64(1), true))
		PG_RETURN_INT64(PG_GETARG_INT64(1));
	return original_setval(fcinfo);
}

static Datum
instead_of_setval_is_called(PG_FUNCTION_ARGS)
{
	if (!is_captured())
		check_uncaptured(PG_GETARG_OID(0), "setval");
	else if (sequence_setval(PG_GETARG_OID(0), PG_GETARG_INT64(1), PG_GETARG_BOOL(2)))
		PG_RETURN_INT64(PG_GETARG_INT64(1));
	return original_setval_is_called(fcinfo);
}

/* ---------- logical messages */

/* Forward the call itself, whatever statement it is in: it depends on nothing else. */
static void
forward_message(FunctionCallInfo fcinfo, const char *call, const char *content)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = LS_REASON_SELECT_WROTE,.rows = -1};
	LsKey		key = keyset_database_key(LS_TABLE_IX);
	char	   *prefix = text_to_cstring(PG_GETARG_TEXT_PP(1));
	StringInfoData params;
	StringInfoData packed;

	initStringInfo(&params);
	initStringInfo(&packed);
	pack_key(&packed, &key);
	pack_param(&params, prefix, strlen(prefix));
	pack_param(&params, content, strlen(content));
	query.text = ls_slice_of(call);
	query.nparams = 2;
	query.params = ls_slice_of_buffer(&params);
	query.nkeys = 1;
	query.keys = ls_slice_of_buffer(&packed);
	capture_flush();
	xact_forward(&query);
	pfree(params.data);
	pfree(packed.data);
}

/* A parallel worker cannot forward; the server would let it write the message. */
static bool
message_is_captured(FunctionCallInfo fcinfo)
{
	if (!PG_GETARG_BOOL(0))
		return false;
	PreventCommandIfParallelMode("pg_logical_emit_message()");
	return is_captured();
}

static Datum
instead_of_emit_text(PG_FUNCTION_ARGS)
{
	if (message_is_captured(fcinfo))
		forward_message(fcinfo, "SELECT pg_catalog.pg_logical_emit_message(true, $1::pg_catalog.text, $2::pg_catalog.text)",
						text_to_cstring(PG_GETARG_TEXT_PP(2)));
	return original_emit_text(fcinfo);
}

static Datum
instead_of_emit_bytea(PG_FUNCTION_ARGS)
{
	if (message_is_captured(fcinfo))
	{
		bytea	   *content = PG_GETARG_BYTEA_PP(2);
		char	   *hex = palloc(2 * VARSIZE_ANY_EXHDR(content) + 3);

		hex[0] = '\\';
		hex[1] = 'x';
		hex[2 + hex_encode(VARDATA_ANY(content), VARSIZE_ANY_EXHDR(content), hex + 2)] = '\0';
		forward_message(fcinfo, "SELECT pg_catalog.pg_logical_emit_message(true, $1::pg_catalog.text, $2::pg_catalog.bytea)",
						hex);
	}
	return original_emit_bytea(fcinfo);
}

/* ---------- putting them in place */

void
sequence_replace_functions(void)
{
#define REPLACE(oid, name) ls_replace_function(oid, instead_of_##name, &original_##name, #name)
	REPLACE(F_NEXTVAL, nextval);
	REPLACE(F_CURRVAL, currval);
	REPLACE(F_LASTVAL, lastval);
	REPLACE(F_SETVAL_REGCLASS_INT8, setval);
	REPLACE(F_SETVAL_REGCLASS_INT8_BOOL, setval_is_called);
	REPLACE(F_PG_IMPORT_SYSTEM_COLLATIONS, pg_import_system_collations);
	REPLACE(LS_F_EMIT_MESSAGE_TEXT, emit_text);
	REPLACE(LS_F_EMIT_MESSAGE_BYTEA, emit_bytea);
#undef REPLACE
	interpose_replace(nextval, instead_of_nextval_text, "calls of nextval");
	interpose_replace(nextval_oid, instead_of_nextval, "calls of nextval_oid");
	interpose_replace(nextval_internal, instead_of_nextval_internal, "calls of nextval_internal");
	interpose_replace(currval_oid, instead_of_currval, "calls of currval_oid");
	interpose_replace(lastval, instead_of_lastval, "calls of lastval");
	interpose_replace(setval_oid, instead_of_setval, "calls of setval_oid");
	interpose_replace(setval3_oid, instead_of_setval_is_called, "calls of setval3_oid");
}

/* ---------- identity columns */

static bool
has_next_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, NextValueExpr))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_next_value, context, 0);
	return expression_tree_walker(node, has_next_value, context);
}

Node *
sequence_nextval_call(Oid seqid, Oid type)
{
	Const	   *sequence = makeConst(REGCLASSOID, -1, InvalidOid, sizeof(Oid),
									 ObjectIdGetDatum(seqid), false, true);
	Expr	   *call = (Expr *) makeFuncExpr(F_NEXTVAL, INT8OID,
											 list_make2(sequence, makeBoolConst(true, false)),
											 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);

	switch (type)
	{
		case INT2OID:
			return (Node *) makeFuncExpr(F_INT2_INT8, INT2OID, list_make1(call),
										 InvalidOid, InvalidOid, COERCE_IMPLICIT_CAST);
		case INT4OID:
			return (Node *) makeFuncExpr(F_INT4_INT8, INT4OID, list_make1(call),
										 InvalidOid, InvalidOid, COERCE_IMPLICIT_CAST);
		default:
			return (Node *) call;
	}
}

static Node *
replace_next_values(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, NextValueExpr))
		return sequence_nextval_call(((NextValueExpr *) node)->seqid, ((NextValueExpr *) node)->typeId);
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, replace_next_values, context, 0);
	return expression_tree_mutator(node, replace_next_values, context);
}

/* In every mode: plans are cached, and the mode may change. */
Query *
sequence_before_planning(Query *query)
{
	if ((query->commandType != CMD_SELECT || query->hasModifyingCTE) &&
		has_next_value((Node *) query, NULL))
		query = (Query *) replace_next_values((Node *) query, NULL);
	return query;
}
