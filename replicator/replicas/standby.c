/*
 * standby.c
 *	  A standby's side of the journal's copies: see standby.h.
 *
 * What a crash leaves:
 *
 *	 while a segment is written		its end is not complete: journal_open() cuts it off, as in
 *									a journal of its own
 *	 while a segment begins			a temporary file: it gets its name when its beginning is on
 *									disk, before anything of it is acknowledged; so does a lost
 *									connection
 *	 while a body is written		a part (standby_bodies.c): it gets its name when it is on disk,
 *									before the record that refers to it comes
 *	 while everything is copied		copy_epoch is 0: it is begun anew, and this one never leads
 *	 after a failed sync			what is read may be in memory only: standby_look() brings it
 *									to disk (journal_open_copy())
 */
#include "standby.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "copy_files.h"
#include "journal.h"
#include "journal_body.h"
#include "journal_private.h"
#include "json_text.h"
#include "log.h"
#include "monotonic.h"
#include "points.h"
#include "reach.h"
#include "standby_bodies.h"

#define ANSWER_MS MEMBER_SILENCE_MS

StandbyView standby_view;

typedef struct Standby
{
	const Config *config;
	const char *dir;
	MemberChannel *channel;
	GroupState *state;
	const GroupKey *key;
	JournalPlace *end;
	StandbyNews news;
	char	   *why;
	int			fd;				/* of the segment that is written; -1: none */
	bool		named;			/* it has its name */
	JournalPlace named_end;		/* not named: where the segment before it ends */
	bool		dirty;			/* something is not on disk */
	ZerosAhead	zeros;			/* in fd */
	bool		complete;		/* the copy; state says so */
	StandbyBodies *bodies;		/* arrive beside it */
	char		nonce[MEMBER_NONCE_HEX];
	int64_t		said_ms;
	uint64_t	room;			/* bytes, on the disk */
	int64_t		room_ms;		/* when that was */
} Standby;

/* ---------- what is here */

bool
standby_look(const Config *config, JournalPlace *end, char cluster[33], const char **error)
{
	Journal    *j;

	*end = (JournalPlace) {0, 0};
	cluster[0] = '\0';
	if (copy_next_segment(config->journal_directory, 0) == 0)
		return true;
	j = journal_open_copy(config->journal_directory, (size_t) config->journal_segment_size, cluster, error);
	if (j == NULL)
		return false;
	journal_end(j, &end->segment, &end->offset);
	journal_close(j);
	return true;
}

/* ---------- files */

static StandbyEnd
disk_failed(Standby *s, const char *what)
{
	snprintf(s->why, 300, "could not %s in \"%s\": %s", what, s->dir, strerror(errno));
	return STANDBY_FAILED;
}

static StandbyEnd
violation(Standby *s, const char *what)
{
	snprintf(s->why, 300, "the leader sent %s", what);
	return STANDBY_LOST;
}

#define GO_ON ((StandbyEnd) -1)

/* Nothing comes behind what it has. */
static bool
finish_segment(Standby *s)
{
	bool		ok = s->fd < 0 || (s->named && ftruncate(s->fd, (off_t) s->end->offset) == 0 && fsync(s->fd) == 0);

	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	return ok;
}

/* A name that may not be on disk: the next sync of its directory would not tell.  Returns false, with errno. */
static bool
take_back(int dir_fd, const char *name)
{
	int			saved_errno = errno;

	(void) unlinkat(dir_fd, name, 0);
	errno = saved_errno;
	return false;
}

static bool
give_name(Standby *s)
{
	char		temporary[JOURNAL_PATH_MAX];
	char		path[JOURNAL_PATH_MAX];
	int			dir_fd;
	bool		ok;

	segment_path(temporary, s->dir, UINT64_MAX, true);
	segment_path(path, s->dir, s->end->segment, false);
	dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok = dir_fd >= 0 && fsync(s->fd) == 0 && rename(temporary, path) == 0;
	if (ok && fsync(dir_fd) != 0)
		ok = take_back(dir_fd, strrchr(path, '/') + 1);
	if (dir_fd >= 0)
		close(dir_fd);
	s->named = ok;
	return ok;
}

static bool
sync_all(Standby *s)
{
	if (s->fd < 0 || !s->dirty)
		return true;
	if (!(s->named ? fdatasync(s->fd) == 0 : give_name(s)))
		return false;
	s->dirty = false;
	return true;
}

static StandbyEnd
begin_segment(Standby *s, uint64_t segment, uint64_t size)
{
	char		temporary[JOURNAL_PATH_MAX];

	if (segment <= s->end->segment || segment == UINT64_MAX || size > (UINT64_C(1) << 40))
		return violation(s, "a segment out of order");
	if (!sync_all(s) || !finish_segment(s))
		return disk_failed(s, "write the journal");
	segment_path(temporary, s->dir, UINT64_MAX, true);
	s->fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->fd < 0 || (errno = posix_fallocate(s->fd, 0, (off_t) size)) != 0)
		return disk_failed(s, "create a journal segment");
	s->named = false;
	s->named_end = *s->end;
	s->dirty = true;
	s->zeros = (ZerosAhead) {.limit = size};
	*s->end = (JournalPlace) {segment, 0};
	return GO_ON;
}

/* What has no name is not the journal's: another connection goes on where the segment before it ends. */
static void
leave_segment(Standby *s)
{
	if (s->fd < 0)
		return;
	if (!s->named)
		*s->end = s->named_end;
	close(s->fd);
	s->fd = -1;
}

static StandbyEnd
take_data(Standby *s, uint64_t offset, LsSlice bytes)
{
	struct iovec iov = {(void *) bytes.data, bytes.len};

	if (s->fd < 0 || offset != s->end->offset)
		return violation(s, "data out of order");
	if (!write_all(s->fd, &iov, 1, offset))
		return disk_failed(s, "write the journal");
	s->dirty = true;
	s->end->offset += bytes.len;
	zeros_ahead(&s->zeros, s->fd, s->end->offset, bytes.len);
	return GO_ON;
}

/* A part that is durable becomes the journal's. */
static bool
name_body(const char *dir, uint64_t id)
{
	int			dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char		part[32];
	char		name[32];
	bool		ok;

	body_part_name(part, id);
	body_name(name, id);
	ok = dir_fd >= 0 && renameat(dir_fd, part, dir_fd, name) == 0;
	if (ok && fsync(dir_fd) != 0)
		ok = take_back(dir_fd, name);
	if (dir_fd >= 0)
		close(dir_fd);
	return ok;
}

static StandbyEnd
take_name(Standby *s, uint64_t id, uint64_t size)
{
	if (s->bodies == NULL || !standby_bodies_take(s->bodies, id, size))
		return violation(s, "the name of a body that is not here");
	if (!name_body(s->dir, id))
		return disk_failed(s, "name the file of a transaction");
	LOCKSTEP_POINT(REPLICAS_BODY_NAMED);
	return GO_ON;
}

static StandbyEnd
delete_bodies(Standby *s, LsSlice ids)
{
	uint64_t	id;

	while (ids.len > 0)
	{
		if (!member_numbers(&ids, &id, 1))
			return violation(s, "a short message");
		if (!copy_delete_body(s->dir, id))
			return disk_failed(s, "delete the file of a transaction");
	}
	return GO_ON;
}

/* ---------- the stream */

static StandbyEnd
lost(Standby *s)
{
	snprintf(s->why, 300, "%s", member_channel_error(s->channel));
	return STANDBY_LOST;
}

static bool
remember(Standby *s, bool complete)
{
	if (complete)
	{
		s->state->copy_epoch = s->key->epoch;
		s->complete = true;
	}
	return group_state_write(s->dir, s->state);
}

/* Not looked up for each acknowledgement. */
static uint64_t
room(Standby *s)
{
	if (s->room_ms == 0 || monotonic_ms() - s->room_ms >= MEMBER_ALIVE_MS)
	{
		s->room = copy_room(s->dir);
		s->room_ms = monotonic_ms();
	}
	return s->room;
}

static StandbyEnd
acknowledge(Standby *s, uint64_t index)
{
	uint64_t	numbers[2] = {index, room(s)};

	if (!sync_all(s))
		return disk_failed(s, "flush the journal");
	if (!s->complete)
		LOCKSTEP_POINT(REPLICAS_COPIED);
	if (!s->complete && !remember(s, true))
		return disk_failed(s, "write \"group\"");
	s->said_ms = monotonic_ms();
	return member_channel_send(s->channel, MEMBER_ACK, numbers, 2, NULL, 0) ? GO_ON : lost(s);
}

static StandbyEnd
take_refusal(Standby *s, LsSlice payload)
{
	json_t	   *object = json_loadb((const char *) payload.data, payload.len, 0, NULL);

	snprintf(s->why, 300, "%s", json_text_of(object, "error")[0] != '\0' ? json_text_of(object, "error") : "the leader gives no reason");
	if (json_is_true(json_object_get(object, "anew")))
		s->state->copy_epoch = 0;
	json_decref(object);
	return group_state_write(s->dir, s->state) ? STANDBY_REFUSED : disk_failed(s, "write \"group\"");
}

static StandbyEnd
take_key(Standby *s, LsSlice payload)
{
	char	   *text = xstrndup(payload.data, payload.len);
	GroupKey	key;
	bool		ok = group_key_parse(text, &key);

	free(text);
	if (!ok)
		return violation(s, "a malformed key");
	s->news(&key, NULL);
	return GO_ON;
}

static StandbyEnd
take_nodes(Standby *s, LsSlice payload)
{
	char	   *text = xstrndup(payload.data, payload.len);

	s->news(NULL, text);
	free(text);
	return GO_ON;
}

static StandbyEnd
take(Standby *s, const MemberMessage *m)
{
	LsSlice		rest = m->payload;
	uint64_t	n[2];

	switch (m->type)
	{
		case MEMBER_ALIVE:
			if (member_numbers(&rest, n, 1) && n[0] == 1)
				reach_wanted();
			return GO_ON;
		case MEMBER_SEGMENT:
			return member_numbers(&rest, n, 2) ? begin_segment(s, n[0], n[1]) : violation(s, "a short message");
		case MEMBER_DATA:
			return member_numbers(&rest, n, 1) ? take_data(s, n[0], rest) : violation(s, "a short message");
		case MEMBER_BODY_NAME:
			return member_numbers(&rest, n, 2) ? take_name(s, n[0], n[1]) : violation(s, "a short message");
		case MEMBER_SYNC:
			return member_numbers(&rest, n, 1) ? acknowledge(s, n[0]) : violation(s, "a short message");
		case MEMBER_DELETE:
			if (!member_numbers(&rest, n, 1))
				return violation(s, "a short message");
			return copy_delete_before(s->dir, n[0]) ? GO_ON : disk_failed(s, "delete journal segments");
		case MEMBER_BODY_DELETE:
			return delete_bodies(s, rest);
		case MEMBER_REFUSED:
			return take_refusal(s, rest);
		case MEMBER_KEY:
			return take_key(s, rest);
		case MEMBER_NODES:
			return take_nodes(s, rest);
		case MEMBER_HANDOVER:
			snprintf(s->why, 300, "the leader has ended");
			return STANDBY_HANDOVER;
		default:
			return violation(s, "a message of an unknown type");
	}
}

/* Also while much comes. */
static bool
say_alive(Standby *s)
{
	uint64_t	numbers[2];

	if (monotonic_ms() - s->said_ms < MEMBER_ALIVE_MS)
		return true;
	s->said_ms = monotonic_ms();
	numbers[0] = room(s);
	numbers[1] = reach_known();
	return member_channel_send(s->channel, MEMBER_ALIVE, numbers, 2, NULL, 0);
}

static StandbyEnd
follow_stream(Standby *s, const MemberKeys *keys, const atomic_bool * stop)
{
	int64_t		heard = monotonic_ms();

	for (;;)
	{
		MemberMessage m;
		MemberResult result = member_channel_receive(s->channel, MEMBER_ALIVE_MS, &m);
		StandbyEnd	end;

		if (*stop)
			return STANDBY_STOPPED;
		if (s->bodies != NULL && standby_bodies_failed(s->bodies, s->why))
			return STANDBY_FAILED;
		if (result == MEMBER_LOST)
			return lost(s);
		if (result == MEMBER_MESSAGE)
		{
			standby_view.heard_ms = heard = monotonic_ms();
			if (s->bodies == NULL)	/* the leader knows this connection now */
				s->bodies = standby_bodies_begin(s->config, keys, config_replicator(s->config, s->key->leader), s->nonce);
			if ((end = take(s, &m)) != GO_ON)
				return end;
			standby_view.segment = s->end->segment;
			standby_view.offset = s->end->offset;
		}
		else if (monotonic_ms() - heard > MEMBER_SILENCE_MS)
		{
			snprintf(s->why, 300, "the leader has been silent for %d ms", (int) (monotonic_ms() - heard));
			return STANDBY_SILENT;
		}
		if (!say_alive(s))
			return lost(s);
	}
}

/* ---------- beginning */

static StandbyEnd
refused(Standby *s, const char *why)
{
	snprintf(s->why, 300, "%s", why);
	return STANDBY_REFUSED;
}

static bool
introduce(Standby *s, const MemberKeys *keys)
{
	const char *name = s->config->replicator_name;
	char		own[MEMBER_NONCE_HEX];
	const char *trouble = NULL;
	bool		ok = member_make_nonce(s->nonce) && member_challenge(s->channel, keys, name, s->nonce, "", own, &trouble);

	if (trouble != NULL)
		snprintf(s->why, 300, "%s", trouble);
	ok = ok && member_channel_send_json(s->channel, MEMBER_PROOF,
										json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "proof", own, "cluster", s->end->segment != 0 ? s->key->cluster : "",
												  "epoch", (json_int_t) s->state->copy_epoch, "promised", (json_int_t) s->state->promised,
												  "segment", (json_int_t) s->end->segment, "offset", (json_int_t) s->end->offset));
	return ok;
}

static void
take_history(GroupState *state, const json_t *history)
{
	state->n = 0;
	for (size_t i = 0; i < json_array_size(history) && i < GROUP_HISTORY; i++)
	{
		const json_t *e = json_array_get(history, i);

		state->history[state->n++] = (EpochStart)
		{
			(uint64_t) json_integer_value(json_object_get(e, "epoch")),
			{
				(uint64_t) json_integer_value(json_object_get(e, "segment")), (uint64_t) json_integer_value(json_object_get(e, "offset"))
			}
		};
	}
}

/* From here on the journal is the beginning of this leader's, or nothing. */
static bool
settle(Standby *s, JournalPlace place, const json_t *history)
{
	bool		anew = place.segment == 0;

	if (s->state->promised < s->key->epoch)
		s->state->promised = s->key->epoch;
	if (anew)
	{
		s->state->copy_epoch = 0;
		if (!group_state_write(s->dir, s->state))
			return false;
	}
	if (!copy_remove_parts(s->dir) || !copy_cut(s->dir, place))
		return false;
	*s->end = place;
	take_history(s->state, history);
	if (anew)
		return true;
	s->fd = copy_open_segment(s->dir, place.segment, true);
	s->named = true;
	if (s->fd < 0)
		return false;
	(void) posix_fallocate(s->fd, 0, s->config->journal_segment_size);	/* only faster */
	s->zeros = (ZerosAhead) {.limit = (uint64_t) s->config->journal_segment_size};
	return remember(s, true);
}

static StandbyEnd
agree(Standby *s, const MemberKeys *keys)
{
	json_t	   *welcome;
	JournalPlace place;
	char		tail[COPY_TAIL_HEX] = "";
	StandbyEnd	end = GO_ON;

	if (!introduce(s, keys))
	{
		if (s->why[0] != '\0')
			return STANDBY_REFUSED;
		(void) lost(s);
		return member_channel_refused(s->channel) ? STANDBY_REFUSED : STANDBY_UNREACHED;
	}
	member_channel_trust(s->channel);
	welcome = member_channel_expect(s->channel, MEMBER_WELCOME, ANSWER_MS);
	if (welcome == NULL)
		return refused(s, member_channel_error(s->channel));
	place = (JournalPlace)
	{
		(uint64_t) json_integer_value(json_object_get(welcome, "segment")),
			(uint64_t) json_integer_value(json_object_get(welcome, "offset"))
	};
	if ((uint64_t) json_integer_value(json_object_get(welcome, "epoch")) != s->key->epoch ||
		strcmp(json_text_of(welcome, "cluster"), s->key->cluster) != 0)
		end = refused(s, "it does not lead in the epoch that etcd says");
	else if (place.segment != 0 && journal_place_compare(*s->end, place) < 0)
		end = refused(s, "it goes on behind this one's end");
	else if (!settle(s, place, json_object_get(welcome, "history")) ||
			 (place.segment != 0 && !copy_tail(s->dir, place, tail)))
		end = disk_failed(s, "cut the journal");
	else if (!member_channel_send_json(s->channel, MEMBER_READY, json_pack("{s:s, s:o, s:b}", "tail", tail, "bodies", copy_bodies(s->dir), "nodes", 1)))
		end = lost(s);
	json_decref(welcome);
	return end;
}

StandbyEnd
standby_follow(const Config *config, const MemberKeys *keys, GroupState *state, const GroupKey *key,
			   JournalPlace *end, const atomic_bool * stop, StandbyNews news, char why[300])
{
	int			leader = config_replicator(config, key->leader);
	Standby		s = {
		.config = config,.dir = config->journal_directory,.state = state,.key = key,.end = end,.news = news,.why = why,.fd = -1
	};
	StandbyEnd	result;
	char	   *error = NULL;

	why[0] = '\0';
	if (leader < 0)
	{
		snprintf(why, 300, "replicator \"%s\", which leads, is not in this one's configuration", key->leader);
		return STANDBY_REFUSED;
	}
	s.channel = member_channel_connect(config->replicators[leader].address, keys, &error);
	if (s.channel == NULL)
	{
		result = errno == ECONNREFUSED ? STANDBY_ABSENT : STANDBY_UNREACHED;
		snprintf(why, 300, "%s", error);
		free(error);
		return result;
	}
	result = agree(&s, keys);
	if (result == GO_ON)
	{
		log_message(LOG_NOTICE, key->leader, "follows this replicator, which leads in epoch %" PRIu64 "; the journal %s", key->epoch,
					end->segment == 0 ? "is copied from the beginning" : "goes on where it ended");
		standby_view.connected = true;
		news(NULL, NULL);
		result = follow_stream(&s, keys, stop);
		if (s.bodies != NULL)
			standby_bodies_end(s.bodies);
		standby_view.connected = false;
	}
	member_channel_close(s.channel);
	leave_segment(&s);
	return result;
}
