/*
 * batch.c
 *	  Updates and deletes of many rows of one table as one query.
 *
 * Starting and ending a statement costs another node more than changing a row.  So a run of
 * changes of one table is collected here; those with the same text, if there are enough of
 * them, are forwarded as one query whose parameters are arrays, one per column:
 *
 *  UPDATE ONLY t AS x SET v = u.c1
 *  FROM ROWS FROM (unnest($1::text[]), unnest($2::int4[])) AS u(c1, c2)
 *  WHERE x.id = u.c2
 *
 * Its rows are changed in any order.  That makes no difference as long as each row occurs
 * once, no unique or excluded value moves from one row to another, and only the row itself is
 * read.  So a run consists of rows of one relation, found by an identity, each of them
 * once; an update that changes a column of a unique index or an exclusion constraint
 * travels alone.  Rows of a run with another text (other columns changed) may be
 * forwarded separately for the same reason.
 *
 * The number of rows is checked: the identity is unique, so it is the length of the arrays.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "batch.h"
#include "deparse.h"
#include "lockstep.h"
#include "pack.h"
#include "relation.h"
#include "xact.h"

#define MIN_ROWS 8				/* fewer are cheaper one by one: their text is
								 * prepared already */
#define MAX_ROWS 512
#define MAX_GROUPS 16
#define NSLOTS (2 * MAX_ROWS)	/* a power of two */
#define DATA_LIMIT (64 * 1024)	/* a run ends when it has more */
#define KEYS_LIMIT (256 * 1024)
#define BUFFER_KEPT (1024 * 1024)

typedef struct BatchRow
{
	int			group;
	int			params_end;		/* in the run's params */
	int			keys_end;
	uint32		nkeys;
	uint64		identity;
	int			slot;			/* where it is found by it */
} BatchRow;

/* Rows with the same text.  Texts are copies: the relation's entry may be rebuilt. */
typedef struct RowGroup
{
	int			nrows;
	uint32		nparams;		/* of a row */
	const uint8 *deletes;		/* the text of a DELETE was there */
	StringInfoData text;		/* for one row */
	StringInfoData many_text;	/* made with row MIN_ROWS, or by an earlier
								 * run for the same text of the same entry */
	StringInfoData delimiters;
	StringInfoData made_for;
	uint64		made_build;
} RowGroup;

/* What is pending. */
typedef struct Run
{
	int			nrows;			/* 0: none */
	int			ngroups;
	Oid			relid;
	uint64		build;			/* of the relation's entry */
	StringInfoData settings;
	StringInfoData params;
	LsKeyBuffer keys;			/* nkeys is of the row being made */
	RowGroup	groups[MAX_GROUPS];
	BatchRow	rows[MAX_ROWS];
	uint16		slots[NSLOTS];	/* counts only if its row says so, too */
} Run;

static MemoryContext context = NULL;
static MemoryContext scratch = NULL;
static Run	run;

static void
make_buffers(void)
{
	MemoryContext old;
	int			i;

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "lockstep batch", ALLOCSET_DEFAULT_SIZES);
	scratch = AllocSetContextCreate(context, "lockstep batch arrays", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	initStringInfo(&run.settings);
	initStringInfo(&run.params);
	initStringInfo(&run.keys.packed);
	for (i = 0; i < MAX_GROUPS; i++)
	{
		initStringInfo(&run.groups[i].text);
		initStringInfo(&run.groups[i].many_text);
		initStringInfo(&run.groups[i].delimiters);
		initStringInfo(&run.groups[i].made_for);
	}
	MemoryContextSwitchTo(old);
}

/* With nothing pending: give large buffers back. */
static void
trim_buffers(void)
{
	if (run.params.maxlen <= BUFFER_KEPT && run.keys.packed.maxlen <= BUFFER_KEPT)
		return;
	MemoryContextReset(context);
	scratch = NULL;
}

/* ---------- which rows are in it */

/* The slot of that row if it is there, else the free one for it. */
static int
find_slot(uint64 identity, bool *found)
{
	int			slot = (int) (identity & (NSLOTS - 1));

	for (;; slot = (slot + 1) & (NSLOTS - 1))
	{
		const BatchRow *row = &run.rows[Min(run.slots[slot], MAX_ROWS - 1)];

		*found = false;
		if (run.slots[slot] >= run.nrows || row->slot != slot)
			return slot;
		*found = row->identity == identity;
		if (*found)
			return slot;
	}
}

/* ---------- forwarding */

static void
forward(LsQuery *query)
{
	query->form = LS_FORM_ROW;
	query->reason = LS_REASON_ROW_CHANGED;
	xact_forward(query);
}

/* Where row i begins; that of the number of rows is being made. */
static int
params_start(int i)
{
	return i > 0 ? run.rows[i - 1].params_end : 0;
}

static int
keys_start(int i)
{
	return i > 0 ? run.rows[i - 1].keys_end : 0;
}

static LsSlice
params_of(int i)
{
	return make_slice(run.params.data + params_start(i), run.rows[i].params_end - params_start(i));
}

static LsSlice
keys_of(int i)
{
	return make_slice(run.keys.packed.data + keys_start(i), run.rows[i].keys_end - keys_start(i));
}

static void
forward_one(const RowGroup *group, int i)
{
	LsQuery		query = {.rows = 1};

	query.text = ls_slice_of_buffer(&group->text);
	query.settings = ls_slice_of_buffer(&run.settings);
	query.nparams = group->nparams;
	query.params = params_of(i);
	query.nkeys = run.rows[i].nkeys;
	query.keys = keys_of(i);
	forward(&query);
}

static void
append_element(StringInfo array, char delimiter, const LsSlice *value)
{
	size_t		i;

	enlargeStringInfo(array, (int) Min(2 * value->len + 3, MaxAllocSize));
	array->data[array->len] = array->len == 0 ? '{' : delimiter;
	array->len++;
	if (value->data == NULL)
	{
		appendStringInfoString(array, "NULL");
		return;
	}
	array->data[array->len++] = '"';
	for (i = 0; i < value->len; i++)
	{
		char		c = (char) value->data[i];

		if (c == '"' || c == '\\')
			array->data[array->len++] = '\\';
		array->data[array->len++] = c;
	}
	array->data[array->len++] = '"';
	array->data[array->len] = '\0';
}

static void
append_row(StringInfoData *arrays, const RowGroup *group, int i)
{
	LsSlice		rest = params_of(i);
	LsSlice		value;

	for (int column = 0; ls_next_param(&rest, &value); column++)
		append_element(&arrays[column], group->delimiters.data[column], &value);
}

/* Of the rows of a group, n being those of the run: they follow each other if all are in it. */
static LsSlice
keys_of_group(const RowGroup *group, int g, int n)
{
	StringInfoData keys;

	if (group->nrows == n)
		return make_slice(run.keys.packed.data, keys_start(n));
	initStringInfo(&keys);
	for (int i = 0; i < n; i++)
	{
		LsSlice		of_row = keys_of(i);

		if (run.rows[i].group == g)
			appendBinaryStringInfo(&keys, (const char *) of_row.data, (int) of_row.len);
	}
	return ls_slice_of_buffer(&keys);
}

/* n: the rows of the run. */
static void
forward_many(const RowGroup *group, int g, int n)
{
	LsQuery		query = {.rows = group->nrows,.nparams = group->nparams};
	MemoryContext old = MemoryContextSwitchTo(scratch);
	StringInfoData *arrays = palloc(group->nparams * sizeof(StringInfoData));
	StringInfoData packed;
	uint32		column;
	int			i;

	for (column = 0; column < group->nparams; column++)
		initStringInfo(&arrays[column]);
	for (i = 0; i < n; i++)
	{
		if (run.rows[i].group != g)
			continue;
		append_row(arrays, group, i);
		query.nkeys += run.rows[i].nkeys;
	}
	query.keys = keys_of_group(group, g, n);
	initStringInfo(&packed);
	for (column = 0; column < group->nparams; column++)
	{
		appendStringInfoChar(&arrays[column], '}');
		pack_param(&packed, arrays[column].data, arrays[column].len);
		pfree(arrays[column].data);
	}
	MemoryContextSwitchTo(old);

	query.text = ls_slice_of_buffer(&group->many_text);
	query.settings = ls_slice_of_buffer(&run.settings);
	query.params = ls_slice_of_buffer(&packed);
	forward(&query);
	MemoryContextReset(scratch);
}

static void
forward_group(int g, int n)
{
	const RowGroup *group = &run.groups[g];
	int			i;

	if (group->nrows >= MIN_ROWS)
	{
		forward_many(group, g, n);
		return;
	}
	for (i = 0; i < n; i++)
	{
		if (run.rows[i].group == g)
			forward_one(group, i);
	}
}

/* What is behind the rows stays. */
static void
forward_rows(void)
{
	int			n = run.nrows;

	run.nrows = 0;				/* an error must not forward it twice */
	for (int g = 0; n > 0 && g < run.ngroups; g++)
		forward_group(g, n);
}

void
batch_flush(void)
{
	if (run.nrows == 0)
		return;
	forward_rows();
	trim_buffers();
}

void
batch_discard(void)
{
	run.nrows = 0;
	if (scratch != NULL)
		MemoryContextReset(scratch);
}

/* ---------- adding */

/*
 * Its group in the run, made if need be; -1: there are too many.  The texts of a DELETE stay for as long as there is
 * the entry, so where one stands tells; that of an UPDATE may be where another one was.
 */
static int
find_group(const LsBatchQuery *query, bool deletes)
{
	RowGroup   *group;
	int			g;

	for (g = 0; g < run.ngroups; g++)
	{
		group = &run.groups[g];
		if (deletes && group->deletes == query->text.data)
			return g;
		if ((size_t) group->text.len == query->text.len &&
			memcmp(group->text.data, query->text.data, query->text.len) == 0)
			return g;
	}
	if (g == MAX_GROUPS)
		return -1;
	group = &run.groups[g];
	group->nrows = 0;
	group->nparams = query->nparams;
	group->deletes = deletes ? query->text.data : NULL;
	resetStringInfo(&group->text);
	appendBinaryStringInfo(&group->text, (const char *) query->text.data, (int) query->text.len);
	run.ngroups++;
	return g;
}

static bool
has_room(const LsRelation *r, LsSlice settings)
{
	return run.nrows < MAX_ROWS && run.relid == r->relid && run.build == r->build &&
		(size_t) run.settings.len == settings.len &&
		(settings.len == 0 || memcmp(run.settings.data, settings.data, settings.len) == 0) &&
		params_start(run.nrows) <= DATA_LIMIT && keys_start(run.nrows) <= KEYS_LIMIT;
}

static void
start_run(const LsRelation *r, LsSlice settings)
{
	if (scratch == NULL)
		make_buffers();
	run.relid = r->relid;
	run.build = r->build;
	run.ngroups = 0;
	resetStringInfo(&run.settings);
	if (settings.len > 0)
		appendBinaryStringInfo(&run.settings, (const char *) settings.data, (int) settings.len);
}

void
batch_begin(const LsRelation *r, LsSlice settings, LsBatchQuery *query)
{
	if (run.nrows > 0 && !has_room(r, settings))
		batch_flush();
	if (run.nrows == 0)
		start_run(r, settings);
	run.params.len = params_start(run.nrows);
	run.keys.packed.len = keys_start(run.nrows);
	keyset_begin_next(&run.keys);
	query->params = &run.params;
	query->keys = &run.keys;
	query->text = make_slice(NULL, 0);
	query->nparams = 0;
	query->identity = 0;
}

static void
make_texts(RowGroup *group, const LsRelation *r, const LsColumnSet *assigned)
{
	if (group->made_build == r->build && group->made_for.len == group->text.len &&
		memcmp(group->made_for.data, group->text.data, group->text.len) == 0)
		return;
	resetStringInfo(&group->made_for);	/* of nothing, if what follows fails */
	group->made_build = r->build;
	resetStringInfo(&group->many_text);
	resetStringInfo(&group->delimiters);
	deparse_many(r, assigned, deparse_is_for_good(group->text.data, group->text.len), &group->many_text);
	deparse_delimiters(r, assigned, &group->delimiters);
	appendBinaryStringInfo(&group->made_for, group->text.data, group->text.len);
}

static void
add_row(const LsRelation *r, const LsColumnSet *assigned, uint64 identity, int slot, int g)
{
	RowGroup   *group = &run.groups[g];
	BatchRow   *row = &run.rows[run.nrows];

	if (group->nrows + 1 == MIN_ROWS)
		make_texts(group, r, assigned);
	row->group = g;
	row->params_end = run.params.len;
	row->keys_end = run.keys.packed.len;
	row->nkeys = run.keys.nkeys;
	row->identity = identity;
	row->slot = slot;
	run.slots[slot] = (uint16) run.nrows;
	group->nrows++;
	run.nrows++;				/* last: what is above may fail */
}

/* Does it set anything, and can all that it names be an array's element? */
static bool
has_arrays(const LsRelation *r, const LsColumnSet *assigned)
{
	bool		any = false;
	int			i;

	if (assigned == NULL)
		return true;
	for (i = 0; i < r->natts; i++)
	{
		if (!column_set_has(assigned, i + 1) || r->columns[i].generated)
			continue;
		if (r->columns[i].delimiter == '\0')
			return false;
		any = true;
	}
	return any;
}

static void
move_to_front(StringInfo buffer, int start)
{
	memmove(buffer->data, buffer->data + start, buffer->len - start);
	buffer->len -= start;
}

/* The rows before it are forwarded, and it is the first of a run. */
static void
begin_anew(void)
{
	int			params = params_start(run.nrows);
	int			keys = keys_start(run.nrows);

	forward_rows();
	move_to_front(&run.params, params);
	move_to_front(&run.keys.packed, keys);
	run.ngroups = 0;
}

static void
forward_alone(const LsBatchQuery *query)
{
	LsQuery		alone = {.rows = 1};

	begin_anew();
	alone.text = query->text;
	alone.settings = ls_slice_of_buffer(&run.settings);
	alone.nparams = query->nparams;
	alone.params = ls_slice_of_buffer(&run.params);
	alone.nkeys = run.keys.nkeys;
	alone.keys = ls_slice_of_buffer(&run.keys.packed);
	forward(&alone);
	trim_buffers();
}

void
batch_add(LsRelation *r, const LsColumnSet *assigned, const LsBatchQuery *query)
{
	bool		found = false;
	int			slot = 0;
	int			g = -1;

	if (query->identity == 0 || !has_arrays(r, assigned))
	{
		forward_alone(query);
		return;
	}
	if (run.nrows == 0 || run.params.len <= DATA_LIMIT)
	{
		slot = find_slot(query->identity, &found);
		g = found ? -1 : find_group(query, assigned == NULL);
	}
	if (g < 0)
	{
		begin_anew();
		slot = find_slot(query->identity, &found);
		g = find_group(query, assigned == NULL);
	}
	add_row(r, assigned, query->identity, slot, g);
	if (run.params.len > DATA_LIMIT)
		batch_flush();			/* a large one does not wait for a savepoint,
								 * which must not wait for the socket */
}
