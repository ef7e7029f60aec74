/*
 * json_text.h
 *	  Text that may be in whatever encoding, as a JSON string.
 */
#ifndef LOCKSTEP_JSON_TEXT_H
#define LOCKSTEP_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* What is not UTF-8 gets '?' for its bytes beyond ASCII; never NULL.  Bytes may be zero. */
extern json_t *json_from_text(const char *text);
extern json_t *json_from_bytes(const void *text, size_t len);

#endif
