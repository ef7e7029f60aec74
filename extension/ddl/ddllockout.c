/*
 * ddllockout.c
 *	  Commands that would keep the replicator from connecting are refused.
 *
 * The replicator connects as a superuser.  A command that takes LOGIN, superuser or the
 * name from that role is replicated to every node; at the next connection the replicator could
 * connect to none of them, and the nodes would refuse the command that undoes it.  So it is refused where it is
 * given and where it is applied, as roles may differ between nodes.  The replicator's roles
 * are those of its current sessions.
 *
 * Its password may be changed; the administrator tells the replicator the new one.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "compat.h"
#include "ddl.h"
#include "guc.h"
#include "lockconflict.h"

static void
check_named_role(Oid role, const char *what)
{
	if (!OidIsValid(role) || !lockconflict_applies_as(role))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot run %s of role \"%s\" on node \"%s\"", what, GetUserNameFromId(role, false), ls_node_name),
			 errdetail("The replicator connects to this node as that role, and could not any more."),
			 errhint("Give the replicator another role first (node.%s in replicator.conf).", ls_node_name)));
}

/* What the option takes from the role, or NULL. */
static const char *
what_is_taken(const DefElem *option)
{
	if (strcmp(option->defname, "canlogin") == 0 && !defGetBoolean((DefElem *) option))
		return "ALTER ROLE ... NOLOGIN";
	if (strcmp(option->defname, "superuser") == 0 && !defGetBoolean((DefElem *) option))
		return "ALTER ROLE ... NOSUPERUSER";
	if (strcmp(option->defname, "validUntil") == 0 && option->arg != NULL &&
		pg_strcasecmp(strVal(option->arg), "infinity") != 0)
		return "ALTER ROLE ... VALID UNTIL";
	return NULL;
}

static void
check_alter(const AlterRoleStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		const char *what = what_is_taken(lfirst_node(DefElem, lc));

		if (what != NULL)
			check_named_role(get_rolespec_oid(stmt->role, true), what);
	}
}

static void
check_drop(const DropRoleStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->roles)
	{
		RoleSpec   *role = lfirst_node(RoleSpec, lc);

		if (role->roletype == ROLESPEC_CSTRING)
			check_named_role(get_role_oid(role->rolename, true), "DROP ROLE");
	}
}

static void
check_alter_database(const AlterDatabaseStmt *stmt)
{
	Oid			database = get_database_oid(stmt->dbname, true);
	ListCell   *lc;

	if (!OidIsValid(database) || lockconflict_apply_session_in(database) == 0)
		return;
	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "allow_connections") == 0 && option->arg != NULL && !defGetBoolean(option))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot run ALTER DATABASE ... ALLOW_CONNECTIONS false of database \"%s\" on node \"%s\"", stmt->dbname, ls_node_name),
					 errdetail("The replicator could not connect to the database any more."),
					 errhint("Use REVOKE CONNECT, or CONNECTION LIMIT 0, which keep all others but superusers out.")));
	}
}

void
ddllockout_check(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_AlterRoleStmt:
			check_alter((const AlterRoleStmt *) stmt);
			break;
		case T_AlterDatabaseStmt:
			check_alter_database((const AlterDatabaseStmt *) stmt);
			break;
		case T_DropRoleStmt:
			check_drop((const DropRoleStmt *) stmt);
			break;
		case T_RenameStmt:
			if (((const RenameStmt *) stmt)->renameType == OBJECT_ROLE)
				check_named_role(get_role_oid(((const RenameStmt *) stmt)->subname, true), "ALTER ROLE ... RENAME");
			break;
		default:
			break;
	}
}
