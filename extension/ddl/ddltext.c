/*
 * ddltext.c
 *	  The text of a utility command as it is forwarded.
 *
 * It is the command as the user wrote it, cut out of its string, except for
 *  - CREATE TABLE AS and SELECT INTO, which become a CREATE TABLE of the columns of the
 *    query: the rows travel as rows, so parameters, prepared statements and random() in the
 *    query do not matter;
 *  - materialized views, which are created and refreshed WITH NO DATA: their rows travel as
 *    rows, too;
 *  - passwords, which become verifiers here, because the salt is random;
 *  - options of user mappings, which are encrypted (usermapping.c);
 *  - SESSION_USER as the name of a role, which is written out;
 *  - SET ... FROM CURRENT, which gets the value;
 *  - LIKE a temporary table, which is written out (ddllike.c);
 *  - extensions, for which the version is named.
 *
 * C code may have made the statement without such a string.  So the text is parsed again and
 * compared with the statement.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "commands/prepare.h"
#include "commands/user.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "libpq/crypt.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/scansup.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "ddl.h"
#include "sessionsettings.h"
#include "statementtext.h"
#include "tokens.h"

/* ---------- the statement in its string */

/* Does the text say what the statement says? */
static bool
text_is_statement(const char *text, Node *stmt)
{
	Node	   *parsed = statementtext_parse(text);

	if (parsed == NULL)
		return false;
	(void) ddlunlogged_change(parsed);	/* as it was changed in stmt */
	return equal(parsed, stmt);
}

/* ---------- passwords */

static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0)
			return option;
	}
	return NULL;
}

/* What the server does itself, but it would be given the verifier only. */
static void
check_clear_password(const char *role, const char *password, List *options)
{
	DefElem    *valid_until = find_option(options, "validUntil");
	Datum		until = (Datum) 0;

	if (check_password_hook == NULL)
		return;
	if (valid_until != NULL)
		until = DirectFunctionCall3(timestamptz_in, CStringGetDatum(strVal(valid_until->arg)),
									ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	check_password_hook(role, password, PASSWORD_TYPE_PLAINTEXT, until, valid_until == NULL);
}

typedef struct LiteralRange
{
	int			start;
	int			end;
} LiteralRange;

static bool
take_first_literal(const char *value, int start, int end, void *arg)
{
	LiteralRange *range = arg;

	range->start = start;
	range->end = end;
	return true;
}

/* Replace the literal of the option, in the text and in the statement. */
static char *
replace_password(char *text, const char *role, List *options)
{
	DefElem    *option = find_option(options, "password");
	const char *password = option != NULL && option->arg != NULL ? strVal(option->arg) : "";
	DefElem    *reparsed;
	Node	   *stmt;
	LiteralRange range;
	char	   *verifier;

	if (password[0] == '\0' || get_password_type(password) != PASSWORD_TYPE_PLAINTEXT)
		return text;
	check_clear_password(role, password, options);
	verifier = encrypt_password(Password_encryption, role, password);

	/* where it is in the text: the statement's locations are the source's */
	stmt = linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT))->stmt;
	reparsed = find_option(IsA(stmt, CreateRoleStmt) ? ((CreateRoleStmt *) stmt)->options :
						   castNode(AlterRoleStmt, stmt)->options, "password");
	if (!statementtext_each_literal(text + reparsed->location, take_first_literal, &range))
		elog(ERROR, "could not find the password in the command");
	option->arg = (Node *) makeString(verifier);
	return psprintf("%.*s%s %s", reparsed->location + range.start, text,
					quote_literal_cstr(verifier), text + reparsed->location + range.end);
}

static char *
text_of_create_role(PlannedStmt **pstmt, char *text)
{
	CreateRoleStmt *stmt;

	*pstmt = copyObject(*pstmt);
	stmt = castNode(CreateRoleStmt, (*pstmt)->utilityStmt);
	return replace_password(text, stmt->role, stmt->options);
}

static char *
text_of_alter_role(PlannedStmt **pstmt, char *text)
{
	AlterRoleStmt *stmt;

	*pstmt = copyObject(*pstmt);
	stmt = castNode(AlterRoleStmt, (*pstmt)->utilityStmt);
	if (find_option(stmt->options, "password") == NULL)
		return text;
	return replace_password(text, get_rolespec_name(stmt->role), stmt->options);
}

/* ---------- SESSION_USER: on another node it is the replicator */

static bool
names_roles(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_AlterOwnerStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_AlterRoleSetStmt:
		case T_GrantStmt:
		case T_GrantRoleStmt:
		case T_AlterDefaultPrivilegesStmt:
		case T_ReassignOwnedStmt:
		case T_DropOwnedStmt:
		case T_DropUserMappingStmt:
			return true;
		case T_CreateSchemaStmt:
			return ((CreateSchemaStmt *) stmt)->schemaElts == NIL;
		case T_AlterTableStmt:
			{
				AlterTableStmt *alter = (AlterTableStmt *) stmt;

				return list_length(alter->cmds) == 1 &&
					linitial_node(AlterTableCmd, alter->cmds)->subtype == AT_ChangeOwner;
			}
		default:
			return false;
	}
}

static char *
write_out_session_user(char *text)
{
	Tokens		tokens;
	int			copied = 0;
	StringInfoData out;

	initStringInfo(&out);
	tokens_begin(&tokens, text);
	while (tokens_next(&tokens))
	{
		if (!tokens_is(&tokens, "session_user"))
			continue;
		appendBinaryStringInfo(&out, text + copied, tokens.at - copied);
		appendStringInfoString(&out, quote_identifier(GetUserNameFromId(GetSessionUserId(), false)));
		copied = tokens.at + (int) strlen("session_user");
	}
	tokens_end(&tokens);
	appendStringInfoString(&out, text + copied);
	return out.data;
}

static void
check_role_spec(RoleSpec *role)
{
	if (role != NULL && role->roletype == ROLESPEC_SESSION_USER)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate SESSION_USER in this command"),
				 errdetail("On the other nodes it is another role."),
				 errhint("Write the name of the role.")));
}

static void
check_role_specs(List *roles)
{
	ListCell   *lc;

	foreach(lc, roles)
		check_role_spec(lfirst_node(RoleSpec, lc));
}

/* Where SESSION_USER may also be an expression it can't be replaced. */
static void
check_roles(Node *stmt)
{
	ListCell   *lc;

	if (IsA(stmt, CreatePolicyStmt))
		check_role_specs(((CreatePolicyStmt *) stmt)->roles);
	else if (IsA(stmt, AlterPolicyStmt))
		check_role_specs(((AlterPolicyStmt *) stmt)->roles);
	else if (IsA(stmt, GrantStmt))
	{
		check_role_specs(((GrantStmt *) stmt)->grantees);
		check_role_spec(((GrantStmt *) stmt)->grantor);
	}
	else if (IsA(stmt, CreateSchemaStmt))
	{
		check_role_spec(((CreateSchemaStmt *) stmt)->authrole);
		foreach(lc, ((CreateSchemaStmt *) stmt)->schemaElts)
			check_roles(lfirst(lc));
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		foreach(lc, ((AlterTableStmt *) stmt)->cmds)
			check_role_spec(lfirst_node(AlterTableCmd, lc)->newowner);
	}
}

/* ---------- SET ... FROM CURRENT: the value is this session's */

/*
 * A list of names, each a literal: what set_config() takes as a name may be a reserved word, and
 * SET takes an empty name as a literal only.  Names of files keep their case.
 */
static char *
list_as_literals(const char *setting, const char *value)
{
	char	   *copy = pstrdup(value);
	bool		files = strstr(setting, "_preload_libraries") != NULL;
	const char *separator = "";
	StringInfoData out;
	List	   *names;
	ListCell   *lc;

	if (!(files ? SplitGUCList(copy, ',', &names) : SplitIdentifierString(copy, ',', &names)))
		return quote_literal_cstr(value);
	initStringInfo(&out);
	foreach(lc, names)
	{
		appendStringInfo(&out, "%s%s", separator, quote_literal_cstr(lfirst(lc)));
		separator = ", ";
	}
	return names != NIL ? out.data : pstrdup("''");
}

/* As it is written after TO. */
static char *
current_value(const char *name)
{
	const char *value = GetConfigOptionByName(name, NULL, true);

	if (value == NULL || value[0] == '\0')
		return pstrdup(value == NULL ? "DEFAULT" : "''");
	if (GetConfigOptionFlags(name, true) & GUC_LIST_QUOTE)
		return list_as_literals(name, value);
	return quote_literal_cstr(value);
}

static VariableSetStmt *
next_stored_setting(Node *stmt, ListCell **at)
{
	List	   *options = NIL;

	switch (nodeTag(stmt))
	{
		case T_AlterRoleSetStmt:
			return *at == NULL ? ((AlterRoleSetStmt *) stmt)->setstmt : NULL;
		case T_AlterDatabaseSetStmt:
			return *at == NULL ? ((AlterDatabaseSetStmt *) stmt)->setstmt : NULL;
		case T_CreateFunctionStmt:
			options = ((CreateFunctionStmt *) stmt)->options;
			break;
		case T_AlterFunctionStmt:
			options = ((AlterFunctionStmt *) stmt)->actions;
			break;
		default:
			break;
	}
	for (*at = *at == NULL ? list_head(options) : lnext(options, *at); *at != NULL; *at = lnext(options, *at))
	{
		DefElem    *option = lfirst_node(DefElem, *at);

		if (strcmp(option->defname, "set") == 0)
			return castNode(VariableSetStmt, option->arg);
	}
	return NULL;
}

/* Names of settings FROM CURRENT, in the order of the text. */
static List *
settings_from_current(Node *stmt)
{
	List	   *names = NIL;
	ListCell   *at = NULL;
	VariableSetStmt *set;

	while ((set = next_stored_setting(stmt, &at)) != NULL)
	{
		if (set->kind == VAR_SET_CURRENT)
			names = lappend(names, set->name);
		if (at == NULL)
			break;				/* there is but one */
	}
	return names;
}

static char *
write_out_current(char *text, List *names)
{
	Tokens		tokens;
	int			from = -1;
	int			copied = 0;
	ListCell   *name = list_head(names);
	StringInfoData out;

	initStringInfo(&out);
	tokens_begin(&tokens, text);
	while (tokens_next(&tokens) && name != NULL)
	{
		if (tokens_is(&tokens, "current") && from >= 0)
		{
			appendBinaryStringInfo(&out, text + copied, from - copied);
			appendStringInfo(&out, "TO %s", current_value(lfirst(name)));
			copied = tokens.at + (int) strlen("current");
			name = lnext(names, name);
		}
		from = tokens_is(&tokens, "from") ? tokens.at : -1;
	}
	tokens_end(&tokens);
	appendStringInfoString(&out, text + copied);
	return out.data;
}

/* ---------- extensions */

static char *
default_version(const char *extension)
{
	static const char query[] =
	"SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name OPERATOR(pg_catalog.=) $1";
	Oid			types[1] = {NAMEOID};
	Datum		values[1] = {CStringGetDatum(extension)};
	MemoryContext caller = CurrentMemoryContext;
	char	   *version = NULL;
	NameData	name;

	namestrcpy(&name, extension);
	values[0] = NameGetDatum(&name);
	SPI_connect();
	if (SPI_execute_with_args(query, 1, types, values, NULL, true, 1) == SPI_OK_SELECT &&
		SPI_processed == 1)
	{
		version = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
		if (version != NULL)
			version = MemoryContextStrdup(caller, version);
	}
	SPI_finish();
	return version;
}

/* Other nodes may have files of another version; they must not choose it. */
static char *
text_with_version(char *text, const char *extension, List *options, const char *keyword)
{
	char	   *version;

	if (find_option(options, "new_version") != NULL)
		return text;
	version = default_version(extension);
	return version == NULL ? text :
		psprintf("%s\n%s %s", text, keyword, quote_literal_cstr(version));
}

/* ---------- CREATE TABLE AS */

/* The columns of the query's result; NULL if it has none, which the server refuses when it executes the command. */
static TupleDesc
result_of(Query *query)
{
	ExecuteStmt *execute;

	if (query->commandType != CMD_UTILITY)
		return ExecCleanTypeFromTL(query->targetList);
	execute = castNode(ExecuteStmt, query->utilityStmt);
	return FetchPreparedStatementResultDesc(FetchPreparedStatement(execute->name, true));
}

static void
append_column(StringInfo text, Form_pg_attribute att, const char *name)
{
	appendStringInfo(text, "%s %s", quote_identifier(name),
					 format_type_extended(att->atttypid, att->atttypmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	if (OidIsValid(att->attcollation) && att->attcollation != get_typcollation(att->atttypid))
		appendStringInfo(text, " COLLATE %s", generate_collation_name(att->attcollation));
}

static void
append_storage_options(StringInfo text, List *options)
{
	const char *separator = " WITH (";
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		appendStringInfoString(text, separator);
		if (option->defnamespace != NULL)
			appendStringInfo(text, "%s.", quote_identifier(option->defnamespace));
		appendStringInfoString(text, quote_identifier(option->defname));
		if (option->arg != NULL)
			appendStringInfo(text, " = %s", quote_literal_cstr(defGetString(option)));
		separator = ", ";
	}
	if (options != NIL)
		appendStringInfoChar(text, ')');
}

static char *
text_of_create_table_as(CreateTableAsStmt *stmt)
{
	IntoClause *into = stmt->into;
	TupleDesc	desc = result_of(castNode(Query, stmt->query));
	char	   *schema = get_namespace_name(RangeVarGetCreationNamespace(into->rel));
	int			ncolumns = desc != NULL ? desc->natts : 0;
	ListCell   *alias = list_head(into->colNames);
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	appendStringInfo(&text, "CREATE %sTABLE %s%s (", stmt->into->rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
					 stmt->if_not_exists ? "IF NOT EXISTS " : "",
					 quote_qualified_identifier(schema, into->rel->relname));
	for (i = 0; i < ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (i > 0)
			appendStringInfoString(&text, ", ");
		append_column(&text, att, alias != NULL ? strVal(lfirst(alias)) : NameStr(att->attname));
		if (alias != NULL)
			alias = lnext(into->colNames, alias);
	}
	appendStringInfoChar(&text, ')');
	if (into->accessMethod != NULL)
		appendStringInfo(&text, " USING %s", quote_identifier(into->accessMethod));
	append_storage_options(&text, into->options);
	if (into->tableSpaceName != NULL)
		appendStringInfo(&text, " TABLESPACE %s", quote_identifier(into->tableSpaceName));
	return text.data;
}

/* ---------- materialized views: the rows travel as rows */

/*
 * The command without data.  It begins at CREATE, as EXPLAIN may stand before
 * it, and ends before WITH [NO] DATA.
 */
static char *
text_of_create_matview(const char *text)
{
	Tokens		tokens;
	int			with = 0;
	int			start = -1;
	int			end = (int) strlen(text);
	bool		after_with = false; /* of the last token: after WITH [NO]? */
	bool		is_data = false;

	tokens_begin(&tokens, text);
	while (tokens_next(&tokens))
	{
		if (tokens_is(&tokens, "create") && start < 0)
			start = tokens.at;
		is_data = after_with && tokens_is(&tokens, "data");
		if (tokens_is(&tokens, "with"))
		{
			with = tokens.at;
			after_with = true;
		}
		else if (!tokens_is(&tokens, "no"))
			after_with = false;
	}
	tokens_end(&tokens);
	if (start < 0)
		elog(ERROR, "could not find CREATE in the command");
	if (is_data)
		end = with;
	return psprintf("%.*s\nWITH NO DATA", end - start, text + start);
}

static char *
text_of_refresh(RefreshMatViewStmt *stmt)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);

	if (!OidIsValid(relid))		/* it will fail */
		return psprintf("REFRESH MATERIALIZED VIEW %s", quote_identifier(stmt->relation->relname));
	return psprintf("REFRESH MATERIALIZED VIEW %s WITH NO DATA",
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
											   get_rel_name(relid)));
}

/* ---------- temporary and permanent relations in one command */

static bool
is_temporary(RangeVar *rv)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);

	return OidIsValid(relid) && get_rel_persistence(relid) == RELPERSISTENCE_TEMP;
}

static const char *
kind_to_drop(ObjectType type)
{
	switch (type)
	{
		case OBJECT_TABLE:
			return "TABLE";
		case OBJECT_VIEW:
			return "VIEW";
		case OBJECT_MATVIEW:
			return "MATERIALIZED VIEW";
		case OBJECT_SEQUENCE:
			return "SEQUENCE";
		case OBJECT_INDEX:
			return "INDEX";
		case OBJECT_FOREIGN_TABLE:
			return "FOREIGN TABLE";
		default:
			return NULL;
	}
}

bool
ddl_drops_relations(DropStmt *stmt)
{
	return kind_to_drop(stmt->removeType) != NULL;
}

/* The command without its temporary relations; NULL if it has none. */
static char *
text_of_permanent_drop(DropStmt *stmt)
{
	StringInfoData text;
	int			left_out = 0;
	const char *separator = "";
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfo(&text, "DROP %s %s", kind_to_drop(stmt->removeType), stmt->missing_ok ? "IF EXISTS " : "");
	foreach(lc, stmt->objects)
	{
		List	   *names = lfirst_node(List, lc);

		if (is_temporary(makeRangeVarFromNameList(names)))
		{
			left_out++;
			continue;
		}
		appendStringInfo(&text, "%s%s", separator, NameListToQuotedString(names));
		separator = ", ";
	}
	if (stmt->behavior == DROP_CASCADE)
		appendStringInfoString(&text, " CASCADE");
	return left_out > 0 ? text.data : NULL;
}

static char *
text_of_permanent_truncate(TruncateStmt *stmt)
{
	StringInfoData text;
	int			left_out = 0;
	const char *separator = "";
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfoString(&text, "TRUNCATE ");
	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);

		if (is_temporary(rv))
		{
			left_out++;
			continue;
		}
		appendStringInfo(&text, "%s%s%s", separator, rv->inh ? "" : "ONLY ",
						 quote_qualified_identifier(rv->schemaname, rv->relname));
		separator = ", ";
	}
	if (stmt->restart_seqs)
		appendStringInfoString(&text, " RESTART IDENTITY");
	if (stmt->behavior == DROP_CASCADE)
		appendStringInfoString(&text, " CASCADE");
	return left_out > 0 ? text.data : NULL;
}

/* ---------- IMPORT FOREIGN SCHEMA */

/*
 * The foreign-data wrapper wrote the text; the schema was put into the statement
 * afterwards, and is put into the text here.  NULL: it is no such text.
 */
static char *
text_of_imported_table(const char *text, Node *stmt)
{
	Node	   *node = statementtext_parse(text);
	RangeVar   *relation;

	if (node == NULL || !IsA(node, CreateForeignTableStmt))
		return NULL;
	relation = ((CreateForeignTableStmt *) node)->base.relation;
	if (relation->schemaname != NULL)
		return NULL;
	relation->schemaname = ((CreateForeignTableStmt *) stmt)->base.relation->schemaname;
	if (!equal(node, stmt))
		return NULL;
	return psprintf("%.*s%s.%s", relation->location, text, quote_identifier(relation->schemaname),
					text + relation->location);
}

/* ---------- all */

/* What runs here is this text, too. */
static Node *
replace_statement(PlannedStmt **pstmt, const char *text)
{
	Node	   *stmt = linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT))->stmt;

	(void) ddlunlogged_change(stmt);
	*pstmt = copyObject(*pstmt);
	(*pstmt)->utilityStmt = stmt;
	return stmt;
}

static char *
make_text(PlannedStmt **pstmt, const char *source)
{
	Node	   *stmt = (*pstmt)->utilityStmt;
	List	   *current;
	char	   *text;

	if (IsA(stmt, CreateTableAsStmt) && ((CreateTableAsStmt *) stmt)->objtype == OBJECT_TABLE)
		return text_of_create_table_as((CreateTableAsStmt *) stmt);
	if (IsA(stmt, RefreshMatViewStmt))
		return text_of_refresh((RefreshMatViewStmt *) stmt);
	if (IsA(stmt, DropStmt) && ddl_drops_relations((DropStmt *) stmt) &&
		(text = text_of_permanent_drop((DropStmt *) stmt)) != NULL)
		return text;
	if (IsA(stmt, TruncateStmt) && (text = text_of_permanent_truncate((TruncateStmt *) stmt)) != NULL)
		return text;

	text = statementtext_cut(source, (*pstmt)->stmt_location, (*pstmt)->stmt_len);
	if (IsA(stmt, CreateTableAsStmt))
		return text_of_create_matview(text);
	if (!text_is_statement(text, stmt) &&
		(!IsA(stmt, CreateForeignTableStmt) || (text = text_of_imported_table(text, stmt)) == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot replicate a command that has no text"),
				 errdetail("A C function made the command without saying how it is written.")));
	current = settings_from_current(stmt);
	if (current != NIL)
	{
		/* run it so here, too: another spelling would be another value */
		text = write_out_current(text, current);
		stmt = replace_statement(pstmt, text);
	}
	if (IsA(stmt, CreateStmt) && ddl_likes_temporary((CreateStmt *) stmt))
	{
		text = ddl_write_out_likes(text);
		stmt = replace_statement(pstmt, text);
	}
	if (names_roles(stmt))
		text = write_out_session_user(text);
	else
		check_roles(stmt);
	switch (nodeTag(stmt))
	{
		case T_CreateRoleStmt:
			return text_of_create_role(pstmt, text);
		case T_AlterRoleStmt:
			return text_of_alter_role(pstmt, text);
		case T_CreateUserMappingStmt:
			return usermapping_create_text((CreateUserMappingStmt *) stmt);
		case T_AlterUserMappingStmt:
			return usermapping_alter_text((AlterUserMappingStmt *) stmt);
		case T_CreateExtensionStmt:
			return text_with_version(text, ((CreateExtensionStmt *) stmt)->extname,
									 ((CreateExtensionStmt *) stmt)->options, "VERSION");
		case T_AlterExtensionStmt:
			return text_with_version(text, ((AlterExtensionStmt *) stmt)->extname,
									 ((AlterExtensionStmt *) stmt)->options, "TO");
		default:
			return text;
	}
}

char *
ddl_text(PlannedStmt **pstmt, const char *source)
{
	int			quiet = sessionsettings_begin_quiet();
	char	   *text = make_text(pstmt, source);

	sessionsettings_end_quiet(quiet);
	return text;
}
