/*
 * ctl_certs.h
 *	  A private authority for TLS between nodes and replicator.
 *
 *	 ctl_certs_make.c	certificates and lists of revoked ones, as text in PEM (pure)
 *	 ctl_certs.c		lockstepctl certs: the authority's directory
 */
#ifndef LOCKSTEP_CTL_CERTS_H
#define LOCKSTEP_CTL_CERTS_H

#include <stdbool.h>

#include "ctl_setup.h"

#define CERTS_DIRECTORY "/etc/lockstep/ca"
#define CERTS_DAYS 1825			/* of a certificate */
#define CERTS_AUTHORITY_DAYS 7300
#define CERTS_MAX_HOSTS 32

/* ---------- in ctl_certs_make.c: false with an error; results are malloc'ed */

typedef struct CertsAuthority
{
	char	   *certificate;
	char	   *key;
} CertsAuthority;

typedef struct CertsIssued
{
	char	   *certificate;
	char	   *key;
} CertsIssued;

extern bool certs_make_authority(CertsAuthority *a, int days);

/* hosts: names and addresses of its machine. */
extern bool certs_issue(const CertsAuthority *a, const char *uri, const char *const *hosts, int nhosts, int days,
						CertsIssued *issued);

/* Does it count still, for all these names and addresses? */
extern bool certs_is_for(const char *certificate, const char *const *hosts, int nhosts);

/* old: the list so far, NULL for none; certificate: to be revoked, NULL for none. */
extern bool certs_revoke(const CertsAuthority *a, const char *old, const char *certificate, char **list);

/* One line about a certificate. */
extern char *certs_describe(const char *certificate);

/* Is it a name or an address of a host? */
extern bool certs_host_is_valid(const char *host);

/* ---------- in ctl_certs.c */

typedef struct CertsOptions
{
	const char *directory;		/* of the authority */
	int			days;			/* 0: the default */
	char	  **words;			/* after "certs" */
	int			nwords;
} CertsOptions;

extern int	certs_command(const CertsOptions *o);	/* an exit code */

/*
 * What the authority in directory has issued for that node, NULL for the replicator; both are made
 * if they are not there yet, and a certificate that has expired or is not for these hosts is issued anew.
 */
extern bool certs_files(Setup *s, const char *directory, const char *node, const char *const *hosts, int nhosts,
						CertsFiles *files);

#endif
