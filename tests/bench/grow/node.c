/*
 * node.c
 *	  Nodes that are no PostgreSQL: they answer what the replicator asks and apply what it sends at
 *	  once, in the order of the seqs.
 *
 * The replicator connects by libpq, so this is a server of PostgreSQL's protocol, version 3,
 * extended queries only.  What is executed is told by the beginning of its text (answers[]); the
 * others return no row, and are named on stderr the first time, since the replicator may have
 * learnt to ask something new.
 *
 * As on a node, a transaction that has claimed a seq gets the answer to its Sync when all before
 * it have committed, and its connection reads nothing meanwhile.  A node's own transactions come
 * by node_claim() from backend.c.
 */
#include "grow.h"

#include <arpa/inet.h>
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

#define TURNS (1 << 17)			/* a power of two */
#define READ_SIZE (256 * 1024)
#define MAX_COLUMNS 17
#define MAX_STATEMENTS 64

typedef struct Turn
{
	uint64_t	last;			/* 0: nobody has come */
	TurnPassed	passed;
	void	   *arg;
}			Turn;

typedef struct Waiter
{
	struct Waiter *next;
	uint64_t	seq;
	TurnPassed	passed;
	void	   *arg;
}			Waiter;

typedef struct FakeNode
{
	uint64_t	applied;
	Turn	   *turns;			/* by first seq */
	Waiter	   *waiters;		/* for a seq of others; few */
	bool		passing;
}			FakeNode;

static FakeNode nodes[MAX_NODES];
static char cluster[64];

/* What a statement does. */
typedef enum Does
{
	DOES_NOTHING, DOES_APPLY, DOES_COMMIT, DOES_FAIL, DOES_JOIN, DOES_FORGET
}			Does;

typedef struct Answer
{
	const char *text;			/* how it begins */
	Does		does;
	int			columns;
	int			rows;
	const char *values[MAX_COLUMNS];	/* @: see value_of() */
} Answer;

static const Answer answers[] = {
	{"CALL lockstep.apply_transaction(", DOES_APPLY, 0, 0, {0}},
	{"CALL lockstep.commit_transaction(", DOES_COMMIT, 0, 0, {0}},
	{"SELECT lockstep.apply_rollback()", DOES_FAIL, 1, 0, {0}},
	{"DEALLOCATE ALL", DOES_FORGET, 0, 0, {0}},
	{"SELECT pg_catalog.to_regprocedure(", DOES_JOIN, 5, 1, {"t", "t", "t", "", ""}},
	{"SELECT lockstep.set_cluster(", DOES_JOIN, 1, 1, {""}},
	{"SELECT current_setting('server_version_num')", DOES_NOTHING, 16, 1,
	{"15", "UTF8", "C", "C", "c", "", "", "", "8192", "63", "32", "", "1.1", "f", "@node", "t"}},
	{"SELECT coalesce((SELECT split_part(", DOES_NOTHING, 2, 1, {"", ""}},
	{"SELECT i.node, i.cluster", DOES_NOTHING, 9, 1, {"@node", "@cluster", "@boot", "@applied", "0", "t", "t", "f", "f"}},
	{"SELECT generation, run, silent_ms", DOES_NOTHING, 3, 1, {"0", "0", NULL}},
	{"SELECT clock_timestamp()::text", DOES_NOTHING, 3, 1, {"2000-01-01 00:00:00+00", NULL, NULL}},
	{"SELECT object, value FROM lockstep.fingerprint()", DOES_NOTHING, 2, 1, {"table public.t", "the same"}},
	{"SELECT lockstep.enter_generation(", DOES_NOTHING, 1, 1, {""}},
	{"SELECT seq, chain FROM lockstep.turn_open(", DOES_NOTHING, 2, 1, {"@applied", "0"}},
	{"SELECT name, value, increment, keys FROM lockstep.sequence_leases()", DOES_NOTHING, 4, 0, {0}},
	{"SELECT database, name, value, extra, keys", DOES_NOTHING, 5, 0, {0}},
	{"SELECT applied, pg_catalog.pg_current_wal_insert_lsn()", DOES_NOTHING, 3, 1, {"@applied", "0", "0"}},
	{"SELECT applied FROM lockstep.node_info()", DOES_NOTHING, 1, 1, {"@applied"}},
	{"SELECT d.oid, EXISTS", DOES_NOTHING, 3, 1, {"16384", "t", "@cluster"}},
	{"SELECT lockstep.sequences_reported()", DOES_NOTHING, 1, 1, {""}},
	{"SELECT lockstep.missing_unlogged()", DOES_NOTHING, 1, 1, {"0"}},
	{"SELECT lockstep.unlogged_settled()", DOES_NOTHING, 1, 1, {""}},
	{"SELECT lockstep.hold_writers(", DOES_NOTHING, 1, 1, {"0"}},
	{"SELECT * FROM lockstep.blockers(", DOES_NOTHING, 8, 0, {0}},
	{"SELECT pid FROM pg_catalog.pg_stat_activity", DOES_NOTHING, 1, 0, {0}},
	{"WITH a AS MATERIALIZED (SELECT pid", DOES_NOTHING, 8, 0, {0}},
	{"SELECT lockstep.yield(", DOES_NOTHING, 1, 1, {"f"}}
};

static const Answer no_rows = {"", DOES_NOTHING, 1, 0, {0}};
static const Answer empty_query = {"", DOES_NOTHING, 0, 0, {0}};

typedef struct Statement
{
	char		name[64];
	const Answer *answer;
} Statement;

typedef struct Conn
{
	int			node;
	int			fd;
	Watch	   *watch;
	Buffer		in;
	Buffer		out;
	Deferred	flush;
	bool		started;
	bool		waits;			/* for its turn, at Sync */
	bool		failed;			/* until Sync */
	uint64_t	first;			/* claimed */
	uint64_t	last;
	Statement	statements[MAX_STATEMENTS];
	int			nstatements;
	const Answer *bound;
}			Conn;

static void handle_input(Conn * c);

uint64_t
fake_boot(int node)
{
	return 1000 + (uint64_t) node;
}

uint64_t
fake_applied(int node)
{
	return nodes[node].applied;
}

const char *
fake_cluster(void)
{
	return cluster;
}

/* ---------- turns */

void
node_claim(int node, uint64_t first, uint64_t last, TurnPassed passed, void *arg)
{
	FakeNode   *n = &nodes[node];

	if (last - n->applied >= TURNS)
		grow_fail("node %d is asked for seq %" PRIu64 " and has applied %" PRIu64, node, last, n->applied);
	n->turns[first & (TURNS - 1)] = (Turn) {last, passed, arg};
	if (n->passing)
		return;
	n->passing = true;
	for (;;)
	{
		Turn	   *t = &n->turns[(n->applied + 1) & (TURNS - 1)];
		Turn		now = *t;

		if (now.last <= n->applied)
			break;
		t->last = 0;
		n->applied = now.last;
		now.passed(now.arg);
	}
	n->passing = false;
	for (Waiter * *link = &n->waiters; *link != NULL;)
	{
		Waiter	   *w = *link;

		if (w->seq > n->applied)
		{
			link = &w->next;
			continue;
		}
		*link = w->next;
		w->passed(w->arg);
		free(w);
	}
}

void
node_await(int node, uint64_t seq, TurnPassed passed, void *arg)
{
	FakeNode   *n = &nodes[node];
	Waiter	   *w;

	if (seq <= n->applied)
	{
		passed(arg);
		return;
	}
	w = xmalloc(sizeof(Waiter));
	*w = (Waiter) {n->waiters, seq, passed, arg};
	n->waiters = w;
}

/* ---------- what is sent */

static void
put(Conn * c, const void *bytes, size_t len)
{
	buffer_append(&c->out, bytes, len);
	loop_defer(&c->flush);
}

static void
put_int(Conn * c, uint32_t value, size_t size)
{
	uint32_t	net = htonl(value << (8 * (4 - size)));

	put(c, &net, size);
}

static void
put_text(Conn * c, const char *text)
{
	put(c, text, strlen(text) + 1);
}

/* Returns where its length has to be put. */
static size_t
begin(Conn * c, char type)
{
	put(c, &type, 1);
	put_int(c, 0, 4);
	return c->out.len - 4;
}

static void
end(Conn * c, size_t at)
{
	uint32_t	len = htonl((uint32_t) (c->out.len - at));

	memcpy(c->out.data + at, &len, 4);
}

static void
put_empty(Conn * c, char type)
{
	end(c, begin(c, type));
}

static void
put_ready(Conn * c)
{
	size_t		at = begin(c, 'Z');

	put(c, "I", 1);
	end(c, at);
}

static void
put_columns(Conn * c, int n)
{
	size_t		at = begin(c, 'T');

	put_int(c, (uint32_t) n, 2);
	for (int i = 0; i < n; i++)
	{
		put_text(c, "c");
		put_int(c, 0, 4);
		put_int(c, 0, 2);
		put_int(c, 25, 4);
		put_int(c, 0xFFFF, 2);
		put_int(c, 0xFFFFFFFF, 4);
		put_int(c, 0, 2);
	}
	end(c, at);
}

static const char *
value_of(const Conn * c, const char *value, char text[32])
{
	if (strcmp(value, "@cluster") == 0)
		return cluster;
	if (strcmp(value, "@node") == 0)
		snprintf(text, 32, "n%d", c->node + 1);
	else if (strcmp(value, "@boot") == 0)
		snprintf(text, 32, "%" PRIu64, fake_boot(c->node));
	else if (strcmp(value, "@applied") == 0)
		snprintf(text, 32, "%" PRIu64, nodes[c->node].applied);
	else
		return value;
	return text;
}

static void
put_row(Conn * c, const Answer *a)
{
	size_t		at = begin(c, 'D');

	put_int(c, (uint32_t) a->columns, 2);
	for (int i = 0; i < a->columns; i++)
	{
		char		text[32];
		const char *value = a->values[i] != NULL ? value_of(c, a->values[i], text) : NULL;

		put_int(c, value != NULL ? (uint32_t) strlen(value) : 0xFFFFFFFF, 4);
		if (value != NULL)
			put(c, value, strlen(value));
	}
	end(c, at);
}

static void
put_done(Conn * c, const Answer *a)
{
	size_t		at = begin(c, 'C');

	put_text(c, a->columns > 0 ? "SELECT 1" : "CALL");
	end(c, at);
}

static void
put_failure(Conn * c, const char *sqlstate, const char *message)
{
	size_t		at = begin(c, 'E');

	put_text(c, "SERROR");
	put_text(c, "VERROR");
	put(c, "C", 1);
	put_text(c, sqlstate);
	put(c, "M", 1);
	put_text(c, message);
	put(c, "", 1);
	end(c, at);
	c->failed = true;
}

/* ---------- what is received */

static const Answer *
answer_to(const char *text)
{
	static char unknown[16][40];
	static int	nunknown;

	if (text[0] == '\0')
		return &empty_query;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
	{
		if (strncmp(text, answers[i].text, strlen(answers[i].text)) == 0)
			return &answers[i];
	}
	for (int i = 0; i < nunknown; i++)
	{
		if (strncmp(text, unknown[i], sizeof(unknown[i]) - 1) == 0)
			return &no_rows;
	}
	if (nunknown < 16)
		snprintf(unknown[nunknown++], sizeof(unknown[0]), "%s", text);
	fprintf(stderr, "grow: a node is asked \"%.60s\" and has no row for that\n", text);
	return &no_rows;
}

static Statement *
statement(Conn * c, const char *name)
{
	for (int i = 0; i < c->nstatements; i++)
	{
		if (strcmp(c->statements[i].name, name) == 0)
			return &c->statements[i];
	}
	return NULL;
}

static void
handle_parse(Conn * c, const char *body)
{
	Statement  *s = statement(c, body);

	if (s == NULL && c->nstatements == MAX_STATEMENTS)
		grow_fail("a connection prepares too many statements");
	if (s == NULL)
		s = &c->statements[c->nstatements++];
	snprintf(s->name, sizeof(s->name), "%s", body);
	s->answer = answer_to(body + strlen(body) + 1);
	put_empty(c, '1');
}

static uint32_t
get_int(const char *at, size_t size)
{
	uint32_t	net = 0;

	memcpy(&net, at, size);
	return ntohl(net) >> (8 * (4 - size));
}

/* The first parameter of a Bind. */
static LsSlice
first_param(const char *at)
{
	uint32_t	formats;

	at += strlen(at) + 1;
	at += strlen(at) + 1;
	formats = get_int(at, 2);
	at += 2 + 2 * formats;
	if (get_int(at, 2) == 0)
		return (LsSlice) {0};
	return (LsSlice) {(const uint8_t *) at + 6, get_int(at + 2, 4)};
}

static void
take_work(Conn * c, LsSlice param)
{
	LsWork		work;

	if (!ls_get_work(param, &work))
		grow_fail("a malformed call of apply_transaction()");
	if (work.seq == 0)
		return;					/* it is only to be executed */
	c->first = work.first != 0 ? work.first : work.seq;
	c->last = work.seq;
}

static void
handle_bind(Conn * c, const char *body)
{
	Statement  *s = statement(c, body + strlen(body) + 1);
	LsSlice		param = first_param(body);

	if (s == NULL)
		grow_fail("statement \"%s\" was not prepared", body + strlen(body) + 1);
	c->bound = s->answer;
	if (c->bound->does == DOES_APPLY || c->bound->does == DOES_COMMIT)
		take_work(c, param);
	else if (c->bound->does == DOES_JOIN)
		snprintf(cluster, sizeof(cluster), "%.*s", (int) param.len, (const char *) param.data);
	put_empty(c, '2');
}

static void
handle_execute(Conn * c)
{
	if (c->bound == &empty_query)
		put_empty(c, 'I');
	else if (c->bound->does == DOES_FAIL)
		put_failure(c, "LS002", "rolled back as wished");
	else
	{
		for (int i = 0; i < c->bound->rows; i++)
			put_row(c, c->bound);
		put_done(c, c->bound);
		if (c->bound->does == DOES_FORGET)
			c->nstatements = 0;
	}
}

static void
on_turn(void *arg)
{
	Conn	   *c = arg;

	counts.applied += c->last - c->first + 1;
	c->first = c->last = 0;
	put_ready(c);
	c->waits = false;
	handle_input(c);
}

static void
handle_sync(Conn * c)
{
	bool		claims = c->last != 0 && !c->failed;

	if (claims && c->last <= nodes[c->node].applied)
	{
		put_failure(c, "LS001", "it is applied already");
		claims = false;
	}
	c->failed = false;
	if (!claims)
	{
		c->first = c->last = 0;
		put_ready(c);
		return;
	}
	c->waits = true;
	node_claim(c->node, c->first, c->last, on_turn, c);
}

static void
handle_message(Conn * c, char type, const char *body)
{
	if (c->failed && type != 'S')
		return;
	switch (type)
	{
		case 'P':
			handle_parse(c, body);
			break;
		case 'B':
			handle_bind(c, body);
			break;
		case 'D':
			if (c->bound->columns > 0)
				put_columns(c, c->bound->columns);
			else
				put_empty(c, 'n');
			break;
		case 'E':
			handle_execute(c);
			break;
		case 'H':
			loop_defer(&c->flush);
			break;
		case 'S':
			handle_sync(c);
			break;
		case 'X':
			break;
		default:
			grow_fail("a node gets a message of type %c", type);
	}
}

static void
put_parameter(Conn * c, const char *name, const char *value)
{
	size_t		at = begin(c, 'S');

	put_text(c, name);
	put_text(c, value);
	end(c, at);
}

static void
handle_startup(Conn * c)
{
	static uint32_t last_pid = 100000;
	size_t		at = begin(c, 'R');

	put_int(c, 0, 4);
	end(c, at);
	put_parameter(c, "server_version", "15.0");
	put_parameter(c, "server_encoding", "UTF8");
	put_parameter(c, "client_encoding", "UTF8");
	put_parameter(c, "standard_conforming_strings", "on");
	at = begin(c, 'K');
	put_int(c, ++last_pid, 4);
	put_int(c, 1, 4);
	end(c, at);
	put_ready(c);
	c->started = true;
}

static void
handle_input(Conn * c)
{
	size_t		pos = c->in.pos;

	while (!c->waits)
	{
		size_t		type_len = c->started ? 1 : 0;
		const char *at = (const char *) c->in.data + pos;
		size_t		len;

		if (c->in.len - pos < type_len + 4)
			break;
		len = type_len + get_int(at + type_len, 4);
		if (c->in.len - pos < len)
			break;
		pos += len;
		c->in.pos = pos;		/* it may come back here by on_turn() */
		if (c->started)
			handle_message(c, at[0], at + 5);
		else
			handle_startup(c);
		if (c->in.pos != pos)
			return;				/* it has */
	}
	if (pos == c->in.len)
		c->in.pos = c->in.len = 0;
}

/* ---------- sockets */

static void
close_conn(Conn * c)
{
	loop_undefer(&c->flush);
	loop_unwatch(c->watch);
	close(c->fd);
	if (c->waits)
		grow_fail("the replicator has left while a transaction of it was waiting for its turn");
	buffer_free(&c->in);
	buffer_free(&c->out);
	free(c);
}

static void
on_flush(void *arg)
{
	Conn	   *c = arg;

	while (c->out.pos < c->out.len)
	{
		ssize_t		n = send(c->fd, c->out.data + c->out.pos, c->out.len - c->out.pos, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
		{
			loop_change(c->watch, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n < 0)
			return;				/* it is read that it is closed */
		buffer_consume(&c->out, (size_t) n);
	}
	loop_change(c->watch, EPOLLIN);
}

static void
on_conn(void *arg, uint32_t events)
{
	static char bytes[READ_SIZE];
	Conn	   *c = arg;
	ssize_t		n;

	if (events & EPOLLOUT)
		on_flush(c);
	n = recv(c->fd, bytes, sizeof(bytes), 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
	{
		close_conn(c);
		return;
	}
	buffer_append(&c->in, bytes, (size_t) n);
	handle_input(c);
}

static int	listening[MAX_NODES];

static void
on_listen(void *arg, uint32_t events)
{
	int			node = (int) (intptr_t) arg;
	int			fd;

	while ((fd = accept4(listening[node], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
	{
		Conn	   *c = xcalloc(1, sizeof(Conn));

		c->node = node;
		c->fd = fd;
		c->flush.callback = on_flush;
		c->flush.arg = c;
		c->watch = loop_watch(fd, EPOLLIN, on_conn, c);
	}
}

void
node_listen(int node, const char *dir)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	nodes[node].turns = xcalloc(TURNS, sizeof(Turn));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.%d", dir, FIRST_PORT + node);
	unlink(address.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 || listen(fd, 4096) != 0)
		grow_fail("could not listen at \"%s\": %s", address.sun_path, strerror(errno));
	listening[node] = fd;
	loop_watch(fd, EPOLLIN, on_listen, (void *) (intptr_t) node);
}
