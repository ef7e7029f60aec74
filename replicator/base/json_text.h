/*
 * json_text.h
 *	  Text in any encoding as a JSON string; and text out of JSON.
 */
#ifndef LOCKSTEP_JSON_TEXT_H
#define LOCKSTEP_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* What is not UTF-8 gets '?' for its bytes beyond ASCII; never NULL.  Bytes may be zero. */
extern json_t *json_from_text(const char *text);
extern json_t *json_from_bytes(const void *text, size_t len);

/* The text in a field of an object; "" if there is none. */
extern const char *json_text_of(const json_t *object, const char *field);

#endif
