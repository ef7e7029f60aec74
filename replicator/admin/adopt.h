/*
 * adopt.h
 *	  Making a new journal that begins where the nodes are, when the old one is
 *	  lost: lockstep-replicator --adopt-nodes.
 */
#ifndef LOCKSTEP_ADOPT_H
#define LOCKSTEP_ADOPT_H

#include "config.h"

/* Prints what it finds and does; false: nothing was made, and why has been said.
 * accept_loss: even if a server has crashed, which may have forgotten commits. */
extern bool adopt_nodes(const Config *config, bool accept_loss);

#endif
