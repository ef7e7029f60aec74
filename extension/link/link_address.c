/*
 * link_address.c
 *	  Where the replicators are: see link_address.h.
 *
 * The list may be changed by a reload at any time, and by each backend at another moment: so the
 * place to begin at is a hint, and is taken modulo the number of addresses.
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "address_list.h"
#include "guc.h"
#include "link_address.h"

typedef struct AddressShared
{
	pg_atomic_uint32 first;		/* place in the list */
} AddressShared;

static AddressShared *shared = NULL;

void
link_address_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(AddressShared)));
}

/* Called with AddinShmemInitLock held. */
void
link_address_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep replicator address", sizeof(AddressShared), &found);
	if (!found)
		pg_atomic_init_u32(&shared->first, 0);
}

int
link_address_count(void)
{
	const char *list = ls_replicator;
	size_t		len;
	int			n = 0;

	while (address_list_next(&list, &len) != NULL)
		n++;
	return n;
}

int
link_address_first(void)
{
	return (int) (pg_atomic_read_u32(&shared->first) % (uint32) link_address_count());
}

char *
link_address_at(int place)
{
	const char *list = ls_replicator;
	const char *item = NULL;
	size_t		len = 0;

	for (int i = 0; i <= place; i++)
		item = address_list_next(&list, &len);
	return pnstrdup(item, len);
}

void
link_address_worked(int place)
{
	if (pg_atomic_read_u32(&shared->first) != (uint32) place)
		pg_atomic_write_u32(&shared->first, (uint32) place);
}

/* Another backend may have found the one that leads already: then that place stays. */
void
link_address_failed(int place)
{
	uint32		expected = (uint32) place;

	(void) pg_atomic_compare_exchange_u32(&shared->first, &expected, (uint32) place + 1);
}
