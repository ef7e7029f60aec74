/*
 * ddl.c
 *	  What is done with a utility command: the table of all of them.
 *
 * A command that isn't in the table is refused.  For some kinds a function
 * looks further, at the statement's own fields; it looks up nothing in the
 * catalogs, as it is called for every utility command.
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"

#include "utils/syscache.h"

#include "compat.h"
#include "ddl.h"

typedef void (*DdlExamine) (Node *stmt, DdlPlan *plan);

typedef struct DdlRule
{
	NodeTag		tag;
	DdlAction	action;
	bool		shared;
	DdlExamine	examine;
} DdlRule;

static const char everywhere_hint[] = "Set lockstep.replicate to off and run it on every node.";

bool
ddl_is_lockstep(const char *name)
{
	return strcmp(name, "lockstep") == 0;
}

void
ddl_refuse(DdlPlan *plan, const char *what, const char *detail, const char *hint)
{
	plan->action = DDL_REFUSE;
	plan->what = what;
	plan->detail = detail;
	plan->hint = hint;
}

/* ---------- commands that need a second look */

static void
examine_transaction(Node *node, DdlPlan *plan)
{
	switch (((TransactionStmt *) node)->kind)
	{
		case TRANS_STMT_PREPARE:
		case TRANS_STMT_COMMIT_PREPARED:
		case TRANS_STMT_ROLLBACK_PREPARED:
			/* where it is disabled PostgreSQL says so */
			if (max_prepared_xacts > 0)
				ddl_refuse(plan, NULL, "Two-phase commit is not replicated.",
						   "Use COMMIT: on a node it is atomic across all nodes.");
			break;
		default:
			break;
	}
}

bool
ddl_option_is_on(List *options, const char *name)
{
	bool		on = false;
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0)
			on = defGetBoolean(option);
	}
	return on;
}

/*
 * EXPLAIN ANALYZE runs CREATE TABLE AS without its passing our hook: what is
 * forwarded is that command.
 */
Node *
ddl_explained(Node *node)
{
	ExplainStmt *stmt = (ExplainStmt *) node;
	Query	   *query;

	if (!IsA(node, ExplainStmt))
		return node;
	query = castNode(Query, stmt->query);
	if (ddl_option_is_on(stmt->options, "analyze") &&
		query->commandType == CMD_UTILITY && query->utilityStmt != NULL &&
		IsA(query->utilityStmt, CreateTableAsStmt))
		return query->utilityStmt;
	return node;
}

static void
examine_drop(Node *node, DdlPlan *plan)
{
	DropStmt   *stmt = (DropStmt *) node;
	ListCell   *lc;

	if (stmt->removeType != OBJECT_EXTENSION)
		return;
	foreach(lc, stmt->objects)
	{
		if (!ddl_is_lockstep(strVal(lfirst(lc))))
			continue;
		if (list_length(stmt->objects) == 1)
			plan->action = DDL_LOCAL;
		else
			ddl_refuse(plan, "DROP EXTENSION of lockstep together with others",
					   "The extension lockstep is dropped on each node by itself.",
					   "Drop them one by one.");
	}
}

static void
examine_create_extension(Node *node, DdlPlan *plan)
{
	if (ddl_is_lockstep(((CreateExtensionStmt *) node)->extname))
		plan->action = DDL_LOCAL;
}

static void
examine_alter_extension(Node *node, DdlPlan *plan)
{
	if (ddl_is_lockstep(((AlterExtensionStmt *) node)->extname))
		plan->action = DDL_LOCAL;
}

static void
examine_extension_contents(Node *node, DdlPlan *plan)
{
	if (ddl_is_lockstep(((AlterExtensionContentsStmt *) node)->extname))
		ddl_refuse(plan, "ALTER EXTENSION ... ADD or DROP of lockstep",
				   "What belongs to the extension lockstep is fixed.", NULL);
}

/* The dump of a replicated database has it, and CREATE EXTENSION IF NOT EXISTS behind it. */
bool
ddl_is_own_schema(const Node *node)
{
	const CreateSchemaStmt *stmt = (const CreateSchemaStmt *) node;

	if (!IsA(node, CreateSchemaStmt) || stmt->schemaname == NULL || strcmp(stmt->schemaname, "lockstep") != 0 ||
		stmt->authrole != NULL || stmt->schemaElts != NIL || !superuser())
		return false;
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_SCHEMA),
			 errmsg("schema \"%s\" already exists, skipping", stmt->schemaname)));
	return true;
}

/*
 * DROP DATABASE of a missing database reports the usual error, and drops nothing,
 * even if such a database is created meanwhile.
 */
bool
ddl_database_is_missing(Node *node, bool is_top_level)
{
	DropdbStmt *stmt = (DropdbStmt *) node;

	if (!IsA(node, DropdbStmt) || OidIsValid(get_database_oid(stmt->dbname, true)))
		return false;
	PreventInTransactionBlock(is_top_level, "DROP DATABASE");
	ereport(stmt->missing_ok ? NOTICE : ERROR,
			(stmt->missing_ok ? 0 : errcode(ERRCODE_UNDEFINED_DATABASE),
			 stmt->missing_ok ? errmsg("database \"%s\" does not exist, skipping", stmt->dbname) :
			 errmsg("database \"%s\" does not exist", stmt->dbname)));
	return true;
}

/* Its other options are columns of pg_database. */
static void
examine_alter_database(Node *node, DdlPlan *plan)
{
	ListCell   *lc;

	foreach(lc, ((AlterDatabaseStmt *) node)->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
			ddl_refuse(plan, "ALTER DATABASE ... SET TABLESPACE",
					   "It moves the database's files on each node, while nobody is connected to the database, the replicator included.",
					   "Take one node after the other out by lockstepctl drop, run it there with lockstep.replicate = off, from another database, and use lockstepctl attach.");
	}
}

static void
examine_object_type(DdlPlan *plan, ObjectType type)
{
	switch (type)
	{
		case OBJECT_TABLESPACE:
			plan->action = DDL_LOCAL;
			break;
		case OBJECT_DATABASE:
		case OBJECT_ROLE:
		case OBJECT_PARAMETER_ACL:
			plan->shared = true;
			break;
		case OBJECT_LARGEOBJECT:
			plan->catalogs = false;
			plan->certified = true;
			break;
		case OBJECT_SUBSCRIPTION:
			plan->action = DDL_LOCAL;
			break;
		default:
			break;
	}
}

static void
examine_rename(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((RenameStmt *) node)->renameType);
	if (((RenameStmt *) node)->renameType == OBJECT_DATABASE)
		plan->action = DDL_DATABASE;
}

static void
examine_owner(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((AlterOwnerStmt *) node)->objectType);
}

static void
examine_comment(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((CommentStmt *) node)->objtype);
}

static void
examine_grant(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((GrantStmt *) node)->objtype);
}

static void
examine_alter_table(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((AlterTableStmt *) node)->objtype);
}

static void
examine_truncate(Node *node, DdlPlan *plan)
{
	plan->catalogs = ((TruncateStmt *) node)->restart_seqs;
}

/* CONCURRENTLY changes rows, one by one; they are captured. */
static void
examine_refresh(Node *node, DdlPlan *plan)
{
	if (((RefreshMatViewStmt *) node)->concurrent)
		plan->action = DDL_LOCK;
}

static void
examine_security_label(Node *node, DdlPlan *plan)
{
	examine_object_type(plan, ((SecLabelStmt *) node)->objtype);
}

/* ---------- the table */

static const DdlRule rules[] = {
	/* the most frequent ones first */
	{T_TransactionStmt, DDL_PASS, false, examine_transaction},
	{T_VariableSetStmt, DDL_PASS, false, NULL},
	{T_CopyStmt, DDL_PASS, false, NULL},
	{T_ExecuteStmt, DDL_PASS, false, NULL},
	{T_CallStmt, DDL_PASS, false, NULL},
	{T_DoStmt, DDL_PASS, false, NULL},
	{T_FetchStmt, DDL_PASS, false, NULL},
	{T_DeclareCursorStmt, DDL_PASS, false, NULL},
	{T_ClosePortalStmt, DDL_PASS, false, NULL},
	{T_PrepareStmt, DDL_PASS, false, NULL},
	{T_DeallocateStmt, DDL_PASS, false, NULL},
	{T_VariableShowStmt, DDL_PASS, false, NULL},
	{T_ConstraintsSetStmt, DDL_PASS, false, NULL},
	{T_ExplainStmt, DDL_PASS, false, NULL},
	{T_NotifyStmt, DDL_PASS, false, NULL},	/* see utility.c */
	{T_ListenStmt, DDL_PASS, false, NULL},
	{T_UnlistenStmt, DDL_PASS, false, NULL},
	{T_LoadStmt, DDL_PASS, false, NULL},
	{T_CheckPointStmt, DDL_PASS, false, NULL},
	LS_COMMANDS_OF_19
	{T_AlterSystemStmt, DDL_PASS, false, NULL},

	{T_LockStmt, DDL_LOCK, false, NULL},

	/* of the node: how things are stored, not what they are */
	{T_VacuumStmt, DDL_LOCAL, false, NULL},
	{T_LsClusterStmt, DDL_LOCAL, false, NULL},	/* but for its mark on the
												 * index */
	{T_ReindexStmt, DDL_LOCAL, false, NULL},
	{T_DiscardStmt, DDL_LOCAL, false, NULL},
	{T_AlterDatabaseRefreshCollStmt, DDL_LOCAL, false, NULL},
	{T_CreateTableSpaceStmt, DDL_LOCAL, false, NULL},
	{T_DropTableSpaceStmt, DDL_LOCAL, false, NULL},
	{T_AlterTableSpaceOptionsStmt, DDL_LOCAL, false, NULL},
	{T_AlterTableMoveAllStmt, DDL_LOCAL, false, NULL},
	{T_AlterCollationStmt, DDL_LOCAL, false, NULL},

	/* tables and what belongs to them */
	{T_CreateStmt, DDL_FORWARD, false, NULL},
	{T_AlterTableStmt, DDL_FORWARD, false, examine_alter_table},
	{T_CreateTableAsStmt, DDL_FORWARD, false, NULL},
	{T_IndexStmt, DDL_FORWARD, false, NULL},
	{T_TruncateStmt, DDL_FORWARD, false, examine_truncate},
	{T_ViewStmt, DDL_FORWARD, false, NULL},
	{T_RefreshMatViewStmt, DDL_FORWARD, false, examine_refresh},
	{T_RuleStmt, DDL_FORWARD, false, NULL},
	{T_CreateTrigStmt, DDL_FORWARD, false, NULL},
	{T_CreatePolicyStmt, DDL_FORWARD, false, NULL},
	{T_AlterPolicyStmt, DDL_FORWARD, false, NULL},
	{T_CreateStatsStmt, DDL_FORWARD, false, NULL},
	{T_AlterStatsStmt, DDL_FORWARD, false, NULL},
	{T_CreateSeqStmt, DDL_FORWARD, false, NULL},
	{T_AlterSeqStmt, DDL_FORWARD, false, NULL},

	/* objects of any kind */
	{T_DropStmt, DDL_FORWARD, false, examine_drop},
	{T_RenameStmt, DDL_FORWARD, false, examine_rename},
	{T_AlterObjectSchemaStmt, DDL_FORWARD, false, NULL},
	{T_AlterObjectDependsStmt, DDL_FORWARD, false, NULL},
	{T_AlterOwnerStmt, DDL_FORWARD, false, examine_owner},
	{T_CommentStmt, DDL_FORWARD, false, examine_comment},
	{T_SecLabelStmt, DDL_FORWARD, false, examine_security_label},
	{T_GrantStmt, DDL_FORWARD, false, examine_grant},
	{T_AlterDefaultPrivilegesStmt, DDL_FORWARD, false, NULL},
	{T_ReassignOwnedStmt, DDL_FORWARD, true, NULL},
	{T_DropOwnedStmt, DDL_FORWARD, true, NULL},

	/* schemas, types, functions, operators */
	{T_CreateSchemaStmt, DDL_FORWARD, false, NULL},
	{T_CompositeTypeStmt, DDL_FORWARD, false, NULL},
	{T_CreateEnumStmt, DDL_FORWARD, false, NULL},
	{T_CreateRangeStmt, DDL_FORWARD, false, NULL},
	{T_CreateDomainStmt, DDL_FORWARD, false, NULL},
	{T_AlterEnumStmt, DDL_FORWARD, false, NULL},
	{T_AlterDomainStmt, DDL_FORWARD, false, NULL},
	{T_AlterTypeStmt, DDL_FORWARD, false, NULL},
	{T_DefineStmt, DDL_FORWARD, false, NULL},
	{T_CreateFunctionStmt, DDL_FORWARD, false, NULL},
	{T_AlterFunctionStmt, DDL_FORWARD, false, NULL},
	{T_CreateCastStmt, DDL_FORWARD, false, NULL},
	{T_CreateConversionStmt, DDL_FORWARD, false, NULL},
	{T_CreateTransformStmt, DDL_FORWARD, false, NULL},
	{T_CreateOpClassStmt, DDL_FORWARD, false, NULL},
	{T_CreateOpFamilyStmt, DDL_FORWARD, false, NULL},
	{T_AlterOpFamilyStmt, DDL_FORWARD, false, NULL},
	{T_AlterOperatorStmt, DDL_FORWARD, false, NULL},
	{T_AlterTSDictionaryStmt, DDL_FORWARD, false, NULL},
	{T_AlterTSConfigurationStmt, DDL_FORWARD, false, NULL},
	{T_CreatePLangStmt, DDL_FORWARD, false, NULL},
	{T_CreateEventTrigStmt, DDL_FORWARD, false, NULL},
	{T_AlterEventTrigStmt, DDL_FORWARD, false, NULL},
	{T_CreateExtensionStmt, DDL_FORWARD, false, examine_create_extension},
	{T_AlterExtensionStmt, DDL_FORWARD, false, examine_alter_extension},
	{T_AlterExtensionContentsStmt, DDL_FORWARD, false, examine_extension_contents},
	{T_CreateAmStmt, DDL_FORWARD, false, NULL},

	/* foreign data: the definitions are on all nodes, the data is elsewhere */
	{T_CreateFdwStmt, DDL_FORWARD, false, NULL},
	{T_AlterFdwStmt, DDL_FORWARD, false, NULL},
	{T_CreateForeignServerStmt, DDL_FORWARD, false, NULL},
	{T_AlterForeignServerStmt, DDL_FORWARD, false, NULL},
	{T_CreateUserMappingStmt, DDL_FORWARD, false, NULL},
	{T_AlterUserMappingStmt, DDL_FORWARD, false, NULL},
	{T_DropUserMappingStmt, DDL_FORWARD, false, NULL},
	{T_CreateForeignTableStmt, DDL_FORWARD, false, NULL},
	{T_ImportForeignSchemaStmt, DDL_PASS, false, NULL}, /* the tables that it
														 * creates are forwarded */

	/*
	 * logical replication: any node can be a publisher; a subscription is one
	 * node's, or each would fetch the same changes
	 */
	{T_CreatePublicationStmt, DDL_FORWARD, false, NULL},
	{T_AlterPublicationStmt, DDL_FORWARD, false, NULL},
	{T_CreateSubscriptionStmt, DDL_LOCAL, false, NULL},
	{T_AlterSubscriptionStmt, DDL_LOCAL, false, NULL},
	{T_DropSubscriptionStmt, DDL_LOCAL, false, NULL},

	/* roles */
	{T_CreateRoleStmt, DDL_FORWARD, true, NULL},
	{T_AlterRoleStmt, DDL_FORWARD, true, NULL},
	{T_AlterRoleSetStmt, DDL_FORWARD, true, NULL},
	{T_AlterDatabaseSetStmt, DDL_FORWARD, true, NULL},
	{T_AlterDatabaseStmt, DDL_FORWARD, true, examine_alter_database},
	{T_DropRoleStmt, DDL_FORWARD, true, NULL},
	{T_GrantRoleStmt, DDL_FORWARD, true, NULL},

	{T_CreatedbStmt, DDL_DATABASE, true, NULL},
	{T_DropdbStmt, DDL_DATABASE, true, NULL},
};

static void
refuse_unknown(DdlPlan *plan)
{
	ddl_refuse(plan, NULL, "This command is not replicated yet.", everywhere_hint);
}

static const DdlRule *
rule_of(NodeTag tag)
{
	int			i;

	for (i = 0; i < lengthof(rules); i++)
	{
		if (rules[i].tag == tag)
			return &rules[i];
	}
	return NULL;
}

void
ddl_plan(Node *stmt, DdlPlan *plan)
{
	const DdlRule *rule = rule_of(nodeTag(stmt));

	memset(plan, 0, sizeof(*plan));
	if (rule == NULL)
	{
		refuse_unknown(plan);
		return;
	}
	plan->action = rule->action;
	plan->shared = rule->shared;
	plan->catalogs = rule->action == DDL_FORWARD;
	if (rule->examine != NULL)
		rule->examine(stmt, plan);
}
