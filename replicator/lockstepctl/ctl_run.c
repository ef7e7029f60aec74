/*
 * ctl_run.c
 *	  Runs other programs, such as pg_basebackup, as this or as the server's user.
 *
 * Passwords go by the environment, which only the same user and root can read, or by a file in memory, never
 * by arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buffer.h"
#include "conninfo.h"
#include "ctl_setup.h"

char *
program_path(const char *name)
{
	char		self[4096];
	ssize_t		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char	   *slash;
	char	   *path;

	if (n > 0)
	{
		self[n] = '\0';
		slash = strrchr(self, '/');
		path = xasprintf("%.*s/%s", (int) (slash - self), self, name);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return xstrdup(name);
}

/* libpq takes the password of a key from a service file; this one has no name in any directory. */
static bool
give_sslpassword(const char *sslpassword)
{
	int			fd = memfd_create("pg_service.conf", 0);
	char	   *path = xasprintf("/proc/self/fd/%d", fd);
	char	   *text = xasprintf("[" CONNINFO_SERVICE "]\nsslpassword=%s\n", sslpassword);
	bool		ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text) && setenv("PGSERVICEFILE", path, 1) == 0;

	free(path);
	free(text);
	return ok;
}

bool
run_give_passwords(const char *password, const char *sslpassword)
{
	return (password == NULL || setenv("PGPASSWORD", password, 1) == 0) && (sslpassword == NULL || give_sslpassword(sslpassword));
}

/* In the child.  It ends with us: another lockstepctl must not meet it. */
static bool
prepare(const Run *run, pid_t parent)
{
	const Setup *s = run->as_server;

	if (s != NULL && s->root &&
		(initgroups(s->user, s->gid) != 0 || setgid(s->gid) != 0 || setuid(s->uid) != 0 || chdir("/") != 0))
		return false;
	if (!run_give_passwords(run->password, run->sslpassword))
		return false;
	if (run->output != NULL)
	{
		int			fd = open(run->output, O_WRONLY | O_CREAT | O_APPEND, 0600);

		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
			return false;
	}
	return prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent;
}

int
run_program(const Run *run)
{
	int			status;
	pid_t		parent = getpid();
	pid_t		pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		if (prepare(run, parent))
			execvp(run->argv[0], run->argv);
		fprintf(stderr, "lockstepctl: could not run %s: %s\n", run->argv[0], strerror(errno));
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
	{
		fprintf(stderr, "lockstepctl: could not run %s: %s\n", run->argv[0], strerror(errno));
		return 127;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* As a shell takes it. */
static void
append_word(Buffer *b, const char *word)
{
	bool		plain = word[0] != '\0' && strpbrk(word, " \t\n\"'\\$`*?[]{}()<>|&;~#!") == NULL;

	if (!plain)
		buffer_append(b, "'", 1);
	for (const char *p = word; *p != '\0'; p++)
		buffer_append(b, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
	if (!plain)
		buffer_append(b, "'", 1);
}

char *
run_text(const Run *run)
{
	Buffer		b = {0};

	if (run->as_server != NULL && run->as_server->root)
	{
		char	   *prefix = xasprintf("runuser -u %s -- ", run->as_server->user);

		buffer_append(&b, prefix, strlen(prefix));
		free(prefix);
	}
	for (int i = 0; run->argv[i] != NULL; i++)
	{
		if (i > 0)
			buffer_append(&b, " ", 1);
		append_word(&b, run->argv[i]);
	}
	buffer_append(&b, "", 1);
	return (char *) b.data;
}
