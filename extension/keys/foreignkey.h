/*
 * foreignkey.h
 *	  Is a query one that a foreign key's function runs?
 */
#ifndef LOCKSTEP_FOREIGNKEY_H
#define LOCKSTEP_FOREIGNKEY_H

extern void foreignkey_replace_functions(void);
extern bool foreignkey_starts_query(void);	/* the next to start is */
extern bool foreignkey_runs_query(void);	/* the innermost is */
extern void foreignkey_at_xact_end(void);

#endif							/* LOCKSTEP_FOREIGNKEY_H */
