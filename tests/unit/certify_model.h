/*
 * certify_model.h
 *	  The rules of certify.h in the plainest way: lists of everything that ever
 *	  happened, walked in full for each question.  test_certify.c compares.
 */
#ifndef LOCKSTEP_CERTIFY_MODEL_H
#define LOCKSTEP_CERTIFY_MODEL_H

#include "certify.h"

#define MODEL_MAX_KEYS 8
#ifndef MODEL_MAX_TX
#define MODEL_MAX_TX 4000
#endif
#define MODEL_MAX_LOCKS 12
#define MODEL_MAX_ITEMS 24

typedef struct ModelTx
{
	OriginId	origin;
	uint64_t	ticket;			/* reserved; 0 once decided */
	bool		ddl;
	uint64_t	seq;
	size_t		nkeys;
	LsKey		keys[MODEL_MAX_KEYS];
}			ModelTx;

typedef struct ModelItem
{
	DdlLock		ddl;			/* of the ddl lock, no hash */
	uint64_t	hash;
	LsKeyMode	mode;
	uint64_t	order;
	bool		granted;
	bool		yields;
}			ModelItem;

typedef struct ModelLock
{
	OriginId	origin;
	uint64_t	ticket;
	uint64_t	blocked_by;
	uint64_t	seq;			/* that had touched what was granted */
	size_t		nitems;
	ModelItem	items[MODEL_MAX_ITEMS];
}			ModelLock;

typedef struct Model
{
	uint64_t	floor;
	uint64_t	highest;
	uint64_t	order;
	size_t		ndecided;
	ModelTx		decided[MODEL_MAX_TX];
	size_t		nreserved;
	ModelTx		reserved[64];
	size_t		nlocks;
	ModelLock	locks[MODEL_MAX_LOCKS];
	uint64_t	tickets[64];
	size_t		ntickets;
}			Model;

extern CertifyResult model_reserve(Model * m, OriginId origin, uint64_t ticket, bool ddl,
								   const LsKey *keys, size_t nkeys, Certificate *out);
extern void model_decide(Model * m, uint64_t ticket, uint64_t seq);
extern void model_release(Model * m, uint64_t ticket);
extern uint64_t model_replay(Model * m, OriginId origin, uint64_t seq, bool ddl,
							 const LsKey *keys, size_t nkeys);
extern LockResult model_lock(Model * m, OriginId origin, uint64_t ticket,
							 const LsKey *keys, size_t nkeys, DdlLock ddl, bool yields, uint64_t *seq);
extern LockResult model_lock_retry(Model * m, uint64_t ticket, uint64_t *seq);
extern LockResult model_lock_blocked(Model * m, uint64_t ticket, uint64_t blocker);
extern void model_unlock(Model * m, uint64_t ticket);
extern ModelLock * model_find_lock(Model * m, uint64_t ticket);
extern bool model_lock_waits(const ModelLock * lock);
extern bool model_lock_waits_for(const ModelLock * lock, const ModelTx * tx);

/* Nothing that excludes each other is held at once. */
extern bool model_is_sound(const Model * m);

#endif
