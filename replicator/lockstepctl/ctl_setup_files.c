/*
 * ctl_setup_files.c
 *	  Files that init and join read and write, and what they tell of each step.
 *
 * A file is replaced as a whole: a new one is written beside it, flushed and renamed, so that an
 * interruption leaves the old or the new one.  Root works on the server's files as the server's
 * user, who tells where they are, and on others as the owner of their directory: what these have
 * put there, a symbolic link for instance, has no more power than they.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"
#include "random_bytes.h"
#include "version.h"

#define SERVER_USER "postgres"	/* in Debian, Red Hat and the others */
#define REPLICATOR_USER "lockstep"
#define MAX_FILE (16 * 1024 * 1024)

/* ---------- what is told */

bool
setup_fail(const char *hint, const char *fmt,...)
{
	va_list		args;

	fflush(stdout);
	fprintf(stderr, "lockstepctl: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	if (hint != NULL)
		fprintf(stderr, "HINT:  %s\n", hint);
	return false;
}

void
setup_step(Setup *s, const char *verb, const char *fmt,...)
{
	va_list		args;

	printf("%-8s ", verb);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	s->changes++;
}

void
setup_detail(const char *fmt,...)
{
	va_list		args;

	printf("           ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

double
setup_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

/* ---------- users */

bool
setup_begin(Setup *s, bool dry_run, const char *config_file)
{
	const struct passwd *p;

	*s = (Setup) {.dry_run = dry_run,.root = geteuid() == 0,.uid = geteuid(),.gid = getegid(),.replicator_uid = SETUP_NOBODY};
	if (!s->root)
	{
		p = getpwuid(s->uid);
		s->user = xstrdup(p != NULL ? p->pw_name : "");
		return true;
	}
	p = getpwnam(SERVER_USER);
	if (p == NULL)
		return setup_fail("Run lockstepctl as the user that runs the server.", "there is no user \"%s\"", SERVER_USER);
	s->uid = p->pw_uid;
	s->gid = p->pw_gid;
	s->user = xstrdup(p->pw_name);

	/*
	 * where libpq looks for certificates and passwords; root's are not for
	 * that user
	 */
	if (setenv("HOME", p->pw_dir, 1) != 0)
		return setup_fail(NULL, "could not set HOME: %s", strerror(errno));
	if (config_file == NULL)
		return true;
	p = getpwnam(REPLICATOR_USER);
	if (p == NULL && strcmp(config_file, LOCKSTEP_CONFIG_FILE) != 0)
		p = getpwnam(SERVER_USER);	/* nothing is installed */
	if (p == NULL)
		return setup_fail("Install the package lockstep-replicator, or run \"make install-service\": they create it.",
						  "there is no user \"%s\", who runs the replicator", REPLICATOR_USER);
	s->replicator_uid = p->pw_uid;
	s->replicator_gid = p->pw_gid;
	s->replicator_user = xstrdup(p->pw_name);
	s->replicator_home = xstrdup(p->pw_dir);
	return true;
}

/* Those of that user; root's own were there at the start. */
static bool
take_groups(uid_t uid, gid_t gid)
{
	static gid_t own[NGROUPS_MAX];
	static int	nown = -1;
	const struct passwd *p;

	if (nown < 0)
		nown = getgroups(NGROUPS_MAX, own);
	if (uid == 0)
		return nown >= 0 && setgroups((size_t) nown, own) == 0;
	p = getpwuid(uid);
	return (p != NULL ? initgroups(p->pw_name, gid) : setgroups(1, &gid)) == 0;
}

static void
become(uid_t uid, gid_t gid)
{
	/* back to root first: only root may change to another */
	if (seteuid(0) != 0 || !take_groups(uid, gid) || setegid(gid) != 0 || seteuid(uid) != 0)
	{
		setup_fail(NULL, "could not change to user %d: %s", (int) uid, strerror(errno));
		exit(CTL_FAILED);
	}
}

void
setup_become_server(const Setup *s)
{
	if (s->root)
		become(s->uid, s->gid);
}

void
setup_become_self(const Setup *s)
{
	int			cause = errno;

	if (s->root)
		become(0, 0);
	errno = cause;
}

char *
directory_of(const char *path)
{
	char	   *copy = xstrdup(path);
	char	   *directory = xstrdup(dirname(copy));

	free(copy);
	return directory;
}

char *
path_in(const char *directory, const char *name)
{
	return xasprintf("%s/%s", directory, name);
}

static void
become_who_may(const Setup *s, const char *path, FileOwner owner)
{
	char	   *directory = directory_of(path);
	struct stat st;

	if (owner == OWNER_SERVER)
		setup_become_server(s);
	else if (s->root && stat(directory, &st) == 0)
		become(st.st_uid, st.st_gid);
	free(directory);
}

/* ---------- reading */

static char *
read_all(int fd)
{
	Buffer		b = {0};
	ssize_t		n;

	do
	{
		buffer_reserve(&b, 65536);
		n = read(fd, b.data + b.len, 65535);
		b.len += n > 0 ? (size_t) n : 0;
	} while ((n > 0 && b.len < MAX_FILE) || (n < 0 && errno == EINTR));
	if (n != 0)
	{
		errno = n > 0 ? EFBIG : errno;
		buffer_free(&b);
		return NULL;
	}
	b.data[b.len] = '\0';
	return (char *) b.data;
}

bool
setup_read(const Setup *s, const char *path, FileOwner owner, char **text)
{
	int			fd;

	become_who_may(s, path, owner);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*text = fd >= 0 ? read_all(fd) : NULL;
	setup_become_self(s);
	if (fd >= 0)
		close(fd);
	if (*text != NULL || (fd < 0 && errno == ENOENT))
		return true;
	return setup_fail(NULL, "could not read \"%s\": %s", path, strerror(errno));
}

/* ---------- writing */

static bool
write_all(int fd, const char *text)
{
	size_t		len = strlen(text);

	while (len > 0)
	{
		ssize_t		n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		len -= (size_t) n;
	}
	return true;
}

static bool
flush_directory(const char *path)
{
	char	   *directory = directory_of(path);
	int			fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool		ok = fd >= 0 && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	free(directory);
	return ok;
}

static bool
give_away(const Setup *s, int fd, FileOwner owner)
{
	if (geteuid() != 0 || owner == OWNER_OF_DIRECTORY || owner == OWNER_SERVER || s->replicator_uid == SETUP_NOBODY)
		return true;
	return fchown(fd, owner == OWNER_REPLICATOR ? s->replicator_uid : 0, s->replicator_gid) == 0;
}

/* As whom it is called. */
static bool
replace_file(const Setup *s, const char *path, const char *text, mode_t mode, FileOwner owner)
{
	char	   *target = realpath(path, NULL);	/* of a link */
	const char *at = target != NULL ? target : path;
	char	   *fresh = xasprintf("%s.lockstepctl", at);
	struct stat st;
	int			fd;
	bool		ok;

	if ((owner == OWNER_OF_DIRECTORY || owner == OWNER_SERVER) && stat(at, &st) == 0 && mode != 0600)
		mode = st.st_mode & 07777;	/* the administrator's choice */
	unlink(fresh);				/* of an earlier try */
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	ok = fd >= 0 && write_all(fd, text) && fchmod(fd, mode) == 0 && give_away(s, fd, owner) && fsync(fd) == 0;
	if (fd >= 0)
		ok = close(fd) == 0 && ok;
	ok = ok && rename(fresh, at) == 0 && flush_directory(at);
	if (!ok && fd >= 0)
	{
		int			cause = errno;

		unlink(fresh);
		errno = cause;
	}
	free(fresh);
	free(target);
	return ok;
}

static void
show_lines(const char *lines)
{
	for (const char *p = lines; *p != '\0';)
	{
		size_t		len = strcspn(p, "\n");

		setup_detail("%.*s", (int) len, p);
		p += len + (p[len] == '\n');
	}
}

/* Can the replicator not read it, or another than the owner that it should have? */
static bool
has_wrong_owner(const Setup *s, const struct stat *st, FileOwner owner)
{
	if (!s->root || s->replicator_uid == SETUP_NOBODY || st->st_nlink != 1)
		return false;
	if (owner == OWNER_REPLICATOR)
		return st->st_uid != s->replicator_uid;
	return owner == OWNER_ROOT_READ_BY_REPLICATOR && st->st_uid != s->replicator_uid &&
		(st->st_gid != s->replicator_gid || (st->st_mode & S_IRGRP) == 0);
}

/* A symbolic link is the administrator's affair. */
bool
setup_protect(Setup *s, const char *path, mode_t mode, FileOwner owner)
{
	int			fd;
	struct stat st;
	bool		foreign;
	bool		ok = true;

	if (owner == OWNER_SERVER)
		setup_become_server(s);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
	{
		foreign = has_wrong_owner(s, &st, owner);
		if (foreign || (st.st_mode & 07777 & ~mode) != 0)
		{
			setup_step(s, "protect", "%s (mode %04o)", path, (unsigned) mode);
			ok = s->dry_run || ((!foreign || give_away(s, fd, owner)) && fchmod(fd, mode) == 0);
		}
	}
	setup_become_self(s);
	if (!ok)
		setup_fail("Give it this mode by hand: it has a secret.", "could not protect \"%s\": %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

bool
setup_write(Setup *s, const char *path, const char *text, mode_t mode, FileOwner owner, const char *lines)
{
	char	   *old;
	bool		same;
	bool		ok;

	if (!setup_read(s, path, owner, &old))
		return false;
	same = old != NULL && strcmp(old, text) == 0;
	if (same)
	{
		free(old);
		return mode != 0600 || setup_protect(s, path, mode, owner);
	}
	setup_step(s, old != NULL ? "change" : "create", "%s", path);
	free(old);
	if (lines != NULL)
		show_lines(lines);
	if (s->dry_run)
		return true;
	become_who_may(s, path, owner);
	ok = replace_file(s, path, text, mode, owner);
	setup_become_self(s);
	return ok || setup_fail(owner == OWNER_SERVER && s->root ? "Let the server's user write in that directory, or write the file by hand as docs/operating.md says." : lines != NULL ? "Write the lines above into it by hand, or run lockstepctl as a user that may." :
							"Run lockstepctl as a user that may write it.",
							"could not write \"%s\": %s", path, strerror(errno));
}

static bool
write_in(Setup *s, const char *directory, const char *name, const char *text, mode_t mode, FileOwner owner)
{
	char	   *path = path_in(directory, name);
	bool		ok = text == NULL || setup_write(s, path, text, mode, owner, NULL);

	free(path);
	return ok;
}

bool
certs_write(Setup *s, const char *directory, const CertsFiles *certs, FileOwner owner, mode_t key_mode)
{
	return write_in(s, directory, "key.pem", certs->key, key_mode, owner) &&
		write_in(s, directory, "cert.pem", certs->certificate, 0644, owner) &&
		write_in(s, directory, "ca.pem", certs->authorities, 0644, owner) &&
		write_in(s, directory, "crl.pem", certs->revoked, 0644, owner);
}

bool
setup_random(char **hex, size_t bytes)
{
	uint8_t		random[64];

	if (bytes > sizeof(random) || !random_bytes(random, bytes))
		return setup_fail(NULL, "there are no random bytes for a secret");
	*hex = xcalloc(1, 2 * bytes + 1);
	for (size_t i = 0; i < bytes; i++)
		sprintf(*hex + 2 * i, "%02x", random[i]);
	return true;
}
