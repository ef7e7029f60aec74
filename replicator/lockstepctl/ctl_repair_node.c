/*
 * ctl_repair_node.c
 *	  Statements on the node that is repaired, in the transaction of the repair.
 */
#include <stdlib.h>
#include <sys/select.h>

#include "buffer.h"
#include "ctl_repair.h"
#include "json_text.h"

/*
 * Local transactions that hold what the repair waits for yield: the node is dropped, so
 * that they can't commit there, or come back by apply.
 */
static void
make_way(Repair *r)
{
	char	   *sql = xasprintf("SELECT lockstep.yield(b.blocker, 'It blocked a repair of this node.', 0, b.lxid) "
								"FROM lockstep.blockers(ARRAY[%d]) b", PQbackendPID(r->conn));
	PGresult   *result = PQexec(r->helper, sql);
	PGcancel   *cancel;
	char		why[256];

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		/* else we would wait for ever */
		(void) verify_fail(r->v, "node %s: %s", r->v->names[r->target], PQerrorMessage(r->helper));
		cancel = PQgetCancel(r->conn);
		if (cancel != NULL)
			(void) PQcancel(cancel, why, sizeof(why));
		PQfreeCancel(cancel);
	}
	PQclear(result);
	free(sql);
}

static PGresult *
wait_for_result(Repair *r)
{
	PGresult   *last = NULL;
	PGresult   *next;

	while (PQisBusy(r->conn))
	{
		struct timeval tv = {.tv_usec = 100000};
		fd_set		fds;
		int			fd = PQsocket(r->conn);

		if (fd < 0)
			break;
		FD_ZERO(&fds);
		FD_SET(fd, &fds);
		if (select(fd + 1, &fds, NULL, NULL, &tv) == 0)
			make_way(r);
		else if (!PQconsumeInput(r->conn))
			break;
	}
	while ((next = PQgetResult(r->conn)) != NULL)
	{
		PQclear(last);
		last = next;
	}
	return last;
}

/* NULL: it has failed, and that was said. */
PGresult *
repair_do(Repair *r, const char *sql, int nparams, const char *const *params)
{
	PGresult   *result = NULL;

	if (PQsendQueryParams(r->conn, sql, nparams, NULL, params, NULL, NULL, 0))
		result = wait_for_result(r);
	if (PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	(void) verify_fail(r->v, "node %s: %s", r->v->names[r->target], PQerrorMessage(r->conn));
	PQclear(result);
	return NULL;
}

bool
repair_run(Repair *r, const char *sql)
{
	PGresult   *result = repair_do(r, sql, 0, NULL);

	PQclear(result);
	return result != NULL;
}

void
repair_note(Repair *r, const char *kind, const char *object, long long removed, long long added)
{
	json_array_append_new(r->done, json_pack("{s:s, s:s, s:o, s:I, s:I}", "database", r->database, "kind", kind,
											 "object", json_from_text(object), "removed", (json_int_t) removed,
											 "added", (json_int_t) added));
}
