/*
 * apply_pids.c
 *	  Apply sessions by the process that serves them, and questions to a node about its
 *	  processes.
 */
#include <stdio.h>
#include <string.h>

#include "apply.h"
#include "log.h"

ApplyConn *
pools_find_connection(const Node *n, int pid)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		for (int i = 0; i < p->nconnections; i++)
		{
			if (apply_backend_pid(p->connections[i]) == pid)
				return p->connections[i];
		}
	}
	return NULL;
}

void
pids_add(Buffer *pids, int pid)
{
	char		text[16];

	snprintf(text, sizeof(text), "%s%d", pids->len > 0 ? "," : "{", pid);
	buffer_append(pids, text, strlen(text));
}

bool
pids_ask(Node *n, Buffer *pids, const char *query, bool *asked, PgDone done)
{
	const char *params[1];

	if (pids->len == 0)
		return false;
	buffer_append(pids, "}", 2);	/* and NUL */
	params[0] = (const char *) pids->data;
	*asked = true;				/* before: it may fail at once */
	pgclient_query(n->control, query, 1, params, done, n);
	buffer_free(pids);
	return true;
}

bool
pids_answered(const Node *n, const PGresult *r, bool *asked, const char *what)
{
	*asked = false;
	if (r == NULL)
		return false;
	node_heard((Node *) n);
	if (PQresultStatus(r) == PGRES_TUPLES_OK)
		return true;
	log_message(LOG_WARNING, n->config->name, "could not %s: %s", what, pgclient_message(PQresultErrorMessage(r)));
	return false;
}
