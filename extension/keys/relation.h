/*
 * relation.h
 *	  What capture knows of a replicated relation.  Private to relation.c,
 *	  relkeys.c, keyset.c, deparse*.c, repertoire.c, exacttext.c and capture.c.
 *
 * An LsRelation is built once per backend and rebuilt after an invalidation;
 * all it points to lives in its own memory context.  Between two lookups
 * (relation_get) it doesn't move, whatever is invalidated.
 */
#ifndef LOCKSTEP_RELATION_H
#define LOCKSTEP_RELATION_H

#include "access/tupdesc.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

#include "keyhash.h"
#include "lockstep.h"

/* Settings that a value's text depends on. */
#define LS_NEEDS_LC_MONETARY	0x01
#define LS_NEEDS_SEARCH_PATH	0x02
#define LS_NEEDS_STYLES			0x04	/* plain variables: deparse_enter() */

/* A set of columns: bit attnum - 1. */
typedef struct LsColumnSet
{
	int			nwords;
	uint64	   *words;
} LsColumnSet;

typedef struct LsExactText LsExactText;

typedef struct LsColumn
{
	bool		live;			/* not dropped, and stored */
	bool		generated;		/* never given a value: computed on each node */
	bool		computed;		/* generated, but its value travels */
	bool		domain;			/* is declared with a domain */
	bool		always_identity;	/* INSERT may give it a value, UPDATE not */
	bool		byval;
	bool		cheap;			/* rows with another value are sorted out by = */
	int16		len;
	char	   *name;			/* quoted */
	char	   *type;			/* qualified, without modifier */
	char		delimiter;		/* in an array of such values that unnest()
								 * makes values of; 0: there is none */
	bool		ascii;			/* its text has no other characters */
	bool		hides_texts;	/* see repertoire.h */
	LsExactText *exact_text;	/* see exacttext.h; NULL: it is */
	bool		binary;			/* from now on, as a text was not exact */
	FmgrInfo	output;
} LsColumn;

typedef struct LsIndexColumn
{
	AttrNumber	attnum;			/* 0: the next expression */
	bool		counts;			/* its value is part of the key; else
								 * (exclusion by another operator) only its
								 * NULL matters */
	LsHasher	hasher;
} LsIndexColumn;

/* A unique index or an exclusion constraint. */
typedef struct LsIndex
{
	uint64		seed;
	LsSlice		name;			/* for people; NUL-terminated */
	bool		nulls_distinct;
	bool		by_text;		/* a value is hashed by its text */
	int			ncolumns;
	LsIndexColumn *columns;
	List	   *expressions;	/* of the columns with attnum 0, in order */
	List	   *predicate;		/* implicitly ANDed */
	LsColumnSet depends_on;		/* columns, those in expressions included */
	/* executable forms; see keyset.c */
	uint64		prepared_epoch;
	List	   *expression_states;
	ExprState  *predicate_state;
} LsIndex;

/* A table key: of the relation, an ancestor, a foreign key's parent. */
typedef struct LsTable
{
	uint64		hash;
	char	   *name;			/* for people */
} LsTable;

typedef struct LsForeignKey
{
	LsTable		parent;
	bool		hashable;		/* else the parent as a whole */
	uint64		seed;			/* of the parent's index */
	LsSlice		name;			/* for people */
	int			ncolumns;
	AttrNumber *attnums;		/* in the order of the parent's index */
	LsHasher   *hashers;
	LsColumnSet columns;
	/* the key made last in this batch, so that a run says it once */
	uint64		last_batch;
	uint64		last_hash;
} LsForeignKey;

typedef struct LsIdentityColumn
{
	AttrNumber	attnum;
	char	   *equals;			/* OPERATOR(schema.=) */
	char	   *collate;		/* " COLLATE schema.name" of the index, or "" */
} LsIdentityColumn;

typedef struct LsUpdateText
{
	struct LsUpdateText *next;
	uint64	   *changed;
	char	   *text;
} LsUpdateText;

#define KEY_COLUMNS 2			/* more are taken out of the row with all
								 * others */

typedef struct LsRelation
{
	Oid			relid;			/* hash key, with beside */
	uint32		beside;			/* 1: made while the other one was in use */
	int			users;			/* see relation_hold() */
	bool		valid;
	uint64		build;			/* differs after every rebuild */
	MemoryContext context;
	char	   *name;			/* qualified and quoted */
	TupleDesc	desc;
	int			natts;
	int			nwords;			/* of an LsColumnSet */
	LsColumn   *columns;
	int			nsettable;		/* live and not generated */
	bool		has_generated;
	bool		has_computed;	/* then all generated columns are */
	bool		has_domain;
	bool		has_virtual;	/* columns that are computed when read (18) */
	LsColumnSet generated_from; /* what generated columns are computed from */
	bool		has_replica_trigger;	/* would act in an apply session */
	int			needs;			/* LS_NEEDS_... */
	bool		computes;		/* users' functions run where its rows are
								 * applied, and may fail there */
	bool		reads_settings; /* expressions of indexes may depend on them */
	bool		copy_checks;	/* COPY evaluates checks of domains in values */
	bool		folds;			/* a part of an index's expression, too, which
								 * is evaluated once */
	bool		unproven;		/* a unique index of it isn't valid yet */
	bool		judged;			/* what follows is known: certainrows.c */
	bool		certain;		/* no node can refuse a small row of it */
	bool		has_nested;
	LsColumnSet indexed;		/* columns in any index, if it is certain */
	LsColumnSet nested;			/* columns of jsonb, if it is certain */

	/* identity: none if nidentity is 0, then the image of the row */
	int			nidentity;
	LsIdentityColumn *identity;
	LsIndex    *identity_index;
	int			nkey_columns;	/* 0: all columns are needed of a deleted row */
	AttrNumber	key_columns[KEY_COLUMNS];	/* else these */
	bool		batches;		/* an array can be made of each of its columns */

	int			nindexes;
	LsIndex    *indexes;
	bool		hashable;		/* else the table as a whole */
	int			nforeign_keys;
	LsForeignKey *foreign_keys;
	int			ntables;		/* the relation and its partition ancestors */
	LsTable    *tables;
	uint64		image_seed;
	LsSlice		image_name;		/* for people */

	/* where invalidations come from, besides relid */
	int			nrelids;
	Oid		   *relids;			/* ancestors, parents, their indexes */
	int			ntypes;
	uint32	   *types;			/* hash values in the TYPEOID syscache */

	/* texts, made when first needed (deparse.c) */
	char	   *insert_text;
	char	   *copy_text;
	LsSlice		delete_texts[2];	/* one that says that it is for good */
	LsUpdateText *update_texts;
	int			nupdate_texts;

	/* state of keyset.c in the current transaction */
	uint64		tables_epoch;	/* table keys were forwarded in this epoch */
	uint64		whole_epoch;	/* ... X instead of row keys */
	uint64		parents_epoch;	/* ... S on the parents instead of row keys */
	uint64		rows_xact;
	uint64		rows;			/* with keys, in transaction rows_xact */
	bool		old_identity_known; /* of the old row that keyset_add was
									 * given last ... */
	uint64		old_identity;	/* ... the hash */

	/* values that travel in binary (exacttext.h) */
	bool		may_be_inexact; /* some might */
	bool		in_binary;		/* a column does */
	bool		renew;			/* that is new: the texts don't say so yet */
	bool		in_texts;		/* not now */

	/* scratch for one row */
	Datum	   *old_values;
	bool	   *old_nulls;
	LsColumnSet changed;
	LsColumnSet assigned;		/* what the UPDATE will name */
	TupleTableSlot *slot;		/* virtual: holds no pin */
} LsRelation;

/* The relation's entry, built if need be.  In a transaction. */
extern LsRelation *relation_get(Relation rel);

/* Has a relation with storage rows that this transaction sees now?  An AccessShareLock on it stays. */
extern bool relation_has_rows(Oid relid);

/* Until it is let go, as often as it was held, the entry stays what it is, though it may be out of date. */
static inline void
relation_hold(LsRelation *r)
{
	r->users++;
}

static inline void
relation_let_go(LsRelation *r)
{
	r->users--;
}

/* For relkeys.c: where else invalidations come from; an empty set; a table. */
extern void relation_add_relid(LsRelation *r, Oid relid);
extern void relation_init_columns(const LsRelation *r, LsColumnSet *set);
extern void relation_init_table(LsTable *table, Oid relid);

/* In relkeys.c. */
extern void relation_build_indexes(LsRelation *r, Relation rel);
extern void relation_build_foreign_keys(LsRelation *r, Relation rel);

static inline LsSlice
make_slice(const void *data, size_t len)
{
	LsSlice		slice;

	slice.data = data;
	slice.len = len;
	return slice;
}

/* Is it given values? */
static inline bool
column_is_settable(const LsColumn *column)
{
	return column->live && !column->generated;
}

static inline bool
column_set_has(const LsColumnSet *set, AttrNumber attnum)
{
	return (set->words[(attnum - 1) / 64] >> ((attnum - 1) % 64)) & 1;
}

static inline void
column_set_add(LsColumnSet *set, AttrNumber attnum)
{
	set->words[(attnum - 1) / 64] |= UINT64CONST(1) << ((attnum - 1) % 64);
}

static inline bool
column_sets_overlap(const LsColumnSet *a, const LsColumnSet *b)
{
	int			i;

	for (i = 0; i < a->nwords; i++)
	{
		if (a->words[i] & b->words[i])
			return true;
	}
	return false;
}

extern bool relation_is_replicated(Relation rel);
extern void relation_on_relcache_invalidation(Datum arg, Oid relid);
extern void relation_on_type_invalidation(Datum arg, int cacheid, uint32 hashvalue);
extern void relation_on_name_invalidation(Datum arg, int cacheid, uint32 hashvalue);
extern bool relation_some_read_settings(void);
extern void relation_evaluate_anew(Relation rel);

#endif							/* LOCKSTEP_RELATION_H */
