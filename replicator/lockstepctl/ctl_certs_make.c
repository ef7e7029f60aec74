/*
 * ctl_certs_make.c
 *	  Certificates and lists of revoked ones, by OpenSSL, as text in PEM.
 *
 * Keys are on curve P-256.  A certificate is for both sides of a connection, as a node is the
 * client of the replicator, and its server is the replicator's.  What it may be used for is said
 * by its URI (tls_context.h).
 */
#include "ctl_certs.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buffer.h"
#include "random_bytes.h"
#include "tls_context.h"

#define SERIAL_BYTES 16
#define BACKDATED_S 300			/* clocks of other machines may be slow */
#define LIST_DAYS 7300

static bool
fail(const char *what)
{
	char		reason[256];

	tls_openssl_error(reason, sizeof(reason));
	return setup_fail(NULL, "could not %s: %s", what, reason);
}

/* ---------- text */

static char *
text_of(BIO *bio)
{
	char	   *data;
	long		len = BIO_get_mem_data(bio, &data);
	char	   *text = xstrndup(data, (size_t) len);

	BIO_free(bio);
	return text;
}

static char *
certificate_text(X509 *certificate)
{
	BIO		   *bio = BIO_new(BIO_s_mem());

	PEM_write_bio_X509(bio, certificate);
	return text_of(bio);
}

static char *
key_text(EVP_PKEY *key)
{
	BIO		   *bio = BIO_new(BIO_s_mem());

	PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
	return text_of(bio);
}

static X509 *
certificate_of(const char *text)
{
	BIO		   *bio = BIO_new_mem_buf(text, -1);
	X509	   *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	BIO_free(bio);
	return certificate;
}

static EVP_PKEY *
key_of(const char *text)
{
	BIO		   *bio = BIO_new_mem_buf(text, -1);
	EVP_PKEY   *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);

	BIO_free(bio);
	return key;
}

/* ---------- hosts */

static bool
is_address(const char *host)
{
	struct in6_addr number;

	return inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1;
}

bool
certs_host_is_valid(const char *host)
{
	return is_address(host) ||
		(host[0] != '\0' && strlen(host) < 254 &&
		 strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == strlen(host));
}

/* ---------- certificates */

static bool
add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX	context;
	X509_EXTENSION *extension;
	bool		ok;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

/* Without extensions and signature. */
static X509 *
begin_certificate(const char *name, int days, EVP_PKEY *key)
{
	X509	   *certificate = X509_new();
	uint8_t		serial[SERIAL_BYTES];
	BIGNUM	   *number;
	bool		ok;

	if (certificate == NULL || !random_bytes(serial, sizeof(serial)))
	{
		X509_free(certificate);
		return NULL;
	}
	serial[0] = (serial[0] & 0x3f) | 0x40;	/* positive, of full length */
	number = BN_bin2bn(serial, sizeof(serial), NULL);
	ok = X509_set_version(certificate, 2) == 1 &&
		BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL &&
		X509_gmtime_adj(X509_getm_notBefore(certificate), -BACKDATED_S) != NULL &&
		X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, NULL) != NULL &&
		X509_set_pubkey(certificate, key) == 1 &&
		X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *) name, -1, -1, 0) == 1;
	BN_free(number);
	if (ok)
		return certificate;
	X509_free(certificate);
	return NULL;
}

bool
certs_make_authority(CertsAuthority *a, int days)
{
	EVP_PKEY   *key = EVP_EC_gen("P-256");
	char	   *tag;
	char	   *name;
	X509	   *certificate;
	bool		ok;

	/* authorities that replace each other need names that differ */
	if (!setup_random(&tag, 4))
		return false;
	name = xasprintf("lockstep authority %s", tag);
	certificate = key != NULL ? begin_certificate(name, days, key) : NULL;
	ok = certificate != NULL && X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1 &&
		add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
		X509_sign(certificate, key, EVP_sha256()) > 0;
	if (ok)
	{
		a->certificate = certificate_text(certificate);
		a->key = key_text(key);
	}
	free(tag);
	free(name);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return ok || fail("make an authority");
}

/* For "subjectAltName"; all parts have been checked. */
static char *
alternative_names(const char *uri, const char *const *hosts, int nhosts)
{
	char	   *text = xasprintf("URI:%s", uri);

	for (int i = 0; i < nhosts; i++)
	{
		char	   *longer = xasprintf("%s,%s:%s", text, is_address(hosts[i]) ? "IP" : "DNS", hosts[i]);

		free(text);
		text = longer;
	}
	return text;
}

static X509 *
issue(X509 *authority, EVP_PKEY *authority_key, EVP_PKEY *key, const char *uri, const char *names, int days)
{
	const char *name = strrchr(uri, ':') + 1;
	X509	   *certificate = begin_certificate(name, days, key);

	if (certificate != NULL && X509_set_issuer_name(certificate, X509_get_subject_name(authority)) == 1 &&
		add_extension(certificate, authority, NID_basic_constraints, "critical,CA:FALSE") &&
		add_extension(certificate, authority, NID_key_usage, "critical,digitalSignature") &&
		add_extension(certificate, authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
		add_extension(certificate, authority, NID_subject_key_identifier, "hash") &&
		add_extension(certificate, authority, NID_authority_key_identifier, "keyid") &&
		add_extension(certificate, authority, NID_subject_alt_name, names) &&
		X509_sign(certificate, authority_key, EVP_sha256()) > 0)
		return certificate;
	X509_free(certificate);
	return NULL;
}

bool
certs_issue(const CertsAuthority *a, const char *uri, const char *const *hosts, int nhosts, int days, CertsIssued *issued)
{
	X509	   *authority = certificate_of(a->certificate);
	EVP_PKEY   *authority_key = key_of(a->key);
	EVP_PKEY   *key = EVP_EC_gen("P-256");
	char	   *names = alternative_names(uri, hosts, nhosts);
	X509	   *certificate = NULL;

	if (authority != NULL && authority_key != NULL && key != NULL)
		certificate = issue(authority, authority_key, key, uri, names, days);
	if (certificate != NULL)
	{
		issued->certificate = certificate_text(certificate);
		issued->key = key_text(key);
	}
	free(names);
	X509_free(authority);
	EVP_PKEY_free(authority_key);
	EVP_PKEY_free(key);
	X509_free(certificate);
	return certificate != NULL || fail("issue a certificate");
}

bool
certs_is_for(const char *text, const char *const *hosts, int nhosts)
{
	X509	   *certificate = certificate_of(text);
	bool		ok = certificate != NULL && X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;

	for (int i = 0; ok && i < nhosts; i++)
		ok = is_address(hosts[i]) ? X509_check_ip_asc(certificate, hosts[i], 0) == 1 :
			X509_check_host(certificate, hosts[i], 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
	X509_free(certificate);
	ERR_clear_error();
	return ok;
}

char *
certs_describe(const char *text)
{
	X509	   *certificate = certificate_of(text);
	BIO		   *bio = BIO_new(BIO_s_mem());
	char		names[256];

	if (certificate == NULL)
	{
		ERR_clear_error();
		BIO_free(bio);
		return xstrdup("no certificate");
	}
	tls_certificate_text(certificate, names, sizeof(names));
	BIO_printf(bio, "%s, until ", names);
	ASN1_TIME_print(bio, X509_get0_notAfter(certificate));
	BIO_printf(bio, ", serial ");
	i2a_ASN1_INTEGER(bio, X509_get0_serialNumber(certificate));
	X509_free(certificate);
	return text_of(bio);
}

/* ---------- lists of revoked ones */

/* The authority's list, new if it is not in the text; the others go to `others`. */
static X509_CRL *
list_of(const char *text, const X509 *authority, BIO *others)
{
	BIO		   *bio = BIO_new_mem_buf(text != NULL ? text : "", -1);
	X509_CRL   *found = NULL;
	X509_CRL   *list;

	while ((list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)) != NULL)
	{
		if (found == NULL && X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0)
			found = list;
		else
		{
			PEM_write_bio_X509_CRL(others, list);
			X509_CRL_free(list);
		}
	}
	BIO_free(bio);
	ERR_clear_error();
	return found != NULL ? found : X509_CRL_new();
}

static bool
add_revoked(X509_CRL *list, const X509 *certificate, const ASN1_TIME *now)
{
	X509_REVOKED *entry;

	if (X509_CRL_get0_by_serial(list, &entry, (ASN1_INTEGER *) X509_get0_serialNumber(certificate)) == 1)
		return true;
	entry = X509_REVOKED_new();
	if (entry != NULL && X509_REVOKED_set_serialNumber(entry, (ASN1_INTEGER *) X509_get0_serialNumber(certificate)) == 1 &&
		X509_REVOKED_set_revocationDate(entry, (ASN1_TIME *) now) == 1 && X509_CRL_add0_revoked(list, entry) == 1)
		return true;
	X509_REVOKED_free(entry);
	return false;
}

static bool
sign_list(X509_CRL *list, X509 *authority, EVP_PKEY *key, const ASN1_TIME *now)
{
	ASN1_TIME  *next = X509_time_adj_ex(NULL, LIST_DAYS, 0, NULL);
	bool		ok = next != NULL && X509_CRL_set_version(list, 1) == 1 &&
	X509_CRL_set_issuer_name(list, X509_get_subject_name(authority)) == 1 &&
	X509_CRL_set1_lastUpdate(list, now) == 1 && X509_CRL_set1_nextUpdate(list, next) == 1 &&
	X509_CRL_sort(list) == 1 && X509_CRL_sign(list, key, EVP_sha256()) > 0;

	ASN1_TIME_free(next);
	return ok;
}

bool
certs_revoke(const CertsAuthority *a, const char *old, const char *revoked, char **text)
{
	X509	   *authority = certificate_of(a->certificate);
	EVP_PKEY   *key = key_of(a->key);
	X509	   *certificate = revoked != NULL ? certificate_of(revoked) : NULL;
	BIO		   *others = BIO_new(BIO_s_mem());
	X509_CRL   *list = authority != NULL ? list_of(old, authority, others) : NULL;
	ASN1_TIME  *now = X509_gmtime_adj(NULL, -BACKDATED_S);
	bool		ok;

	ok = authority != NULL && key != NULL && list != NULL && now != NULL && (revoked == NULL) == (certificate == NULL) &&
		(certificate == NULL || add_revoked(list, certificate, now)) && sign_list(list, authority, key, now);
	if (ok && certificate != NULL && X509_check_issued(authority, certificate) != X509_V_OK)
	{
		ok = false;
		setup_fail("Remove that authority from ca.pem, when nothing uses its certificates any more.",
				   "the certificate was issued by another authority than the present one");
	}
	else if (ok)
	{
		BIO		   *bio = BIO_new(BIO_s_mem());
		char	   *data;
		long		len = BIO_get_mem_data(others, &data);

		PEM_write_bio_X509_CRL(bio, list);
		BIO_write(bio, data, (int) len);
		*text = text_of(bio);
	}
	else
		fail("make a list of revoked certificates");
	BIO_free(others);
	X509_free(authority);
	X509_free(certificate);
	EVP_PKEY_free(key);
	X509_CRL_free(list);
	ASN1_TIME_free(now);
	return ok;
}
