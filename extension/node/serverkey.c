/*
 * serverkey.c
 *	  What proves to the replicator that a process is of this server.
 *
 * The secret and the certificate's key are files, which whoever reads files of the server
 * (pg_read_server_files) has, too.  So each start of the server makes a random key, which is in
 * shared memory only.  The replicator asks for it, as a superuser, on the connection by which it
 * attaches the node.  Then sessions prove by it that they are backends of that server, and the
 * replicator that it is the one which attached it (link_handshake.c).
 *
 * Before that, and with a replicator that is refusing the session anyway, the secret has to do.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "serverkey.h"

typedef struct ServerKeyShared
{
	uint8		key[LS_SERVER_KEY_SIZE];	/* never changes */
	pg_atomic_flag told;		/* set: the replicator has asked for it */
} ServerKeyShared;

static ServerKeyShared *shared = NULL;

void
serverkey_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(ServerKeyShared)));
}

/* Called with AddinShmemInitLock held. */
void
serverkey_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep server key", sizeof(ServerKeyShared), &found);
	if (found)
		return;
	pg_atomic_init_flag(&shared->told);
	if (!pg_strong_random(shared->key, sizeof(shared->key)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random key of this server")));
}

const uint8 *
serverkey(void)
{
	return shared->key;
}

void
serverkey_told(void)
{
	(void) pg_atomic_test_set_flag(&shared->told);
}

bool
serverkey_is_told(void)
{
	return !pg_atomic_unlocked_test_flag(&shared->told);
}
