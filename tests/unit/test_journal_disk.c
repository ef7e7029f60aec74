/*
 * test_journal_disk.c
 *	  Proves that after a sync that failed nothing is trusted that only the page
 *	  cache has.  The disk is an imitation of what Linux does: a sync that fails takes
 *	  the pages for clean, and they stay readable until the power goes.
 *
 * Linked with --wrap for the calls that write, sync and read (replicator/Makefile).
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "journal_private.h"
#include "log.h"

#define SEGMENT (64 * 1024)
#define PAGE 4096
#define MAX_SIZE (256 * 1024)
#define MAX_FILES 32
#define MAX_FDS 256

extern ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t offset);
extern ssize_t __real_pread(int fd, void *buf, size_t len, off_t offset);
extern int	__real_fsync(int fd);
extern int	__real_open(const char *path, int flags,...);
extern int	__real_close(int fd);

extern ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t offset);
extern ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset);
extern int	__wrap_fsync(int fd);
extern int	__wrap_fdatasync(int fd);
extern int	__wrap_open(const char *path, int flags,...);
extern int	__wrap_close(int fd);

/* ---------- the disk */

typedef struct DiskFile
{
	ino_t		ino;
	size_t		size;
	uint8_t		bytes[MAX_SIZE];
	bool		dirty[MAX_SIZE / PAGE];
}			DiskFile;

static DiskFile files[MAX_FILES];
static int	nfiles;
static bool reads_disk[MAX_FDS];
static bool sync_fails;			/* and says so */
static bool sync_lies;			/* it succeeds, and nothing is written */
static int	failed_syncs;

static DiskFile *
file_of(ino_t ino)
{
	for (int i = 0; i < nfiles; i++)
	{
		if (files[i].ino == ino)
			return &files[i];
	}
	assert_true(nfiles < MAX_FILES);
	memset(&files[nfiles], 0, sizeof(DiskFile));
	files[nfiles].ino = ino;
	return &files[nfiles++];
}

static DiskFile *
file_at(int fd, struct stat *st)
{
	if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))
		return NULL;
	assert_true(st->st_size <= MAX_SIZE);
	return file_of(st->st_ino);
}

ssize_t
__wrap_pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
	ssize_t		written = __real_pwritev(fd, iov, n, offset);
	struct stat st;
	DiskFile   *f = file_at(fd, &st);

	for (off_t at = offset; f != NULL && at < offset + written; at = (at / PAGE + 1) * PAGE)
		f->dirty[at / PAGE] = true;
	return written;
}

/* Pages that are not dirty stay on the disk as they are there. */
int
__wrap_fsync(int fd)
{
	struct stat st;
	DiskFile   *f = file_at(fd, &st);

	if (f == NULL)
		return 0;
	for (size_t page = 0; page < MAX_SIZE / PAGE; page++)
	{
		if (f->dirty[page] && !sync_fails && !sync_lies)
			assert_true(__real_pread(fd, f->bytes + page * PAGE, PAGE, (off_t) (page * PAGE)) >= 0);
		f->dirty[page] = false;
	}
	if (sync_fails)
	{
		failed_syncs++;
		errno = EIO;
		return -1;
	}
	if ((size_t) st.st_size < f->size)
		memset(f->bytes + st.st_size, 0, f->size - (size_t) st.st_size);
	f->size = (size_t) st.st_size;
	return 0;
}

int
__wrap_fdatasync(int fd)
{
	return __wrap_fsync(fd);
}

int
__wrap_open(const char *path, int flags,...)
{
	va_list		args;
	int			fd;

	va_start(args, flags);
	fd = __real_open(path, flags & ~O_DIRECT, va_arg(args, int));
	va_end(args);
	if (fd >= 0 && fd < MAX_FDS)
		reads_disk[fd] = (flags & O_DIRECT) != 0;
	return fd;
}

int
__wrap_close(int fd)
{
	if (fd >= 0 && fd < MAX_FDS)
		reads_disk[fd] = false;
	return __real_close(fd);
}

ssize_t
__wrap_pread(int fd, void *buf, size_t len, off_t offset)
{
	struct stat st;
	DiskFile   *f;

	if (!reads_disk[fd])
		return __real_pread(fd, buf, len, offset);
	f = file_at(fd, &st);
	assert_int_equal(offset % 512, 0);
	assert_int_equal((uintptr_t) buf % 512, 0);
	if ((size_t) offset >= f->size)
		return 0;
	if (len > f->size - (size_t) offset)
		len = f->size - (size_t) offset;
	memcpy(buf, f->bytes + offset, len);
	return (ssize_t) len;
}

/* ---------- the journal */

static char dir[64];
static char cluster[33];
static const char *error;

static void
for_each_file(void (*what) (const char *path))
{
	DIR		   *d = opendir(dir);
	struct dirent *e;
	char		path[400];

	while (d != NULL && (e = readdir(d)) != NULL)
	{
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			what(path);
	}
	if (d != NULL)
		closedir(d);
}

static void
remove_file(const char *path)
{
	unlink(path);
}

static void
forget_cache(const char *path)
{
	struct stat st;
	DiskFile   *f;
	FILE	   *out;

	assert_int_equal(stat(path, &st), 0);
	f = file_of(st.st_ino);
	if (f->size == 0)
		return;					/* the lock */
	out = fopen(path, "r+");
	assert_non_null(out);
	assert_int_equal(fwrite(f->bytes, 1, f->size, out), f->size);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(truncate(path, (off_t) f->size), 0);
	memset(f->dirty, 0, sizeof(f->dirty));
}

/* The machine is off, and on again: what is read is what the disk has. */
static void
power_off(void)
{
	for_each_file(forget_cache);
}

static int
setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/lockstep-test-disk-%d", (int) getpid());
	for_each_file(remove_file);
	nfiles = failed_syncs = 0;
	sync_fails = sync_lies = false;
	return 0;
}

static int
teardown(void **state)
{
	for_each_file(remove_file);
	rmdir(dir);
	return 0;
}

/* Of several pages, so that it shares but its ends with others. */
static JournalStatus
append(Journal *j, uint64_t seq)
{
	static uint8_t queries[3 * PAGE];
	static uint8_t buf[4 * PAGE];
	JournalRecord r = {
		.type = RECORD_TRANSACTION,.seq = seq,.identity = {ls_slice_of("n1"), 99, 4711, seq},
		.database = ls_slice_of("postgres"),.time = 1790000000000000,.wait = LS_WAIT_APPLIED,
		.queries = {queries, sizeof(queries)}
	};
	LsSlice		record = {buf, 0};

	memset(queries, (int) seq, sizeof(queries));
	record.len = journal_encode(buf, sizeof(buf), &r);
	assert_true(record.len <= sizeof(buf));
	assert_int_equal(journal_append(j, &record, 1, seq), JOURNAL_OK);
	return journal_sync(j);
}

static Journal *
open_journal(void)
{
	Journal    *j = journal_open(dir, true, SEGMENT, cluster, &error);

	if (j == NULL)
		print_error("%s\n", error);
	assert_non_null(j);
	return j;
}

static void
assert_holds(uint64_t last)
{
	Journal    *j = open_journal();
	JournalReader *r = journal_reader_open(dir, 1, &error);
	JournalRecord record;

	assert_int_equal(journal_last(j), last);
	for (uint64_t seq = 1; seq <= last; seq++)
	{
		assert_int_equal(journal_read(r, &record), JOURNAL_OK);
		assert_int_equal(record.seq, seq);
		assert_int_equal(record.queries.data[record.queries.len - 1], (uint8_t) seq);
	}
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	journal_reader_close(r);
	journal_close(j);
}

/* A process whose sync of the second transaction failed; it has ended. */
static void
fail_second(void)
{
	Journal    *j = open_journal();

	assert_int_equal(append(j, 1), JOURNAL_OK);
	sync_fails = true;
	assert_int_equal(append(j, 2), JOURNAL_ERROR);
	assert_true(journal_broken(j));
	sync_fails = false;
	assert_int_equal(journal_sync(j), JOURNAL_ERROR);	/* it stays so */
	assert_int_equal(failed_syncs, 1);
	journal_close(j);
}

/* ---------- tests */

static void
test_imitation(void **state)
{
	Journal    *j = open_journal();

	assert_int_equal(append(j, 1), JOURNAL_OK);
	journal_close(j);
	power_off();
	assert_holds(1);
}

/* What the failed sync was about is not on the disk: nobody was told of it. */
static void
test_power_off_at_once(void **state)
{
	fail_second();
	power_off();
	assert_holds(1);
}

/* The next process finds it, and goes on with it: then it has to be on the disk. */
static void
test_found_in_the_cache(void **state)
{
	Journal    *j;

	fail_second();
	j = open_journal();
	assert_int_equal(journal_last(j), 2);
	assert_int_equal(append(j, 3), JOURNAL_OK);
	journal_close(j);
	power_off();
	assert_holds(3);
}

/* Also when it has nothing to add. */
static void
test_found_and_told(void **state)
{
	Journal    *j;

	fail_second();
	j = open_journal();
	assert_int_equal(journal_last(j), 2);
	journal_close(j);
	power_off();
	assert_holds(2);
}

static void
assert_refused(void)
{
	assert_null(journal_open(dir, true, SEGMENT, cluster, &error));
	if (strstr(error, "the disk does not have what was written") == NULL)
		print_error("%s\n", error);
	assert_non_null(strstr(error, "the disk does not have what was written"));
}

/* A disk that does not give back what it took, or fails again, is not gone on with. */
static void
test_disk_is_bad(void **state)
{
	fail_second();
	sync_lies = true;
	assert_refused();
	sync_lies = false;
	sync_fails = true;
	assert_refused();
	sync_fails = false;
	assert_holds(2);
}

/* A mark that another disk has something says nothing of this one: a standby's sync had failed. */
static void
test_marks_of_another_disk(void **state)
{
	Journal    *j = open_journal();

	sync_lies = true;			/* this disk lost it, the leader's did not */
	assert_int_equal(append(j, 1), JOURNAL_OK);
	sync_lies = false;
	assert_int_equal(append(j, 2), JOURNAL_OK);
	journal_close(j);
	j = journal_open_copy(dir, SEGMENT, cluster, &error);
	assert_non_null(j);
	assert_int_equal(journal_last(j), 2);
	journal_close(j);
	power_off();
	assert_holds(2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_imitation),
		TEST(test_power_off_at_once),
		TEST(test_found_in_the_cache),
		TEST(test_found_and_told),
		TEST(test_disk_is_bad),
		TEST(test_marks_of_another_disk),
	};

	log_open("/dev/null", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
