/*
 * copy_files.h
 *	  The journal's files as bytes, for those who copy them: both sides of a stream.
 */
#ifndef LOCKSTEP_COPY_FILES_H
#define LOCKSTEP_COPY_FILES_H

#include <jansson.h>

#include "group_state.h"

#define COPY_TAIL_HEX 17

/* Descriptors; -1: errno. */
extern int	copy_open_segment(const char *dir, uint64_t segment, bool to_write);
extern int	copy_open_body(const char *dir, uint64_t id);

/* The first segment behind that one (0: of all); 0: there is none. */
extern uint64_t copy_next_segment(const char *dir, uint64_t segment);
extern bool copy_has_segment(const char *dir, uint64_t segment);

/* How much there is from the beginning of that segment up to that place, by the sizes of the files. */
extern uint64_t copy_bytes_from(const char *dir, uint64_t segment, JournalPlace end);

/* A checksum of the last bytes before that place, at most 64 kB of its segment.  false: errno. */
extern bool copy_tail(const char *dir, JournalPlace place, char tail[COPY_TAIL_HEX]);

/* The ids of all bodies in the directory: an array of integers. */
extern json_t *copy_bodies(const char *dir);

/* Remove bodies that are not complete.  false: errno. */
extern bool copy_remove_parts(const char *dir);

/*
 * Remove what is behind that place, durably: a copy goes on from there.  Segment 0: everything.
 * false: errno.
 */
extern bool copy_cut(const char *dir, JournalPlace place);

/* Bytes that may still be written there; 0 if that can't be found out, or no file may be created. */
extern uint64_t copy_room(const char *dir);

/*
 * Can small files be created and written there?  It is tried: there may be bytes, but no inodes, a
 * quota, or the file system is read-only.  false: errno.
 */
extern bool copy_can_write(const char *dir);

/* Remove segments before that one; a body, if it is there. */
extern bool copy_delete_before(const char *dir, uint64_t first);
extern bool copy_delete_body(const char *dir, uint64_t id);

/*
 * For body_close: gives back the bytes of a file that has been removed, which takes seconds for
 * gigabytes, in a thread of its own.
 */
extern void copy_close_apart(int fd);

#endif
