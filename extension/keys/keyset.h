/*
 * keyset.h
 *	  Keys of changed rows.  For the files that make keys.
 */
#ifndef LOCKSTEP_KEYSET_H
#define LOCKSTEP_KEYSET_H

#include "relation.h"

typedef struct LsKeyBuffer
{
	StringInfoData packed;
	uint32		nkeys;
	uint64		batch;			/* see keyset_begin */
} LsKeyBuffer;

/* One row before and after: NULL where there is none. */
typedef struct LsRowChange
{
	LsRelation *relation;
	Datum	   *old_values;
	bool	   *old_nulls;
	Datum	   *new_values;
	bool	   *new_nulls;
	const LsColumnSet *changed; /* of an update */
	/* packed images, needed when the relation has no identity */
	LsSlice		old_image;
	LsSlice		new_image;
} LsRowChange;

/* Start a query's keys; those of another one, behind what is there. */
extern void keyset_begin(LsKeyBuffer *keys);
extern void keyset_begin_next(LsKeyBuffer *keys);

/* Append the keys of one change; S is the turn passed now. */
extern void keyset_add(LsKeyBuffer *keys, const LsRowChange *change);

/*
 * The same of a row that was locked, first those of its table, which the transaction has from
 * then on; true: the row has a key of its own.  mode is a row's.
 */
extern bool keyset_add_locked_table(LsKeyBuffer *keys, LsRelation *r, LsKeyMode mode);
extern void keyset_add_locked_row(LsKeyBuffer *keys, LsRelation *r, Datum *values, bool *nulls,
								  LsKeyMode mode);

/* Hash of a row's identity, as in its keys; only those columns are looked at. */
extern bool keyset_identity_hash(LsRelation *r, Datum *values, bool *nulls, uint64 *hash);

extern const LsTable *keyset_database(void);

/*
 * Keys of a change of a large object, made before it changes: their number.
 * Only those that the transaction has not forwarded yet, so it has to forward
 * them now.
 */
extern int	keyset_large_object(Oid oid, LsKey keys[2]);
extern LsKey keyset_large_object_key(Oid oid);

/* A table's key, the database's key (palloc'ed name).  Names as in the
 * catalogs, not quoted; seen is turn_applied() now. */
extern LsKey keyset_table_key(const char *schema, const char *table, LsKeyMode mode);
extern LsKey keyset_relation_key(Relation rel, LsKeyMode mode);
extern LsKey keyset_database_key(LsKeyMode mode);

/* What names mean: changed by each command that changes catalogs, read by a statement that travels as its text. */
extern LsKey keyset_names_key(LsKeyMode mode);

extern void keyset_at_xact_end(void);
extern void keyset_at_subxact_abort(int nest_level);

#endif							/* LOCKSTEP_KEYSET_H */
