/*
 * link_tls_files.c
 *	  TLS with the replicator: is a connection by the files and settings of now?
 *
 * After a reload that finds others, a session connects anew at its next transaction: the
 * replicator's certificate may have been revoked, or what was in the clear may not be any more.
 * A transaction that the replicator knows already would be lost by that.  It goes on, unless the
 * new files do not accept the replicator's certificate.
 *
 * Without a reload this costs one comparison.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "utils/timestamp.h"

#include "guc.h"
#include "link_private.h"
#include "lockstep.h"

/* By what a connection has begun: where the files are, and which they were. */
typedef struct Origin
{
	int			require_tls;
	char		directory[MAXPGPATH];
	struct
	{
		ino_t		file;
		struct timespec written;
	}			files[4];
} Origin;

static Origin origin;
static TimestampTz looked_at;	/* PgReloadTime then: a wall clock, compared
								 * for equality only */

/* What cannot be read is 0, and complained of when it is used. */
static void
look_at_files(Origin *o)
{
	static const char *const names[] = {"cert.pem", "key.pem", "ca.pem", "crl.pem"};

	StaticAssertStmt(lengthof(names) == lengthof(o->files), "each file has a place");
	memset(o, 0, sizeof(Origin));
	o->require_tls = ls_require_tls;
	strlcpy(o->directory, ls_tls_directory, sizeof(o->directory));
	for (int i = 0; i < lengthof(names) && ls_tls_directory[0] != '\0'; i++)
	{
		char		path[MAXPGPATH];
		struct stat st;

		if (snprintf(path, sizeof(path), "%s/%s", ls_tls_directory, names[i]) >= (int) sizeof(path) || stat(path, &st) != 0)
			continue;
		o->files[i].file = st.st_ino;
		o->files[i].written = st.st_mtim;
	}
}

void
link_tls_note_files(void)
{
	looked_at = PgReloadTime;
	look_at_files(&origin);
}

/* NULL: a connection that works goes on. */
static TlsContext *
load_files(void)
{
	char		why[TLS_WHY_SIZE];
	TlsContext *context = tls_context_load(ls_tls_directory, ls_node_name, why);

	if (context == NULL)
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("this node cannot use its certificates for the replicator"),
				 errdetail_internal("In lockstep.tls_directory: %s.  Sessions that are connected go on by the old ones.", why)));
	return context;
}

static bool
replicator_is_trusted(TlsChannel *t, const TlsContext *context)
{
	char		why[TLS_WHY_SIZE];

	return t == NULL || tls_peer_is_still_trusted(t, context, why);
}

bool
link_tls_is_outdated(TlsChannel *t, bool in_transaction)
{
	Origin		now;
	TlsContext *context = NULL;
	bool		outdated;

	if (likely(looked_at == PgReloadTime))
		return false;
	look_at_files(&now);
	outdated = memcmp(&now, &origin, sizeof(now)) != 0;
	if (outdated && ls_tls_directory[0] != '\0')
	{
		context = load_files();
		outdated = context != NULL;
	}
	if (outdated && in_transaction) /* the next one looks again */
		outdated = context != NULL && !replicator_is_trusted(t, context);
	else
		looked_at = PgReloadTime;
	tls_context_free(context);
	return outdated;
}
