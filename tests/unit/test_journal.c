/*
 * test_journal.c
 *	  Proves that the journal gives back what was made durable, from every state
 *	  that a crash may leave (made by hand, see the table in journal.c), and that
 *	  it is refused in every state that no crash leaves.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "journal_private.h"
#include "log.h"
#include "samples.h"

#define SEGMENT 4096

static char dir[64];
static char cluster[33];
static const char *error;

/* ---------- files */

static void
remove_directory(const char *path)
{
	DIR		   *d = opendir(path);
	struct dirent *e;
	char		name[400];

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL)
	{
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (e->d_name[0] != '.')
			unlink(name);
	}
	closedir(d);
	rmdir(path);
}

static int
setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/lockstep-test-journal-%d", (int) getpid());
	remove_directory(dir);
	return 0;
}

static int
teardown(void **state)
{
	remove_directory(dir);
	return 0;
}

static const char *
segment_name(uint64_t first)
{
	static char path[JOURNAL_PATH_MAX];

	segment_path(path, dir, first, false);
	return path;
}

static size_t
read_file(const char *path, uint8_t **bytes)
{
	FILE	   *f = fopen(path, "r");
	struct stat st;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	*bytes = malloc((size_t) st.st_size + 1);
	assert_int_equal(fread(*bytes, 1, (size_t) st.st_size, f), st.st_size);
	fclose(f);
	return (size_t) st.st_size;
}

static void
write_file(const char *path, const uint8_t *bytes, size_t len)
{
	FILE	   *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

/* ---------- records */

static JournalRecord
transaction(uint64_t seq, LsSlice queries)
{
	return (JournalRecord) {
		.type = RECORD_TRANSACTION, .seq = seq, .identity = {SLICE("n1"), 99, 4711, seq},
		.database = SLICE("postgres"), .depends_on = seq - 1, .time = 1790000000000000 + seq,
		.wait = LS_WAIT_APPLIED, .queries = queries
	};
}

static LsSlice
encode(const JournalRecord *r)
{
	size_t		len = journal_encode(NULL, 0, r);
	uint8_t    *buf = malloc(len);

	assert_int_equal(journal_encode(buf, len, r), len);
	return (LsSlice) {buf, len};
}

/* Length of the queries of transaction seq: anything, but always the same. */
static size_t
size_of(uint64_t seq)
{
	return (size_t) (seq * 7919 % 300);
}

static LsSlice
encode_transaction(uint64_t seq)
{
	uint8_t		queries[300];
	JournalRecord r = transaction(seq, (LsSlice) {queries, size_of(seq)});

	memset(queries, (int) seq, sizeof(queries));
	return encode(&r);
}

static LsSlice
encode_text(RecordType type, uint64_t seq, const char *text)
{
	JournalRecord r = {.type = type, .seq = seq, .time = 5,
		.text = {(const uint8_t *) text, strlen(text)}};

	return encode(&r);
}

static JournalStatus
append_range(Journal *j, uint64_t from, uint64_t to)
{
	LsSlice		records[64] = {{0}};
	size_t		n = 0;
	JournalStatus status;

	for (uint64_t seq = from; seq <= to; seq++)
		records[n++] = encode_transaction(seq);
	status = journal_append(j, records, n, to);
	for (size_t i = 0; i < n; i++)
		free((void *) records[i].data);
	return status;
}

static void
append(Journal *j, uint64_t from, uint64_t to)
{
	assert_int_equal(append_range(j, from, to), JOURNAL_OK);
	assert_int_equal(journal_sync(j), JOURNAL_OK);
}

static void
append_text(Journal *j, RecordType type, const char *text)
{
	LsSlice		record = encode_text(type, journal_last(j), text);

	assert_int_equal(journal_append(j, &record, 1, journal_last(j)), JOURNAL_OK);
	assert_int_equal(journal_sync(j), JOURNAL_OK);
	free((void *) record.data);
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
assert_refused(const char *why)
{
	char		unused[33];
	Journal    *j = journal_open(dir, true, SEGMENT, unused, &error);

	assert_null(j);
	if (strstr(error, why) == NULL)
		print_error("\"%s\" does not say \"%s\"\n", error, why);
	assert_non_null(strstr(error, why));
}

/* The transactions from..to are there, as they were written, and nothing else. */
static void
assert_holds(uint64_t from, uint64_t to)
{
	JournalReader *r = journal_reader_open(dir, from, &error);
	JournalRecord record;

	assert_non_null(r);
	for (uint64_t seq = from; seq <= to;)
	{
		assert_int_equal(journal_read(r, &record), JOURNAL_OK);
		if (record.type != RECORD_TRANSACTION)
			continue;
		assert_int_equal(record.seq, seq);
		assert_int_equal(record.queries.len, size_of(seq));
		for (size_t i = 0; i < record.queries.len; i++)
			assert_int_equal(record.queries.data[i], (uint8_t) seq);
		seq++;
	}
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	journal_reader_close(r);
}

/* ---------- records, pure */

static void
test_encoding(void **state)
{
	uint8_t		lists[512];
	uint8_t		queries[SAMPLE_MAX];
	LsQuery		q = sample_query(lists);
	JournalRecord in = transaction(77, (LsSlice) {queries, ls_put_query(queries, sizeof(queries), &q)});
	JournalRecord out;
	LsSlice		bytes = encode(&in);
	size_t		used;

	assert_int_equal(journal_decode(bytes.data, bytes.len, &out, &used), JOURNAL_OK);
	assert_int_equal(used, bytes.len);
	assert_int_equal(out.seq, 77);
	assert_int_equal(out.depends_on, 76);
	assert_int_equal(out.time, in.time);
	assert_int_equal(out.wait, LS_WAIT_APPLIED);
	assert_int_equal(out.identity.boot, 99);
	assert_int_equal(out.identity.pid, 4711);
	assert_int_equal(out.identity.xcount, 77);
	assert_memory_equal(out.identity.node.data, "n1", 2);
	assert_memory_equal(out.database.data, "postgres", 8);
	assert_int_equal(out.queries.len, in.queries.len);
	assert_memory_equal(out.queries.data, queries, out.queries.len);

	/* cut anywhere it is torn, or the end if nothing is left */
	for (size_t len = 0; len < bytes.len; len++)
	{
		uint8_t    *copy = malloc(len > 0 ? len : 1);

		memcpy(copy, bytes.data, len);
		assert_int_equal(journal_decode(copy, len, &out, &used),
						 len <= 3 && (len == 0 || copy[len - 1] == 0) ? JOURNAL_END : JOURNAL_TORN);
		free(copy);
	}

	/* a changed bit anywhere is noticed */
	for (size_t i = 0; i < bytes.len * 8; i++)
	{
		((uint8_t *) bytes.data)[i / 8] ^= (uint8_t) (1 << i % 8);
		assert_int_equal(journal_decode(bytes.data, bytes.len, &out, &used), JOURNAL_TORN);
		((uint8_t *) bytes.data)[i / 8] ^= (uint8_t) (1 << i % 8);
	}
	free((void *) bytes.data);

	for (const char *type = "bBf"; *type != '\0'; type++)
	{
		bytes = encode_text((RecordType) *type, 5, "some text");
		assert_int_equal(journal_decode(bytes.data, bytes.len, &out, &used), JOURNAL_OK);
		assert_int_equal(out.type, *type);
		assert_int_equal(out.seq, 5);
		assert_int_equal(out.text.len, 9);
		assert_memory_equal(out.text.data, "some text", 9);
		free((void *) bytes.data);
	}
}

/* A group mark is framed like a record, but does not decode as one. */
static void
test_group_mark(void **state)
{
	uint8_t		bytes[GROUP_MARK_SIZE];
	GroupMark	in = {64, 32};
	GroupMark	mark;
	JournalRecord r;
	LsSlice		body;
	size_t		n;

	group_encode(bytes, &in);
	assert_int_equal(record_frame(bytes, sizeof(bytes), &body, &n), JOURNAL_OK);
	assert_true(group_decode(body, &mark));
	assert_int_equal(mark.offset, 64);
	assert_int_equal(mark.durable, 32);
	assert_int_equal(journal_decode(bytes, sizeof(bytes), &r, &n), JOURNAL_TORN);
}

/* ---------- creating and opening */

static void
test_create_and_reopen(void **state)
{
	char		first_cluster[33];
	Journal    *j;

	assert_null(journal_open(dir, false, SEGMENT, cluster, &error));
	assert_non_null(strstr(error, "could not open journal directory"));
	j = open_journal();
	assert_int_equal(strlen(cluster), 32);
	assert_int_equal(strspn(cluster, "0123456789abcdef"), 32);
	assert_int_equal(journal_first(j), 1);
	assert_int_equal(journal_last(j), 0);
	memcpy(first_cluster, cluster, sizeof(cluster));
	append(j, 1, 3);
	journal_close(j);
	j = journal_open(dir, false, SEGMENT, cluster, &error);
	assert_non_null(j);
	assert_string_equal(cluster, first_cluster);
	assert_int_equal(journal_first(j), 1);
	assert_int_equal(journal_last(j), 3);
	append(j, 4, 4);
	journal_close(j);
	assert_holds(1, 4);
	assert_holds(4, 4);
}

static void
test_two_replicators(void **state)
{
	Journal    *j = open_journal();
	char		pid[32];

	snprintf(pid, sizeof(pid), "another replicator (PID %d)", (int) getpid());
	assert_refused(pid);
	assert_false(journal_open_found_damage());
	journal_close(j);
	j = open_journal();
	journal_close(j);
}

static void *
close_in_a_moment(void *arg)
{
	const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};

	nanosleep(&moment, NULL);	/* so long does the predecessor hold it */
	journal_close(arg);
	return NULL;
}

/* One that is about to end is waited for. */
static void
test_predecessor(void **state)
{
	Journal    *j = open_journal();
	pthread_t	thread;

	append(j, 1, 3);
	assert_int_equal(pthread_create(&thread, NULL, close_in_a_moment, j), 0);
	j = open_journal();
	assert_int_equal(pthread_join(thread, NULL), 0);
	journal_close(j);
	assert_holds(1, 3);
}

/* A directory that isn't a journal, and one that a crash left half made. */
static void
test_creation_states(void **state)
{
	char		path[JOURNAL_PATH_MAX];
	Journal    *j;

	mkdir(dir, 0700);
	assert_null(journal_open(dir, false, SEGMENT, cluster, &error));
	assert_non_null(strstr(error, "no journal in directory"));

	snprintf(path, sizeof(path), "%s/precious", dir);
	write_file(path, (const uint8_t *) "x", 1);
	assert_refused("not empty and not a journal");
	assert_false(journal_open_found_damage());
	unlink(path);

	/* "lock" is there already, and a torn first segment */
	segment_path(path, dir, 1, true);
	write_file(path, (const uint8_t *) "LSJOUR", 6);
	j = open_journal();
	assert_int_not_equal(access(path, F_OK), 0);
	append(j, 1, 1);
	journal_close(j);
	assert_holds(1, 1);
}

/* A crash while the next segment was made. */
static void
test_leftover_temporary(void **state)
{
	char		path[JOURNAL_PATH_MAX];
	Journal    *j = open_journal();

	append(j, 1, 3);
	journal_close(j);
	for (uint64_t first = 4; first < 6; first++)
	{
		segment_path(path, dir, first, true);
		write_file(path, (const uint8_t *) "anything", 8);
	}
	j = open_journal();
	assert_int_equal(journal_last(j), 3);
	assert_int_not_equal(access(path, F_OK), 0);
	append(j, 4, 4);
	journal_close(j);
	assert_holds(1, 4);
}

/* ---------- torn writes */

/* Offset at which the records of the only segment end. */
static size_t
end_of_records(const uint8_t *bytes, size_t len)
{
	while (len > 0 && bytes[len - 1] == 0)
		len--;
	return len;
}

/*
 * One segment: transactions 1..3 and 4..6 in two groups.  *before: where the
 * second begins, *end: where it ends.
 */
static size_t
two_groups(uint8_t **bytes, size_t *before, size_t *end)
{
	Journal    *j = open_journal();
	uint8_t    *first;
	size_t		len;

	append(j, 1, 3);
	len = read_file(segment_name(1), &first);
	*before = end_of_records(first, len);
	free(first);
	append(j, 4, 6);
	journal_close(j);
	len = read_file(segment_name(1), bytes);
	*end = end_of_records(*bytes, len);
	return len;
}

/* Open what a crash left; then the journal works, and no old record comes back. */
static uint64_t
recover_and_go_on(uint64_t least, uint64_t most)
{
	Journal    *j = open_journal();
	uint64_t	last = journal_last(j);

	assert_in_range(last, least, most);
	append(j, last + 1, last + 1);
	journal_close(j);
	assert_holds(1, last + 1);
	j = open_journal();
	assert_int_equal(journal_last(j), last + 1);
	journal_close(j);
	return last;
}

static void
test_cut_at_every_byte(void **state)
{
	uint8_t    *bytes;
	size_t		before,
				end,
				len = two_groups(&bytes, &before, &end);
	uint64_t	previous = 3;

	for (size_t cut = before; cut <= end; cut++)
	{
		uint64_t	last;

		/* the file ends there */
		write_file(segment_name(1), bytes, cut);
		last = recover_and_go_on(previous, 6);

		/* zeros from there on */
		write_file(segment_name(1), bytes, cut);
		assert_int_equal(truncate(segment_name(1), (off_t) len), 0);
		assert_int_equal(recover_and_go_on(previous, 6), last);
		previous = last;
	}
	assert_int_equal(previous, 6);
	free(bytes);
}

/* Pages of the last group reach the disk in any order. */
static void
test_holes(void **state)
{
	uint8_t    *bytes;
	size_t		before,
				end,
				len = two_groups(&bytes, &before, &end);

	for (size_t from = before; from < end; from += 16)
	{
		for (size_t to = from + 1; to <= end; to += 48)
		{
			uint8_t    *copy = malloc(len);

			memcpy(copy, bytes, len);
			memset(copy + from, 0, to - from);
			write_file(segment_name(1), copy, len);
			recover_and_go_on(3, 6);
			free(copy);
		}
	}
	free(bytes);
}

/*
 * A bad byte: in the last group it counts as torn; in one that was durable when
 * another was written, it is corruption.
 */
static void
test_bad_byte(void **state)
{
	uint8_t    *bytes;
	size_t		before,
				end,
				len = two_groups(&bytes, &before, &end);

	for (size_t at = SEGMENT_HEADER_SIZE; at < end; at++)
	{
		bytes[at] ^= 0x10;
		write_file(segment_name(1), bytes, len);
		if (at < before)
			assert_refused("is corrupt at offset");
		else
			recover_and_go_on(3, 5);
		bytes[at] ^= 0x10;
	}

	/* a page of durable records that comes back as zeros */
	for (size_t at = SEGMENT_HEADER_SIZE; at + 30 < before; at += 30)
	{
		uint8_t    *copy = malloc(len);

		memcpy(copy, bytes, len);
		memset(copy + at, 0, 30);
		write_file(segment_name(1), copy, len);
		assert_refused("is corrupt at offset");
		free(copy);
	}
	free(bytes);
}

/* ---------- headers and missing segments */

static void
test_bad_header(void **state)
{
	uint8_t    *bytes;
	size_t		before,
				end,
				len = two_groups(&bytes, &before, &end);

	for (size_t at = 0; at < SEGMENT_HEADER_SIZE; at++)
	{
		bytes[at] ^= 1;
		write_file(segment_name(1), bytes, len);
		assert_refused("could not use journal segment");
		bytes[at] ^= 1;
		write_file(segment_name(1), bytes, at);
		assert_refused("its header is not complete");
		assert_true(journal_open_found_damage());
	}
	write_file(segment_name(1), bytes, len);
	assert_int_equal(rename(segment_name(1), "/tmp/lockstep-test-journal-renamed"), 0);
	assert_int_equal(rename("/tmp/lockstep-test-journal-renamed", segment_name(2)), 0);
	assert_refused("has the name of another one");
	assert_true(journal_open_found_damage());
	free(bytes);
}

/* Enough transactions for some segments; the first seqs of all are in firsts. */
static size_t
several_segments(uint64_t last, uint64_t *firsts)
{
	Journal    *j = open_journal();
	SegmentList list;
	size_t		n;

	for (uint64_t seq = 1; seq <= last; seq++)
		append(j, seq, seq);
	journal_close(j);
	assert_true(segment_list(dir, &list));
	n = list.n;
	memcpy(firsts, list.first, n * sizeof(uint64_t));
	free(list.first);
	return n;
}

static void
test_segments(void **state)
{
	uint64_t	firsts[64];
	size_t		n = several_segments(100, firsts);
	Journal    *j;

	assert_in_range(n, 5, 20);
	for (size_t i = 0; i + 1 < n; i++)
	{
		struct stat st;

		assert_int_equal(stat(segment_name(firsts[i]), &st), 0);
		assert_in_range(st.st_size, SEGMENT / 2, SEGMENT);
	}
	j = open_journal();
	assert_int_equal(journal_first(j), 1);
	assert_int_equal(journal_last(j), 100);
	journal_close(j);
	for (uint64_t from = 1; from <= 101; from++)
		assert_holds(from, 100);
}

static void
test_missing_segment(void **state)
{
	uint64_t	firsts[64];
	size_t		n = several_segments(100, firsts);
	JournalReader *r;
	JournalRecord record;
	JournalStatus status;

	unlink(segment_name(firsts[n / 2]));
	assert_refused("one is missing");
	assert_true(journal_open_found_damage());

	/* a reader that comes from before it stops there */
	r = journal_reader_open(dir, 1, &error);
	while ((status = journal_read(r, &record)) == JOURNAL_OK)
		;
	assert_int_equal(record.seq, firsts[n / 2] - 1);
	journal_reader_close(r);
}

static void
test_other_cluster(void **state)
{
	uint64_t	firsts[64];
	size_t		n = several_segments(100, firsts);
	uint8_t    *bytes;
	size_t		len = read_file(segment_name(firsts[n - 1]), &bytes);
	SegmentHeader h = {.first = firsts[n - 1], .cluster = "00000000000000000000000000000000"};

	segment_put_header(bytes, &h);
	write_file(segment_name(firsts[n - 1]), bytes, len);
	assert_refused("belongs to another cluster");
	assert_true(journal_open_found_damage());
	free(bytes);
}

/* Only the last segment may end in a torn write. */
static void
test_torn_in_the_middle(void **state)
{
	uint64_t	firsts[64];
	uint8_t    *bytes;
	size_t		len;

	several_segments(100, firsts);
	len = read_file(segment_name(firsts[1]), &bytes);
	write_file(segment_name(firsts[1]), bytes, len - 1);
	assert_refused("is corrupt at offset");
	free(bytes);
}

/* A crash right after the switch: the last segment has no transaction. */
static void
test_empty_last_segment(void **state)
{
	uint64_t	firsts[64];
	size_t		n = several_segments(100, firsts);
	uint8_t    *bytes;
	size_t		len = read_file(segment_name(firsts[n - 1]), &bytes);
	Journal    *j;

	memset(bytes + SEGMENT_HEADER_SIZE, 0, len - SEGMENT_HEADER_SIZE);
	write_file(segment_name(firsts[n - 1]), bytes, len);
	j = open_journal();
	assert_int_equal(journal_last(j), firsts[n - 1] - 1);
	append(j, firsts[n - 1], 100);
	journal_close(j);
	assert_holds(1, 100);
	free(bytes);
}

static void
test_gap(void **state)
{
	Journal    *j = open_journal();

	append(j, 1, 1);
	append(j, 3, 3);
	journal_close(j);
	assert_refused("has transaction 3 where 2 should be");
	assert_true(journal_open_found_damage());
}

/* Records larger than a segment, and than what is read at once. */
static void
test_large_record(void **state)
{
	static uint8_t queries[3 << 20];
	Journal    *j = open_journal();
	JournalReader *r = journal_reader_open(dir, 1, &error);
	JournalRecord out;

	for (uint64_t seq = 1; seq <= 6; seq++)
	{
		JournalRecord in = transaction(seq, (LsSlice) {queries, seq % 2 ? sizeof(queries) : 3});
		LsSlice		bytes = encode(&in);

		memset(queries, (int) seq, sizeof(queries));
		free((void *) bytes.data);
		bytes = encode(&in);
		assert_int_equal(journal_append(j, &bytes, 1, seq), JOURNAL_OK);
		assert_int_equal(journal_sync(j), JOURNAL_OK);
		free((void *) bytes.data);
	}
	journal_close(j);
	j = open_journal();
	assert_int_equal(journal_last(j), 6);
	for (uint64_t seq = 1; seq <= 6; seq++)
	{
		assert_int_equal(journal_read(r, &out), JOURNAL_OK);
		assert_int_equal(out.seq, seq);
		assert_int_equal(out.queries.len, seq % 2 ? sizeof(queries) : 3);
		assert_int_equal(out.queries.data[out.queries.len - 1], seq);
	}
	assert_int_equal(journal_read(r, &out), JOURNAL_END);
	journal_reader_close(r);
	journal_close(j);
}

/* ---------- the disk is full */

static void
test_append_fails(void **state)
{
	struct rlimit unlimited,
				limit;
	Journal    *j = open_journal();

	append(j, 1, 3);
	getrlimit(RLIMIT_FSIZE, &unlimited);
	limit = unlimited;
	limit.rlim_cur = 1200;		/* some of a group can be written */
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(append_range(j, 4, 12), JOURNAL_ERROR);
	assert_non_null(strstr(journal_error(j), "could not write to the journal"));
	assert_int_equal(journal_last(j), 3);
	assert_int_equal(journal_sync(j), JOURNAL_OK);
	setrlimit(RLIMIT_FSIZE, &unlimited);
	append(j, 4, 5);
	assert_int_equal(journal_last(j), 5);

	/* no room for a new segment: the old one stays */
	append(j, 6, 16);
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(append_range(j, 17, 40), JOURNAL_ERROR);
	assert_non_null(strstr(journal_error(j), "could not create journal segment"));
	assert_false(journal_broken(j));
	setrlimit(RLIMIT_FSIZE, &unlimited);
	append(j, 17, 40);
	journal_close(j);
	assert_holds(1, 40);
	j = open_journal();
	assert_int_equal(journal_last(j), 40);
	journal_close(j);
}

/* The next segment's file is made ahead; without room there is still some. */
static void
test_prepare(void **state)
{
	struct rlimit unlimited,
				limit;
	char		spare[JOURNAL_PATH_MAX];
	Journal    *j = open_journal();
	uint64_t	seq;

	segment_path(spare, dir, UINT64_MAX, true);
	append(j, 1, 2);
	assert_int_equal(journal_prepare(j), JOURNAL_OK);
	assert_int_equal(access(spare, F_OK), -1);	/* too early */
	for (seq = 3; access(spare, F_OK) != 0; seq++)
	{
		assert_true(seq < 20);
		append(j, seq, seq);
		assert_int_equal(journal_prepare(j), JOURNAL_OK);
	}
	for (; access(spare, F_OK) == 0; seq++)	/* until it is the next one */
	{
		assert_true(seq < 40);
		append(j, seq, seq);
	}

	getrlimit(RLIMIT_FSIZE, &unlimited);
	limit = unlimited;
	limit.rlim_cur = SEGMENT - 1;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	for (; journal_prepare(j) == JOURNAL_OK; seq++)
	{
		assert_true(seq < 60);
		append(j, seq, seq);
	}
	assert_non_null(strstr(journal_error(j), "could not create the next journal segment"));
	assert_false(journal_broken(j));
	append(j, seq, seq);		/* goes to the rest */
	seq++;
	assert_int_equal(access(spare, F_OK), -1);
	setrlimit(RLIMIT_FSIZE, &unlimited);
	assert_int_equal(journal_prepare(j), JOURNAL_OK);
	assert_int_equal(access(spare, F_OK), 0);
	append(j, seq, 80);
	journal_close(j);
	assert_holds(1, 80);

	/* what a crash leaves of it is deleted */
	close(open(spare, O_CREAT | O_WRONLY, 0600));
	j = open_journal();
	assert_int_equal(access(spare, F_OK), -1);
	assert_int_equal(journal_last(j), 80);
	journal_close(j);
}

/* ---------- trimming and metadata */

static void
test_trim(void **state)
{
	uint64_t	firsts[64];
	size_t		n = several_segments(100, firsts);
	Journal    *j = open_journal();
	JournalReader *old = journal_reader_open(dir, 1, &error);
	JournalRecord record;
	JournalStatus status;

	journal_trim(j, firsts[2] - 1);
	assert_int_equal(journal_first(j), firsts[1]);
	journal_trim(j, firsts[2]);
	assert_int_equal(journal_first(j), firsts[2]);
	assert_holds(firsts[2], 100);
	assert_null(journal_reader_open(dir, firsts[2] - 1, &error));
	assert_non_null(strstr(error, "begins with transaction"));

	/* a reader in a segment that is gone reads it to its end, then says so */
	while ((status = journal_read(old, &record)) == JOURNAL_OK)
		;
	assert_int_equal(status, JOURNAL_ERROR);
	assert_int_equal(record.seq, firsts[1] - 1);
	assert_non_null(strstr(journal_reader_error(old), "has been trimmed"));
	journal_reader_close(old);

	journal_trim(j, 1000);		/* never the last one */
	assert_int_equal(journal_first(j), firsts[n - 1]);
	append(j, 101, 101);
	journal_close(j);
	j = open_journal();
	assert_int_equal(journal_first(j), firsts[n - 1]);
	assert_int_equal(journal_last(j), 101);
	journal_close(j);
}

/* A crash while segments were deleted: some are gone, the oldest first. */
static void
test_trim_interrupted(void **state)
{
	uint64_t	firsts[64];
	Journal    *j;

	several_segments(100, firsts);
	unlink(segment_name(firsts[0]));
	j = open_journal();
	assert_int_equal(journal_first(j), firsts[1]);
	assert_int_equal(journal_last(j), 100);
	journal_close(j);
}

static size_t
count_metadata(uint64_t from, char *seen)
{
	JournalReader *r = journal_reader_open(dir, from, &error);
	JournalRecord record;
	size_t		n = 0;

	assert_non_null(r);
	while (journal_read(r, &record) == JOURNAL_OK)
	{
		if (record.type != RECORD_TRANSACTION)
			seen[n++] = (char) record.text.data[0];
	}
	seen[n] = '\0';
	journal_reader_close(r);
	return n;
}

/* Metadata is read once by who comes from before it, and survives trimming. */
static void
test_metadata(void **state)
{
	Journal    *j = open_journal();
	char		seen[64];
	LsSlice		now[2];
	SegmentList list;

	append_text(j, RECORD_FINGERPRINT, "F");
	append_text(j, RECORD_DATABASE_ADDED, "a");
	now[0] = encode_text(RECORD_FINGERPRINT, 0, "F");
	now[1] = encode_text(RECORD_DATABASE_ADDED, 0, "a");
	journal_set_metadata(j, now, 2);
	for (uint64_t seq = 1; seq <= 60; seq++)
		append(j, seq, seq);
	append_text(j, RECORD_DATABASE_DROPPED, "A");
	journal_set_metadata(j, now, 1);
	for (uint64_t seq = 61; seq <= 120; seq++)
		append(j, seq, seq);
	free((void *) now[0].data);
	free((void *) now[1].data);

	count_metadata(1, seen);
	assert_string_equal(seen, "FaA");
	count_metadata(30, seen);
	assert_string_equal(seen, "FaA");
	count_metadata(120, seen);
	assert_string_equal(seen, "F");
	journal_trim(j, 120);
	journal_close(j);
	j = open_journal();
	assert_int_equal(journal_last(j), 120);
	count_metadata(journal_first(j), seen);
	assert_string_equal(seen, "F");
	assert_true(segment_list(dir, &list));
	assert_int_equal(list.n, 1);
	free(list.first);
	journal_close(j);
}

/* No crash leaves a segment with half of its head. */
static void
test_torn_head(void **state)
{
	Journal    *j = open_journal();
	LsSlice		now = encode_text(RECORD_FINGERPRINT, 0, "F");
	SegmentList list;

	journal_set_metadata(j, &now, 1);
	free((void *) now.data);
	for (uint64_t seq = 1; seq <= 60; seq++)
		append(j, seq, seq);
	journal_close(j);
	assert_true(segment_list(dir, &list));
	assert_int_equal(truncate(segment_name(list.first[list.n - 1]), SEGMENT_HEADER_SIZE + 10), 0);
	free(list.first);
	assert_refused("is corrupt at offset 64");
	assert_true(journal_open_found_damage());
}

/* ---------- readers */

static void
test_reader_follows(void **state)
{
	Journal    *j = open_journal();
	JournalReader *r = journal_reader_open(dir, 1, &error);
	JournalRecord record;

	assert_non_null(r);
	for (uint64_t seq = 1; seq <= 100; seq++)
	{
		assert_int_equal(journal_read(r, &record), JOURNAL_END);
		append(j, seq, seq);
		assert_int_equal(journal_read(r, &record), JOURNAL_OK);
		assert_int_equal(record.seq, seq);
	}
	journal_reader_close(r);
	r = journal_reader_open(dir, 103, &error);	/* not there yet */
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	append(j, 101, 103);
	assert_int_equal(journal_read(r, &record), JOURNAL_OK);
	assert_int_equal(record.seq, 103);
	journal_reader_close(r);
	journal_close(j);
}

static void
test_reader_limit(void **state)
{
	Journal    *j = open_journal();
	JournalReader *r;
	JournalRecord record;

	append(j, 1, 20);
	append_text(j, RECORD_DATABASE_ADDED, "a");
	append(j, 21, 22);
	r = journal_reader_open(dir, 1, &error);
	journal_reader_limit(r, 0);
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	for (uint64_t seq = 1; seq <= 20; seq++)
	{
		journal_reader_limit(r, seq);
		assert_int_equal(journal_read(r, &record), JOURNAL_OK);
		assert_int_equal(record.seq, seq);
		if (seq < 20)
			assert_int_equal(journal_read(r, &record), JOURNAL_END);
	}
	assert_int_equal(journal_read(r, &record), JOURNAL_OK);
	assert_int_equal(record.type, RECORD_DATABASE_ADDED);
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	journal_reader_limit(r, 22);
	assert_int_equal(journal_read(r, &record), JOURNAL_OK);
	assert_int_equal(journal_read(r, &record), JOURNAL_OK);
	assert_int_equal(record.seq, 22);
	journal_reader_close(r);
	journal_close(j);
}

/* What is being written is not there yet; what was durable and is bad, is torn. */
static void
test_reader_sees_damage(void **state)
{
	uint8_t    *bytes;
	size_t		before,
				end,
				len = two_groups(&bytes, &before, &end);
	JournalReader *r;
	JournalRecord record;

	bytes[end - 1] ^= 1;
	write_file(segment_name(1), bytes, len);
	r = journal_reader_open(dir, 6, &error);
	assert_int_equal(journal_read(r, &record), JOURNAL_END);
	bytes[end - 1] ^= 1;
	write_file(segment_name(1), bytes, len);
	assert_int_equal(journal_read(r, &record), JOURNAL_OK);
	journal_reader_close(r);

	bytes[before - 1] ^= 1;
	write_file(segment_name(1), bytes, len);
	r = journal_reader_open(dir, 3, &error);
	assert_int_equal(journal_read(r, &record), JOURNAL_TORN);
	assert_non_null(strstr(journal_reader_error(r), "is corrupt at offset"));
	journal_reader_close(r);
	free(bytes);
}

#define RACE_LAST 3000

static _Atomic uint64_t race_durable;

static void *
race_writer(void *arg)
{
	Journal    *j = arg;
	uint64_t	seed = 1;

	for (uint64_t seq = 1; seq <= RACE_LAST;)
	{
		uint64_t	last;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		last = seq + (seed >> 33) % 20;
		if (last > RACE_LAST)
			last = RACE_LAST;
		if (append_range(j, seq, last) != JOURNAL_OK || journal_sync(j) != JOURNAL_OK)
			abort();
		race_durable = last;
		seq = last + 1;
	}
	return NULL;
}

/* A reader that runs after the writer sees everything once, in order. */
static void
test_race(void **state)
{
	Journal    *j = open_journal();
	JournalReader *limited = journal_reader_open(dir, 1, &error);
	JournalReader *eager = journal_reader_open(dir, 1, &error);
	JournalRecord record;
	pthread_t	thread;
	uint64_t	seen[2] = {0, 0};

	race_durable = 0;
	assert_int_equal(pthread_create(&thread, NULL, race_writer, j), 0);
	while (seen[0] < RACE_LAST || seen[1] < RACE_LAST)
	{
		for (int i = 0; i < 2; i++)
		{
			JournalReader *r = i == 0 ? limited : eager;
			uint64_t	durable = race_durable;
			JournalStatus status;

			if (i == 0)
				journal_reader_limit(r, durable);
			while ((status = journal_read(r, &record)) == JOURNAL_OK)
			{
				assert_int_equal(record.seq, ++seen[i]);
				assert_int_equal(record.queries.len, size_of(record.seq));
			}
			assert_int_equal(status, JOURNAL_END);
			if (i == 0)
				assert_int_equal(seen[0], durable);
		}
	}
	pthread_join(thread, NULL);
	journal_reader_close(limited);
	journal_reader_close(eager);
	journal_close(j);
	assert_holds(1, RACE_LAST);
}

/* ---------- the chain */

/* Append transactions, each with the chain before it; the chain after them. */
static uint64_t
append_chained(Journal *j, uint64_t from, uint64_t to, uint64_t chain, uint64_t pid)
{
	for (uint64_t seq = from; seq <= to; seq++)
	{
		JournalRecord r = transaction(seq, SLICE("queries"));
		LsSlice		record;

		r.parent = chain;
		r.identity.pid = (uint32_t) pid;
		record = encode(&r);
		assert_int_equal(journal_append(j, &record, 1, seq), JOURNAL_OK);
		chain = journal_chain_of(record.data);
		free((void *) record.data);
	}
	assert_int_equal(journal_sync(j), JOURNAL_OK);
	return chain;
}

static uint64_t
chain_at(uint64_t seq)
{
	uint64_t	chain;
	bool		ok = journal_chain_at(dir, seq, &chain, &error);

	if (!ok)
		print_error("%s\n", error);
	assert_true(ok);
	return chain;
}

/* Two histories with a difference somewhere differ from there on. */
static void
test_chain(void **state)
{
	Journal    *j = open_journal();
	uint64_t	at2 = append_chained(j, 1, 2, 0, 1);
	uint64_t	at3 = append_chained(j, 3, 3, at2, 1);
	uint64_t	at4 = append_chained(j, 4, 4, at3, 1);
	JournalRecord other = transaction(4, SLICE("queries"));
	LsSlice		record;

	assert_int_equal(chain_at(2), at2);
	assert_int_equal(chain_at(3), at3);
	assert_int_equal(chain_at(4), at4);
	other.identity.pid = 1;
	other.parent = at3 ^ 1;		/* the same transaction, behind another one */
	record = encode(&other);
	assert_int_not_equal(journal_chain_of(record.data), at4);
	free((void *) record.data);
	journal_close(j);
}

/* A journal that begins later, or has nothing behind its beginning, knows the chain
 * before it from the head of its segment. */
static void
test_chain_trimmed(void **state)
{
	Journal    *j = open_journal();
	uint64_t	chain = append_chained(j, 1, 30, 0, 1);
	uint64_t	before = chain;
	char		text[CHAIN_TEXT_SIZE];
	LsSlice		head;

	journal_chain_text(text, before);
	head = encode_text(RECORD_CHAIN, 30, text);
	journal_set_metadata(j, &head, 1);
	free((void *) head.data);
	assert_true(journal_begins_segment(j, SEGMENT));
	{
		uint8_t		queries[SEGMENT];
		JournalRecord r = transaction(31, (LsSlice) {queries, sizeof(queries)});
		LsSlice		record;

		memset(queries, 1, sizeof(queries));
		r.parent = before;
		record = encode(&r);
		assert_int_equal(journal_append(j, &record, 1, 31), JOURNAL_OK);
		assert_int_equal(journal_sync(j), JOURNAL_OK);
		chain = journal_chain_of(record.data);
		free((void *) record.data);
	}
	journal_trim(j, 31);
	assert_int_equal(journal_first(j), 31);
	assert_int_equal(chain_at(30), before);
	assert_int_equal(chain_at(31), chain);
	journal_close(j);
}

/* What an earlier version wrote has no chain before it, and can be gone on from. */
static void
test_chain_begins(void **state)
{
	Journal    *j = open_journal();
	uint64_t	chain;

	append(j, 1, 3);
	chain = append_chained(j, 4, 5, chain_at(3), 1);
	assert_int_not_equal(chain_at(3), 0);
	assert_int_equal(chain_at(5), chain);
	journal_close(j);
}

static void
assert_copy(bool expected)
{
	Journal    *j = open_journal();

	assert_int_equal(journal_is_copy(j), expected);
	journal_close(j);
}

/* A directory that was copied says so, until it is settled; one that is empty is none. */
static void
test_copy(void **state)
{
	char		command[512];
	Journal    *j = open_journal();

	assert_false(journal_is_copy(j));
	append(j, 1, 3);
	journal_close(j);
	assert_copy(false);

	snprintf(command, sizeof(command), "cp -a %s %s.copy && rm -rf %s && cp -a %s.copy %s && rm -rf %s.copy", dir, dir, dir, dir, dir, dir);
	assert_int_equal(system(command), 0);
	assert_copy(true);
	j = open_journal();
	assert_true(journal_is_copy(j));
	assert_true(journal_settle(dir));
	journal_close(j);
	assert_copy(false);

	/* a crash while it was written; and what has none, or says nonsense */
	snprintf(command, sizeof(command), "echo inode > %s/place.tmp", dir);
	assert_int_equal(system(command), 0);
	j = open_journal();
	assert_false(journal_is_copy(j));
	assert_true(journal_settle(dir));
	journal_close(j);
	snprintf(command, sizeof(command), "echo inode > %s/place", dir);
	assert_int_equal(system(command), 0);
	assert_copy(true);
	snprintf(command, sizeof(command), "rm %s/place", dir);
	assert_int_equal(system(command), 0);
	assert_copy(true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_encoding),
		TEST(test_group_mark),
		TEST(test_create_and_reopen),
		TEST(test_two_replicators),
		TEST(test_predecessor),
		TEST(test_creation_states),
		TEST(test_leftover_temporary),
		TEST(test_cut_at_every_byte),
		TEST(test_holes),
		TEST(test_bad_byte),
		TEST(test_bad_header),
		TEST(test_segments),
		TEST(test_missing_segment),
		TEST(test_other_cluster),
		TEST(test_torn_in_the_middle),
		TEST(test_empty_last_segment),
		TEST(test_gap),
		TEST(test_large_record),
		TEST(test_append_fails),
		TEST(test_prepare),
		TEST(test_trim),
		TEST(test_trim_interrupted),
		TEST(test_metadata),
		TEST(test_torn_head),
		TEST(test_reader_follows),
		TEST(test_reader_limit),
		TEST(test_reader_sees_damage),
		TEST(test_race),
		TEST(test_chain),
		TEST(test_chain_trimmed),
		TEST(test_chain_begins),
		TEST(test_copy),
	};

	log_open("/dev/null", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
