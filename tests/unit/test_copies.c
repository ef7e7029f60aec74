/*
 * test_copies.c
 *	  The leader of a group of replicators: how far a standby lags behind, and bodies of large transactions
 *	  that it has, is told of, and is to delete.
 */
#include "two_replicators.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "copies_bodies.h"
#include "copies_private.h"
#include "copies_send.h"
#include "copy_files.h"
#include "journal.h"
#include "journal_private.h"
#include "log.h"
#include "loop.h"

#define SEGMENT_SIZE (1024 * 1024)
#define SIZE (20 * 1000 * 1000) /* of the files of segments: more than
								 * connections hold */

static const MemberKeys keys = {{(const uint8_t *) "a secret of the group", 21}, NULL};
static GroupKey key = {.cluster = "",.epoch = 3,.run = 1,.leader = "r1",.n = 1};
static GroupState state = {.name = "r1"};
static char directory[] = "/tmp/lockstep-copies-XXXXXX";
static char address[64];
static Config config;
static Journal *journal;

static void
find_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(at);
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *) &at, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
	close(fd);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
}

/* A segment of that size, without anything in it. */
static void
make_segment(uint64_t first, off_t size)
{
	char		path[JOURNAL_PATH_MAX];
	int			fd;

	segment_path(path, directory, first, false);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static int
begin(void **unused)
{
	const		atomic_bool stop = false;
	const LsSlice no_head = {NULL, 0};
	JournalPlace end;
	const char *why;

	loop_init();
	log_open("/dev/null", LOG_ERROR);
	find_port();
	assert_non_null(mkdtemp(directory));
	two_replicators(&config, "r1", directory, SEGMENT_SIZE, address);
	snprintf(key.in_sync[0], sizeof(key.in_sync[0]), "r1");
	assert_true(journal_new_cluster(key.cluster));
	assert_true(journal_create(directory, SEGMENT_SIZE, key.cluster, 1, no_head, &why));
	journal = journal_open(directory, true, SEGMENT_SIZE, key.cluster, &why);
	assert_non_null(journal);
	journal_end(journal, &end.segment, &end.offset);
	group_state_begin_epoch(&state, key.epoch, end);
	assert_null(copies_listen(address, &stop));
	copies_bodies_begin(journal);
	assert_null(copies_begin(&config, &keys, &state, &key, journal, &copies_connections));
	copies_tell_key(&key);
	copies_set_enough(true);
	return 0;
}

static int
end(void **unused)
{
	return remove_directory(directory);
}

static MemberChannel *
connect_standby(void)
{
	char	   *error = NULL;
	MemberChannel *c = member_channel_connect(address, &keys, &error);
	char		nonce[MEMBER_NONCE_HEX];
	char		proof[MEMBER_NONCE_HEX];
	const char *trouble = NULL;
	json_t	   *welcome;

	assert_non_null(c);
	assert_true(member_make_nonce(nonce) && member_challenge(c, &keys, "r2", nonce, "", proof, &trouble));
	assert_true(member_channel_send_json(c, MEMBER_PROOF, json_pack("{s:s, s:s, s:i, s:i}", "proof", proof, "cluster", "", "epoch", 0, "promised", 0)));
	assert_non_null(welcome = member_channel_expect(c, MEMBER_WELCOME, 3000));
	json_decref(welcome);
	assert_true(member_channel_send_json(c, MEMBER_READY, json_pack("{s:[]}", "bodies")));
	return c;
}

/* What has not been sent, also across segments: their names are seqs, and say nothing of their sizes. */
static void
test_lag(void **unused)
{
	const JournalPlace last = {100000, 5000};
	const JournalPlace more = {100000, 7000};
	const JournalPlace next = {200000, 300};
	const struct timespec pause = {0, 10000000};
	char		path[JOURNAL_PATH_MAX];
	struct stat st;
	int64_t		all;
	CopyView	view;
	MemberChannel *c;

	segment_path(path, directory, 1, false);
	assert_int_equal(stat(path, &st), 0);
	make_segment(200, SIZE);
	make_segment(50000, SIZE);
	make_segment(100000, 5000);
	all = st.st_size + 2 * SIZE + 5000;
	assert_int_equal(copy_bytes_from(directory, 0, last), all);
	assert_int_equal(copy_bytes_from(directory, 200, last), 2 * SIZE + 5000);
	assert_int_equal(copy_bytes_from(directory, 201, last), SIZE + 5000);
	assert_int_equal(copy_bytes_from(directory, 100000, last), 5000);

	/* a standby that reads nothing */
	copies_publish(last);
	c = connect_standby();
	do
	{
		nanosleep(&pause, NULL);
		copies_look(1, &view);
	} while (view.at.segment < 200 || view.at.offset == 0);
	assert_true(view.lag_bytes > 0 && view.lag_bytes < all);
	for (int i = 0; i < 20; i++)
	{
		copies_look(1, &view);
		if (view.at.segment == 200)
			assert_int_equal(view.lag_bytes, 2 * SIZE + 5000 - (int64_t) view.at.offset);
		else if (view.at.segment == 50000)
			assert_int_equal(view.lag_bytes, SIZE + 5000 - (int64_t) view.at.offset);
		nanosleep(&pause, NULL);
	}
	assert_true(view.lag_bytes > 0);

	/* more comes meanwhile */
	copies_publish(more);
	copies_publish(next);
	copies_look(1, &view);
	assert_int_equal(view.lag_bytes, (view.at.segment == 200 ? 2 : 1) * SIZE + 7000 + 300 - (int64_t) view.at.offset);
	member_channel_close(c);
}

/* ---------- bodies */

/* A large transaction is decided, and published. */
static void
decide(uint64_t id, uint64_t seq)
{
	const BodyRef body = {.id = id,.size = 100};
	JournalPlace at = copies_published();

	at.offset++;
	copies_add_body(seq, &body);
	copies_publish(at);
}

static uint64_t
index_now(void)
{
	uint64_t	index;

	pthread_mutex_lock(&copies_lock);
	index = copies_shared.index;
	pthread_mutex_unlock(&copies_lock);
	return index;
}

static bool
is_missing(void)
{
	bool		missing;

	pthread_mutex_lock(&copies_lock);
	missing = copies_bodies_missing(1, copies_shared.index);
	pthread_mutex_unlock(&copies_lock);
	return missing;
}

static void
arrive(uint64_t id)
{
	pthread_mutex_lock(&copies_lock);
	copies_bodies_ended(1, id);
	copies_bodies_there(1, id);
	pthread_mutex_unlock(&copies_lock);
}

/* The id that it is told of next, of those up to that index; 0: none. */
static uint64_t
named(uint64_t index)
{
	Body		body = {.id = 0};

	pthread_mutex_lock(&copies_lock);
	if (!copies_bodies_name(1, index, &body))
		body.id = 0;
	pthread_mutex_unlock(&copies_lock);
	return body.id;
}

/* How many it is to delete, at most 2 at once, when it has deleted the segments before `first`. */
static size_t
deleted(uint64_t first)
{
	uint64_t	ids[2];
	size_t		n;

	pthread_mutex_lock(&copies_lock);
	n = copies_bodies_to_delete(1, first, ids, 2);
	pthread_mutex_unlock(&copies_lock);
	return n;
}

/* Nothing is looked through at a commit: all that there is has been looked through. */
static bool
rests(void)
{
	const Copy *c = &copies_shared.copies[1];
	bool		rests;

	pthread_mutex_lock(&copies_lock);
	rests = c->bodies_checked != 0 && c->bodies_checked == copies_shared.bodies_decided && !c->to_name && !c->to_delete;
	pthread_mutex_unlock(&copies_lock);
	return rests;
}

static void
come_with(json_t *ids)
{
	pthread_mutex_lock(&copies_lock);
	copies_bodies_disconnected(1);
	copies_bodies_connected(1, ids);
	pthread_mutex_unlock(&copies_lock);
	json_decref(ids);
}

static void
test_bodies(void **unused)
{
	uint64_t	index;

	/* before there is any */
	come_with(json_array());
	assert_false(is_missing());
	assert_int_equal(named(index_now()), 0);
	assert_int_equal(deleted(UINT64_MAX), 0);
	assert_true(rests());

	/*
	 * one that is decided; another one, which arrives first, and is of a
	 * later index
	 */
	decide(1, 10);
	index = index_now();
	assert_true(is_missing());
	decide(2, 11);
	arrive(2);
	assert_true(is_missing());
	assert_int_equal(named(index), 0);
	assert_false(rests());
	arrive(1);
	assert_false(is_missing());
	assert_int_equal(named(index), 1);
	assert_int_equal(named(index), 0);
	assert_int_equal(named(index_now()), 2);
	assert_int_equal(named(index_now()), 0);
	assert_true(rests());

	/* they are trimmed; one more than can be deleted at once */
	decide(3, 12);
	arrive(3);
	assert_false(is_missing());
	assert_int_equal(named(index_now()), 3);
	assert_int_equal(named(index_now()), 0);
	assert_true(rests());
	copies_trimmed(13);
	assert_false(rests());
	assert_int_equal(deleted(10), 0);
	assert_int_equal(deleted(13), 2);
	assert_int_equal(deleted(13), 1);
	assert_int_equal(deleted(13), 0);
	assert_true(rests());

	/*
	 * who connects has one that is not the journal's any more, and one that
	 * is
	 */
	decide(4, 14);
	come_with(json_pack("[i, i]", 3, 4));
	assert_false(is_missing());
	assert_int_equal(named(index_now()), 0);
	assert_int_equal(deleted(13), 1);
	assert_int_equal(deleted(13), 0);
	assert_true(rests());
	copies_trimmed(15);
	assert_int_equal(deleted(15), 1);
	assert_int_equal(copies_shared.nbodies, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_lag)
	};

	return cmocka_run_group_tests(tests, begin, end);
}
