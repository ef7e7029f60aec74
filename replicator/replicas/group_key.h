/*
 * group_key.h
 *	  What etcd says of a group of replicators: who leads, and who has everything.
 *
 * The key is changed by compare-and-swap only.  `in_sync` are the members of which each has all
 * that has ever been acknowledged: a record is acknowledged when every one of them has it on its
 * disk.  So one of them may take over, and nobody else.
 */
#ifndef LOCKSTEP_GROUP_KEY_H
#define LOCKSTEP_GROUP_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

typedef struct GroupKey
{
	char		cluster[33];	/* identity of the journal */
	uint64_t	epoch;			/* raised by each takeover */
	uint64_t	run;			/* random: of the leader's process */
	char		leader[CONFIG_NAME_SIZE];
	int			n;
	char		in_sync[CONFIG_MAX_REPLICATORS][CONFIG_NAME_SIZE];
	int64_t		mod_revision;	/* etcd's; not in the text */
} GroupKey;

/* false: the text is none of ours. */
extern bool group_key_parse(const char *text, GroupKey *key);
extern char *group_key_text(const GroupKey *key);	/* malloc'ed */
extern bool group_key_has(const GroupKey *key, const char *name);	/* in in_sync */
extern bool group_key_same(const GroupKey *a, const GroupKey *b);	/* but for mod_revision */
extern void group_key_add(GroupKey *key, const char *name);
extern void group_key_remove(GroupKey *key, const char *name);

/*
 * The key with which `name` takes over.  A leader that was restarted keeps the other members, as
 * they have all that was acknowledged; a member that replaces the leader leaves him out.
 */
extern GroupKey group_key_taken_over(const GroupKey *key, const char *name, uint64_t run);

#endif
