/*
 * backend.c
 *	  Backends that are none: sessions of the replicator that ask, commit and confirm as the
 *	  extension does, with transactions of a known form.
 *
 * A transaction of a writer changes `rows` rows of four tables, a query each, with the keys of
 * database, table and row, as TPC-B does.  The rows of a writer are its own, so that none is
 * refused.
 */
#include "grow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "buffer.h"
#include "loop.h"

#define TABLES 4
#define KEYS_AT_ONCE 500		/* of a transaction that fills */
#define RETRY_MS 50
#define ONE_ROW UINT64_C(0x0123456789abcdef)

typedef enum State
{
	STATE_CONNECTS, STATE_READY, STATE_ASKED, STATE_LOCKING, STATE_COMMITS, STATE_ENDED
} State;

typedef struct Backend
{
	Role		role;
	int			node;
	int			number;
	char		database[16];
	int			database_number;
	State		state;
	bool		stops;
	int			fd;
	Watch	   *watch;
	Buffer		in;
	Buffer		out;
	Deferred	flush;
	LsHello		hello;
	uint8_t		nonce[LS_NONCE_SIZE];
	uint64_t	xcount;
	uint64_t	confirmed;
	uint64_t	decided;
	uint64_t	first_key;		/* the rows that are its own */
	uint64_t	nkeys;
	uint64_t	next_key;
	uint64_t	filled;
	bool		told;			/* that it is in the database */
	bool		tables_told[TABLES];
}			Backend;

Load		load;
Counts		counts;

static void connect_backend(Backend * b);
static void go_on(Backend * b);

/* ---------- sending */

static void
on_flush(void *arg)
{
	Backend    *b = arg;

	while (b->out.pos < b->out.len)
	{
		ssize_t		n = send(b->fd, b->out.data + b->out.pos, b->out.len - b->out.pos, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
		{
			loop_change(b->watch, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n < 0)
			return;				/* it is read that it is closed */
		buffer_consume(&b->out, (size_t) n);
	}
	loop_change(b->watch, EPOLLIN);
}

/* Room for a message that is about to be encoded. */
static uint8_t *
room(Backend * b, size_t size)
{
	buffer_reserve(&b->out, size);
	loop_defer(&b->flush);
	return b->out.data + b->out.len;
}

#define PUT(b, call) \
	do { \
		size_t		put_size = 4096; \
		uint8_t    *put_at = room(b, put_size); \
		size_t		put_len = call; \
		if (put_len > put_size) \
		{ \
			put_size = put_len; \
			put_at = room(b, put_size); \
			put_len = call; \
		} \
		(b)->out.len += put_len; \
	} while (0)

/* ---------- transactions */

static uint64_t
mixed(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

typedef struct Keys
{
	uint8_t		bytes[KEYS_AT_ONCE * 64];
	size_t		len;
	uint32_t	n;
}			Keys;

static void
add_key(const Backend * b, Keys * keys, uint64_t hash, LsKeyMode mode, const char *name)
{
	LsKey		key = {hash, fake_applied(b->node), mode, ls_slice_of(name)};

	keys->len += ls_put_key(keys->bytes + keys->len, sizeof(keys->bytes) - keys->len, &key);
	keys->n++;
}

/* The low bits differ, as the replicator has a table of these of fixed size. */
static uint64_t
table_hash(const Backend * b, int table)
{
	uint64_t	number = (uint64_t) (b->database_number * (TABLES + 1) + table + 1);

	return (mixed(number) << 12) | number;
}

static void
add_table_keys(Backend * b, Keys * keys, int table)
{
	char		name[64];

	if (!b->told)
	{
		snprintf(name, sizeof(name), "database %s", b->database);
		add_key(b, keys, table_hash(b, TABLES), LS_TABLE_IX, name);
	}
	b->told = true;
	if (!b->tables_told[table])
	{
		snprintf(name, sizeof(name), "public.bench_%d", table);
		add_key(b, keys, table_hash(b, table), LS_TABLE_IX, name);
	}
	b->tables_told[table] = true;
}

static uint64_t
row_hash(const Backend * b, uint64_t key)
{
	return mixed((uint64_t) b->database_number << 48 | (key + 1));
}

static uint64_t
take_key(Backend * b)
{
	uint64_t	key = b->first_key + b->next_key;

	b->next_key = b->next_key + 1 < b->nkeys ? b->next_key + 1 : 0;
	return key;
}

static void
put_row(Backend * b, int table, const Keys * keys, uint64_t key)
{
	char		text[96];
	char		value[24];
	uint8_t		params[64];
	size_t		len;
	LsQuery		q = {.xcount = b->xcount,.form = LS_FORM_ROW,.reason = LS_REASON_ROW_CHANGED,.rows = 1,.nparams = 2,.nkeys = keys->n};

	snprintf(text, sizeof(text), "UPDATE ONLY public.bench_%d SET balance = $1 WHERE id = $2", table);
	len = (size_t) snprintf(value, sizeof(value), "%" PRIu64, b->xcount);
	len = ls_put_param(params, sizeof(params), value, len);
	snprintf(value, sizeof(value), "%" PRIu64, key);
	len += ls_put_param(params + len, sizeof(params) - len, value, strlen(value));
	q.text = ls_slice_of(text);
	q.params = (LsSlice) {params, len};
	q.keys = (LsSlice) {keys->bytes, keys->len};
	PUT(b, ls_put_query(put_at, put_size, &q));
}

static void
put_ask(Backend * b, uint64_t statements)
{
	LsAsk		ask = {.xcount = b->xcount,.nstatements = statements,.wait = load.wait,.applied = fake_applied(b->node),
	.confirmed = b->confirmed,.certain = load.certain && !load.filling};

	b->confirmed = 0;
	PUT(b, ls_put_ask(put_at, put_size, &ask));
	b->state = STATE_ASKED;
}

static void
begin_transaction(Backend * b)
{
	b->xcount++;
	b->told = false;
	memset(b->tables_told, 0, sizeof(b->tables_told));
}

static void
write_rows(Backend * b)
{
	static Keys keys;

	for (int i = 0; i < load.rows; i++)
	{
		uint64_t	key = take_key(b);
		int			table = i % TABLES;
		char		name[32];

		keys.len = keys.n = 0;
		add_table_keys(b, &keys, table);
		snprintf(name, sizeof(name), "public.bench_%d bench_%d_pkey", table, table);
		add_key(b, &keys, row_hash(b, key), LS_ROW_UPDATE, name);
		put_row(b, table, &keys, key);
	}
	put_ask(b, (uint64_t) load.rows);
}

/* Many keys in one query, until each of its own has been used once. */
static void
fill(Backend * b)
{
	static Keys keys;
	uint64_t	left = b->nkeys - b->filled;
	uint64_t	n = left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE;

	keys.len = keys.n = 0;
	add_table_keys(b, &keys, 0);
	for (uint64_t i = 0; i + 2 < n || i == 0; i++)
	{
		add_key(b, &keys, row_hash(b, take_key(b)), LS_ROW_UPDATE, "");
		b->filled++;
	}
	put_row(b, 0, &keys, b->first_key);
	put_ask(b, 1);
}

static void
put_lock(Backend * b)
{
	static Keys keys;
	LsLock		lock = {.xcount = b->xcount,.yields = 1};

	keys.len = keys.n = 0;
	add_key(b, &keys, ONE_ROW, LS_ROW_UPDATE, "public.bench_0 bench_0_pkey");
	lock.nkeys = keys.n;
	lock.keys = (LsSlice) {keys.bytes, keys.len};
	PUT(b, ls_put_lock(put_at, put_size, &lock));
	b->state = STATE_LOCKING;
}

static void
write_one_row(void *arg)
{
	static Keys keys;
	Backend    *b = arg;

	keys.len = keys.n = 0;
	add_table_keys(b, &keys, 0);
	add_key(b, &keys, ONE_ROW, LS_ROW_UPDATE, "public.bench_0 bench_0_pkey");
	put_row(b, 0, &keys, 0);
	put_ask(b, 1);
}

static void
keep_history(Backend * b)
{
	static Keys keys;

	keys.len = keys.n = 0;
	add_table_keys(b, &keys, 0);
	put_row(b, 0, &keys, b->first_key);
}

static void
go_on(Backend * b)
{
	b->state = STATE_READY;
	if (b->stops || (load.filling && b->role == BACKEND_WRITES && backend_is_filled(b)))
		return;
	if (b->role == BACKEND_IDLE)
		return;
	begin_transaction(b);
	if (b->role == BACKEND_KEEPS_HISTORY)
		keep_history(b);
	else if (b->role != BACKEND_WRITES)
		put_lock(b);
	else if (load.filling)
		fill(b);
	else
		write_rows(b);
}

/* ---------- answers */

/* All before it have committed on this node. */
static void
on_turn(void *arg)
{
	Backend    *b = arg;

	b->confirmed = b->decided;
	counts.committed++;
	go_on(b);
}

static void
handle_verdict(Backend * b, LsSlice payload)
{
	LsVerdict	v;
	const char *wrong = ls_get_verdict(payload, &v);

	if (wrong != NULL)
		grow_fail("a malformed verdict: %s", wrong);
	if (v.outcome == LS_OUTCOME_COMMITTED)
	{
		b->state = STATE_COMMITS;
		b->decided = v.seq;
		node_claim(b->node, v.seq, v.seq, on_turn, b);
		return;
	}
	if (counts.refused++ == 0)
		fprintf(stderr, "grow: a transaction was refused: %.*s (%.*s)\n", (int) v.error.message.len, (const char *) v.error.message.data,
				(int) v.error.detail.len, (const char *) v.error.detail.data);
	go_on(b);
}

static void
handle_granted(Backend * b, LsSlice payload)
{
	LsGranted	m;
	const char *wrong = ls_get_granted(payload, &m);

	if (wrong != NULL)
		grow_fail("a malformed grant: %s", wrong);
	counts.granted++;
	if (b->role == BACKEND_TAKES_TURNS)
		node_await(b->node, m.seq, write_one_row, b);
	else if (b->role == BACKEND_WAITS)
		grow_fail("one that was to wait has got the lock");
}

static void
prove(Backend * b, LsSlice payload)
{
	LsChallenge challenge;
	uint8_t		proof[LS_PROOF_SIZE];
	LsProof		m = {.proof = {proof, sizeof(proof)}};
	LsSlice		secret = {load.secret.bytes, load.secret.len};

	if (ls_get_challenge(payload, &challenge) != NULL || !auth_proof(secret, "backend", &b->hello, challenge.nonce, proof))
		grow_fail("no handshake is possible");
	PUT(b, ls_put_proof(put_at, put_size, &m));
}

static void
on_retry(void *arg)
{
	connect_backend(arg);
}

static void
close_backend(Backend * b)
{
	loop_undefer(&b->flush);
	loop_unwatch(b->watch);
	b->watch = NULL;
	close(b->fd);
	b->in.len = b->in.pos = b->out.len = b->out.pos = 0;
}

static void
handle_error(Backend * b, LsSlice payload)
{
	LsErrorFields e;

	if (ls_get_error(payload, &e) != NULL)
		grow_fail("a malformed error");
	if (b->state != STATE_CONNECTS)
		grow_fail("a session has ended: %.*s", (int) e.message.len, (const char *) e.message.data);
	b->state = STATE_ENDED;		/* its node is not online yet */
}

static void
handle_message(Backend * b, LsMsgType type, LsSlice payload)
{
	LsWelcome	welcome;

	switch (type)
	{
		case LS_MSG_CHALLENGE:
			prove(b, payload);
			break;
		case LS_MSG_WELCOME:
			if (ls_get_welcome(payload, &welcome) != NULL)
				grow_fail("a malformed welcome");
			if (welcome.refused == 0)
				b->state = STATE_READY;
			break;
		case LS_MSG_VERDICT:
			handle_verdict(b, payload);
			break;
		case LS_MSG_GRANTED:
			handle_granted(b, payload);
			break;
		case LS_MSG_ERROR:
			handle_error(b, payload);
			break;
		case LS_MSG_ALIVE:
		case LS_MSG_APPLIED:
			break;
		default:
			grow_fail("a backend gets a message of type %c", type);
	}
}

static void
on_socket(void *arg, uint32_t events)
{
	Backend    *b = arg;
	uint8_t		bytes[16384];
	ssize_t		n;
	LsMsgType	type;
	LsSlice		payload;

	if (events & EPOLLOUT)
		on_flush(b);
	n = recv(b->fd, bytes, sizeof(bytes), 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
	{
		if (b->state != STATE_CONNECTS && b->state != STATE_ENDED)
			grow_fail("the replicator has ended a session");
		close_backend(b);
		b->state = STATE_CONNECTS;
		loop_after(RETRY_MS, on_retry, b);
		return;
	}
	buffer_append(&b->in, bytes, (size_t) n);
	while (ls_frame(b->in.data + b->in.pos, b->in.len - b->in.pos, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		handle_message(b, type, payload);
		b->in.pos += LS_HEADER_SIZE + payload.len;
	}
	if (b->in.pos == b->in.len)
		b->in.pos = b->in.len = 0;
}

/* ---------- connecting */

static void
connect_backend(Backend * b)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", load.socket);
	b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (b->fd < 0 || connect(b->fd, (struct sockaddr *) &address, sizeof(address)) != 0 || fake_cluster()[0] == '\0')
	{
		if (b->fd >= 0)
			close(b->fd);
		loop_after(RETRY_MS, on_retry, b);
		return;
	}
	b->watch = loop_watch(b->fd, EPOLLIN, on_socket, b);
	for (size_t i = 0; i < sizeof(b->nonce); i++)
		b->nonce[i] = (uint8_t) (b->number + i);
	b->hello.version = LS_PROTOCOL_VERSION;
	b->hello.database = ls_slice_of(b->database);
	b->hello.cluster = ls_slice_of(fake_cluster());
	b->hello.boot = fake_boot(b->node);
	b->hello.pid = (uint32_t) b->number + 1;
	b->hello.nonce = (LsSlice) {b->nonce, sizeof(b->nonce)};
	b->hello.application = ls_slice_of("grow");
	b->hello.role = ls_slice_of("grow");
	PUT(b, ls_put_hello(put_at, put_size, &b->hello));
}

Backend *
backend_open(Role role, int number)
{
	Backend    *b = xcalloc(1, sizeof(Backend));
	char	   *name;

	b->role = role;
	b->number = number;
	b->node = number % load.nodes;
	b->database_number = number / load.nodes % load.databases;
	snprintf(b->database, sizeof(b->database), "db%d", b->database_number + 1);
	name = xasprintf("n%d", b->node + 1);
	b->hello.node = ls_slice_of(name);
	b->flush.callback = on_flush;
	b->flush.arg = b;
	b->nkeys = load.writers > 0 ? load.keys / (uint64_t) load.writers : 0;
	if (b->nkeys < (uint64_t) load.rows)
		b->nkeys = (uint64_t) load.rows;
	b->first_key = b->nkeys * (uint64_t) number;
	connect_backend(b);
	return b;
}

bool
backend_is_ready(const Backend * b)
{
	return b->state == STATE_READY;
}

bool
backend_is_filled(const Backend * b)
{
	return b->filled >= b->nkeys;
}

void
backend_begin(Backend * b)
{
	b->stops = false;
	go_on(b);
}

void
backend_stop(Backend * b)
{
	b->stops = true;
}
