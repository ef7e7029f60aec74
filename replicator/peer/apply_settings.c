/*
 * apply_settings.c
 *	  The settings of a query as the array that lockstep.apply_settings() takes; pure.
 */
#include "apply.h"

/* One element of an array's text. */
static void
append_element(Buffer *b, LsSlice element)
{
	buffer_append(b, "\"", 1);
	for (size_t i = 0; i < element.len; i++)
	{
		if (element.data[i] == '"' || element.data[i] == '\\')
			buffer_append(b, "\\", 1);
		buffer_append(b, &element.data[i], 1);
	}
	buffer_append(b, "\"", 1);
}

void
apply_settings_array(Buffer *array, LsSlice settings)
{
	LsSlice		name;
	LsSlice		value;

	buffer_append(array, "{", 1);
	while (ls_next_setting(&settings, &name, &value))
	{
		if (array->len > 1)
			buffer_append(array, ",", 1);
		append_element(array, name);
		buffer_append(array, ",", 1);
		append_element(array, value);
	}
	buffer_append(array, "}", 2);	/* and NUL */
}
