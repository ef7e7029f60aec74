/*
 * database_command.h
 *	  CREATE, DROP and ALTER DATABASE RENAME of a session, on all nodes.
 */
#ifndef LOCKSTEP_DATABASE_COMMAND_H
#define LOCKSTEP_DATABASE_COMMAND_H

#include "database_event.h"
#include "membership.h"

/* done false: nothing has changed, error says why. */
typedef void (*DatabaseCommandDone) (void *arg, bool done, const LsErrorFields *error);

/* command: the text of CREATE DATABASE, which all nodes understand alike; it gets an OID. */
extern void database_command_create(LsSlice name, LsSlice command, DatabaseCommandDone done, void *arg);

/* force: sessions are ended, by that role; superuser: also those of superusers. */
extern void database_command_drop(LsSlice name, bool force, bool superuser, LsSlice role, DatabaseCommandDone done, void *arg);

extern void database_command_rename(LsSlice name, LsSlice new_name, DatabaseCommandDone done, void *arg);

/* New sessions in it are refused, as it is about to be ...; NULL: they are not. */
extern const char *database_command_closes(const char *name);

#endif
