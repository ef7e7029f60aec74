/*
 * disk.c
 *	  For tests only: a disk that does not answer.
 *
 * Preloaded by the dynamic linker (LD_PRELOAD) into servers and replicators.  While there is a
 * file "disk_stands_still" in the working directory, which is a server's data directory, what
 * reads, writes or syncs files waits until it is gone.  The same with such a file beside the one
 * that is used, or in the directory that is synced: a replicator's journal directory; with
 * "disk_is_slow" there, each sync takes as many milliseconds as that file says; with
 * "bodies_are_slow", each of a body of a large transaction, or a part of one.  A thread that waits
 * leaves a file "waits.TID" there meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void
sleep_ms(long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

	(void) nanosleep(&pause, NULL);
}

/* The path of a file with that name on the same disk; false: it is no file. */
static bool
beside(int fd, const char *name, char path[PATH_MAX])
{
	char		link[40];
	char		target[PATH_MAX - 40];
	struct stat st;
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0 || target[0] != '/' || fstat(fd, &st) != 0)
		return false;
	target[n] = '\0';
	if (!S_ISDIR(st.st_mode))
		*strrchr(target, '/') = '\0';
	snprintf(path, PATH_MAX, "%s/%s", target, name);
	return true;
}

static void
wait_for_disk(int fd)
{
	char		path[PATH_MAX];
	char		name[40];
	char		mark[PATH_MAX];
	bool		known = beside(fd, "disk_stands_still", path);
	int			mark_fd = -1;

	snprintf(name, sizeof(name), "waits.%d", (int) gettid());
	while (access("disk_stands_still", F_OK) == 0 || (known && access(path, F_OK) == 0))
	{
		if (mark_fd < 0 && known && beside(fd, name, mark))
			mark_fd = open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		sleep_ms(10);
	}
	if (mark_fd < 0)
		return;
	close(mark_fd);
	unlink(mark);
}

static void
sleep_as_it_says(int fd, const char *name)
{
	char		path[PATH_MAX];
	FILE	   *f;
	long		ms = 0;

	if (!beside(fd, name, path) || (f = fopen(path, "re")) == NULL)
		return;
	if (fscanf(f, "%ld", &ms) == 1)
		sleep_ms(ms);
	fclose(f);
}

static bool
is_body(int fd)
{
	char		link[40];
	char		target[PATH_MAX];
	ssize_t		n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target));
	return n > 5 && (memcmp(target + n - 5, ".body", 5) == 0 || memcmp(target + n - 5, ".part", 5) == 0);
}

static void
be_slow(int fd)
{
	sleep_as_it_says(fd, "disk_is_slow");
	if (is_body(fd))
		sleep_as_it_says(fd, "bodies_are_slow");
}

#define CALL(type, name, params, args, before) \
	type name params \
	{ \
		static type (*next) params; \
		if (next == NULL) \
			next = (type (*) params) (uintptr_t) dlsym(RTLD_NEXT, #name); \
		wait_for_disk(fd); \
		before; \
		return next args; \
	}

CALL(int, fsync, (int fd), (fd), be_slow(fd))
CALL(int, fdatasync, (int fd), (fd), be_slow(fd))
CALL(ssize_t, pread, (int fd, void *data, size_t len, off_t at), (fd, data, len, at), (void) 0)
CALL(ssize_t, pwrite, (int fd, const void *data, size_t len, off_t at), (fd, data, len, at), (void) 0)
CALL(ssize_t, pread64, (int fd, void *data, size_t len, off64_t at), (fd, data, len, at), (void) 0)
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t len, off64_t at), (fd, data, len, at), (void) 0)
CALL(ssize_t, pwritev, (int fd, const struct iovec *data, int n, off_t at), (fd, data, n, at), (void) 0)
CALL(ssize_t, pwritev64, (int fd, const struct iovec *data, int n, off64_t at), (fd, data, n, at), (void) 0)
CALL(int, sync_file_range, (int fd, off64_t at, off64_t len, unsigned int flags), (fd, at, len, flags), (void) 0)
