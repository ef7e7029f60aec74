/*
 * sequence_positions.c
 *	  Positions of sequences that no transaction has replicated: of values that were
 *	  used by transactions that rolled back or changed nothing else.
 *
 * Every POLL_MS each online node is asked for such positions, which it has in shared
 * memory.  The answer becomes one transaction per database, which all nodes apply,
 * including the one that reported it.  So all nodes soon have equal positions after
 * the load has stopped.
 *
 * The transaction has no origin, so that it and DDL on such a sequence wait for each
 * other on that node, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metadata.h"
#include "membership_private.h"
#include "sequencer.h"

#define POLL_MS 500

static const char effect_text[] = "SELECT lockstep.apply_sequence($1, $2, $3, $4, $5)";

static void poll(Node *n);

/* Never the same twice, not even after a restart. */
static uint64_t
new_number(void)
{
	static uint64_t last;
	uint64_t	now = loop_wall_us();

	last = now > last ? now : last + 1;
	return last;
}

static void
on_timer(void *arg)
{
	Node	   *n = arg;

	n->sequence_positions_timer = NULL;
	poll(n);
}

static void
poll_later(Node *n)
{
	if (n->sequence_positions_timer == NULL && n->control != NULL)
		n->sequence_positions_timer = loop_after(POLL_MS, on_timer, n);
}

/* ---------- making transactions of them */

static void
on_ordered(void *arg, uint64_t seq, const LsErrorFields *error)
{
	Node	   *n = arg;

	n->sequence_positions_ordering--;	/* refused: the node says it again */
	n->sequence_positions_apart |= error != NULL;
}

static void
append_param(Buffer *params, const char *text)
{
	uint8_t		none[1];
	size_t		size = ls_put_param(none, 0, text, strlen(text));

	buffer_reserve(params, size);
	params->len += ls_put_param(params->data + params->len, size, text, strlen(text));
}

/* False: its keys are malformed. */
static bool
append_query(Buffer *queries, uint64_t number, const char *name, const char *value, const char *extra, LsSlice keys)
{
	LsQuery		q = {.xcount = number,.form = LS_FORM_STATEMENT,.reason = LS_REASON_SEQUENCE,.rows = -1};
	Buffer		params = {0};
	size_t		at = queries->len;
	size_t		size;
	LsQuery		check;
	LsSlice		payload;
	bool		ok;

	append_param(&params, "used");
	append_param(&params, name);
	append_param(&params, value);
	append_param(&params, "t");
	append_param(&params, extra);
	q.text = ls_slice_of(effect_text);
	q.params = (LsSlice) {params.data, params.len};
	q.keys = keys;
	size = ls_put_query(NULL, 0, &q);
	buffer_reserve(queries, size);
	queries->len += ls_put_query(queries->data + at, size, &q);
	payload.data = queries->data + at + LS_HEADER_SIZE;
	payload.len = size - LS_HEADER_SIZE;
	ok = ls_get_query(payload, &check) == NULL;
	if (!ok)
		queries->len = at;
	buffer_free(&params);
	return ok;
}

/* One row: database, name, value, extra, keys. */
static void
append_row(Buffer *queries, const PGresult *r, int row, uint64_t number)
{
	size_t		len = 0;
	unsigned char *bytes = PQunescapeBytea((const unsigned char *) PQgetvalue(r, row, 4), &len);
	LsSlice		keys = {bytes, bytes != NULL ? len : 0};

	(void) append_query(queries, number, PQgetvalue(r, row, 1), PQgetvalue(r, row, 2), PQgetvalue(r, row, 3), keys);
	PQfreemem(bytes);
}

/*
 * A database that is dropped or renamed gets no transaction: one behind that would have its old name,
 * and by the new one nodes take none before they have renamed it.
 */
static bool
may_order(const char *database)
{
	return metadata_has_database(database) && !sequencer_database_closes(database);
}

static bool
seen_before(const PGresult *r, int row)
{
	for (int i = 0; i < row; i++)
	{
		if (strcmp(PQgetvalue(r, i, 0), PQgetvalue(r, row, 0)) == 0)
			return true;
	}
	return false;
}

/* All rows of the database that this one is of; or this one, so that no other is refused with it. */
static void
order_database(Node *n, const PGresult *r, int row, bool apart)
{
	const char *database = PQgetvalue(r, row, 0);
	LsIdentity	id = {ls_slice_of(n->config->name), n->boot, 0, new_number()};
	Buffer		queries = {0};
	int			end = apart ? row + 1 : PQntuples(r);

	for (int i = row; i < end; i++)
	{
		if (strcmp(PQgetvalue(r, i, 0), database) == 0)
			append_row(&queries, r, i, id.xcount);
	}
	if (queries.len > 0)
	{
		n->sequence_positions_ordering++;
		sequencer_single_query(&id, ls_slice_of(database), ORIGIN_NONE, queries.data, queries.len,
							   on_ordered, n);
	}
	buffer_free(&queries);
}

/* ---------- a server that was started anew */

typedef struct Restarted
{
	Buffer		queries;
	uint64_t	number;
} Restarted;

/* Our own fact, of now. */
static void
append_key_of_now(Buffer *keys, LsKey key)
{
	size_t		size;

	key.seen = sequencer_last_decided();
	size = ls_put_key(keys->data, 0, &key);
	buffer_reserve(keys, size);
	keys->len += ls_put_key(keys->data + keys->len, size, &key);
}

static void
append_leased(void *arg, LsSlice name, int64_t value, LsSlice keys)
{
	Restarted  *restarted = arg;
	Buffer		now = {0};
	LsSlice		now_slice;
	LsKey		key;
	char		number[24];
	char	   *text = xstrndup(name.data, name.len);

	buffer_reserve(&now, keys.len + 1);
	while (ls_next_key(&keys, &key))
		append_key_of_now(&now, key);
	now_slice.data = now.data;
	now_slice.len = now.len;
	snprintf(number, sizeof(number), "%" PRId64, value);
	(void) append_query(&restarted->queries, restarted->number, text, number, "0:0", now_slice);
	buffer_free(&now);
	free(text);
}

static void
on_restart_ordered(void *arg, uint64_t seq, const LsErrorFields *error)
{
	Node	   *n = arg;

	n->sequence_positions_ordering--;
	n->sequence_positions_failed |= error != NULL;
	if (n->sequence_positions_ordering == 0 && !n->sequence_positions_failed && n->control != NULL)
		pgclient_query(n->control, "SELECT lockstep.sequences_reported()", 0, NULL, NULL, NULL);
}

/*
 * It has forgotten what it had handed out, and WAL may have led its sequences
 * ahead.  All of that lies within leases, so everybody goes to the end of those.
 */
static void
order_all_leased(Node *n)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	n->sequence_positions_ordering++;	/* until all are under way */
	n->sequence_positions_failed = false;
	for (int i = 0; i < count; i++)
	{
		Restarted	restarted = {.number = new_number()};
		LsIdentity	id = {ls_slice_of(n->config->name), n->boot, 0, restarted.number};

		sequencer_leased(ls_slice_of(names[i]), append_leased, &restarted);
		if (restarted.queries.len > 0 && !may_order(names[i]))
			n->sequence_positions_failed = true;	/* the node says it again */
		else if (restarted.queries.len > 0)
		{
			n->sequence_positions_ordering++;
			sequencer_single_query(&id, ls_slice_of(names[i]), ORIGIN_NONE, restarted.queries.data,
								   restarted.queries.len, on_restart_ordered, n);
		}
		buffer_free(&restarted.queries);
	}
	on_restart_ordered(n, 0, NULL);
}

/* ---------- asking */

static void
on_positions(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	bool		apart = n->sequence_positions_apart;

	if (r == NULL)
		return;					/* the node goes out */
	n->sequence_positions_apart = false;
	if (PQresultStatus(r) == PGRES_TUPLES_OK && n->state == NODE_ONLINE)
	{
		for (int i = 0; i < PQntuples(r); i++)
		{
			if (PQgetvalue(r, i, 0)[0] == '\0')
				order_all_leased(n);
			else if (may_order(PQgetvalue(r, i, 0)) && (apart || !seen_before(r, i)))
				order_database(n, r, i, apart);
		}
	}
	poll_later(n);
}

static void
poll(Node *n)
{
	if (n->state != NODE_ONLINE || n->pools == NULL || n->old_objects || n->sequence_positions_ordering > 0)
		poll_later(n);
	else
		pgclient_query(n->control, "SELECT database, name, value, extra, keys FROM lockstep.sequence_positions()",
					   0, NULL, on_positions, n);
}

void
sequence_positions_watch(Node *n)
{
	poll_later(n);
}

void
sequence_positions_ask(Node *n)
{
	if (n->sequence_positions_timer != NULL)	/* else it is being asked */
	{
		sequence_positions_stop(n);
		poll(n);
	}
}

void
sequence_positions_stop(Node *n)
{
	loop_cancel(n->sequence_positions_timer);
	n->sequence_positions_timer = NULL;
}
