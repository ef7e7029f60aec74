/*
 * status_page.h
 *	  The status page: HTML without anything from elsewhere.
 */
#ifndef LOCKSTEP_STATUS_PAGE_H
#define LOCKSTEP_STATUS_PAGE_H

extern const char status_page[];

/* The Content-Security-Policy under which it works: its own style and script, and nothing else. */
extern const char *status_page_policy(void);

#endif
