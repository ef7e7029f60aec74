/*
 * json_text.c
 *	  Text in any encoding as a JSON string: names, messages and values come from databases
 *	  that may have no encoding at all, and jansson accepts UTF-8 only.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "json_text.h"

json_t *
json_from_bytes(const void *text, size_t len)
{
	json_t	   *value = json_stringn(text, len);
	char	   *ascii;

	if (value != NULL)
		return value;
	ascii = xstrndup(text, len);
	text_make_ascii(ascii, len);
	value = json_stringn(ascii, len);
	free(ascii);
	return value;
}

json_t *
json_from_text(const char *text)
{
	return json_from_bytes(text, strlen(text));
}

const char *
json_text_of(const json_t *object, const char *field)
{
	const char *text = json_string_value(json_object_get(object, field));

	return text != NULL ? text : "";
}
