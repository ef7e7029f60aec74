/*
 * force.h
 *	  Making a replicator lead that is not in sync, when those that are have been lost:
 *	  lockstep-replicator --force-leader.
 */
#ifndef LOCKSTEP_FORCE_H
#define LOCKSTEP_FORCE_H

#include "config.h"

/*
 * Prints what it finds, and what is lost; false: nothing was changed, and why has been said.
 * Without accept_loss nothing is changed.
 */
extern bool force_leader(const Config *config, bool accept_loss);

#endif
