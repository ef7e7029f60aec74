/*
 * sequence_session.c
 *	  nextval, currval, lastval and setval, as this session sees them.
 *
 * They do what PostgreSQL's functions do, for replicated sequences.  Temporary sequences, and
 * those whose storage the current transaction has made, are left to PostgreSQL.  So both
 * PostgreSQL and this file remember values of this session; for each sequence the more recent
 * one counts.
 *
 *  nextval:	cached by this session (CACHE)?	 yes: done
 *				in what this node may hand out?  yes: done, including the page
 *				request more from the replicator, start again
 *  setval:	is ordered at once, on its own; the replicator's session sets the page here,
 *				too, and this session waits for that
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_sequence.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "capture.h"
#include "compat.h"
#include "growing.h"
#include "hostchoice.h"
#include "keyset.h"
#include "lockstep.h"
#include "pack.h"
#include "request.h"
#include "sequence_private.h"
#include "turn.h"
#include "xact.h"

typedef struct SessionSequence
{
	Oid			relid;
	Oid			file;
	LocalTransactionId lxid;	/* of the transaction that locked it last */
	bool		valid;			/* last is valid; else PostgreSQL's own memory
								 * counts */
	int64		last;
	int64		cached;			/* up to here values were taken */
	int64		increment;
	uint64		left;			/* of the transaction's own lease, behind
								 * last, for what it has altered */
	LocalTransactionId used_lxid;	/* of the transaction that used it last */
	int			used_at;		/* its place in used[] */
} SessionSequence;

static HTAB *sequences = NULL;
static Oid	last_used = InvalidOid; /* InvalidOid: PostgreSQL's own memory
									 * counts */

static SeqUsed *used = NULL;
static int	nused = 0;
static int	maxused = 0;

/* ---------- what this session remembers */

static SessionSequence *
remembered(Oid relid, bool make)
{
	SessionSequence *s;
	HASHCTL		info;
	bool		found;

	if (sequences == NULL)
	{
		if (!make)
			return NULL;
		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(SessionSequence);
		sequences = hash_create("lockstep sequences of this session", 16, &info, HASH_ELEM | HASH_BLOBS);
	}
	s = hash_search(sequences, &relid, make ? HASH_ENTER : HASH_FIND, &found);
	if (make && !found)
		memset((char *) s + sizeof(Oid), 0, sizeof(*s) - sizeof(Oid));
	return s;
}

/* DISCARD SEQUENCES */
void
sequence_discard(void)
{
	if (sequences != NULL)
		hash_destroy(sequences);
	sequences = NULL;
	last_used = InvalidOid;
}

const SeqUsed *
sequence_used(int *n)
{
	*n = nused;
	return used;
}

void
sequence_forget_used(void)
{
	nused = 0;
}

/* Note the value, to be forwarded at commit. */
static void
note_used(SessionSequence *s, const SeqTaken *taken)
{
	walwitness_note_sequence_value();
	if (s->used_lxid != ls_lxid(MyProc) || s->used_at >= nused || used[s->used_at].relid != s->relid)
	{
		used = ls_with_room(used, nused, &maxused, sizeof(SeqUsed));
		s->used_lxid = ls_lxid(MyProc);
		s->used_at = nused++;
	}
	used[s->used_at] = (SeqUsed) {s->relid, taken->last, taken->count, taken->generation};
}

/* ---------- the sequence */

/* Locked until the end of the transaction, as nextval does. */
static Relation
open_sequence(Oid relid, SessionSequence **session)
{
	SessionSequence *s = remembered(relid, true);
	Relation	rel;

	if (s->lxid != ls_lxid(MyProc))
	{
		ResourceOwner owner = CurrentResourceOwner;

		CurrentResourceOwner = TopTransactionResourceOwner;
		LockRelationOid(relid, RowExclusiveLock);
		CurrentResourceOwner = owner;
		s->lxid = ls_lxid(MyProc);
	}
	rel = relation_open(relid, NoLock);
	if (rel->rd_rel->relkind == RELKIND_SEQUENCE && s->file != rel->rd_rel->relfilenode)
	{
		/* another file: cached values are not of this one */
		s->file = rel->rd_rel->relfilenode;
		s->cached = s->last;
		s->left = 0;
	}
	*session = s;
	return rel;
}

bool
sequence_is_locked_by_us(Oid relid)
{
	const SessionSequence *s = remembered(relid, false);

	return s != NULL && s->lxid == ls_lxid(MyProc);
}

/*
 * Is it replicated?  Temporary sequences are not; anything but a sequence gets the server's
 * error.
 */
static bool
is_replicated(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_SEQUENCE &&
		rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP && (!sequence_is_new(rel) || sequence_goes_on(rel));
}

static void
check_permission(Relation rel, AclMode mode)
{
	if (pg_class_aclcheck(RelationGetRelid(rel), GetUserId(), mode) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for sequence %s", RelationGetRelationName(rel))));
}

/* ---------- asking for more */

static void
end_asking(int code, Datum entry)
{
	sequence_shared_end_asking((struct SeqEntry *) DatumGetPointer(entry));
}

static void
report_exhausted(Relation rel, const SeqShape *shape)
{
	bool		up = shape->increment > 0;

	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 up ? errmsg("nextval: reached maximum value of sequence \"%s\" (%lld)",
						 RelationGetRelationName(rel), (long long) shape->max) :
			 errmsg("nextval: reached minimum value of sequence \"%s\" (%lld)",
					RelationGetRelationName(rel), (long long) shape->min)));
}

/* Without values: the sequence is exhausted; or another lease was asked for too early, and has been waited for. */
static LsLeased
request_values(Relation rel, const SeqShape *shape)
{
	LsLease		request;
	LsKey		database;
	LsKey		key;
	StringInfoData keys;
	LsLeased	answer;
	SeqPosition position;
	char	   *name;

	memset(&request, 0, sizeof(request));
	request.applied = sequence_committed_name(rel, &name, &key);
	if (!sequence_is_new(rel))
		sequence_shared_named(rel, name, &key); /* its entry may be older than
												 * a change of its name */
	position = sequence_page_read(rel); /* read after that, so not older */
	request.name = ls_slice_of(name);
	request.increment = shape->increment;
	request.min = shape->min;
	request.max = shape->max;
	request.cycle = shape->cycle;
	request.value = position.value;
	request.called = position.called;
	request.wanted = shape->cache;
	database = keyset_database_key(LS_TABLE_IX);
	database.name = key.name = ls_slice_of(NULL);
	initStringInfo(&keys);
	pack_key(&keys, &database);
	pack_key(&keys, &key);
	request.keys = ls_slice_of_buffer(&keys);
	answer = request_lease(&request);
	if (answer.count == 0 && answer.seq > turn_applied())
		xact_wait_applied(answer.seq);
	return answer;
}

static void
ask_once(Relation rel, const SeqShape *shape)
{
	uint64		generation = sequence_shared_generation(rel);
	LsLeased	answer = request_values(rel, shape);

	if (answer.count > 0)
		sequence_shared_add(rel, shape, generation, answer.first, answer.count);
	else if (generation == sequence_shared_generation(rel) && answer.seq == 0)
		report_exhausted(rel, shape);
}

static void
ask_for_more(Relation rel, const SeqShape *shape)
{
	struct SeqEntry *entry = sequence_shared_begin_asking(rel);

	if (entry == NULL)
		return;
	PG_ENSURE_ERROR_CLEANUP(end_asking, PointerGetDatum(entry));
	{
		ask_once(rel, shape);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_asking, PointerGetDatum(entry));
	sequence_shared_end_asking(entry);
}

/* ---------- nextval */

/* Values come again anyway: it goes the other way now, or in a cycle. */
static bool
repeats(const SeqShape *before, const SeqShape *shape)
{
	return before->cycle || shape->cycle || (before->increment > 0) != (shape->increment > 0);
}

static void
shapes(Relation rel, SeqShape *before, SeqShape *shape)
{
	Snapshot	snapshot = sequence_snapshot_before();

	sequence_shape_before(RelationGetRelid(rel), snapshot, before);
	UnregisterSnapshot(snapshot);
	sequence_shape(RelationGetRelid(rel), shape);
}

/* False: PostgreSQL's own function is to do it. */
static bool
has_own_lease(Relation rel, const SessionSequence *s)
{
	SeqShape	before;
	SeqShape	shape;

	if (s->left > 0)
		return true;
	shapes(rel, &before, &shape);
	return !repeats(&before, &shape);
}

/*
 * The storage is this transaction's, and so is the lease; other sessions go on with theirs.  It is asked for within the
 * bounds that they know, as this transaction may be rolled back.
 */
static int64
next_of_altered(Relation rel, SessionSequence *s)
{
	SeqShape	before;
	SeqShape	shape;
	SeqPosition position = {0, true};

	walwitness_note_sequence_value();
	if (s->left > 0)
	{
		sequence_shape(RelationGetRelid(rel), &shape);
		position.value = s->last + shape.increment;
		s->left--;
	}
	else
	{
		LsLeased	answer;

		shapes(rel, &before, &shape);
		before.increment = shape.increment;
		while ((answer = request_values(rel, &before)).count == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (answer.seq == 0)
				report_exhausted(rel, &shape);
		}
		position.value = answer.first;
		s->left = answer.count - 1;
	}
	if (position.value < shape.min || position.value > shape.max)
		report_exhausted(rel, &shape);
	sequence_page_set(rel, position);
	s->increment = shape.increment;
	s->last = s->cached = position.value;
	return s->last;
}

static int64
next_value(Relation rel, SessionSequence *s)
{
	SeqShape	shape;
	SeqTaken	taken;

	if (sequence_goes_on(rel))
		return next_of_altered(rel, s);
	if (s->valid && s->last != s->cached)
	{
		s->last += s->increment;
		return s->last;
	}
	sequence_shape(RelationGetRelid(rel), &shape);
	while (!sequence_shared_take(rel, &shape, &taken))
	{
		CHECK_FOR_INTERRUPTS();
		ask_for_more(rel, &shape);
	}
	s->increment = shape.increment;
	s->last = taken.first;
	s->cached = taken.last;
	note_used(s, &taken);
	return s->last;
}

/* False: PostgreSQL's own function is to do it. */
bool
sequence_nextval(Oid relid, bool check, int64 *result)
{
	SessionSequence *s;
	Relation	rel = open_sequence(relid, &s);

	if (!is_replicated(rel) || (sequence_goes_on(rel) && !has_own_lease(rel, s)))
	{
		if (rel->rd_rel->relkind == RELKIND_SEQUENCE && sequence_is_new(rel))
			walwitness_note_sequence_value();
		s->valid = false;
		last_used = InvalidOid;
		relation_close(rel, NoLock);
		return false;
	}
	if (check)
		check_permission(rel, ACL_USAGE | ACL_UPDATE);
	hostchoice_forget();
	PreventCommandIfReadOnly("nextval()");
	PreventCommandIfParallelMode("nextval()");
	*result = next_value(rel, s);
	s->valid = true;
	last_used = relid;
	relation_close(rel, NoLock);
	return true;
}

/* ---------- currval, lastval */

bool
sequence_currval(Oid relid, int64 *result)
{
	SessionSequence *s = remembered(relid, false);
	Relation	rel;

	if (s == NULL || !s->valid)
		return false;
	rel = open_sequence(relid, &s);
	check_permission(rel, ACL_SELECT | ACL_USAGE);
	*result = s->last;
	relation_close(rel, NoLock);
	return true;
}

bool
sequence_lastval(int64 *result)
{
	if (!OidIsValid(last_used))
		return false;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(last_used)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lastval is not yet defined in this session")));
	return sequence_currval(last_used, result);
}

/* ---------- setval */

static void
check_bounds(Relation rel, int64 value)
{
	SeqShape	shape;

	sequence_shape(RelationGetRelid(rel), &shape);
	if (value < shape.min || value > shape.max)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("setval: value %lld is out of bounds for sequence \"%s\" (%lld..%lld)",
						(long long) value, RelationGetRelationName(rel),
						(long long) shape.min, (long long) shape.max)));
}

/* Ordered by the replicator, and applied here before this returns. */
static void
order_setval(Relation rel, SeqPosition position)
{
	LsKey		key;
	LsQuery		query;
	char	   *name;

	(void) sequence_committed_name(rel, &name, &key);
	sequence_effect_query(&query, "set", name, position, "", &key);
	xact_wait_applied(request_order_alone(&query));
}

bool
sequence_setval(Oid relid, int64 value, bool called)
{
	SessionSequence *s;
	Relation	rel = open_sequence(relid, &s);
	SeqPosition position = {value, called};

	if (sequence_goes_on(rel))
		sequence_note_restart(relid);
	if (!is_replicated(rel))
	{
		s->valid = false;
		relation_close(rel, NoLock);
		return false;
	}
	check_permission(rel, ACL_UPDATE);
	hostchoice_forget();
	PreventCommandIfReadOnly("setval()");
	PreventCommandIfParallelMode("setval()");
	check_bounds(rel, value);
	if (CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot set sequence \"%s\" in the transaction that has locked or altered it",
						RelationGetRelationName(rel)),
				 errdetail("setval takes effect at once on all nodes, whatever becomes of the transaction."),
				 errhint("Use ALTER SEQUENCE ... RESTART, or commit first.")));
	order_setval(rel, position);
	if (called)
	{
		s->last = value;
		s->valid = true;
	}
	s->cached = s->last;
	relation_close(rel, NoLock);
	return true;
}
