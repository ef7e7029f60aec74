/*
 * usersettings.h
 *	  Settings that users give a database or a role do not reach the replicator's sessions.
 */
#ifndef LOCKSTEP_USERSETTINGS_H
#define LOCKSTEP_USERSETTINGS_H

extern void usersettings_remember(void);
extern void usersettings_before_query(void);

#endif							/* LOCKSTEP_USERSETTINGS_H */
