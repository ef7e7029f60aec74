/*
 * version.h
 *	  What --version says, and where the configuration is looked for.
 */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

#define LOCKSTEP_VERSION "1.0"
#define LOCKSTEP_CONFIG_FILE "/etc/lockstep/replicator.conf"

#endif
