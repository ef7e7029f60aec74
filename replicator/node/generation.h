/*
 * generation.h
 *	  The replicator's generation: a number, one above all that the journal knows, and a
 *	  random run id.  The nodes follow the highest and refuse the rest (LS005); membership/
 *	  takeover.c has the rules.  Loop's thread.
 */
#ifndef LOCKSTEP_GENERATION_H
#define LOCKSTEP_GENERATION_H

#include "node.h"

#define GENERATION_OUTDATED "LS005" /* a node's SQLSTATE: it follows another
									 * one */

/* The last one taken, 0: none yet; and this process's run. */
extern uint64_t generation_number(void);
extern uint64_t generation_run(void);

extern void generation_set_run(uint64_t run);
extern void generation_set_number(uint64_t number); /* it is durable */

/* The one that the node follows, and its run; 0: none. */
extern void node_generation(int node, uint64_t *generation, uint64_t *run);

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
