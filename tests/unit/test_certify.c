/*
 * test_certify.c
 *	  Proves that the certifier says what the rules say: against a brute-force
 *	  model, with random transactions, locks and forgetting over few keys and
 *	  origins; and, one by one, the cases that people argue about.
 *
 * SEED and STEPS in the environment change the random tests.
 */
#include "unit.h"

#include <time.h>

#include "certify_model.c"

static const LsKeyMode row_modes[] = {LS_ROW_SHARE, LS_ROW_UPDATE, LS_ROW_EXCLUSIVE, LS_ROW_LOCK, LS_ROW_READ};
static const LsKeyMode table_modes[] = {LS_TABLE_IS, LS_TABLE_IX, LS_TABLE_S, LS_TABLE_X, LS_TABLE_READ, LS_TABLE_READ_ROWS};

/* ---------- against the model */

typedef struct Both
{
	Certifier  *c;
	Model	   *m;
	uint64_t	ticket;
	uint64_t	conflicts;
	uint64_t	waits;
	uint64_t	deadlocks;
	uint64_t	granted;
	uint64_t	reserved;
}			Both;

static size_t
random_keys(const Model * m, LsKey *keys, bool for_lock)
{
	size_t		n = unit_below(MODEL_MAX_KEYS / (for_lock ? 2 : 1)) + (for_lock ? 0 : 1);

	for (size_t i = 0; i < n; i++)
	{
		bool		table = unit_below(3) == (for_lock ? 1 : 0) || (for_lock && unit_below(2));

		memset(&keys[i], 0, sizeof(keys[i]));
		keys[i].hash = unit_below(table ? 5 : for_lock ? 8 : 40);	/* 0 is legal, and
																	 * shared by both kinds */
		if (table)
			keys[i].mode = for_lock ? (unit_below(5) == 0 ? LS_TABLE_READ_ROWS : unit_below(3) ? LS_TABLE_X : table_modes[unit_below(4)]) :
				(unit_below(12) ? table_modes[unit_below(2)] : table_modes[unit_below(6)]);
		else
			keys[i].mode = row_modes[unit_below(for_lock ? 4 : 5)];
		keys[i].seen = m->highest - (unit_below(3) == 0 ? unit_below(6) : 0);
		if (keys[i].seen > m->highest)
			keys[i].seen = 0;
	}
	return n;
}

static void
assert_same_reserve(Both * b, OriginId origin, const LsKey *keys, size_t nkeys)
{
	Certificate got,
				expected;
	CertifyResult result;
	bool		ddl = unit_below(5) == 0;

	b->ticket++;
	result = certifier_reserve(b->c, origin, b->ticket, ddl, keys, nkeys, &got);
	assert_int_equal(result, model_reserve(b->m, origin, b->ticket, ddl, keys, nkeys, &expected));
	switch (result)
	{
		case CERTIFY_RESERVED:
			b->reserved++;
			assert_int_equal(got.depends_on, expected.depends_on);
			assert_int_equal(got.ntickets, expected.ntickets);
			for (size_t i = 0; i < got.ntickets; i++)
			{
				bool		found = false;

				for (size_t j = 0; j < expected.ntickets; j++)
					found |= got.tickets[i] == expected.tickets[j];
				assert_true(found);
			}
			break;
		case CERTIFY_CONFLICT:
			b->conflicts++;
			assert_int_equal(got.kind, expected.kind);
			assert_int_equal(got.key_index, expected.key_index);
			if (got.kind == CONFLICT_DECIDED)
				assert_int_equal(got.winner_seq, expected.winner_seq);
			if (got.kind == CONFLICT_RESERVED)
				assert_int_equal(got.winner_ticket, expected.winner_ticket);
			if (got.kind != CONFLICT_TOO_OLD)
				assert_int_equal(got.winner_origin, expected.winner_origin);
			break;
		case CERTIFY_WAIT:
			b->waits++;
			assert_non_null(model_find_lock(b->m, got.lock_ticket));
			assert_int_not_equal(model_find_lock(b->m, got.lock_ticket)->origin, origin);

			/* some transactions hold a lock themselves */
			for (size_t i = 0; i < b->m->nlocks; i++)
			{
				ModelLock  *own = &b->m->locks[i];

				if (own->origin == origin && !model_lock_waits(own) && unit_below(2))
				{
					LockResult	blocked = certifier_lock_blocked(b->c, own->ticket, got.lock_ticket);

					assert_int_equal(blocked, model_lock_blocked(b->m, own->ticket, got.lock_ticket));
					b->deadlocks += blocked == LOCK_DEADLOCK;
					break;
				}
			}
			break;
	}
}

static void
count_lock(Both * b, LockResult result)
{
	b->deadlocks += result == LOCK_DEADLOCK;
	b->granted += result == LOCK_GRANTED;
}

static void
step_lock(Both * b)
{
	LsKey		keys[MODEL_MAX_KEYS];
	size_t		nkeys = random_keys(b->m, keys, true);
	DdlLock		ddl = {unit_below(3) == 0, unit_below(3) == 0, unit_below(3)};
	bool		yields = unit_below(3) == 0;
	uint64_t	got = 0,
				expected = 0;
	OriginId	origin = (OriginId) unit_below(4);
	uint64_t	ticket = ++b->ticket;
	LockResult	result;

	if (b->m->nlocks > 0 && unit_below(3) == 0)
	{
		/* one more for a transaction that has some */
		const		ModelLock *old = &b->m->locks[unit_below(b->m->nlocks)];

		if (model_lock_waits(old) || old->nitems + nkeys + 1 > MODEL_MAX_ITEMS)
			return;
		ticket = old->ticket;
		origin = old->origin;
	}
	else if (b->m->nlocks == MODEL_MAX_LOCKS)
		return;
	result = certifier_lock(b->c, origin, ticket, keys, nkeys, ddl, yields, &got);
	assert_int_equal(result, model_lock(b->m, origin, ticket, keys, nkeys, ddl, yields, &expected));
	if (result == LOCK_GRANTED)
		assert_int_equal(got, expected);
	count_lock(b, result);
}

/* Those that have been granted since are the same, none is forgotten. */
static void
step_retry(Both * b)
{
	uint64_t	tickets[MODEL_MAX_LOCKS];
	uint64_t	seqs[MODEL_MAX_LOCKS];
	size_t		n = 0;
	size_t		found = 0;

	while (n < MODEL_MAX_LOCKS && certifier_next_grant(b->c, &tickets[n], &seqs[n]))
		n++;
	for (size_t i = 0; i < b->m->nlocks; i++)
	{
		uint64_t	ticket = b->m->locks[i].ticket;
		uint64_t	expected = 0;
		LockResult	result;
		size_t		at = 0;

		if (!model_lock_waits(&b->m->locks[i]))
			continue;
		result = model_lock_retry(b->m, ticket, &expected);

		/* a cycle is seen when it closes, not later */
		assert_int_not_equal(result, LOCK_DEADLOCK);
		while (at < n && tickets[at] != ticket)
			at++;
		assert_int_equal(result == LOCK_GRANTED, at < n);
		if (result == LOCK_GRANTED)
			assert_int_equal(seqs[at], expected);
		found += at < n;
		count_lock(b, result);
	}
	assert_int_equal(found, n);
}

/* For which reserved transactions do locks wait? */
static void
compare_waits(const Both * b)
{
	for (size_t i = 0; i < b->m->nlocks; i++)
	{
		const		ModelLock *lock = &b->m->locks[i];

		for (size_t j = 0; j < b->m->nreserved; j++)
		{
			const		ModelTx *tx = &b->m->reserved[j];

			assert_int_equal(certifier_lock_waits_for(b->c, lock->ticket, tx->ticket),
							 model_lock_waits_for(lock, tx));
		}
	}
}

static void
random_step(Both * b)
{
	LsKey		keys[MODEL_MAX_KEYS];
	uint64_t	what = unit_below(100);
	Model	   *m = b->m;

	if (what < 45 && m->nreserved < 60)
		assert_same_reserve(b, (OriginId) unit_below(4), keys, random_keys(m, keys, false));
	else if (what < 70 && m->nreserved > 0 && m->ndecided < MODEL_MAX_TX)
	{
		uint64_t	ticket = m->reserved[unit_below(m->nreserved)].ticket;
		uint64_t	seq = m->highest + 1;

		certifier_decide(b->c, ticket, seq);
		model_decide(m, ticket, seq);
	}
	else if (what < 78 && m->nreserved > 0)
	{
		uint64_t	ticket = m->reserved[unit_below(m->nreserved)].ticket;

		certifier_release(b->c, ticket);
		model_release(m, ticket);
	}
	else if (what < 82)
	{
		uint64_t	seq = m->highest > 8 ? m->highest - unit_below(8) : 0;

		certifier_forget(b->c, seq);
		if (seq > m->floor)
			m->floor = seq;
		assert_int_equal(certifier_floor(b->c), m->floor);
	}
	else if (what < 87)
		step_lock(b);
	else if (what < 94 && m->nlocks > 0)
	{
		uint64_t	ticket = m->locks[unit_below(m->nlocks)].ticket;

		certifier_unlock(b->c, ticket);
		model_unlock(m, ticket);
	}
	else
		step_retry(b);
}

/*
 * Everybody who can go on does: then all locks must have been granted and given
 * back, that is, nobody was left in a cycle.
 */
static void
drain(Both * b)
{
	Model	   *m = b->m;

	while (m->nreserved > 0)
	{
		certifier_release(b->c, m->reserved[0].ticket);
		model_release(m, m->reserved[0].ticket);
	}
	while (m->nlocks > 0)
	{
		bool		progress = false;

		step_retry(b);
		for (size_t i = 0; i < m->nlocks && !progress; i++)
		{
			uint64_t	ticket = m->locks[i].ticket;

			if (model_lock_waits(&m->locks[i]) ||
				(m->locks[i].blocked_by != 0 && model_find_lock(m, m->locks[i].blocked_by) != NULL))
				continue;
			certifier_unlock(b->c, ticket);
			model_unlock(m, ticket);
			progress = true;
		}
		assert_true(progress);
	}
}

static void
test_against_model(void **state)
{
	uint64_t	steps = unit_env("STEPS", 60000);
	Both		b = {0};

	unit_seed(20261121);
	b.m = calloc(1, sizeof(Model));
	b.c = certifier_create(0);
	for (uint64_t i = 0; i < steps; i++)
	{
		random_step(&b);
		assert_true(model_is_sound(b.m));
		compare_waits(&b);
		if (i % 500 == 499)
			drain(&b);
		if (b.m->ndecided == MODEL_MAX_TX)
		{
			/*
			 * the model gets slow: let it begin anew from what it must
			 * remember
			 */
			size_t		n = 0;

			for (size_t j = 0; j < b.m->ndecided; j++)
			{
				if (b.m->decided[j].seq > b.m->floor)
					b.m->decided[n++] = b.m->decided[j];
			}
			b.m->ndecided = n;
		}
	}
	printf("%llu reserved, %llu conflicts, %llu waits, %llu granted, %llu deadlocks\n",
		   (unsigned long long) b.reserved, (unsigned long long) b.conflicts,
		   (unsigned long long) b.waits, (unsigned long long) b.granted,
		   (unsigned long long) b.deadlocks);

	/* when all is over nothing is remembered */
	drain(&b);
	for (int i = 0; i < 100; i++)
		certifier_forget(b.c, b.m->highest);
	assert_int_equal(certifier_keys(b.c), 0);
	certifier_destroy(b.c);
	free(b.m);
}

/* A certifier fed from the journal knows what one that decided it knows. */
static void
test_replay(void **state)
{
	Both		b = {0};
	LsKey		keys[MODEL_MAX_KEYS];

	unit_seed(7);
	for (int round = 0; round < 40; round++)
	{
		uint64_t	floor = unit_below(3) * 10;

		b.m = calloc(1, sizeof(Model));
		b.c = certifier_create(floor);
		b.m->floor = b.m->highest = floor;
		if (floor > 0)
		{
			keys[0] = (LsKey) {.hash = 1,.mode = LS_ROW_EXCLUSIVE};
			assert_int_equal(certifier_replay(b.c, 0, floor, true, keys, 1), floor - 1);
		}
		for (uint64_t seq = floor + 1; seq < floor + 100; seq++)
		{
			OriginId	origin = (OriginId) unit_below(3);
			size_t		n = random_keys(b.m, keys, false);
			bool		ddl = unit_below(5) == 0;

			assert_int_equal(certifier_replay(b.c, origin, seq, ddl, keys, n),
							 model_replay(b.m, origin, seq, ddl, keys, n));
		}
		for (int i = 0; i < 50; i++)
			assert_same_reserve(&b, (OriginId) unit_below(3), keys, random_keys(b.m, keys, false));
		certifier_destroy(b.c);
		free(b.m);
	}
}

/* Many keys come and go: the table grows, is swept and gives everything back. */
static void
test_many_keys(void **state)
{
	Certifier  *c = certifier_create(0);
	Certificate out;
	size_t		most = 0;

	for (uint64_t seq = 1; seq <= 20000; seq++)
	{
		LsKey		keys[10] = {{0}};

		for (uint64_t i = 0; i < 10; i++)
			keys[i] = (LsKey) {.hash = seq * 10 + i,.seen = seq - 1,.mode = LS_ROW_EXCLUSIVE};
		assert_int_equal(certifier_reserve(c, 1, seq, false, keys, 10, &out), CERTIFY_RESERVED);
		certifier_decide(c, seq, seq);
		if (seq % 100 == 0)
			certifier_forget(c, seq - 50);
		if (certifier_keys(c) > most)
			most = certifier_keys(c);
	}
	/* 150 transactions are remembered at most; garbage is a small multiple */
	assert_in_range(most, 1000, 20000);
	certifier_destroy(c);
}

/* ---------- the cases that people argue about */

#define A 0
#define B 1
#define C 2

static Certificate cert;
static uint64_t lock_seq;
static const DdlLock no_ddl = {0};
static const DdlLock all_ddl = {.wanted = true};

static CertifyResult
reserve(Certifier *c, OriginId origin, uint64_t ticket, uint64_t hash, LsKeyMode mode, uint64_t seen)
{
	LsKey		key = {.hash = hash,.mode = mode,.seen = seen};

	return certifier_reserve(c, origin, ticket, false, &key, 1, &cert);
}

/* Has that lock been granted since it was looked for last? */
static LockResult
look(Certifier *c, uint64_t wanted)
{
	static uint64_t seqs[100];
	static bool granted[100];
	uint64_t	ticket;
	uint64_t	seq;

	while (certifier_next_grant(c, &ticket, &seq))
	{
		assert_in_range(ticket, 0, 99);
		assert_false(granted[ticket]);
		granted[ticket] = true;
		seqs[ticket] = seq;
	}
	if (!granted[wanted])
		return LOCK_WAITING;
	granted[wanted] = false;
	lock_seq = seqs[wanted];
	return LOCK_GRANTED;
}

/* What was created a moment ago is used by what shares no key with it. */
static void
test_ddl_first(void **state)
{
	Certifier  *c = certifier_create(0);
	LsKey		key = {.hash = 2,.mode = LS_TABLE_X,.seen = 1};

	reserve(c, A, 1, 7, LS_ROW_EXCLUSIVE, 0);
	certifier_decide(c, 1, 1);
	key.hash = 1;
	assert_int_equal(certifier_reserve(c, A, 2, true, &key, 1, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 0);
	certifier_decide(c, 2, 2);
	assert_int_equal(certifier_last_ddl(c), 2);

	/* DDL comes after DDL, whatever it had seen */
	key.hash = 2;
	assert_int_equal(certifier_reserve(c, B, 3, true, &key, 1, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 2);
	certifier_release(c, 3);

	/* and so do rows: when their keys were made, perhaps before, says nothing of what came in between */
	reserve(c, A, 4, 9, LS_ROW_EXCLUSIVE, 2);
	assert_int_equal(cert.depends_on, 2);
	reserve(c, B, 5, 10, LS_ROW_EXCLUSIVE, 1);
	assert_int_equal(cert.depends_on, 2);
	assert_int_equal(certifier_reserve(c, B, 7, false, NULL, 0, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 2);
	certifier_forget(c, 2);
	reserve(c, B, 6, 11, LS_ROW_EXCLUSIVE, 2);
	assert_int_equal(cert.depends_on, 2);
	certifier_destroy(c);
}

static LockResult
lock(Certifier *c, OriginId origin, uint64_t ticket, uint64_t hash, LsKeyMode mode)
{
	LsKey		key = {.hash = hash,.mode = mode};

	return certifier_lock(c, origin, ticket, &key, 1, no_ddl, false, &lock_seq);
}

/* First reserved wins; the same origin's own come one after the other. */
static void
test_first_reserved_wins(void **state)
{
	Certifier  *c = certifier_create(0);

	assert_int_equal(reserve(c, A, 1, 5, LS_ROW_UPDATE, 0), CERTIFY_RESERVED);
	assert_int_equal(reserve(c, B, 2, 5, LS_ROW_UPDATE, 0), CERTIFY_CONFLICT);
	assert_int_equal(cert.kind, CONFLICT_RESERVED);
	assert_int_equal(cert.winner_ticket, 1);
	assert_int_equal(reserve(c, B, 3, 5, LS_ROW_SHARE, 0), CERTIFY_RESERVED);
	certifier_release(c, 3);
	assert_int_equal(reserve(c, A, 4, 5, LS_ROW_UPDATE, 0), CERTIFY_RESERVED);
	assert_int_equal(cert.ntickets, 1);
	assert_int_equal(cert.tickets[0], 1);
	certifier_decide(c, 1, 1);
	certifier_decide(c, 4, 2);
	assert_int_equal(reserve(c, B, 5, 5, LS_ROW_UPDATE, 1), CERTIFY_CONFLICT);
	assert_int_equal(cert.kind, CONFLICT_DECIDED);
	assert_int_equal(cert.winner_seq, 2);
	assert_int_equal(reserve(c, B, 6, 5, LS_ROW_UPDATE, 2), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 2);
	certifier_destroy(c);
}

/*
 * What was forgotten may have had the key: a node that catches up must not run
 * the next one before it.
 */
static void
test_depends_on_what_is_forgotten(void **state)
{
	Certifier  *c = certifier_create(0);

	reserve(c, A, 1, 5, LS_ROW_UPDATE, 0);
	certifier_decide(c, 1, 1);
	for (int i = 0; i < 10; i++)
		certifier_forget(c, 1);
	assert_int_equal(certifier_keys(c), 0);
	assert_int_equal(reserve(c, B, 2, 5, LS_ROW_UPDATE, 0), CERTIFY_CONFLICT);
	assert_int_equal(cert.kind, CONFLICT_TOO_OLD);
	assert_int_equal(reserve(c, B, 3, 5, LS_ROW_UPDATE, 1), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 1);
	certifier_destroy(c);
}

/* DDL waits for DML reserved elsewhere; DML that comes later waits for DDL. */
static void
test_ddl_is_not_starved(void **state)
{
	Certifier  *c = certifier_create(0);

	assert_int_equal(reserve(c, B, 1, 7, LS_TABLE_IX, 0), CERTIFY_RESERVED);
	assert_int_equal(lock(c, A, 2, 7, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(reserve(c, B, 3, 7, LS_TABLE_IX, 0), CERTIFY_WAIT);
	assert_int_equal(cert.lock_ticket, 2);
	assert_int_equal(reserve(c, A, 4, 7, LS_TABLE_IX, 0), CERTIFY_RESERVED);	/* its own node */
	assert_int_equal(reserve(c, B, 5, 8, LS_TABLE_IX, 0), CERTIFY_RESERVED);	/* another table */
	certifier_decide(c, 1, 1);
	assert_int_equal(look(c, 2), LOCK_GRANTED);
	assert_int_equal(lock_seq, 1);
	assert_int_equal(reserve(c, B, 6, 7, LS_TABLE_IX, 1), CERTIFY_WAIT);
	assert_int_equal(reserve(c, A, 7, 7, LS_TABLE_X, 1), CERTIFY_RESERVED); /* the DDL itself */
	assert_int_equal(reserve(c, B, 8, 7, LS_TABLE_IX, 1), CERTIFY_CONFLICT);
	certifier_decide(c, 7, 2);
	certifier_unlock(c, 2);
	assert_int_equal(reserve(c, B, 9, 7, LS_TABLE_IX, 1), CERTIFY_CONFLICT);
	assert_int_equal(reserve(c, B, 10, 7, LS_TABLE_IX, 2), CERTIFY_RESERVED);
	assert_int_equal(cert.depends_on, 2);
	certifier_destroy(c);
}

/* A whole database excludes its tables' DDL, by the IX that they hold on it. */
static void
test_database_lock(void **state)
{
	Certifier  *c = certifier_create(0);
	LsKey		table[2] = {
		{.hash = 100,.mode = LS_TABLE_IX},	/* the database */
		{.hash = 7,.mode = LS_TABLE_X}
	};

	assert_int_equal(certifier_lock(c, A, 1, table, 2, no_ddl, false, &lock_seq), LOCK_GRANTED);
	table[1].hash = 8;
	assert_int_equal(certifier_lock(c, B, 2, table, 2, no_ddl, false, &lock_seq), LOCK_GRANTED);
	assert_int_equal(lock(c, C, 3, 100, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(reserve(c, B, 4, 100, LS_TABLE_IX, 0), CERTIFY_RESERVED);	/* C waits for B */
	certifier_release(c, 4);
	certifier_unlock(c, 2);
	assert_int_equal(reserve(c, B, 5, 100, LS_TABLE_IX, 0), CERTIFY_WAIT);	/* now it doesn't */
	table[1].hash = 9;
	assert_int_equal(certifier_lock(c, B, 6, table, 2, no_ddl, false, &lock_seq), LOCK_WAITING);
	certifier_unlock(c, 1);
	assert_int_equal(look(c, 6), LOCK_WAITING);
	assert_int_equal(look(c, 3), LOCK_GRANTED);
	certifier_destroy(c);
}

/* The ddl lock: who waits for it within a node, others wait in turn. */
static void
test_ddl_lock(void **state)
{
	DdlLock		parallel = {true, true, 7};
	Certifier  *c = certifier_create(0);

	reserve(c, C, 50, 1, LS_ROW_UPDATE, 0);
	certifier_decide(c, 50, 9);
	assert_int_equal(certifier_lock(c, A, 1, NULL, 0, parallel, false, &lock_seq), LOCK_GRANTED);
	assert_int_equal(lock_seq, 9);
	assert_int_equal(certifier_lock(c, A, 2, NULL, 0, parallel, false, &lock_seq), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, A, 20, NULL, 0, (DdlLock) {true, false, 8}, false, &lock_seq), LOCK_GRANTED);	/* another database */
	assert_int_equal(certifier_lock(c, B, 3, NULL, 0, parallel, false, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_lock(c, A, 4, NULL, 0, parallel, false, &lock_seq), LOCK_WAITING);	/* fair */
	certifier_unlock(c, 1);
	certifier_unlock(c, 20);
	assert_int_equal(look(c, 3), LOCK_WAITING);
	certifier_unlock(c, 2);
	assert_int_equal(look(c, 4), LOCK_WAITING);
	assert_int_equal(look(c, 3), LOCK_GRANTED);
	certifier_unlock(c, 3);
	assert_int_equal(look(c, 4), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, A, 5, NULL, 0, (DdlLock) {true, false, 7}, false, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_lock(c, A, 6, NULL, 0, all_ddl, false, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_lock(c, A, 7, NULL, 0, (DdlLock) {true, false, 8}, false, &lock_seq), LOCK_WAITING);	/* behind that one */
	certifier_unlock(c, 4);
	assert_int_equal(look(c, 6), LOCK_WAITING);
	assert_int_equal(look(c, 5), LOCK_GRANTED);
	certifier_unlock(c, 5);
	assert_int_equal(look(c, 7), LOCK_WAITING);
	assert_int_equal(look(c, 6), LOCK_GRANTED);
	/* two that are parallel, and both want more: one is told */
	certifier_unlock(c, 6);
	assert_int_equal(look(c, 7), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, A, 8, NULL, 0, parallel, false, &lock_seq), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, A, 9, NULL, 0, parallel, false, &lock_seq), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, A, 8, NULL, 0, (DdlLock) {true, false, 7}, false, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_lock(c, A, 9, NULL, 0, (DdlLock) {true, false, 7}, false, &lock_seq), LOCK_DEADLOCK);
	certifier_unlock(c, 9);
	assert_int_equal(look(c, 8), LOCK_GRANTED);
	certifier_destroy(c);
}

/* Three in a row, and round: who closes it is told first, then whom it waits for. */
static void
test_circle(void **state)
{
	Certifier  *c = certifier_create(0);
	uint64_t	cycle[4];

	for (OriginId o = 1; o <= 3; o++)
		assert_int_equal(lock(c, o, o, 10 + o, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, 4, 4, 11, LS_TABLE_X), LOCK_WAITING);	/* not in it */
	assert_int_equal(lock(c, 1, 1, 12, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(lock(c, 2, 2, 13, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(lock(c, 3, 3, 11, LS_TABLE_X), LOCK_DEADLOCK);
	assert_int_equal(certifier_cycle(c, cycle, 4), 3);
	assert_int_equal(cycle[0], 3);
	assert_int_equal(cycle[1], 1);
	assert_int_equal(cycle[2], 2);
	assert_int_equal(certifier_cycle(c, cycle, 2), 2);
	certifier_destroy(c);
}

/* A row is contended for a while after several nodes have wanted it, and only a row. */
static void
test_contended(void **state)
{
	Certifier  *c = certifier_create(0);
	LsKey		keys[] = {{.hash = 5,.mode = LS_ROW_UPDATE}, {.hash = 6,.mode = LS_ROW_UPDATE},
	{.hash = 5,.mode = LS_TABLE_IX}, {.hash = 5,.mode = LS_ROW_UPDATE}};
	Certificate cert;

	certifier_set_time(c, 1000);
	assert_int_equal(certifier_reserve(c, A, 1, false, keys, 4, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.ncontended, 0);
	certifier_decide(c, 1, 1);
	for (size_t i = 0; i < 4; i++)
		keys[i].seen = 1;
	certifier_row_fought(c, 5);
	certifier_row_fought(c, 7); /* not known */
	certifier_set_time(c, 1000 + LS_CONTENDED_MS);
	assert_int_equal(certifier_reserve(c, A, 2, false, keys, 4, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.ncontended, 1);
	assert_int_equal(cert.contended[0], 5);
	certifier_decide(c, 2, 2);
	certifier_set_time(c, 1001 + LS_CONTENDED_MS);
	assert_int_equal(certifier_reserve(c, A, 3, false, keys, 4, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.ncontended, 0);
	certifier_decide(c, 3, 3);

	/*
	 * a request that waits makes it contended again; one of the same origin
	 * doesn't wait
	 */
	assert_int_equal(lock(c, A, 4, 6, LS_ROW_UPDATE), LOCK_GRANTED);
	assert_int_equal(lock(c, A, 5, 6, LS_ROW_UPDATE), LOCK_GRANTED);
	assert_int_equal(certifier_reserve(c, A, 6, false, keys, 4, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.ncontended, 0);
	certifier_release(c, 6);
	assert_int_equal(lock(c, B, 7, 6, LS_ROW_UPDATE), LOCK_WAITING);
	assert_int_equal(certifier_reserve(c, A, 8, false, keys, 4, &cert), CERTIFY_RESERVED);
	assert_int_equal(cert.ncontended, 1);
	assert_int_equal(cert.contended[0], 6);
	certifier_destroy(c);
}

/* What yields keeps other requests waiting, and no reservation. */
static void
test_yields(void **state)
{
	Certifier  *c = certifier_create(0);
	LsKey		key = {.hash = 5,.mode = LS_ROW_UPDATE};
	Certificate cert;

	assert_int_equal(certifier_lock(c, A, 1, &key, 1, no_ddl, true, &lock_seq), LOCK_GRANTED);
	assert_int_equal(certifier_lock(c, B, 2, &key, 1, no_ddl, true, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_reserve(c, B, 3, false, &key, 1, &cert), CERTIFY_RESERVED);
	certifier_decide(c, 3, 1);
	key.seen = 1;
	assert_int_equal(certifier_lock(c, C, 4, &key, 1, no_ddl, false, &lock_seq), LOCK_WAITING);
	assert_int_equal(certifier_reserve(c, 9, 5, false, &key, 1, &cert), CERTIFY_WAIT);
	assert_int_equal(cert.lock_ticket, 4);
	certifier_destroy(c);
}

static void
note_blocker(void *arg, uint64_t ticket, uint64_t reserved)
{
	*(uint64_t *) arg |= UINT64_C(1) << ticket;
}

/* A holder behind exclusive requests of two origins, one of them its own, is told. */
static void
test_blockers_of_own_origin(void **state)
{
	Certifier  *c = certifier_create(0);
	uint64_t	told = 0;

	assert_int_equal(lock(c, C, 1, 5, LS_ROW_UPDATE), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 2, 7, LS_ROW_UPDATE), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 3, 5, LS_ROW_EXCLUSIVE), LOCK_WAITING);
	assert_int_equal(lock(c, B, 3, 7, LS_ROW_EXCLUSIVE), LOCK_WAITING);
	assert_int_equal(lock(c, A, 4, 7, LS_ROW_EXCLUSIVE), LOCK_WAITING);
	assert_int_equal(lock(c, A, 5, 7, LS_ROW_UPDATE), LOCK_WAITING);
	certifier_lock_blockers(c, 5, note_blocker, &told);
	assert_int_equal(told, (1 << 2) | (1 << 3));
	certifier_destroy(c);
}

/* ---------- long queues */

#define QUEUED 12

typedef struct Told
{
	bool		waits[QUEUED + 1][QUEUED + 1];
	uint64_t	waiter;
	size_t		n;
} Told;

static void
note_wait(void *arg, uint64_t ticket, uint64_t reserved)
{
	Told	   *told = arg;

	told->n++;
	if (told->waiter <= QUEUED)
		told->waits[told->waiter][ticket] = true;
}

static void
close_over(bool waits[QUEUED + 1][QUEUED + 1])
{
	for (int k = 1; k <= QUEUED; k++)
	{
		for (int i = 1; i <= QUEUED; i++)
		{
			for (int j = 1; j <= QUEUED; j++)
				waits[i][j] |= waits[i][k] && waits[k][j];
		}
	}
}

/* What is told of a queue of any modes and origins is enough to know who waits for whom, directly or not. */
static void
test_told_waits(void **state)
{
	unit_seed(5);
	for (int round = 0; round < 3000; round++)
	{
		Certifier  *c = certifier_create(0);
		Told		told = {.n = 0};
		bool		expected[QUEUED + 1][QUEUED + 1] = {{false}};
		OriginId	origins[QUEUED + 1];
		LsKeyMode	modes[QUEUED + 1];
		bool		granted[QUEUED + 1];
		OriginId	norigins = (OriginId) (2 + unit_below(3));

		for (uint64_t i = 1; i <= QUEUED; i++)
		{
			origins[i] = (OriginId) unit_below(norigins);
			modes[i] = row_modes[unit_below(3) == 0 ? unit_below(4) : 1];
			granted[i] = lock(c, origins[i], i, 5, modes[i]) == LOCK_GRANTED;
			for (uint64_t j = 1; j < i && !granted[i]; j++)
				expected[i][j] = origins[i] != origins[j] && ls_modes_conflict(modes[i], modes[j]);
		}
		for (told.waiter = 1; told.waiter <= QUEUED; told.waiter++)
		{
			certifier_lock_blockers(c, told.waiter, note_wait, &told);
			for (uint64_t j = 1; j <= QUEUED; j++)
				assert_true(!told.waits[told.waiter][j] || expected[told.waiter][j]);
		}
		close_over(told.waits);
		close_over(expected);
		assert_memory_equal(told.waits, expected, sizeof(expected));
		certifier_destroy(c);
	}
}

/* Each of many that wait for one row is told to wait for a few, and they get it in their order. */
static void
test_long_queue(void **state)
{
	enum
	{
		N = 2000
	};
	Certifier  *c = certifier_create(0);
	Told		told = {.waiter = QUEUED + 1};
	uint64_t	ticket;
	uint64_t	seq;

	for (uint64_t i = 1; i <= N; i++)
		assert_int_equal(lock(c, (OriginId) (i % 2), i, 5, LS_ROW_UPDATE), i == 1 ? LOCK_GRANTED : LOCK_WAITING);
	for (uint64_t i = 2; i <= N; i++)
		certifier_lock_blockers(c, i, note_wait, &told);
	assert_true(told.n <= 2 * N);
	for (uint64_t i = 1; i < N; i++)
	{
		certifier_unlock(c, i);
		assert_true(certifier_next_grant(c, &ticket, &seq));
		assert_int_equal(ticket, i + 1);
		assert_false(certifier_next_grant(c, &ticket, &seq));
	}
	certifier_destroy(c);
}

/* Two nodes lock two tables in opposite order: the second to wait gets 40P01. */
static void
test_deadlock(void **state)
{
	uint64_t	cycle[4];
	Certifier  *c = certifier_create(0);

	assert_int_equal(lock(c, A, 1, 7, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 2, 8, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, A, 1, 8, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(lock(c, B, 2, 7, LS_TABLE_X), LOCK_DEADLOCK);
	assert_int_equal(certifier_cycle(c, cycle, 4), 2);
	assert_int_equal(cycle[0], 2);
	assert_int_equal(cycle[1], 1);
	assert_int_equal(look(c, 1), LOCK_WAITING); /* 8 is still B's */
	certifier_unlock(c, 2);
	assert_int_equal(look(c, 1), LOCK_GRANTED);
	certifier_destroy(c);
}

/* One waits at its reservation, the other for a lock: the same, either way round. */
static void
test_deadlock_with_reservation(void **state)
{
	Certifier  *c = certifier_create(0);

	lock(c, A, 1, 7, LS_TABLE_X);
	lock(c, B, 2, 8, LS_TABLE_X);
	assert_int_equal(reserve(c, A, 3, 8, LS_TABLE_IX, 0), CERTIFY_WAIT);
	assert_int_equal(certifier_lock_blocked(c, 1, cert.lock_ticket), LOCK_WAITING);
	assert_int_equal(lock(c, B, 2, 7, LS_TABLE_X), LOCK_DEADLOCK);

	certifier_lock_blocked(c, 1, 0);
	assert_int_equal(lock(c, B, 2, 7, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(reserve(c, A, 4, 8, LS_TABLE_IX, 0), CERTIFY_WAIT);
	assert_int_equal(certifier_lock_blocked(c, 1, cert.lock_ticket), LOCK_DEADLOCK);
	certifier_destroy(c);
}

/* A stronger mode of what is held goes before those that wait for it. */
static void
test_upgrade(void **state)
{
	Certifier  *c = certifier_create(0);

	assert_int_equal(lock(c, A, 1, 7, LS_TABLE_S), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 2, 7, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(lock(c, A, 1, 7, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(look(c, 2), LOCK_WAITING);
	certifier_unlock(c, 1);
	assert_int_equal(look(c, 2), LOCK_GRANTED);
	certifier_destroy(c);
}

/* A rolled back part of a transaction gives back what it asked for, and no more. */
static void
test_unlock_after(void **state)
{
	Certifier  *c = certifier_create(0);

	assert_int_equal(lock(c, A, 1, 7, LS_TABLE_S), LOCK_GRANTED);
	assert_int_equal(lock(c, A, 1, 7, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, A, 1, 8, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 2, 8, LS_TABLE_X), LOCK_WAITING);
	assert_int_equal(lock(c, B, 3, 7, LS_TABLE_S), LOCK_WAITING);
	certifier_unlock_after(c, 1, 1);
	assert_int_equal(look(c, 2), LOCK_GRANTED);
	assert_int_equal(look(c, 3), LOCK_GRANTED);
	certifier_unlock(c, 3);
	assert_int_equal(lock(c, B, 2, 7, LS_TABLE_X), LOCK_WAITING);	/* the S stays */

	/* a transaction that gives up waiting blocks no other, and numbers go on */
	certifier_unlock_after(c, 2, 1);
	assert_int_equal(lock(c, C, 4, 7, LS_TABLE_S), LOCK_GRANTED);
	certifier_unlock_after(c, 2, 0);
	assert_int_equal(lock(c, C, 4, 8, LS_TABLE_X), LOCK_GRANTED);
	assert_int_equal(lock(c, B, 2, 9, LS_TABLE_X), LOCK_GRANTED);
	certifier_unlock_after(c, 2, 2);
	assert_int_equal(lock(c, C, 4, 9, LS_TABLE_X), LOCK_GRANTED);
	certifier_destroy(c);
}

/* Keys that were requested only are forgotten as soon as nobody requests them any more. */
static void
test_requested_keys_go(void **state)
{
	enum
	{
		N = 200000, KEYS = 32
	};
	Certifier  *c = certifier_create(0);
	size_t		most = 0;

	for (uint64_t i = 0; i < N / KEYS; i++)
	{
		LsKey		keys[KEYS];

		for (uint64_t k = 0; k < KEYS; k++)
			keys[k] = (LsKey)
		{
			.hash = (i * KEYS + k) * UINT64_C(0x9e3779b97f4a7c15),.mode = LS_ROW_UPDATE
		};
		assert_int_equal(certifier_lock(c, A, 1, keys, KEYS, no_ddl, false, &lock_seq), LOCK_GRANTED);
		certifier_unlock(c, 1);
		if (certifier_keys(c) > most)
			most = certifier_keys(c);
	}
	assert_true(most < 10000);
	certifier_destroy(c);
}

/* A request costs the same whatever its transaction has requested before; quadratic, this would take an hour. */
static void
test_many_requests(void **state)
{
	enum
	{
		N = 300000
	};
	Certifier  *c = certifier_create(0);

	reserve(c, B, 1, 7, LS_ROW_EXCLUSIVE, 0);
	certifier_decide(c, 1, 5);
	for (uint64_t i = 1; i <= N; i++)
	{
		assert_int_equal(lock(c, A, 2, i, LS_ROW_LOCK), LOCK_GRANTED);
		assert_int_equal(lock_seq, i < 7 ? 0 : 5);
	}
	assert_int_equal(lock(c, B, 3, N / 2, LS_ROW_EXCLUSIVE), LOCK_WAITING);
	assert_int_equal(lock(c, A, 2, N / 2, LS_ROW_EXCLUSIVE), LOCK_GRANTED); /* an upgrade */
	certifier_unlock(c, 2);
	assert_int_equal(look(c, 3), LOCK_GRANTED);
	certifier_destroy(c);
}

/* ---------- speed: printed, not judged (sanitizers, busy machines) */

static void
test_speed(void **state)
{
	enum
	{
		N = 200000, KEYS = 8
	};
	Certifier  *c = certifier_create(0);
	struct timespec t0,
				t1;
	double		ns;

	unit_seed(3);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (uint64_t seq = 1; seq <= N; seq++)
	{
		LsKey		keys[KEYS];
		Certificate out;

		for (uint64_t i = 0; i < KEYS; i++)
			keys[i] = (LsKey)
		{
			.hash = unit_random(),.seen = seq - 1,
				.mode = i < 2 ? LS_TABLE_IX : LS_ROW_UPDATE
		};
		keys[0].hash = 1;
		keys[1].hash = 2;
		certifier_reserve(c, seq & 1, seq, false, keys, KEYS, &out);
		certifier_decide(c, seq, seq);
		if (seq % 16 == 0 && seq > 1000)
			certifier_forget(c, seq - 1000);
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ns = ((double) (t1.tv_sec - t0.tv_sec) * 1e9 + (double) (t1.tv_nsec - t0.tv_nsec)) / N;
	printf("reserve and decide %d keys: %.0f ns (%zu keys remembered)\n", KEYS, ns, certifier_keys(c));
	certifier_destroy(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_reserved_wins),
		cmocka_unit_test(test_depends_on_what_is_forgotten),
		cmocka_unit_test(test_ddl_is_not_starved),
		cmocka_unit_test(test_database_lock),
		cmocka_unit_test(test_ddl_lock),
		cmocka_unit_test(test_told_waits),
		cmocka_unit_test(test_long_queue),
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_contended),
		cmocka_unit_test(test_yields),
		cmocka_unit_test(test_blockers_of_own_origin),
		cmocka_unit_test(test_deadlock_with_reservation),
		cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_unlock_after),
		cmocka_unit_test(test_requested_keys_go),
		cmocka_unit_test(test_many_requests),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_ddl_first),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_many_keys),
		cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
