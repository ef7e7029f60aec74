/*
 * test_standby.c
 *	  A standby of a group of replicators: where it goes on when the connection to the leader is lost.
 */
#include "two_replicators.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "copy_files.h"
#include "json_text.h"
#include "log.h"
#include "standby.h"

#define CLUSTER "0123456789abcdef0123456789abcdef"
#define SEGMENT_SIZE 65536

static const MemberKeys keys = {{(const uint8_t *) "a secret of the group", 21}, NULL};
static char directory[] = "/tmp/lockstep-standby-XXXXXX";
static char address[64];
static int	listener;
static Config config;

static int
begin(void **unused)
{
	struct sockaddr_in at = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(at);

	log_open("/dev/null", LOG_ERROR);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *) &at, len) != 0 || listen(listener, 8) != 0 ||
		getsockname(listener, (struct sockaddr *) &at, &len) != 0 || mkdtemp(directory) == NULL)
		return -1;
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	two_replicators(&config, "r2", directory, SEGMENT_SIZE, address);
	return 0;
}

static int
end(void **unused)
{
	close(listener);
	return remove_directory(directory);
}

/* ---------- a leader that is played */

typedef struct Play
{
	JournalPlace from;			/* where it has the standby go on */
	uint64_t	finishes;		/* so many bytes more of that segment */
	bool		no_sync;		/* it need not be durable */
	uint64_t	begins;			/* then so many of the next one; 0: none */

	/* what the standby has said */
	JournalPlace has;
	uint64_t	epoch;
	uint64_t	acked;
	bool		ready;
}			Play;

/* The connection for the journal; *proof: what the standby has.  Those for bodies are closed. */
static MemberChannel *
accept_standby(json_t **proof)
{
	for (;;)
	{
		char	   *error = NULL;
		int			fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		MemberChannel *c = member_channel_accept(fd, &keys, &error);
		json_t	   *hello = c != NULL ? member_channel_expect(c, MEMBER_HELLO, 3000) : NULL;
		bool		is_it = hello != NULL && json_text_of(hello, "of")[0] == '\0';
		char		nonce[MEMBER_NONCE_HEX];
		char		own[MEMBER_NONCE_HEX];

		if (is_it)
		{
			assert_true(member_make_nonce(nonce));
			assert_true(member_proof(c, &keys, "leader", "r2", json_text_of(hello, "nonce"), nonce, own));
			assert_true(member_channel_send_json(c, MEMBER_CHALLENGE, json_pack("{s:s, s:s}", "nonce", nonce, "proof", own)));
			*proof = member_channel_expect(c, MEMBER_PROOF, 3000);
			assert_non_null(*proof);
		}
		json_decref(hello);
		if (is_it)
			return c;
		if (c != NULL)
			member_channel_close(c);
		free(error);
	}
}

static uint64_t
number_in(const json_t *object, const char *field)
{
	return (uint64_t) json_integer_value(json_object_get(object, field));
}

static void
put_bytes(MemberChannel *c, uint64_t offset, uint64_t n)
{
	uint8_t    *bytes = xmalloc(n);

	memset(bytes, 'x', n);
	member_channel_put(c, MEMBER_DATA, &offset, 1, bytes, n);
	free(bytes);
}

static void *
lead(void *arg)
{
	Play	   *p = arg;
	const uint64_t first[2] = {1, SEGMENT_SIZE};
	const uint64_t second[2] = {100, SEGMENT_SIZE};
	const uint64_t index = 7;
	json_t	   *proof;
	json_t	   *ready;
	MemberChannel *c = accept_standby(&proof);
	MemberMessage m;

	p->has = (JournalPlace) {number_in(proof, "segment"), number_in(proof, "offset")};
	p->epoch = number_in(proof, "epoch");
	json_decref(proof);
	assert_true(member_channel_send_json(c, MEMBER_WELCOME,
										 json_pack("{s:s, s:I, s:I, s:I, s:[]}", "cluster", CLUSTER, "epoch", (json_int_t) 3,
												   "segment", (json_int_t) p->from.segment, "offset", (json_int_t) p->from.offset, "history")));
	ready = member_channel_expect(c, MEMBER_READY, 3000);
	p->ready = ready != NULL;
	json_decref(ready);
	if (p->ready)
	{
		if (p->from.segment == 0)
			member_channel_put(c, MEMBER_SEGMENT, first, 2, NULL, 0);
		put_bytes(c, p->from.offset, p->finishes);
		if (!p->no_sync)
			member_channel_put(c, MEMBER_SYNC, &index, 1, NULL, 0);
		assert_true(member_channel_flush(c));
		while (!p->no_sync && p->acked == 0 && member_channel_receive(c, 3000, &m) == MEMBER_MESSAGE)
		{
			if (m.type == MEMBER_ACK)
				assert_true(member_numbers(&m.payload, &p->acked, 1));
		}
		if (p->begins > 0)
		{
			member_channel_put(c, MEMBER_SEGMENT, second, 2, NULL, 0);
			put_bytes(c, 0, p->begins);
			assert_true(member_channel_flush(c));
		}
	}
	member_channel_close(c);
	return NULL;
}

static void
ignore_news(const GroupKey *key, const char *nodes)
{
}

static StandbyEnd
follow(Play * p, GroupState *state, JournalPlace *at, char why[300])
{
	GroupKey	key = {.cluster = CLUSTER,.epoch = 3,.run = 1,.leader = "r1",.n = 1};
	const		atomic_bool stop = false;
	pthread_t	leader;
	StandbyEnd	result;

	snprintf(key.in_sync[0], sizeof(key.in_sync[0]), "r1");
	assert_int_equal(pthread_create(&leader, NULL, lead, p), 0);
	result = standby_follow(&config, &keys, state, &key, at, &stop, ignore_news, why);
	pthread_join(leader, NULL);
	return result;
}

static void
assert_place(JournalPlace place, uint64_t segment, uint64_t offset)
{
	assert_int_equal(place.segment, segment);
	assert_int_equal(place.offset, offset);
}

/* A segment has no name before something of it is durable: it is as if it had never begun. */
static void
test_lost_within_segment(void **unused)
{
	GroupState	state = {.name = "r2"};
	JournalPlace at = {0, 0};
	char		why[300];
	Play		new = {.finishes = 1000,.begins = 500};
	Play		again = {.from = {1, 1000},.finishes = 200,.begins = 500};
	Play		last = {.from = {1, 1200},.finishes = 10};

	assert_int_equal(follow(&new, &state, &at, why), STANDBY_LOST);
	assert_int_equal(new.acked, 7);
	assert_int_equal(new.epoch, 0);
	assert_place(at, 1, 1000);

	assert_int_equal(follow(&again, &state, &at, why), STANDBY_LOST);
	assert_place(again.has, 1, 1000);
	assert_int_equal(again.epoch, 3);
	assert_true(again.ready);
	assert_int_equal(again.acked, 7);
	assert_place(at, 1, 1200);

	assert_int_equal(follow(&last, &state, &at, why), STANDBY_LOST);
	assert_place(last.has, 1, 1200);
	assert_int_equal(last.acked, 7);
	assert_place(at, 1, 1210);
}

/* The first one of a new copy: there is nothing yet. */
static void
test_lost_within_first(void **unused)
{
	GroupState	state = {.name = "r2",.copy_epoch = 3,.n = 1,.history = {{3, {1, 0}}}};
	JournalPlace at = {1, 1210};
	char		why[300];
	Play		anew = {.finishes = 1000,.no_sync = true};

	assert_int_equal(follow(&anew, &state, &at, why), STANDBY_LOST);
	assert_place(anew.has, 1, 1210);
	assert_place(at, 0, 0);
	assert_int_equal(state.copy_epoch, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_within_segment),
		cmocka_unit_test(test_lost_within_first)
	};

	return cmocka_run_group_tests(tests, begin, end);
}
