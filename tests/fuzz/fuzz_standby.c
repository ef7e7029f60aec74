/*
 * fuzz_standby.c
 *	  libFuzzer target: what a leader that has proved that it knows the group's secret sends to a standby: a
 *	  JSON object up to the first zero byte, as WELCOME, then any bytes.  Then the journal that this has
 *	  left is looked at, as a standby does when it starts.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "json_text.h"
#include "log.h"
#include "standby.h"

#define CHECK(condition) \
	do \
	{ \
		if (!(condition)) \
			__builtin_trap(); \
	} while (0)

#define CLUSTER "0123456789abcdef0123456789abcdef"

static const MemberKeys keys = {{(const uint8_t *) "a secret of the group", 21}, NULL};
static char directory[] = "/dev/shm/lockstep_fuzz_standby_XXXXXX";
static char address[64];
static Config config;
static int	listener;

typedef struct Input
{
	const char *welcome;
	const uint8_t *bytes;
	size_t		len;
}			Input;

/* ---------- the leader */

static bool
greet(MemberChannel *c, const json_t *hello)
{
	json_t	   *proof = NULL;
	char		nonce[MEMBER_NONCE_HEX];
	char		own[MEMBER_NONCE_HEX];
	bool		ok;

	ok = hello != NULL && member_make_nonce(nonce) &&
		member_proof(c, &keys, "leader", "r2", json_text_of(hello, "nonce"), nonce, own) &&
		member_channel_send_json(c, MEMBER_CHALLENGE, json_pack("{s:s, s:s}", "nonce", nonce, "proof", own)) &&
		(proof = member_channel_expect(c, MEMBER_PROOF, 1000)) != NULL;
	json_decref(proof);
	return ok;
}

/* The connection for the journal; those for bodies, also of inputs before this one, are ended. */
static MemberChannel *
accept_standby(int *fd)
{
	for (;;)
	{
		char	   *error = NULL;
		MemberChannel *c;
		json_t	   *hello;
		bool		ok;

		*fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		CHECK(*fd >= 0);
		c = member_channel_accept(*fd, &keys, &error);
		CHECK(c != NULL);
		hello = member_channel_expect(c, MEMBER_HELLO, 1000);
		ok = hello != NULL && json_text_of(hello, "of")[0] == '\0';
		if (ok)
			CHECK(greet(c, hello));
		json_decref(hello);
		if (ok)
			return c;
		member_channel_close(c);
	}
}

static void *
lead(void *arg)
{
	const		Input *in = arg;
	const struct linger now = {1, 0};
	int			fd;
	MemberChannel *c = accept_standby(&fd);
	json_t	   *ready;

	if (member_channel_send(c, MEMBER_WELCOME, NULL, 0, in->welcome, strlen(in->welcome)))
	{
		ready = member_channel_expect(c, MEMBER_READY, 1000);
		if (ready != NULL && send(fd, in->bytes, in->len, MSG_NOSIGNAL) == (ssize_t) in->len)
		{
			MemberMessage m;

			shutdown(fd, SHUT_WR);
			while (member_channel_receive(c, 1000, &m) == MEMBER_MESSAGE)
				;
		}
		json_decref(ready);
	}
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
	member_channel_close(c);
	return NULL;
}

/* ---------- the standby */

static void
ignore_news(const GroupKey *key, const char *nodes)
{
}

static void
empty_directory(void)
{
	DIR		   *d = opendir(directory);
	struct dirent *e;

	CHECK(d != NULL);
	while ((e = readdir(d)) != NULL)
	{
		if (e->d_name[0] != '.')
			CHECK(unlinkat(dirfd(d), e->d_name, 0) == 0);
	}
	closedir(d);
}

static void
leave(void)
{
	empty_directory();
	rmdir(directory);
}

static void
begin(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(at);
	struct rlimit limit = {1024 * 1024, 1024 * 1024};

	log_open("/dev/null", LOG_ERROR);
	signal(SIGXFSZ, SIG_IGN);	/* a leader may ask for terabytes */
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(mkdtemp(directory) != NULL);
	atexit(leave);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *) &at, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *) &at, &len) == 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	config.journal_directory = directory;
	config.journal_segment_size = 1024 * 1024;
	config.replicator_name = (char *) "r2";
	config.nreplicators = 2;
	snprintf(config.replicators[0].name, sizeof(config.replicators[0].name), "r1");
	snprintf(config.replicators[1].name, sizeof(config.replicators[1].name), "r2");
	config.replicators[0].address = address;
	config.replicators[1].address = (char *) "127.0.0.1:1";
}

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun = false;
	GroupKey	key = {.cluster = CLUSTER,.epoch = 3,.run = 1,.leader = "r1",.n = 1};
	GroupState	state = {.name = "r2"};
	JournalPlace end = {0, 0};
	atomic_bool stop = false;
	char		why[300];
	const uint8_t *zero = memchr(data, 0, size);
	char	   *welcome;
	Input		input;
	pthread_t	leader;
	StandbyEnd	result;
	char		cluster[33];
	const char *error;

	if (zero == NULL)
		return 0;
	if (!begun)
		begin();
	begun = true;
	snprintf(key.in_sync[0], sizeof(key.in_sync[0]), "r1");
	welcome = xstrndup((const char *) data, (size_t) (zero - data));
	input = (Input) {welcome, zero + 1, size - (size_t) (zero + 1 - data)};
	CHECK(pthread_create(&leader, NULL, lead, &input) == 0);
	result = standby_follow(&config, &keys, &state, &key, &end, &stop, ignore_news, why);
	CHECK(pthread_join(leader, NULL) == 0);
	free(welcome);
	CHECK(result >= STANDBY_ABSENT && result <= STANDBY_FAILED && why[0] != '\0');
	CHECK(state.copy_epoch == 0 || state.copy_epoch == key.epoch);
	(void) standby_look(&config, &end, cluster, &error);
	empty_directory();
	return 0;
}
