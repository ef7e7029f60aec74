/*
 * points.c
 *	  The hook behind the hand-over points: see points.h.
 */
#include "postgres.h"

#include "points.h"

/* No module waits at a point unless it sets the rendezvous variable. */
static LsPointHook no_point_hook = NULL;
LsPointHook *ls_point_hook = &no_point_hook;
