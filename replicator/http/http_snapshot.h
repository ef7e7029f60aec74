/*
 * http_snapshot.h
 *	  The facts that HTTP shows, as the loop's thread saw them: made by it, read by the one
 *	  HTTP thread.
 */
#ifndef LOCKSTEP_HTTP_SNAPSHOT_H
#define LOCKSTEP_HTTP_SNAPSHOT_H

#include <jansson.h>

#include "config.h"

typedef struct HealthOfNode
{
	char		name[64];
	bool		writes;			/* takes them */
	bool		reads;			/* is to get readers */
	bool		catches_up;
	bool		settles;		/* is on its way to be online */
	bool		draining;
	uint64_t	lag;			/* transactions */
	char		state[64];		/* in words */
} HealthOfNode;

typedef struct Health
{
	uint64_t	made_us;
	char		trouble[200];	/* why nothing can be committed, "" */
	int			nnodes;
	HealthOfNode nodes[CONFIG_MAX_NODES];
} Health;

typedef struct Snapshot
{
	uint64_t	made_us;
	json_t	   *status;			/* status_facts(), and waits, conflict_counts */
	char	   *json;			/* as text, and in Prometheus's format: NULL,
								 * for the HTTP thread to fill in */
	char	   *metrics;
} Snapshot;

/* ---------- for the loop's thread */

/* data: may a snapshot quote users' data?  NULL, or why not (malloc'ed). */
extern char *snapshots_begin(bool data);
extern void snapshots_wake(void);	/* the HTTP thread waits no longer: it is
									 * to end */
extern void snapshots_end(void);	/* after it has */

/* Each Health goes through it before it is shown, at least once a second; NULL: no more. */
extern void snapshots_review(void (*review) (Health *h));

/*
 * ---------- for the HTTP thread: at most SNAPSHOT_AGE_MS old; NULL: the loop's thread does
 * not answer.  What is returned is valid until the next call.
 */
#define SNAPSHOT_AGE_MS 1000
#define SNAPSHOT_PATIENCE_MS 1000

extern const Health *snapshot_health(void);
extern Snapshot *snapshot_status(void);

#endif
