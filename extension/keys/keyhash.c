/*
 * keyhash.c
 *	  Hashing a value to 64 bits that are the same on every node.
 *
 * Two values that an index considers equal must have equal hashes on all nodes.  The
 * default hash function of a type fulfils that if the index's equality operator belongs to
 * the same operator family, and if it does not hash OIDs, which differ between nodes.
 * Enums, reg* types and types made of them are hashed by their text instead, provided that
 * equal values have equal texts.  For other values there is no hash, and the caller takes a key
 * on the whole table.
 *
 * Callers ensure that the text is independent of the session's settings (deparse_enter; keyset.c).
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "access/hash.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"

#include "typeparts.h"
#include "keyhash.h"

static bool hash_is_portable(Oid type, Oid collation);
static bool text_is_equality(Oid type, Oid collation);

static bool
hash_is_portable(Oid type, Oid collation)
{
	type = getBaseType(type);
	if (typeparts_is_reg(type) || get_typtype(type) == TYPTYPE_ENUM)
		return false;
	return typeparts_every(type, collation, hash_is_portable, true);
}

bool
keyhash_is_portable(Oid type)
{
	return hash_is_portable(type, InvalidOid);
}

/* Values are equal if and only if their texts are. */
static bool
text_is_equality(Oid type, Oid collation)
{
	type = getBaseType(type);
	if (typeparts_is_reg(type) || get_typtype(type) == TYPTYPE_ENUM)
		return true;
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case CHAROID:
		case BYTEAOID:
		case UUIDOID:
		case DATEOID:
			return true;
		case TEXTOID:
		case VARCHAROID:
		case NAMEOID:
			return get_collation_isdeterministic(OidIsValid(collation) ? collation : DEFAULT_COLLATION_OID);
		default:
			return typeparts_every(type, collation, text_is_equality, false);
	}
}

static void
init_by_text(LsHasher *hasher, Oid type, MemoryContext context)
{
	Oid			output;
	bool		is_varlena;

	getTypeOutputInfo(type, &output, &is_varlena);
	hasher->by = LS_HASH_TEXT;
	fmgr_info_cxt(output, &hasher->function, context);
}

bool
keyhash_init(LsHasher *hasher, Oid type, Oid equals, Oid collation,
			 MemoryContext context)
{
	TypeCacheEntry *entry;

	type = getBaseType(type);
	memset(hasher, 0, sizeof(LsHasher));
	hasher->collation = collation;

	entry = lookup_type_cache(type, TYPECACHE_HASH_OPFAMILY | TYPECACHE_HASH_EXTENDED_PROC);
	if (!OidIsValid(entry->hash_extended_proc) ||
		!op_in_opfamily(equals, entry->hash_opf))
		return false;
	/* names are compared by their collation, but hashed by their bytes */
	if (type == NAMEOID && OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return false;
	if (hash_is_portable(type, collation))
	{
		hasher->by = LS_HASH_FUNCTION;
		fmgr_info_cxt(entry->hash_extended_proc, &hasher->function, context);
		return true;
	}
	if (!text_is_equality(type, collation))
		return false;
	init_by_text(hasher, type, context);
	return true;
}

bool
keyhash_init_child(LsHasher *hasher, Oid child_type, Oid parent_type,
				   Oid equals, Oid collation, MemoryContext context)
{
	TypeCacheEntry *entry;
	Oid			function;

	child_type = getBaseType(child_type);
	parent_type = getBaseType(parent_type);
	if (!keyhash_init(hasher, parent_type, equals, collation, context))
		return false;
	if (child_type == parent_type || hasher->by == LS_HASH_TEXT)
		return child_type == parent_type;

	/* as in keyhash_init() */
	if (child_type == NAMEOID && OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return false;

	/* types of one hash family have compatible hashes: no cast that may fail */
	entry = lookup_type_cache(parent_type, TYPECACHE_HASH_OPFAMILY);
	function = get_opfamily_proc(entry->hash_opf, child_type, child_type, HASHEXTENDED_PROC);
	if (OidIsValid(function))
	{
		fmgr_info_cxt(function, &hasher->function, context);
		return true;
	}
	switch (find_coercion_pathway(parent_type, child_type, COERCION_IMPLICIT, &function))
	{
		case COERCION_PATH_RELABELTYPE:
			return true;
		case COERCION_PATH_FUNC:

			/*
			 * PostgreSQL compares date and timestamptz in the session's time
			 * zone
			 */
			if (func_volatile(function) != PROVOLATILE_IMMUTABLE)
				return false;
			hasher->has_cast = true;
			fmgr_info_cxt(function, &hasher->cast, context);
			return true;
		default:
			return false;
	}
}

uint64
keyhash_value(LsHasher *hasher, Datum value, uint64 seed)
{
	if (hasher->has_cast)
		value = FunctionCall3(&hasher->cast, value, Int32GetDatum(-1), BoolGetDatum(false));
	if (hasher->by == LS_HASH_TEXT)
	{
		char	   *text = OutputFunctionCall(&hasher->function, value);

		return keyhash_bytes(text, strlen(text), seed);
	}
	/* as hashint4extended() */
	if (likely(hasher->function.fn_oid == F_HASHINT4EXTENDED))
		return hash_combine64(seed, hash_bytes_uint32_extended((uint32) DatumGetInt32(value), seed));
	return hash_combine64(seed,
						  DatumGetUInt64(FunctionCall2Coll(&hasher->function, hasher->collation,
														   value, UInt64GetDatum(seed))));
}

uint64
keyhash_bytes(const void *data, size_t len, uint64 seed)
{
	return hash_bytes_extended(data, len, seed);
}

/* The database's name does not change while a session is connected to it. */
static const char *
database_name(void)
{
	static char *name = NULL;

	if (name == NULL)
	{
		char	   *found = get_database_name(MyDatabaseId);

		if (found == NULL)
			elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
		name = MemoryContextStrdup(TopMemoryContext, found);
	}
	return name;
}

/* Zero bytes end the names, so that no two lists of names look alike. */
uint64
keyhash_seed_of(const char *database, char kind, const char *schema, const char *table, const char *index)
{
	uint64		hash;

	hash = keyhash_bytes(database, strlen(database) + 1, (uint64) kind);
	hash = keyhash_bytes(schema, strlen(schema) + 1, hash);
	hash = keyhash_bytes(table, strlen(table) + 1, hash);
	return keyhash_bytes(index, strlen(index) + 1, hash);
}

uint64
keyhash_seed(char kind, const char *schema, const char *table, const char *index)
{
	return keyhash_seed_of(database_name(), kind, schema, table, index);
}
