/*
 * metrics.h
 *	  The replicator's status in the text format of Prometheus.
 */
#ifndef LOCKSTEP_METRICS_H
#define LOCKSTEP_METRICS_H

#include <jansson.h>
#include <stdio.h>

/* status: what the replicator answers to "status". */
extern void metrics_print(FILE *out, const json_t *status);

#endif
