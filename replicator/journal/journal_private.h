/*
 * journal_private.h
 *	  The journal's file format, shared by journal.c (writing), journal_reader.c
 *	  and journal_segment.c; journal_record.c has the records.
 *
 * Segment:	header (below), repeated metadata records, groups.
 * Group:	a group mark and the records of one journal_append().
 * Record:	u32 length of the body, u64 XXH3 of the body seeded with that
 *			length, body: u8 version, u8 type, fields (tag, u32 length, bytes).
 * Integers are big-endian, as in protocol.h, and so are the rules for tags.
 *
 * After the last record come zeros (space allocated in advance) or the end of
 * the file.
 */
#ifndef LOCKSTEP_JOURNAL_PRIVATE_H
#define LOCKSTEP_JOURNAL_PRIVATE_H

#include "journal.h"

#include <sys/uio.h>

#define RECORD_HEADER_SIZE 12
#define RECORD_VERSION 1
#define RECORD_GROUP 'g'		/* the group mark; never leaves the journal */
#define GROUP_MARK_SIZE (RECORD_HEADER_SIZE + 18)

/*
 * Written in front of each group.  A mark behind a bad record tells a torn
 * write, which was never reported as durable, from lost data.
 */
typedef struct GroupMark
{
	uint64_t	offset;			/* of the mark itself in its segment */
	uint64_t	durable;		/* everything before this offset was durable
								 * when the group was written */
} GroupMark;

/* ---------- in journal_record.c: pure */

/*
 * The record at the front of buf, checksum verified.  On JOURNAL_TORN *need is
 * the size it claims to have if buf is shorter than that, else 0.
 */
extern JournalStatus record_frame(const uint8_t *buf, size_t len, LsSlice *body, size_t *need);
extern bool record_decode(LsSlice body, JournalRecord *r);	/* a body from
															 * record_frame(): its
															 * checksum stands
															 * before it */
extern void group_encode(uint8_t buf[GROUP_MARK_SIZE], const GroupMark *mark);
extern bool group_decode(LsSlice body, GroupMark *mark);

extern void put_be32(uint8_t *p, uint32_t v);
extern void put_be64(uint8_t *p, uint64_t v);
extern uint32_t get_be32(const uint8_t *p);
extern uint64_t get_be64(const uint8_t *p);

/* ---------- in journal_bodies.c */

/* A body that the record of transaction seq refers to. */
typedef struct OwnedBody
{
	uint64_t	seq;
	uint64_t	id;
	uint64_t	size;
} OwnedBody;

typedef struct BodyList
{
	OwnedBody  *items;			/* by seq */
	size_t		n;
	size_t		cap;
} BodyList;

extern void bodies_add(BodyList *list, uint64_t seq, const BodyRef *body);
extern bool bodies_check(int dir_fd, const BodyRef *body);	/* it is there; false:
															 * errno */
extern uint64_t bodies_bytes(const BodyList *list, uint64_t from, uint64_t below);
extern void bodies_trim(BodyList *list, int dir_fd, uint64_t below);	/* delete */

/* Delete those in dir that are not in the list; false: errno. */
extern bool bodies_delete_others(const BodyList *list, const char *dir);

/* ---------- in journal_position.c */

#define POSITION_FILE "place"
#define POSITION_TEMPORARY "place.tmp"

/* Beside the journal, with what begins with it; replicas/group_state.c's. */
#define GROUP_FILE "group"

typedef enum PositionState
{
	POSITION_SAME,				/* it is where it was written */
	POSITION_OTHER,				/* it is a copy */
	POSITION_UNKNOWN			/* it says nothing of that */
} PositionState;

extern PositionState journal_position_check(int dir_fd);
extern bool journal_position_write(int dir_fd); /* false: errno */

/* ---------- in journal_disk.c */

/*
 * Make sure that [from, end) of the file is on the disk as it is read, whatever has
 * become of it before.  false: errno.
 */
extern bool disk_settle(int fd, const char *path, uint64_t from, uint64_t end);

/* ---------- in journal_segment.c */

/* Up to len bytes at offset; fewer only at the end of the file; -1: errno. */
extern ssize_t read_at(int fd, uint8_t *buf, size_t len, uint64_t offset);

/* Write all of it; changes iov.  false: errno. */
extern bool write_all(int fd, struct iovec *iov, size_t n, uint64_t offset);

/*
 * Where zeros have been written, a file system need not note that a block is in use when it is
 * written: fdatasync() is a fifth to a third cheaper than in space that is only allocated, and
 * needs one flush of the disk instead of two.  (PostgreSQL's wal_init_zero is for the same.)
 */
typedef struct ZerosAhead
{
	uint64_t	upto;			/* written before, or zeros */
	uint64_t	limit;			/* end of what is allocated */
} ZerosAhead;

/* len bytes have been written, up to end: write zeros behind them, if there are none.  It is no error if that fails. */
extern void zeros_ahead(ZerosAhead *z, int fd, uint64_t end, size_t len);

#define SEGMENT_HEADER_SIZE 64
#define SEGMENT_VERSION 1
#define CLUSTER_LEN 32
#define JOURNAL_PATH_MAX 4096
#define JOURNAL_ERROR_MAX 512

typedef struct SegmentHeader
{
	uint64_t	first;			/* seq of the first transaction it may hold */
	uint32_t	head_len;		/* bytes of repeated metadata after the header */
	char		cluster[CLUSTER_LEN + 1];
} SegmentHeader;

extern void segment_put_header(uint8_t buf[SEGMENT_HEADER_SIZE], const SegmentHeader *h);

/* false: *why is a static text; *damaged: it is that of no version, otherwise it can't be read here. */
extern bool segment_get_header(int fd, SegmentHeader *h, const char **why, bool *damaged);
extern void segment_path(char path[JOURNAL_PATH_MAX], const char *dir, uint64_t first, bool temporary);

/* First seqs of all segments, ascending; malloc'ed.  false: errno. */
typedef struct SegmentList
{
	uint64_t   *first;
	size_t		n;
	bool		has_temporary;	/* what a crash left while making */
	uint64_t	temporary;		/* this one */
	bool		has_others;		/* files that are none of ours */
} SegmentList;

extern bool segment_list(const char *dir, SegmentList *list);

/* Walks a segment's records; the file may grow meanwhile. */
typedef struct SegmentScan
{
	int			fd;
	uint64_t	offset;			/* of the next record */
	uint8_t    *window;			/* bytes of the file from window_at on */
	size_t		window_cap;
	size_t		window_len;
	uint64_t	window_at;
	bool		fresh;			/* read from the file in this call */
} SegmentScan;

extern void scan_start(SegmentScan *s, int fd, uint64_t offset);	/* takes no ownership of
																	 * fd */
extern void scan_free(SegmentScan *s);

/* The next record's body, valid until the next call; ERROR is errno. */
extern JournalStatus scan_next(SegmentScan *s, LsSlice *body);

/* What stands behind offset from, where no good record begins. */
typedef struct SegmentTail
{
	bool		dirty;			/* a byte that is not zero */
	bool		lost;			/* a group mark that says: from was durable */
} SegmentTail;

extern bool segment_tail(int fd, uint64_t from, SegmentTail *tail); /* false: errno */

#endif
