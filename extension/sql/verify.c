/*
 * verify.c
 *	  What lockstepctl verify asks of a node: to hold its commits at a seq for a moment, and
 *	  a digest of each row.
 *
 * The digest is of the values as they are stored: 1.0 and 1.00, or 0.0 and -0.0, differ even
 * if their type considers them equal.  Nodes receive values as text, and OIDs of types and
 * labels of enums differ between nodes; where the bytes could differ for that reason, the text counts, as it does
 * for arrays, ranges and types of extensions.  NaN counts as one value, because its text
 * does not tell more.
 *
 * A table that was truncated, rewritten or altered after the snapshot was taken does not
 * show its rows of that time; definition_is_seen() detects that.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "apply.h"
#include "commit.h"
#include "lockstep.h"
#include "lockstepfuncs.h"
#include "monotonic.h"
#include "reading.h"
#include "session.h"
#include "turn.h"
#include "unlogged.h"

LS_FUNCTION(lockstep_hold_commits);
LS_FUNCTION(lockstep_release_commits);
LS_FUNCTION(lockstep_verify_start);
LS_FUNCTION(lockstep_repair_start);
LS_FUNCTION(lockstep_repair_place);
LS_FUNCTION(lockstep_row_digest);
LS_FUNCTION(lockstep_definition_is_seen);

#define LONG_VALUE 4096			/* bytes; hashed by itself */

/* ---------- standing still */

Datum
lockstep_hold_commits(PG_FUNCTION_ARGS)
{
	int64		seq = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0);
	MonoTime	until = 0;

	if (!turn_is_open() || seq < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot hold commits on this node"),
				 errdetail("The replicator has not told it, since the server started, where to go on.")));
	if (!PG_ARGISNULL(1))
		until = mono_after_interval(PG_GETARG_INTERVAL_P(1));
	PG_RETURN_INT64((int64) turn_hold((uint64) seq, until));
}

Datum
lockstep_release_commits(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(turn_release_commits());
}

Datum
lockstep_verify_start(PG_FUNCTION_ARGS)
{
	apply_value_settings();
	(void) reading_guard(true);
	PG_RETURN_VOID();
}

Datum
lockstep_repair_start(PG_FUNCTION_ARGS)
{
	apply_start_repair();
	PG_RETURN_VOID();
}

Datum
lockstep_repair_place(PG_FUNCTION_ARGS)
{
	JournalPosition position = {PG_ARGISNULL(0) ? 0 : (uint64) PG_GETARG_INT64(0), PG_ARGISNULL(1) ? 0 : (uint64) PG_GETARG_INT64(1)};

	if (!session_repairs())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("only a session that repairs this node gives it another place")));
	commit_claim_ahead(position);
	unlogged_found_all();
	PG_RETURN_VOID();
}

/* ---------- digests */

/* What of a column's value is hashed. */
typedef enum HowHashed
{
	HASH_NOTHING,				/* a dropped column */
	HASH_BYVAL,
	HASH_FIXED,
	HASH_VARLENA,
	HASH_FLOAT4,
	HASH_FLOAT8,
	HASH_TEXT					/* what its output function gives */
} HowHashed;

typedef struct Digester
{
	Oid			type;
	int32		typmod;
	int			natts;
	Datum	   *values;
	bool	   *nulls;
	StringInfoData image;
	MemoryContext row;			/* reset after each */
	struct
	{
		HowHashed	how;
		int16		len;
		FmgrInfo	output;
	}			columns[FLEXIBLE_ARRAY_MEMBER];
} Digester;

static HowHashed
how_hashed(Oid type)
{
	switch (getBaseType(type))
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case PG_LSNOID:
			return HASH_BYVAL;
		case UUIDOID:
		case INTERVALOID:
		case TIMETZOID:
		case MACADDROID:
			return HASH_FIXED;
		case BYTEAOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
		case XMLOID:			/* its text would lack the declaration */
			return HASH_VARLENA;
		case FLOAT4OID:
			return HASH_FLOAT4;
		case FLOAT8OID:
			return HASH_FLOAT8;
		default:
			return HASH_TEXT;
	}
}

static Digester *
digester_for(TupleDesc desc, MemoryContext context)
{
	Digester   *d = MemoryContextAllocZero(context, offsetof(Digester, columns) +
										   desc->natts * sizeof(d->columns[0]));
	MemoryContext old = MemoryContextSwitchTo(context);

	d->type = desc->tdtypeid;
	d->typmod = desc->tdtypmod;
	d->natts = desc->natts;
	d->values = palloc(Max(desc->natts, 1) * sizeof(Datum));
	d->nulls = palloc(Max(desc->natts, 1) * sizeof(bool));
	initStringInfo(&d->image);
	d->row = AllocSetContextCreate(context, "lockstep row digest", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Oid			output;
		bool		is_varlena;

		if (att->attisdropped)
			continue;
		d->columns[i].how = how_hashed(att->atttypid);
		d->columns[i].len = att->attlen;
		if (d->columns[i].how != HASH_TEXT)
			continue;
		getTypeOutputInfo(att->atttypid, &output, &is_varlena);
		fmgr_info_cxt(output, &d->columns[i].output, context);
	}
	MemoryContextSwitchTo(old);
	return d;
}

/* The length comes first, so that ('ab', 'c') is not ('a', 'bc'). */
static void
put_bytes(StringInfo image, const char *data, size_t len)
{
	uint64		head = len;
	uint64		hash;

	appendBinaryStringInfo(image, (char *) &head, sizeof(head));
	if (len <= LONG_VALUE)
		appendBinaryStringInfo(image, data, len);
	else
	{
		hash = hash_bytes_extended((const unsigned char *) data, len, 0);
		appendBinaryStringInfo(image, (char *) &hash, sizeof(hash));
	}
}

static void
put_value(Digester *d, int i, Datum value)
{
	struct varlena *v;
	char	   *text;
	float4		f4;
	float8		f8;

	switch (d->columns[i].how)
	{
		case HASH_NOTHING:
			break;
		case HASH_BYVAL:
			appendBinaryStringInfo(&d->image, (char *) &value, sizeof(value));
			break;
		case HASH_FIXED:
			appendBinaryStringInfo(&d->image, DatumGetPointer(value), d->columns[i].len);
			break;
		case HASH_VARLENA:
			v = pg_detoast_datum_packed((struct varlena *) DatumGetPointer(value));
			put_bytes(&d->image, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
			break;
		case HASH_FLOAT4:
			f4 = DatumGetFloat4(value);
			if (isnan(f4))
				f4 = get_float4_nan();
			appendBinaryStringInfo(&d->image, (char *) &f4, sizeof(f4));
			break;
		case HASH_FLOAT8:
			f8 = DatumGetFloat8(value);
			if (isnan(f8))
				f8 = get_float8_nan();
			appendBinaryStringInfo(&d->image, (char *) &f8, sizeof(f8));
			break;
		case HASH_TEXT:
			text = OutputFunctionCall(&d->columns[i].output, value);
			put_bytes(&d->image, text, strlen(text));
			break;
	}
}

static uint64
digest_of(Digester *d, HeapTupleHeader header, TupleDesc desc)
{
	MemoryContext old = MemoryContextSwitchTo(d->row);
	HeapTupleData tuple;
	uint64		digest;

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, desc, d->values, d->nulls);

	resetStringInfo(&d->image);
	for (int i = 0; i < d->natts; i++)
	{
		if (d->columns[i].how == HASH_NOTHING)
			continue;
		appendStringInfoChar(&d->image, d->nulls[i] ? 'n' : 'v');
		if (!d->nulls[i])
			put_value(d, i, d->values[i]);
	}
	digest = hash_bytes_extended((const unsigned char *) d->image.data, d->image.len, 0);
	MemoryContextSwitchTo(old);
	MemoryContextReset(d->row);
	return digest;
}

Datum
lockstep_row_digest(PG_FUNCTION_ARGS)
{
	HeapTupleHeader header = PG_GETARG_HEAPTUPLEHEADER(0);
	Digester   *d = fcinfo->flinfo->fn_extra;
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	uint64		digest;

	if (d == NULL || d->type != desc->tdtypeid || d->typmod != desc->tdtypmod || d->natts != desc->natts)
		fcinfo->flinfo->fn_extra = d = digester_for(desc, fcinfo->flinfo->fn_mcxt);
	digest = digest_of(d, header, desc);
	ReleaseTupleDesc(desc);
	PG_RETURN_INT64((int64) digest);
}

/* ---------- is the snapshot's table the one there is? */

static bool
tuple_is_seen(HeapTuple tuple, Snapshot snapshot)
{
	return !XidInMVCCSnapshot(HeapTupleHeaderGetXmin(tuple->t_data), snapshot);
}

static bool
columns_are_seen(Relation rel, Snapshot snapshot)
{
	for (AttrNumber n = 1; n <= RelationGetNumberOfAttributes(rel); n++)
	{
		HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)), Int16GetDatum(n));
		bool		seen = HeapTupleIsValid(tuple) && tuple_is_seen(tuple, snapshot);

		if (HeapTupleIsValid(tuple))
			ReleaseSysCache(tuple);
		if (!seen)
			return false;
	}
	return true;
}

/*
 * The lock stays until the transaction ends.  What a transaction does that had
 * committed before the snapshot was taken is seen, all else is not: an xid that
 * the snapshot holds to be running wrote the entry after it.
 */
Datum
lockstep_definition_is_seen(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel = try_relation_open(relid, AccessShareLock);
	Snapshot	snapshot = GetTransactionSnapshot();
	HeapTuple	tuple;
	bool		seen = false;

	if (rel == NULL)
		PG_RETURN_BOOL(false);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple))
	{
		seen = tuple_is_seen(tuple, snapshot) && columns_are_seen(rel, snapshot);
		ReleaseSysCache(tuple);
	}
	relation_close(rel, NoLock);
	PG_RETURN_BOOL(seen);
}
