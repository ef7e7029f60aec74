/*
 * buffer.h
 *	  A growing byte buffer with a read position.  Out of memory is fatal
 *	  (xmalloc and friends log and exit: half a transaction is no transaction).
 */
#ifndef LOCKSTEP_BUFFER_H
#define LOCKSTEP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Buffer
{
	uint8_t    *data;
	size_t		len;			/* bytes in use */
	size_t		pos;			/* of these already consumed */
	size_t		cap;
} Buffer;

extern void *xmalloc(size_t n);
extern void *xcalloc(size_t n, size_t size);
extern void *xrealloc(void *p, size_t n);
extern char *xstrdup(const char *s);
extern char *xstrndup(const void *s, size_t n);
extern char *xasprintf(const char *fmt,...) __attribute__((format(printf, 1, 2)));

/*
 * The length of the longest prefix of a UTF-8 text that has at most max bytes and ends between
 * characters.
 */
extern size_t text_cut(const void *text, size_t len, size_t max);

/* malloc'ed, see buffer_append_printable(). */
extern char *text_printable(const void *text, size_t len);

/* Text of a database may be in any encoding, or in none. */
extern bool text_is_utf8(const void *text, size_t len);
extern void text_make_ascii(char *text, size_t len);	/* ? for each byte that
														 * isn't */

extern bool buffer_try_reserve(Buffer *b, size_t more); /* false: there is no
														 * memory */
extern void buffer_reserve(Buffer *b, size_t more); /* room for more bytes
													 * after len */
extern void buffer_append(Buffer *b, const void *data, size_t n);
extern void buffer_append_printable(Buffer *b, const void *text, size_t n); /* control characters as
																			 * \n and \x01 */
extern void buffer_consume(Buffer *b, size_t n);	/* advance pos; compacts
													 * when empty */
extern void buffer_free(Buffer *b); /* and zero: may be used again */

#endif
