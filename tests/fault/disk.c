/*
 * disk.c
 *	  For tests only: a disk that does not answer.
 *
 * Preloaded by the dynamic linker (LD_PRELOAD) into servers.  While there is a file
 * "disk_stands_still" in the working directory, which is the data directory, what
 * reads, writes or syncs files waits until it is gone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void
wait_for_disk(void)
{
	struct timespec pause = {0, 10000000};

	while (access("disk_stands_still", F_OK) == 0)
		(void) nanosleep(&pause, NULL);
}

#define CALL(type, name, params, args) \
	type name params \
	{ \
		static type (*next) params; \
		if (next == NULL) \
			next = (type (*) params) (uintptr_t) dlsym(RTLD_NEXT, #name); \
		wait_for_disk(); \
		return next args; \
	}

CALL(int, fsync, (int fd), (fd))
CALL(int, fdatasync, (int fd), (fd))
CALL(ssize_t, pread, (int fd, void *data, size_t len, off_t at), (fd, data, len, at))
CALL(ssize_t, pwrite, (int fd, const void *data, size_t len, off_t at), (fd, data, len, at))
CALL(ssize_t, pread64, (int fd, void *data, size_t len, off64_t at), (fd, data, len, at))
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t len, off64_t at), (fd, data, len, at))
CALL(ssize_t, pwritev, (int fd, const struct iovec *data, int n, off_t at), (fd, data, n, at))
CALL(ssize_t, pwritev64, (int fd, const struct iovec *data, int n, off64_t at), (fd, data, n, at))
CALL(int, sync_file_range, (int fd, off64_t at, off64_t len, unsigned int flags), (fd, at, len, flags))
