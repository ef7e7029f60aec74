/*
 * lease.c
 *	  Leases of values: lease.h has the rules.
 *
 * A hash table of things, by database and name.  Sizes are remembered per thing
 * and node, in memory only: after a restart each begins small again.
 */
#include "lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "database_event.h"

#define BUCKETS 4096
#define FIRST_SIZE 32
#define MAX_SIZE 16384
#define BUSY_US 2000000
#define IDLE_US 20000000
#define SHARE 4					/* at most this part of what is left */

typedef __int128 Wide;

typedef struct Holder
{
	struct Holder *next;
	uint64_t	at_us;			/* of its latest lease */
	uint64_t	size;
	char		node[];
} Holder;

typedef struct Thing
{
	struct Thing *next;
	bool		gone;			/* since seq: renamed or dropped */
	int64_t		value;			/* the position */
	bool		called;
	uint64_t	seq;			/* when it was set */
	int64_t		set_to;			/* by setval(), or new storage, at seq */
	bool		set_to_known;	/* not from a record */
	Holder	   *holders;
	bool		has_others;		/* not only the holders may have leases */
	char		goes;			/* 'u'p or 'd'own: it was altered while there
								 * were leases, which may be beyond its new
								 * bounds; 0: not so */
	Buffer		keys;			/* of the latest request that had some */
	size_t		database_len;
	size_t		name_len;
	uint8_t		key[];			/* database, name */
} Thing;

struct LeaseTable
{
	Thing	   *buckets[BUCKETS];
	size_t		n;
	uint64_t	forgotten;		/* the latest seq of what is gone and
								 * forgotten */
};

LeaseTable *
lease_table_create(void)
{
	return xcalloc(1, sizeof(LeaseTable));
}

/* ---------- the table */

static Thing **
bucket_of(LeaseTable *t, LsSlice database, LsSlice name)
{
	uint64_t	hash = XXH3_64bits_withSeed(name.data, name.len,
											XXH3_64bits(database.data, database.len));

	return &t->buckets[hash % BUCKETS];
}

static bool
is_thing(const Thing *thing, LsSlice database, LsSlice name)
{
	return thing->database_len == database.len && thing->name_len == name.len &&
		memcmp(thing->key, database.data, database.len) == 0 &&
		memcmp(thing->key + database.len, name.data, name.len) == 0;
}

static Thing *
find(const LeaseTable *t, LsSlice database, LsSlice name)
{
	Thing	   *thing = *bucket_of((LeaseTable *) t, database, name);

	while (thing != NULL && !is_thing(thing, database, name))
		thing = thing->next;
	return thing;
}

static LsSlice
database_of(const Thing *thing)
{
	return (LsSlice) {thing->key, thing->database_len};
}

static Thing *
add(LeaseTable *t, LsSlice database, LsSlice name)
{
	Thing	  **bucket = bucket_of(t, database, name);
	Thing	   *thing = xcalloc(1, sizeof(Thing) + database.len + name.len);

	thing->database_len = database.len;
	thing->name_len = name.len;
	memcpy(thing->key, database.data, database.len);
	memcpy(thing->key + database.len, name.data, name.len);
	thing->next = *bucket;
	*bucket = thing;
	t->n++;
	return thing;
}

static Thing *
find_or_add(LeaseTable *t, LsSlice database, LsSlice name)
{
	Thing	   *thing = find(t, database, name);

	return thing != NULL ? thing : add(t, database, name);
}

static void
forget_holders(Thing *thing)
{
	while (thing->holders != NULL)
	{
		Holder	   *h = thing->holders;

		thing->holders = h->next;
		free(h);
	}
}

/* Take *link out of its bucket. */
static void
take_out(LeaseTable *t, Thing **link)
{
	Thing	   *thing = *link;

	*link = thing->next;
	forget_holders(thing);
	buffer_free(&thing->keys);
	free(thing);
	t->n--;
}

void
lease_table_free(LeaseTable *t)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		while (t->buckets[i] != NULL)
			take_out(t, &t->buckets[i]);
	}
	free(t);
}

size_t
lease_count(const LeaseTable *t)
{
	return t->n;
}

/* The next thing of that database in a bucket, from *link on; NULL: none. */
static Thing **
next_of_database(Thing **link, LsSlice database)
{
	while (*link != NULL)
	{
		LsSlice		of = database_of(*link);

		if (of.len == database.len && memcmp(of.data, database.data, of.len) == 0)
			return link;
		link = &(*link)->next;
	}
	return NULL;
}

void
lease_forget_database(LeaseTable *t, LsSlice database)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		Thing	  **link = &t->buckets[i];

		while ((link = next_of_database(link, database)) != NULL)
			take_out(t, link);
	}
}

static void
rename_database(LeaseTable *t, LsSlice from, LsSlice to)
{
	Thing	   *things = NULL;

	lease_forget_database(t, to);	/* of one that had the name before */
	for (size_t i = 0; i < BUCKETS; i++)
	{
		Thing	  **link = &t->buckets[i];

		while ((link = next_of_database(link, from)) != NULL)
		{
			Thing	   *thing = *link;

			*link = thing->next;
			t->n--;
			thing->next = things;
			things = thing;
		}
	}
	while (things != NULL)
	{
		Thing	   *old = things;
		LsSlice		name = {old->key + old->database_len, old->name_len};
		Thing	   *new = add(t, to, name);

		things = old->next;
		new->gone = old->gone;
		new->value = old->value;
		new->called = old->called;
		new->seq = old->seq;
		new->set_to = old->set_to;
		new->set_to_known = old->set_to_known;
		new->holders = old->holders;
		new->has_others = old->has_others;
		new->goes = old->goes;
		new->keys = old->keys;
		free(old);
	}
}

void
lease_database_event(LeaseTable *t, LsSlice text)
{
	DatabaseEventText e;

	if (!database_event_parse(text, &e))
		return;
	if (e.kind == DATABASE_REMOVED)
		lease_forget_database(t, e.name);
	else if (e.kind == DATABASE_RENAMED)
		rename_database(t, e.command, e.name);
}

void
lease_forget_gone(LeaseTable *t, uint64_t applied)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		for (Thing **link = &t->buckets[i]; *link != NULL;)
		{
			if ((*link)->gone && (*link)->seq <= applied)
			{
				if ((*link)->seq > t->forgotten)
					t->forgotten = (*link)->seq;
				take_out(t, link);
			}
			else
				link = &(*link)->next;
		}
	}
}

/* ---------- values */

/*
 * How many values there are from first on to the end, first included.  Counted
 * in 128 bits, as the bounds may be those of int64.
 */
static uint64_t
values_left(const LsLease *r, int64_t first)
{
	Wide		span = r->increment > 0 ? (Wide) r->max - first : (Wide) first - r->min;
	Wide		step = r->increment > 0 ? (Wide) r->increment : -(Wide) r->increment;
	Wide		n = span / step + 1;

	return n > UINT64_MAX ? UINT64_MAX : (uint64_t) n;
}

/* The value behind the position; false: there is none. */
static bool
next_value(const LsLease *r, int64_t value, bool called, int64_t *next)
{
	Wide		v = called ? (Wide) value + r->increment : (Wide) value;

	if (v < r->min || v > r->max)
	{
		if (!r->cycle)
			return false;
		v = r->increment > 0 ? r->min : r->max;
	}
	*next = (int64_t) v;
	return true;
}

/* In 128 bits, as count may be that of all int64. */
static int64_t
last_value(const LsLease *r, const LeaseGrant *grant)
{
	return (int64_t) (grant->first + (Wide) (grant->count - 1) * r->increment);
}

/*
 * If no position is known, the asker's is taken.  Otherwise it is not behind the known one,
 * unless its sequence was changed on that node alone.
 */
static bool
asker_knows_better(const Thing *thing, const LsLease *r)
{
	if (thing->gone)
		return true;
	if (thing->goes != 0 && (thing->goes == 'u') == (r->increment > 0))
		return false;			/* what it has not seen may have been handed
								 * out */
	if (thing->value < r->min || thing->value > r->max)
		return true;
	if (r->cycle)
		return false;
	if (r->value == thing->value)
		return r->called && !thing->called;
	return r->increment > 0 ? r->value > thing->value : r->value < thing->value;
}

/* ---------- sizes */

static bool
is_node(const Holder *h, LsSlice node)
{
	return strlen(h->node) == node.len && memcmp(h->node, node.data, node.len) == 0;
}

static Holder *
holder_of(Thing *thing, LsSlice node)
{
	Holder	   *h = thing->holders;

	while (h != NULL && !is_node(h, node))
		h = h->next;
	if (h == NULL)
	{
		h = xcalloc(1, sizeof(Holder) + node.len + 1);
		memcpy(h->node, node.data, node.len);
		h->next = thing->holders;
		thing->holders = h;
	}
	return h;
}

/* All values that were leased since the position was set, if any. */
static bool
is_held_only_by(const Thing *thing, LsSlice node)
{
	const Holder *h = thing->holders;

	return !thing->has_others && node.len > 0 &&
		(h == NULL || (h->next == NULL && is_node(h, node)));
}

static uint64_t
size_for(Holder *h, uint64_t wanted, uint64_t left, uint64_t now_us)
{
	uint64_t	size = h->size;

	if (size == 0)
		size = FIRST_SIZE;
	else if (now_us - h->at_us < BUSY_US)
		size = size * 2 <= MAX_SIZE ? size * 2 : MAX_SIZE;
	else if (now_us - h->at_us > IDLE_US)
		size = size / 2 >= FIRST_SIZE ? size / 2 : FIRST_SIZE;
	h->size = size;
	h->at_us = now_us;

	/* values that others could use are not all granted at once */
	if (size > left / SHARE)
		size = left / SHARE;
	if (size < wanted)
		size = wanted;
	if (size == 0)
		size = 1;
	return size < left ? size : left;
}

/* ---------- asking */

static void
set_keys(Thing *thing, LsSlice keys)
{
	if (keys.len == 0)
		return;
	thing->keys.len = 0;
	buffer_append(&thing->keys, keys.data, keys.len);
}

void
lease_each(const LeaseTable *t, LsSlice database, LeaseEach each, void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		for (const Thing *thing = t->buckets[i]; thing != NULL; thing = thing->next)
		{
			LsSlice		name = {thing->key + thing->database_len, thing->name_len};
			LsSlice		keys = {thing->keys.data, thing->keys.len};

			if (!thing->gone && thing->called && keys.len > 0 &&
				is_thing(thing, database, name))
				each(arg, name, thing->value, keys);
		}
	}
}

LeaseStatus
lease_request(LeaseTable *t, LsSlice database, const LsLease *request,
			  LsSlice node, uint64_t now_us, LeaseGrant *grant)
{
	Thing	   *thing = find(t, database, request->name);

	memset(grant, 0, sizeof(*grant));
	if (thing != NULL && request->applied < thing->seq)
	{
		grant->seq = thing->seq;
		return LEASE_LATER;
	}

	/*
	 * a node that was out may use a name that is gone, and forgotten
	 * meanwhile
	 */
	if (thing == NULL && request->applied < t->forgotten)
	{
		grant->seq = t->forgotten;
		return LEASE_LATER;
	}
	if (thing == NULL)
	{
		thing = add(t, database, request->name);
		thing->gone = true;
	}
	if (asker_knows_better(thing, request))
	{
		thing->gone = false;
		thing->value = request->value;
		thing->called = request->called;
	}
	if (!next_value(request, thing->value, thing->called, &grant->first))
		return LEASE_EXHAUSTED;
	set_keys(thing, request->keys);
	grant->count = size_for(holder_of(thing, node), request->wanted,
							values_left(request, grant->first), now_us);
	thing->value = last_value(request, grant);
	thing->called = true;
	return LEASE_GRANTED;
}

/*
 * A position that was set after the seq that the node has applied is unrelated: the node's
 * leases become void when it gets there.
 */
bool
lease_reported(LeaseTable *t, LsSlice database, LsSlice name, uint64_t seq,
			   int64_t value, int64_t increment, LsSlice keys)
{
	Thing	   *thing = find(t, database, name);

	if (thing != NULL && seq < thing->seq)
		return false;
	if (thing != NULL && !thing->gone &&
		(increment > 0 ? value < thing->value : value > thing->value || increment == 0))
		return false;
	if (thing != NULL && !thing->gone && thing->called && value == thing->value)
		return false;
	if (thing == NULL)
		thing = add(t, database, name);
	thing->gone = false;
	thing->value = value;
	thing->called = true;
	thing->has_others = true;
	set_keys(thing, keys);
	return true;
}

void
lease_node_restarted(LeaseTable *t, LsSlice node)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		for (Thing *thing = t->buckets[i]; thing != NULL; thing = thing->next)
		{
			for (const Holder *h = thing->holders; h != NULL; h = h->next)
				thing->has_others |= is_node(h, node);
		}
	}
}

/* ---------- effects of transactions */

static bool
is_word(LsSlice s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.data, word, s.len) == 0;
}

static bool
get_int64(LsSlice s, int64_t *v)
{
	char		text[24];
	char	   *end;

	if (s.len == 0 || s.len >= sizeof(text))
		return false;
	memcpy(text, s.data, s.len);
	text[s.len] = '\0';
	*v = strtoll(text, &end, 10);
	return *end == '\0';
}

/* Take the next one that is well-formed off the front of 'Q' messages. */
static bool
next_query(LsSlice *queries, LsQuery *query)
{
	LsMsgType	type;
	LsSlice		payload;
	bool		found = false;

	while (!found && ls_frame(queries->data, queries->len, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		found = ls_get_query(payload, query) == NULL;
		queries->data += LS_HEADER_SIZE + payload.len;
		queries->len -= LS_HEADER_SIZE + payload.len;
	}
	return found;
}

/* False: malformed, the extension did not write it. */
static bool
get_params(const LsQuery *query, LsSlice param[5])
{
	LsSlice		rest = query->params;
	size_t		n = 0;

	while (n < 5 && ls_next_param(&rest, &param[n]))
		n++;
	return query->reason == LS_REASON_SEQUENCE && n == 5 && param[1].len > 0;
}

static void
set(LeaseTable *t, LsSlice database, LsSlice name, uint64_t seq, int64_t value, bool called)
{
	Thing	   *thing = find_or_add(t, database, name);

	forget_holders(thing);
	thing->has_others = false;
	thing->goes = 0;
	thing->gone = false;
	thing->value = thing->set_to = value;
	thing->called = called;
	thing->seq = seq;
	thing->set_to_known = true;
}

/* The sequence goes on: up, down, or in a cycle. */
static void
alter(LeaseTable *t, LsSlice database, LsSlice name, uint64_t seq, LsSlice node, int64_t value, bool called, char goes)
{
	Thing	   *thing = find(t, database, name);

	if (thing == NULL || thing->gone || !thing->called || is_held_only_by(thing, node) ||
		(goes == 'u' && thing->value <= value) || (goes == 'd' && thing->value >= value))
		set(t, database, name, seq, value, called);
	else
	{
		forget_holders(thing);
		thing->has_others = true;
		thing->goes = goes == 'c' ? 0 : goes;
		thing->seq = seq;
		thing->set_to_known = false;
	}
}

static void
drop(LeaseTable *t, LsSlice database, LsSlice name, uint64_t seq)
{
	Thing	   *thing = find_or_add(t, database, name);

	forget_holders(thing);
	thing->gone = true;
	thing->seq = seq;
	thing->set_to_known = false;
}

/* The position moves along; leases under the old name remain valid.  keys: of the new name; the extension gave none before. */
static void
move(LeaseTable *t, LsSlice database, LsSlice from, LsSlice to, LsSlice keys, uint64_t seq)
{
	const Thing *old = find(t, database, from);
	char		goes = old != NULL ? old->goes : 0;
	Thing	   *new;

	if (old != NULL && !old->gone)
		set(t, database, to, seq, old->value, old->called);
	else
		drop(t, database, to, seq); /* unknown: the first request states the
									 * position */
	drop(t, database, from, seq);
	new = find(t, database, to);
	new->has_others = true;
	new->goes = goes;
	set_keys(new, keys);
}

/*
 * Parameters: effect, name, value, called, and the new name, or where what is set goes on.  A
 * malformed query was not written by the extension and has no effect here.
 */
bool
lease_effect(LeaseTable *t, LsSlice database, uint64_t seq, LsSlice node, const LsQuery *query)
{
	LsSlice		param[5];
	int64_t		value;

	if (!get_params(query, param))
		return false;
	if (is_word(param[0], "set") && get_int64(param[2], &value))
	{
		bool		called = is_word(param[3], "t");

		if (is_word(param[4], "up") || is_word(param[4], "down") || is_word(param[4], "cycle"))
			alter(t, database, param[1], seq, node, value, called, (char) param[4].data[0]);
		else
			set(t, database, param[1], seq, value, called);
	}
	else if (is_word(param[0], "moved") && param[4].len > 0)
		move(t, database, param[1], param[4], query->nkeys > 1 ? query->keys : ls_slice_of(NULL), seq);
	else if (is_word(param[0], "dropped"))
		drop(t, database, param[1], seq);
	else
		return false;
	return true;
}

bool
lease_effects(LeaseTable *t, LsSlice database, uint64_t seq, LsSlice node, LsSlice queries)
{
	LsQuery		query;
	bool		any = false;

	while (next_query(&queries, &query))
		any |= lease_effect(t, database, seq, node, &query);
	return any;
}

static bool
ends_with(LsSlice s, const char *end)
{
	size_t		len = strlen(end);

	return s.len >= len && memcmp(s.data + s.len - len, end, len) == 0;
}

/* Would a node that is where the sequence was set stay there? */
static bool
was_set_behind(const Thing *thing, LsSlice value, LsSlice extra)
{
	int64_t		used;

	if (!thing->set_to_known || !get_int64(value, &used))
		return false;
	return (ends_with(extra, ":up") && used < thing->set_to) || (ends_with(extra, ":down") && used > thing->set_to);
}

/* The key of the sequence comes last. */
static bool
is_outdated(const LeaseTable *t, LsSlice database, const LsQuery *query, LsKey *key, uint64_t *seq)
{
	LsSlice		param[5];
	LsSlice		keys = query->keys;
	const Thing *thing;
	bool		has_key = false;

	if (!get_params(query, param) || !is_word(param[0], "used"))
		return false;
	thing = find(t, database, param[1]);
	while (thing != NULL && ls_next_key(&keys, key))
		has_key = true;
	if (!has_key || key->seen >= thing->seq || was_set_behind(thing, param[2], param[4]))
		return false;
	*seq = thing->seq;
	return true;
}

bool
lease_outdated(const LeaseTable *t, LsSlice database, LsSlice queries, LsKey *key, uint64_t *seq)
{
	LsQuery		query;
	bool		outdated = false;

	while (!outdated && next_query(&queries, &query))
		outdated = is_outdated(t, database, &query, key, seq);
	return outdated;
}

/* ---------- records: "value called seq keys_len database_len " keys, both names.  The
 * first records had no keys; their "called" was in lower case. */

static void
encode(const Thing *thing, Buffer *text)
{
	char		numbers[96];
	int			n = snprintf(numbers, sizeof(numbers), "%" PRId64 " %c %" PRIu64 " %zu %zu ", thing->value,
							 thing->called ? 'T' : 'F', thing->seq, thing->keys.len, thing->database_len);

	buffer_append(text, numbers, (size_t) n);
	buffer_append(text, thing->keys.data, thing->keys.len);
	buffer_append(text, thing->key, thing->database_len + thing->name_len);
}

void
lease_encode(const LeaseTable *t, LsSlice database, LsSlice name, Buffer *text)
{
	const Thing *thing = find(t, database, name);

	if (thing != NULL && !thing->gone)
		encode(thing, text);
}

void
lease_encode_all(const LeaseTable *t, void (*record) (void *arg, LsSlice text), void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++)
	{
		for (const Thing *thing = t->buckets[i]; thing != NULL; thing = thing->next)
		{
			Buffer		text = {0};
			LsSlice		slice;

			if (thing->gone)
				continue;
			encode(thing, &text);
			slice.data = text.data;
			slice.len = text.len;
			record(arg, slice);
			buffer_free(&text);
		}
	}
}

/* Take a word off the front of *rest. */
static LsSlice
next_word(LsSlice *rest)
{
	const uint8_t *end = rest->len > 0 ? memchr(rest->data, ' ', rest->len) : NULL;
	LsSlice		word = {rest->data, end != NULL ? (size_t) (end - rest->data) : 0};

	if (end != NULL)
	{
		rest->len -= word.len + 1;
		rest->data = end + 1;
	}
	return word;
}

bool
lease_decode(LeaseTable *t, LsSlice text)
{
	LsSlice		rest = text;
	int64_t		value,
				seq,
				keys_len = 0,
				database_len;
	LsSlice		word;
	LsSlice		keys;
	bool		called;
	LsSlice		database;
	LsSlice		name;
	Thing	   *thing;

	if (!get_int64(next_word(&rest), &value))
		return false;
	word = next_word(&rest);
	called = is_word(word, "t") || is_word(word, "T");
	if ((!called && !is_word(word, "f") && !is_word(word, "F")) ||
		!get_int64(next_word(&rest), &seq) || seq < 0)
		return false;
	if ((is_word(word, "T") || is_word(word, "F")) &&
		(!get_int64(next_word(&rest), &keys_len) || keys_len < 0))
		return false;
	if (!get_int64(next_word(&rest), &database_len) || database_len <= 0 ||
		(uint64_t) keys_len >= rest.len || (uint64_t) database_len >= rest.len - (uint64_t) keys_len)
		return false;
	keys = (LsSlice) {rest.data, (size_t) keys_len};
	rest.data += keys_len;
	rest.len -= (size_t) keys_len;
	database = (LsSlice) {rest.data, (size_t) database_len};
	name = (LsSlice) {rest.data + database_len, rest.len - (size_t) database_len};
	thing = find_or_add(t, database, name);
	thing->gone = false;
	thing->value = value;
	thing->called = called;
	thing->has_others = true;
	set_keys(thing, keys);
	thing->set_to_known &= thing->seq == (uint64_t) seq;
	thing->seq = (uint64_t) seq;
	return true;
}
