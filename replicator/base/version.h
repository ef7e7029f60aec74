/*
 * version.h
 *	  What --version says, and where the configuration is looked for.
 */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

/* LOCKSTEP_VERSION: the Makefile defines it, as extension/lockstep.control has it. */
#define LOCKSTEP_CONFIG_FILE "/etc/lockstep/replicator.conf"

#endif
