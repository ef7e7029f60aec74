/*
 * status.h
 *	  The state of the cluster as JSON.  Belongs to the loop's thread.
 *
 * data: with errors, statements and details, which may quote what users have stored.
 */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "conflict_log.h"

extern json_t *json_seq(uint64_t seq);

extern json_t *status_facts(bool data); /* what lockstepctl status shows */
extern json_t *status_node(int node, bool data);

/* A table of texts as a list of objects; columns of numbers as numbers. */
extern json_t *status_rows(const FactsColumn *columns, int ncolumns, bool (*row) (size_t i, const char **cells));

#endif
