/*
 * journal_bodies.c
 *	  Which bodies (see journal_body.h) belong to the journal: those that a record
 *	  refers to.  Others were being written, or copied, when the replicator died.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "journal_body.h"
#include "journal_private.h"

void
bodies_add(BodyList *list, uint64_t seq, const BodyRef *body)
{
	if (list->n == list->cap)
	{
		list->cap = list->cap > 0 ? list->cap * 2 : 16;
		list->items = xrealloc(list->items, list->cap * sizeof(OwnedBody));
	}
	list->items[list->n++] = (OwnedBody) {seq, body->id, body->size};
}

bool
bodies_check(int dir_fd, const BodyRef *body)
{
	char		name[32];
	struct stat st;

	body_name(name, body->id);
	if (fstatat(dir_fd, name, &st, 0) != 0)
		return false;
	if ((uint64_t) st.st_size == body->size)
		return true;
	errno = EINVAL;
	return false;
}

uint64_t
bodies_bytes(const BodyList *list, uint64_t from, uint64_t below)
{
	uint64_t	bytes = 0;

	for (size_t i = 0; i < list->n; i++)
	{
		if (list->items[i].seq >= from && list->items[i].seq < below)
			bytes += list->items[i].size;
	}
	return bytes;
}

/* One that can't be deleted now is by the next start. */
void
bodies_trim(BodyList *list, int dir_fd, uint64_t below)
{
	size_t		n = 0;
	char		name[32];

	while (n < list->n && list->items[n].seq < below)
	{
		body_name(name, list->items[n++].id);
		(void) body_remove(dir_fd, name);
	}
	list->n -= n;
	if (n > 0)
		memmove(list->items, list->items + n, list->n * sizeof(OwnedBody));
}

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a,
				y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

bool
bodies_delete_others(const BodyList *list, const char *dir)
{
	uint64_t   *known = xmalloc((list->n + 1) * sizeof(uint64_t));
	DIR		   *d = opendir(dir);
	struct dirent *entry;
	uint64_t	id;
	bool		ok = d != NULL;

	for (size_t i = 0; i < list->n; i++)
		known[i] = list->items[i].id;
	qsort(known, list->n, sizeof(uint64_t), compare);
	while (ok && (entry = readdir(d)) != NULL)
	{
		if (body_is_part(entry->d_name) ||
			(body_parse_name(entry->d_name, &id) &&
			 bsearch(&id, known, list->n, sizeof(uint64_t), compare) == NULL))
			ok = body_remove(dirfd(d), entry->d_name);
	}
	if (d != NULL)
		closedir(d);
	free(known);
	return ok;
}
