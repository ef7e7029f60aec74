/*
 * role_names.c
 *	  Names of roles, each kept once, and what their transactions take: see
 *	  role_names.h.
 *
 * A user that may create roles can fill this without limit, 100 bytes for each; others cannot,
 * as only roles that a node has let in are added.
 */
#include "role_names.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "buffer.h"

#define BUCKETS 1024

typedef struct Role
{
	struct Role *next;
	RoleUse		use;
	char		name[];
} Role;

static Role *buckets[BUCKETS];
static RoleUse unnamed;			/* backends that did not name a role */

const char *
role_name(LsSlice name)
{
	Role	  **bucket;
	Role	   *r;

	if (name.len == 0)
		return NULL;
	bucket = &buckets[XXH3_64bits(name.data, name.len) % BUCKETS];
	for (r = *bucket; r != NULL; r = r->next)
	{
		if (strlen(r->name) == name.len && memcmp(r->name, name.data, name.len) == 0)
			return r->name;
	}
	r = xcalloc(1, sizeof(Role) + name.len + 1);
	memcpy(r->name, name.data, name.len);
	r->next = *bucket;
	*bucket = r;
	return r->name;
}

RoleUse *
role_use(const char *role)
{
	return role != NULL ? &((Role *) (role - offsetof(Role, name)))->use : &unnamed;
}
