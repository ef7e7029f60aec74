/*
 * journal_reader.c
 *	  Reading the journal in order, while it is written.
 *
 * A reader holds one segment open.  The writer appends only to the last segment, and finishes a
 * segment before the next one gets its name; so a reader that finds the next segment reads the
 * rest of its own once more, which is complete then.  Segments deleted under a reader stay
 * readable through its descriptor; if the next one is deleted, too, it reports that.
 *
 * A record with a wrong checksum is being written, and counts as the end, unless a group mark
 * behind it states that it was durable: TORN.
 *
 * A reader belongs to one thread.
 */
#include "journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"

struct JournalReader
{
	char	   *dir;
	int			fd;
	uint64_t	first;			/* of the segment that is open */
	uint64_t	last;			/* seq read or skipped last */
	uint64_t	from;			/* lower ones are skipped */
	uint64_t	limit;			/* higher ones are not there yet */
	SegmentScan scan;
	char		error[JOURNAL_ERROR_MAX];
};

static JournalStatus __attribute__((format(printf, 2, 3)))
reader_fails(JournalReader *r, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(r->error, sizeof(r->error), fmt, args);
	va_end(args);
	return JOURNAL_ERROR;
}

const char *
journal_reader_error(const JournalReader *r)
{
	return r->error;
}

void
journal_reader_close(JournalReader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	scan_free(&r->scan);
	free(r->dir);
	free(r);
}

/*
 * Open the segment that begins with first.  JOURNAL_END if there is none.  The
 * metadata at its head is skipped if the reader comes from the segment before:
 * it has read them.
 */
static JournalStatus
enter_segment(JournalReader *r, uint64_t first, bool skip_head)
{
	char		path[JOURNAL_PATH_MAX];
	SegmentHeader header;
	const char *why;
	bool		damaged;
	int			fd;

	segment_path(path, r->dir, first, false);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return JOURNAL_END;
	if (fd < 0)
		return reader_fails(r, "could not open journal segment \"%s\": %s", path, strerror(errno));
	if (!segment_get_header(fd, &header, &why, &damaged))
	{
		close(fd);
		return reader_fails(r, "could not use journal segment \"%s\": %s", path, why);
	}
	if (r->fd >= 0)
		close(r->fd);
	r->fd = fd;
	r->first = first;
	r->last = first - 1;
	scan_start(&r->scan, fd, SEGMENT_HEADER_SIZE + (skip_head ? header.head_len : 0));
	return JOURNAL_OK;
}

/* Open the segment that has from, or will have it. */
static JournalStatus
enter_first_segment(JournalReader *r)
{
	/* a segment in the list may be trimmed before it is opened: list again */
	for (;;)
	{
		SegmentList list;
		uint64_t	first = 0;
		JournalStatus status;

		if (!segment_list(r->dir, &list))
			return reader_fails(r, "could not read journal directory \"%s\": %s",
								r->dir, strerror(errno));
		for (size_t i = 0; i < list.n && list.first[i] <= r->from; i++)
			first = list.first[i];
		if (first == 0)
		{
			uint64_t	lowest = list.n > 0 ? list.first[0] : 0;

			free(list.first);
			if (lowest == 0)
				return reader_fails(r, "there is no journal in directory \"%s\"", r->dir);
			return reader_fails(r, "the journal in \"%s\" begins with transaction %" PRIu64
								", not with %" PRIu64, r->dir, lowest, r->from);
		}
		free(list.first);
		status = enter_segment(r, first, false);
		if (status != JOURNAL_END)
			return status;
	}
}

JournalReader *
journal_reader_open(const char *dir, uint64_t from_seq, const char **error)
{
	static _Thread_local char message[JOURNAL_ERROR_MAX];
	JournalReader *r = xcalloc(1, sizeof(JournalReader));

	r->dir = xstrdup(dir);
	r->fd = -1;
	r->from = from_seq > 0 ? from_seq : 1;
	r->limit = UINT64_MAX;
	if (enter_first_segment(r) != JOURNAL_OK)
	{
		memcpy(message, r->error, sizeof(message));
		*error = message;
		journal_reader_close(r);
		return NULL;
	}
	return r;
}

void
journal_reader_rewind(JournalReader *r)
{
	r->from = r->first;
}

/*
 * What was read ahead beyond the old limit may have been cut back and rewritten since: read it
 * again.
 */
void
journal_reader_limit(JournalReader *r, uint64_t last_seq)
{
	if (last_seq == r->limit)
		return;
	r->limit = last_seq;
	scan_start(&r->scan, r->fd, r->scan.offset);
}

/* Is there a segment behind the one that is open? */
static bool
next_exists(const JournalReader *r)
{
	char		path[JOURNAL_PATH_MAX];

	if (r->last < r->first)
		return false;
	segment_path(path, r->dir, r->last + 1, false);
	return access(path, F_OK) == 0;
}

static JournalStatus
corrupt(JournalReader *r)
{
	reader_fails(r, "journal segment %016" PRIx64 " is corrupt at offset %" PRIu64,
				 r->first, r->scan.offset);
	return JOURNAL_TORN;
}

/* Nothing (good) follows in the last segment: the end, if all is well. */
static JournalStatus
end_of_journal(JournalReader *r, bool torn)
{
	SegmentTail tail;
	struct stat st;

	if (fstat(r->fd, &st) != 0)
		return reader_fails(r, "could not stat journal segment %016" PRIx64 ": %s",
							r->first, strerror(errno));
	if (st.st_nlink == 0 && !next_exists(r))
		return reader_fails(r, "the journal behind transaction %" PRIu64 " has been trimmed", r->last);
	if (torn)
	{
		if (!segment_tail(r->fd, r->scan.offset, &tail))
			return reader_fails(r, "could not read journal segment %016" PRIx64 ": %s",
								r->first, strerror(errno));
		if (tail.lost)
			return corrupt(r);
	}
	return JOURNAL_END;
}

/* The next record's body, crossing into the next segment when this one ends. */
static JournalStatus
next_body(JournalReader *r, LsSlice *body)
{
	for (;;)
	{
		JournalStatus status = scan_next(&r->scan, body);
		bool		finished = false;

		if (status == JOURNAL_END || status == JOURNAL_TORN)
		{
			/*
			 * a record may have come between our look and its successor's
			 * birth
			 */
			finished = next_exists(r);
			if (finished)
				status = scan_next(&r->scan, body);
		}
		if (status == JOURNAL_ERROR)
			return reader_fails(r, "could not read journal segment %016" PRIx64 ": %s",
								r->first, strerror(errno));
		if (status == JOURNAL_OK)
			return JOURNAL_OK;
		if (!finished)
			return end_of_journal(r, status == JOURNAL_TORN);
		if (status == JOURNAL_TORN)
			return corrupt(r);
		status = enter_segment(r, r->last + 1, true);
		if (status != JOURNAL_OK)
			return status;
	}
}

JournalStatus
journal_read(JournalReader *r, JournalRecord *record)
{
	for (;;)
	{
		LsSlice		body;
		GroupMark	mark;
		JournalStatus status = next_body(r, &body);

		if (status != JOURNAL_OK)
			return status;
		if (group_decode(body, &mark))
			continue;
		if (!record_decode(body, record))
			return reader_fails(r, "journal segment %016" PRIx64 " has an unknown record before offset %" PRIu64,
								r->first, r->scan.offset);
		if (record->type != RECORD_TRANSACTION)
			return JOURNAL_OK;
		if (record->seq != r->last + 1)
			return reader_fails(r, "the journal has transaction %" PRIu64 " where %" PRIu64 " should be",
								record->seq, r->last + 1);
		if (record->seq > r->limit)
		{
			scan_start(&r->scan, r->fd, r->scan.offset - RECORD_HEADER_SIZE - body.len);
			return JOURNAL_END;
		}
		r->last = record->seq;
		if (record->seq >= r->from)
			return JOURNAL_OK;
	}
}

/* ---------- one place in the history */

static JournalStatus
look_for_chain(JournalReader *r, uint64_t seq, uint64_t *chain)
{
	JournalStatus status;
	JournalRecord record;

	while ((status = journal_read(r, &record)) == JOURNAL_OK)
	{
		if (record.type == RECORD_CHAIN && record.seq == seq)
			return journal_chain_parse(record.text, chain) ? JOURNAL_OK : JOURNAL_TORN;
		if (record.type != RECORD_TRANSACTION)
			continue;
		if (record.seq == seq)
			*chain = record.chain;
		else if (record.seq == seq + 1)
			*chain = record.parent;
		return JOURNAL_OK;
	}
	return status;
}

bool
journal_chain_at(const char *dir, uint64_t seq, uint64_t *chain, const char **error)
{
	static _Thread_local char message[JOURNAL_ERROR_MAX];
	JournalReader *r = journal_reader_open(dir, seq, error);
	JournalStatus status;

	*chain = 0;
	if (r == NULL)				/* its segment is gone: what follows it says */
		r = journal_reader_open(dir, seq + 1, error);
	if (r == NULL)
		return false;
	status = look_for_chain(r, seq, chain);
	snprintf(message, sizeof(message), "%s", status == JOURNAL_ERROR ? journal_reader_error(r) : "it is corrupt");
	*error = message;
	journal_reader_close(r);
	return status == JOURNAL_OK || status == JOURNAL_END;
}
