/*
 * lockstep.h
 *	  What all files of the extension need.  Each room has headers of its own (README.md);
 *	  differences between versions of PostgreSQL are in compat.h.  Include after
 *	  postgres.h.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "fmgr.h"
#include "lib/stringinfo.h"

#include "protocol.h"

/* A function that SQL can call. */
#define LS_FUNCTION(name) \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

/* A function that doesn't return (18 has pg_noreturn in place of pg_attribute_noreturn). */
#define LS_NORETURN __attribute__((noreturn))

/* The bytes in a buffer. */
static inline LsSlice
ls_slice_of_buffer(const StringInfoData *buffer)
{
	return (LsSlice) {(const uint8_t *) buffer->data, (size_t) buffer->len};
}

/*
 * A place in the journal's history: a seq, and what the history up to it is
 * known by (journal.h of the replicator); 0: not known.
 */
typedef struct JournalPosition
{
	uint64		seq;
	uint64		chain;
} JournalPosition;

/* SQLSTATEs that the replicator knows. */
#define LS_ERRCODE_ALREADY_APPLIED MAKE_SQLSTATE('L', 'S', '0', '0', '1')
#define LS_ERRCODE_APPLY_ROLLBACK MAKE_SQLSTATE('L', 'S', '0', '0', '2')
#define LS_ERRCODE_OTHER_ROWS MAKE_SQLSTATE('L', 'S', '0', '0', '3')
#define LS_ERRCODE_NOT_TOGETHER MAKE_SQLSTATE('L', 'S', '0', '0', '4')
#define LS_ERRCODE_OUTDATED MAKE_SQLSTATE('L', 'S', '0', '0', '5')
#define LS_ERRCODE_FUNCTION_FOR_NOW MAKE_SQLSTATE('L', 'S', '0', '0', '6')

#endif							/* LOCKSTEP_H */
