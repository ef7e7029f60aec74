/*
 * copies_send.c
 *	  The leader's side of the journal's copies: a thread for each standby, which finds out where
 *	  it goes on, and sends it what is published.  See copies.h.
 *
 * A standby has a body on disk (bodies_send.c), and is told that it is the journal's, before it
 * gets the record that refers to it: so a standby never has a record without its body.
 */
#include "copies_send.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bodies_send.h"
#include "buffer.h"
#include "copies_bodies.h"
#include "copies_private.h"
#include "copy_files.h"
#include "journal_private.h"
#include "json_text.h"
#include "log.h"
#include "monotonic.h"
#include "reach.h"
#include "strangers.h"

#define ANSWER_MS 3000			/* of a standby that connects */
#define STUCK_MS 1000			/* without a sync of its own */
#define REFUSED_MS 10000		/* until the same is logged again */
#define MAX_THREADS (2 * STRANGERS_MAX) /* of connections, beside two of each
										 * replicator: those of strangers
										 * whose connections have ended may
										 * not know it yet */
#define BODIES_MS 3000			/* until its connection for bodies is there */
#define AT_ONCE_MAX (64 * 1024) /* by the journal's thread */
#define DELETE_AT_ONCE 32		/* bodies, by one message: it hears and says
								 * nothing meanwhile */
#define HEAR_NS 1000000			/* it waits so long for the connection */

/* ---------- one standby: what it is sent */

/* What there is to send, at one moment. */
typedef struct Target
{
	uint64_t	changes;
	uint64_t	index;
	JournalPlace end;
	uint64_t	first;
	bool		eager;			/* it is waited for, or has never had all */
	bool		hand_over;
	bool		acked;			/* it has all that */
	bool		stuck;			/* this one's disk hangs */
	bool		ask_reach;
	bool		ended;			/* another connection is in its place */
	bool		missing;		/* a body that is needed for that */
	const char *why;			/* it has to end */
} Target;

/* With the lock: the connection for bodies is lost, or has not come. */
static const char *
bodies_trouble(const Copy *c)
{
	if (c->bodies_lost)
		return "its connection for large transactions has ended";
	if (c->bodies == NULL && monotonic_ms() - c->bodies_since_ms >= BODIES_MS)
		return "it makes no connection for large transactions";
	return NULL;
}

/*
 * With the lock: what there is, or, as long as that has not been sent, what there was when a body
 * for it was missing: others that are decided meanwhile do not keep it waiting.
 */
static bool
hold(Sender *s)
{
	if (journal_place_compare(s->at, s->held_end) >= 0 && s->synced >= s->held_index)
		s->held_index = 0;
	if (s->held_index != 0)
		return copies_bodies_missing(s->i, s->held_index);
	if (!copies_bodies_missing(s->i, copies_shared.index))
		return false;
	s->held_index = copies_shared.index;
	s->held_end = copies_shared.end;
	return true;
}

static Target
look_at_target(Sender *s)
{
	Copy	   *c = &copies_shared.copies[s->i];
	Target		t;
	bool		missing;

	pthread_mutex_lock(&copies_lock);
	missing = hold(s);
	t = (Target)
	{
		.changes = copies_shared.changes,
			.index = s->held_index != 0 ? s->held_index : copies_shared.index,
			.end = s->held_index != 0 ? s->held_end : copies_shared.end,
			.first = copies_shared.first,
			.eager = c->view.required || !c->view.live,
			.hand_over = copies_shared.successor == s->i && c->view.required,
			.acked = c->view.acked == copies_shared.index,
			.stuck = copies_shared.unsynced_ms != 0 && monotonic_ms() - copies_shared.unsynced_ms > STUCK_MS,
			.ask_reach = copies_shared.ask_reach,
			.ended = c->connection != s->connection,
			.missing = missing,
			.why = bodies_trouble(c)
	};
	if (!t.ended)
		c->view.at = s->at;
	pthread_mutex_unlock(&copies_lock);
	return t;
}

/* To be flushed. */
static void
put(Sender *s, MemberMessageType type, const uint64_t *numbers, int n, const void *data, size_t len)
{
	s->sent_ms = monotonic_ms();
	member_channel_put(s->channel, type, numbers, n, data, len);
}

static void
put_sync(Sender *s, uint64_t index)
{
	put(s, MEMBER_SYNC, &index, 1, NULL, 0);
	s->synced = index;
	s->synced_ms = s->sent_ms;
}

/* A body that what is published refers to; it is there, and nobody has told the standby. */
static bool
next_name(const Sender *s, uint64_t index, Body *body)
{
	bool		found;

	pthread_mutex_lock(&copies_lock);
	found = copies_shared.copies[s->i].connection == s->connection && copies_bodies_name(s->i, index, body);
	pthread_mutex_unlock(&copies_lock);
	return found;
}

static void
put_names(Sender *s, uint64_t index)
{
	Body		body;

	while (next_name(s, index, &body))
	{
		uint64_t	numbers[2] = {body.id, body.size};

		put(s, MEMBER_BODY_NAME, numbers, 2, NULL, 0);
	}
}

/*
 * What has been trimmed here: segments, but not the one that it is at, and then bodies that only
 * they referred to.
 */
static void
put_deletions(Sender *s, uint64_t first)
{
	uint64_t	ids[DELETE_AT_ONCE];
	size_t		n;

	if (first > s->at.segment)
		first = s->at.segment;
	if (first > s->first)
	{
		s->first = first;
		put(s, MEMBER_DELETE, &first, 1, NULL, 0);
	}
	pthread_mutex_lock(&copies_lock);
	n = copies_shared.copies[s->i].connection == s->connection ? copies_bodies_to_delete(s->i, s->first, ids, DELETE_AT_ONCE) : 0;
	pthread_mutex_unlock(&copies_lock);
	if (n > 0)
		put(s, MEMBER_BODY_DELETE, ids, (int) n, NULL, 0);	/* more in the next turn */
}

/* It begins with another segment: what is there from that on, by the files. */
static void
note_segment(Sender *s)
{
	Copy	   *c = &copies_shared.copies[s->i];
	JournalPlace end;
	int64_t		bytes;

	pthread_mutex_lock(&copies_lock);
	end = copies_shared.end;
	bytes = copies_shared.bytes;
	pthread_mutex_unlock(&copies_lock);
	bytes -= (int64_t) copy_bytes_from(copies_setup.config->journal_directory, s->at.segment, end);
	pthread_mutex_lock(&copies_lock);
	if (c->connection == s->connection)
	{
		c->view.at = s->at;
		c->segment_bytes = bytes;
	}
	pthread_mutex_unlock(&copies_lock);
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
	note_segment(s);
	put(s, MEMBER_SEGMENT, numbers, 2, NULL, 0);
	return true;
}

/* From where it is, but not behind limit.  false: it can't be read. */
static bool
put_data(Sender *s, uint64_t limit, uint8_t *bytes, size_t size)
{
	uint64_t	numbers[1] = {s->at.offset};
	ssize_t		n = read_at(s->fd, bytes, limit - s->at.offset < size ? limit - s->at.offset : size, s->at.offset);

	if (n <= 0)
		return false;
	put(s, MEMBER_DATA, numbers, 1, bytes, (size_t) n);
	s->at.offset += (uint64_t) n;
	return true;
}

/* What is next; false: the journal is lost. */
static bool
put_some(Sender *s, const Target *t, uint8_t *bytes)
{
	const bool	finished = s->at.segment < t->end.segment;
	uint64_t	limit = t->end.offset;
	struct stat st;

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
	return put_data(s, limit, bytes, MEMBER_DATA_MAX);
}

/* false: the connection, or the journal, is lost. */
static bool
send_some(Sender *s, const Target *t, uint8_t *bytes)
{
	if (journal_place_compare(s->at, t->end) < 0 && !put_some(s, t, bytes))
		return false;
	if (journal_place_compare(s->at, t->end) >= 0 && s->synced < t->index)
		put_sync(s, t->index);
	return member_channel_flush(s->channel);
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
		c->heard_ms = monotonic_ms();
		c->view.at = s->at;
		copies_bodies_room(s->i, room);
		if (m->type == MEMBER_ALIVE)
			c->view.reach = reach;
		if (m->type == MEMBER_ACK && index <= s->synced && index > c->view.acked)
		{
			c->view.acked = index;
			if (c->view.required)
				copies_tell_journal();
			if (copies_shared.successor == s->i)
				copies_shared.changes++;
			if (!c->view.live)
				pthread_cond_signal(&copies_noticed);
			c->view.live = true;
		}
	}
	pthread_mutex_unlock(&copies_lock);
	return true;
}

/* What has come; false: it is lost. */
static bool
listen_to(Sender *s)
{
	MemberResult result;
	MemberMessage m;

	while ((result = member_channel_receive(s->channel, 0, &m)) == MEMBER_MESSAGE)
	{
		if (!heard(s, &m))
			return false;
	}
	return result != MEMBER_LOST;
}

static void
put_key(Sender *s)
{
	char	   *text = NULL;

	pthread_mutex_lock(&copies_lock);
	if (s->key_version != copies_shared.key_version)
		text = xstrdup(copies_shared.key_text);
	s->key_version = copies_shared.key_version;
	pthread_mutex_unlock(&copies_lock);
	if (text != NULL)
		put(s, MEMBER_KEY, NULL, 0, text, strlen(text));
	free(text);
}

static void
put_nodes(Sender *s)
{
	char	   *text = NULL;

	pthread_mutex_lock(&copies_lock);
	if (s->asks_nodes && s->nodes_version != copies_shared.nodes_version)
		text = xstrdup(copies_shared.nodes_text);
	s->nodes_version = copies_shared.nodes_version;
	pthread_mutex_unlock(&copies_lock);
	if (text != NULL)
		put(s, MEMBER_NODES, NULL, 0, text, strlen(text));
	free(text);
}

/* A leader whose disk hangs is silent, so that another one leads. */
static void
put_heartbeat(Sender *s, const Target *t)
{
	uint64_t	one = 1;

	if (!t->stuck && monotonic_ms() - s->sent_ms >= MEMBER_ALIVE_MS)
		put(s, MEMBER_ALIVE, &one, t->ask_reach ? 1 : 0, NULL, 0);
}

/* How long the copy, which nobody waits for, may lack what there is. */
static int
rest_ms(const Sender *s, const Target *t)
{
	int64_t		left = s->synced_ms + COPIES_REST_MS - monotonic_ms();

	if (t->eager || s->at.segment != t->end.segment || t->end.offset - s->at.offset >= COPIES_REST_BYTES)
		return 0;
	return left > 0 ? (int) left : 0;
}

/*
 * With everything done that there was: how long it sleeps; 0: there is something new.  Nobody but
 * the journal's thread hears a copy whose connection is lent, so it has to be one that this waits
 * for.
 */
static int
fall_asleep(Sender *s, const Target *t)
{
	const Copy *c = &copies_shared.copies[s->i];
	const int	rest = t->missing ? 0 : rest_ms(s, t);
	int			ms = 0;

	pthread_mutex_lock(&copies_lock);
	if (copies_shared.changes == t->changes)
	{
		const bool	awaited = c->view.acked < copies_shared.index;

		ms = rest > 0 ? rest : MEMBER_ALIVE_MS;
		if (!t->eager && !t->missing)
			s->state = SENDER_RESTS;
		else if (c->view.required && !t->hand_over && !t->missing && (!awaited || copies_shared.waited_for))
			s->state = SENDER_LENDS;
		else
			s->state = SENDER_WAITS;
		if (s->state == SENDER_LENDS && awaited)
			copies_tell_journal();	/* it is to hear this one, too */
	}
	pthread_mutex_unlock(&copies_lock);
	return ms;
}

/* Everything that can be done now; *ms: how long it sleeps then.  false: it is over. */
static bool
serve_once(Sender *s, uint8_t *bytes, int *ms)
{
	Target		t;
	bool		more;

	*ms = 0;
	if (!member_channel_flush(s->channel) || (s->hear && !listen_to(s)))
		return false;
	s->hear = false;
	t = look_at_target(s);
	s->why = t.why;
	if (t.ended || s->handed_over || t.why != NULL)
		return false;
	put_deletions(s, t.first);
	if (!t.missing)
		put_names(s, t.index);
	more = !t.missing && (journal_place_compare(s->at, t.end) < 0 || s->synced < t.index) && rest_ms(s, &t) == 0;
	if (more && !send_some(s, &t, bytes))
		return false;
	s->hear = more && journal_place_compare(s->at, t.end) < 0;	/* while much is sent */
	if (!more && t.hand_over && t.acked)
	{
		put(s, MEMBER_HANDOVER, NULL, 0, NULL, 0);
		s->handed_over = true;
	}
	put_key(s);
	put_nodes(s);
	put_heartbeat(s, &t);
	if (!member_channel_flush(s->channel))
		return false;
	if (!more && !s->handed_over)
		*ms = fall_asleep(s, &t);
	return true;
}

static void
sleep_for(Sender *s, int ms)
{
	struct pollfd p[2] = {{member_channel_fd(s->channel), POLLIN, 0}, {s->event_fd, POLLIN, 0}};
	uint64_t	count;
	int			n;

	pthread_mutex_lock(&copies_lock);
	if (s->state == SENDER_LENDS || s->state == SENDER_RESTS)
		p[0].events = POLLRDHUP;
	pthread_mutex_unlock(&copies_lock);
	n = poll(p, 2, ms);
	pthread_mutex_lock(&copies_lock);
	s->state = SENDER_AWAKE;
	pthread_mutex_unlock(&copies_lock);
	if (p[1].revents != 0)
		(void) !read(s->event_fd, &count, sizeof(count));
	s->hear = n <= 0 || p[0].revents != 0;
}

/* Until the connection is lost. */
static void
stream(Sender *s)
{
	uint8_t    *bytes = xmalloc(MEMBER_DATA_MAX);
	bool		ok = true;

	s->hear = true;
	while (ok)
	{
		int			ms;

		pthread_mutex_lock(&s->lock);
		ok = serve_once(s, bytes, &ms);
		pthread_mutex_unlock(&s->lock);
		if (ok && ms > 0)
			sleep_for(s, ms);
	}
	free(bytes);
}

/* ---------- one standby: for the journal's thread, while its own sleeps */

static bool
send_at_once(Sender *s)
{
	static uint8_t bytes[AT_ONCE_MAX];
	Target		t;
	bool		sent = false;

	if (pthread_mutex_trylock(&s->lock) != 0)
		return false;
	t = look_at_target(s);
	if (!t.ended && !t.missing && t.why == NULL && !s->handed_over && s->fd >= 0 && s->synced < t.index &&
		s->at.segment == t.end.segment && t.end.offset - s->at.offset <= sizeof(bytes) &&
		(s->at.offset == t.end.offset || put_data(s, t.end.offset, bytes, sizeof(bytes))) &&
		s->at.offset == t.end.offset)
	{
		put_sync(s, t.index);
		sent = member_channel_push(s->channel) == MEMBER_MESSAGE;
	}
	pthread_mutex_unlock(&s->lock);
	return sent;
}

#ifdef __SANITIZE_THREAD__
/* It does not know pthread_mutex_clocklock(), and reports the unlocking. */
static bool
lock_soon(Sender *s)
{
	const struct timespec pause = {0, HEAR_NS / 20};

	for (int i = 0; i < 20; i++)
	{
		if (pthread_mutex_trylock(&s->lock) == 0)
			return true;
		(void) nanosleep(&pause, NULL);
	}
	return false;
}
#else
static bool
lock_soon(Sender *s)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += HEAR_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return pthread_mutex_clocklock(&s->lock, CLOCK_MONOTONIC, &until) == 0;
}
#endif

static void
hear_at_once(Sender *s)
{
	if (!lock_soon(s))
		return;					/* its thread does it */
	if (!listen_to(s))
	{
		pthread_mutex_lock(&copies_lock);
		copies_shared.changes++;
		copies_wake(s);
		pthread_mutex_unlock(&copies_lock);
	}
	pthread_mutex_unlock(&s->lock);
}

static Sender *
new_sender(int i, MemberChannel *channel)
{
	Sender	   *s = xcalloc(1, sizeof(Sender));

	s->i = i;
	s->channel = channel;
	s->refs = 1;
	s->fd = -1;
	s->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (pthread_mutex_init(&s->lock, NULL) != 0)
		abort();
	return s;
}

static void
release_sender(Sender *s)
{
	bool		last;

	pthread_mutex_lock(&copies_lock);
	last = --s->refs == 0;
	pthread_mutex_unlock(&copies_lock);
	if (!last)
		return;
	if (s->fd >= 0)
		close(s->fd);
	if (s->event_fd >= 0)
		close(s->event_fd);
	member_channel_close(s->channel);
	pthread_mutex_destroy(&s->lock);
	free(s);
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
	news = strcmp(text, last) != 0 || monotonic_ms() - last_ms >= REFUSED_MS;
	if (news)
	{
		memcpy(last, text, sizeof(last));
		last_ms = monotonic_ms();
	}
	pthread_mutex_unlock(&copies_lock);
	return news;
}

static void
say_refused(MemberChannel *c, const char *why, bool anew)
{
	(void) member_channel_send_json(c, MEMBER_REFUSED, json_pack("{s:s, s:b}", "error", why, "anew", anew));
}

/* Somebody who has proved nothing. */
static void
refuse_stranger(MemberChannel *c, const char *name, const char *why)
{
	if (is_news(name, why))
		strangers_log(LOG_NOTICE, name, "replicator is refused: %s", why);
	say_refused(c, why, false);
}

static void
refuse(MemberChannel *c, const char *name, const char *why, bool anew)
{
	if (is_news(name, why))
		log_message(LOG_NOTICE, name, "replicator is refused: %s", why);
	say_refused(c, why, anew);
}

/*
 * The index of the member that has proved that it knows the secret; -1: none.  *hello, and what it
 * has by *proof, are the caller's.
 */
static int
authenticate(MemberChannel *c, json_t **said, json_t **proof)
{
	json_t	   *hello = member_channel_expect(c, MEMBER_HELLO, ANSWER_MS);
	const char *name = json_text_of(hello, "name");
	const char *nonce = json_text_of(hello, "nonce");
	const char *of = json_text_of(hello, "of");
	int			i = config_replicator(copies_setup.config, name);
	char		own_nonce[MEMBER_NONCE_HEX];
	char		own[MEMBER_NONCE_HEX];
	char		expected[MEMBER_NONCE_HEX];
	char		role[MEMBER_ROLE_SIZE];

	*said = hello;
	*proof = NULL;
	member_role_of(role, of);
	if (hello == NULL || !member_is_nonce(nonce) || (of[0] != '\0' && !member_is_nonce(of)))
		i = -1;
	else if (i < 0 || strcmp(name, copies_setup.config->replicator_name) == 0)
	{
		refuse_stranger(c, NULL, "it is not one of the replicators of this one's configuration");
		i = -1;
	}
	else if (member_channel_is_closed(c) || /* it has waited for this one's
											 * journal to be opened */
			 !member_make_nonce(own_nonce) ||
			 !member_proof(c, copies_setup.keys, "leader", name, nonce, own_nonce, own) ||
			 !member_proof(c, copies_setup.keys, role, name, nonce, own_nonce, expected) ||
			 !member_channel_send_json(c, MEMBER_CHALLENGE, json_pack("{s:s, s:s}", "nonce", own_nonce, "proof", own)))
		i = -1;
	else if ((*proof = member_channel_expect(c, MEMBER_PROOF, ANSWER_MS)) == NULL)
	{
		refuse_stranger(c, name, "it ended the connection when it was to prove that it has the group's secret, as one with another secret does");
		i = -1;
	}
	else if (!member_same_proof(json_text_of(*proof, "proof"), expected))
	{
		refuse_stranger(c, name, "it could not prove that it has the group's secret");
		i = -1;
	}
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

/* One that is there, and is heard, stays: two of a name would take turns for ever. */
static bool
is_there(int i)
{
	const Copy *c = &copies_shared.copies[i];
	bool		there;

	pthread_mutex_lock(&copies_lock);
	there = c->connection != 0 && monotonic_ms() - c->heard_ms < MEMBER_SILENCE_MS;
	pthread_mutex_unlock(&copies_lock);
	return there;
}

/*
 * Both have the same up to where it goes on, as far as the last bytes tell; *ready: what it has there.
 *
 * One that is in sync, and has lost its journal, gets it anew as any other one: it is waited for, so
 * nothing is acknowledged before it has everything, and until then it does not lead (copy_epoch is 0).
 */
static bool
agree_on_place(Sender *s, const json_t *has, json_t **ready)
{
	const char *name = copies_setup.config->replicators[s->i].name;
	CopyView	view;
	char		tail[COPY_TAIL_HEX];
	bool		same;

	*ready = NULL;
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
	if (!member_channel_send_json(s->channel, MEMBER_WELCOME,
								  json_pack("{s:s, s:I, s:I, s:I, s:o}", "cluster", copies_setup.key.cluster, "epoch", (json_int_t) copies_setup.key.epoch,
											"segment", (json_int_t) s->at.segment, "offset", (json_int_t) s->at.offset,
											"history", history_json())) ||
		(*ready = member_channel_expect(s->channel, MEMBER_READY, 10 * ANSWER_MS)) == NULL)
		return false;
	same = s->at.segment == 0 ||
		(copy_tail(copies_setup.config->journal_directory, s->at, tail) && strcmp(tail, json_text_of(*ready, "tail")) == 0);
	s->asks_nodes = json_is_true(json_object_get(*ready, "nodes"));
	if (!same)
		refuse(s->channel, name, "its journal differs from this one", !view.required);
	return same;
}

/* The connection before this one, if it is still there, sends no more bodies from then on. */
static void
set_connected(Sender *s, bool connected, const char *nonce, const json_t *bodies)
{
	Copy	   *c = &copies_shared.copies[s->i];

	pthread_mutex_lock(&copies_lock);
	if (connected)
	{
		s->connection = ++copies_shared.connections;
		snprintf(c->nonce, sizeof(c->nonce), "%s", nonce);
		c->bodies_since_ms = monotonic_ms();
	}
	if (connected || c->connection == s->connection)
	{
		copies_bodies_disconnected(s->i);
		copies_wake_bodies(s->i);	/* the one before ends */
		c->bodies = NULL;
		c->bodies_lost = false;
	}
	if (connected)
		copies_bodies_connected(s->i, bodies);
	if (connected || c->connection == s->connection)
	{
		c->connection = connected ? s->connection : 0;
		c->sender = connected ? s : NULL;
		c->view.connected = connected;
		c->handed_over = s->handed_over;
		c->view.live = false;
		c->view.anew = connected && s->at.segment == 0;
		c->view.reach = REACH_UNKNOWN;
		c->view.acked = 0;
		c->heard_ms = monotonic_ms();
		copies_shared.changes++;
		copies_tell_journal();
		pthread_cond_signal(&copies_noticed);
	}
	pthread_mutex_unlock(&copies_lock);
}

static void
serve_journal(MemberChannel *channel, int i, const char *nonce, const json_t *has)
{
	const char *name = copies_setup.config->replicators[i].name;
	Sender	   *s = new_sender(i, channel);
	json_t	   *ready = NULL;

	if (s->event_fd < 0)
		refuse(channel, name, "the leader has too many open files", false);
	else if (agree_on_place(s, has, &ready))
	{
		set_connected(s, true, nonce, json_object_get(ready, "bodies"));
		note_segment(s);
		log_message(LOG_NOTICE, name, "replicator is connected and gets the journal from %s",
					s->at.segment == 0 ? "the beginning" : "where it ended");
		stream(s);
		set_connected(s, false, NULL, NULL);
		log_message(LOG_NOTICE, name, "replicator is not connected any more: %s",
					s->handed_over ? "it takes over" : s->why != NULL ? s->why : member_channel_error(channel));
	}
	release_sender(s);
	json_decref(ready);
}

/* Takes the channel over; *stranger, until it is none any more. */
static void
serve(MemberChannel *channel, Stranger **stranger)
{
	json_t	   *hello;
	json_t	   *has;
	int			i = authenticate(channel, &hello, &has);
	const char *of = json_text_of(hello, "of");

	if (i >= 0)
	{
		strangers_remove(*stranger);
		*stranger = NULL;
		member_channel_trust(channel);
	}
	if (i >= 0 && of[0] == '\0')
		serve_journal(channel, i, json_text_of(hello, "nonce"), has);
	else if (i >= 0)
		bodies_serve(channel, i, of);
	if (i < 0 || of[0] != '\0')
		member_channel_close(channel);
	json_decref(has);
	json_decref(hello);
}

/* ---------- connections */

static void
note_connection(int n)
{
	pthread_mutex_lock(&copies_lock);
	copies_shared.connected_now += n;
	pthread_mutex_unlock(&copies_lock);
}

typedef struct Connection
{
	int			fd;
	Stranger   *stranger;
} Connection;

static void *
connection_main(void *arg)
{
	Connection *c = arg;
	char	   *error = NULL;
	MemberChannel *channel = member_channel_accept(c->fd, copies_setup.keys, &error);

	if (channel != NULL)
		serve(channel, &c->stranger);
	else
		strangers_log(LOG_INFO, NULL, "a connection to this replicator's member address was refused: %s", error);
	if (c->stranger != NULL)
		strangers_remove(c->stranger);
	free(error);
	free(c);
	note_connection(-1);
	return NULL;
}

static bool
too_many(void)
{
	bool		many;

	pthread_mutex_lock(&copies_lock);
	many = copies_shared.connected_now >= MAX_THREADS + 2 * copies_setup.config->nreplicators;
	pthread_mutex_unlock(&copies_lock);
	return many;
}

/* Takes the socket over. */
static void
begin_connection(int fd, const pthread_attr_t * attr)
{
	Connection *c = xcalloc(1, sizeof(Connection));
	pthread_t	thread;

	note_connection(1);
	c->fd = fd;
	c->stranger = strangers_add(fd);
	if (c->stranger != NULL && pthread_create(&thread, attr, connection_main, c) == 0)
		return;
	if (c->stranger != NULL)
		strangers_remove(c->stranger);
	free(c);
	close(fd);
	note_connection(-1);
}

static void *
listen_main(void *arg)
{
	const struct timespec pause = {0, MEMBER_ALIVE_MS * 1000000L};
	const struct timespec moment = {0, 1000000L};
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;)
	{
		struct pollfd p = {copies_setup.listen_fd, POLLIN, 0};
		int			fd;

		(void) poll(&p, 1, -1);
		while (too_many())
			(void) nanosleep(&moment, NULL);
		fd = accept4(copies_setup.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && errno == EINVAL)
			break;				/* copies_close() */
		if (fd < 0)
		{
			if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
				(void) nanosleep(&pause, NULL); /* there are no descriptors */
			continue;
		}
		begin_connection(fd, &attr);
	}
	return NULL;
}

const CopiesConnections copies_connections = {
	.listen_main = listen_main,
	.send = send_at_once,
	.hear = hear_at_once,
	.release = release_sender,
};
