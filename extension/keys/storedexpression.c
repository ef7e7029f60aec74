/*
 * storedexpression.c
 *	  What does the value of a stored expression depend on, besides its row?
 *
 * PostgreSQL requires functions in indexes and stored generated columns to be IMMUTABLE, and
 * trusts the declaration.  Such a value may differ on another node because of
 *
 *  - settings of the session.  A function that is not built in may read any; some
 *    built-in IMMUTABLE ones read some, as the text of a float8 depends on
 *    extra_float_digits;
 *  - OIDs of objects, which differ between nodes: 't'::regclass::oid, tableoid, hashenum().
 *
 * The answers err on the safe side.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "typeparts.h"
#include "storedexpression.h"
#include "keyhash.h"

Node *
storedexpression_of_index(Relation index, int attribute)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, attribute, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(value));
}

/* ---------- functions of users */

static bool
is_users_function(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

static bool
calls_users_walker(Node *node, void *context)
{
	return node != NULL &&
		(check_functions_in_node(node, is_users_function, context) ||
		 expression_tree_walker(node, calls_users_walker, context));
}

bool
storedexpression_calls_users(Node *expression)
{
	return calls_users_walker(expression, NULL);
}

/* ---------- settings */

/*
 * Of the built-in functions that are IMMUTABLE.  (quote_all_identifiers, timezone_abbreviations.)  Those of || with text are
 * STABLE, but PostgreSQL inlines them before it asks, and what calls an output function then may be IMMUTABLE.
 */
static bool
function_reads_settings(Oid function, void *context)
{
	switch (function)
	{
		case F_FLOAT4OUT:
		case F_FLOAT8OUT:
		case F_POINT_OUT:
		case F_LSEG_OUT:
		case F_PATH_OUT:
		case F_BOX_OUT:
		case F_POLY_OUT:
		case F_LINE_OUT:
		case F_CIRCLE_OUT:
		case F_BYTEAOUT:
		case F_ANYTEXTCAT:
		case F_TEXTANYCAT:
		case F_QUOTE_IDENT:
		case F_TIMEZONE_TEXT_TIMESTAMP:
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
			return true;
		default:
			return is_users_function(function, NULL);
	}
}

/* XMLELEMENT and the like write values as text.  A domain's checks call whatever they like. */
static bool
reads_settings_walker(Node *node, void *context)
{
	return node != NULL &&
		(IsA(node, XmlExpr) || IsA(node, CoerceToDomain) ||
		 check_functions_in_node(node, function_reads_settings, context) ||
		 expression_tree_walker(node, reads_settings_walker, context));
}

bool
storedexpression_reads_settings(Node *expression)
{
	return reads_settings_walker(expression, NULL);
}

static bool
folds_settings_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, List) && !contain_var_clause(node))
		return storedexpression_reads_settings(node);
	return expression_tree_walker(node, folds_settings_walker, context);
}

bool
storedexpression_folds_settings(Node *expression)
{
	return folds_settings_walker(expression, NULL);
}

/* ---------- OIDs */

static bool
type_is_named_oid(Oid type)
{
	Oid			element = get_base_element_type(type);

	return typeparts_is_reg(getBaseType(OidIsValid(element) ? element : type));
}

static bool
has_no_oids(Oid type, Oid collation)
{
	type = getBaseType(type);
	return !typeparts_is_reg(type) && typeparts_every(type, collation, has_no_oids, true);
}

bool
storedexpression_type_has_oids(Oid type)
{
	return OidIsValid(type) && !has_no_oids(type, InvalidOid);
}

/* Numbers that each server gives by itself. */
static bool
type_is_of_node(Oid type)
{
	switch (type)
	{
		case OIDOID:
		case OIDVECTOROID:
		case XIDOID:
		case XID8OID:
		case CIDOID:
		case TIDOID:
			return true;
		default:
			return type_is_named_oid(type) && type != REGCONFIGOID && type != REGDICTIONARYOID;
	}
}

/*
 * One that is STABLE, and built in: it looks things up, and by OIDs, or finds
 * OIDs; or it tells of the server.
 */
static bool
function_looks_up(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return true;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	found = type_is_of_node(form->prorettype) || strncmp(NameStr(form->proname), "pg_", 3) == 0;
	for (int i = 0; i < form->pronargs && !found; i++)
		found = type_is_of_node(form->proargtypes.values[i]);
	found &= form->provolatile == PROVOLATILE_STABLE;
	ReleaseSysCache(tuple);
	return found;
}

static bool
function_has_oids(Oid function, void *context)
{
	switch (function)
	{
		case F_HASHENUM:
		case F_HASHENUMEXTENDED:
		case F_HASH_ACLITEM:
		case F_HASH_ACLITEM_EXTENDED:
			return true;
		default:
			return function < FirstNormalObjectId && function_looks_up(function);
	}
}

/* The hash of something that is made of others, an enum perhaps. */
static bool
hashes_oids(FuncExpr *call)
{
	switch (call->funcid)
	{
		case F_HASH_ARRAY:
		case F_HASH_ARRAY_EXTENDED:
		case F_HASH_RECORD:
		case F_HASH_RECORD_EXTENDED:
		case F_HASH_RANGE:
		case F_HASH_RANGE_EXTENDED:
		case F_HASH_MULTIRANGE:
		case F_HASH_MULTIRANGE_EXTENDED:
			return !keyhash_is_portable(exprType(linitial(call->args)));
		default:
			return false;
	}
}

/* A text search configuration is given to functions that look into it: its OID is no value. */
static bool
is_configuration(Node *node)
{
	return node != NULL && IsA(node, Const) &&
		(((Const *) node)->consttype == REGCONFIGOID || ((Const *) node)->consttype == REGDICTIONARYOID);
}

/* Those of what initdb makes are the same on every node. */
static bool
constant_has_oid(Const *value)
{
	return !value->constisnull &&
		(!typeparts_is_reg(value->consttype) || DatumGetObjectId(value->constvalue) >= FirstUnpinnedObjectId);
}

static bool
has_oids_walker(Node *node, void *context)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varattno < 0 || type_is_named_oid(((Var *) node)->vartype);
		case T_Const:
			return type_is_named_oid(((Const *) node)->consttype) && constant_has_oid((Const *) node);
		case T_FuncExpr:
			if (function_has_oids(((FuncExpr *) node)->funcid, NULL) || hashes_oids((FuncExpr *) node))
				return true;
			foreach(lc, ((FuncExpr *) node)->args)
			{
				if (!is_configuration(lfirst(lc)) && has_oids_walker(lfirst(lc), context))
					return true;
			}
			return type_is_named_oid(((FuncExpr *) node)->funcresulttype);
		case T_RelabelType:
		case T_CoerceViaIO:
			if (type_is_named_oid(exprType(node)))
				return true;
			break;
		case T_Query:
			return query_tree_walker((Query *) node, has_oids_walker, context, 0);
		default:
			break;
	}
	return check_functions_in_node(node, function_has_oids, context) ||
		expression_tree_walker(node, has_oids_walker, context);
}

bool
storedexpression_has_oids(Node *expression)
{
	return has_oids_walker(expression, NULL);
}
