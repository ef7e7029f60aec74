/*
 * group.h
 *	  A group of replicators: one leads, the others are standbys with copies of its journal.
 *
 *		group_begin()			follow the leader, until etcd says that this one leads
 *		... open the journal ...
 *		group_lead()			copy it to the others; when enough of them have it, lead
 *
 * A replicator that does not lead any more starts again (base/restart.h), as a standby.  So
 * leading begins and ends as the process of a single replicator does, with a journal that has
 * everything that was acknowledged: what is true after a crash is true after a takeover.
 */
#ifndef LOCKSTEP_GROUP_H
#define LOCKSTEP_GROUP_H

#include "config.h"
#include "journal.h"
#include "protocol.h"

/*
 * Calls on_done on the loop's thread when this one is to lead, or error says why it can't be a
 * member (malloc'ed; its own thread has ended then).
 */
extern void group_begin(const Config *config, LsSlice secret, void (*on_done) (char *error));

/* The certificates, for the next connections to other members.  Returns NULL, or the error (malloc'ed). */
extern char *group_tls_reload(void);

/*
 * A small file could not be written (errno): if it is for lack of room, which was there when this one was chosen, it does not
 * return, but starts again as a standby.
 */
extern void group_check_room(void);

/* The open journal is ours to write; calls on_done when it may be used, or error says why not. */
extern void group_lead(const Journal *journal, void (*on_done) (char *error));

/* Is there a group, and does this one lead it? */
extern bool group_is_leader(void);

/* Is there another one in sync? */
extern bool group_can_hand_over(void);

/*
 * That one (index in Config.replicators) is put in sync if it can be and has room on its disk, and leads
 * next, and no other one that was to before.  false: it was to already.
 */
extern bool group_prefer(int i);

/* If that one is preferred, any one may lead next. */
extern void group_stop_preferring(int i);

/* Is it in sync, and has it been heard since it is preferred? */
extern bool group_is_ready_to_lead(int i);

/* Without etcd nobody else could lead.  The group's thread, while it leads, asks it soon. */
typedef enum EtcdState
{
	ETCD_ASKED,
	ETCD_ANSWERS,
	ETCD_SILENT					/* it does not, or has another key than it had */
} EtcdState;

extern void group_ask_etcd(void);
extern EtcdState group_etcd_state(void);

/* What is written now is the last: waiting for copies has an end soon. */
extern void group_will_end(void);

/* Nothing more will be written: a standby takes over. */
extern void group_end(void);

#endif
