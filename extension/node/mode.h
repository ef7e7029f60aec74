/*
 * mode.h
 *	  Does this session capture, apply, or neither?
 */
#ifndef LOCKSTEP_MODE_H
#define LOCKSTEP_MODE_H

typedef enum LsMode
{
	LS_MODE_OFF,				/* not a node, a database without the
								 * extension, lockstep.replicate = off, or the
								 * extension is just being created: nothing is
								 * captured */
	LS_MODE_ORIGIN,				/* changes are captured and forwarded */
	LS_MODE_APPLY				/* a session of the replicator: executes
								 * forwarded queries, forwards nothing */
} LsMode;

/* Mode of this session now.  Cheap: cached, refreshed by invalidation. */
extern LsMode ls_mode(void);

/* OIDs inside schema lockstep of this database; InvalidOid without the extension. */
extern Oid	ls_schema_oid(void);
extern Oid	ls_progress_relid(void);


/* The session is the replicator's from now on, for good; to_repair: see session_repairs(). */
extern void mode_begin_apply(bool to_repair);

/*
 * Some of this transaction may stay on this node: a command did, or lockstep.replicate or
 * lockstep.unreplicated was changed meanwhile.
 */
extern void mode_note_kept_here(void);
extern bool mode_keeps_here(void);

/* In LS_MODE_OFF: something that would be replicated is changed; if lockstep.replicate is off, it is here only. */
extern void mode_note_local_change(void);
extern bool mode_has_local_change(void);

extern void mode_at_xact_end(void);
extern void mode_on_replicate_changed(bool newval);
extern void mode_on_relcache_invalidation(Datum arg, Oid relid);
extern void mode_on_syscache_invalidation(Datum arg, int cacheid, uint32 hashvalue);

#endif							/* LOCKSTEP_MODE_H */
