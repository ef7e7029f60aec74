/*
 * largeobject.c
 *	  Large objects: created, written, truncated and unlinked on every node, with the same
 *	  OIDs.
 *
 * Their data are in a catalog that the server itself changes, so no row is captured. Instead,
 * each effect is forwarded when it happens, as a call of a function that has the same effect on
 * every node:
 *
 *	 created	lo_create(oid), under the owner's role
 *	 written	lo_put(oid, offset, bytes), in pieces
 *	 truncated	lo_open, lo_truncate64, lo_close
 *	 unlinked	lo_unlink(oid)
 *
 * object_access_hook sees creation and unlinking, whether by SQL, by the fastpath protocol of
 * libpq, or by C code such as the trigger lo_manage of contrib/lo.  DROP OWNED unlinks on the
 * other nodes by itself.  Functions that write are replaced in the server's table of built-in
 * functions.  Those that write through a descriptor do not name the object, so the object that
 * each descriptor was opened for is remembered.
 *
 * Keys: one for each large object, exclusive, made before the change, so that S does not exceed
 * the state that the change was based on.  OIDs that the server would choose are chosen here,
 * from a random start in each session, so that two nodes rarely choose the same one; if they do,
 * one of them loses by the key, with 40001.  That needs no lease.
 *
 * Commands on large objects (ALTER, GRANT, COMMENT) are forwarded like others, but are certified
 * by the same keys instead of requesting locks first.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_largeobject.h"
#include "catalog/pg_largeobject_metadata.h"
#include "common/pg_prng.h"
#include "libpq/libpq-fs.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/large_object.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "capture.h"
#include "compat.h"
#include "effectcall.h"
#include "hostchoice.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "patch.h"
#include "session.h"

/* Bytes of one forwarded lo_put: whole pages of pg_largeobject. */
#define PIECE (64 * LOBLKSIZE)

/* Clients may keep oids in signed integers. */
#define HIGHEST_CHOSEN ((Oid) PG_INT32_MAX)

/* How every forwarded call begins. */
#define CALL "SELECT pg_catalog.lo_"

static const char create_text[] =
CALL "create($1::pg_catalog.oid)";
static const char put_text[] =
CALL "put($1::pg_catalog.oid, $2::pg_catalog.int8, $3::pg_catalog.bytea)";
static const char truncate_text[] =
CALL "truncate64(f, $2::pg_catalog.int8), pg_catalog.lo_close(f)"
" FROM pg_catalog.lo_open($1::pg_catalog.oid, 131072) f";
static const char unlink_text[] =
CALL "unlink($1::pg_catalog.oid)";

static PGFunction original_lo_open;
static PGFunction original_lo_creat;
static PGFunction original_lo_create;
static PGFunction original_lo_from_bytea;
static PGFunction original_lo_import;
static PGFunction original_lo_import_with_oid;
static PGFunction original_lo_put;
static PGFunction original_lowrite;
static PGFunction original_lo_truncate;
static PGFunction original_lo_truncate64;

/* What the descriptors of this transaction were opened for. */
static struct
{
	Oid		   *oids;			/* by descriptor; in TopMemoryContext */
	int			size;
	LocalTransactionId lxid;
}			opened;

/* ---------- one writer at a time */

/*
 * A new object is visible to no other transaction, so it needs no lock; pg_restore creates very
 * many.
 */
static bool
is_newborn(Oid oid)
{
	Relation	rel = table_open(LargeObjectMetadataRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		newborn;

	ScanKeyInit(&key, Anum_pg_largeobject_metadata_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(oid));
	scan = systable_beginscan(rel, LargeObjectMetadataOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	newborn = HeapTupleIsValid(tuple) && (tuple->t_data->t_infomask & HEAP_UPDATED) == 0 &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return newborn;
}

/*
 * PostgreSQL locks pages of a large object, not the object: two transactions may truncate it and
 * append to it at the same time, or unlink it and append, without seeing each other's change.
 * The other nodes execute one after the other, with another result.  So truncating waits for
 * writers and writers for truncating; unlinking locks the object anyway. Transactions of
 * different nodes conflict by their keys.
 */
static void
lock_object(Oid oid, LOCKMODE mode)
{
	if (!is_newborn(oid))
		LockDatabaseObject(LargeObjectRelationId, oid, 0, mode);
}

/* ---------- forwarding */

static void
begin(EffectCall *call, const char *text, Oid oid)
{
	char		number[12];
	LsKey		keys[2];
	int			nkeys;

	effectcall_begin(call, text);
	nkeys = keyset_large_object(oid, keys);
	for (int i = 0; i < nkeys; i++)
		effectcall_add_key(call, &keys[i]);
	effectcall_add_param(call, number, snprintf(number, sizeof(number), "%u", oid));
}

static void
add_number(EffectCall *call, int64 value)
{
	char		number[MAXINT8LEN + 1];

	effectcall_add_param(call, number, snprintf(number, sizeof(number), INT64_FORMAT, value));
}

static void
add_bytes(EffectCall *call, const char *data, size_t len)
{
	char	   *hex = palloc(2 * len + 2);

	hex[0] = '\\';
	hex[1] = 'x';
	(void) hex_encode(data, len, hex + 2);
	effectcall_add_param(call, hex, 2 * len + 2);
	pfree(hex);
}

/* In pieces; the first one has been started already, with the keys. */
static void
forward_put(EffectCall *call, Oid oid, int64 offset, const char *data, size_t len)
{
	size_t		done = 0;

	do
	{
		size_t		n = Min(len - done, PIECE - (size_t) ((offset + done) % LOBLKSIZE));

		if (done > 0)
			begin(call, put_text, oid);
		add_number(call, offset + done);
		add_bytes(call, data + done, n);
		effectcall_forward(call);
		done += n;
	} while (done < len);
}

static void
forward_create(Oid oid)
{
	EffectCall	call;

	begin(&call, create_text, oid);
	call.as_role = true;
	effectcall_forward(&call);
}

static void
forward_unlink(Oid oid)
{
	EffectCall	call;

	begin(&call, unlink_text, oid);
	effectcall_forward(&call);
}

/*
 * In an apply session: a change that is not itself what was forwarded is made by a function that
 * a constraint or the like calls.  Its effect at the origin was forwarded separately, so this
 * call must not repeat it.
 */
static void
refuse_nested(void)
{
	if (effectcall_is_forwarded(CALL) || utility_drops_owned() || session_repairs())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate a change whose constraints, indexes or defaults change a large object"),
			 errdetail("A function that they call would do so again on every other node."),
			 errhint("Change the large object in a trigger instead.")));
}

/* Is a change of large objects that happens now forwarded? */
static bool
is_captured(void)
{
	hostchoice_forget();
	switch (ls_mode())
	{
		case LS_MODE_ORIGIN:
			return true;
		case LS_MODE_APPLY:
			refuse_nested();
			break;
		case LS_MODE_OFF:
			break;
	}
	return false;
}

/* The same of a function that is called; one that will be refused is not. */
static bool
is_captured_call(void)
{
	return !ls_refuses_large_objects() && is_captured();
}

/* ---------- created and unlinked */

void
largeobject_on_object_access(ObjectAccessType access, Oid class, Oid object)
{
	if (class != LargeObjectRelationId)
		return;
	if (access == OAT_POST_CREATE && is_captured())
		forward_create(object);
	else if (access == OAT_DROP && !utility_drops_owned() && is_captured())
		forward_unlink(object);
}

/*
 * An OID for a new large object that no other node is likely to choose.  An object that another
 * transaction creates at the same moment is not seen, but equally unlikely.
 */
static Oid
choose_oid(void)
{
	static Oid	next = InvalidOid;

	if (!OidIsValid(next))
		next = (Oid) pg_prng_uint64_range(&pg_global_prng_state, FirstNormalObjectId, HIGHEST_CHOSEN);
	do
	{
		CHECK_FOR_INTERRUPTS();
		next = next < HIGHEST_CHOSEN ? next + 1 : FirstNormalObjectId;
	} while (LargeObjectExists(next));
	return next;
}

static Datum
instead_of_lo_creat(PG_FUNCTION_ARGS)
{
	if (!is_captured_call())
		return original_lo_creat(fcinfo);
	return DirectFunctionCall1(original_lo_create, ObjectIdGetDatum(choose_oid()));
}

static Datum
instead_of_lo_create(PG_FUNCTION_ARGS)
{
	if (OidIsValid(PG_GETARG_OID(0)) || !is_captured_call())
		return original_lo_create(fcinfo);
	return DirectFunctionCall1(original_lo_create, ObjectIdGetDatum(choose_oid()));
}

static Datum
instead_of_lo_from_bytea(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	bytea	   *data;
	EffectCall	call;

	if (!is_captured_call())
		return original_lo_from_bytea(fcinfo);
	if (!OidIsValid(oid))
		oid = choose_oid();
	data = PG_GETARG_BYTEA_PP(1);
	DirectFunctionCall2(original_lo_from_bytea, ObjectIdGetDatum(oid), PointerGetDatum(data));
	begin(&call, put_text, oid);
	forward_put(&call, oid, 0, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
	PG_RETURN_OID(oid);
}

/* The file exists on this node only: its content is forwarded as it was written here. */
static Oid
import(text * file, Oid oid)
{
	LargeObjectDesc *object;
	char	   *piece = palloc(PIECE);
	int64		offset = 0;
	int			n;
	EffectCall	call;

	if (!OidIsValid(oid))
		oid = choose_oid();
	DirectFunctionCall2(original_lo_import_with_oid, PointerGetDatum(file), ObjectIdGetDatum(oid));

	/* opened for writing, to see what has just been written */
	object = inv_open(oid, INV_WRITE, CurrentMemoryContext);
	while ((n = inv_read(object, piece, PIECE)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		begin(&call, put_text, oid);
		forward_put(&call, oid, offset, piece, n);
		offset += n;
	}
	inv_close(object);
	pfree(piece);
	return oid;
}

static Datum
instead_of_lo_import(PG_FUNCTION_ARGS)
{
	if (!is_captured_call())
		return original_lo_import(fcinfo);
	PG_RETURN_OID(import(PG_GETARG_TEXT_PP(0), InvalidOid));
}

static Datum
instead_of_lo_import_with_oid(PG_FUNCTION_ARGS)
{
	if (!is_captured_call())
		return original_lo_import_with_oid(fcinfo);
	PG_RETURN_OID(import(PG_GETARG_TEXT_PP(0), PG_GETARG_OID(1)));
}

/* ---------- written */

static Datum
instead_of_lo_put(PG_FUNCTION_ARGS)
{
	Oid			oid = PG_GETARG_OID(0);
	bytea	   *data;
	Datum		result;
	EffectCall	call;

	if (!is_captured_call())
		return original_lo_put(fcinfo);
	lock_object(oid, RowExclusiveLock);
	begin(&call, put_text, oid);
	result = original_lo_put(fcinfo);
	data = PG_GETARG_BYTEA_PP(2);
	forward_put(&call, oid, PG_GETARG_INT64(1), VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
	return result;
}

/* In any mode: lockstep.replicate may change before the descriptor is used. */
static Datum
instead_of_lo_open(PG_FUNCTION_ARGS)
{
	Datum		result = original_lo_open(fcinfo);
	int			fd = DatumGetInt32(result);

	if (fd >= opened.size)
	{
		int			size = Max(64, 2 * fd);

		opened.oids = opened.oids == NULL ?
			MemoryContextAlloc(TopMemoryContext, size * sizeof(Oid)) :
			repalloc(opened.oids, size * sizeof(Oid));
		memset(opened.oids + opened.size, 0, (size - opened.size) * sizeof(Oid));
		opened.size = size;
	}
	if (opened.lxid != ls_lxid(MyProc))
		memset(opened.oids, 0, opened.size * sizeof(Oid));
	opened.lxid = ls_lxid(MyProc);
	opened.oids[fd] = PG_GETARG_OID(0);
	return result;
}

/* Which large object is open as fd; *offset: where it stands. */
static Oid
object_of(int fd, int64 *offset)
{
	/* fails if it isn't open */
	*offset = DatumGetInt64(DirectFunctionCall1(be_lo_tell64, Int32GetDatum(fd)));
	if (opened.lxid != ls_lxid(MyProc) || fd >= opened.size || !OidIsValid(opened.oids[fd]))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the large object that is open as descriptor %d on a node", fd),
				 errdetail("It was opened by a function in C, so it is not known which one it is."),
				 errhint("Open it with lo_open.")));
	return opened.oids[fd];
}

static Datum
instead_of_lowrite(PG_FUNCTION_ARGS)
{
	bytea	   *data;
	int64		offset;
	Oid			oid;
	Datum		result;
	EffectCall	call;

	if (!is_captured_call())
		return original_lowrite(fcinfo);
	oid = object_of(PG_GETARG_INT32(0), &offset);
	lock_object(oid, RowExclusiveLock);
	begin(&call, put_text, oid);
	result = original_lowrite(fcinfo);
	data = PG_GETARG_BYTEA_PP(1);
	Assert(DatumGetInt32(result) == (int32) VARSIZE_ANY_EXHDR(data));
	forward_put(&call, oid, offset, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
	return result;
}

static Datum
truncate_object(FunctionCallInfo fcinfo, PGFunction original, int64 len)
{
	int64		offset;
	Oid			oid;
	Datum		result;
	EffectCall	call;

	if (!is_captured_call())
		return original(fcinfo);
	oid = object_of(PG_GETARG_INT32(0), &offset);
	lock_object(oid, ExclusiveLock);
	begin(&call, truncate_text, oid);
	result = original(fcinfo);
	add_number(&call, len);
	effectcall_forward(&call);
	return result;
}

static Datum
instead_of_lo_truncate(PG_FUNCTION_ARGS)
{
	return truncate_object(fcinfo, original_lo_truncate, PG_GETARG_INT32(1));
}

static Datum
instead_of_lo_truncate64(PG_FUNCTION_ARGS)
{
	return truncate_object(fcinfo, original_lo_truncate64, PG_GETARG_INT64(1));
}

/* ---------- commands */

/* The OIDs that a command on large objects names; false: it is another command. */
bool
largeobject_named_by(Node *stmt, List **oids)
{
	List	   *names = NIL;
	ListCell   *lc;

	switch (nodeTag(stmt))
	{
		case T_GrantStmt:
			if (((GrantStmt *) stmt)->objtype != OBJECT_LARGEOBJECT)
				return false;
			names = ((GrantStmt *) stmt)->objects;
			break;
		case T_AlterOwnerStmt:
			if (((AlterOwnerStmt *) stmt)->objectType != OBJECT_LARGEOBJECT)
				return false;
			names = list_make1(((AlterOwnerStmt *) stmt)->object);
			break;
		case T_CommentStmt:
			if (((CommentStmt *) stmt)->objtype != OBJECT_LARGEOBJECT)
				return false;
			names = list_make1(((CommentStmt *) stmt)->object);
			break;
		case T_SecLabelStmt:
			if (((SecLabelStmt *) stmt)->objtype != OBJECT_LARGEOBJECT)
				return false;
			names = list_make1(((SecLabelStmt *) stmt)->object);
			break;
		default:
			return false;
	}
	*oids = NIL;
	foreach(lc, names)
		* oids = lappend_oid(*oids, oidparse(lfirst(lc)));
	return true;
}

/* ---------- start-up */

void
largeobject_replace_functions(void)
{
#define REPLACE(oid, name) ls_replace_function(oid, instead_of_##name, &original_##name, #name)
	REPLACE(F_LO_OPEN, lo_open);
	REPLACE(F_LO_CREAT, lo_creat);
	REPLACE(F_LO_CREATE, lo_create);
	REPLACE(F_LO_FROM_BYTEA, lo_from_bytea);
	REPLACE(F_LO_IMPORT_TEXT, lo_import);
	REPLACE(F_LO_IMPORT_TEXT_OID, lo_import_with_oid);
	REPLACE(F_LO_PUT, lo_put);
	REPLACE(F_LOWRITE, lowrite);
	REPLACE(F_LO_TRUNCATE, lo_truncate);
	REPLACE(F_LO_TRUNCATE64, lo_truncate64);
}
