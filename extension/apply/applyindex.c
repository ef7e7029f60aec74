/*
 * applyindex.c
 *	  In an apply session: one step of another node's CREATE INDEX or DROP INDEX
 *	  CONCURRENTLY.
 *
 * ddlconcurrent.c explains the steps, why each is a transaction, and why the result is
 * exact.  Each step has the effect on the catalogs that the transaction at the origin had,
 * by PostgreSQL's own functions, after the waits that PostgreSQL does there.  Long work is part of executing
 * the step, before the step is decided; no lock is held that conflicts with readers or
 * writers of the table.
 *
 *		 enter		an entry in the catalogs: not ready, not valid
 *		 ready		wait for writers; build from what is visible; rows go into it
 *		 valid		wait for writers; add what is missing; queries may use it
 *		 invalid	no query uses it any more
 *		 dead		wait for all who use the table; no row goes into it
 *		 gone		wait again; drop
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_utilcmd.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/backend_progress.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "apply.h"
#include "compat.h"
#include LS_CLUSTER_HEADER
#include "lockstep.h"
#include "rights.h"
#include "statementtext.h"

LS_FUNCTION(lockstep_apply_index);

/* ---------- the steps */

static void
report_phase(int64 phase)
{
	pgstat_progress_update_param(PROGRESS_CREATEIDX_PHASE, phase);
}

static IndexStmt *
parse_index(const char *definition)
{
	IndexStmt  *stmt = (IndexStmt *) statementtext_parse(definition);

	if (stmt == NULL || !IsA(stmt, IndexStmt))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a CREATE INDEX command: %s", definition)));
	stmt->idxname = NULL;
	stmt->reset_default_tblspc = true;	/* the definition says where */
	return stmt;
}

/*
 * What the definition means is found out by running it, on an empty table of the
 * same columns: run on the table itself it would lock out writers.  That index
 * is the model for the entry, as the old index is in REINDEX CONCURRENTLY.
 */
static void
enter(Oid table, const char *name, const char *definition)
{
	Relation	rel = table_open(table, ShareUpdateExclusiveLock);
	Oid			copy = make_new_heap(table, rel->rd_rel->reltablespace, rel->rd_rel->relam,
									 rel->rd_rel->relpersistence, ShareUpdateExclusiveLock);
	ObjectAddress copy_address;
	ObjectAddress model;

	model = ls_define_index(copy, transformIndexStmt(copy, parse_index(definition), definition));
	CommandCounterIncrement();
	(void) ls_copy_index(rel, model.objectId, get_rel_tablespace(model.objectId), name);
	CommandCounterIncrement();
	ObjectAddressSet(copy_address, RelationRelationId, copy);
	performDeletion(&copy_address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	table_close(rel, NoLock);
}

/* A try that was rolled back has left its pages in the file. */
static void
empty_file(Oid index)
{
	Relation	rel = index_open(index, ShareUpdateExclusiveLock);

	ls_set_new_file(rel);
	index_close(rel, NoLock);
	CommandCounterIncrement();
}

static void
make_ready(Oid table, Oid index)
{
	report_phase(PROGRESS_CREATEIDX_PHASE_WAIT_1);
	applywait_lockers(table, ShareLock);
	empty_file(index);
	PushActiveSnapshot(GetTransactionSnapshot());
	index_concurrently_build(table, index);
	PopActiveSnapshot();
}

/*
 * PostgreSQL now waits for every older snapshot, as rows may be missing in the
 * index that have been deleted since.  Instead, such a transaction is told not
 * to use it.
 */
static void
hide_from_older(Oid index)
{
	Relation	catalog = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(index));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	((Form_pg_index) GETSTRUCT(tuple))->indcheckxmin = true;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
}

static void
make_valid(Oid table, Oid index)
{
	Snapshot	snapshot;

	report_phase(PROGRESS_CREATEIDX_PHASE_WAIT_2);
	applywait_lockers(table, ShareLock);
	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	PushActiveSnapshot(snapshot);
	validate_index(table, index, snapshot);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	index_set_state_flags(index, INDEX_CREATE_SET_VALID);
	CommandCounterIncrement();
	hide_from_older(index);
	CacheInvalidateRelcacheByRelid(table);
}

static void
make_invalid(Oid table, Oid index)
{
	index_set_state_flags(index, INDEX_DROP_CLEAR_VALID);
	CacheInvalidateRelcacheByRelid(table);
}

static void
make_dead(Oid table, Oid index)
{
	applywait_lockers(table, AccessExclusiveLock);
	index_concurrently_set_dead(table, index);
}

static void
drop(Oid table, Oid index)
{
	ObjectAddress address;

	applywait_lockers(table, AccessExclusiveLock);
	ObjectAddressSet(address, RelationRelationId, index);
	performDeletion(&address, DROP_RESTRICT,
					PERFORM_DELETION_INTERNAL | PERFORM_DELETION_CONCURRENT_LOCK);
}

static const struct
{
	const char *name;
	void		(*run) (Oid table, Oid index);
	bool		live,
				ready,
				valid;			/* what the index has to be before */
	bool		any;			/* never mind */
}			steps[] = {
	{"ready", make_ready, true, false, false, false},
	{"valid", make_valid, true, true, false, false},
	{"invalid", make_invalid, false, false, false, true},
	{"dead", make_dead, false, false, false, true},
	{"gone", drop, false, false, false, false},
};

/* Every node has passed through the same steps. */
static void
check_state(int step, Oid index, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		as_expected;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	form = (Form_pg_index) GETSTRUCT(tuple);
	as_expected = steps[step].any ||
		(form->indislive == steps[step].live && form->indisready == steps[step].ready &&
		 form->indisvalid == steps[step].valid);
	ReleaseSysCache(tuple);
	if (!as_expected)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not in the state that step \"%s\" follows", name, steps[step].name)));
}

static void
run_step(const char *name, Oid table, const char *index_name)
{
	Oid			index = get_relname_relid(index_name, get_rel_namespace(table));

	if (!OidIsValid(index) || IndexGetRelation(index, true) != table)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index \"%s\" of table \"%s\" does not exist", index_name, get_rel_name(table))));
	for (int i = 0; i < lengthof(steps); i++)
	{
		if (strcmp(steps[i].name, name) != 0)
			continue;
		check_state(i, index, index_name);
		pgstat_progress_update_param(PROGRESS_CREATEIDX_INDEX_OID, index);
		steps[i].run(table, index);
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown step \"%s\"", name)));
}

/* (step, schema, table, index, definition): the definition of what is entered. */
Datum
lockstep_apply_index(PG_FUNCTION_ARGS)
{
	char	   *step = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *index = text_to_cstring(PG_GETARG_TEXT_PP(3));
	RangeVar   *name = makeRangeVar(text_to_cstring(PG_GETARG_TEXT_PP(1)),
									text_to_cstring(PG_GETARG_TEXT_PP(2)), -1);
	LsRights	saved;
	Oid			table;

	apply_check_call("apply_index");
	table = RangeVarGetRelid(name, ShareUpdateExclusiveLock, false);
	rights_lower(rights_owner_of(table), true, &saved);
	pgstat_progress_start_command(PROGRESS_COMMAND_CREATE_INDEX, table);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_COMMAND,
								 PROGRESS_CREATEIDX_COMMAND_CREATE_CONCURRENTLY);
	if (strcmp(step, "enter") == 0)
		enter(table, index, text_to_cstring(PG_GETARG_TEXT_PP(4)));
	else
		run_step(step, table, index);
	pgstat_progress_end_command();
	rights_restore(&saved);
	PG_RETURN_VOID();
}
