/*
 * directplan.h
 *	  What applydirect.c needs of a plan to carry it out without the executor.
 */
#ifndef LOCKSTEP_DIRECTPLAN_H
#define LOCKSTEP_DIRECTPLAN_H

#include "access/stratnum.h"
#include "fmgr.h"
#include "nodes/nodes.h"
#include "utils/plancache.h"

#define MAX_CAST_ARGS 3
#define MAX_KEYS 8

/* A value of the row or a constant, perhaps cast. */
typedef struct DirectValue
{
	int			param;			/* from 1 on, of the query's parameters, or of
								 * their elements; 0: it is a constant */
	Datum		constant;
	bool		null;
	int			ncastargs;		/* of the cast, this one included; 0: none */
	Oid			collation;
	FmgrInfo	cast;
	Datum		castargs[MAX_CAST_ARGS];
} DirectValue;

typedef struct DirectColumn
{
	AttrNumber	attno;
	DirectValue value;
} DirectColumn;

typedef struct DirectKey
{
	AttrNumber	attno;			/* of the index */
	StrategyNumber strategy;
	Oid			subtype;
	Oid			collation;
	RegProcedure function;
	DirectValue value;
} DirectKey;

typedef struct DirectPlan
{
	int			generation;		/* of the plan that this is made of */
	bool		possible;
	CmdType		operation;
	bool		for_good;		/* of a DELETE: deparse_delete() */
	int			nparams;
	Oid			relid;
	Oid			indexid;		/* that finds the row; not for INSERT */
	int			nimage;			/* or else its columns do: these */
	DirectColumn *image;
	int			narrays;		/* the parameters are that many arrays, with
								 * an element of each for a row; 0: it is one
								 * row */
	int			nkeys;
	DirectKey	keys[MAX_KEYS];
	int			ncolumns;
	DirectColumn columns[FLEXIBLE_ARRAY_MEMBER];	/* image stands behind
													 * them */
} DirectPlan;

/* Made in context, of a plan of that text with nparams parameters; possible says whether there is a way. */
extern DirectPlan *directplan_make(const CachedPlan *plan, const char *text, int nparams, MemoryContext context);

#endif							/* LOCKSTEP_DIRECTPLAN_H */
