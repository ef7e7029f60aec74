/*
 * journal_disk.c
 *	  Is what a file is read as really on disk?
 *
 * When a sync fails, Linux reports that once, marks the pages clean and keeps them: a
 * reader gets what was written, and the next sync succeeds without writing anything.  The
 * difference shows only after the pages were evicted.  So a process that finds data of
 * which it can't know that it was synced writes it again, syncs, and reads it back past
 * the page cache.
 *
 * Where a file system can't be read past its cache (tmpfs), the cache is asked to evict
 * the file.
 */
#include "journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"

#define BLOCK 4096				/* what O_DIRECT wants things aligned to */
#define CHUNK (256 * 1024)

/* Write the bytes of [from, end) that are read, again.  false: errno. */
static bool
write_again(int fd, uint8_t *buf, uint64_t from, uint64_t end)
{
	for (uint64_t at = from; at < end; at += CHUNK)
	{
		size_t		len = end - at < CHUNK ? (size_t) (end - at) : CHUNK;
		struct iovec iov = {buf, len};

		if (read_at(fd, buf, len, at) != (ssize_t) len || !write_all(fd, &iov, 1, at))
			return false;
	}
	return true;
}

/* A second descriptor of the file, that reads the disk; -1: errno. */
static int
open_disk(const char *path)
{
	int			fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd >= 0 || errno != EINVAL)
		return fd;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd;
}

/* Whole blocks, as long as the file has some; false: errno. */
static bool
read_disk(int fd, uint8_t *buf, size_t len, uint64_t at, size_t *got)
{
	ssize_t		n;

	do
		n = pread(fd, buf, (len + BLOCK - 1) / BLOCK * BLOCK, (off_t) at);
	while (n < 0 && errno == EINTR);
	*got = n > 0 ? (size_t) n : 0;
	return n >= 0;
}

/* from is a block's beginning. */
static bool
same_on_disk(int fd, int disk, uint8_t *buf, uint8_t *found, uint64_t from, uint64_t end)
{
	for (uint64_t at = from; at < end; at += CHUNK)
	{
		size_t		len = end - at < CHUNK ? (size_t) (end - at) : CHUNK;
		size_t		got;

		if (!read_disk(disk, found, len, at, &got) || read_at(fd, buf, len, at) != (ssize_t) len)
			return false;
		errno = EIO;
		if (got < len || memcmp(buf, found, len) != 0)
			return false;
	}
	return true;
}

bool
disk_settle(int fd, const char *path, uint64_t from, uint64_t end)
{
	uint8_t    *buf = xmalloc(CHUNK);
	uint8_t    *found = NULL;
	int			disk = -1;
	bool		ok;
	int			saved_errno;

	from -= from % BLOCK;
	if (posix_memalign((void **) &found, BLOCK, CHUNK) != 0)
		abort();
	errno = EIO;				/* if it is shorter than it was */
	ok = write_again(fd, buf, from, end) && fsync(fd) == 0 && (disk = open_disk(path)) >= 0 &&
		same_on_disk(fd, disk, buf, found, from, end);
	saved_errno = errno;
	if (disk >= 0)
		close(disk);
	free(found);
	free(buf);
	errno = saved_errno;
	return ok;
}
