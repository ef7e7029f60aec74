/*
 * events.h
 *	  What has happened lately, for people: a ring of the last EVENTS_KEPT events.  Lost when
 *	  the replicator ends; the log has them all.  Loop's thread.
 */
#ifndef LOCKSTEP_EVENTS_H
#define LOCKSTEP_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#define EVENTS_KEPT 100

typedef struct Event
{
	uint64_t	time_us;		/* since 1970 */
	const char *name;			/* stable, a literal */
	char		node[64];		/* "": of no node */
	char		text[128];
	char		detail[512];	/* may have data of users in it, "": none */
} Event;

/* node and detail may be NULL. */
extern void event_note(const char *name, const char *node, const char *text, const char *detail);

/* 0: the latest; NULL: no more. */
extern const Event *event_get(size_t i);

#endif
