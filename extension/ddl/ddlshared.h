/*
 * ddlshared.h
 *	  Commands that change what all databases share, from a database that is not replicated.
 */
#ifndef LOCKSTEP_DDLSHARED_H
#define LOCKSTEP_DDLSHARED_H

#include "nodes/plannodes.h"

/*
 * Run the command in a replicated database, as a transaction of its own.  False: there is none now,
 * and lockstep.unreplicated allows to run it here.
 */
extern bool ddlshared_run(PlannedStmt *pstmt, const char *source, bool is_top_level);

/* ---------- from one process to the other */

typedef struct SharedRequest
{
	Oid			database;		/* where to run it */
	Oid			session_user;
	Oid			user;
	int			encoding;		/* of text and settings, and wanted for
								 * messages */
	Size		settings;		/* offset: name NUL value NUL ... */
	Size		settings_len;
	Size		text;			/* offset of the command, with NUL */
	Size		queue;			/* offset of the shm_mq with its messages */
} SharedRequest;

/* A message besides PostgreSQL's 'E' and 'N': the command is committed. */
#define SHARED_COMMITTED 'X'

extern PGDLLEXPORT void lockstep_shared_main(Datum arg);

#endif							/* LOCKSTEP_DDLSHARED_H */
