/*
 * generation.c
 *	  The replicator's generation, and what to do when a node refuses it: see
 *	  generation.h.
 */
#include "generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "restart.h"

#define EXIT_OUTDATED 2

static uint64_t own;			/* durable */
static uint64_t own_run;

uint64_t
generation_number(void)
{
	return own;
}

uint64_t
generation_run(void)
{
	return own_run;
}

void
generation_set_run(uint64_t run)
{
	own_run = run;
}

void
generation_set_number(uint64_t number)
{
	own = number;
}

void
node_generation(int node, uint64_t *generation, uint64_t *run)
{
	*generation = node_get(node)->generation;
	*run = *generation != 0 ? own_run : 0;
}

GenerationParams
generation_params(const Node *n)
{
	GenerationParams params;

	snprintf(params.number, sizeof(params.number), "%" PRIu64, n->generation);
	snprintf(params.run, sizeof(params.run), "%" PRId64, (int64_t) own_run);
	return params;
}

void
generation_outdated(const Node *n, const char *detail)
{
	log_full(LOG_ERROR, n->config->name, "another replicator has taken the place of this one, which ends", detail,
			 "Only one may run: see \"Two replicators\" in docs/operating.md.");
	restart_or_exit(EXIT_OUTDATED);
}

void
generation_check_result(const Node *n, const PGresult *r)
{
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

	if (sqlstate != NULL && strcmp(sqlstate, GENERATION_OUTDATED) == 0)
		generation_outdated(n, PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL));
}
