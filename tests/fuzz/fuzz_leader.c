/*
 * fuzz_leader.c
 *	  libFuzzer target: what a standby that has proved that it knows the group's secret sends to the leader.
 *	  The first byte says whether it is required and whether something is published meanwhile; then a
 *	  JSON object up to a zero byte, as PROOF, one more, as READY, and then any bytes.  The leader
 *	  gives it its journal, believes no acknowledgement of what it has not sent, and when the
 *	  connection has ended the next one is served.
 */
#include <pthread.h>
#include <string.h>

#include "buffer.h"
#include "copies_private.h"
#include "copies_send.h"
#include "fuzz_group.h"
#include "journal.h"
#include "json_text.h"

#define REQUIRED 1
#define PUBLISHES 2

static GroupKey key = {.cluster = "",.epoch = 3,.run = 1,.leader = "r1",.n = 1};
static GroupState state = {.name = "r1"};
static char address[64];
static Journal *journal;

static void
begin(void)
{
	struct sockaddr_in at;
	JournalPlace end;
	const char *why;

	close(listen_somewhere(&at));
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	begin_member("r1", address);
	snprintf(key.in_sync[0], sizeof(key.in_sync[0]), "r1");
	journal = journal_open(directory, true, SEGMENT_SIZE, key.cluster, &why);
	CHECK(journal != NULL);
	journal_end(journal, &end.segment, &end.offset);
	group_state_begin_epoch(&state, key.epoch, end);
	CHECK(copies_begin(&config, &keys, &state, &key, journal, &copies_connections) == NULL);
	copies_tell_key(&key);
	copies_tell_nodes("n1 write\n");
	copies_set_enough(true);
}

/* ---------- the standby */

/* As the leader expects it, but for what the input says. */
static bool
prove(MemberChannel *c, const char *has)
{
	json_t	   *object = json_loads(has, 0, NULL);
	json_t	   *challenge = NULL;
	char		nonce[MEMBER_NONCE_HEX];
	char		proof[MEMBER_NONCE_HEX];
	bool		ok;

	if (!json_is_object(object))
	{
		json_decref(object);
		object = json_object();
	}
	ok = member_make_nonce(nonce) &&
		member_channel_send_json(c, MEMBER_HELLO, json_pack("{s:s, s:s}", "name", "r2", "nonce", nonce)) &&
		(challenge = member_channel_expect(c, MEMBER_CHALLENGE, 1000)) != NULL &&
		member_proof(c, &keys, "standby", "r2", nonce, json_text_of(challenge, "nonce"), proof);
	CHECK(ok);
	json_object_set_new(object, "proof", json_string(proof));
	json_decref(challenge);
	return member_channel_send_json(c, MEMBER_PROOF, object);
}

/* What comes, until the leader has had enough. */
static void
follow(MemberChannel *c)
{
	MemberMessage m;
	MemberResult result;

	while ((result = member_channel_receive(c, 5000, &m)) == MEMBER_MESSAGE)
	{
		pthread_mutex_lock(&copies_lock);
		CHECK(copies_shared.copies[1].view.acked <= copies_shared.index);
		pthread_mutex_unlock(&copies_lock);
	}
	CHECK(result == MEMBER_LOST);
}

static void
stand_by(const char *has, const char *ready, const uint8_t *bytes, size_t len)
{
	char	   *error = NULL;
	MemberChannel *c = member_channel_connect(address, &keys, &error);
	json_t	   *welcome;

	CHECK(c != NULL);
	if (prove(c, has) && (welcome = member_channel_expect(c, MEMBER_WELCOME, 1000)) != NULL)
	{
		const int	fd = member_channel_fd(c);

		json_decref(welcome);
		if (member_channel_send(c, MEMBER_READY, NULL, 0, ready, strlen(ready)) && send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t) len)
		{
			shutdown(fd, SHUT_WR);
			follow(c);
		}
	}
	reset(member_channel_fd(c));
	member_channel_close(c);
}

static void
await_end(void)
{
	int			n;

	do
	{
		pthread_mutex_lock(&copies_lock);
		n = copies_shared.connected_now;
		pthread_mutex_unlock(&copies_lock);
		if (n > 0)
			usleep(20);
	} while (n > 0);
}

/* The text up to the next zero byte; NULL: there is none. */
static char *
take_text(const uint8_t **data, size_t *size)
{
	const uint8_t *zero = memchr(*data, 0, *size);
	char	   *text;

	if (zero == NULL)
		return NULL;
	text = xstrndup((const char *) *data, (size_t) (zero - *data));
	*size -= (size_t) (zero + 1 - *data);
	*data = zero + 1;
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun = false;
	uint8_t		how;
	char	   *has;
	char	   *ready = NULL;
	CopyView	view;

	if (size == 0)
		return 0;
	how = *data++;
	size--;
	has = take_text(&data, &size);
	if (has != NULL)
		ready = take_text(&data, &size);
	if (ready != NULL)
	{
		if (!begun)
			begin();
		begun = true;
		copies_require(1, how & REQUIRED);
		if (how & PUBLISHES)
			copies_publish(copies_published());
		stand_by(has, ready, data, size);
		await_end();
		copies_look(1, &view);
		CHECK(!view.connected && view.acked == 0 && !copies_is_complete(1));
		pthread_mutex_lock(&copies_lock);
		copies_shared.outdated = false;
		pthread_mutex_unlock(&copies_lock);
	}
	free(has);
	free(ready);
	return 0;
}
