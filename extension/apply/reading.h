/*
 * reading.h
 *	  Sessions that read everybody's tables as a superuser (reading.c).
 */
#ifndef LOCKSTEP_READING_H
#define LOCKSTEP_READING_H

#include "nodes/parsenodes.h"

extern bool reading_guard(bool on);
extern bool reading_is_guarded(void);
extern void reading_check_query(Query *query);

#endif							/* LOCKSTEP_READING_H */
