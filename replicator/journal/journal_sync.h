/*
 * journal_sync.h
 *	  Making bodies durable in a thread of its own, so that neither the loop nor
 *	  the journal's group commit waits for a large file.
 */
#ifndef LOCKSTEP_JOURNAL_SYNC_H
#define LOCKSTEP_JOURNAL_SYNC_H

#include "journal_body.h"

/* On the loop's thread; error 0 or an errno. */
typedef void (*BodySynced) (void *arg, int error);

/* Begin: from now on bodies are closed there, too, as that may take as long. */
extern void body_sync_start(void);

/* What has been written so far, and the file's name. */
extern void body_sync(JournalBody *b, BodySynced done, void *arg);

/* End the thread; what is still to be told is not told any more. */
extern void body_sync_stop(void);

#endif
