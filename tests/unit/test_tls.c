/*
 * test_tls.c
 *	  TLS between nodes and replicator, without sockets: who is accepted, who is refused and why,
 *	  in pieces of any size; bad input ends a connection and nothing else; revocation and a new
 *	  authority by another context.  The certificates are those of lockstepctl certs.
 */
#include "random_bytes.h"
#include "unit.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl_certs.h"
#include "tls_channel.h"

static char top[] = "/tmp/lockstep-test-tls-XXXXXX";
static CertsAuthority authority;
static CertsAuthority stranger;

/* ---------- files */

static void
put_file(const char *directory, const char *name, const char *text, mode_t mode)
{
	char		path[256];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s/%s", top, directory, name);
	unlink(path);
	if (text == NULL)
		return;
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void
free_issued(CertsIssued *issued)
{
	free(issued->certificate);
	free(issued->key);
}

static void
make_side(const char *directory, const CertsAuthority *by, const char *trusted, const char *uri, int days)
{
	CertsIssued issued;
	char		path[256];

	snprintf(path, sizeof(path), "%s/%s", top, directory);
	(void) mkdir(path, 0700);
	assert_true(certs_issue(by, uri, NULL, 0, days, &issued));
	put_file(directory, "cert.pem", issued.certificate, 0644);
	put_file(directory, "key.pem", issued.key, 0600);
	put_file(directory, "ca.pem", trusted, 0644);
	put_file(directory, "crl.pem", NULL, 0);
	free_issued(&issued);
}

static TlsContext *
load(const char *directory, const char *node)
{
	char		path[256];
	char		why[TLS_WHY_SIZE];
	TlsContext *c;

	snprintf(path, sizeof(path), "%s/%s", top, directory);
	c = tls_context_load(path, node, why);
	if (c == NULL)
		fail_msg("%s: %s", directory, why);
	return c;
}

static void
assert_unusable(const char *directory, const char *node, const char *text)
{
	char		path[256];
	char		why[TLS_WHY_SIZE];

	snprintf(path, sizeof(path), "%s/%s", top, directory);
	assert_null(tls_context_load(path, node, why));
	if (strstr(why, text) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, text);
}

/* ---------- two ends */

typedef struct End
{
	TlsChannel *t;
	uint8_t		wire[1 << 20];	/* sent, and not received yet */
	size_t		len;
	uint8_t		got[1 << 20];
	size_t		got_len;
	TlsResult	result;
}			End;

static End node,
replicator;

static void
take_output(End * e)
{
	const uint8_t *bytes;
	size_t		n = tls_output(&bytes);

	assert_true(e->len + n <= sizeof(e->wire));
	if (n > 0)
		memcpy(e->wire + e->len, bytes, n);
	e->len += n;
}

static void
read_all(End * e, const void *bytes, size_t len)
{
	size_t		n;

	tls_feed(e->t, bytes, len);
	while ((e->result = tls_read(e->t, e->got + e->got_len, sizeof(e->got) - e->got_len, &n)) == TLS_BYTES)
	{
		e->got_len += n;
		take_output(e);
	}
	take_output(e);
}

/* In pieces of so many bytes. */
static void
deliver(End * from, End * to, size_t piece)
{
	static uint8_t moved[sizeof(from->wire)];
	size_t		len = from->len;

	memcpy(moved, from->wire, len);
	from->len = 0;
	for (size_t at = 0; at < len && to->result != TLS_FAILED; at += piece)
		read_all(to, moved + at, len - at < piece ? len - at : piece);
}

static void
begin(const TlsContext *n, const TlsContext *r)
{
	memset(&node, 0, sizeof(node));
	memset(&replicator, 0, sizeof(replicator));
	node.t = tls_begin(n);
	replicator.t = tls_begin(r);
	assert_non_null(node.t);
	assert_non_null(replicator.t);
	node.result = replicator.result = TLS_MORE;
	read_all(&node, NULL, 0);
}

static void
shake_hands(const TlsContext *n, const TlsContext *r, size_t piece)
{
	begin(n, r);
	for (int i = 0; i < 4; i++)
	{
		deliver(&node, &replicator, piece);
		deliver(&replicator, &node, piece);
	}
}

static void
end(void)
{
	tls_free(node.t);
	tls_free(replicator.t);
}

static void
say(End * from, const uint8_t *bytes, size_t len)
{
	for (size_t at = 0; at < len; at += TLS_WRITE_MAX)
	{
		size_t		n = len - at < TLS_WRITE_MAX ? len - at : TLS_WRITE_MAX;
		size_t		before = from->len;

		assert_true(tls_write(from->t, bytes + at, n));
		take_output(from);
		assert_true(from->len - before <= n + TLS_WRITE_EXTRA);
	}
}

/* ---------- tests */

static void
test_both_ways(void **state)
{
	static const size_t pieces[] = {1, 3, 100, 5000, 1 << 20};
	static uint8_t text[300000];
	TlsContext *n = load("n1", "n1");
	TlsContext *r = load("replicator", NULL);
	uint8_t		a[TLS_BINDING_SIZE],
				b[TLS_BINDING_SIZE],
				before[TLS_BINDING_SIZE] = {0};

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t) (i * 31 + i / 251);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
	{
		shake_hands(n, r, pieces[i]);
		assert_true(tls_is_ready(node.t));
		assert_true(tls_is_ready(replicator.t));
		assert_true(tls_peer_is_node(replicator.t, "n1", 2));
		assert_false(tls_peer_is_node(replicator.t, "n", 1));
		assert_false(tls_peer_is_node(replicator.t, "n12", 3));
		assert_false(tls_peer_is_node(replicator.t, "n1\0x", 4));
		assert_false(tls_peer_is_node(node.t, "n1", 2));
		assert_true(tls_binding(node.t, a));
		assert_true(tls_binding(replicator.t, b));
		assert_memory_equal(a, b, sizeof(a));
		assert_memory_not_equal(a, before, sizeof(a));
		memcpy(before, a, sizeof(a));

		say(&node, text, pieces[i] < 100 ? 3000 : sizeof(text));
		deliver(&node, &replicator, pieces[i]);
		assert_int_equal(replicator.got_len, pieces[i] < 100 ? 3000 : sizeof(text));
		assert_memory_equal(replicator.got, text, replicator.got_len);
		say(&replicator, text, 1);
		say(&replicator, text + 1, 70000);
		deliver(&replicator, &node, pieces[i]);
		assert_int_equal(node.got_len, 70001);
		assert_memory_equal(node.got, text, node.got_len);
		end();
	}
	tls_context_free(n);
	tls_context_free(r);
}

/* What is read must fit where the caller has room for what it received. */
static void
test_read_is_bounded(void **state)
{
	static uint8_t text[TLS_WRITE_MAX];
	TlsContext *n = load("n1", "n1");
	TlsContext *r = load("replicator", NULL);

	shake_hands(n, r, 1 << 20);
	for (int i = 0; i < 20; i++)
		say(&node, text, sizeof(text));
	for (size_t at = 0; at < node.len; at += 999)
	{
		size_t		piece = node.len - at < 999 ? node.len - at : 999;
		size_t		before = replicator.got_len;

		read_all(&replicator, node.wire + at, piece);
		assert_true(replicator.got_len - before <= piece + TLS_READ_EXTRA);
	}
	assert_int_equal(replicator.got_len, 20 * sizeof(text));
	end();
	tls_context_free(n);
	tls_context_free(r);
}

static void
refused(const char *n, const char *name, const char *r, const char *by_node, const char *by_replicator)
{
	TlsContext *cn = load(n, name);
	TlsContext *cr = load(r, NULL);

	shake_hands(cn, cr, 1 << 20);
	assert_false(tls_is_ready(node.t) && tls_is_ready(replicator.t));
	if (by_node != NULL && strstr(tls_error(node.t), by_node) == NULL)
		fail_msg("node: \"%s\", not \"%s\"", tls_error(node.t), by_node);
	if (by_replicator != NULL && strstr(tls_error(replicator.t), by_replicator) == NULL)
		fail_msg("replicator: \"%s\", not \"%s\"", tls_error(replicator.t), by_replicator);
	assert_false(tls_is_ready(replicator.t) && replicator.got_len > 0);
	end();
	tls_context_free(cn);
	tls_context_free(cr);
}

static void
test_strangers(void **state)
{
	refused("stranger", "n1", "replicator", "unknown ca", "refused");
	refused("n1", "n1", "strange_replicator", "refused", NULL);
}

/* A node's key does not make a replicator. */
static void
test_node_as_replicator(void **state)
{
	CertsIssued issued;
	TlsContext *n = load("n1", "n1");
	TlsContext *r;

	/* who has n2's key can run a server with it, though not ours */
	make_side("fake", &authority, authority.certificate, TLS_URI_REPLICATOR, 100);
	r = load("fake", NULL);
	assert_true(certs_issue(&authority, TLS_URI_NODE "n2", NULL, 0, 100, &issued));
	{
		BIO		   *certificate_text = BIO_new_mem_buf(issued.certificate, -1);
		BIO		   *key_text = BIO_new_mem_buf(issued.key, -1);
		X509	   *certificate = PEM_read_bio_X509(certificate_text, NULL, NULL, NULL);
		EVP_PKEY   *key = PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL);

		assert_int_equal(SSL_CTX_use_certificate(tls_context_ssl(r), certificate), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(tls_context_ssl(r), key), 1);
		X509_free(certificate);
		EVP_PKEY_free(key);
		BIO_free(certificate_text);
		BIO_free(key_text);
	}
	free_issued(&issued);
	shake_hands(n, r, 1 << 20);
	assert_false(tls_is_ready(node.t));
	assert_non_null(strstr(tls_error(node.t), "lockstep:node:n2"));
	assert_false(tls_write(node.t, "secret", 6));
	end();
	tls_context_free(n);
	tls_context_free(r);
}

static void
test_unusable(void **state)
{
	CertsIssued issued;

	assert_unusable("n1", "n2", "is not for URI:lockstep:node:n2");
	assert_unusable("n1", NULL, "is not for URI:lockstep:replicator");
	assert_unusable("nowhere", "n1", "cert.pem could not be opened");
	make_side("bad", &authority, authority.certificate, TLS_URI_NODE "n1", -1);
	assert_unusable("bad", "n1", "has expired");
	make_side("bad", &authority, authority.certificate, TLS_URI_NODE "n1", 100);
	put_file("bad", "key.pem", authority.key, 0600);
	assert_unusable("bad", "n1", "key.pem");
	assert_true(certs_issue(&authority, TLS_URI_NODE "n1", NULL, 0, 100, &issued));
	put_file("bad", "key.pem", issued.key, 0604);
	free_issued(&issued);
	assert_unusable("bad", "n1", "accessible by everybody");
	put_file("bad", "key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n", 0600);
	assert_unusable("bad", "n1", "no usable private key");
	make_side("bad", &authority, "", TLS_URI_NODE "n1", 100);
	assert_unusable("bad", "n1", "ca.pem");
	put_file("bad", "ca.pem", authority.certificate, 0600);
	put_file("bad", "crl.pem", "", 0600);
	assert_unusable("bad", "n1", "crl.pem");
}

/* Both authorities count while certificates are exchanged. */
static void
test_two_authorities(void **state)
{
	char		both[8192];

	snprintf(both, sizeof(both), "%s%s", authority.certificate, stranger.certificate);
	make_side("both", &authority, both, TLS_URI_REPLICATOR, 100);
	make_side("late", &stranger, both, TLS_URI_NODE "n9", 100);
	for (int i = 0; i < 2; i++)
	{
		TlsContext *n = load(i == 0 ? "late" : "n1", i == 0 ? "n9" : "n1");
		TlsContext *r = load("both", NULL);

		shake_hands(n, r, 1 << 20);
		assert_true(tls_is_ready(node.t));
		assert_true(tls_is_ready(replicator.t));
		end();
		tls_context_free(n);
		tls_context_free(r);
	}
}

static void
read_file(const char *directory, const char *name, char *to, size_t size)
{
	char		path[256];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s/%s", top, directory, name);
	f = fopen(path, "r");
	assert_non_null(f);
	to[fread(to, 1, size - 1, f)] = '\0';
	fclose(f);
}

/* lockstepctl init issues anew what has expired or is for other hosts. */
static void
test_hosts_of_a_certificate(void **state)
{
	const char *hosts[] = {"10.0.0.1", "db1.example.com", "fd00::1"};
	const char *others[] = {"10.0.0.2", "db2.example.com", "fd00::2", "n1"};
	CertsIssued issued;

	assert_true(certs_issue(&authority, TLS_URI_NODE "n1", hosts, 3, 100, &issued));
	assert_true(certs_is_for(issued.certificate, hosts, 3));
	for (int i = 0; i < 3; i++)
		assert_true(certs_is_for(issued.certificate, &hosts[i], 1));
	for (int i = 0; i < 4; i++)
		assert_false(certs_is_for(issued.certificate, &others[i], 1));
	free_issued(&issued);
	assert_true(certs_issue(&authority, TLS_URI_NODE "n1", hosts, 3, -1, &issued));
	assert_false(certs_is_for(issued.certificate, hosts, 3));
	free_issued(&issued);
	assert_false(certs_is_for("no certificate", hosts, 1));
}

static void
test_revoked(void **state)
{
	char		certificate[4096];
	char	   *list;
	char	   *longer;
	char		why[TLS_WHY_SIZE];
	TlsContext *n = load("n1", "n1");
	TlsContext *old = load("replicator", NULL);
	TlsContext *fresh;

	make_side("n3", &authority, authority.certificate, TLS_URI_NODE "n3", 100);
	make_side("reloaded", &authority, authority.certificate, TLS_URI_REPLICATOR, 100);
	read_file("n3", "cert.pem", certificate, sizeof(certificate));
	assert_true(certs_revoke(&authority, NULL, certificate, &list));
	put_file("reloaded", "crl.pem", list, 0644);
	refused("n3", "n3", "reloaded", "revoked", "revoked");

	/* one that has connected before, and one who is not in the list */
	shake_hands(n, old, 1 << 20);
	fresh = load("reloaded", NULL);
	assert_true(tls_peer_is_still_trusted(replicator.t, fresh, why));
	tls_context_free(fresh);
	read_file("n1", "cert.pem", certificate, sizeof(certificate));
	assert_true(certs_revoke(&authority, list, certificate, &longer));
	put_file("reloaded", "crl.pem", longer, 0644);
	fresh = load("reloaded", NULL);
	assert_false(tls_peer_is_still_trusted(replicator.t, fresh, why));
	assert_non_null(strstr(why, "revoked"));
	end();
	refused("n1", "n1", "reloaded", "revoked", "revoked");
	refused("n3", "n3", "reloaded", "revoked", "revoked");	/* the first one still
															 * is */
	tls_context_free(fresh);
	free(list);
	free(longer);
	tls_context_free(old);
	tls_context_free(n);
}

/* ---------- hostile input */

static void
test_garbage(void **state)
{
	static const char *const texts[] = {"GET / HTTP/1.0\r\n\r\n", "H\0\0\0\100hello", "\x15\x03\x01\x00\x02\x02\x28", "\x16\x03\x01\xff\xff"};
	static uint8_t random[70000];
	TlsContext *n = load("n1", "n1");
	TlsContext *r = load("replicator", NULL);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		begin(n, r);
		read_all(&replicator, texts[i], i == 3 ? 5 : i == 1 ? 10 : strlen(texts[i]));
		assert_true(replicator.result == TLS_FAILED || replicator.result == TLS_MORE);
		assert_false(tls_is_ready(replicator.t));
		read_all(&replicator, random, sizeof(random));
		assert_int_equal(replicator.result, TLS_FAILED);
		assert_true(tls_error(replicator.t)[0] != '\0');
		assert_false(tls_write(replicator.t, "x", 1));
		end();
	}
	for (int i = 0; i < 200; i++)
	{
		begin(n, r);
		assert_true(random_bytes(random, 3000));
		if (i % 2 == 0)
			memcpy(random, "\x16\x03\x01\x08\x00\x01\x00\x07\xfc\x03\x03", 11);
		read_all(&replicator, random, 3000);
		assert_false(tls_is_ready(replicator.t));
		end();
	}
	tls_context_free(n);
	tls_context_free(r);
}

/* A changed, repeated or missing byte is noticed, whenever. */
static void
test_changed_bytes(void **state)
{
	TlsContext *n = load("n1", "n1");
	TlsContext *r = load("replicator", NULL);

	for (int i = 0; i < 400; i++)
	{
		begin(n, r);

		/* all but the header of the record, which no version uses */
		node.wire[5 + (size_t) (i * 7) % (node.len - 5)] ^= (uint8_t) (1 << (i % 8));
		for (int round = 0; round < 3; round++)
		{
			deliver(&node, &replicator, 1 << 20);
			deliver(&replicator, &node, 1 << 20);
		}
		assert_false(tls_is_ready(node.t) && tls_is_ready(replicator.t));
		end();
	}
	for (int i = 0; i < 3; i++)
	{
		uint8_t		wire[4096];
		size_t		len;

		shake_hands(n, r, 1 << 20);
		say(&node, (const uint8_t *) "one", 3);
		len = node.len;
		memcpy(wire, node.wire, len);
		if (i == 0)
			node.wire[len - 1] ^= 1;
		deliver(&node, &replicator, 1 << 20);
		if (i == 1)
			read_all(&replicator, wire, len);	/* again */
		if (i == 2)
		{
			say(&node, (const uint8_t *) "two", 3);
			node.len = 0;		/* lost */
			say(&node, (const uint8_t *) "three", 5);
			deliver(&node, &replicator, 1 << 20);
		}
		assert_int_equal(replicator.result, TLS_FAILED);
		assert_int_equal(replicator.got_len, i == 0 ? 0 : 3);
		end();
	}
	tls_context_free(n);
	tls_context_free(r);
}

/* Older versions are not spoken, whatever the other side says. */
static void
test_old_versions(void **state)
{
	TlsContext *n = load("n1", "n1");
	TlsContext *r = load("replicator", NULL);

	SSL_CTX_set_min_proto_version(tls_context_ssl(n), TLS1_VERSION);
	SSL_CTX_set_max_proto_version(tls_context_ssl(n), TLS1_2_VERSION);
	shake_hands(n, r, 1 << 20);
	assert_false(tls_is_ready(node.t));
	assert_false(tls_is_ready(replicator.t));
	assert_non_null(strstr(tls_error(replicator.t), "unsupported protocol"));
	end();
	tls_context_free(n);
	tls_context_free(r);
}

static int
set_up(void **state)
{
	assert_non_null(mkdtemp(top));
	assert_true(certs_make_authority(&authority, 100));
	assert_true(certs_make_authority(&stranger, 100));
	make_side("replicator", &authority, authority.certificate, TLS_URI_REPLICATOR, 100);
	make_side("n1", &authority, authority.certificate, TLS_URI_NODE "n1", 100);
	make_side("stranger", &stranger, authority.certificate, TLS_URI_NODE "n1", 100);
	make_side("strange_replicator", &stranger, authority.certificate, TLS_URI_REPLICATOR, 100);
	return 0;
}

static int
tear_down(void **state)
{
	char		command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_read_is_bounded),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_node_as_replicator),
		cmocka_unit_test(test_unusable),
		cmocka_unit_test(test_two_authorities),
		cmocka_unit_test(test_hosts_of_a_certificate),
		cmocka_unit_test(test_revoked),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_old_versions),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
