/*
 * log_json.c
 *	  See log_json.h.  log.c does not call it itself, as what makes JSON logs, too.
 */
#include "log_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "json_text.h"

static void
set_text(json_t *object, const char *field, const char *text)
{
	if (text != NULL && text[0] != '\0')
		json_object_set_new(object, field, json_from_text(text));
}

char *
log_json(const LogRecord *record, const char *time, const char *severity)
{
	json_t	   *object = json_object();
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);

	set_text(object, "timestamp", time);
	json_object_set_new(object, "pid", json_integer(getpid()));
	set_text(object, "error_severity", severity);
	set_text(object, "event", record->event);
	set_text(object, "context", record->context);
	set_text(object, "message", record->text);
	set_text(object, "detail", record->detail);
	set_text(object, "hint", record->hint);
	if (out != NULL)
	{
		(void) json_dumpf(object, out, JSON_COMPACT);
		fputc('\n', out);
		fclose(out);
	}
	json_decref(object);
	return text;
}
