/*
 * querysettings.h
 *	  The settings that came with a query, in an apply session.
 */
#ifndef LOCKSTEP_QUERYSETTINGS_H
#define LOCKSTEP_QUERYSETTINGS_H

/* names and values alternate in values[n]; n = 0: back to the session's own. */
extern void querysettings_set(char **values, int n);
extern bool querysettings_are_set(void);

/* A setting that the session whose query is applied has never heard of. */
extern bool querysettings_is_unknown(const char *name);

/* What RESET search_path gives: as at the origin, or as in this session. */
extern void querysettings_reset_path(bool origin);

#endif							/* LOCKSTEP_QUERYSETTINGS_H */
