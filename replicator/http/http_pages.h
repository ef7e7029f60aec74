/*
 * http_pages.h
 *	  What each path answers.  HTTP thread.
 */
#ifndef LOCKSTEP_HTTP_PAGES_H
#define LOCKSTEP_HTTP_PAGES_H

#include <stddef.h>

typedef struct HttpAnswer
{
	int			status;			/* 200, 404, 503 */
	const char *type;
	const char *text;			/* valid until the next call */
	size_t		len;
	const char *policy;			/* Content-Security-Policy */
} HttpAnswer;

/* journal_directory: its size is shown.  As of a standby, until http_pages_lead(). */
extern void http_pages_begin(const char *journal_directory);
extern void http_pages_lead(void);	/* any thread */

/* Behind the path's ?; NULL: not given. */
typedef struct HttpArguments
{
	const char *lag;			/* a node that catches up and lacks so many
								 * transactions is good for readers */
	const char *draining;		/* "404": the answer for a node that is being
								 * drained, instead of 503 */
} HttpArguments;

extern HttpAnswer http_page(const char *path, const HttpArguments *arguments);

#endif
