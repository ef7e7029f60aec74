/*
 * applybatch.c
 *	  Several changed rows applied in one call.
 *
 * A changed row is a query of its own.  The messages for each query cost the
 * replicator more than anything else it does with it, and this server a tenth of what changing the
 * row costs.  The replicator therefore packs consecutive ones into one argument of
 * lockstep.apply_transaction() (LsRow in protocol.h).  They are executed through SPI, with plans
 * that this session keeps.
 *
 * Plans are found by the text of the query.  DDL may change the types of a plan's parameters or
 * the meaning of its names.  The replicator knows when DDL comes in between, and sends
 * DEALLOCATE ALL, as it does for its own prepared statements.
 *
 * applyrow.c treats these queries like the replicator's own: apply_batched_query() names
 * the one that is being parsed, planned or executed.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "parser/analyze.h"
#include "parser/parsetree.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"

#include "apply.h"
#include "guc.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "rights.h"
#include "statementtext.h"
#include "unlogged.h"

#define PLANS_MAX 1000

typedef struct RowPlan
{
	uint64		hash;			/* of the text: the key */
	char	   *text;			/* as it came, without NUL */
	Size		len;
	SPIPlanPtr	plan;			/* NULL: it could not be made; last to be set */
	struct DirectPlan *direct;	/* NULL: not looked at yet */
	const char *source;			/* what its queries say that they are */
	Oid			target;			/* the table that it changes */
	bool		unlogged;
	int			nparams;
	FmgrInfo   *input;			/* of each parameter's type */
	Oid		   *ioparams;
} RowPlan;

static MemoryContext plans_context = NULL;
static HTAB *plans = NULL;

static const char *own_query = NULL;

const char *
apply_batched_query(void)
{
	return own_query;
}

/* ---------- plans */

void
apply_forget_plans(void)
{
	HASH_SEQ_STATUS all;
	RowPlan    *p;

	if (plans == NULL)
		return;
	hash_seq_init(&all, plans);
	while ((p = hash_seq_search(&all)) != NULL)
	{
		if (p->plan != NULL)
			(void) SPI_freeplan(p->plan);
		p->plan = NULL;
	}
	plans = NULL;
	MemoryContextReset(plans_context);
}

static void
make_table(void)
{
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(RowPlan)};

	if (plans_context == NULL)
		plans_context = AllocSetContextCreate(TopMemoryContext, "lockstep row plans", ALLOCSET_DEFAULT_SIZES);
	control.hcxt = plans_context;
	plans = hash_create("lockstep row plans", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * The plan of a change of rows, which is kept: the table is small when the plan is
 * made, or has not been looked at by ANALYZE, and may have grown, or have many dead rows, when it is
 * used.  So rows are not looked for in all of a table that has an index for them, nor is all of it joined.
 */
PlannedStmt *
applybatch_plan(planner_hook_type next, Query *query, const char *source, int options, ParamListInfo params LS_EXPLAIN_PARAM)
{
	bool	   *const ways[] = {&enable_seqscan, &enable_hashjoin, &enable_mergejoin};
	bool		were[lengthof(ways)];
	PlannedStmt *result;

	if (own_query == NULL || query->resultRelation == 0)
		return next(query, source, options, params LS_EXPLAIN_ARG);
	for (int i = 0; i < (int) lengthof(ways); i++)
	{
		were[i] = *ways[i];
		*ways[i] = false;
	}
	PG_TRY();
	{
		result = next(query, source, options, params LS_EXPLAIN_ARG);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < (int) lengthof(ways); i++)
			*ways[i] = were[i];
	}
	PG_END_TRY();
	return result;
}

/* The types of its parameters, as the replicator's PREPARE would infer them. */
static Oid *
infer_types(const char *query, int *n, Oid *target)
{
	RawStmt    *raw = makeNode(RawStmt);
	Oid		   *types = NULL;
	Query	   *analyzed = NULL;

	*n = 0;
	raw->stmt = statementtext_parse(query);
	if (raw->stmt != NULL)
		analyzed = parse_analyze_varparams(raw, query, &types, n, NULL);
	if (analyzed == NULL || analyzed->resultRelation == 0 || analyzed->returningList != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a change of a row: %s", query)));
	*target = rt_fetch(analyzed->resultRelation, analyzed->rtable)->relid;
	return types;
}

static void
find_input_functions(RowPlan *p, const Oid *types, int n)
{
	p->nparams = n;
	p->input = MemoryContextAlloc(plans_context, Max(n, 1) * sizeof(FmgrInfo));
	p->ioparams = MemoryContextAlloc(plans_context, Max(n, 1) * sizeof(Oid));
	for (int i = 0; i < n; i++)
	{
		Oid			input;

		getTypeInputInfo(types[i], &input, &p->ioparams[i]);
		fmgr_info_cxt(input, &p->input[i], plans_context);
	}
}

static void
make_plan(RowPlan *p, LsSlice text)
{
	char	   *query = pnstrdup((const char *) text.data, text.len);
	Oid		   *types;
	int			n;
	SPIPlanPtr	plan;

	(void) pg_verifymbstr(query, (int) text.len, false);
	own_query = query;
	types = infer_types(query, &n, &p->target);
	p->unlogged = get_rel_persistence(p->target) == RELPERSISTENCE_UNLOGGED;
	plan = SPI_prepare(query, n, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	find_input_functions(p, types, n);
	p->text = MemoryContextAlloc(plans_context, Max(text.len, 1));
	memcpy(p->text, text.data, text.len);
	p->len = text.len;
	p->source = ((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan)))->query_string;
	SPI_keepplan(plan);
	p->plan = plan;
}

static RowPlan *
find_plan(LsSlice text)
{
	uint64		hash = DatumGetUInt64(hash_any_extended(text.data, (int) text.len, 0));
	RowPlan    *p = plans != NULL ? hash_search(plans, &hash, HASH_FIND, NULL) : NULL;
	bool		found;

	if (p != NULL && p->plan != NULL && p->len == text.len && memcmp(p->text, text.data, text.len) == 0)
		return p;

	/* another one of the same hash; it will hardly ever happen */
	if (plans != NULL && ((p != NULL && p->plan != NULL) || hash_get_num_entries(plans) >= PLANS_MAX))
		apply_forget_plans();
	if (plans == NULL)
		make_table();
	p = hash_search(plans, &hash, HASH_ENTER, &found);
	p->plan = NULL;
	p->direct = NULL;
	make_plan(p, text);
	return p;
}

/* ---------- one row */

/* Values of the parameters, read as those of a prepared statement are. */
static void
read_params(const RowPlan *p, LsSlice params, Datum *values, char *nulls)
{
	LsSlice		param;
	int			i = 0;

	rights_read_params(true);
	for (; i < p->nparams && ls_next_param(&params, &param); i++)
	{
		char	   *text = NULL;

		if (param.data != NULL)
		{
			(void) pg_verifymbstr((const char *) param.data, (int) param.len, false);
			text = pnstrdup((const char *) param.data, param.len);
		}
		nulls[i] = text == NULL ? 'n' : ' ';
		values[i] = InputFunctionCall((FmgrInfo *) &p->input[i], text, p->ioparams[i], -1);
	}
	rights_read_params(false);
	if (i < p->nparams || params.len > 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a changed row has another number of parameters than its query")));
}

static void
change_row(RowPlan *p, const LsRow *row)
{
	Datum	   *values = palloc(Max(p->nparams, 1) * sizeof(Datum));
	char	   *nulls = palloc(Max(p->nparams, 1));
	uint64		changed;
	bool		all;
	int			result;

	if (unlikely(p->unlogged ? unlogged_is_skipped(p->target) : unlogged_is_refilled_elsewhere(p->target)))
		return;
	read_params(p, row->params, values, nulls);
	own_query = p->source;
	changed = applydirect_change(&p->direct, p->plan, p->nparams, values, nulls, plans_context, &all);
	if (!all)
	{
		result = SPI_execute_plan(p->plan, values, nulls, false, 0);
		if (result < 0)
			elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
		changed += SPI_processed;
	}
	if (row->rows >= 0 && (uint64) row->rows != changed)
		ereport(ERROR,
				(errcode(LS_ERRCODE_OTHER_ROWS),
				 errmsg("a query changed %llu rows on node \"%s\", %lld at its origin",
						(unsigned long long) changed, ls_node_name, (long long) row->rows),
				 errdetail("The nodes differ, or the query depends on something that is not replicated.")));
}

/* ---------- all of them */

static void
change_rows(LsSlice rows)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "lockstep row", ALLOCSET_DEFAULT_SIZES);
	RowPlan    *plan = NULL;
	LsRow		row = {{0}};
	int			done = 0;

	while (rows.len > 0)
	{
		LsSlice		before = row.text;

		CHECK_FOR_INTERRUPTS();
		lockconflict_note_row(done++);
		if (!ls_next_row(&rows, &row))
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("the list of changed rows is malformed")));
		MemoryContextSwitchTo(context); /* SPI goes back to its own */
		if (plan == NULL || row.text.data != before.data)
			plan = find_plan(row.text);
		change_row(plan, &row);
		MemoryContextReset(context);
	}
}

static void
change_all(LsSlice rows, const LsRow *row)
{
	SPI_connect();
	PG_TRY();
	{
		if (row != NULL)
			change_row(find_plan(row->text), row);
		else
			change_rows(rows);
	}
	PG_FINALLY();
	{
		own_query = NULL;
		rights_read_params(false);
		lockconflict_note_row(0);
	}
	PG_END_TRY();
	SPI_finish();
}

void
apply_rows(LsSlice rows)
{
	change_all(rows, NULL);
}

void
apply_row(const LsRow *row)
{
	LsSlice		none = {0};

	change_all(none, row);
}
