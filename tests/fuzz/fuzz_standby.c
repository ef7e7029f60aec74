/*
 * fuzz_standby.c
 *	  libFuzzer target: what a leader that has proved that it knows the group's secret sends to a standby: a
 *	  JSON object up to the first zero byte, as WELCOME, then any bytes.  Then the journal that this has
 *	  left is looked at, as a standby does when it starts.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "buffer.h"
#include "fuzz_group.h"
#include "json_text.h"
#include "standby.h"

static char address[64];
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

/* The standby has gone: no connection comes any more. */
static int	over = -1;

static bool
comes(void)
{
	struct pollfd p[] = {{listener, POLLIN, 0}, {over, POLLIN, 0}};

	while (poll(p, 2, -1) < 0)
		CHECK(errno == EINTR);
	return (p[0].revents & POLLIN) != 0;
}

/*
 * The connection for the journal; those for bodies, also of inputs before this one, are ended.  NULL: it
 * has ended before it had said what it is, as on a machine that is too slow for it.
 */
static MemberChannel *
accept_standby(int *fd)
{
	while (comes())
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
		ok = ok && greet(c, hello);
		json_decref(hello);
		if (ok)
			return c;
		reset(*fd);
		member_channel_close(c);
	}
	return NULL;
}

static void *
lead(void *arg)
{
	const		Input *in = arg;
	int			fd;
	MemberChannel *c = accept_standby(&fd);
	json_t	   *ready;

	if (c == NULL)
		return NULL;
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
	reset(fd);
	member_channel_close(c);
	return NULL;
}

/* ---------- the standby */

static void
ignore_news(const GroupKey *key, const char *nodes)
{
}

static void
begin(void)
{
	struct sockaddr_in at;

	listener = listen_somewhere(&at);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	begin_member("r2", address);
}

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
	over = eventfd(0, EFD_CLOEXEC);
	CHECK(over >= 0 && pthread_create(&leader, NULL, lead, &input) == 0);
	result = standby_follow(&config, &keys, &state, &key, &end, &stop, ignore_news, why);
	CHECK(eventfd_write(over, 1) == 0 && pthread_join(leader, NULL) == 0);
	close(over);
	free(welcome);
	CHECK(result >= STANDBY_UNREACHED && result <= STANDBY_FAILED && why[0] != '\0');
	CHECK(state.copy_epoch == 0 || state.copy_epoch == key.epoch);
	(void) standby_look(&config, &end, cluster, &error);
	empty_directory();
	return 0;
}
