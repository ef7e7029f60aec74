/*
 * ddldatabase.c
 *	  CREATE DATABASE, DROP DATABASE and ALTER DATABASE ... RENAME.
 *
 * They copy and delete files, or change the name by which a database is known, and no transaction
 * block can hold them: so they are not forwarded.
 * The rights are checked here, as PostgreSQL does; the replicator has every node do the work
 * as a superuser, and answers when all that are online have done it
 * (replicator/membership/database_command.c).  This node is one of them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ddl.h"
#include "lockconflict.h"
#include "request.h"

/* ---------- CREATE DATABASE: who may */

static bool
may_create_database(void)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	bool		may = superuser();

	if (HeapTupleIsValid(tuple))
	{
		may |= ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/* One of no database's own. */
static void
check_template(const char *name)
{
	Oid			template = get_database_oid(name, true);
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(template));
	bool		is_template;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_DATABASE),
				 errmsg("template database \"%s\" does not exist", name)));
	is_template = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	ReleaseSysCache(tuple);
	if (!is_template && !ls_owns_database(template, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to copy database \"%s\"", name)));
	if (lockconflict_apply_session_in(template) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use database \"%s\" as a template", name),
				 errdetail("It is replicated: nodes are connected to it, and copies made on several nodes would differ."),
				 errhint("Use pg_dump and pg_restore, or a template that is not replicated and equal on all nodes.")));
}

static void
check_tablespace(const char *name)
{
	Oid			tablespace = get_tablespace_oid(name, false);

	if (!ls_may_create_in_tablespace(tablespace, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLESPACE, name);
}

static void
refuse_option(const char *name, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot run CREATE DATABASE with %s on a node", name),
			 errdetail_internal("%s", detail)));
}

static void
check_option(DefElem *option)
{
	if (strcmp(option->defname, "oid") == 0)
		refuse_option("OID", "The cluster chooses it, so that a node knows the database again.");
	if (strcmp(option->defname, "collation_version") == 0)
		refuse_option("COLLATION_VERSION", "It is each node's own.");
	if (option->arg == NULL)
		return;
	if (strcmp(option->defname, "allow_connections") == 0 && !defGetBoolean(option))
		refuse_option("ALLOW_CONNECTIONS false", "The replicator could not connect to it.");
	if (strcmp(option->defname, "tablespace") == 0)
		check_tablespace(defGetString(option));
	if (strcmp(option->defname, "owner") == 0)
		ls_check_may_give_to(GetUserId(), get_role_oid(defGetString(option), false));
}

static const char *
option_value(List *options, const char *name, const char *otherwise)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return otherwise;
}

static void
check_create(CreatedbStmt *stmt)
{
	ListCell   *lc;

	if (!may_create_database())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create database")));
	if (OidIsValid(get_database_oid(stmt->dbname, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_DATABASE),
				 errmsg("database \"%s\" already exists", stmt->dbname)));
	foreach(lc, stmt->options)
		check_option(lfirst_node(DefElem, lc));
	check_template(option_value(stmt->options, "template", "template1"));
}

/* ---------- CREATE DATABASE: the command for all nodes */

static void
append_option(StringInfo text, DefElem *option)
{
	appendStringInfo(text, " %s = ", quote_identifier(option->defname));
	if (option->arg == NULL)
		appendStringInfoString(text, "DEFAULT");
	else if (IsA(option->arg, Integer) || IsA(option->arg, Float))
		appendStringInfoString(text, defGetString(option));
	else
		appendStringInfoString(text, quote_literal_cstr(defGetString(option)));
}

/* As the caller's role is not the one that runs it, the owner is named. */
static char *
command_text(CreatedbStmt *stmt)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfo(&text, "CREATE DATABASE %s", quote_identifier(stmt->dbname));
	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		/* with DEFAULT the owner is who runs it */
		if (strcmp(option->defname, "owner") != 0 || option->arg != NULL)
			append_option(&text, option);
	}
	if (option_value(stmt->options, "owner", NULL) == NULL)
		appendStringInfo(&text, " OWNER = %s", quote_literal_cstr(GetUserNameFromId(GetUserId(), false)));
	return text.data;
}

static void
create_database(CreatedbStmt *stmt)
{
	LsDatabase	request = {.kind = LS_DATABASE_CREATE,.name = ls_slice_of(stmt->dbname)};

	check_create(stmt);
	request.command = ls_slice_of(command_text(stmt));
	if (request.command.len > LS_MAX_DATABASE_COMMAND)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("CREATE DATABASE is too long")));
	request_database(&request);
}

/* ---------- DROP DATABASE */

static void
check_drop(DropdbStmt *stmt)
{
	Oid			database = get_database_oid(stmt->dbname, false);
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		is_template = HeapTupleIsValid(tuple) && ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!ls_owns_database(database, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_DATABASE, stmt->dbname);
	if (is_template)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot drop a template database")));
	if (database == MyDatabaseId && MyBackendType == B_BACKEND)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drop the currently open database")));
}

static void
drop_database(DropdbStmt *stmt)
{
	LsDatabase	request = {.kind = LS_DATABASE_DROP,.name = ls_slice_of(stmt->dbname),.superuser = superuser(),
	.role = ls_slice_of(GetUserNameFromId(GetUserId(), false))};
	ListCell   *lc;

	foreach(lc, stmt->options)
		request.force |= strcmp(lfirst_node(DefElem, lc)->defname, "force") == 0;
	check_drop(stmt);
	request_database(&request);
}

/* ---------- ALTER DATABASE ... RENAME */

static void
check_rename(RenameStmt *stmt)
{
	Oid			database = get_database_oid(stmt->subname, false);

	if (!ls_owns_database(database, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_DATABASE, stmt->subname);
	if (!may_create_database())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to rename database")));
	if (OidIsValid(get_database_oid(stmt->newname, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_DATABASE),
				 errmsg("database \"%s\" already exists", stmt->newname)));
	if (database == MyDatabaseId && MyBackendType == B_BACKEND)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("current database cannot be renamed")));
}

static void
rename_database(RenameStmt *stmt)
{
	LsDatabase	request = {.kind = LS_DATABASE_RENAME,.name = ls_slice_of(stmt->subname),.command = ls_slice_of(stmt->newname)};

	check_rename(stmt);
	request_database(&request);
}

/* ---------- all */

void
ddl_run_database(Node *stmt, bool is_top_level)
{
	const char *name = IsA(stmt, RenameStmt) ? "ALTER DATABASE ... RENAME" : GetCommandTagName(CreateCommandTag(stmt));

	PreventInTransactionBlock(is_top_level, name);
	PreventCommandIfReadOnly(name);
	if (IsA(stmt, CreatedbStmt))
		create_database((CreatedbStmt *) stmt);
	else if (IsA(stmt, RenameStmt))
		rename_database((RenameStmt *) stmt);
	else
		drop_database((DropdbStmt *) stmt);
}
