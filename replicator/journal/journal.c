/*
 * journal.c
 *	  Writing the journal: opening it after a crash at any point, appending, making durable,
 *	  switching segments, trimming.
 *
 * What a crash leaves at each step, and what opening does about it.  Each line has a test in
 * tests/unit/test_journal.c.
 *
 *	creating the directory	an empty one, or one with "lock": created anew
 *	writing "place"			see journal_position.c
 *	preparing a segment		ffffffffffffffff.journal.tmp, any content: deleted
 *	creating a segment		the same, or it has its name.  It gets the name when
 *							it is durable, and is used when the name is: a torn
 *							header under the real name is not due to a crash, and
 *							refused
 *	appending a group		a group cut off anywhere, or with holes (pages reach
 *							the disk in any order): cut off before its first bad
 *							record.  It was not reported as durable, as no later
 *							group mark exists.  With one, durable data is lost:
 *							refused.  The cut is durable before anything is
 *							appended, otherwise the rest of an old group could
 *							become valid behind a new one
 *	writing a body			(a large transaction's queries) a file that no record
 *							refers to: deleted.  It is durable, name and all,
 *							before its record is appended: a record without its
 *							file is not due to a crash, and refused
 *	after a failed append	the same as appending a group
 *	after a failed sync		the process has ended.  What is read of that group may
 *							be in memory only: what no mark says was durable is
 *							written again, synced, and read back from the disk
 *							(journal_disk.c); refused if that is something else
 *	switching segments		the old one is cut to its size and synced first; then
 *							a new one is made (see above).  A last segment
 *							without a transaction is legal
 *	trimming				oldest first, each durable before the next, their
 *							bodies after them: the journal begins later, and a
 *							body is left over that no record refers to
 *
 * A bad record in any other place, a segment missing in the middle, a segment of another
 * cluster: the journal is damaged, and opening fails and names the file.  Only a last group that
 * was damaged later cannot be distinguished from one that was never finished.
 *
 * Invariants: [0, durable) of the last segment is on disk; [durable, used) has
 * been written since the last sync; behind it are zeros.  Belongs to one
 * thread; journal_first() and journal_last() may be asked by any.
 */
#include "journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "log.h"
#include "points.h"

#define LOCK_PATIENCE_MS 5000
#define LOCK_LOOK_MS 10

struct Journal
{
	char	   *dir;
	int			dir_fd;
	int			lock_fd;
	size_t		segment_size;
	char		cluster[CLUSTER_LEN + 1];
	_Atomic uint64_t first;
	_Atomic uint64_t last;
	int			spare_fd;		/* file of the next segment, or -1 */
	/* the last segment */
	int			fd;
	uint64_t	segment_first;
	uint64_t	used;
	ZerosAhead	zeros;
	uint64_t	durable;
	uint64_t	durable_last;	/* highest seq below durable */
	uint64_t	proven;			/* when it was opened: a group mark says that
								 * everything before was durable */
	bool		broken;			/* a sync or a cut failed */
	bool		copy;			/* journal_is_copy() */
	bool		marks_of_others;	/* journal_open_copy() */
	Buffer		metadata;		/* head of the next segment */
	BodyList	bodies;			/* of its transactions */
	uint64_t	segment_bodies; /* bytes of those in the last segment */
	char		error[JOURNAL_ERROR_MAX];
	bool		damaged;		/* the error is damage */
};

static _Thread_local bool open_found_damage;

static void __attribute__((format(printf, 3, 4)))
note_error(Journal *j, bool damaged, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(j->error, sizeof(j->error), fmt, args);
	va_end(args);
	j->damaged = damaged;
}

/* Something could not be done. */
#define set_error(j, ...) note_error(j, false, __VA_ARGS__)

/* What is in the directory is no journal that was ever written so. */
#define set_damage(j, ...) note_error(j, true, __VA_ARGS__)

const char *
journal_error(const Journal *j)
{
	return j->error;
}

bool
journal_open_found_damage(void)
{
	return open_found_damage;
}

bool
journal_broken(const Journal *j)
{
	return j->broken;
}

bool
journal_is_copy(const Journal *j)
{
	return j->copy;
}

uint64_t
journal_first(const Journal *j)
{
	return j->first;
}

uint64_t
journal_last(const Journal *j)
{
	return j->last;
}

void
journal_end(const Journal *j, uint64_t *segment, uint64_t *offset)
{
	*segment = j->segment_first;
	*offset = j->used;
}

/* ---------- segments */

/*
 * Make a segment's file, with its space allocated: appending into allocated
 * space makes fdatasync() a third cheaper (ext4: 210 to 150 us).  Its fd, or -1
 * with errno.
 */
static int
allocate_segment(const Journal *j, const char *path)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int			failed;

	if (fd < 0)
		return -1;
	failed = posix_fallocate(fd, 0, (off_t) j->segment_size);
	if (failed == 0 && fsync(fd) != 0)
		failed = errno;
	if (failed != 0)
	{
		close(fd);
		unlink(path);
		errno = failed;
		return -1;
	}
	return fd;
}

/* Write its head and make it durable.  false: errno. */
static bool
begin_segment(Journal *j, int fd, uint64_t first)
{
	SegmentHeader header = {.first = first,.head_len = (uint32_t) j->metadata.len};
	uint8_t		bytes[SEGMENT_HEADER_SIZE];
	struct iovec iov[2] = {
		{bytes, sizeof(bytes)},
		{j->metadata.data, j->metadata.len}
	};

	memcpy(header.cluster, j->cluster, sizeof(header.cluster));
	segment_put_header(bytes, &header);
	return write_all(fd, iov, 2, 0) && fsync(fd) == 0;
}

/* The next segment's file, which has no first transaction yet. */
static void
spare_path(const Journal *j, char path[JOURNAL_PATH_MAX])
{
	segment_path(path, j->dir, UINT64_MAX, true);
}

bool
journal_is_prepared(const Journal *j)
{
	return j->spare_fd >= 0 || (j->used + j->segment_bodies) * 2 < j->segment_size;
}

/*
 * Half of the last segment is used: create the next one's file now.  If that fails, there is
 * room for what has been decided, and nothing more is decided until there is room again.
 */
JournalStatus
journal_prepare(Journal *j)
{
	char		path[JOURNAL_PATH_MAX];

	if (j->broken)
		return JOURNAL_ERROR;
	if (journal_is_prepared(j))
		return JOURNAL_OK;
	spare_path(j, path);
	j->spare_fd = allocate_segment(j, path);
	if (j->spare_fd >= 0)
	{
		LOCKSTEP_POINT(SEGMENT_PREPARED);
		return JOURNAL_OK;
	}
	set_error(j, "could not create the next journal segment in \"%s\": %s", j->dir, strerror(errno));
	return JOURNAL_ERROR;
}

/* A new last segment.  On failure the old one, if any, stays the last. */
static bool
create_segment(Journal *j, uint64_t first)
{
	char		temporary[JOURNAL_PATH_MAX];
	char		path[JOURNAL_PATH_MAX];
	int			fd = j->spare_fd;

	segment_path(path, j->dir, first, false);
	spare_path(j, temporary);
	if (fd < 0)
		fd = allocate_segment(j, temporary);
	j->spare_fd = -1;
	if (fd < 0 || !begin_segment(j, fd, first))
	{
		set_error(j, "could not create journal segment \"%s\": %s", path, strerror(errno));
		if (fd >= 0)
		{
			close(fd);
			unlink(temporary);
		}
		return false;
	}
	if (rename(temporary, path) != 0)
	{
		set_error(j, "could not rename journal segment \"%s\": %s", temporary, strerror(errno));
		close(fd);
		unlink(temporary);
		return false;
	}
	if (fsync(j->dir_fd) != 0)
	{
		set_error(j, "could not flush journal directory \"%s\": %s", j->dir, strerror(errno));
		close(fd);
		j->broken = true;
		return false;
	}
	if (j->fd >= 0)
		close(j->fd);
	j->fd = fd;
	j->segment_first = first;
	j->used = j->durable = SEGMENT_HEADER_SIZE + j->metadata.len;
	j->zeros = (ZerosAhead) {.limit = j->segment_size};
	j->segment_bodies = 0;
	return true;
}

/* Close the last segment for good: nothing behind its records, all durable. */
static bool
finish_segment(Journal *j)
{
	if (ftruncate(j->fd, (off_t) j->used) != 0 || fsync(j->fd) != 0)
	{
		set_error(j, "could not flush journal: %s", strerror(errno));
		j->broken = true;
		return false;
	}
	j->durable = j->used;
	j->durable_last = j->last;
	return true;
}

/*
 * Remove what is not durable.  The space is allocated again if possible; without, appending
 * needs more syncing but works.
 */
static void
cut_back(Journal *j)
{
	if (ftruncate(j->fd, (off_t) j->durable) != 0)
		j->broken = true;
	(void) posix_fallocate(j->fd, 0, (off_t) j->segment_size);
	j->zeros.upto = 0;
	j->used = j->durable;
	j->last = j->durable_last;
}

/* ---------- opening */

bool
journal_new_cluster(char cluster[CLUSTER_LEN + 1])
{
	uint8_t		bytes[CLUSTER_LEN / 2];

	/* up to 256 bytes come at once, if the system is up */
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t) sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(cluster + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Make the name of a new journal directory durable. */
static bool
flush_parent(Journal *j)
{
	int			fd = openat(j->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = fd >= 0 && fsync(fd) == 0;

	if (!ok)
		set_error(j, "could not flush the directory above journal directory \"%s\": %s",
				  j->dir, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool
open_directory(Journal *j, bool create)
{
	bool		made = create && mkdir(j->dir, 0700) == 0;

	if (create && !made && errno != EEXIST)
	{
		set_error(j, "could not create journal directory \"%s\": %s", j->dir, strerror(errno));
		return false;
	}
	j->dir_fd = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dir_fd < 0)
	{
		set_error(j, "could not open journal directory \"%s\": %s", j->dir, strerror(errno));
		return false;
	}
	return !made || flush_parent(j);
}

/* A predecessor that was told to stop has removed its pid file a moment before it is gone. */
static bool
await_lock(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_LOOK_MS * 1000 * 1000};

	for (int ms = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ms += LOCK_LOOK_MS)
	{
		if (errno != EWOULDBLOCK || ms >= LOCK_PATIENCE_MS)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Hold the directory against a second replicator, until the process ends. */
static bool
lock_directory(Journal *j)
{
	char		pid[32];
	ssize_t		n;

	j->lock_fd = openat(j->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (j->lock_fd < 0)
	{
		set_error(j, "could not open lock file \"%s/lock\": %s", j->dir, strerror(errno));
		return false;
	}
	if (!await_lock(j->lock_fd))
	{
		n = pread(j->lock_fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		set_error(j, "journal directory \"%s\" is in use by another replicator (PID %s)",
				  j->dir, pid[0] != '\0' ? pid : "unknown");
		return false;
	}
	n = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());
	if (ftruncate(j->lock_fd, 0) != 0 || pwrite(j->lock_fd, pid, (size_t) n, 0) != n)
	{
		set_error(j, "could not write lock file \"%s/lock\": %s", j->dir, strerror(errno));
		return false;
	}
	return true;
}

/* List the segments; delete what a crash left while one was made. */
static bool
list_segments(Journal *j, SegmentList *list)
{
	char		path[JOURNAL_PATH_MAX];

	for (;;)
	{
		if (!segment_list(j->dir, list))
		{
			set_error(j, "could not read journal directory \"%s\": %s", j->dir, strerror(errno));
			return false;
		}
		if (!list->has_temporary)
			return true;
		segment_path(path, j->dir, list->temporary, true);
		if (unlink(path) != 0)
		{
			set_error(j, "could not remove \"%s\": %s", path, strerror(errno));
			return false;
		}
		free(list->first);
	}
}

/*
 * Walk the records of a segment: *end is where the last good one ends, *last
 * its seq.  The transactions must be *last + 1, *last + 2 ...
 */
static bool
check_records(Journal *j, const char *path, int fd, uint32_t head_len,
			  uint64_t *end, uint64_t *last)
{
	SegmentScan scan = {.fd = -1};
	JournalStatus status = JOURNAL_OK;
	LsSlice		body;
	bool		ok = true;

	j->proven = 0;
	scan_start(&scan, fd, SEGMENT_HEADER_SIZE);
	while (ok && (status = scan_next(&scan, &body)) == JOURNAL_OK)
	{
		GroupMark	mark;
		JournalRecord record;

		if (group_decode(body, &mark))
		{
			if (mark.offset == scan.offset - GROUP_MARK_SIZE)
				j->proven = mark.durable;
			continue;
		}
		if (!record_decode(body, &record))
		{
			set_damage(j, "journal segment \"%s\" has an unknown record at offset %" PRIu64,
					   path, scan.offset - RECORD_HEADER_SIZE - body.len);
			ok = false;
		}
		else if (record.type == RECORD_TRANSACTION)
		{
			if (record.seq != *last + 1)
			{
				set_damage(j, "journal segment \"%s\" has transaction %" PRIu64 " where %" PRIu64 " should be",
						   path, record.seq, *last + 1);
				ok = false;
			}
			else if (record.body.id != 0 && !bodies_check(j->dir_fd, &record.body))
			{
				note_error(j, errno == ENOENT || errno == EINVAL, "journal segment \"%s\": the file with the queries of transaction %" PRIu64
						   " is not what its record says: %s", path, record.seq, strerror(errno));
				ok = false;
			}
			if (record.body.id != 0)
				bodies_add(&j->bodies, record.seq, &record.body);
			*last = record.seq;
		}
	}
	if (ok && status == JOURNAL_ERROR)
	{
		set_error(j, "could not read journal segment \"%s\": %s", path, strerror(errno));
		ok = false;
	}
	if (ok && scan.offset < SEGMENT_HEADER_SIZE + (uint64_t) head_len)
	{
		set_damage(j, "journal segment \"%s\" is corrupt at offset %" PRIu64, path, scan.offset);
		ok = false;
	}
	*end = scan.offset;
	scan_free(&scan);
	return ok;
}

/* What stands behind the good records: nothing, or what a crash may leave. */
static bool
check_tail(Journal *j, const char *path, int fd, uint64_t end, bool is_last)
{
	SegmentTail tail;

	if (!segment_tail(fd, end, &tail))
		set_error(j, "could not read journal segment \"%s\": %s", path, strerror(errno));
	else if (tail.lost || (tail.dirty && !is_last))
		set_damage(j, "journal segment \"%s\" is corrupt at offset %" PRIu64, path, end);
	else if (is_last && tail.dirty && (ftruncate(fd, (off_t) end) != 0 || fsync(fd) != 0))
		set_error(j, "could not truncate journal segment \"%s\": %s", path, strerror(errno));
	else
	{
		if (tail.dirty)
			log_message(LOG_NOTICE, NULL,
						"journal segment \"%s\" ended in an unfinished write, cut off at offset %" PRIu64,
						path, end);
		return true;
	}
	return false;
}

/* Check one segment; the last one becomes the one that is written. */
static bool
open_segment(Journal *j, uint64_t first, bool is_last)
{
	char		path[JOURNAL_PATH_MAX];
	SegmentHeader header;
	const char *why;
	bool		damaged;
	uint64_t	end;
	uint64_t	last = j->last;
	int			fd;
	bool		ok = false;

	segment_path(path, j->dir, first, false);
	fd = open(path, (is_last ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
	{
		set_error(j, "could not open journal segment \"%s\": %s", path, strerror(errno));
		return false;
	}
	if (!segment_get_header(fd, &header, &why, &damaged))
		note_error(j, damaged, "could not use journal segment \"%s\": %s", path, why);
	else if (header.first != first)
		set_damage(j, "journal segment \"%s\" has the name of another one", path);
	else if (j->cluster[0] != '\0' && strcmp(header.cluster, j->cluster) != 0)
		set_damage(j, "journal segment \"%s\" belongs to another cluster", path);
	else if (first != last + 1)
		set_damage(j, "journal segment \"%s\" should begin with transaction %" PRIu64 ": one is missing",
				   path, last + 1);
	else
	{
		memcpy(j->cluster, header.cluster, sizeof(j->cluster));
		ok = check_records(j, path, fd, header.head_len, &end, &last) &&
			check_tail(j, path, fd, end, is_last);
	}
	if (!ok || !is_last)
	{
		close(fd);
		j->last = last;
		return ok;
	}
	j->fd = fd;
	j->segment_first = first;
	j->last = last;
	j->used = end;
	j->segment_bodies = bodies_bytes(&j->bodies, first, UINT64_MAX);
	return true;
}

static bool
write_place(Journal *j)
{
	if (journal_position_write(j->dir_fd))
		return true;
	set_error(j, "could not write \"%s/" POSITION_FILE "\": %s", j->dir, strerror(errno));
	return false;
}

/* One that has no transaction yet lacks none. */
static bool
look_at_place(Journal *j)
{
	PositionState state = journal_position_check(j->dir_fd);

	j->copy = state != POSITION_SAME && j->last > 0;
	return state == POSITION_SAME || j->copy || write_place(j);
}

/*
 * Bring the disk to the state of the open journal in memory: what was read may have been written
 * but not synced when the last process died, or its sync had failed, and the page cache differs
 * from the disk.  A body is durable before its record is written, and one whose sync failed has
 * no record; a segment whose sync failed is the last one, or never got its name.
 */
static bool
settle_last_segment(Journal *j)
{
	char		path[JOURNAL_PATH_MAX];
	uint64_t	proven = j->proven < j->used ? j->proven : j->used;

	(void) posix_fallocate(j->fd, 0, (off_t) j->segment_size);	/* see cut_back() */
	j->zeros = (ZerosAhead) {.limit = j->segment_size};
	segment_path(path, j->dir, j->segment_first, false);
	if (!disk_settle(j->fd, path, j->marks_of_others ? 0 : proven, j->used))
	{
		set_error(j, "could not make the end of journal segment \"%s\" durable: %s", path,
				  errno == EIO ? "the disk does not have what was written" : strerror(errno));
		return false;
	}
	if (fsync(j->dir_fd) != 0)
	{
		set_error(j, "could not flush journal directory \"%s\": %s", j->dir, strerror(errno));
		return false;
	}
	j->durable = j->used;
	j->durable_last = j->last;
	return true;
}

static bool
open_segments(Journal *j, const SegmentList *list, bool create)
{
	if (list->n == 0)
	{
		if (!create || list->has_others)
		{
			set_error(j, create ? "directory \"%s\" is not empty and not a journal" :
					  "there is no journal in directory \"%s\"", j->dir);
			return false;
		}
		if (!journal_new_cluster(j->cluster))
			abort();
		j->first = 1;
		return create_segment(j, 1) && write_place(j);
	}
	j->first = list->first[0];
	j->last = list->first[0] - 1;
	for (size_t i = 0; i < list->n; i++)
	{
		if (!open_segment(j, list->first[i], i == list->n - 1))
			return false;
	}
	if (!bodies_delete_others(&j->bodies, j->dir))
	{
		set_error(j, "could not delete what is left over in journal directory \"%s\": %s", j->dir, strerror(errno));
		return false;
	}
	return settle_last_segment(j) && look_at_place(j);
}

static Journal *
new_journal(const char *dir, size_t segment_size)
{
	Journal    *j = xcalloc(1, sizeof(Journal));

	j->dir = xstrdup(dir);
	j->dir_fd = j->lock_fd = j->fd = j->spare_fd = -1;
	j->segment_size = segment_size;
	return j;
}

bool
journal_create(const char *dir, size_t segment_size, const char *cluster, uint64_t first,
			   LsSlice head, const char **error)
{
	static _Thread_local char message[JOURNAL_ERROR_MAX];
	Journal    *j = new_journal(dir, segment_size);
	SegmentList list = {0};
	bool		ok = open_directory(j, true) && lock_directory(j) && list_segments(j, &list);

	if (ok && (list.n > 0 || list.has_others))
	{
		set_error(j, "directory \"%s\" is not empty", j->dir);
		ok = false;
	}
	snprintf(j->cluster, sizeof(j->cluster), "%s", cluster);
	journal_set_metadata(j, &head, 1);
	ok = ok && create_segment(j, first) && write_place(j);
	memcpy(message, j->error, sizeof(message));
	*error = message;
	free(list.first);
	journal_close(j);
	return ok;
}

static Journal *
open_journal(Journal *j, bool create, char cluster[33], const char **error)
{
	static _Thread_local char message[JOURNAL_ERROR_MAX];
	SegmentList list = {0};
	bool		ok;

	ok = open_directory(j, create) && lock_directory(j) && list_segments(j, &list) &&
		open_segments(j, &list, create);
	free(list.first);
	if (!ok)
	{
		memcpy(message, j->error, sizeof(message));
		*error = message;
		open_found_damage = j->damaged;
		journal_close(j);
		return NULL;
	}
	memcpy(cluster, j->cluster, sizeof(j->cluster));
	return j;
}

Journal *
journal_open(const char *dir, bool create, size_t segment_size,
			 char cluster[33], const char **error)
{
	return open_journal(new_journal(dir, segment_size), create, cluster, error);
}

Journal *
journal_open_copy(const char *dir, size_t segment_size, char cluster[33], const char **error)
{
	Journal    *j = new_journal(dir, segment_size);

	j->marks_of_others = true;
	return open_journal(j, false, cluster, error);
}

void
journal_close(Journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	if (j->spare_fd >= 0)
	{
		char		path[JOURNAL_PATH_MAX];

		spare_path(j, path);
		unlink(path);
		close(j->spare_fd);
	}
	if (j->lock_fd >= 0)
		close(j->lock_fd);		/* and so unlock */
	if (j->dir_fd >= 0)
		close(j->dir_fd);
	buffer_free(&j->metadata);
	free(j->bodies.items);
	free(j->dir);
	free(j);
}

/* ---------- appending */

static JournalStatus
append_group(Journal *j, const LsSlice *records, size_t n)
{
	struct iovec *iov = xmalloc((n + 1) * sizeof(struct iovec));
	GroupMark	mark = {j->used, j->durable};
	uint8_t		mark_bytes[GROUP_MARK_SIZE];
	uint64_t	end = j->used + GROUP_MARK_SIZE;
	bool		ok;

	group_encode(mark_bytes, &mark);
	iov[0] = (struct iovec) {mark_bytes, sizeof(mark_bytes)};
	for (size_t i = 0; i < n; i++)
	{
		iov[i + 1] = (struct iovec) {(void *) records[i].data, records[i].len};
		end += records[i].len;
	}
	ok = write_all(j->fd, iov, n + 1, j->used);
	if (ok)
	{
		zeros_ahead(&j->zeros, j->fd, end, end - j->used);
		j->used = end;
	}
	else
	{
		set_error(j, "could not write to the journal in \"%s\": %s", j->dir, strerror(errno));
		cut_back(j);
	}
	free(iov);
	return ok ? JOURNAL_OK : JOURNAL_ERROR;
}

bool
journal_begins_segment(const Journal *j, size_t size)
{
	return j->used + j->segment_bodies + size > j->segment_size && j->last >= j->segment_first;
}

JournalStatus
journal_append(Journal *j, const LsSlice *records, size_t n, uint64_t last_seq)
{
	size_t		size = GROUP_MARK_SIZE;
	JournalStatus status;

	if (j->broken)
		return JOURNAL_ERROR;
	for (size_t i = 0; i < n; i++)
		size += records[i].len;
	if (journal_begins_segment(j, size))
	{
		if (!finish_segment(j) || !create_segment(j, j->last + 1))
			return JOURNAL_ERROR;
		LOCKSTEP_POINT(SEGMENT_BEGUN);
	}
	status = append_group(j, records, n);
	if (status == JOURNAL_OK && last_seq > j->last)
		j->last = last_seq;
	return status;
}

JournalStatus
journal_sync(Journal *j)
{
	if (j->broken)
		return JOURNAL_ERROR;
	if (j->durable == j->used)
		return JOURNAL_OK;
	if (fdatasync(j->fd) != 0)
	{
		set_error(j, "could not flush the journal in \"%s\": %s", j->dir, strerror(errno));
		j->broken = true;
		return JOURNAL_ERROR;
	}
	j->durable = j->used;
	j->durable_last = j->last;
	return JOURNAL_OK;
}

void
journal_set_metadata(Journal *j, const LsSlice *records, size_t n)
{
	j->metadata.len = 0;
	for (size_t i = 0; i < n; i++)
		buffer_append(&j->metadata, records[i].data, records[i].len);
}

void
journal_add_body(Journal *j, uint64_t seq, const BodyRef *body)
{
	bodies_add(&j->bodies, seq, body);
	j->segment_bodies += body->size;
}

void
journal_each_body(const Journal *j, void (*add) (uint64_t seq, const BodyRef *body))
{
	for (size_t i = 0; i < j->bodies.n; i++)
	{
		BodyRef		ref = {.id = j->bodies.items[i].id,.size = j->bodies.items[i].size};

		add(j->bodies.items[i].seq, &ref);
	}
}

uint64_t
journal_body_bytes(const Journal *j, uint64_t from, uint64_t below)
{
	return bodies_bytes(&j->bodies, from, below);
}

/* ---------- trimming */

/* A segment that can't be deleted now is tried again by the next call. */
void
journal_trim(Journal *j, uint64_t keep_from)
{
	SegmentList list;

	if (keep_from <= j->first || !segment_list(j->dir, &list))
		return;
	for (size_t i = 0; i + 1 < list.n && list.first[i + 1] <= keep_from; i++)
	{
		char		path[JOURNAL_PATH_MAX];

		segment_path(path, j->dir, list.first[i], false);
		if (unlink(path) != 0 || fsync(j->dir_fd) != 0)
			break;
		j->first = list.first[i + 1];
	}
	bodies_trim(&j->bodies, j->dir_fd, j->first);
	free(list.first);
}
