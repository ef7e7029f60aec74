/*
 * loop.h
 *	  The event loop: one thread at a time, epoll.  Owns nothing but the watches; every
 *	  callback runs on the loop's thread.
 *
 * While a libpq connection is being established, PQconnectPoll() may close its socket and open
 * another one under the same number: end the watch before each call and watch PQsocket() again
 * after it.
 */
#ifndef LOCKSTEP_LOOP_H
#define LOCKSTEP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Watch Watch;
typedef void (*WatchCallback) (void *arg, uint32_t events); /* EPOLLIN ... */

extern void loop_init(void);
extern Watch *loop_watch(int fd, uint32_t events, WatchCallback callback, void *arg);
extern void loop_change(Watch *w, uint32_t events); /* no system call if
													 * unchanged */
extern void loop_unwatch(Watch *w); /* safe inside callbacks, also another's;
									 * NULL is ignored */

/* One-shot timers in a heap; freed after firing or cancelling. */
typedef struct Timer Timer;
typedef void (*TimerCallback) (void *arg);

extern Timer *loop_after(int ms, TimerCallback callback, void *arg);
extern void loop_cancel(Timer *t);	/* also from its own callback; NULL is
									 * ignored */

/* callback runs once, before the loop next waits (after all ready events): to
 * do work once for many events.  Calling it again before then is ignored. */
typedef struct Deferred
{
	void		(*callback) (void *arg);
	void	   *arg;
	bool		queued;
	struct Deferred *next;
	struct Deferred **link;		/* what points to it, while queued */
} Deferred;

extern void loop_defer(Deferred *d);
extern void loop_undefer(Deferred *d);	/* before its memory goes; harmless if
										 * not queued */

/*
 * block() is called once at the end of the round, outside of the loop: it may wait for the kernel, and
 * touches nothing of the loop's, nor of what its callbacks use.  If that takes long, another thread runs
 * the loop meanwhile (substitute.h).  Then after(), in the loop.  Only if loop_may_block(): no other
 * one is asked for, or under way, and there is such a thread.
 */
extern bool loop_may_block(void);
extern void loop_block(void (*block) (void *arg), void (*after) (void *arg), void *arg);

/*
 * The next round begins no sooner than us microseconds after the current one began, so that what comes
 * meanwhile is handled together, and who sends it need not wake this thread.  The longest one asked for counts.
 */
extern void loop_pace(unsigned int us);

extern uint64_t loop_now_us(void);	/* monotonic, of the current round */
extern uint64_t loop_wall_us(void); /* since 1970, now */
extern void loop_run(void);		/* until loop_stop() */
extern void loop_stop(void);
extern void loop_finish(void);	/* after loop_run(): what is deferred still */

#endif
