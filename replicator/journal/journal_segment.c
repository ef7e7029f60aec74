/*
 * journal_segment.c
 *	  One segment file: name, header, walking its records.
 *
 * Reads only.  All functions may be used while another thread appends to the file: a scan that
 * finds no more records, or invalid bytes, reads the bytes again before it reports that.
 */
#include "journal_private.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "buffer.h"

#define SEGMENT_MAGIC "LSJOURNL"
#define SEGMENT_SUFFIX ".journal"
#define TEMPORARY_SUFFIX ".journal.tmp"
#define WINDOW_SIZE (256 * 1024)

ssize_t
read_at(int fd, uint8_t *buf, size_t len, uint64_t offset)
{
	size_t		done = 0;

	while (done < len)
	{
		ssize_t		n = pread(fd, buf + done, len - done, (off_t) (offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t) n;
	}
	return (ssize_t) done;
}

bool
write_all(int fd, struct iovec *iov, size_t n, uint64_t offset)
{
	while (n > 0)
	{
		ssize_t		written = pwritev(fd, iov, n < IOV_MAX ? (int) n : IOV_MAX, (off_t) offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written == 0)
			errno = ENOSPC;
		if (written <= 0)
			return false;
		offset += (uint64_t) written;
		while (n > 0 && (size_t) written >= iov->iov_len)
		{
			written -= (ssize_t) iov->iov_len;
			iov++;
			n--;
		}
		if (n > 0)
		{
			iov->iov_base = (char *) iov->iov_base + written;
			iov->iov_len -= (size_t) written;
		}
	}
	return true;
}

#define ZEROS_AHEAD (256 * 1024)

void
zeros_ahead(ZerosAhead *z, int fd, uint64_t end, size_t len)
{
	static uint8_t zeros[ZEROS_AHEAD];
	struct iovec iov = {zeros, sizeof(zeros)};

	if (end <= z->upto)
		return;
	z->upto = end;
	if (len > ZEROS_AHEAD / 4 || end >= z->limit)
		return;					/* it has cost more than its sync */
	if (iov.iov_len > z->limit - end)
		iov.iov_len = z->limit - end;
	if (write_all(fd, &iov, 1, end))
		z->upto = end + iov.iov_len;
}

/* ---------- header: magic, u32 version, u32 head_len, u64 first, cluster, checksum */

void
segment_put_header(uint8_t buf[SEGMENT_HEADER_SIZE], const SegmentHeader *h)
{
	memcpy(buf, SEGMENT_MAGIC, 8);
	put_be32(buf + 8, SEGMENT_VERSION);
	put_be32(buf + 12, h->head_len);
	put_be64(buf + 16, h->first);
	memcpy(buf + 24, h->cluster, CLUSTER_LEN);
	put_be64(buf + 56, XXH3_64bits(buf, 56));
}

bool
segment_get_header(int fd, SegmentHeader *h, const char **why, bool *damaged)
{
	uint8_t		buf[SEGMENT_HEADER_SIZE];
	ssize_t		n = read_at(fd, buf, sizeof(buf), 0);

	*damaged = n >= 0;
	if (n < 0)
		*why = strerror(errno);
	else if (n < SEGMENT_HEADER_SIZE)
		*why = "its header is not complete";
	else if (memcmp(buf, SEGMENT_MAGIC, 8) != 0)
		*why = "it is not a journal segment";
	else if (get_be64(buf + 56) != XXH3_64bits(buf, 56))
		*why = "the checksum of its header is wrong";
	else if (get_be32(buf + 8) != SEGMENT_VERSION)
	{
		*damaged = false;
		*why = "it has been written by another version of the replicator";
	}
	else
	{
		h->head_len = get_be32(buf + 12);
		h->first = get_be64(buf + 16);
		memcpy(h->cluster, buf + 24, CLUSTER_LEN);
		h->cluster[CLUSTER_LEN] = '\0';
		return true;
	}
	return false;
}

/* ---------- names */

void
segment_path(char path[JOURNAL_PATH_MAX], const char *dir, uint64_t first, bool temporary)
{
	snprintf(path, JOURNAL_PATH_MAX, "%s/%016" PRIx64 "%s", dir, first,
			 temporary ? TEMPORARY_SUFFIX : SEGMENT_SUFFIX);
}

/* Is it 16 hex digits and the suffix? */
static bool
parse_name(const char *name, const char *suffix, uint64_t *first)
{
	char	   *end;

	if (strspn(name, "0123456789abcdef") != 16 || strcmp(name + 16, suffix) != 0)
		return false;
	*first = strtoull(name, &end, 16);
	return true;
}

static int
compare_first(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a,
				y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

bool
segment_list(const char *dir, SegmentList *list)
{
	DIR		   *d = opendir(dir);
	struct dirent *entry;
	size_t		cap = 0;
	uint64_t	first;

	memset(list, 0, sizeof(*list));
	if (d == NULL)
		return false;
	while ((entry = readdir(d)) != NULL)
	{
		if (parse_name(entry->d_name, SEGMENT_SUFFIX, &first))
		{
			if (list->n == cap)
			{
				cap = cap > 0 ? cap * 2 : 64;
				list->first = xrealloc(list->first, cap * sizeof(uint64_t));
			}
			list->first[list->n++] = first;
		}
		else if (parse_name(entry->d_name, TEMPORARY_SUFFIX, &first))
		{
			list->has_temporary = true;
			list->temporary = first;
		}
		else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
				 strcmp(entry->d_name, "lock") != 0 && strcmp(entry->d_name, POSITION_FILE) != 0 &&
				 strcmp(entry->d_name, POSITION_TEMPORARY) != 0 && strncmp(entry->d_name, GROUP_FILE, strlen(GROUP_FILE)) != 0)
			list->has_others = true;
	}
	closedir(d);
	if (list->n > 1)
		qsort(list->first, list->n, sizeof(uint64_t), compare_first);
	return true;
}

/* ---------- walking */

void
scan_start(SegmentScan *s, int fd, uint64_t offset)
{
	s->fd = fd;
	s->offset = offset;
	s->window_len = 0;
	s->window_at = offset;
	s->fresh = false;
}

void
scan_free(SegmentScan *s)
{
	free(s->window);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
}

/* Bytes of the window from offset on. */
static size_t
in_window(const SegmentScan *s)
{
	return s->window_at + s->window_len - s->offset;
}

/* Read the window anew, from offset on, at least want bytes if there are. */
static bool
load_window(SegmentScan *s, size_t want)
{
	ssize_t		n;

	if (want < WINDOW_SIZE)
		want = WINDOW_SIZE;
	if (want > s->window_cap)
	{
		/* what the old one holds is read again */
		free(s->window);
		s->window = xmalloc(want);
		s->window_cap = want;
	}
	s->window_at = s->offset;
	s->window_len = 0;
	s->fresh = true;
	n = read_at(s->fd, s->window, want, s->offset);
	if (n < 0)
		return false;
	s->window_len = (size_t) n;
	return true;
}

/* The record at offset, as far as the window and, if that ends in it, the file go. */
static JournalStatus
scan_try(SegmentScan *s, LsSlice *body)
{
	for (;;)
	{
		size_t		need;
		struct stat st;
		JournalStatus status;

		status = record_frame(s->window + (s->offset - s->window_at), in_window(s), body, &need);
		if (status != JOURNAL_TORN || need == 0)
			return status;

		/* longer than the window: believe the length only if the file has it */
		if (fstat(s->fd, &st) != 0)
			return JOURNAL_ERROR;
		if ((uint64_t) st.st_size < s->offset || (uint64_t) st.st_size - s->offset < need)
			return JOURNAL_TORN;
		if (!load_window(s, need))
			return JOURNAL_ERROR;
		if (s->window_len < need)
			return JOURNAL_TORN;	/* cut back meanwhile */
	}
}

JournalStatus
scan_next(SegmentScan *s, LsSlice *body)
{
	JournalStatus status = JOURNAL_END;

	s->fresh = false;
	if (s->window_len > 0)
		status = scan_try(s, body);
	if ((status == JOURNAL_END || status == JOURNAL_TORN) && !s->fresh)
	{
		if (!load_window(s, 0))
			return JOURNAL_ERROR;
		status = scan_try(s, body);
	}
	if (status == JOURNAL_OK)
		s->offset += RECORD_HEADER_SIZE + body->len;
	return status;
}

/* A zero at i, and more behind it: where a mark, or a byte that is not zero, may be. */
static size_t
skip_zeros(const uint8_t *buf, size_t n, size_t i)
{
	static const uint8_t zeros[512];

	while (i + sizeof(zeros) <= n && memcmp(buf + i, zeros, sizeof(zeros)) == 0)
		i += sizeof(zeros) - 3; /* of a mark's length the first three are zero */
	return i;
}

bool
segment_tail(int fd, uint64_t from, SegmentTail *tail)
{
	uint8_t    *buf = xmalloc(WINDOW_SIZE);
	uint64_t	at = from;
	ssize_t		n;

	memset(tail, 0, sizeof(*tail));
	while ((n = read_at(fd, buf, WINDOW_SIZE, at)) > 0)
	{
		for (size_t i = 0; i < (size_t) n; i++)
		{
			GroupMark	mark;
			LsSlice		body;
			size_t		need;

			i = skip_zeros(buf, (size_t) n, i);
			if (buf[i] != 0)
				tail->dirty = true;
			if ((size_t) n - i >= GROUP_MARK_SIZE &&
				get_be32(buf + i) == GROUP_MARK_SIZE - RECORD_HEADER_SIZE &&
				record_frame(buf + i, GROUP_MARK_SIZE, &body, &need) == JOURNAL_OK &&
				group_decode(body, &mark) &&
				mark.offset == at + i && mark.durable > from)
				tail->lost = true;
		}
		if (n < WINDOW_SIZE)
			break;
		at += WINDOW_SIZE - (GROUP_MARK_SIZE - 1);	/* a mark may stand across */
	}
	free(buf);
	return n >= 0;
}
