/*
 * generation.h
 *	  Which of two replicators may order: generations.  Each start takes one above
 *	  all that the journal knows, durable before any node hears of it, and a random
 *	  run id, as two may start from the same copy.  Loop's thread.
 */
#ifndef LOCKSTEP_GENERATION_H
#define LOCKSTEP_GENERATION_H

#include "node_private.h"

#define GENERATION_OUTDATED "LS005" /* a node's SQLSTATE: it follows another
									 * one */

/* Take one; ready() when it is durable. */
extern void generation_begin(void (*ready) (void));

/* The last one taken. */
extern uint64_t generation_number(void);
extern uint64_t generation_run(void);

/* What a node knows. */
typedef struct KnownGeneration
{
	uint64_t	number;
	uint64_t	run;
	int64_t		silent_ms;		/* nothing heard of its replicator; -1: it is
								 * not connected */
	bool		has_past;		/* a database belongs to this cluster */
} KnownGeneration;

typedef enum GenerationAnswer
{
	GENERATION_GO_ON,
	GENERATION_OUT,				/* it follows another one that is running: it
								 * is out */
	GENERATION_WAIT				/* a higher one is taken: attach_go_on()
								 * follows */
} GenerationAnswer;

/* May a node whose past is the journal's be attached?  boot: of its server. */
extern GenerationAnswer generation_admits(Node *n, const KnownGeneration *known, uint64_t boot);

/* A node's answer: if it is that we are outdated, the process ends. */
extern void generation_check_result(const Node *n, const PGresult *r);
extern void generation_outdated(const Node *n, const char *detail) __attribute__((noreturn));

/* Parameters of lockstep.enter_generation(), for that node. */
typedef struct GenerationParams
{
	char		number[24];
	char		run[24];
} GenerationParams;

extern GenerationParams generation_params(const Node *n);

#endif
