/*
 * buffer.c
 *	  Growing byte buffers, and allocation that cannot fail: the daemon ends if there is no
 *	  memory for something that all sessions depend on.  A single session's request can be
 *	  refused (buffer_try_reserve).
 *
 * The bytes in [pos, len) are those that the reader has not consumed.  Appending moves them to
 * the front when that frees at least as much as it moves, so that a queue that is filled and
 * drained continuously copies each byte a constant number of times and does not grow.  A buffer
 * belongs to one thread; the allocators may be called by any.
 */
#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define BUFFER_FIRST_SIZE 256

static void __attribute__((noreturn))
out_of_memory(size_t n)
{
	log_message(LOG_ERROR, NULL, "out of memory: could not allocate %zu bytes", n);
	abort();					/* a service manager starts it again */
}

void *
xmalloc(size_t n)
{
	void	   *p = malloc(n > 0 ? n : 1);

	if (p == NULL)
		out_of_memory(n);
	return p;
}

void *
xcalloc(size_t n, size_t size)
{
	void	   *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);

	if (p == NULL)
		out_of_memory(n * size);
	return p;
}

void *
xrealloc(void *p, size_t n)
{
	p = realloc(p, n > 0 ? n : 1);
	if (p == NULL)
		out_of_memory(n);
	return p;
}

char *
xstrdup(const char *s)
{
	return xstrndup(s, strlen(s));
}

/* n bytes of s, which need not end in a NUL, as a string. */
char *
xstrndup(const void *s, size_t n)
{
	char	   *copy = xmalloc(n + 1);

	if (n > 0)
		memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

size_t
text_cut(const void *text, size_t len, size_t max)
{
	const uint8_t *bytes = text;

	if (len <= max)
		return len;
	while (max > 0 && (bytes[max] & 0xC0) == 0x80)
		max--;
	return max;
}

/* Bytes of the character at the start, as PostgreSQL understands it; 0: it is none. */
static size_t
utf8_length(const uint8_t *s, size_t left)
{
	static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t		len = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;
	uint32_t	code;

	if (len <= 1)
		return s[0] != 0 ? len : 0;
	if (len > left)
		return 0;
	code = s[0] & (0x7Fu >> len);
	for (size_t i = 1; i < len; i++)
	{
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3Fu);
	}
	return code < lowest[len] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : len;
}

bool
text_is_utf8(const void *text, size_t len)
{
	const uint8_t *bytes = text;

	while (len > 0)
	{
		size_t		n = utf8_length(bytes, len);

		if (n == 0)
			return false;
		bytes += n;
		len -= n;
	}
	return true;
}

void
text_make_ascii(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if ((unsigned char) text[i] >= 0x80 || text[i] == '\0')
			text[i] = '?';
	}
}

char *
xasprintf(const char *fmt,...)
{
	va_list		args;
	char	   *s;
	int			n;

	va_start(args, fmt);
	n = vasprintf(&s, fmt, args);
	va_end(args);
	if (n < 0)
		out_of_memory(strlen(fmt));
	return s;
}

bool
buffer_try_reserve(Buffer *b, size_t more)
{
	size_t		unread = b->len - b->pos;
	size_t		cap;
	uint8_t    *data;

	if (more <= b->cap - b->len)
		return true;
	if (b->pos >= unread && b->pos > 0)
	{
		memmove(b->data, b->data + b->pos, unread);
		b->pos = 0;
		b->len = unread;
		if (more <= b->cap - b->len)
			return true;
	}
	if (more > SIZE_MAX / 2 - b->len)
		return false;
	cap = b->cap > 0 ? b->cap : BUFFER_FIRST_SIZE;
	while (cap - b->len < more)
		cap *= 2;
	data = realloc(b->data, cap);
	if (data == NULL)
		return false;
	b->data = data;
	b->cap = cap;
	return true;
}

void
buffer_reserve(Buffer *b, size_t more)
{
	if (!buffer_try_reserve(b, more))
		out_of_memory(more);
}

void
buffer_append(Buffer *b, const void *data, size_t n)
{
	if (n == 0)
		return;
	buffer_reserve(b, n);
	memcpy(b->data + b->len, data, n);
	b->len += n;
}

/* Of text in UTF-8, or any encoding in which bytes below 0x20 are control characters. */
void
buffer_append_printable(Buffer *b, const void *text, size_t n)
{
	const unsigned char *at = text;

	for (size_t i = 0; i < n; i++)
	{
		char		escaped[5];

		if (at[i] >= 0x20 && at[i] != 0x7f)
		{
			buffer_append(b, &at[i], 1);
			continue;
		}
		if (at[i] == '\n' || at[i] == '\t' || at[i] == '\r')
			snprintf(escaped, sizeof(escaped), "\\%c", at[i] == '\n' ? 'n' : at[i] == '\t' ? 't' : 'r');
		else
			snprintf(escaped, sizeof(escaped), "\\x%02x", at[i]);
		buffer_append(b, escaped, strlen(escaped));
	}
}

char *
text_printable(const void *text, size_t len)
{
	Buffer		b = {0};

	buffer_append_printable(&b, text, len);
	buffer_append(&b, "", 1);
	return (char *) b.data;
}

void
buffer_consume(Buffer *b, size_t n)
{
	b->pos += n;
	if (b->pos >= b->len)
		b->pos = b->len = 0;
}

void
buffer_free(Buffer *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}
