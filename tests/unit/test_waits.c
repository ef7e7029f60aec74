/*
 * test_waits.c
 *	  Proves that no cycle of waits is missed and none is invented: of random graphs,
 *	  against the transitive closure; and of a cluster in small, in which transactions
 *	  of several nodes run random programs - locks of their node, locks asked first,
 *	  COMMIT - on the real certifier, against the model of it and a brute-force
 *	  search.  Of each cycle one loses, by rank; then all of them end.
 *
 * SEED and SEEDS in the environment change the random tests.
 */
#include "unit.h"

#define MODEL_MAX_TX 128

#include "certify_model.c"
#include "waitgraph.h"

#define MAX_PARTIES 24

/* ---------- the graph alone */

typedef bool Matrix[MAX_PARTIES][MAX_PARTIES];

static void
close_over(Matrix reaches, size_t n)
{
	for (size_t k = 0; k < n; k++)
	{
		for (size_t i = 0; i < n; i++)
		{
			for (size_t j = 0; j < n; j++)
				reaches[i][j] |= reaches[i][k] && reaches[k][j];
		}
	}
}

/* Does it reach a party that waits for itself? */
static bool
is_stuck(Matrix closed, size_t n, size_t i)
{
	for (size_t j = 0; j < n; j++)
	{
		if (closed[j][j] && (i == j || closed[i][j]))
			return true;
	}
	return false;
}

/* What was found is a cycle: each waits for the next, and nobody comes twice. */
static void
check_cycle(const WaitGraph *g, const uint32_t *edges, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		assert_int_equal(g->edges[edges[i]].blocker, g->edges[edges[(i + 1) % n]].waiter);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(g->edges[edges[i]].waiter, g->edges[edges[j]].waiter);
	}
}

static void
random_graph(void)
{
	WaitGraph	g = {0};
	Matrix		reaches = {{false}};
	uint32_t	parties[MAX_PARTIES];
	uint32_t	edges[MAX_PARTIES];
	size_t		n = 2 + unit_below(MAX_PARTIES - 2);
	size_t		nedges = unit_below(2 * n);
	size_t		length;
	bool		any = false;

	for (size_t i = 0; i < n; i++)
	{
		parties[i] = waitgraph_party(&g, (int) (i % 3), (uint32_t) i, 7);
		assert_int_equal(waitgraph_party(&g, (int) (i % 3), (uint32_t) i, 7), parties[i]);
		g.parties[parties[i]].loses = LOSES_HERE;
	}
	for (size_t i = 0; i < nedges; i++)
	{
		size_t		from = unit_below(n);
		size_t		to = unit_below(n);
		bool		is_edge = unit_below(5) != 0;

		waitgraph_add(&g, is_edge ? WAIT_LOCK : WAIT_EXECUTION, parties[from], parties[to], -1, 0, "it");
		reaches[from][to] |= is_edge && from != to;
	}
	close_over(reaches, n);
	length = waitgraph_cycle(&g, edges, MAX_PARTIES);
	for (size_t i = 0; i < n; i++)
	{
		any |= reaches[i][i];
		assert_int_equal(g.parties[parties[i]].waits > 0, is_stuck(reaches, n, i));
	}
	assert_int_equal(length > 0, any);
	while (length > 0)
	{
		uint32_t	victim = waitgraph_victim(&g, edges, length);
		char	   *words = waitgraph_words(&g, victim, edges, length);

		check_cycle(&g, edges, length);
		assert_true(strlen(words) > 0 && strstr(words, "this one.") != NULL);
		free(words);
		waitgraph_remove(&g, victim);
		length = waitgraph_cycle(&g, edges, MAX_PARTIES);
	}
	waitgraph_free(&g);
}

static void
test_graph(void **state)
{
	unit_seed(20261122);
	for (uint64_t i = 0; i < 20000; i++)
		random_graph();
}

static uint32_t
add_party(WaitGraph *g, uint32_t pid, WaitLoser loses, bool at_front, uint64_t done, uint64_t since)
{
	uint32_t	i = waitgraph_party(g, 0, pid, 1);

	g->parties[i].loses = loses;
	g->parties[i].at_front = at_front;
	g->parties[i].done = done;
	g->parties[i].since_us = since;
	return i;
}

/* Who has waited its way to the front is spared, then who has done most. */
static void
test_victim(void **state)
{
	WaitGraph	g = {0};
	uint32_t	edges[4];
	uint32_t	front = add_party(&g, 1, LOSES_HERE, true, 1, 9);
	uint32_t	most = add_party(&g, 2, LOSES_HERE, false, 50, 9);
	uint32_t	least = add_party(&g, 3, LOSES_HERE, false, 2, 1);
	uint32_t	decided = add_party(&g, 4, LOSES_NEVER, false, 0, 10);
	size_t		n;

	waitgraph_add(&g, WAIT_LOCK, front, most, -1, 0, NULL);
	waitgraph_add(&g, WAIT_LOCAL, most, least, 0, 0, NULL);
	waitgraph_add(&g, WAIT_RESERVATION, least, decided, -1, 0, NULL);
	waitgraph_add(&g, WAIT_LOCAL, decided, front, 0, 0, NULL);
	n = waitgraph_cycle(&g, edges, 4);
	assert_int_equal(n, 4);
	assert_int_equal(waitgraph_victim(&g, edges, n), least);
	g.parties[least].loses = LOSES_THERE;
	assert_int_equal(waitgraph_victim(&g, edges, n), most);
	g.parties[most].loses = LOSES_NEVER;
	assert_int_equal(waitgraph_victim(&g, edges, n), least);
	g.parties[least].loses = LOSES_NEVER;
	assert_int_equal(waitgraph_victim(&g, edges, n), front);
	g.parties[front].loses = LOSES_NEVER;
	assert_int_equal(waitgraph_victim(&g, edges, n), WAIT_NOBODY);
	waitgraph_free(&g);
}

/* ---------- a cluster in small */

#define NODES 3
#define TXS 11					/* at most MODEL_MAX_LOCKS */
#define LOCALS 3				/* local locks of each node */
#define MAX_STEPS 6
#define TX_KEYS 3

typedef enum SimState
{
	SIM_RUNS,
	SIM_WAITS_LOCAL,			/* for the lock of its node: local */
	SIM_WAITS_LOCK,				/* for what it asked the certifier for */
	SIM_WAITS_COMMIT,			/* at its reservation */
	SIM_RESERVED,
	SIM_OVER
}			SimState;

typedef struct SimTx
{
	SimState	state;
	OriginId	origin;
	uint64_t	ticket;			/* of its lock; 0: none */
	uint64_t	reserved;
	size_t		steps;			/* left */
	int			local;
	uint64_t	order;			/* in that lock's queue */
	bool		has[LOCALS];
	LsKey		keys[TX_KEYS];
	size_t		nkeys;
}			SimTx;

typedef struct Sim
{
	Certifier  *c;
	Model	   *m;
	SimTx		txs[TXS];
	uint64_t	tickets;
	uint64_t	order;
	uint64_t	seq;
	uint64_t	cycles;
	uint64_t	at_once;
	uint64_t	commits;
}			Sim;

static size_t
sim_keys(const Sim * s, LsKey *keys)
{
	static const LsKeyMode modes[2][3] = {
		{LS_ROW_EXCLUSIVE, LS_ROW_EXCLUSIVE, LS_ROW_UPDATE}, {LS_TABLE_X, LS_TABLE_IX, LS_TABLE_S}
	};
	size_t		n = 1 + unit_below(TX_KEYS);

	for (size_t i = 0; i < n; i++)
	{
		bool		table = unit_below(3) == 0;

		keys[i] = (LsKey) {.hash = unit_below(table ? 2 : 4),.mode = modes[table][unit_below(3)],.seen = s->m->highest};
	}
	return n;
}

static void
sim_give_back(Sim * s, SimTx * tx)
{
	if (tx->ticket != 0)
	{
		certifier_unlock(s->c, tx->ticket);
		model_unlock(s->m, tx->ticket);
		tx->ticket = 0;
	}
	memset(tx->has, 0, sizeof(tx->has));
}

static void
sim_end(Sim * s, SimTx * tx)
{
	if (tx->state == SIM_RESERVED)
	{
		certifier_release(s->c, tx->reserved);
		model_release(s->m, tx->reserved);
	}
	sim_give_back(s, tx);
	tx->state = SIM_OVER;
}

/* Whom does it wait for on its node?  NULL at the end. */
static SimTx *
local_blocker(Sim * s, const SimTx * tx, size_t *at)
{
	for (; *at < TXS; (*at)++)
	{
		SimTx	   *other = &s->txs[*at];

		if (other == tx || other->origin != tx->origin || tx->state != SIM_WAITS_LOCAL)
			continue;
		if (other->has[tx->local] ||
			(other->state == SIM_WAITS_LOCAL && other->local == tx->local && other->order < tx->order))
		{
			(*at)++;
			return other;
		}
	}
	return NULL;
}

static void
sim_take_local(Sim * s, SimTx * tx)
{
	size_t		at = 0;

	if (local_blocker(s, tx, &at) != NULL)
		return;
	tx->has[tx->local] = true;
	tx->state = SIM_RUNS;
}

/* Certifier and model agree; both have it then. */
static void
sim_reserve(Sim * s, SimTx * tx)
{
	Certificate got;
	Certificate expected;
	CertifyResult result;

	tx->reserved = ++s->tickets;
	result = certifier_reserve(s->c, tx->origin, tx->reserved, false, tx->keys, tx->nkeys, &got);
	assert_int_equal(result, model_reserve(s->m, tx->origin, tx->reserved, false, tx->keys, tx->nkeys, &expected));
	if (result == CERTIFY_CONFLICT)
		sim_end(s, tx);
	else if (result == CERTIFY_RESERVED)
	{
		tx->state = SIM_RESERVED;
		if (tx->ticket != 0)
		{
			(void) certifier_lock_blocked(s->c, tx->ticket, 0);
			(void) model_lock_blocked(s->m, tx->ticket, 0);
		}
	}
	else
	{
		tx->state = SIM_WAITS_COMMIT;
		if (tx->ticket != 0)
		{
			LockResult	blocked = certifier_lock_blocked(s->c, tx->ticket, got.lock_ticket);

			assert_int_equal(blocked, model_lock_blocked(s->m, tx->ticket, got.lock_ticket));
			if (blocked == LOCK_DEADLOCK)
			{
				s->at_once++;
				sim_end(s, tx);
			}
		}
	}
}

static void
sim_ask_first(Sim * s, SimTx * tx)
{
	LsKey		keys[TX_KEYS];
	size_t		n = sim_keys(s, keys);
	bool		rows = unit_below(2) == 0;	/* names tables as gates */
	DdlLock		ddl = {!rows && unit_below(6) == 0, unit_below(3) == 0, unit_below(3)};
	bool		yields = rows && unit_below(3) == 0;
	uint64_t	seq = 0;
	LockResult	result;

	for (size_t i = 0; rows && i < n; i++)
	{
		if (ls_mode_is_table(keys[i].mode))
			keys[i].mode = LS_TABLE_READ_ROWS;
	}
	if (tx->ticket == 0)
		tx->ticket = ++s->tickets;
	result = certifier_lock(s->c, tx->origin, tx->ticket, keys, n, ddl, yields, &seq);
	assert_int_equal(result, model_lock(s->m, tx->origin, tx->ticket, keys, n, ddl, yields, &seq));
	if (result == LOCK_DEADLOCK)
	{
		s->at_once++;
		if (model_find_lock(s->m, tx->ticket) == NULL)
		{
			certifier_unlock(s->c, tx->ticket);
			tx->ticket = 0;
		}
		sim_end(s, tx);
	}
	else
		tx->state = result == LOCK_GRANTED ? SIM_RUNS : SIM_WAITS_LOCK;
}

/* The decided ones that nobody needs any more. */
static void
sim_decide(Sim * s, SimTx * tx)
{
	s->seq++;
	certifier_decide(s->c, tx->reserved, s->seq);
	model_decide(s->m, tx->reserved, s->seq);
	if (s->m->ndecided == MODEL_MAX_TX)
	{
		certifier_forget(s->c, s->seq);
		s->m->floor = s->seq;
		s->m->ndecided = 0;
	}
	tx->state = SIM_RUNS;		/* not reserved any more */
	s->commits++;
	sim_end(s, tx);
}

static void
sim_begin(Sim * s, SimTx * tx)
{
	memset(tx, 0, sizeof(*tx));
	tx->origin = (OriginId) unit_below(NODES);
	tx->steps = 1 + unit_below(MAX_STEPS);
	tx->nkeys = sim_keys(s, tx->keys);
}

static void
sim_step(Sim * s, SimTx * tx)
{
	switch (tx->state)
	{
		case SIM_OVER:
			break;
		case SIM_RESERVED:
			if (unit_below(4) == 0)
				sim_decide(s, tx);
			break;
		case SIM_WAITS_LOCAL:
			sim_take_local(s, tx);
			break;
		case SIM_WAITS_COMMIT:
			sim_reserve(s, tx);
			break;
		case SIM_WAITS_LOCK:
			break;				/* granted by sim_grants() */
		case SIM_RUNS:
			if (tx->steps-- == 1)
				sim_reserve(s, tx);
			else if (unit_below(3) == 0)
				sim_ask_first(s, tx);
			else
			{
				tx->local = (int) unit_below(LOCALS);
				tx->order = ++s->order;
				tx->state = SIM_WAITS_LOCAL;
				sim_take_local(s, tx);
			}
			break;
	}
}

/* What has been granted, by both. */
static void
sim_grants(Sim * s)
{
	uint64_t	ticket;
	uint64_t	seq;

	while (certifier_next_grant(s->c, &ticket, &seq))
	{
		uint64_t	expected;

		assert_int_equal(model_lock_retry(s->m, ticket, &expected), LOCK_GRANTED);
		for (size_t i = 0; i < TXS; i++)
		{
			if (s->txs[i].ticket == ticket && s->txs[i].state == SIM_WAITS_LOCK)
				s->txs[i].state = SIM_RUNS;
		}
	}
	for (size_t i = 0; i < TXS; i++)
	{
		uint64_t	unused;

		if (s->txs[i].state == SIM_WAITS_LOCK)
			assert_int_not_equal(model_lock_retry(s->m, s->txs[i].ticket, &unused), LOCK_GRANTED);
	}
}

/* ---------- who waits for whom: by the graph, by the model */

typedef struct Telling
{
	Sim		   *s;
	WaitGraph  *g;
	uint32_t	waiter;
} Telling;

static uint32_t
sim_party(WaitGraph *g, const Sim * s, const SimTx * tx)
{
	uint32_t	i = waitgraph_party(g, (int) tx->origin, (uint32_t) (tx - s->txs), 1);

	g->parties[i].loses = tx->state == SIM_RESERVED ? LOSES_NEVER : LOSES_HERE;
	g->parties[i].done = tx->ticket;
	return i;
}

static void
found(void *arg, uint64_t lock, uint64_t reserved)
{
	Telling    *t = arg;

	for (size_t i = 0; i < TXS; i++)
	{
		SimTx	   *tx = &t->s->txs[i];

		if ((lock != 0 && tx->ticket == lock) || (reserved != 0 && tx->state == SIM_RESERVED && tx->reserved == reserved))
			waitgraph_add(t->g, WAIT_LOCK, t->waiter, sim_party(t->g, t->s, tx), -1, 0, NULL);
	}
}

static void
sim_graph(Sim * s, WaitGraph *g)
{
	for (size_t i = 0; i < TXS; i++)
	{
		SimTx	   *tx = &s->txs[i];
		SimTx	   *other;
		size_t		at = 0;
		Telling		t = {s, g, sim_party(g, s, tx)};

		while ((other = local_blocker(s, tx, &at)) != NULL)
			waitgraph_add(g, WAIT_LOCAL, t.waiter, sim_party(g, s, other), (int) tx->origin, 0, NULL);
		if (tx->state == SIM_WAITS_LOCK)
			certifier_lock_blockers(s->c, tx->ticket, found, &t);
		if (tx->state == SIM_WAITS_COMMIT)
			certifier_reserve_blockers(s->c, tx->origin, tx->keys, tx->nkeys, found, &t);
	}
}

/* Does tx wait for other, as far as the replicator decides it? */
static bool
model_waits(const Sim * s, const SimTx * tx, const SimTx * other)
{
	const		Model *m = s->m;
	const		ModelLock *theirs = other->ticket != 0 ? model_find_lock(s->m, other->ticket) : NULL;

	if (tx->state == SIM_WAITS_LOCK)
	{
		const		ModelLock *ours = model_find_lock(s->m, tx->ticket);

		for (size_t i = 0; other->state == SIM_RESERVED && i < m->nreserved; i++)
		{
			if (m->reserved[i].ticket == other->reserved && model_lock_waits_for(ours, &m->reserved[i]))
				return true;
		}
		return theirs != NULL && lock_waits_for_lock(ours, theirs);
	}
	for (size_t i = 0; tx->state == SIM_WAITS_COMMIT && theirs != NULL && i < tx->nkeys; i++)
	{
		if (lock_in_way(m, (size_t) (theirs - m->locks), tx->origin, &tx->keys[i]))
			return true;
	}
	return false;
}

static void
model_matrix(Sim * s, Matrix waits)
{
	for (size_t i = 0; i < TXS; i++)
	{
		SimTx	   *other;
		size_t		at = 0;

		for (size_t j = 0; j < TXS; j++)
			waits[i][j] = i != j && s->txs[j].state != SIM_OVER && model_waits(s, &s->txs[i], &s->txs[j]);
		while ((other = local_blocker(s, &s->txs[i], &at)) != NULL)
			waits[i][other - s->txs] = true;
	}
}

/* No party of a cycle is missed, none is invented; one of each cycle loses. */
static void
sim_look(Sim * s)
{
	WaitGraph	g = {0};
	Matrix		waits;
	uint32_t	edges[TXS];
	size_t		length;

	sim_graph(s, &g);
	model_matrix(s, waits);
	close_over(waits, TXS);
	length = waitgraph_cycle(&g, edges, TXS);
	for (size_t i = 0; i < TXS; i++)
		assert_int_equal(g.parties[sim_party(&g, s, &s->txs[i])].waits > 0, is_stuck(waits, TXS, i));
	while (length > 0)
	{
		uint32_t	victim = waitgraph_victim(&g, edges, length);

		check_cycle(&g, edges, length);
		for (size_t i = 0; i < length; i++)
		{
			size_t		at = g.parties[g.edges[edges[i]].waiter].pid;

			assert_true(waits[at][at]);
		}
		assert_int_not_equal(victim, WAIT_NOBODY);
		sim_end(s, &s->txs[g.parties[victim].pid]);
		s->cycles++;
		waitgraph_remove(&g, victim);
		length = waitgraph_cycle(&g, edges, TXS);
	}
	waitgraph_free(&g);
}

static bool
sim_all_over(const Sim * s)
{
	for (size_t i = 0; i < TXS; i++)
	{
		if (s->txs[i].state != SIM_OVER)
			return false;
	}
	return true;
}

static void
simulate(Sim * total)
{
	Sim			s = {0};

	s.c = certifier_create(0);
	s.m = calloc(1, sizeof(Model));
	for (size_t i = 0; i < TXS; i++)
		sim_begin(&s, &s.txs[i]);
	for (int i = 0; i < 4000 && !sim_all_over(&s); i++)
	{
		SimTx	   *tx = &s.txs[unit_below(TXS)];

		sim_step(&s, tx);
		if (tx->state == SIM_OVER && i < 100)
			sim_begin(&s, tx);
		sim_grants(&s);
		assert_true(model_is_sound(s.m));
		if (unit_below(12) == 0)
			sim_look(&s);
	}
	assert_true(sim_all_over(&s));
	assert_int_equal(s.m->nlocks, 0);
	assert_int_equal(s.m->nreserved, 0);
	certifier_destroy(s.c);
	free(s.m);
	total->cycles += s.cycles;
	total->at_once += s.at_once;
	total->commits += s.commits;
}

static void
test_simulation(void **state)
{
	uint64_t	seeds = unit_env("SEEDS", 6000);
	uint64_t	first = unit_env("SEED", 20261122);
	Sim			total = {0};

	for (uint64_t i = 0; i < seeds; i++)
	{
		unit_random_state = first + i;
		simulate(&total);
	}
	printf("%llu commits, %llu circles found when they closed, %llu by looking\n", (unsigned long long) total.commits,
		   (unsigned long long) total.at_once, (unsigned long long) total.cycles);
	assert_true(total.cycles > seeds / 10 && total.commits > seeds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_victim),
		cmocka_unit_test(test_simulation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
