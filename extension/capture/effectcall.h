/*
 * effectcall.h
 *	  A forwarded call of a function.  Private to the files that forward some.
 */
#ifndef LOCKSTEP_EFFECTCALL_H
#define LOCKSTEP_EFFECTCALL_H

#include "lockstep.h"

typedef struct LsCall
{
	const char *text;			/* with $1 ... for the parameters */
	bool		as_role;		/* under the current role; else as a superuser */
	uint32		nparams;
	StringInfoData params;
	uint32		nkeys;
	StringInfoData keys;
} LsCall;

extern void call_begin(LsCall *call, const char *text);
extern void call_add_param(LsCall *call, const char *text, size_t len);
extern void call_add_key(LsCall *call, const LsKey *key);
extern void call_forward(LsCall *call); /* frees what begin and add made */

/* In an apply session: does what the replicator sent begin like this? */
extern bool call_is_forwarded(const char *beginning);

#endif							/* LOCKSTEP_EFFECTCALL_H */
