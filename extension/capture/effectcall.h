/*
 * effectcall.h
 *	  A forwarded call of a function.  Private to the files that forward some.
 */
#ifndef LOCKSTEP_EFFECTCALL_H
#define LOCKSTEP_EFFECTCALL_H

#include "lockstep.h"

typedef struct EffectCall
{
	const char *text;			/* with $1 ... for the parameters */
	bool		as_role;		/* under the current role; else as a superuser */
	uint32		nparams;
	StringInfoData params;
	uint32		nkeys;
	StringInfoData keys;
} EffectCall;

extern void effectcall_begin(EffectCall *call, const char *text);
extern void effectcall_add_param(EffectCall *call, const char *text, size_t len);
extern void effectcall_add_key(EffectCall *call, const LsKey *key);
extern void effectcall_forward(EffectCall *call);	/* frees what begin and
													 * add made */

/* In an apply session: does what the replicator sent begin like this? */
extern bool effectcall_is_forwarded(const char *beginning);

#endif							/* LOCKSTEP_EFFECTCALL_H */
