/*
 * log_json.h
 *	  A message of the log as a JSON object on a line, with the names of PostgreSQL's jsonlog.
 */
#ifndef LOCKSTEP_LOG_JSON_H
#define LOCKSTEP_LOG_JSON_H

#include "log.h"

/* For log_set_destination(). */
extern char *log_json(const LogRecord *record, const char *time, const char *severity);

#endif
