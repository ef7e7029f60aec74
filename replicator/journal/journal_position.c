/*
 * journal_position.c
 *	  Is the journal still in the directory in which it was written, or is it a copy?
 *
 * A copy may be old, and continuing with an old journal would lose transactions that
 * nodes have acknowledged since (history.c).  The file "place" in the directory records
 * its own inode and creation time, which no program that copies, unpacks or restores
 * files can reproduce, and the machine's id.  It can't detect that a file system or a
 * machine was set back as a whole.
 *
 * Where the file system has no creation times, the inode alone counts.  A crash leaves
 * the old file or the new one, or "place.tmp", which is overwritten.
 */
#include "journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POSITION_MAX 256
#define MACHINE_ID_FILE "/etc/machine-id"

/* One line without its end; "" if it can't be read. */
static void
read_line(int dir_fd, const char *name, char line[POSITION_MAX])
{
	int			fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t		n = fd >= 0 ? read_at(fd, (uint8_t *) line, POSITION_MAX - 1, 0) : 0;

	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

/* What the file says if it is where it was made. */
static bool
describe(int fd, char place[POSITION_MAX])
{
	struct statx st;
	char		machine[POSITION_MAX];

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) != 0)
		return false;
	if (!(st.stx_mask & STATX_BTIME))
		memset(&st.stx_btime, 0, sizeof(st.stx_btime));
	read_line(AT_FDCWD, MACHINE_ID_FILE, machine);
	snprintf(place, POSITION_MAX, "inode %" PRIu64 " made %" PRId64 ".%09" PRIu32 " machine %.64s", (uint64_t) st.stx_ino,
			 (int64_t) st.stx_btime.tv_sec, (uint32_t) st.stx_btime.tv_nsec, machine[0] != '\0' ? machine : "unknown");
	return true;
}

PositionState
journal_position_check(int dir_fd)
{
	char		said[POSITION_MAX];
	char		is[POSITION_MAX];
	int			fd = openat(dir_fd, POSITION_FILE, O_RDONLY | O_CLOEXEC);
	bool		known;

	if (fd < 0)
		return errno == ENOENT ? POSITION_UNKNOWN : POSITION_OTHER;
	known = describe(fd, is);
	close(fd);
	read_line(dir_fd, POSITION_FILE, said);
	return known && strcmp(said, is) == 0 ? POSITION_SAME : POSITION_OTHER;
}

bool
journal_position_write(int dir_fd)
{
	char		line[POSITION_MAX + 1];
	int			fd;
	bool		ok;
	int			saved_errno;

	(void) unlinkat(dir_fd, POSITION_TEMPORARY, 0);
	fd = openat(dir_fd, POSITION_TEMPORARY, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	ok = describe(fd, line);
	if (ok)
	{
		struct iovec iov;

		strcat(line, "\n");
		iov = (struct iovec) {line, strlen(line)};
		ok = write_all(fd, &iov, 1, 0) && fsync(fd) == 0 &&
			renameat(dir_fd, POSITION_TEMPORARY, dir_fd, POSITION_FILE) == 0 && fsync(dir_fd) == 0;
	}
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return ok;
}

bool
journal_settle(const char *dir)
{
	int			dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = dir_fd >= 0 && journal_position_write(dir_fd);
	int			saved_errno = errno;

	if (dir_fd >= 0)
		close(dir_fd);
	errno = saved_errno;
	return ok;
}
