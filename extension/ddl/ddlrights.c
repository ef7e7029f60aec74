/*
 * ddlrights.c
 *	  May the role give this command?  Checked before any lock of the cluster is requested, so
 *	  that a role without rights to a table blocks no other.
 *
 * PostgreSQL checks rights in some hundred places within its commands; those checks are not
 * repeated here.  A command is suspect if the role does not clearly have the right to what
 * it would lock, or if an object that it names does not exist.  A suspect command is tried
 * on this node, in a subtransaction:
 *
 *  it fails			  it is run again, and the client gets PostgreSQL's error
 *  it changes nothing	  (DROP ... IF EXISTS of nothing) the same; then it is done
 *  it changes anything  the trial is rolled back, and the command requests its locks
 *
 * The trial is quiet: it sends no notices, and event triggers do not fire.  So a wrong suspicion
 * costs time, and an overlooked one makes others wait.  Before the trial the node applies
 * what is decided: the right may just have been granted, or the object created, on another
 * node.
 *
 * Commands that end their transaction cannot be tried; they need few rights, which are checked
 * here.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/pg_inherits.h"
#include "catalog/dependency.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/resowner.h"

#include "causal.h"
#include "compat.h"
#include "ddl.h"
#include "sessionsettings.h"

/* How long what is decided may take to be applied here. */
#define CATCH_UP_MS 5000

/* ---------- plain rights */

static bool
owns_all(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		if (!ls_owns(RelationRelationId, lfirst_oid(lc), GetUserId()))
			return false;
	}
	return true;
}

static Oid
find(const RangeVar *rv)
{
	return rv != NULL ? RangeVarGetRelid(rv, NoLock, true) : InvalidOid;
}

static bool
owns_relation(const RangeVar *rv)
{
	Oid			relid = find(rv);

	return OidIsValid(relid) && ls_owns(RelationRelationId, relid, GetUserId());
}

/* One of the rights, as far as it is for the table as a whole. */
static bool
has_right(Oid relid, AclMode rights)
{
	return OidIsValid(relid) && pg_class_aclmask(relid, GetUserId(), rights, ACLMASK_ANY) != 0;
}

static bool
may_create_in(Oid namespace)
{
	return OidIsValid(namespace) && ls_may_create_in(namespace, GetUserId());
}

/* A new relation of this name, or one in place of what is there. */
static bool
may_make(RangeVar *rv)
{
	Oid			namespace;
	Oid			old;

	if (rv->relpersistence == RELPERSISTENCE_TEMP)
		return true;			/* stays here */
	namespace = RangeVarGetCreationNamespace(rv);
	old = get_relname_relid(rv->relname, namespace);
	return may_create_in(namespace) &&
		(!OidIsValid(old) || ls_owns(RelationRelationId, old, GetUserId()));
}

static bool
may_make_named(List *names)
{
	char	   *name;

	return may_create_in(QualifiedNameGetCreationNamespace(names, &name));
}

static bool
owns_type(TypeName *name)
{
	Oid			type = LookupTypeNameOid(NULL, name, true);

	return OidIsValid(type) && ls_owns(TypeRelationId, type, GetUserId());
}

/* ---------- commands on tables */

static bool
may_refer_to(Node *node)
{
	Constraint *constraint = (Constraint *) node;

	return !IsA(node, Constraint) || constraint->contype != CONSTR_FOREIGN ||
		has_right(find(constraint->pktable), ACL_REFERENCES);
}

static bool
may_have_column(ColumnDef *column)
{
	ListCell   *lc;

	foreach(lc, column->constraints)
	{
		if (!may_refer_to(lfirst(lc)))
			return false;
	}
	return true;
}

static bool
may_create(CreateStmt *stmt)
{
	ListCell   *lc;

	if (!may_make(stmt->relation))
		return false;
	foreach(lc, stmt->inhRelations)
	{
		if (!owns_relation(lfirst_node(RangeVar, lc)))
			return false;
	}
	foreach(lc, stmt->tableElts)
	{
		Node	   *element = lfirst(lc);

		if (IsA(element, ColumnDef) ? !may_have_column((ColumnDef *) element) : !may_refer_to(element))
			return false;
	}
	return true;
}

static bool
may_alter(AlterTableStmt *stmt)
{
	ListCell   *lc;

	if (!owns_relation(stmt->relation))
		return false;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		bool		may = true;

		switch (cmd->subtype)
		{
			case AT_AddColumn:
				may = may_have_column(castNode(ColumnDef, cmd->def));
				break;
			case AT_AddConstraint:
				may = may_refer_to(cmd->def);
				break;
			case AT_AttachPartition:
			case AT_DetachPartition:
				may = owns_relation(castNode(PartitionCmd, cmd->def)->name);
				break;
			case AT_AddInherit:
			case AT_DropInherit:
				may = owns_relation(castNode(RangeVar, cmd->def));
				break;
			default:
				break;
		}
		if (!may)
			return false;
	}
	return true;
}

/* What a view reads is locked with the rights of others: left to the trial. */
static bool
may_lock(LockStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		Oid			relid = find(lfirst_node(RangeVar, lc));

		if (!has_right(relid, ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE) || get_rel_relkind(relid) == RELKIND_VIEW)
			return false;
	}
	return true;
}

/* CASCADE needs the right to all tables that it reaches, RESTART IDENTITY their sequences. */
static bool
may_truncate(TruncateStmt *stmt)
{
	List	   *relids = NIL;
	List	   *more;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = find(rv);

		if (!has_right(relid, ACL_TRUNCATE))
			return false;
		relids = list_concat_unique_oid(relids, rv->inh ? find_all_inheritors(relid, NoLock, NULL) :
										list_make1_oid(relid));
	}
	more = stmt->behavior == DROP_CASCADE ? relids : NIL;
	while (more != NIL)
	{
		more = list_difference_oid(heap_truncate_find_FKs(relids), relids);
		relids = list_concat_copy(relids, more);
		foreach(lc, more)
		{
			if (!has_right(lfirst_oid(lc), ACL_TRUNCATE))
				return false;
		}
	}
	foreach(lc, stmt->restart_seqs ? relids : NIL)
	{
		if (!owns_all(getOwnedSequences(lfirst_oid(lc))))
			return false;
	}
	return true;
}

static bool
may_index(IndexStmt *stmt)
{
	Oid			relid = find(stmt->relation);

	return owns_relation(stmt->relation) && may_create_in(get_rel_namespace(relid));
}

static bool
may_make_trigger(CreateTrigStmt *stmt)
{
	return has_right(find(stmt->relation), ACL_TRIGGER) &&
		(stmt->constrrel == NULL || has_right(find(stmt->constrrel), ACL_TRIGGER));
}

/* The owner of the schema may drop what is in it, too. */
static bool
may_drop(ObjectType type, Node *object)
{
	Oid			found = InvalidOid;

	switch (type)
	{
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
			found = find(makeRangeVarFromNameList((List *) object));
			return OidIsValid(found) &&
				(ls_owns(RelationRelationId, found, GetUserId()) ||
				 ls_owns(NamespaceRelationId, get_rel_namespace(found), GetUserId()));
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			return owns_type(castNode(TypeName, object));
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
		case OBJECT_AGGREGATE:
			found = LookupFuncWithArgs(type, castNode(ObjectWithArgs, object), true);
			return OidIsValid(found) && ls_owns(ProcedureRelationId, found, GetUserId());
		case OBJECT_SCHEMA:
			found = get_namespace_oid(strVal(object), true);
			return OidIsValid(found) && ls_owns(NamespaceRelationId, found, GetUserId());
		default:
			return false;
	}
}

static bool
may_drop_all(DropStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		if (!may_drop(stmt->removeType, lfirst(lc)))
			return false;
	}
	return true;
}

/* ---------- others */

static bool
may_make_function(CreateFunctionStmt *stmt)
{
	if (!may_make_named(stmt->funcname))
		return false;
	for (FuncCandidateList c = ls_functions_named(stmt->funcname); c != NULL; c = c->next)
	{
		if (!ls_owns(ProcedureRelationId, c->oid, GetUserId()))
			return false;
	}
	return true;
}

static bool
may_grant(GrantStmt *stmt)
{
	ListCell   *lc;

	if (stmt->targtype != ACL_TARGET_OBJECT || (stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_SEQUENCE))
		return false;
	foreach(lc, stmt->objects)
	{
		if (!owns_relation(lfirst_node(RangeVar, lc)))
			return false;
	}
	return true;
}

static bool
has_roles(List *roles)
{
	ListCell   *lc;

	foreach(lc, roles)
	{
		Oid			role = get_rolespec_oid(lfirst_node(RoleSpec, lc), true);

		if (!OidIsValid(role) || !has_privs_of_role(GetUserId(), role))
			return false;
	}
	return true;
}

/* Commands that aren't here change catalogs only: trying them costs little. */
static bool
plainly_may(Node *stmt)
{
	Oid			relid;

	switch (nodeTag(stmt))
	{
		case T_LockStmt:
			return may_lock((LockStmt *) stmt);
		case T_TruncateStmt:
			return may_truncate((TruncateStmt *) stmt);
		case T_CreateStmt:
			return may_create((CreateStmt *) stmt);
		case T_AlterTableStmt:
			return may_alter((AlterTableStmt *) stmt);
		case T_IndexStmt:
			return may_index((IndexStmt *) stmt);
		case T_ReindexStmt:
			return owns_relation(((ReindexStmt *) stmt)->relation);
		case T_LsClusterStmt:
			relid = find(ls_clustered_table((LsClusterStmt *) stmt));
			return OidIsValid(relid) && ls_may_cluster(relid, GetUserId());
		case T_RefreshMatViewStmt:
			return owns_relation(((RefreshMatViewStmt *) stmt)->relation);
		case T_RuleStmt:
			return owns_relation(((RuleStmt *) stmt)->relation);
		case T_CreateTrigStmt:
			return may_make_trigger((CreateTrigStmt *) stmt);
		case T_CreatePolicyStmt:
			return owns_relation(((CreatePolicyStmt *) stmt)->table);
		case T_AlterPolicyStmt:
			return owns_relation(((AlterPolicyStmt *) stmt)->table);
		case T_AlterSeqStmt:
			return owns_relation(((AlterSeqStmt *) stmt)->sequence);
		case T_RenameStmt:
			return owns_relation(((RenameStmt *) stmt)->relation) &&
				may_create_in(get_rel_namespace(find(((RenameStmt *) stmt)->relation)));
		case T_AlterObjectSchemaStmt:
			return owns_relation(((AlterObjectSchemaStmt *) stmt)->relation) &&
				may_create_in(get_namespace_oid(((AlterObjectSchemaStmt *) stmt)->newschema, true));
		case T_DropStmt:
			return may_drop_all((DropStmt *) stmt);
		case T_CreateTableAsStmt:
			return may_make(((CreateTableAsStmt *) stmt)->into->rel);
		case T_ViewStmt:
			return may_make(((ViewStmt *) stmt)->view);
		case T_CreateSeqStmt:
			return may_make(((CreateSeqStmt *) stmt)->sequence);
		case T_CompositeTypeStmt:
			return may_make(((CompositeTypeStmt *) stmt)->typevar);
		case T_CreateEnumStmt:
			return may_make_named(((CreateEnumStmt *) stmt)->typeName);
		case T_CreateRangeStmt:
			return may_make_named(((CreateRangeStmt *) stmt)->typeName);
		case T_CreateDomainStmt:
			return may_make_named(((CreateDomainStmt *) stmt)->domainname);
		case T_AlterEnumStmt:
			return owns_type(makeTypeNameFromNameList(((AlterEnumStmt *) stmt)->typeName));
		case T_AlterDomainStmt:
			return owns_type(makeTypeNameFromNameList(((AlterDomainStmt *) stmt)->typeName));
		case T_CreateFunctionStmt:
			return may_make_function((CreateFunctionStmt *) stmt);
		case T_GrantStmt:
			return may_grant((GrantStmt *) stmt);
		case T_DropOwnedStmt:
			return has_roles(((DropOwnedStmt *) stmt)->roles);
		case T_ReassignOwnedStmt:
			return has_roles(((ReassignOwnedStmt *) stmt)->roles) &&
				has_roles(list_make1(((ReassignOwnedStmt *) stmt)->newrole));
		default:
			return false;
	}
}

/* ---------- the trial */

typedef struct Trial
{
	DdlRun		run;
	void	   *arg;
	bool		holds;			/* it takes a lock, or has a result */
} Trial;

/*
 * True: it changed nothing, and stays.  False: it was rolled back; that is, it may do
 * what it does, unless it failed with *error.
 */
static bool
try_it(const Trial *trial, ErrorData **error)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool effective = true;

	*error = NULL;

	/*
	 * PostgreSQL takes no change of a catalog in a subtransaction that begins
	 * behind a command that changed none, and made others look again (ALTER
	 * DOMAIN ... DROP CONSTRAINT IF EXISTS).
	 */
	(void) GetCurrentCommandId(true);
	CommandCounterIncrement();
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		trial->run(trial->arg);
		effective = trial->holds || TransactionIdIsValid(GetCurrentTransactionIdIfAny());
		if (effective)
			RollbackAndReleaseCurrentSubTransaction();
		else
			ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		*error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return !effective;
}

/* May it do what it does, as far as can be told without notices and event triggers? */
static bool
passes_quietly(const Trial *trial)
{
	int			quiet = sessionsettings_begin_quiet();
	int			role = SessionReplicationRole;
	ErrorData  *error;
	bool		idle;

	SessionReplicationRole = SESSION_REPLICATION_ROLE_REPLICA;
	idle = try_it(trial, &error);
	SessionReplicationRole = role;
	ResetPlanCache();			/* they depend on it */
	sessionsettings_end_quiet(quiet);
	if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error == NULL && !idle;
}

bool
ddl_is_settled_by_rights(Node *stmt, bool has_result, DdlRun run, void *arg)
{
	Trial		trial = {run, arg, has_result || IsA(stmt, LockStmt)};
	ErrorData  *error;
	bool		idle;

	if (superuser() || plainly_may(stmt))
		return false;
	causal_catch_up_for(CATCH_UP_MS);
	if (plainly_may(stmt))
		return false;
	if (passes_quietly(&trial))
		return false;
	idle = try_it(&trial, &error);
	if (error != NULL)
		ReThrowError(error);
	return idle;
}

/* ---------- what can't be tried */

/* The error that PostgreSQL has for it. */
static void
check_owner(RangeVar *rv, ObjectType type)
{
	Oid			relid = find(rv);

	if (OidIsValid(relid) && !ls_owns(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   type == OBJECT_TABLE ? get_relkind_objtype(get_rel_relkind(relid)) : type, rv->relname);
}

static void
check_create_in(Oid namespace)
{
	if (OidIsValid(namespace) && !may_create_in(namespace))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA, get_namespace_name(namespace));
}

static void
check_drop_index(DropStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		RangeVar   *rv = makeRangeVarFromNameList(lfirst(lc));
		Oid			relid = find(rv);

		if (OidIsValid(relid) && !ls_owns(NamespaceRelationId, get_rel_namespace(relid), GetUserId()))
			check_owner(rv, OBJECT_INDEX);
	}
}

void
ddl_check_rights(Node *stmt)
{
	if (superuser() || plainly_may(stmt))
		return;
	causal_catch_up_for(CATCH_UP_MS);
	if (IsA(stmt, IndexStmt))
	{
		check_owner(((IndexStmt *) stmt)->relation, OBJECT_TABLE);
		check_create_in(get_rel_namespace(find(((IndexStmt *) stmt)->relation)));
	}
	else if (IsA(stmt, AlterTableStmt))
		check_owner(((AlterTableStmt *) stmt)->relation, OBJECT_TABLE);
	else if (IsA(stmt, DropStmt))
		check_drop_index((DropStmt *) stmt);
}
