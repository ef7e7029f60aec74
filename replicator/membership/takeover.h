/*
 * takeover.h
 *	  Which of two replicators may order.  Each start takes a generation above all that the
 *	  journal knows, durable before any node hears of it.  Loop's thread.
 */
#ifndef LOCKSTEP_TAKEOVER_H
#define LOCKSTEP_TAKEOVER_H

#include "membership_private.h"

/*
 * Take one; ready() when it is durable.  raised() for each node whenever a higher one is
 * durable.
 */
extern void takeover_begin(void (*ready) (void), void (*raised) (Node *n));

/* What a node knows. */
typedef struct KnownGeneration
{
	uint64_t	number;
	uint64_t	run;
	int64_t		silent_ms;		/* nothing heard of its replicator; -1: it is
								 * not connected */
	bool		has_past;		/* a database belongs to this cluster */
} KnownGeneration;

typedef enum TakeoverAnswer
{
	TAKEOVER_GO_ON,
	TAKEOVER_OUT,				/* it follows another one that is running: it
								 * is out */
	TAKEOVER_WAIT				/* a higher one is taken: raised() follows */
} TakeoverAnswer;

/* May a node whose past is the journal's be attached?  boot: of its server. */
extern TakeoverAnswer takeover_admits(Node *n, const KnownGeneration *known, uint64_t boot);

#endif
