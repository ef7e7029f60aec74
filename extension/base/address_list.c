/*
 * address_list.c
 *	  The list of addresses in lockstep.replicator, as text: see address_list.h.  Pure.
 */
#include "postgres.h"

#include "address_list.h"

#define MAX_ADDRESSES 16

const char *
address_list_next(const char **list, size_t *len)
{
	const char *item = *list + strspn(*list, " \t");
	size_t		n = strcspn(item, ",");

	if (*item == '\0')
		return NULL;
	*list = item + n + (item[n] == ',' ? 1 : 0);
	while (n > 0 && (item[n - 1] == ' ' || item[n - 1] == '\t'))
		n--;
	*len = n;
	return item;
}

const char *
address_list_check(const char *list)
{
	int			n = 0;
	const char *item;
	size_t		len;

	while ((item = address_list_next(&list, &len)) != NULL)
	{
		const char *colon = memrchr(item, ':', len);
		size_t		port = colon != NULL ? len - (size_t) (colon + 1 - item) : 0;

		if (len == 0)
			return "An address is empty.";
		if (item[0] != '/' && (colon == NULL || colon == item || port == 0 || strspn(colon + 1, "0123456789") < port))
			return "An address is host:port, or the path of a Unix socket.";
		if (++n > MAX_ADDRESSES)
			return "There are too many addresses.";
	}
	return n == 0 ? "There is no address." : NULL;
}
