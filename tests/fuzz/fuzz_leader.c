/*
 * fuzz_leader.c
 *	  libFuzzer target: what a standby that has proved that it knows the group's secret sends to the leader.
 *	  The first byte says whether it is required, whether something is published meanwhile, and by which
 *	  connection the bytes come; then a JSON object up to a zero byte, as PROOF, one more, as READY, and then
 *	  any bytes.  The leader gives it its journal, believes no acknowledgement of what it has not sent,
 *	  remembers nothing of bodies that it has not, and when the connection has ended the next one is served.
 */
#include <pthread.h>
#include <string.h>

#include "buffer.h"
#include "copies_bodies.h"
#include "copies_private.h"
#include "copies_send.h"
#include "fuzz_group.h"
#include "journal.h"
#include "json_text.h"
#include "loop.h"

#define REQUIRED 1
#define PUBLISHES 2
#define BODIES 4				/* by the connection for bodies */

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
	const		atomic_bool stop = false;

	loop_init();
	close(listen_somewhere(&at));
	snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(at.sin_port));
	begin_member("r1", address);
	snprintf(key.in_sync[0], sizeof(key.in_sync[0]), "r1");
	journal = journal_open(directory, true, SEGMENT_SIZE, key.cluster, &why);
	CHECK(journal != NULL);
	journal_end(journal, &end.segment, &end.offset);
	group_state_begin_epoch(&state, key.epoch, end);
	CHECK(copies_listen(address, &stop) == NULL);
	copies_bodies_begin(journal);
	CHECK(copies_begin(&config, &keys, &state, &key, journal, &copies_connections) == NULL);
	copies_tell_key(&key);
	copies_tell_nodes("n1 write\n");
	copies_set_enough(true);
}

/* ---------- the standby */

/* As the leader expects it, but for what the input says; of: "", or the nonce of the connection for the journal. */
static bool
prove(MemberChannel *c, const char *has, const char *of, char nonce[MEMBER_NONCE_HEX])
{
	json_t	   *object = json_loads(has, 0, NULL);
	char		proof[MEMBER_NONCE_HEX];
	const char *trouble = NULL;

	if (!json_is_object(object))
	{
		json_decref(object);
		object = json_object();
	}
	CHECK(member_make_nonce(nonce) && member_challenge(c, &keys, "r2", nonce, of, proof, &trouble));
	json_object_set_new(object, "proof", json_string(proof));
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

/* Everything that it says; then it listens. */
static void
say(MemberChannel *c, const uint8_t *bytes, size_t len)
{
	const int	fd = member_channel_fd(c);

	if (send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t) len)
	{
		shutdown(fd, SHUT_WR);
		follow(c);
	}
}

/* When the leader knows the connection c, it takes one beside it. */
static void
say_beside(MemberChannel *c, const char *of, const uint8_t *bytes, size_t len)
{
	MemberMessage m;
	char	   *error = NULL;
	MemberChannel *beside;
	char		nonce[MEMBER_NONCE_HEX];

	if (member_channel_receive(c, 5000, &m) != MEMBER_MESSAGE || m.type == MEMBER_REFUSED)
		return;
	beside = member_channel_connect(address, &keys, &error);
	CHECK(beside != NULL && prove(beside, "{}", of, nonce));
	CHECK(member_channel_receive(beside, 5000, &m) == MEMBER_MESSAGE && m.type == MEMBER_BODIES);
	say(beside, bytes, len);
	reset(member_channel_fd(beside));
	member_channel_close(beside);
	follow(c);					/* both have one fate */
}

static void
stand_by(const char *has, const char *ready, bool bodies, const uint8_t *bytes, size_t len)
{
	char	   *error = NULL;
	MemberChannel *c = member_channel_connect(address, &keys, &error);
	char		nonce[MEMBER_NONCE_HEX];
	json_t	   *welcome;

	CHECK(c != NULL);
	if (prove(c, has, "", nonce) && (welcome = member_channel_expect(c, MEMBER_WELCOME, 1000)) != NULL)
	{
		json_decref(welcome);
		if (member_channel_send(c, MEMBER_READY, NULL, 0, ready, strlen(ready)))
		{
			if (bodies)
				say_beside(c, nonce, bytes, len);
			else
				say(c, bytes, len);
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
		stand_by(has, ready, (how & BODIES) != 0, data, size);
		await_end();
		copies_look(1, &view);
		CHECK(!view.connected && view.acked == 0 && !copies_is_complete(1));
		pthread_mutex_lock(&copies_lock);
		CHECK(copies_shared.nbodies == 0);
		copies_shared.outdated = false;
		pthread_mutex_unlock(&copies_lock);
	}
	free(has);
	free(ready);
	return 0;
}
