/*
 * ctl_restart.h
 *	  lockstepctl restart: the servers of nodes, one after the other.
 */
#ifndef LOCKSTEP_CTL_RESTART_H
#define LOCKSTEP_CTL_RESTART_H

#include "config.h"
#include "ctl.h"

typedef struct RestartOptions
{
	char	  **nodes;			/* names */
	int			nnodes;			/* 0: all */
	const char *command;		/* a shell's, with escapes; NULL: the servers
								 * are of this machine */
	bool		dry_run;
	long		timeout_s;		/* of each step; 0: no limit */
	AskReplicator ask;
	void	   *ask_arg;
} RestartOptions;

/* status: the replicator's answer.  Prints; an exit code. */
extern int	restart_nodes(const RestartOptions *o, const Config *config, const json_t *status);

#endif
