/*
 * secret.c
 *	  The secret that the nodes share with the replicator.
 *
 * The messages do not contain the path: any user may read them.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/fd.h"

#include "guc.h"
#include "lockstep.h"
#include "secret.h"

static void
unusable(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("this node cannot use its secret file for the replicator"),
			 errdetail_internal("%s", why),
			 errhint("See lockstep.secret_file: it names a file of at least %d bytes, the same as the replicator's secret_file.",
					 SECRET_MIN)));
}

static void
read_file(int fd, Secret *secret)
{
	struct stat st;
	ssize_t		n;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		unusable("It is not a regular file.");
	if (st.st_mode & S_IRWXO)
		unusable("It is accessible by everybody; its permissions should be u=rw (0600) or u=rw,g=r (0640).");
	n = read(fd, secret->bytes, sizeof(secret->bytes));
	if (n < 0)
		unusable(psprintf("It could not be read: %m."));
	CloseTransientFile(fd);
	if (n > 0 && secret->bytes[n - 1] == '\n')
		n--;
	if (n < SECRET_MIN)
		unusable("It is too short.");
	if (n > SECRET_MAX)
		unusable("It is too long.");
	secret->len = n;
}

void
secret_read(Secret *secret)
{
	int			fd;

	if (ls_secret_file == NULL || ls_secret_file[0] == '\0')
		unusable("lockstep.secret_file is not set.");
	fd = OpenTransientFile(ls_secret_file, O_RDONLY | PG_BINARY);
	if (fd < 0)
		unusable(psprintf("It could not be opened: %m."));
	read_file(fd, secret);
}

bool
secret_read_old(Secret *secret)
{
	int			fd = OpenTransientFile(psprintf("%s.old", ls_secret_file), O_RDONLY | PG_BINARY);

	if (fd < 0 && errno == ENOENT)
		return false;
	if (fd < 0)
		unusable(psprintf("The one before, .old, could not be opened: %m."));
	read_file(fd, secret);
	return true;
}
