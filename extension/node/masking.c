/*
 * masking.c
 *	  Which rows and commands of others the current role may see in messages.
 *
 * The replicator's DETAIL contains the query by which a transaction was lost, its own or
 * another's, and a SECURITY DEFINER function may have written what a transaction has
 * forwarded.  As in PostgreSQL's own errors (BuildIndexValueDescription), a role sees them only if
 * it may read the whole of the tables concerned, and no row security applies to it.
 * Superusers and members of pg_monitor see everything, as in lockstep.conflicts.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/varlena.h"

#include "compat.h"
#include "lockstep.h"
#include "masking.h"

static bool
sees_everything(void)
{
	return superuser() || has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

/* name: as in SQL, with its schema. */
static bool
may_read(const char *name)
{
	List	   *names;
	Oid			namespace;
	Oid			relid;

	if (!SplitIdentifierString(pstrdup(name), '.', &names) || list_length(names) != 2)
		return false;
	namespace = get_namespace_oid(linitial(names), true);
	relid = OidIsValid(namespace) ? get_relname_relid(lsecond(names), namespace) : InvalidOid;
	return OidIsValid(relid) && ls_may_use_schema(namespace, GetUserId()) &&
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK &&
		check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED;
}

/* ---------- texts of the replicator */

/* Those between BEGIN and TEXT; *text is moved behind. */
static bool
may_read_those(const char **text)
{
	char	   *tables = pstrdup(*text);
	char	   *end = strchr(tables, LS_MASK_TEXT);
	char	   *next;
	bool		may = end != NULL && end != tables;

	*text += end != NULL ? end - tables + 1 : strlen(tables);
	if (end != NULL)
		*end = '\0';
	for (char *table = tables; may && table != NULL; table = next)
	{
		next = strchr(table, LS_MASK_AND);
		if (next != NULL)
			*next++ = '\0';
		may = may_read(table);
	}
	return may;
}

static const char *
skip_part(const char *text)
{
	const char *end = strchr(text, LS_MASK_END);

	return end != NULL ? end : text + strlen(text);
}

typedef enum Sight
{
	SEES_NOTHING,
	SEES_ALL,
	SEES_BY_RIGHTS
} Sight;

static char *
shown(const char *text, Sight sight)
{
	static const char ends[] = {LS_MASK_BEGIN, LS_MASK_END, '\0'};
	StringInfoData out;

	initStringInfo(&out);
	while (*text != '\0')
	{
		const char *next = text + strcspn(text, ends);

		appendBinaryStringInfo(&out, text, next - text);
		text = next;
		if (*text == LS_MASK_END)
			text++;
		else if (*text == LS_MASK_BEGIN)
		{
			bool		may = sight == SEES_ALL;

			text++;
			if (sight == SEES_BY_RIGHTS)
				may = may_read_those(&text);
			else
			{
				const char *part = strchr(text, LS_MASK_TEXT);

				text = part != NULL ? part + 1 : text + strlen(text);
			}
			if (!may)
				text = skip_part(text);
		}
	}
	return out.data;
}

/* Looks into the catalogs. */
char *
masking_for_reader(const char *text)
{
	return shown(text, strchr(text, LS_MASK_BEGIN) == NULL || sees_everything() ? SEES_ALL : SEES_BY_RIGHTS);
}

char *
masking_for_log(const char *text)
{
	return shown(text, SEES_ALL);
}

/* The same where the catalogs can't be looked into: while an error is on its way. */
char *
masking_in_error(const char *text)
{
	const char *super = GetConfigOption("is_superuser", true, false);

	return shown(text, super != NULL && strcmp(super, "on") == 0 ? SEES_ALL : SEES_NOTHING);
}

/* ---------- what was forwarded */

/* The role whose statement it is; InvalidOid: none is named. */
static Oid
role_of(const LsQuery *query)
{
	LsSlice		rest = query->settings;
	LsSlice		name;
	LsSlice		value;
	Oid			role = InvalidOid;

	while (ls_next_setting(&rest, &name, &value))
	{
		if (name.len == 4 && memcmp(name.data, "role", 4) == 0)
			role = get_role_oid(pnstrdup((const char *) value.data, value.len), true);
	}
	return role;
}

bool
masking_shows_query(const LsQuery *query)
{
	LsSlice		rest = query->keys;
	LsKey		key;
	Oid			role;
	int			tables = 0;

	if (sees_everything())
		return true;
	while (ls_next_key(&rest, &key))
	{
		const char *name = (const char *) key.name.data;
		size_t		len = 0;
		bool		quoted = false;

		if (key.name.len > 9 && memcmp(name, "database ", 9) == 0)
			continue;
		for (; len < key.name.len && (quoted || name[len] != ' '); len++)
			quoted ^= name[len] == '"';
		if (!may_read(pnstrdup(name, len)))
			return false;
		tables++;
	}
	if (tables > 0)
		return true;
	role = role_of(query);
	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}
