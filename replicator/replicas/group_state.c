/*
 * group_state.c
 *	  What a member of a group of replicators has to remember: see group_state.h.
 */
#include "group_state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "journal_private.h"
#include "json_text.h"

#define FILE_NAME GROUP_FILE
#define FILE_TEMPORARY GROUP_FILE ".tmp"

/* ---------- places */

int
journal_place_compare(JournalPlace a, JournalPlace b)
{
	if (a.segment != b.segment)
		return a.segment < b.segment ? -1 : 1;
	return a.offset == b.offset ? 0 : a.offset < b.offset ? -1 : 1;
}

/*
 * Bytes of an epoch are the same on all members up to where the next epoch begins that the
 * journal has: from there on, the leader of that one has written something else.
 */
bool
group_state_common(const GroupState *state, uint64_t epoch, JournalPlace end, JournalPlace *common)
{
	bool		known = false;

	*common = end;
	for (int i = 0; i < state->n; i++)
	{
		const EpochStart *e = &state->history[i];

		known = known || e->epoch == epoch;

		/*
		 * not only the next one: a later leader may have had less of the
		 * journal
		 */
		if (e->epoch > epoch && journal_place_compare(e->place, *common) < 0)
			*common = e->place;
	}
	return known && end.segment != 0;
}

void
group_state_begin_epoch(GroupState *state, uint64_t epoch, JournalPlace place)
{
	if (state->n == GROUP_HISTORY)
		memmove(&state->history[0], &state->history[1], (size_t) --state->n * sizeof(EpochStart));
	state->history[state->n++] = (EpochStart) {epoch, place};
	state->copy_epoch = epoch;
	if (state->promised < epoch)
		state->promised = epoch;
}

/* ---------- the file */

static uint64_t
number_in(const json_t *object, const char *field)
{
	return (uint64_t) json_integer_value(json_object_get(object, field));
}

static bool
parse(const json_t *object, GroupState *state)
{
	const json_t *history = json_object_get(object, "history");

	if (!json_is_object(object) || !json_is_array(history) || json_array_size(history) > GROUP_HISTORY)
		return false;
	snprintf(state->name, sizeof(state->name), "%s", json_text_of(object, "name"));
	state->promised = number_in(object, "promised");
	state->copy_epoch = number_in(object, "copy_epoch");
	state->etcd_cluster = number_in(object, "etcd_cluster");
	state->etcd_revision = (int64_t) number_in(object, "etcd_revision");
	for (size_t i = 0; i < json_array_size(history); i++)
	{
		const json_t *e = json_array_get(history, i);

		state->history[state->n++] = (EpochStart)
		{
			number_in(e, "epoch"),
			{
				number_in(e, "segment"), number_in(e, "offset")
			}
		};
	}
	return state->name[0] != '\0';
}

bool
group_state_read(const char *dir, GroupState *state, char **error)
{
	char	   *path = xasprintf("%s/" FILE_NAME, dir);
	json_error_t why;
	json_t	   *object = NULL;
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	bool		ok = false;

	memset(state, 0, sizeof(GroupState));
	*error = NULL;
	if (fd < 0 && errno == ENOENT)
		ok = true;
	else if (fd < 0)
		*error = xasprintf("could not open \"%s\": %s", path, strerror(errno));
	else if ((object = json_loadfd(fd, 0, &why)) == NULL || !parse(object, state))
		*error = xasprintf("file \"%s\" is not what a replicator has written", path);
	else
		ok = true;
	if (fd >= 0)
		close(fd);
	json_decref(object);
	free(path);
	return ok;
}

static char *
text_of(const GroupState *state)
{
	json_t	   *history = json_array();
	json_t	   *object;
	char	   *text;

	for (int i = 0; i < state->n; i++)
	{
		const EpochStart *e = &state->history[i];

		json_array_append_new(history, json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t) e->epoch,
												 "segment", (json_int_t) e->place.segment, "offset", (json_int_t) e->place.offset));
	}
	object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "name", state->name, "promised", (json_int_t) state->promised,
					   "copy_epoch", (json_int_t) state->copy_epoch, "etcd_cluster", (json_int_t) state->etcd_cluster,
					   "etcd_revision", (json_int_t) state->etcd_revision, "history", history);
	text = json_dumps(object, JSON_INDENT(1));
	json_decref(object);
	if (text == NULL)
		abort();
	return text;
}

static bool
write_file(int dir_fd, const char *text)
{
	int			fd = openat(dir_fd, FILE_TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t		len = strlen(text);
	bool		ok;
	int			saved_errno;

	if (fd < 0)
		return false;
	errno = ENOSPC;				/* of a short write */
	ok = write(fd, text, len) == (ssize_t) len && fsync(fd) == 0 &&
		renameat(dir_fd, FILE_TEMPORARY, dir_fd, FILE_NAME) == 0 && fsync(dir_fd) == 0;
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return ok;
}

bool
group_state_write(const char *dir, const GroupState *state)
{
	int			dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char	   *text = text_of(state);
	bool		ok = dir_fd >= 0 && write_file(dir_fd, text);
	int			saved_errno = errno;

	free(text);
	if (dir_fd >= 0)
		close(dir_fd);
	errno = saved_errno;
	return ok;
}
