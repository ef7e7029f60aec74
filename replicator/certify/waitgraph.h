/*
 * waitgraph.h
 *	  The wait-for graph: who waits for whom, wherever it is, and which of them
 *	  wait in a cycle.
 *
 * Pure: no I/O, no clock.  Vertices are transactions, with their backend and their
 * apply sessions, and backends of which only their node knows.  An edge says that
 * the one can't go on before the other has: all edges of a vertex have to go, so
 * a vertex that can reach a cycle waits for ever.  A wait for any one of several is no
 * edge.  waits.h says who fills it in.
 */
#ifndef LOCKSTEP_WAITGRAPH_H
#define LOCKSTEP_WAITGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

typedef enum WaitKind
{
	WAIT_LOCK,					/* asked for a lock; the other has it, or
								 * asked earlier */
	WAIT_LOCK_RESERVED,			/* asked for a lock; the other is reserved and
								 * has its key */
	WAIT_RESERVATION,			/* asked to commit; a lock of the other is in
								 * the way */
	WAIT_TICKET,				/* reserved; the other, of the same node,
								 * comes first */
	WAIT_ORDER,					/* its node has to apply the other first */
	WAIT_ALONE,					/* for a query of its own that is ordered on
								 * its own (setval) */
	WAIT_LOCAL,					/* in PostgreSQL, on a node, for a lock */
	WAIT_HELD,					/* the other holds commits on that node
								 * (verify) */
	WAIT_EXECUTION,				/* no edge: for a node that executes it */
	WAIT_CONNECTION,			/* no edge: for any apply connection there */
	WAIT_PAUSE,					/* no edge: it is tried again there soon */
	WAIT_UNDO,					/* no edge: it is rolled back there first */
	WAIT_COMMIT,				/* no edge: decided; a node has not committed
								 * it */
	WAIT_JOURNAL,				/* no edge: for the journal's disk */
	WAIT_KINDS
} WaitKind;

#define WAIT_NOBODY UINT32_MAX	/* blocker of what is no edge */

typedef enum WaitLoser
{
	LOSES_NEVER,				/* it ranks above all that may lose */
	LOSES_THERE,				/* only through its node */
	LOSES_HERE					/* it waits for an answer, which may be that */
} WaitLoser;

/* Who: a transaction by its origin's name, pid and number there. */
typedef struct WaitParty
{
	int			node;			/* index; < 0: none */
	const char *node_name;
	uint32_t	pid;
	uint64_t	xcount;			/* 0: the replicator knows no transaction of
								 * it */
	uint64_t	seq;			/* 0: not decided */
	uint64_t	began;			/* of a backend that only its node knows: its
								 * transaction's, by that node's clock */
	uint32_t	lxid;			/* on its node, where it waits there; 0: not
								 * known */
	/* for the choice of who loses */
	WaitLoser	loses;
	void	   *owner;			/* the caller's */
	bool		at_front;		/* has waited for a lock and got it */
	uint64_t	done;			/* how much work would be lost */
	uint64_t	since_us;		/* the younger one loses, among equals */
	/* filled in by the graph */
	uint32_t	first_edge;
	uint32_t	next_same_hash;
	uint32_t	waits;			/* edges that count in a search */
	uint32_t	came_by;		/* edge, in a search */
	bool		gone;
} WaitParty;

typedef struct WaitEdge
{
	WaitKind	kind;
	uint32_t	waiter;
	uint32_t	blocker;		/* or WAIT_NOBODY */
	int			at;				/* index of the node where it waits; < 0: in
								 * the replicator */
	uint64_t	since_us;		/* loop_now_us() when it began; 0: not known */
	const char *what;			/* for people: a lock, a key, a table; or NULL */
	uint32_t	next_of_waiter;
} WaitEdge;

typedef struct WaitGraph
{
	WaitParty  *parties;
	uint32_t	nparties;
	uint32_t	parties_cap;
	WaitEdge   *edges;
	uint32_t	nedges;
	uint32_t	edges_cap;
	uint32_t   *buckets;		/* by identity; a power of two */
	uint32_t	nbuckets;
	struct GraphText *texts;	/* copies of what */
} WaitGraph;

extern void waitgraph_free(WaitGraph *g);	/* and empty: zeros are one, too */

/* The party with that node, pid and number; added if it is new. */
extern uint32_t waitgraph_party(WaitGraph *g, int node, uint32_t pid, uint64_t xcount);

/* what is copied. */
extern void waitgraph_add(WaitGraph *g, WaitKind kind, uint32_t waiter, uint32_t blocker,
						  int at, uint64_t since_us, const char *what);

/* Is the same edge, by the identities of its parties, in another graph? */
extern bool waitgraph_has(const WaitGraph *g, const WaitGraph *of, uint32_t edge);

/*
 * A cycle, as its edges, each blocker the next one's waiter; a short one, at most
 * max edges.  Returns their number, 0: there is none.
 */
extern size_t waitgraph_cycle(WaitGraph *g, uint32_t *edges, size_t max);

/* By that rank: does a lose rather than b? */
extern bool waitgraph_loses_before(const WaitParty *a, const WaitParty *b);

/*
 * Who of a cycle should lose: has not waited its way to the front, has done least,
 * has begun last.  WAIT_NOBODY: none of them can.
 */
extern uint32_t waitgraph_victim(const WaitGraph *g, const uint32_t *edges, size_t n);

/* For whom of the cycle does that party of it wait? */
extern uint32_t waitgraph_blocker_of(const WaitGraph *g, uint32_t party, const uint32_t *edges, size_t n);

/* The cycle in words, from that party of it on; malloc'ed.  No key values in it. */
extern char *waitgraph_words(const WaitGraph *g, uint32_t party, const uint32_t *edges, size_t n);

/* It goes: its edges count no more. */
extern void waitgraph_remove(WaitGraph *g, uint32_t party);

/* For programs ("reservation"), and after "waits" for people ("at its reservation, for"). */
extern const char *wait_kind_name(WaitKind kind);
extern const char *wait_kind_words(WaitKind kind);

#endif
