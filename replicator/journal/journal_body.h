/*
 * journal_body.h
 *	  The queries of a large transaction, in a file of their own in the journal's
 *	  directory.  Written while the transaction arrives; once it is decided, its
 *	  record in the journal refers to the file instead of having the queries.
 *
 * File:	header (64 bytes: magic, u32 version, u32 0, u64 id, zeros, checksum),
 *			chunks.
 * Chunk:	u32 length of the payload, u64 XXH3 of the payload seeded with id,
 *			offset and length, payload: whole 'Q' messages, one after the other.
 *
 * What a crash leaves: a file that no record refers to, deleted by
 * journal_open(); or one that is complete, as it is made durable before its
 * record is written.  journal.c refuses a record without its file.
 *
 * A body belongs to the loop's thread; journal_sync.c gets its descriptor.
 */
#ifndef LOCKSTEP_JOURNAL_BODY_H
#define LOCKSTEP_JOURNAL_BODY_H

#include "buffer.h"
#include "journal.h"

#define BODY_CHUNK (256 * 1024) /* a chunk is written when there is so much */

typedef struct JournalBody
{
	int			refs;
	int			fd;
	int			dir_fd;
	uint64_t	id;
	uint64_t	size;			/* bytes written, header included */
	uint64_t	keep_free;		/* bytes of the disk that are not for bodies */
	bool		kept;			/* the journal's now: closing doesn't delete
								 * it */
	char		name[32];
} JournalBody;

/* NULL: *error says why (static). */
extern JournalBody *body_create(const char *dir, const char **error);
extern JournalBody *body_open(const char *dir, const BodyRef *ref, const char **error);
extern JournalBody *body_ref(JournalBody *b);

/* Closes the file of a body, deleted or not.  Giving back gigabytes takes long, so
 * journal_sync.c puts its own here; any thread calls it. */
extern void (*body_close) (int fd);
extern void body_close_here(int fd);

/* Removes a body's file, and closes it thus.  false: errno. */
extern bool body_remove(int dir_fd, const char *name);
extern void body_unref(JournalBody *b); /* the last one closes; deletes it
										 * unless kept */

/*
 * Who copies bodies while they are written is told of each; NULL: nobody is.  In
 * the thread of the one that calls, which is the loop's.
 */
typedef struct BodyWatcher
{
	void		(*grown) (uint64_t id, uint64_t size);	/* that is in the file */
	void		(*cut) (uint64_t id, uint64_t offset);	/* what was behind it,
														 * is not valid any more */
	void		(*sealed) (uint64_t id, uint64_t size); /* nothing more comes */
	void		(*gone) (uint64_t id);	/* it will be deleted */

	/* call done when all that have to have copies of a sealed one */
	void		(*await) (uint64_t id, void (*done) (void *arg), void *arg);
} BodyWatcher;

extern const BodyWatcher *body_watcher;

/* Append a chunk; false: nothing was appended, errno says why. */
extern bool body_append(JournalBody *b, const void *payload, size_t len);

/* Forget the chunk that begins at offset and those behind it. */
extern void body_cut(JournalBody *b, uint64_t offset);

/* Nothing more comes: cut off what was forgotten.  false: errno. */
extern bool body_seal(JournalBody *b);

/*
 * The payload of the chunk at *offset (BODY_START: the first one) into chunk,
 * and *offset behind it.  JOURNAL_END behind the last one; JOURNAL_TORN: it is
 * not what was written; JOURNAL_ERROR: errno.
 */
#define BODY_START 64
extern JournalStatus body_read(const JournalBody *b, uint64_t *offset, Buffer *chunk);

/* Words for a status that is not OK, after body_read() (static). */
extern const char *body_error(const JournalBody *b, JournalStatus status);

/* Names, for the journal: which files are bodies, which one is this. */
extern void body_name(char name[32], uint64_t id);
extern bool body_parse_name(const char *name, uint64_t *id);

/* A copy that is not complete, on another replicator: it counts for nothing. */
extern void body_part_name(char name[32], uint64_t id);
extern bool body_is_part(const char *name);

#endif							/* LOCKSTEP_JOURNAL_BODY_H */
