/*
 * role_names.c
 *	  Names of roles, each kept once: see role_names.h.
 *
 * Who may create roles without end may fill this, 100 bytes each; others can't, as
 * only those come here that a node has let in.
 */
#include "role_names.h"

#include <stdlib.h>
#include <xxhash.h>

#include "buffer.h"

#define BUCKETS 1024

typedef struct Role
{
	struct Role *next;
	char	   *name;
} Role;

static Role *buckets[BUCKETS];

const char *
role_of(LsSlice name)
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
	r = xmalloc(sizeof(Role));
	r->name = xstrndup(name.data, name.len);
	r->next = *bucket;
	*bucket = r;
	return r->name;
}
