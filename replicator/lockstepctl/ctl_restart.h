/*
 * ctl_restart.h
 *	  lockstepctl restart: the servers of nodes, one after the other; and a drain that is announced
 *	  before it refuses anybody.
 */
#ifndef LOCKSTEP_CTL_RESTART_H
#define LOCKSTEP_CTL_RESTART_H

#include "config.h"
#include "ctl.h"

typedef struct AnnounceOptions
{
	long		seconds;		/* for load balancers to notice; 0: none */
	const char *poolers;		/* then a shell's command that makes poolers
								 * connect again; NULL: none */
} AnnounceOptions;

typedef struct RestartOptions
{
	char	  **nodes;			/* names */
	int			nnodes;			/* 0: all */
	const char *command;		/* a shell's, with escapes; NULL: the servers
								 * are of this machine */
	AnnounceOptions announce;
	bool		dry_run;
	long		timeout_s;		/* of each step; 0: no limit */
	AskReplicator ask;
	void	   *ask_arg;
} RestartOptions;

/* status: the replicator's answer.  Prints; an exit code. */
extern int	restart_nodes(const RestartOptions *o, const Config *config, const json_t *status);

/* Of a drain.  false: it has said why, and the drain is given up, if it can be. */
extern bool drain_announce(const AnnounceOptions *o, const char *node, bool readers, AskReplicator ask, void *ask_arg);

#endif
