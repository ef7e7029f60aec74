/*
 * stranded.c
 *	  A leader that reaches no node, while another replicator does: see stranded.h.
 *
 * When no node has been heard for a while, this one and the standbys try whether any can be
 * reached (replicas/reach.c).  If none can from here, and some can from a standby that is in sync,
 * that one is to lead.  Both sides try in the same way, so who gets the lead does not give
 * it back for what it was given; and if no node can be reached from anywhere, as all are down,
 * nothing happens.
 */
#include "stranded.h"

#include "copies.h"
#include "group.h"
#include "log.h"
#include "loop.h"
#include "membership_private.h"
#include "pgclient.h"
#include "reach.h"

#define LOOK_MS 200
#define SILENT_US 1200000		/* an idle node is asked each second */

static void (*on_stranded) (void);

/*
 * Has any been heard lately?  So it is, too, if there is none that should be.  A node that is being
 * attached answers, if only slowly when everything is busy: nobody else would do better.
 */
static bool
is_in_touch(void)
{
	bool		expected = false;

	if (loop_now_us() - pgclient_heard_us() < SILENT_US)
		return true;
	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *n = node_get(i);

		if (n->administrative || n->config->retired)
			continue;
		expected = true;
		if (n->control != NULL && loop_now_us() - n->heard_us < SILENT_US)
			return true;
	}
	return !expected;
}

/* A standby that can lead, and reaches some; -1: none. */
static int
in_touch_elsewhere(void)
{
	for (int i = 0; i < node_config->nreplicators; i++)
	{
		CopyView	v;

		copies_look(i, &v);
		if (v.required && v.connected && v.live && v.reach == REACH_SOME)
			return i;
	}
	return -1;
}

static void
on_look(void *arg)
{
	bool		stranded = !is_in_touch();
	bool		etcd_answers = group_etcd_state() == ETCD_ANSWERS;
	int			other;

	loop_after(LOOK_MS, on_look, NULL);
	copies_ask_reach(stranded);
	if (!stranded)
		return;
	reach_wanted();
	group_ask_etcd();
	if (!etcd_answers || reach_known() != REACH_NONE || (other = in_touch_elsewhere()) < 0 || !group_prefer(other))
		return;
	log_full(LOG_WARNING, "group", "this replicator reaches no node, and another one does, which is to lead", node_config->replicators[other].name, NULL);
	group_prefer(other);
	on_stranded();
}

void
stranded_watch(void (*hand_over) (void))
{
	on_stranded = hand_over;
	loop_after(LOOK_MS, on_look, NULL);
}
