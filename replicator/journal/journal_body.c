/*
 * journal_body.c
 *	  The queries of a large transaction, in a file of their own.
 *
 * The file has its final name from the beginning, so that making it durable needs only two
 * syncs, in any thread; if the replicator dies before the transaction is decided, no record
 * refers to the file.
 *
 * A chunk's checksum is seeded with the file's id and the chunk's position, so that after a
 * crash neither a chunk of another file nor one from before a savepoint was rolled back is taken
 * for the right one.
 */
#include "journal_body.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "journal_private.h"

#define BODY_MAGIC "LSJBODY1"
#define BODY_VERSION 1
#define CHUNK_HEADER_SIZE 12
#define BODY_SUFFIX ".body"
#define PART_SUFFIX ".part"

void
body_close_here(int fd)
{
	close(fd);
}

void		(*body_close) (int fd) = body_close_here;
const BodyWatcher *body_watcher;

bool
body_remove(int dir_fd, const char *name)
{
	int			fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	bool		ok = unlinkat(dir_fd, name, 0) == 0;
	int			saved_errno = errno;

	if (fd >= 0)
		body_close(fd);
	errno = saved_errno;
	return ok;
}

static const char *
error_text(const char *what, const char *name, const char *why)
{
	static _Thread_local char text[JOURNAL_ERROR_MAX];

	snprintf(text, sizeof(text), "could not %s \"%s\" in the journal's directory: %s", what, name, why);
	return text;
}

void
body_name(char name[32], uint64_t id)
{
	snprintf(name, 32, "%016" PRIx64 BODY_SUFFIX, id);
}

bool
body_parse_name(const char *name, uint64_t *id)
{
	if (strspn(name, "0123456789abcdef") != 16 || strcmp(name + 16, BODY_SUFFIX) != 0)
		return false;
	*id = strtoull(name, NULL, 16);
	return *id != 0;
}

void
body_part_name(char name[32], uint64_t id)
{
	snprintf(name, 32, "%016" PRIx64 PART_SUFFIX, id);
}

bool
body_is_part(const char *name)
{
	return strspn(name, "0123456789abcdef") == 16 && strcmp(name + 16, PART_SUFFIX) == 0;
}

static void
put_header(uint8_t header[BODY_START], uint64_t id)
{
	memset(header, 0, BODY_START);
	memcpy(header, BODY_MAGIC, 8);
	put_be32(header + 8, BODY_VERSION);
	put_be64(header + 16, id);
	put_be64(header + 56, XXH3_64bits(header, 56));
}

static uint64_t
checksum(const JournalBody *b, uint64_t offset, const void *payload, size_t len)
{
	uint8_t		seed[24];

	put_be64(seed, b->id);
	put_be64(seed + 8, offset);
	put_be64(seed + 16, len);
	return XXH3_64bits_withSeed(payload, len, XXH3_64bits(seed, sizeof(seed)));
}

/* ---------- opening and closing */

static JournalBody *
new_body(const char *dir, uint64_t id)
{
	JournalBody *b = xcalloc(1, sizeof(JournalBody));

	b->refs = 1;
	b->fd = -1;
	b->id = id;
	b->size = BODY_START;
	body_name(b->name, id);
	b->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return b;
}

JournalBody *
body_ref(JournalBody *b)
{
	b->refs++;
	return b;
}

void
body_unref(JournalBody *b)
{
	if (b == NULL || --b->refs > 0)
		return;
	if (b->fd >= 0 && !b->kept && body_watcher != NULL)
		body_watcher->gone(b->id);
	/* one that can't be deleted now is by the next start */
	if (b->fd >= 0 && !b->kept)
		(void) unlinkat(b->dir_fd, b->name, 0);
	if (b->fd >= 0)
		body_close(b->fd);
	if (b->dir_fd >= 0)
		close(b->dir_fd);
	free(b);
}

static JournalBody *
fail(JournalBody *b, const char *what, const char *why, const char **error)
{
	int			saved_errno = errno;

	*error = error_text(what, b->name, why);
	b->kept = true;
	body_unref(b);
	errno = saved_errno;
	return NULL;
}

JournalBody *
body_create(const char *dir, const char **error)
{
	uint8_t		header[BODY_START];
	uint64_t	id = 0;
	JournalBody *b;

	while (id == 0)
	{
		if (getrandom(&id, sizeof(id), 0) != (ssize_t) sizeof(id))
			abort();
	}
	b = new_body(dir, id);
	if (b->dir_fd >= 0)
		b->fd = openat(b->dir_fd, b->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return fail(b, "create", strerror(errno), error);
	put_header(header, id);
	errno = ENOSPC;				/* if it writes less, without an error */
	if (pwrite(b->fd, header, sizeof(header), 0) == (ssize_t) sizeof(header))
		return b;
	(void) unlinkat(b->dir_fd, b->name, 0);
	return fail(b, "write", strerror(errno), error);
}

JournalBody *
body_open(const char *dir, const BodyRef *ref, const char **error)
{
	JournalBody *b = new_body(dir, ref->id);
	uint8_t		expected[BODY_START];
	uint8_t		header[BODY_START];
	struct stat st;

	if (b->dir_fd >= 0)
		b->fd = openat(b->dir_fd, b->name, O_RDONLY | O_CLOEXEC);
	if (b->fd < 0 || fstat(b->fd, &st) != 0)
		return fail(b, "open", strerror(errno), error);
	put_header(expected, ref->id);
	if (pread(b->fd, header, sizeof(header), 0) != (ssize_t) sizeof(header) ||
		memcmp(header, expected, sizeof(header)) != 0)
		return fail(b, "use", "it is not what its name says", error);
	if ((uint64_t) st.st_size != ref->size)
		return fail(b, "use", "it has not the size that its record says", error);
	(void) posix_fadvise(b->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	b->size = ref->size;
	b->kept = true;
	return b;
}

/* ---------- writing */

/* The journal's next segments come first. */
static bool
has_room(const JournalBody *b, size_t len)
{
	struct statvfs fs;

	if (b->keep_free == 0 || fstatvfs(b->fd, &fs) != 0 ||
		(uint64_t) fs.f_bavail * fs.f_frsize >= len + b->keep_free)
		return true;
	errno = ENOSPC;
	return false;
}

bool
body_append(JournalBody *b, const void *payload, size_t len)
{
	uint8_t		header[CHUNK_HEADER_SIZE];
	size_t		total = CHUNK_HEADER_SIZE + len;
	struct iovec iov[2] = {{header, CHUNK_HEADER_SIZE}, {(uint8_t *) payload, len}};

	if (!has_room(b, total))
		return false;
	put_be32(header, (uint32_t) len);
	put_be64(header + 4, checksum(b, b->size, payload, len));
	if (!write_all(b->fd, iov, 2, b->size))
		return false;
	b->size += total;
	if (body_watcher != NULL)
		body_watcher->grown(b->id, b->size);
	return true;
}

void
body_cut(JournalBody *b, uint64_t offset)
{
	b->size = offset;
	if (body_watcher != NULL)
		body_watcher->cut(b->id, offset);
}

bool
body_seal(JournalBody *b)
{
	if (ftruncate(b->fd, (off_t) b->size) != 0)
		return false;
	if (body_watcher != NULL)
		body_watcher->sealed(b->id, b->size);
	return true;
}

/* ---------- reading */

/* n bytes at offset; TORN at the end of the file. */
static JournalStatus
read_exactly(int fd, uint8_t *to, size_t n, uint64_t offset)
{
	ssize_t		got = read_at(fd, to, n, offset);

	if (got < 0)
		return JOURNAL_ERROR;
	return (size_t) got < n ? JOURNAL_TORN : JOURNAL_OK;
}

JournalStatus
body_read(const JournalBody *b, uint64_t *offset, Buffer *chunk)
{
	uint8_t		header[CHUNK_HEADER_SIZE];
	JournalStatus status;
	size_t		len;

	if (*offset >= b->size)
		return JOURNAL_END;
	status = read_exactly(b->fd, header, sizeof(header), *offset);
	if (status != JOURNAL_OK)
		return status;
	len = get_be32(header);
	if (len > b->size - *offset || CHUNK_HEADER_SIZE > b->size - *offset - len)
		return JOURNAL_TORN;
	chunk->len = chunk->pos = 0;
	buffer_reserve(chunk, len);
	status = read_exactly(b->fd, chunk->data, len, *offset + CHUNK_HEADER_SIZE);
	if (status != JOURNAL_OK)
		return status;
	if (get_be64(header + 4) != checksum(b, *offset, chunk->data, len))
		return JOURNAL_TORN;
	chunk->len = len;
	*offset += CHUNK_HEADER_SIZE + len;
	return JOURNAL_OK;
}

const char *
body_error(const JournalBody *b, JournalStatus status)
{
	return error_text("read", b->name, status == JOURNAL_ERROR ? strerror(errno) :
					  status == JOURNAL_END ? "it ends early" : "it is corrupt");
}
