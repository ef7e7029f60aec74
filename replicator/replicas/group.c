/*
 * group.c
 *	  A group of replicators: see group.h.
 *
 * One thread asks etcd and acts on what it says, first as a standby, then as the leader:
 *
 *	 FOLLOWING	gets the journal.  If the leader is gone, and this one is in sync: it closes the
 *				connection, so that nothing more is acknowledged without it, and then changes the
 *				key.  Either that succeeds, and the old leader can never acknowledge anything, or
 *				the key has changed, and it follows who leads.
 *	 LEADING	puts standbys that have everything in sync, up to `copies`; takes out those that
 *				are silent, or have lost their journal, if another one or min_copies allows it.  A
 *				copy is waited for before etcd says that it is in sync, and is waited for until
 *				etcd says that it is not.  If the key names another leader, or this one in another
 *				process, it ends.
 *
 * Times decide when something is tried, never whether it is right.
 */
#include "group.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "copies.h"
#include "copies_bodies.h"
#include "copies_send.h"
#include "copy_files.h"
#include "etcd.h"
#include "group_key.h"
#include "group_state.h"
#include "group_view.h"
#include "in_sync.h"
#include "journal.h"
#include "journal_body.h"
#include "log.h"
#include "loop.h"
#include "monotonic.h"
#include "points.h"
#include "random_bytes.h"
#include "restart.h"
#include "standby.h"
#include "wakeup.h"

#define PAUSE_MS 100
#define COLD_MS 3000			/* for a leader that was never met */
#define ABSENT_MS 1000			/* ... if nobody listens there */
#define LOOK_MS 1000			/* the leader reads the key */
#define HANDOVER_MS 1000
#define TAKEN_MS 2				/* how often it is looked for */
#define FULL_MS 1000			/* a disk may have room again */

typedef enum Phase
{
	PHASE_FOLLOWING,
	PHASE_CHOSEN,				/* the key says so; the journal is opened */
	PHASE_BEGINNING,			/* waits for the copies */
	PHASE_LEADING
} Phase;

static const Config *config;
static MemberKeys keys;
static Etcd *etcd;
static uint64_t run;
static GroupState state;
static GroupKey key;			/* as etcd was known to have it */
static char key_trouble[400];	/* of the last time it was read */
static char own_cluster[33];
static JournalPlace end;		/* of the journal here, while FOLLOWING */
static bool new_journal;		/* empty, for a group that is to begin */
static pthread_t thread;
static int	event_fd = -1;
static Watch *event_watch;
static void (*on_done) (char *error);
static char *failed;
static atomic_bool stop;
static _Atomic int64_t stop_at_ms;	/* waiting for copies has an end then; 0:
									 * it has none */
static _Atomic Phase phase;
static _Atomic int preferred = -1;	/* is to lead next; -1: any */
static int64_t preferred_ms;	/* since then; the loop's */
static _Atomic EtcdState etcd_state = ETCD_ANSWERS;


/* Also while etcd does not answer, waiting for copies has an end when this one is to end. */
static void
end_waiting(void)
{
	if (stop_at_ms != 0 && monotonic_ms() >= stop_at_ms && copies_active)
		copies_stop();
}

static void
pause_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	if (!stop)
		nanosleep(&t, NULL);
	end_waiting();
}

/* What the leader says while it is followed; both NULL: it is followed. */
static void
on_news(const GroupKey *k, const char *nodes)
{
	if (nodes != NULL)
		group_view_nodes(nodes);
	else if (k != NULL)
		group_view_key(k);
	else
		group_view_trouble(NULL);
}

/* ---------- the key */

static bool
remember(void)
{
	int			error;

	if (group_state_write(config->journal_directory, &state))
		return true;
	error = errno;
	failed = xasprintf("could not write \"%s/group\": %s", config->journal_directory, strerror(error));
	errno = error;
	return false;
}

typedef enum KeyResult
{
	KEY_READ,
	KEY_MISSING,
	KEY_UNKNOWN
} KeyResult;

static void __attribute__((format(printf, 1, 2)))
tell_key_trouble(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(key_trouble, sizeof(key_trouble), format, args);
	va_end(args);
	group_view_trouble(key_trouble);
}

/* Is it the etcd that was met before, and has it not been set back? */
static bool
is_same_etcd(const EtcdValue *v)
{
	if (state.etcd_cluster != 0 && v->cluster != state.etcd_cluster)
		tell_key_trouble("etcd is another cluster (%016" PRIx64 ") than the one that this replicator has met (%016" PRIx64 "): see \"etcd\" in docs/replicators.md",
						 v->cluster, state.etcd_cluster);
	else if (v->revision < state.etcd_revision)
		tell_key_trouble("etcd has been set back: it is at revision %" PRId64 ", and was at %" PRId64 ": see \"etcd\" in docs/replicators.md",
						 v->revision, state.etcd_revision);
	else
		return true;
	return false;
}

/*
 * Epochs only rise, and each has one leader: anything else was not written by a replicator, and
 * the members that it says are in sync may lack what was acknowledged since.
 */
static bool
is_later(const GroupKey *read)
{
	if (read->epoch < state.promised || read->epoch < key.epoch)
		tell_key_trouble("etcd's key has been set back: it is of epoch %" PRIu64 ", and was of %" PRIu64 ": see \"etcd\" in docs/replicators.md",
						 read->epoch, key.epoch > state.promised ? key.epoch : state.promised);
	else if (read->epoch == key.epoch && read->run != key.run)
		tell_key_trouble("etcd's key has been changed by somebody else: epoch %" PRIu64 " has another leader than it had: see \"etcd\" in docs/replicators.md", read->epoch);
	else
		return true;
	return false;
}

static KeyResult
read_key(void)
{
	EtcdValue	v;
	GroupKey	read;
	KeyResult	result = KEY_UNKNOWN;

	if (!etcd_read(etcd, &v))
	{
		tell_key_trouble("could not read etcd's key \"%s\": %s", config->etcd_key, etcd_error(etcd));
		return KEY_UNKNOWN;
	}
	if (!is_same_etcd(&v))
		result = KEY_UNKNOWN;
	else if (v.text == NULL)
	{
		snprintf(key_trouble, sizeof(key_trouble), "etcd has no key any more: see \"etcd\" in docs/replicators.md");
		result = KEY_MISSING;
	}
	else if (!group_key_parse(v.text, &read))
		tell_key_trouble("etcd's key \"%s\" has something else than a group of replicators: see \"etcd\" in docs/replicators.md", config->etcd_key);
	else if (own_cluster[0] != '\0' && strcmp(own_cluster, read.cluster) != 0)
		tell_key_trouble("etcd's key is of another cluster than this replicator's journal: give the group another etcd_key, or move the journal away");
	else if (is_later(&read))
	{
		read.mod_revision = v.mod_revision;
		key = read;
		state.etcd_cluster = v.cluster;
		state.etcd_revision = v.revision;
		key_trouble[0] = '\0';
		group_view_key(&key);
		result = KEY_READ;
	}
	free(v.text);
	return result;
}

/*
 * Change the key; true: it has been changed.  Otherwise it is read again: without an answer, only
 * that tells.
 *
 * A change without an answer may be made later, too, as long as the key has not been changed
 * otherwise.  A leader, who is to wait for other copies then, asks again until that is settled; so does
 * who makes the key, as its journal is that of the group then.
 */
static bool
change_key(const GroupKey *next)
{
	char	   *text = group_key_text(next);
	EtcdResult	result;
	KeyResult	known = KEY_UNKNOWN;
	int64_t		expected;

	do
	{
		expected = key.mod_revision;
		result = etcd_swap(etcd, expected, text);
		if (result == ETCD_UNKNOWN)
			log_message(LOG_WARNING, "group", "etcd did not say whether its key was changed: %s", etcd_error(etcd));
		while (!stop && (known = read_key()) != KEY_READ && !(known == KEY_MISSING && expected == 0))
			pause_ms(PAUSE_MS);
	} while (!stop && result == ETCD_UNKNOWN && (phase != PHASE_FOLLOWING || expected == 0) && key.mod_revision == expected);
	free(text);
	return !stop && known == KEY_READ && group_key_same(&key, next);
}

/* ---------- to lead */

static bool
take_over(const char *why)
{
	GroupKey	next = group_key_taken_over(&key, config->replicator_name, run);

	/* one that has been removed would not be waited for */
	for (int i = next.n; i-- > 0;)
	{
		if (config_replicator(config, next.in_sync[i]) < 0)
			group_key_remove(&next, next.in_sync[i]);
	}
	LOCKSTEP_POINT(REPLICAS_TAKEOVER);
	if (!change_key(&next))
		return false;
	LOCKSTEP_POINT(REPLICAS_CHOSEN);
	log_message(LOG_NOTICE, "group", "this replicator leads from now on, in epoch %" PRIu64 ": %s", key.epoch, why);
	return true;
}

/* From now on others see that somebody is here, while the journal is opened. */
static void
listen_for_members(void)
{
	char	   *error = copies_listen(config->replicators[config_replicator(config, config->replicator_name)].address, &stop);

	failed = failed != NULL ? failed : error;
}

/* What is begun with: the journal that is here, or a new one. */
static bool
prepare_journal(void)
{
	const LsSlice no_head = {NULL, 0};
	const char *error;

	if (own_cluster[0] == '\0')
	{
		if (!journal_new_cluster(own_cluster) ||
			!journal_create(config->journal_directory, (size_t) config->journal_segment_size, own_cluster, 1, no_head, &error))
		{
			own_cluster[0] = '\0';
			group_view_trouble("could not create the journal");
			return false;
		}
		new_journal = true;
	}
	state.copy_epoch = 1;
	return remember();
}

/* Another one has begun the group. */
static void
discard_new_journal(void)
{
	const JournalPlace nothing = {0, 0};

	if (!new_journal)
		return;
	new_journal = false;
	own_cluster[0] = '\0';
	state.copy_epoch = 0;
	if (!remember() || !copy_cut(config->journal_directory, nothing))
		failed = failed != NULL ? failed : xasprintf("could not remove the journal in \"%s\": %s", config->journal_directory, strerror(errno));
}

/* A journal of its own, or the first of the configuration, begins a group. */
static bool
begin_group(void)
{
	GroupKey	next = {.epoch = 1,.run = run};

	if (state.etcd_cluster != 0)
	{
		group_view_trouble("etcd has no key any more, and this journal has been part of a group: see \"etcd\" in docs/replicators.md");
		return false;
	}
	if (own_cluster[0] == '\0' && strcmp(config->replicators[0].name, config->replicator_name) != 0)
	{
		group_view_trouble("there is no group yet: the first replicator of the configuration, or one that has a journal, begins it");
		return false;
	}
	if (!prepare_journal())
		return false;
	snprintf(next.cluster, sizeof(next.cluster), "%s", own_cluster);
	snprintf(next.leader, sizeof(next.leader), "%s", config->replicator_name);
	group_key_add(&next, config->replicator_name);
	key.mod_revision = 0;
	if (change_key(&next))
		return true;
	discard_new_journal();
	return false;
}

/* ---------- FOLLOWING */

static bool
may_lead(void)
{
	return group_key_has(&key, config->replicator_name) && state.copy_epoch != 0;
}

/*
 * Who cannot write the small files that a leader begins with would end as soon as it is chosen, and
 * keep the others from leading.
 */
static bool
can_write_to_lead(void)
{
	char	   *text;

	if (copy_can_write(config->journal_directory))
		return true;
	text = xasprintf("this replicator, which is in sync, does not lead until it can write in \"%s\": %s", config->journal_directory, strerror(errno));
	group_view_trouble(text);
	free(text);
	return false;
}

/* The key names this replicator, in an earlier process. */
static bool
lead_again(void)
{
	if (may_lead())
		return can_write_to_lead() && take_over("it has been started again");
	group_view_trouble("etcd says that this replicator leads, but its journal is gone or incomplete: see \"Those in sync are lost\" in docs/replicators.md");
	return false;
}

/* The leader that was followed last, and since when there is none where it should be. */
static uint64_t followed_run;
static uint64_t missed_run;
static int64_t missed_since_ms;

/*
 * One that was there just now, is gone.  One that has never been met may be about to begin: it may
 * be started with this one, and listens as soon as it has been chosen; to open its journal takes longer.
 */
static bool
is_gone(bool absent)
{
	if (missed_run != key.run)
	{
		missed_run = key.run;
		missed_since_ms = monotonic_ms();
	}
	return followed_run == key.run || monotonic_ms() - missed_since_ms >= (absent ? ABSENT_MS : COLD_MS);
}

static void
tell_unreached(const char *why)
{
	char	   *text = xasprintf("replicator \"%s\", which leads, cannot be followed: %s", key.leader, why);

	group_view_trouble(text);
	free(text);
}

/* Nobody else may, and why not this one. */
static void
tell_no_takeover(const char *why)
{
	char	   *text = xasprintf("replicator \"%s\", which leads, cannot be followed: %s; this one, %s, does not take its place", key.leader, why,
								 group_key_has(&key, config->replicator_name) ? "whose journal is incomplete" : "which is not in sync");

	group_view_trouble(text);
	free(text);
}

/* The journal that is in the directory; false: *error says why there can't be one (malloc'ed). */
static bool
look_at_journal(char **error)
{
	const char *unusable;

	if (!group_state_read(config->journal_directory, &state, error))
		return false;
	if (state.name[0] != '\0' && strcmp(state.name, config->replicator_name) != 0)
	{
		*error = xasprintf("journal_directory belongs to replicator \"%s\"", state.name);
		return false;
	}
	snprintf(state.name, sizeof(state.name), "%s", config->replicator_name);
	if (state.n > 0 && state.copy_epoch == 0)
		return true;			/* incomplete: it is copied anew */
	if (standby_look(config, &end, own_cluster, &unusable))
		return true;
	if (!journal_open_found_damage())
	{
		*error = xstrdup(unusable);
		return false;
	}
	log_full(LOG_WARNING, "journal", "it cannot be used, and is copied anew", unusable, NULL);
	state.copy_epoch = 0;
	return true;
}

/* This one's disk has failed, most likely as it is full: it follows again when there is room. */
static void
wait_for_disk(const char *why)
{
	char	   *text = xasprintf("this replicator does not follow until its disk has room: %s", why);

	group_view_trouble(text);
	free(text);
	if (!copy_remove_parts(config->journal_directory))	/* they count for
														 * nothing */
		log_message(LOG_WARNING, "journal", "could not remove parts of large transactions in \"%s\": %s", config->journal_directory, strerror(errno));
	do
		pause_ms(FULL_MS);
	while (!stop && (copy_room(config->journal_directory) < 2 * (uint64_t) config->journal_segment_size ||
					 !copy_can_write(config->journal_directory)));
	(void) look_at_journal(&failed);
}

/* Follow the leader, and decide what it means that this has ended.  true: this one is to lead. */
static bool
follow(void)
{
	const uint64_t leader_run = key.run;
	char		why[300];
	StandbyEnd	result = standby_follow(config, &keys, &state, &key, &end, &stop, on_news, why);

	if (end.segment != 0)
		snprintf(own_cluster, sizeof(own_cluster), "%s", key.cluster);
	switch (result)
	{
		case STANDBY_STOPPED:
			return false;
		case STANDBY_FAILED:
			wait_for_disk(why);
			return false;
		case STANDBY_LOST:		/* is its process still there? */
			log_message(LOG_NOTICE, key.leader, "the connection to this replicator, which leads, has ended: %s", why);
			followed_run = leader_run;
			return false;
		case STANDBY_SILENT:
		case STANDBY_HANDOVER:
			log_message(LOG_NOTICE, key.leader, "this replicator, which leads, is gone: %s", why);
			followed_run = leader_run;
			break;
		case STANDBY_ABSENT:
		case STANDBY_UNREACHED:
			if (is_gone(result == STANDBY_ABSENT))
				break;
			tell_unreached(why);
			pause_ms(PAUSE_MS);
			return false;
		case STANDBY_REFUSED:
			tell_unreached(why);
			pause_ms(PAUSE_MS);
			return false;
	}
	if (read_key() == KEY_READ && key.run == leader_run)
	{
		if (may_lead() && can_write_to_lead() && take_over(why))
			return true;
		if (key.run == leader_run && !may_lead())
			tell_no_takeover(why);
	}
	pause_ms(PAUSE_MS);
	return false;
}

/* Until this one is to lead; false: stop, or `failed` says why. */
static bool
follow_until_chosen(void)
{
	while (!stop && failed == NULL)
	{
		KeyResult	result = read_key();
		bool		chosen = false;

		if (result == KEY_MISSING)
			chosen = begin_group();
		else if (result == KEY_READ && strcmp(key.leader, config->replicator_name) != 0)
			chosen = follow();
		else if (result == KEY_READ)
			chosen = key.run == run || lead_again();
		if (chosen)
		{
			listen_for_members();
			return true;
		}
		if (result != KEY_READ || strcmp(key.leader, config->replicator_name) == 0)
			pause_ms(PAUSE_MS);
	}
	return false;
}

/* ---------- LEADING */

/* What etcd says is what is waited for. */
static void
require_as_key_says(void)
{
	for (int i = 0; i < config->nreplicators; i++)
		copies_require(i, !in_sync_is_self(i) && in_sync_has(i));
	copies_set_enough(key.n >= config->min_copies);
	copies_tell_key(&key);
}

static void __attribute__((noreturn))
leave(const char *why)
{
	log_message(LOG_WARNING, "group", "this replicator does not lead any more: %s", why);
	restart_or_exit(EXIT_RETRY);
}

/* It could write when it was chosen: who has taken the room since is no reason to end. */
void
group_check_room(void)
{
	if (errno == ENOSPC || errno == EDQUOT)
		leave("its disk has no room any more");
}

static void
check_leading(void)
{
	char	   *why;

	if (key.run == run)
		return;
	why = xasprintf("\"%s\" leads in epoch %" PRIu64, key.leader, key.epoch);
	leave(why);
}

static const char *
name_at(int i)
{
	return config->replicators[i].name;
}

/*
 * Read the key.  Only the leader changes it within its epoch: if it is not what it was, its members
 * in sync are not those that are waited for.
 */
static KeyResult
look_at_key(void)
{
	const GroupKey own = key;
	KeyResult	result = read_key();

	if (result != KEY_READ)
		return result;
	check_leading();
	if (group_key_same(&own, &key))
		return KEY_READ;
	log_message(LOG_WARNING, "group", "etcd's key has been changed by somebody else: it is put back");
	(void) change_key(&own);
	check_leading();
	require_as_key_says();
	return KEY_READ;
}

/* Put `in` in sync, and take `out` out; -1: none. */
static void
change_in_sync(int in, int out)
{
	GroupKey	next;

	if (look_at_key() != KEY_READ)
		return;					/* nothing is changed before etcd answers
								 * again */
	next = key;
	if (in >= 0)
	{
		/*
		 * from here on nothing is acknowledged without it; what was, it soon
		 * has
		 */
		copies_require(in, true);
		for (int64_t until = monotonic_ms() + IN_SYNC_SILENT_MS; !copies_is_complete(in) && monotonic_ms() < until && !stop;)
			copies_wait(5);
		if (!copies_is_complete(in))
		{
			copies_require(in, false);
			in_sync_put_off(in);
			in = -1;
			if (out < 0 || key.n - 1 < config->min_copies)
				return;
		}
	}
	if (in >= 0)
	{
		in_sync_is_fast(in);
		group_key_add(&next, name_at(in));
		LOCKSTEP_POINT(REPLICAS_REQUIRED);
	}
	if (out >= 0)
		group_key_remove(&next, name_at(out));
	if (change_key(&next))
	{
		LOCKSTEP_POINT(REPLICAS_CHANGED);
		log_message(LOG_NOTICE, "group", "%s%s%s%s%s%s%s: %d copies", in >= 0 ? "\"" : "", in >= 0 ? name_at(in) : "", in >= 0 ? "\" is in sync" : "",
					in >= 0 && out >= 0 ? ", " : "", out >= 0 ? "\"" : "", out >= 0 ? name_at(out) : "", out >= 0 ? "\" is not any more" : "", key.n);
	}
	check_leading();
	require_as_key_says();
}

/* Who is put in sync, and who is taken out, if anybody is. */
static void
keep_in_sync(int out)
{
	bool		has_room;
	int			in = in_sync_candidate(preferred, out < 0 && key.n >= config->min_copies, &has_room);
	int			full = in_sync_full();

	if (in >= 0 && !has_room && key.n - (out >= 0) >= config->min_copies)
		in = -1;				/* it would soon fail */
	if (out >= 0 && (in >= 0 || key.n - 1 >= config->min_copies))
		change_in_sync(in, out);
	else if (out < 0 && in >= 0 && key.n < config->copies)
		change_in_sync(in, -1);
	else if (out < 0 && in >= 0 && in == preferred)
		change_in_sync(in, in_sync_other());
	else if (out < 0 && in >= 0 && full >= 0)
		change_in_sync(in, full);
}

static void
tell_full_disk(int i)
{
	char	   *text = xasprintf("the disk of replicator \"%s\" is full, or nearly", name_at(i));

	group_view_trouble(text);
	free(text);
}

/* anew: a member in sync that gets the journal anew; -1: none. */
static void
tell_writers_wait(int anew)
{
	char	   *text = anew < 0 ? xstrdup("writers wait: too few replicators have the journal (min_copies)") :
	xasprintf("replicator \"%s\", which is in sync, has come back without its journal: writers wait until it has a copy", name_at(anew));

	group_view_trouble(text);
	free(text);
}

static void
keep_copies(void)
{
	bool		anew;
	int			out = in_sync_lost(&anew);
	int			full;
	bool		wait;

	if (out >= 0)
		group_view_writers_wait(true);
	keep_in_sync(out);
	wait = key.n < config->min_copies || (out >= 0 && (out = in_sync_lost(&anew)) >= 0);
	full = in_sync_full();
	group_view_writers_wait(wait);
	if (wait)
		tell_writers_wait(out >= 0 && anew ? out : -1);
	else if (full >= 0)
		tell_full_disk(full);
	else
		group_view_trouble(key_trouble[0] != '\0' ? key_trouble : NULL);
}

static void
lead(void)
{
	int64_t		looked_ms = monotonic_ms();
	bool		told = false;
	bool		asked;

	copies_tell_key(&key);
	while (!stop)
	{
		keep_copies();
		if (!told && copies_are_ready())
		{
			told = true;
			wakeup(event_fd);
		}
		asked = etcd_state == ETCD_ASKED;
		if (asked || copies_outdated() || monotonic_ms() - looked_ms > LOOK_MS)
		{
			KeyResult	result = look_at_key();

			looked_ms = monotonic_ms();
			if (asked)
				etcd_state = result == KEY_READ ? ETCD_ANSWERS : ETCD_SILENT;
		}
		end_waiting();
		copies_wait(stop_at_ms != 0 ? 10 : PAUSE_MS);
	}
}

/* ---------- the thread, and the loop */

static void *
thread_main(void *arg)
{
	if (phase != PHASE_FOLLOWING)
		lead();
	else
		(void) follow_until_chosen();
	if (phase == PHASE_FOLLOWING)
		wakeup(event_fd);
	return NULL;
}

static void
on_event(void *arg, uint32_t events)
{
	uint64_t	count;
	char	   *error;

	(void) !read(event_fd, &count, sizeof(count));
	if (phase == PHASE_FOLLOWING)
	{
		pthread_join(thread, NULL);
		phase = PHASE_CHOSEN;
	}
	else
		phase = PHASE_LEADING;
	group_view_role(phase == PHASE_LEADING ? "leader" : "taking over");
	error = failed;
	failed = NULL;
	if (!stop)
		on_done(error);
}

static char *
start_thread(void)
{
	int			rc = pthread_create(&thread, NULL, thread_main, NULL);

	return rc != 0 ? xasprintf("could not start a thread: %s", strerror(rc)) : NULL;
}

void
group_begin(const Config *c, LsSlice secret, void (*when_done) (char *error))
{
	char		why[TLS_WHY_SIZE];
	char	   *error = NULL;

	config = c;
	body_close = copy_close_apart;	/* a leader has another */
	group_view_begin(c);
	in_sync_begin(c, &key);
	on_done = when_done;
	keys.secret = secret;
	event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	event_watch = loop_watch(event_fd, EPOLLIN, on_event, NULL);
	etcd = etcd_open(c->etcd_endpoints, c->etcd_key, c->tls_directory);
	if (c->tls_directory[0] != '\0' && (keys.tls = tls_context_load(c->tls_directory, NULL, why)) == NULL)
		error = xasprintf("could not use tls_directory: %s", why);
	else if (c->tls_directory[0] == '\0' && c->require_tls == REQUIRE_TLS_ALL)
		error = xstrdup("the replicators would connect to each other without TLS: tls_directory is not set, and require_tls is all");
	else if (etcd == NULL || !random_bytes((uint8_t *) &run, sizeof(run)))
		error = xstrdup("libcurl, or the system's random numbers, cannot be used");
	else
		(void) look_at_journal(&error);
	if (error == NULL)
		error = start_thread();
	if (error != NULL)
	{
		phase = PHASE_CHOSEN;
		on_done(error);
	}
}

char *
group_tls_reload(void)
{
	return config->tls_directory[0] != '\0' ? member_keys_reload(&keys, config->tls_directory) : NULL;
}

void
group_lead(const Journal *journal, void (*when_done) (char *error))
{
	JournalPlace place;
	char	   *error = NULL;

	on_done = when_done;
	phase = PHASE_BEGINNING;
	journal_end(journal, &place.segment, &place.offset);
	group_state_begin_epoch(&state, key.epoch, place);
	if (!remember())
	{
		group_check_room();
		error = failed;
		failed = NULL;
	}
	LOCKSTEP_POINT(REPLICAS_BEGUN);
	copies_bodies_begin(journal);
	if (error == NULL)
		error = copies_begin(config, &keys, &state, &key, journal, &copies_connections);
	if (error == NULL)
		error = start_thread();
	if (error != NULL)
		on_done(error);
}

bool
group_is_leader(void)
{
	return phase == PHASE_LEADING;
}

bool
group_can_hand_over(void)
{
	if (phase != PHASE_LEADING)
		return false;
	for (int i = 0; i < config->nreplicators; i++)
	{
		CopyView	v;

		/* one that is being copied anew has nothing yet */
		copies_look(i, &v);
		if (!in_sync_is_self(i) && in_sync_has(i) && !(v.anew && !v.live))
			return true;
	}
	return false;
}

bool
group_prefer(int i)
{
	if (atomic_exchange(&preferred, i) == i)
		return false;
	preferred_ms = monotonic_ms();
	return true;
}

void
group_ask_etcd(void)
{
	etcd_state = ETCD_ASKED;
}

EtcdState
group_etcd_state(void)
{
	return etcd_state;
}

void
group_stop_preferring(int i)
{
	(void) atomic_compare_exchange_strong(&preferred, &i, -1);
}

bool
group_is_ready_to_lead(int i)
{
	CopyView	v;

	copies_look(i, &v);
	return v.required && v.connected && v.live && v.silent_ms < monotonic_ms() - preferred_ms && group_view_has(config->replicators[i].name);
}

void
group_will_end(void)
{
	stop_at_ms = monotonic_ms() + HANDOVER_MS;
}

/*
 * Others that are in sync would take over, too, when the connection to this one ends: it ends when
 * the one that has been told leads.
 */
static void
wait_until_taken_over(void)
{
	int64_t		until = monotonic_ms() + HANDOVER_MS;
	struct timespec pause = {0, TAKEN_MS * 1000000L};

	while (key.n > 2 && monotonic_ms() < until && (read_key() != KEY_READ || key.run == run))
		nanosleep(&pause, NULL);	/* its end is etcd's */
}

void
group_end(void)
{
	const bool	led = phase == PHASE_LEADING;

	if (led)
		copies_hand_over(preferred, HANDOVER_MS);
	stop = true;
	if (phase == PHASE_BEGINNING || led)
		copies_stop();
	if (phase != PHASE_CHOSEN)
		pthread_join(thread, NULL);
	if (led)
		wait_until_taken_over();
	copies_close();
}
