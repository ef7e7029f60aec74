/*
 * journal_writer.c
 *	  Group commit: who writes the journal, and when.
 *
 *	  loop						journal thread
 *	  writer_push() ...			 .
 *	  end of the round: hand over -> takes all there is
 *	  .							 append, sync (one each for the batch)
 *	  on_durable() <- eventfd ----- hands the batch back
 *
 * While a batch is being written the next one gathers, so the more there is to
 * do the larger the batches are.
 *
 * Handing over wakes the thread and then the loop, which costs more than a quick disk takes.  So
 * while the thread has nothing to do, and the disk was quick the last time, the loop writes a small
 * batch itself, at the end of its round (loop_block()); what then takes long, or fails, hinders
 * nobody: another thread runs the loop meanwhile, and the journal thread tries again.
 *
 * A new segment begins with what counts now.  Positions of leased things are
 * many and change often, so the thread keeps a table of its own of them: it
 * writes them out only when a segment begins.
 *
 * Locking: `lock` covers the fields of `shared`; the thread holds it while
 * taking and giving, never while writing.  Items belong to the thread that has taken
 * them.  The Journal belongs to the thread from writer_start() to
 * writer_stop(), but while `writing_here`, and while it is `idle` to who holds the lock.
 *
 * The next segment's file is made ahead of need.  If there is no room for it, no
 * more questions are taken (writer_failing()), and what has been decided goes to
 * the rest of this one.  A write that fails all the same is tried again every
 * second: nothing in the batch has been promised to anybody, and everything
 * behind it waits.  A flush
 * that fails leaves it unknown what is on disk, and only reading it anew tells:
 * the process ends (exit code 2), and the next one does that.
 */
#include "journal_writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "copies.h"
#include "journal_private.h"
#include "lease.h"
#include "events.h"
#include "log.h"
#include "loop.h"
#include "metadata.h"
#include "monotonic.h"
#include "points.h"
#include "wakeup.h"

#define RETRY_SECONDS 1

/* What the loop writes itself: as many, and so many bytes, if the last batch took no longer. */
#define FEW_ITEMS 16
#define FEW_BYTES (64 * 1024)
#define QUICK_US 500
#define EXIT_JOURNAL_BROKEN 2

typedef struct ItemQueue
{
	JournalItem *first;
	JournalItem **end;
} ItemQueue;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted;	/* by CLOCK_MONOTONIC */

static struct
{
	ItemQueue	todo;
	ItemQueue	done;
	bool		idle;			/* the thread waits */
	bool		writing_here;	/* the loop writes `here` */
	int64_t		last_us;		/* that the last batch took; at first, too
								 * long */
	bool		stop;
	bool		leave;			/* another replicator is to lead */
	char	   *failing;		/* NULL, or the last error */
	uint64_t	syncs;
	uint64_t	trim_below;		/* 0: nothing to trim */
	int64_t		trim_keep;
}			shared;

/* Used by the loop: */
static ItemQueue gathered;
static ItemQueue here;			/* while writing_here: outside of it */
static Deferred hand_over;
static JournalDurable deliver;
static void (*on_leave) (void);
static char *failing_text;
static pthread_t thread;
static int	event_fd = -1;
static Watch *event_watch;

/* Used by who writes: */
static Journal *journal;
static const char *journal_dir;
static bool prepare_failed;		/* there is no room for the next segment */
static LeaseTable *positions;
static Buffer head;				/* metadata records, but for leases */
static uint64_t last_chain;		/* after the last transaction written */

static void
queue_init(ItemQueue *q)
{
	q->first = NULL;
	q->end = &q->first;
}

/* Move all of from to the end of to. */
static void
queue_move(ItemQueue *to, ItemQueue *from)
{
	if (from->first == NULL)
		return;
	*to->end = from->first;
	to->end = from->end;
	queue_init(from);
}

/* ---------- the journal thread */

/* Report why writing fails, once for each reason; NULL: it works again. */
static void
set_failing(const char *error)
{
	bool		changed;

	pthread_mutex_lock(&lock);
	changed = (error == NULL) != (shared.failing == NULL) ||
		(error != NULL && strcmp(error, shared.failing) != 0);
	if (changed)
	{
		free(shared.failing);
		shared.failing = error != NULL ? xstrdup(error) : NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!changed)
		return;
	if (error != NULL)
		log_event(LOG_ERROR, "journal_fails", "journal", error, "Nothing is decided until it can be written.",
				  "Make room on its disk, or mend it. It is tried again every second.");
	else
		log_event(LOG_NOTICE, "journal_works", "journal", "it can be written again", NULL, NULL);
	wakeup(event_fd);
}

/* Keep what the head of the next segment needs after this item. */
static void
note_head(const JournalItem *item)
{
	LsSlice		text = {item->text.data, item->text.len};

	if (item->positions)
	{
		LsSlice		effects = {item->tx->effects.data, item->tx->effects.len};

		(void) lease_effects(positions, ls_slice_of(item->tx->database), item->seq, ls_slice_of(NULL), effects);
	}
	if (item->type == RECORD_LEASE)
		(void) lease_decode(positions, text);
	if (item->type == RECORD_DATABASE_DROPPED)
		lease_forget_database(positions, text);
	if (item->type == RECORD_DATABASE_EVENT)
		lease_database_event(positions, text);
	if (item->head.len > 0)
	{
		head.len = 0;
		buffer_append(&head, item->head.data, item->head.len);
	}
}

static void
append_lease(void *arg, LsSlice text)
{
	metadata_encode_record(arg, RECORD_LEASE, journal_last(journal), text);
}

static void
set_head(void)
{
	Buffer		all = {0};
	LsSlice		bytes;
	char		text[CHAIN_TEXT_SIZE];

	if (last_chain != 0)
	{
		journal_chain_text(text, last_chain);
		metadata_encode_record(&all, RECORD_CHAIN, journal_last(journal), ls_slice_of(text));
	}
	buffer_append(&all, head.data, head.len);
	lease_forget_gone(positions, UINT64_MAX);
	lease_encode_all(positions, append_lease, &all);
	bytes = (LsSlice) {all.data, all.len};
	journal_set_metadata(journal, &bytes, 1);
	buffer_free(&all);
}

/* Setting the clock back must not make a full journal wait that much longer. */
static void
wanted_init(void)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 ||
		pthread_cond_init(&wanted, &attr) != 0)
		abort();
	(void) pthread_condattr_destroy(&attr);
}

static struct timespec
in_a_second(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += RETRY_SECONDS;
	return until;
}

static void
wait_a_second(void)
{
	struct timespec until = in_a_second();

	pthread_mutex_lock(&lock);
	if (!shared.stop)
		pthread_cond_timedwait(&wanted, &lock, &until); /* not the wall clock */
	pthread_mutex_unlock(&lock);
}

static bool
stopping(void)
{
	bool		stop;

	pthread_mutex_lock(&lock);
	stop = shared.stop;
	pthread_mutex_unlock(&lock);
	return stop;
}

static void __attribute__((noreturn))
give_up(void)
{
	log_full(LOG_ERROR, "journal", journal_error(journal),
			 "It is not known what of it is on disk.",
			 "The replicator ends; started again it reads the journal and goes on with what is there.");
	_exit(EXIT_JOURNAL_BROKEN);
}

static void
publish(void)
{
	JournalPlace end;

	journal_end(journal, &end.segment, &end.offset);
	copies_publish(end);
}

/* Its disk can't be written: another replicator is to lead, if one has room. */
static bool
leave(void)
{
	static bool told;

	if (!copies_active || stopping() || !copies_room_elsewhere())
		return false;
	if (!told)
		log_full(LOG_ERROR, "journal", journal_error(journal), "Another replicator, whose disk has room, is to lead.", NULL);
	told = true;
	pthread_mutex_lock(&lock);
	shared.leave = true;
	pthread_mutex_unlock(&lock);
	wakeup(event_fd);
	return true;
}

/*
 * Append and sync; false: it gave up, as the replicator stops, or because it cannot be written and
 * patient is false.
 */
static bool
make_durable(const LsSlice *records, size_t n, uint64_t last_seq, bool patient)
{
	LOCKSTEP_POINT(GROUP_TAKEN);
	if (copies_active)
		copies_will_write();
	while (journal_append(journal, records, n, last_seq) != JOURNAL_OK)
	{
		if (journal_broken(journal))
			give_up();			/* what was appended could not be cut off
								 * again */
		if (!patient)
			return false;
		if (!leave())
			set_failing(journal_error(journal));
		if (stopping())
			return false;
		wait_a_second();
	}
	LOCKSTEP_POINT(GROUP_WRITTEN);
	if (copies_active)
		publish();
	if (journal_sync(journal) != JOURNAL_OK)
		give_up();
	if (copies_active && !copies_await())
		return false;			/* the replicator stops */
	LOCKSTEP_POINT(GROUP_DURABLE);
	if (!prepare_failed)
		set_failing(NULL);
	return true;
}

/* With nothing to write: do the copies still follow?  false: it gave up, as the replicator stops. */
static bool
confirm(void)
{
	publish();
	return copies_await();
}

/* After a batch, so that no transaction waits for it. */
static void
prepare_next_segment(void)
{
	JournalStatus status = journal_prepare(journal);

	if (status != JOURNAL_OK && journal_broken(journal))
		give_up();
	if (status != JOURNAL_OK && !leave())
		set_failing(journal_error(journal));
	else if (status == JOURNAL_OK && prepare_failed)
		set_failing(NULL);
	prepare_failed = status != JOURNAL_OK;
}

/* False: as make_durable() says. */
static bool
write_batch(JournalItem *first, bool patient)
{
	static LsSlice *records;
	static size_t cap;
	size_t		n = 0;
	size_t		size = GROUP_MARK_SIZE;
	uint64_t	last_seq = 0;

	for (JournalItem *item = first; item != NULL; item = item->next)
	{
		if (item->len == 0)
			continue;			/* a barrier */
		if (n == cap)
		{
			cap = cap > 0 ? cap * 2 : 256;
			records = xrealloc(records, cap * sizeof(LsSlice));
		}
		records[n].data = item->record;
		records[n++].len = item->len;
		size += item->len;
		if (item->seq != 0)
			last_seq = item->seq;
		if (copies_active && item->body.id != 0)
			copies_add_body(item->seq, &item->body);
	}
	if (n == 0)
		return confirm();
	if (journal_begins_segment(journal, size))
		set_head();
	if (!make_durable(records, n, last_seq != 0 ? last_seq : journal_last(journal), patient))
		return false;
	for (JournalItem *item = first; item != NULL; item = item->next)
	{
		if (item->seq != 0)
			last_chain = journal_chain_of(item->record);
		if (item->body.id != 0)
			journal_add_body(journal, item->seq, &item->body);

		/*
		 * not before: a segment that begins with it must not have its effects
		 * in the head
		 */
		if (item->len > 0)
			note_head(item);
	}
	return true;
}

/* First seq of the segments that make up the newest keep bytes: 0, all of them;
 * UINT64_MAX, none. */
static uint64_t
seq_of_newest(int64_t keep)
{
	SegmentList list;
	int64_t		bytes = 0;
	uint64_t	seq = UINT64_MAX;
	uint64_t	next = UINT64_MAX;

	if (!segment_list(journal_dir, &list))
		return 0;
	for (size_t i = list.n; i > 0 && bytes < keep; i--)
	{
		char		path[JOURNAL_PATH_MAX];
		struct stat st;

		segment_path(path, journal_dir, list.first[i - 1], false);
		if (stat(path, &st) == 0)
			bytes += st.st_size;
		seq = list.first[i - 1];
		bytes += (int64_t) journal_body_bytes(journal, seq, next);
		next = seq;
	}
	free(list.first);
	return bytes < keep ? 0 : seq;
}

static void
trim(uint64_t below, int64_t keep)
{
	uint64_t	newest = seq_of_newest(keep);

	journal_trim(journal, newest < below ? newest : below);
	if (copies_active)
		copies_trimmed(journal_first(journal));
}

/* Caller holds the lock. */
static void
note_written(ItemQueue *batch, int64_t began_us)
{
	queue_move(&shared.done, batch);
	shared.syncs++;
	shared.last_us = monotonic_us() - began_us;
}

static void *
thread_main(void *arg)
{
	struct timespec retry_at = in_a_second();

	for (;;)
	{
		ItemQueue	batch;
		uint64_t	trim_below;
		int64_t		trim_keep;
		bool		stop;

		queue_init(&batch);
		pthread_mutex_lock(&lock);
		shared.idle = true;
		while (shared.writing_here || (shared.todo.first == NULL && !shared.stop && shared.trim_below == 0))
		{
			if (!prepare_failed)
				pthread_cond_wait(&wanted, &lock);
			else if (pthread_cond_timedwait(&wanted, &lock, &retry_at) == ETIMEDOUT)	/* not the wall clock */
				break;
		}
		shared.idle = false;
		queue_move(&batch, &shared.todo);
		trim_below = shared.trim_below;
		trim_keep = shared.trim_keep;
		shared.trim_below = 0;
		stop = shared.stop;
		pthread_mutex_unlock(&lock);

		if (batch.first != NULL)
		{
			int64_t		began_us = monotonic_us();

			if (!write_batch(batch.first, true))
				return NULL;
			pthread_mutex_lock(&lock);
			note_written(&batch, began_us);
			pthread_mutex_unlock(&lock);
			wakeup(event_fd);
		}
		else if (stop)
			return NULL;
		if (trim_below != 0)
			trim(trim_below, trim_keep);
		prepare_next_segment();
		retry_at = in_a_second();
	}
}

/* ---------- the loop */

void
writer_item_free(JournalItem *item)
{
	buffer_free(&item->head);
	buffer_free(&item->text);
	free(item);
}

JournalItem *
writer_item(const JournalRecord *record)
{
	size_t		size = journal_encode(NULL, 0, record);
	JournalItem *item = xmalloc(sizeof(JournalItem) + size);

	memset(item, 0, sizeof(JournalItem));
	item->type = record->type;
	if (record->type == RECORD_LEASE || record->type == RECORD_DATABASE_DROPPED || record->type == RECORD_DATABASE_EVENT)
		buffer_append(&item->text, record->text.data, record->text.len);
	item->len = size;
	journal_encode(item->record, size, record);
	return item;
}

JournalItem *
writer_barrier(void)
{
	return xcalloc(1, sizeof(JournalItem));
}

/*
 * The rest of `here` is the thread's, before what has come since.  Is there something for it to do?
 * Caller holds the lock.
 */
static bool
end_writing_here(void)
{
	queue_move(&here, &shared.todo);
	queue_move(&shared.todo, &here);
	shared.writing_here = false;
	return shared.todo.first != NULL || shared.trim_below != 0;
}

/* In the loop's place, by loop_block(). */
static void
write_here(void *arg)
{
	int64_t		began_us = monotonic_us();
	bool		written = here.first != NULL && write_batch(here.first, false);
	bool		more;

	pthread_mutex_lock(&lock);
	if (written)
		note_written(&here, began_us);
	more = end_writing_here();
	pthread_mutex_unlock(&lock);
	if (more)
		pthread_cond_signal(&wanted);
}

static void
deliver_done(void)
{
	ItemQueue	done;
	bool		failed = failing_text != NULL;
	bool		leave_now;

	queue_init(&done);
	pthread_mutex_lock(&lock);
	queue_move(&done, &shared.done);
	free(failing_text);
	failing_text = shared.failing != NULL ? xstrdup(shared.failing) : NULL;
	leave_now = shared.leave;
	shared.leave = false;
	pthread_mutex_unlock(&lock);
	if (failed != (failing_text != NULL))
		event_note(failed ? "journal_works" : "journal_fails", NULL,
				   failed ? "the journal can be written again" : "the journal cannot be written", failing_text);

	while (done.first != NULL)
	{
		JournalItem *item = done.first;

		done.first = item->next;
		deliver(item);
	}
	if (leave_now && on_leave != NULL)
		on_leave();
}

static void
written_here(void *arg)
{
	deliver_done();
}

/* Caller holds the lock, so the thread stays idle. */
static bool
may_write_here(void)
{
	size_t		size = GROUP_MARK_SIZE;
	int			n = 0;

	if (!shared.idle || shared.writing_here || shared.todo.first != NULL || shared.stop || shared.trim_below != 0 ||
		shared.last_us > QUICK_US || prepare_failed || !journal_is_prepared(journal))
		return false;
	for (const JournalItem *item = gathered.first; item != NULL; item = item->next)
	{
		size += item->len;
		if (++n > FEW_ITEMS || size > FEW_BYTES)
			return false;
	}
	return !journal_begins_segment(journal, size);
}

static void
on_hand_over(void *arg)
{
	bool		by_loop = !copies_active && loop_may_block();

	pthread_mutex_lock(&lock);
	by_loop = by_loop && may_write_here();
	queue_move(by_loop ? &here : &shared.todo, &gathered);
	shared.writing_here |= by_loop;
	pthread_mutex_unlock(&lock);

	/* only now: the thread would wake up to wait for the lock */
	if (by_loop)
		loop_block(write_here, written_here, NULL);
	else
		pthread_cond_signal(&wanted);
}

void
writer_push(JournalItem *item)
{
	item->next = NULL;
	*gathered.end = item;
	gathered.end = &item->next;
	loop_defer(&hand_over);
}

static void
on_event(void *arg, uint32_t events)
{
	deliver_done();
}

void
writer_on_leave(void (*callback) (void))
{
	on_leave = callback;
}

const char *
writer_failing(void)
{
	return failing_text;
}

uint64_t
writer_syncs(void)
{
	uint64_t	n;

	pthread_mutex_lock(&lock);
	n = shared.syncs;
	pthread_mutex_unlock(&lock);
	return n;
}

void
writer_trim(uint64_t flushed, int64_t keep_bytes)
{
	pthread_mutex_lock(&lock);
	shared.trim_below = flushed;
	shared.trim_keep = keep_bytes;
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
}

void
writer_start(Journal *j, const char *dir, JournalDurable durable, LeaseTable *all_positions,
			 const Buffer *first_head, uint64_t chain)
{
	int			rc;

	journal = j;
	journal_dir = dir;
	deliver = durable;
	positions = all_positions;
	buffer_append(&head, first_head->data, first_head->len);
	last_chain = chain;
	queue_init(&gathered);
	queue_init(&here);
	queue_init(&shared.todo);
	queue_init(&shared.done);
	shared.last_us = INT64_MAX;
	hand_over.callback = on_hand_over;
	wanted_init();
	event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = event_fd < 0 ? errno : pthread_create(&thread, NULL, thread_main, NULL);
	if (rc != 0)
	{
		log_message(LOG_ERROR, "journal", "could not start its thread: %s", strerror(rc));
		exit(EXIT_JOURNAL_BROKEN);
	}

	/*
	 * Edge-triggered: each write is an event, so the counter need not be
	 * read.
	 */
	event_watch = loop_watch(event_fd, EPOLLIN | EPOLLET, on_event, NULL);
}

void
writer_stop(void)
{
	loop_undefer(&hand_over);
	pthread_mutex_lock(&lock);
	(void) end_writing_here();	/* the loop may have ended before */
	queue_move(&shared.todo, &gathered);
	shared.stop = true;
	pthread_cond_signal(&wanted);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	loop_unwatch(event_watch);
	deliver_done();
	close(event_fd);
}
