/*
 * apply.h
 *	  What lockstepfuncs.c, the SQL functions, needs of apply.c.
 */
#ifndef LOCKSTEP_APPLY_H
#define LOCKSTEP_APPLY_H

#include "lockstep.h"

extern void apply_start(const char *cluster);
extern void apply_value_settings(void); /* of texts that nodes exchange */
extern void apply_start_repair(void);
extern void apply_check_call(const char *function);
extern void apply_settings(char **values, int n);
extern uint64 apply_copy(const char *command, const char *data, size_t len);

#endif							/* LOCKSTEP_APPLY_H */
