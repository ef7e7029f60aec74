/*
 * journal_usage.h
 *	  How much room a journal takes, and how much there is.  Any thread, any process.
 */
#ifndef LOCKSTEP_JOURNAL_USAGE_H
#define LOCKSTEP_JOURNAL_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/* false: the directory can't be read. */
extern bool journal_usage(const char *dir, uint64_t *bytes, uint64_t *disk_free);

#endif
