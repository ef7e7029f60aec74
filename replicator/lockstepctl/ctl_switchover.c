/*
 * ctl_switchover.c
 *	  lockstepctl switchover: who leads in the end.
 *
 * The leader answers when it steps down.  Another replicator may find then that it cannot lead, as it cannot write
 * in its journal's directory, so the old one leads again.  Each one that begins to lead begins an epoch.
 */
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl.h"
#include "monotonic.h"

#define LOOK_AGAIN_US (100 * 1000)

/* A replicator of an earlier release does not name itself when it steps down. */
void
format_switchover(FILE *out, const json_t *answer)
{
	const char *leader = json_string_value(json_object_get(answer, "leader"));

	if (leader != NULL)
		fprintf(out, "replicator %s leads\n", leader);
}

static json_t *
failed(char *error, const char *hint)
{
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "error", error, "hint", hint);
}

static json_t *
outcome(const char *old, const char *name, const char *leader, json_int_t epoch)
{
	if (name[0] != '\0' ? strcmp(leader, name) == 0 : strcmp(leader, old) != 0)
		return json_pack("{s:b, s:s, s:I}", "ok", 1, "leader", leader, "epoch", epoch);
	return failed(name[0] != '\0' ? xasprintf("replicator \"%s\" does not lead: \"%s\" does", name, leader) :
				  xasprintf("no other replicator leads: \"%s\" does again", leader),
				  "The logs of the others say why. See lockstepctl replicators.");
}

json_t *
switchover_outcome(json_t *answer, const char *name, long timeout_s,
				   json_t *(*ask) (const char *path, const char *request), const char *path)
{
	const int64_t end = monotonic_ms() + timeout_s * 1000;
	const char *old = json_string_value(json_object_get(answer, "leader"));
	const json_int_t epoch = json_integer_value(json_object_get(answer, "epoch"));
	json_t	   *result = NULL;

	if (!json_is_true(json_object_get(answer, "ok")) || old == NULL)
		return answer;
	while (result == NULL)
	{
		json_t	   *now = ask(path, "replicators\n");
		const char *leader = json_string_value(json_object_get(now, "leader"));
		json_int_t	now_epoch = json_integer_value(json_object_get(now, "epoch"));

		if (leader != NULL && now_epoch > epoch)
			result = outcome(old, name, leader, now_epoch);
		else if (timeout_s > 0 && monotonic_ms() >= end)
			result = failed(xstrdup("no replicator leads yet"), "See lockstepctl replicators, and the replicators' logs.");
		else
			usleep(LOOK_AGAIN_US);
		json_decref(now);
	}
	json_decref(answer);
	return result;
}
