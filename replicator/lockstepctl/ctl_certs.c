/*
 * ctl_certs.c
 *	  lockstepctl certs: a private authority, in a directory that only its owner reads.
 *
 *		ca.pem				the authorities that count, the one that issues first
 *		ca.key				its key
 *		crl.pem				what they have revoked, a list of each, even an empty one
 *		node-NAME/			what the node's lockstep.tls_directory gets:
 *							cert.pem, key.pem, ca.pem, crl.pem
 *		replicator/			the same for the replicator's tls_directory
 *
 * An authority that is exchanged stays in ca.pem, so that its certificates count until all have
 * been issued anew and the operator removes it.  libpq takes no certificate of an authority without a list,
 * if there is a list of any; only an authority itself can sign its list, so each has one as long as it has
 * its key.
 */
#include "ctl_certs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "buffer.h"
#include "tls_context.h"

#define NODE_PREFIX "node-"
#define REPLICATOR "replicator"

/* Works as whoever calls it. */
typedef struct Authority
{
	Setup	   *setup;
	const char *directory;
	CertsAuthority it;
	char	   *trusted;		/* ca.pem */
	char	   *revoked;		/* crl.pem; NULL */
} Authority;

/* ---------- files */

static bool
make_directory(Setup *s, const char *path)
{
	if (s->dry_run || mkdir(path, 0700) == 0 || errno == EEXIST)
		return true;
	return setup_fail(NULL, "could not create \"%s\": %s", path, strerror(errno));
}

static bool
get(const Setup *s, const char *directory, const char *name, char **text)
{
	char	   *path = path_in(directory, name);
	bool		ok = setup_read(s, path, OWNER_OF_DIRECTORY, text);

	free(path);
	return ok;
}

static bool
put(Setup *s, const char *directory, const char *name, const char *text, mode_t mode)
{
	char	   *path = path_in(directory, name);
	bool		ok = text == NULL || setup_write(s, path, text, mode, OWNER_OF_DIRECTORY, NULL);

	free(path);
	return ok;
}

static char *
side_directory(const Authority *a, const char *node)
{
	return node == NULL ? path_in(a->directory, REPLICATOR) : xasprintf("%s/" NODE_PREFIX "%s", a->directory, node);
}

/* ---------- the authority */

static bool
write_trusted(Authority *a, const char *directory)
{
	return put(a->setup, directory, "ca.pem", a->trusted, 0644) && put(a->setup, directory, "crl.pem", a->revoked, 0644);
}

/*
 * libpq wants a list of each authority, if there is one of any; one whose key is gone, and which has none, would not count any more.
 */
static bool
may_have_lists(const Authority *a)
{
	const char *first = a->trusted != NULL ? strstr(a->trusted, "BEGIN CERTIFICATE") : NULL;

	return a->revoked != NULL || first == NULL || strstr(first + 1, "BEGIN CERTIFICATE") == NULL;
}

static bool
new_authority(Authority *a)
{
	char	   *older = a->trusted;
	bool		lists = may_have_lists(a);

	if (!make_directory(a->setup, a->directory) ||
		(older != NULL && lists && !certs_revoke(&a->it, a->revoked, NULL, &a->revoked)) ||
		!certs_make_authority(&a->it, CERTS_AUTHORITY_DAYS) ||
		(lists && !certs_revoke(&a->it, a->revoked, NULL, &a->revoked)))
		return false;
	a->trusted = xasprintf("%s%s", a->it.certificate, older != NULL ? older : "");
	free(older);
	return put(a->setup, a->directory, "ca.key", a->it.key, 0600) && write_trusted(a, a->directory);
}

/* Made, if there is none. */
static bool
open_authority(Authority *a, Setup *s, const char *directory)
{
	*a = (Authority) {.setup = s,.directory = directory};
	if (!get(s, directory, "ca.pem", &a->trusted) || !get(s, directory, "ca.key", &a->it.key) || !get(s, directory, "crl.pem", &a->revoked))
		return false;
	if (a->trusted == NULL && a->it.key == NULL)
		return new_authority(a);
	if (a->trusted == NULL || a->it.key == NULL)
		return setup_fail("The other one has been removed: name another directory, or bring it back.",
						  "\"%s\" has %s of an authority only", directory, a->trusted != NULL ? "ca.pem" : "ca.key");
	a->it.certificate = xstrdup(a->trusted);	/* the first one in it */
	return true;
}

/* To all that have been issued. */
static bool
distribute(Authority *a)
{
	DIR		   *d = opendir(a->directory);
	struct dirent *e;
	bool		ok = true;

	if (d == NULL)
		return setup_fail(NULL, "could not read \"%s\": %s", a->directory, strerror(errno));
	while (ok && (e = readdir(d)) != NULL)
	{
		if (strcmp(e->d_name, REPLICATOR) == 0 || strncmp(e->d_name, NODE_PREFIX, strlen(NODE_PREFIX)) == 0)
		{
			char	   *to = path_in(a->directory, e->d_name);

			ok = write_trusted(a, to);
			free(to);
		}
	}
	closedir(d);
	return ok;
}

/* ---------- certificates */

static bool
check_name(const char *node)
{
	if (node[0] != '\0' && node[0] != '.' && strlen(node) <= 63 &&
		strspn(node, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == strlen(node))
		return true;
	return setup_fail(NULL, "invalid node name \"%s\"", node);
}

static bool
issue(Authority *a, const char *node, const char *const *hosts, int nhosts, int days, CertsIssued *issued)
{
	char	   *directory = side_directory(a, node);
	char	   *uri = xasprintf("%s%s", node == NULL ? TLS_URI_REPLICATOR : TLS_URI_NODE, node == NULL ? "" : node);
	bool		ok;

	for (int i = 0; i < nhosts; i++)
	{
		if (!certs_host_is_valid(hosts[i]))
			return setup_fail(NULL, "\"%s\" is neither a host's name nor an address", hosts[i]);
	}
	ok = certs_issue(&a->it, uri, hosts, nhosts, days, issued) && make_directory(a->setup, directory) &&
		put(a->setup, directory, "key.pem", issued->key, 0600) && put(a->setup, directory, "cert.pem", issued->certificate, 0644) &&
		write_trusted(a, directory);
	free(directory);
	free(uri);
	return ok;
}

bool
certs_files(Setup *s, const char *directory, const char *node, const char *const *hosts, int nhosts, CertsFiles *files)
{
	Authority	a;
	CertsIssued issued;
	char	   *from;
	bool		ok;

	*files = (CertsFiles) {0};
	if (!open_authority(&a, s, directory))
		return false;
	from = side_directory(&a, node);
	ok = get(s, from, "cert.pem", &files->certificate) && get(s, from, "key.pem", &files->key);
	files->anew = files->certificate != NULL && !certs_is_for(files->certificate, hosts, nhosts);
	if (ok && (files->certificate == NULL || files->key == NULL || files->anew))
	{
		ok = issue(&a, node, hosts, nhosts, CERTS_DAYS, &issued);
		files->certificate = issued.certificate;
		files->key = issued.key;
	}
	files->authorities = a.trusted;
	files->revoked = a.revoked;
	free(from);
	return ok;
}

static bool
revoke(Authority *a, const char *node)
{
	char	   *directory = side_directory(a, node);
	char	   *certificate;
	char	   *list;
	bool		ok;

	if (!get(a->setup, directory, "cert.pem", &certificate))
		return false;
	if (certificate == NULL)
		return setup_fail(NULL, "\"%s\" has no certificate to revoke", directory);
	ok = certs_revoke(&a->it, a->revoked, certificate, &list);
	if (ok)
	{
		a->revoked = list;
		ok = write_trusted(a, a->directory) && distribute(a);
	}
	free(directory);
	free(certificate);
	return ok;
}

static bool
list(Authority *a)
{
	DIR		   *d = opendir(a->directory);
	struct dirent *e;
	bool		ok = d != NULL || setup_fail(NULL, "could not read \"%s\": %s", a->directory, strerror(errno));

	while (ok && (e = readdir(d)) != NULL)
	{
		char	   *from = path_in(a->directory, e->d_name);
		char	   *text = NULL;
		bool		side = strcmp(e->d_name, REPLICATOR) == 0 || strncmp(e->d_name, NODE_PREFIX, strlen(NODE_PREFIX)) == 0;

		ok = !side || get(a->setup, from, "cert.pem", &text);
		if (text != NULL)
		{
			char	   *line = certs_describe(text);

			printf("%-24s %s\n", e->d_name, line);
			free(line);
		}
		free(from);
		free(text);
	}
	if (d != NULL)
		closedir(d);
	return ok;
}

/* ---------- the command */

static int
usage(const char *what)
{
	setup_fail("Try \"lockstepctl certs --help\" for more information.", "%s", what);
	return CTL_USAGE;
}

static void
tell_where(const Authority *a, const char *node)
{
	char	   *directory = side_directory(a, node);

	printf("Copy the files of %s to the %s of %s%s, for its server's user only, and reload.\n", directory,
		   node != NULL ? "lockstep.tls_directory" : "tls_directory", node != NULL ? "node " : "the replicator", node != NULL ? node : "");
	free(directory);
}

int
certs_command(const CertsOptions *o)
{
	Setup		s = {.uid = SETUP_NOBODY,.replicator_uid = SETUP_NOBODY};
	Authority	a;
	const char *verb = o->nwords > 0 ? o->words[0] : "";
	bool		revokes = strcmp(verb, "revoke") == 0;
	int			at = revokes ? 1 : 0;
	const char *of = o->nwords > at ? o->words[at] : "";
	bool		is_node = strcmp(of, "node") == 0;
	const char *node = NULL;
	CertsIssued issued;
	bool		ok;

	if (strcmp(verb, "list") == 0 || strcmp(verb, "authority") == 0)
	{
		if (o->nwords != 1)
			return usage("too many arguments");
		ok = open_authority(&a, &s, o->directory);
		if (ok && verb[0] == 'l')
			ok = list(&a);
		else if (ok && s.changes == 0)	/* it was there */
			ok = new_authority(&a) && distribute(&a);
		return ok ? CTL_OK : CTL_FAILED;
	}
	if (!is_node && strcmp(of, REPLICATOR) != 0)
		return usage("certs needs one of: node NAME, replicator, revoke, authority, list");
	at++;
	if (is_node)
	{
		if (o->nwords <= at)
			return usage("the node's name is missing");
		node = o->words[at++];
		if (!check_name(node))
			return CTL_USAGE;
	}
	if (revokes && o->nwords > at)
		return usage("too many arguments");
	if (o->nwords - at > CERTS_MAX_HOSTS)
		return usage("too many hosts");
	ok = open_authority(&a, &s, o->directory);
	if (ok && revokes)
		ok = revoke(&a, node);
	else if (ok)
		ok = issue(&a, node, (const char *const *) o->words + at, o->nwords - at, o->days > 0 ? o->days : CERTS_DAYS, &issued);
	if (ok && revokes)
		printf("Copy crl.pem to the tls_directory of the replicator and of each node, and reload.\n");
	else if (ok)
		tell_where(&a, node);
	return ok ? CTL_OK : CTL_FAILED;
}
