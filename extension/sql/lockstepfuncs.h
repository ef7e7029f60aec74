/*
 * lockstepfuncs.h
 *	  What the SQL functions share.
 */
#ifndef LOCKSTEP_LOCKSTEPFUNCS_H
#define LOCKSTEP_LOCKSTEPFUNCS_H

#include "utils/timestamp.h"

#include "monotonic.h"

extern MonoTime mono_after_interval(Interval *interval);

#endif							/* LOCKSTEP_LOCKSTEPFUNCS_H */
