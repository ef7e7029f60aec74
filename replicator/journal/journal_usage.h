/*
 * journal_usage.h
 *	  How much room a journal takes, and how much there is.  Any thread, any process.
 */
#ifndef LOCKSTEP_JOURNAL_USAGE_H
#define LOCKSTEP_JOURNAL_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/* With less on its disk somebody should act. */
#define JOURNAL_LITTLE_ROOM (INT64_C(256) << 20)

/* false: the directory can't be read. */
extern bool journal_usage(const char *dir, uint64_t *bytes, uint64_t *disk_free);

#endif
