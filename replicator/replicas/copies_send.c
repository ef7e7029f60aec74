/*
 * copies_send.c
 *	  The leader's side of the journal's copies: a thread for each standby, which finds out where
 *	  it goes on, and sends it what is published.  See copies.h.
 *
 * A body goes out before the record that refers to it, and a standby has it on disk before that
 * record: so a standby never has a record without its body.
 */
#include "copies_send.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "copies_private.h"
#include "copy_files.h"
#include "journal_private.h"
#include "json_text.h"
#include "log.h"
#include "reach.h"

#define ANSWER_MS 3000			/* of a standby that connects */
#define STUCK_MS 1000			/* without a sync of its own */
#define REFUSED_MS 10000		/* until the same is logged again */
#define MAX_CONNECTIONS 16		/* beside one of each replicator */

/* ---------- one standby: what it is sent */

typedef struct Sender
{
	int			i;				/* of the copy */
	uint64_t	connection;
	MemberChannel *channel;
	JournalPlace at;
	uint64_t	synced;			/* the last index for which it was told to
								 * sync */
	uint64_t	first;			/* that it was told */
	int			fd;				/* of segment `at.segment`, or -1 */
	uint64_t	key_version;	/* that it was told */
	int64_t		sent_ms;
	bool		handed_over;
} Sender;

/* What there is to send, at one moment. */
typedef struct Target
{
	uint64_t	index;
	JournalPlace end;
	uint64_t	first;
	bool		hand_over;
	bool		acked;			/* it has all that */
	bool		stuck;			/* this one's disk hangs */
	bool		ask_reach;
	bool		ended;			/* another connection is in its place */
} Target;

static Target
look_at_target(const Sender *s)
{
	const Copy *c = &copies_shared.copies[s->i];
	Target		t;

	pthread_mutex_lock(&copies_lock);
	t = (Target)
	{
		.index = copies_shared.index,
			.end = copies_shared.end,
			.first = copies_shared.first,
			.hand_over = copies_shared.successor == s->i && c->view.required,
			.acked = c->view.acked == copies_shared.index,
			.stuck = copies_shared.unsynced_ms != 0 && copies_now_ms() - copies_shared.unsynced_ms > STUCK_MS,
			.ask_reach = copies_shared.ask_reach,
			.ended = c->connection != s->connection
	};
	pthread_mutex_unlock(&copies_lock);
	return t;
}

static bool
send_to(Sender *s, MemberMessageType type, const uint64_t *numbers, int n, const void *data, size_t len)
{
	s->sent_ms = copies_now_ms();
	return member_channel_send(s->channel, type, numbers, n, data, len);
}

/* The next body that it needs for what is published up to that index; false: none. */
static bool
next_body(const Sender *s, uint64_t index, Body *body)
{
	bool		found = false;

	pthread_mutex_lock(&copies_lock);
	for (size_t i = 0; i < copies_shared.nbodies && !found; i++)
	{
		Body	   *b = &copies_shared.bodies[i];

		if (b->index > index || (b->sent & (UINT32_C(1) << s->i)) != 0)
			continue;
		b->sent |= UINT32_C(1) << s->i;
		*body = *b;
		found = true;
	}
	pthread_mutex_unlock(&copies_lock);
	return found;
}

static bool
send_body(Sender *s, const Body *body, uint8_t *bytes)
{
	BodyRef		ref = {.id = body->id,.size = body->size};
	int			fd = copy_open_body(copies_setup.config->journal_directory, ref.id);
	bool		ok = true;

	if (fd < 0)
		return errno == ENOENT; /* it has been trimmed */
	for (uint64_t at = 0; ok && at < ref.size;)
	{
		uint64_t	numbers[4] = {ref.id, body->seq, at, ref.size};
		ssize_t		n = read_at(fd, bytes, MEMBER_DATA_MAX, at);

		ok = n > 0 && send_to(s, MEMBER_BODY, numbers, 4, bytes, (size_t) n);
		at += n > 0 ? (uint64_t) n : 0;
	}
	close(fd);
	return ok;
}

static bool
begin_segment(Sender *s, uint64_t segment)
{
	uint64_t	numbers[2] = {segment, (uint64_t) copies_setup.config->journal_segment_size};

	if (segment == 0)
		return false;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->at = (JournalPlace) {segment, 0};
	return send_to(s, MEMBER_SEGMENT, numbers, 2, NULL, 0);
}

/* false: the connection, or the journal, is lost. */
static bool
send_some(Sender *s, const Target *t, uint8_t *bytes)
{
	const bool	finished = s->at.segment < t->end.segment;
	uint64_t	limit = t->end.offset;
	uint64_t	numbers[1] = {s->at.offset};
	struct stat st;
	ssize_t		n;

	if (s->fd < 0 && s->at.segment != 0)
		s->fd = copy_open_segment(copies_setup.config->journal_directory, s->at.segment, false);
	if (s->fd < 0)
	{
		/* a new standby, or the segment has been trimmed */
		return begin_segment(s, copy_next_segment(copies_setup.config->journal_directory, s->at.segment));
	}
	if (finished)
	{
		if (fstat(s->fd, &st) != 0)
			return false;
		limit = (uint64_t) st.st_size;
	}
	if (s->at.offset >= limit)
		return finished && begin_segment(s, copy_next_segment(copies_setup.config->journal_directory, s->at.segment));
	n = read_at(s->fd, bytes, limit - s->at.offset < MEMBER_DATA_MAX ? limit - s->at.offset : MEMBER_DATA_MAX, s->at.offset);
	if (n <= 0 || !send_to(s, MEMBER_DATA, numbers, 1, bytes, (size_t) n))
		return false;
	s->at.offset += (uint64_t) n;
	return true;
}

/* ---------- one standby: what it says */

static bool
heard(Sender *s, const MemberMessage *m)
{
	Copy	   *c = &copies_shared.copies[s->i];
	LsSlice		payload = m->payload;
	uint64_t	index = 0;
	uint64_t	room;
	uint64_t	reach;

	if (m->type != MEMBER_ALIVE && (m->type != MEMBER_ACK || !member_numbers(&payload, &index, 1)))
		return false;
	if (!member_numbers(&payload, &room, 1))
		return false;
	if (m->type != MEMBER_ALIVE || !member_numbers(&payload, &reach, 1))
		reach = REACH_UNKNOWN;
	pthread_mutex_lock(&copies_lock);
	if (c->connection == s->connection)
	{
		c->heard_ms = copies_now_ms();
		c->view.at = s->at;
		c->view.room = room;
		if (m->type == MEMBER_ALIVE)
			c->view.reach = reach;
		if (m->type == MEMBER_ACK && index <= s->synced && index > c->view.acked)
		{
			c->view.acked = index;
			if (c->view.required)
				pthread_cond_signal(&copies_changed);
			if (!c->view.live)
				pthread_cond_signal(&copies_noticed);
			c->view.live = true;
		}
	}
	pthread_mutex_unlock(&copies_lock);
	return true;
}

/* What has come, or will come in that time; false: it is lost. */
static bool
listen_to(Sender *s, int ms)
{
	Copy	   *c = &copies_shared.copies[s->i];
	MemberResult result;
	MemberMessage m;
	uint64_t	count;

	while ((result = member_channel_receive(s->channel, ms, ms > 0 ? c->event_fd : -1, &m)) == MEMBER_MESSAGE)
	{
		if (!heard(s, &m))
			return false;
		ms = 0;
	}
	if (ms > 0)
	{
		pthread_mutex_lock(&copies_lock);
		if (c->deaf && c->connection == s->connection)
		{
			(void) !read(c->event_fd, &count, sizeof(count));
			c->deaf = false;
		}
		pthread_mutex_unlock(&copies_lock);
	}
	return result != MEMBER_LOST;
}

static bool
send_key(Sender *s)
{
	char	   *text = NULL;
	bool		ok;

	pthread_mutex_lock(&copies_lock);
	if (s->key_version != copies_shared.key_version)
		text = xstrdup(copies_shared.key_text);
	s->key_version = copies_shared.key_version;
	pthread_mutex_unlock(&copies_lock);
	ok = text == NULL || send_to(s, MEMBER_KEY, NULL, 0, text, strlen(text));
	free(text);
	return ok;
}

/* A leader whose disk hangs is silent, so that another one leads. */
static bool
send_heartbeat(Sender *s, const Target *t)
{
	uint64_t	one = 1;

	return t->stuck || copies_now_ms() - s->sent_ms < MEMBER_ALIVE_MS || send_to(s, MEMBER_ALIVE, &one, t->ask_reach ? 1 : 0, NULL, 0);
}

/* Until the connection is lost. */
static void
stream(Sender *s)
{
	uint8_t    *bytes = xmalloc(MEMBER_DATA_MAX);
	bool		ok = true;

	while (ok)
	{
		Target		t = look_at_target(s);
		Body		body;

		if (t.ended || s->handed_over)
			break;
		if (t.first > s->first)
		{
			s->first = t.first;
			ok = send_to(s, MEMBER_DELETE, &t.first, 1, NULL, 0);
		}
		while (ok && next_body(s, t.index, &body))
			ok = send_body(s, &body, bytes) && listen_to(s, 0);
		if (!ok)
			break;
		if (journal_place_compare(s->at, t.end) < 0)
			ok = send_some(s, &t, bytes) && listen_to(s, 0);
		else if (s->synced < t.index)
		{
			s->synced = t.index;
			ok = send_to(s, MEMBER_SYNC, &t.index, 1, NULL, 0);
		}
		else if (t.hand_over && t.acked)
			s->handed_over = send_to(s, MEMBER_HANDOVER, NULL, 0, NULL, 0);
		else
			ok = listen_to(s, MEMBER_ALIVE_MS);
		ok = ok && send_key(s) && send_heartbeat(s, &t);
	}
	free(bytes);
}

/* ---------- one standby: who it is, and where it goes on */

/* One that is refused comes again soon. */
static bool
is_news(const char *name, const char *why)
{
	static char last[200];
	static int64_t last_ms;
	char		text[sizeof(last)];
	bool		news;

	snprintf(text, sizeof(text), "%s: %s", name != NULL ? name : "", why);
	pthread_mutex_lock(&copies_lock);
	news = strcmp(text, last) != 0 || copies_now_ms() - last_ms >= REFUSED_MS;
	if (news)
	{
		memcpy(last, text, sizeof(last));
		last_ms = copies_now_ms();
	}
	pthread_mutex_unlock(&copies_lock);
	return news;
}

static void
refuse(MemberChannel *c, const char *name, const char *why, bool anew)
{
	if (is_news(name, why))
		log_message(LOG_NOTICE, name, "replicator is refused: %s", why);
	(void) member_channel_send_json(c, MEMBER_REFUSED, json_pack("{s:s, s:b}", "error", why, "anew", anew));
}

/* The index of the member that has proved that it knows the secret; -1: none. */
static int
authenticate(MemberChannel *c, json_t **proof)
{
	json_t	   *hello = member_channel_expect(c, MEMBER_HELLO, ANSWER_MS);
	const char *name = json_text_of(hello, "name");
	const char *nonce = json_text_of(hello, "nonce");
	int			i = config_replicator(copies_setup.config, name);
	char		own_nonce[MEMBER_NONCE_HEX];
	char		own[MEMBER_NONCE_HEX];
	char		expected[MEMBER_NONCE_HEX];

	*proof = NULL;
	if (hello == NULL || strlen(nonce) != MEMBER_NONCE_HEX - 1)
		i = -1;
	else if (i < 0 || strcmp(name, copies_setup.config->replicator_name) == 0)
	{
		refuse(c, NULL, "it is not one of the replicators of this one's configuration", false);
		i = -1;
	}
	else if (!member_make_nonce(own_nonce) ||
			 !member_proof(c, copies_setup.keys, "leader", name, nonce, own_nonce, own) ||
			 !member_proof(c, copies_setup.keys, "standby", name, nonce, own_nonce, expected) ||
			 !member_channel_send_json(c, MEMBER_CHALLENGE, json_pack("{s:s, s:s}", "nonce", own_nonce, "proof", own)))
		i = -1;
	else if ((*proof = member_channel_expect(c, MEMBER_PROOF, ANSWER_MS)) == NULL)
	{
		refuse(c, name, "it ended the connection when it was to prove that it has the group's secret, as one with another secret does", false);
		i = -1;
	}
	else if (!member_same_proof(json_text_of(*proof, "proof"), expected))
	{
		refuse(c, name, "it could not prove that it has the group's secret", false);
		i = -1;
	}
	json_decref(hello);
	if (i < 0)
		json_decref(*proof);
	return i;
}

static uint64_t
number_in(const json_t *object, const char *field)
{
	return (uint64_t) json_integer_value(json_object_get(object, field));
}

/* Where a standby that has this goes on; segment 0: from the beginning. */
static JournalPlace
resume_place(const json_t *has)
{
	JournalPlace end = {number_in(has, "segment"), number_in(has, "offset")};
	JournalPlace ours;
	JournalPlace common;
	uint64_t	epoch = number_in(has, "epoch");
	const JournalPlace nowhere = {0, 0};

	pthread_mutex_lock(&copies_lock);
	ours = copies_shared.end;
	pthread_mutex_unlock(&copies_lock);
	if (epoch == 0 || strcmp(json_text_of(has, "cluster"), copies_setup.key.cluster) != 0 || !group_state_common(&copies_setup.state, epoch, end, &common))
		return nowhere;
	if (journal_place_compare(ours, common) < 0)
		common = ours;
	return copy_has_segment(copies_setup.config->journal_directory, common.segment) ? common : nowhere;
}

static json_t *
history_json(void)
{
	json_t	   *history = json_array();

	for (int i = 0; i < copies_setup.state.n; i++)
		json_array_append_new(history, json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t) copies_setup.state.history[i].epoch,
												 "segment", (json_int_t) copies_setup.state.history[i].place.segment,
												 "offset", (json_int_t) copies_setup.state.history[i].place.offset));
	return history;
}

/* The bodies that it has need not be sent; all others must be. */
static void
note_bodies(int i, const json_t *ids)
{
	pthread_mutex_lock(&copies_lock);
	for (size_t b = 0; b < copies_shared.nbodies; b++)
	{
		copies_shared.bodies[b].sent &= ~(UINT32_C(1) << i);
		for (size_t j = 0; j < json_array_size(ids); j++)
		{
			if ((uint64_t) json_integer_value(json_array_get(ids, j)) == copies_shared.bodies[b].id)
				copies_shared.bodies[b].sent |= UINT32_C(1) << i;
		}
	}
	pthread_mutex_unlock(&copies_lock);
}

/* One that is there, and is heard, stays: two of a name would take turns for ever. */
static bool
is_there(int i)
{
	const Copy *c = &copies_shared.copies[i];
	bool		there;

	pthread_mutex_lock(&copies_lock);
	there = c->connection != 0 && copies_now_ms() - c->heard_ms < MEMBER_SILENCE_MS;
	pthread_mutex_unlock(&copies_lock);
	return there;
}

/* Both have the same up to where it goes on, as far as the last bytes tell. */
static bool
agree_on_place(Sender *s, const json_t *has)
{
	const char *name = copies_setup.config->replicators[s->i].name;
	CopyView	view;
	json_t	   *ready;
	char		tail[COPY_TAIL_HEX];
	bool		same;

	copies_look(s->i, &view);
	if (number_in(has, "promised") > copies_setup.key.epoch)
	{
		pthread_mutex_lock(&copies_lock);
		copies_shared.outdated = true;
		pthread_mutex_unlock(&copies_lock);
		refuse(s->channel, name, "it has followed a leader of a higher epoch", false);
		return false;
	}
	if (is_there(s->i))
	{
		refuse(s->channel, name, "a replicator of this name is connected already", false);
		return false;
	}
	s->at = resume_place(has);
	if (s->at.segment == 0 && view.required)
	{
		refuse(s->channel, name, "its journal cannot be continued, and etcd says that it is in sync: it is to be taken out first", false);
		return false;
	}
	if (!member_channel_send_json(s->channel, MEMBER_WELCOME,
								  json_pack("{s:s, s:I, s:I, s:I, s:o}", "cluster", copies_setup.key.cluster, "epoch", (json_int_t) copies_setup.key.epoch,
											"segment", (json_int_t) s->at.segment, "offset", (json_int_t) s->at.offset,
											"history", history_json())) ||
		(ready = member_channel_expect(s->channel, MEMBER_READY, 10 * ANSWER_MS)) == NULL)
		return false;
	same = s->at.segment == 0 ||
		(copy_tail(copies_setup.config->journal_directory, s->at, tail) && strcmp(tail, json_text_of(ready, "tail")) == 0);
	if (same)
		note_bodies(s->i, json_object_get(ready, "bodies"));
	else
		refuse(s->channel, name, "its journal differs from this one", !view.required);
	json_decref(ready);
	return same;
}

static void
set_connected(Sender *s, bool connected)
{
	Copy	   *c = &copies_shared.copies[s->i];

	pthread_mutex_lock(&copies_lock);
	if (connected)
		s->connection = ++copies_shared.connections;
	if (connected || c->connection == s->connection)
	{
		c->connection = connected ? s->connection : 0;
		c->view.connected = connected;
		c->handed_over = s->handed_over;
		c->view.live = false;
		c->view.reach = REACH_UNKNOWN;
		c->view.acked = 0;
		c->heard_ms = copies_now_ms();
		pthread_cond_signal(&copies_noticed);
	}
	pthread_mutex_unlock(&copies_lock);
}

static void
serve(MemberChannel *channel)
{
	Sender		s = {.channel = channel,.fd = -1};
	json_t	   *has;

	s.i = authenticate(channel, &has);
	if (s.i < 0)
		return;
	member_channel_trust(channel);
	if (agree_on_place(&s, has))
	{
		set_connected(&s, true);
		log_message(LOG_NOTICE, copies_setup.config->replicators[s.i].name, "replicator is connected and gets the journal from %s",
					s.at.segment == 0 ? "the beginning" : "where it ended");
		stream(&s);
		log_message(LOG_NOTICE, copies_setup.config->replicators[s.i].name, "replicator is not connected any more: %s", s.handed_over ? "it takes over" : member_channel_error(channel));
		set_connected(&s, false);
	}
	if (s.fd >= 0)
		close(s.fd);
	json_decref(has);
}

/* ---------- connections */

static void
note_connection(int n)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.connected_now += n;
	pthread_mutex_unlock(&copies_lock);
}

static void *
connection_main(void *arg)
{
	char	   *error = NULL;
	MemberChannel *channel = member_channel_accept((int) (intptr_t) arg, copies_setup.keys, &error);

	if (channel != NULL)
		serve(channel);
	else
		log_message(LOG_INFO, NULL, "a connection to this replicator's member address was refused: %s", error);
	free(error);
	member_channel_close(channel);
	note_connection(-1);
	return NULL;
}

static bool
too_many(void)
{
	bool		many;

	pthread_mutex_lock(&copies_lock);
	many = copies_shared.connected_now >= MAX_CONNECTIONS + copies_setup.config->nreplicators;
	pthread_mutex_unlock(&copies_lock);
	return many;
}

void *
copies_listen_main(void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;)
	{
		struct pollfd p = {copies_setup.listen_fd, POLLIN, 0};
		pthread_t	thread;
		int			fd;

		(void) poll(&p, 1, -1);
		fd = accept4(copies_setup.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			continue;
		note_connection(1);
		if (too_many() || pthread_create(&thread, &attr, connection_main, (void *) (intptr_t) fd) != 0)
		{
			close(fd);
			note_connection(-1);
		}
	}
	return NULL;
}
