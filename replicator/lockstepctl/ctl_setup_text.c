/*
 * ctl_setup_text.c
 *	  What becomes of the text of a configuration file: a setting read and set, an
 *	  include found, the block of pg_hba.conf, addresses.
 *
 * Lines that lockstep does not own stay as they are, comments included.  Pure: texts in, texts out.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buffer.h"
#include "ctl_setup.h"

#define HBA_BEGIN "# lockstep: the replicator and new nodes; written by lockstepctl, which replaces these lines\n"
#define HBA_END "# lockstep: end\n"

static const char *
skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

static const char *
end_of_line(const char *p)
{
	p += strcspn(p, "\n");
	return *p == '\n' ? p + 1 : p;
}

/* The name, an optional =, a value.  Where the value begins, or NULL: another line. */
static const char *
value_of_line(const char *line, const char *name)
{
	const char *p = skip_blanks(line);
	size_t		len = strlen(name);

	if (strncasecmp(p, name, len) != 0 || (p[len] != '=' && p[len] != ' ' && p[len] != '\t'))
		return NULL;
	p = skip_blanks(p + len);
	return *p == '=' ? skip_blanks(p + 1) : p;
}

/* As guc-file.l: 'quoted', with '' and backslashes, or bare. */
static char *
take_value(const char *p)
{
	Buffer		value = {0};

	if (*p != '\'')
		return xstrndup(p, strcspn(p, " \t\r\n#"));
	for (p++; *p != '\0' && *p != '\n'; p++)
	{
		if (*p == '\'' && p[1] != '\'')
			break;
		if (p[1] != '\0' && (*p == '\'' || *p == '\\'))
			p++;
		buffer_append(&value, p, 1);
	}
	buffer_append(&value, "", 1);
	return (char *) value.data;
}

static char *
quoted(const char *value)
{
	Buffer		b = {0};

	buffer_append(&b, "'", 1);
	for (; *value != '\0'; value++)
	{
		if (*value == '\'' || *value == '\\')
			buffer_append(&b, value, 1);
		buffer_append(&b, value, 1);
	}
	buffer_append(&b, "'", 2);
	return (char *) b.data;
}

char *
conf_get(const char *text, const char *name)
{
	char	   *last = NULL;

	for (const char *line = text; *line != '\0'; line = end_of_line(line))
	{
		const char *value = value_of_line(line, name);

		if (value != NULL)
		{
			free(last);
			last = take_value(value);
		}
	}
	return last;
}

/* value NULL: without it. */
static char *
conf_edit(const char *text, const char *name, const char *value)
{
	Buffer		b = {0};
	char	   *shown = value != NULL ? quoted(value) : NULL;
	char	   *line_of_it = value != NULL ? xasprintf("%s = %s\n", name, shown) : NULL;
	bool		done = value == NULL;

	for (const char *line = text; *line != '\0'; line = end_of_line(line))
	{
		if (value_of_line(line, name) == NULL)
			buffer_append(&b, line, (size_t) (end_of_line(line) - line));
		else if (!done)
		{
			buffer_append(&b, line_of_it, strlen(line_of_it));
			done = true;
		}
	}
	if (!done)
	{
		if (b.len > 0 && b.data[b.len - 1] != '\n')
			buffer_append(&b, "\n", 1);
		buffer_append(&b, line_of_it, strlen(line_of_it));
	}
	buffer_append(&b, "", 1);
	free(shown);
	free(line_of_it);
	return (char *) b.data;
}

char *
conf_set(const char *text, const char *name, const char *value)
{
	char	   *now = conf_get(text, name);
	bool		same = now != NULL && strcmp(now, value) == 0;

	free(now);
	return same ? xstrdup(text) : conf_edit(text, name, value);
}

char *
conf_without(const char *text, const char *name)
{
	return conf_edit(text, name, NULL);
}

bool
conf_includes(const char *text, const char *directive, const char *file)
{
	bool		found = false;

	for (const char *line = text; *line != '\0' && !found; line = end_of_line(line))
	{
		const char *p = value_of_line(line, directive);
		char	   *value = p != NULL ? take_value(p) : NULL;

		found = value != NULL && strcmp(value, file) == 0;
		free(value);
	}
	return found;
}

char *
list_with(const char *list, const char *item)
{
	int			n;
	char	  **items = config_list(list, &n);
	bool		found = false;

	for (int i = 0; i < n; i++)
	{
		size_t		len = strlen(items[i]);

		found |= strcmp(items[i], item) == 0 ||
			(len == strlen(item) + 2 && items[i][0] == '"' && strncmp(items[i] + 1, item, len - 2) == 0);
	}
	config_list_free(items, n);
	if (found)
		return xstrdup(list);
	return n == 0 ? xstrdup(item) : xasprintf("%s, %s", list, item);
}

char *
hba_with(const char *text, const char *lines)
{
	const char *begin = strstr(text, HBA_BEGIN);
	const char *end = begin != NULL ? strstr(begin, HBA_END) : NULL;

	if (end == NULL)
		return xasprintf(HBA_BEGIN "%s" HBA_END "%s", lines, text);
	return xasprintf("%.*s" HBA_BEGIN "%s" HBA_END "%s", (int) (begin - text), text, lines, end + strlen(HBA_END));
}

/* ---------- addresses */

bool
address_is_number(const char *host)
{
	struct in6_addr address;

	return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static bool
valid_host(const char *host)
{
	return host[0] != '\0' && strlen(host) < 256 &&
		(address_is_number(host) ||
		 strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == strlen(host));
}

bool
address_split(const char *text, char **host, int *port)
{
	const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
	const char *colon = strrchr(text, ':');
	char	   *rest;
	long		number;

	if (text[0] == '[' && (end == NULL || (end[1] != '\0' && end[1] != ':')))
		return false;
	if (end != NULL)
	{
		*host = xstrndup(text + 1, (size_t) (end - text - 1));
		colon = end[1] == ':' ? end + 1 : NULL;
	}
	else if (colon != NULL && strchr(text, ':') != colon)
	{
		*host = xstrdup(text);	/* IPv6 without a port */
		colon = NULL;
	}
	else
		*host = xstrndup(text, colon != NULL ? (size_t) (colon - text) : strlen(text));
	if (!valid_host(*host))
		return false;
	if (colon == NULL)
		return true;
	number = strtol(colon + 1, &rest, 10);
	if (!isdigit((unsigned char) colon[1]) || *rest != '\0' || number < 1 || number > 65535)
		return false;
	*port = (int) number;
	return true;
}

char *
address_join(const char *host, int port)
{
	return strchr(host, ':') != NULL ? xasprintf("[%s]:%d", host, port) : xasprintf("%s:%d", host, port);
}
