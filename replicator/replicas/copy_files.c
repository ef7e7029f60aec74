/*
 * copy_files.c
 *	  The journal's files as bytes: see copy_files.h.
 */
#include "copy_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "buffer.h"
#include "journal_body.h"
#include "journal_private.h"

#define TAIL_MAX (64 * 1024)
#define CLOSED_AT_ONCE (16 * 1024 * 1024)
#define PROBE_FILE "probe.tmp"
#define PROBE_BYTES (64 * 1024)

int
copy_open_segment(const char *dir, uint64_t segment, bool to_write)
{
	char		path[JOURNAL_PATH_MAX];

	segment_path(path, dir, segment, false);
	return open(path, (to_write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
}

int
copy_open_body(const char *dir, uint64_t id)
{
	char		name[32];
	char	   *path;
	int			fd;
	int			saved_errno;

	body_name(name, id);
	path = xasprintf("%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	saved_errno = errno;
	free(path);
	errno = saved_errno;
	return fd;
}

uint64_t
copy_next_segment(const char *dir, uint64_t segment)
{
	SegmentList list = {0};
	uint64_t	next = 0;

	if (!segment_list(dir, &list))
		return 0;
	for (size_t i = list.n; i > 0 && list.first[i - 1] > segment; i--)
		next = list.first[i - 1];
	free(list.first);
	return next;
}

bool
copy_has_segment(const char *dir, uint64_t segment)
{
	int			fd = copy_open_segment(dir, segment, false);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

uint64_t
copy_bytes_from(const char *dir, uint64_t segment, JournalPlace end)
{
	SegmentList list = {0};
	uint64_t	bytes = end.offset;
	bool		ok = segment_list(dir, &list);

	for (size_t i = 0; ok && i < list.n && list.first[i] < end.segment; i++)
	{
		char		path[JOURNAL_PATH_MAX];
		struct stat st;

		segment_path(path, dir, list.first[i], false);
		if (list.first[i] >= segment && stat(path, &st) == 0)
			bytes += (uint64_t) st.st_size;
	}
	free(list.first);
	return bytes;
}

bool
copy_tail(const char *dir, JournalPlace place, char tail[COPY_TAIL_HEX])
{
	size_t		len = place.offset < TAIL_MAX ? (size_t) place.offset : TAIL_MAX;
	int			fd = copy_open_segment(dir, place.segment, false);
	uint8_t    *bytes;
	bool		ok;

	if (fd < 0)
		return false;
	bytes = xmalloc(TAIL_MAX);
	ok = read_at(fd, bytes, len, place.offset - len) == (ssize_t) len;
	if (ok)
		snprintf(tail, COPY_TAIL_HEX, "%016" PRIx64, (uint64_t) XXH3_64bits(bytes, len));
	free(bytes);
	close(fd);
	return ok;
}

json_t *
copy_bodies(const char *dir)
{
	DIR		   *d = opendir(dir);
	json_t	   *ids = json_array();
	const struct dirent *e;
	uint64_t	id;

	while (d != NULL && (e = readdir(d)) != NULL)
	{
		if (body_parse_name(e->d_name, &id))
			json_array_append_new(ids, json_integer((json_int_t) id));
	}
	if (d != NULL)
		closedir(d);
	return ids;
}

static void *
close_main(void *arg)
{
	close((int) (intptr_t) arg);
	return NULL;
}

void
copy_close_apart(int fd)
{
	struct stat st;
	pthread_attr_t attr;
	pthread_t	thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (fstat(fd, &st) != 0 || st.st_nlink > 0 || st.st_size < CLOSED_AT_ONCE ||
		pthread_create(&thread, &attr, close_main, (void *) (intptr_t) fd) != 0)
		close(fd);
	pthread_attr_destroy(&attr);
}

bool
copy_remove_parts(const char *dir)
{
	DIR		   *d = opendir(dir);
	const struct dirent *e;
	bool		ok = d != NULL;

	while (ok && (e = readdir(d)) != NULL)
		ok = !body_is_part(e->d_name) || body_remove(dirfd(d), e->d_name);
	if (d != NULL)
		closedir(d);
	return ok;
}

bool
copy_delete_body(const char *dir, uint64_t id)
{
	char		name[32];
	int			dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok;

	body_name(name, id);
	ok = dir_fd >= 0 && (body_remove(dir_fd, name) || errno == ENOENT);
	if (dir_fd >= 0)
		close(dir_fd);
	return ok;
}

static bool
remove_bodies(const char *dir)
{
	json_t	   *ids = copy_bodies(dir);
	bool		ok = true;

	for (size_t i = 0; i < json_array_size(ids) && ok; i++)
		ok = copy_delete_body(dir, (uint64_t) json_integer_value(json_array_get(ids, i)));
	json_decref(ids);
	return ok;
}

static bool
flush_directory(const char *dir)
{
	int			fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = fd >= 0 && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool
cut_segment(const char *dir, JournalPlace place)
{
	int			fd = copy_open_segment(dir, place.segment, true);
	bool		ok = fd >= 0 && ftruncate(fd, (off_t) place.offset) == 0 && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

bool
copy_cut(const char *dir, JournalPlace place)
{
	SegmentList list = {0};
	bool		ok = segment_list(dir, &list);

	/* the last one first: what is left is always a beginning */
	for (size_t i = list.n; i > 0 && ok && list.first[i - 1] > place.segment; i--)
	{
		char		path[JOURNAL_PATH_MAX];

		segment_path(path, dir, list.first[i - 1], false);
		ok = unlink(path) == 0 && flush_directory(dir);
	}
	free(list.first);
	if (place.segment != 0)
		return ok && cut_segment(dir, place);
	return ok && remove_bodies(dir) && flush_directory(dir);
}

bool
copy_delete_before(const char *dir, uint64_t first)
{
	SegmentList list = {0};
	bool		ok = segment_list(dir, &list);

	for (size_t i = 0; i < list.n && ok && list.first[i] < first; i++)
	{
		char		path[JOURNAL_PATH_MAX];

		segment_path(path, dir, list.first[i], false);
		ok = unlink(path) == 0;
	}
	free(list.first);
	return ok && flush_directory(dir);
}

uint64_t
copy_room(const char *dir)
{
	struct statvfs st;

	return access(dir, W_OK) == 0 && statvfs(dir, &st) == 0 ? (uint64_t) st.f_bavail * st.f_frsize : 0;
}

bool
copy_can_write(const char *dir)
{
	int			dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int			fd = dir_fd >= 0 ? openat(dir_fd, PROBE_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	int			error = fd < 0 ? errno : 0;

	if (fd >= 0)
	{
		if (unlinkat(dir_fd, PROBE_FILE, 0) != 0)
			error = errno;
		else
			error = posix_fallocate(fd, 0, PROBE_BYTES);
		close(fd);
	}
	if (dir_fd >= 0)
		close(dir_fd);
	errno = error;
	return error == 0;
}
