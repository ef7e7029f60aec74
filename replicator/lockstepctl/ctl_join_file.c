/*
 * ctl_join_file.c
 *	  The file that init makes, that the operator copies to the other machines, and that join
 *	  reads: addresses of the nodes and of the replicator, the cluster's secret and the password
 *	  of the replicator's role.
 *
 * Who has it can become a node, so it is refused when others can read it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_setup.h"

#define VERSION "1"
#define HEADER "# Join file of a lockstep cluster, made by lockstepctl init.  Who can read it can become a\n" \
	"# node, and a superuser of each: copy it safely, and remove it when all nodes have joined.\n"

static void
put(char **text, const char *name, const char *value)
{
	char	   *longer = conf_set(*text, name, value);

	free(*text);
	*text = longer;
}

/* PEM has no such character. */
#define LINE_BREAK '|'

static void
put_pem(char **text, const char *name, const char *pem)
{
	char	   *line = xstrdup(pem);

	for (char *p = line; (p = strchr(p, '\n')) != NULL;)
		*p = LINE_BREAK;
	put(text, name, line);
	free(line);
}

static void
take_pem(char **pem, const char *text, const char *name)
{
	*pem = conf_get(text, name);
	for (char *p = *pem; p != NULL && *p != '\0'; p++)
	{
		if (*p == LINE_BREAK)
			*p = '\n';
	}
}

static void
put_number(char **text, const char *name, int value)
{
	char		number[16];

	snprintf(number, sizeof(number), "%d", value);
	put(text, name, number);
}

char *
join_file_text(const JoinFile *f)
{
	char	   *text = xstrdup(HEADER);

	put(&text, "version", VERSION);
	put_number(&text, "server_version", f->server_version);
	put(&text, "replicator", f->replicator);
	put(&text, "secret", f->secret);
	put(&text, "password", f->password);
	put(&text, "shared_preload_libraries", f->libraries);
	put_number(&text, "max_connections", f->max_connections);
	put_number(&text, "superuser_reserved_connections", f->reserved);
	for (int i = 0; i < f->nnodes; i++)
	{
		char	   *name = xasprintf("node%d", i + 1);
		char	   *address = address_join(f->nodes[i].host, f->nodes[i].port);
		char	   *value = xasprintf("%s=%s", f->nodes[i].name, address);

		put(&text, name, value);
		free(name);
		free(address);
		free(value);
	}
	if (f->certs.certificate != NULL)
	{
		put_pem(&text, "tls_certificate", f->certs.certificate);
		put_pem(&text, "tls_key", f->certs.key);
		put_pem(&text, "tls_authorities", f->certs.authorities);
		if (f->certs.revoked != NULL)
			put_pem(&text, "tls_revoked", f->certs.revoked);
	}
	return text;
}

static bool
take(char **value, const char *path, const char *text, const char *name)
{
	*value = conf_get(text, name);
	return *value != NULL || setup_fail("Copy it again from the machine where init made it.", "\"%s\" is no join file, or not whole: it has no %s", path, name);
}

static bool
take_number(int *value, const char *path, const char *text, const char *name)
{
	char	   *found;
	bool		ok = take(&found, path, text, name);

	*value = ok ? atoi(found) : 0;
	free(found);
	return ok;
}

static bool
take_nodes(JoinFile *f, const char *path, const char *text)
{
	for (f->nnodes = 0; f->nnodes < CONFIG_MAX_NODES; f->nnodes++)
	{
		SetupNode  *n = &f->nodes[f->nnodes];
		char	   *name = xasprintf("node%d", f->nnodes + 1);
		char	   *value = conf_get(text, name);
		char	   *equals = value != NULL ? strchr(value, '=') : NULL;
		bool		ok = equals != NULL && (size_t) (equals - value) < sizeof(n->name);

		free(name);
		if (value == NULL)
			break;
		n->port = 5432;
		if (ok)
		{
			snprintf(n->name, sizeof(n->name), "%.*s", (int) (equals - value), value);
			ok = address_split(equals + 1, &n->host, &n->port);
		}
		free(value);
		if (!ok)
			return setup_fail(NULL, "\"%s\" has an invalid line node%d", path, f->nnodes + 1);
	}
	return f->nnodes > 0 || setup_fail(NULL, "\"%s\" names no node", path);
}

bool
join_file_parse(JoinFile *f, const char *path, const char *text)
{
	char	   *version;

	if (!take(&version, path, text, "version"))
		return false;
	if (strcmp(version, VERSION) != 0)
		return setup_fail("Install the same version of lockstepctl on all machines.", "\"%s\" is a join file of version %s: this lockstepctl knows version " VERSION, path, version);
	free(version);
	take_pem(&f->certs.certificate, text, "tls_certificate");
	take_pem(&f->certs.key, text, "tls_key");
	take_pem(&f->certs.authorities, text, "tls_authorities");
	take_pem(&f->certs.revoked, text, "tls_revoked");
	return take_number(&f->server_version, path, text, "server_version") && take(&f->replicator, path, text, "replicator") &&
		take(&f->secret, path, text, "secret") && take(&f->password, path, text, "password") &&
		take(&f->libraries, path, text, "shared_preload_libraries") && take_number(&f->max_connections, path, text, "max_connections") &&
		take_number(&f->reserved, path, text, "superuser_reserved_connections") && take_nodes(f, path, text);
}

bool
join_file_read(JoinFile *f, const char *path)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	Setup		as_we_are = {0};
	char	   *text;
	bool		ok;

	if (fd < 0 || fstat(fd, &st) != 0)
	{
		int			cause = errno;

		if (fd >= 0)
			close(fd);
		return setup_fail("lockstepctl init makes it, on the first node's machine: copy it here.", "could not open join file \"%s\": %s", path, strerror(cause));
	}
	close(fd);
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return setup_fail("chmod 600 it, and look who may have read it.",
						  "join file \"%s\" has the cluster's secret, and others can read it (mode %04o)", path, (unsigned) st.st_mode & 07777);
	if (!setup_read(&as_we_are, path, OWNER_OF_DIRECTORY, &text))
		return false;
	ok = text != NULL && join_file_parse(f, path, text);
	free(text);
	return ok;
}
