/*
 * member_channel.c
 *	  A connection between two replicators of a group: see member_channel.h.
 */
#include "member_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses.h"
#include "buffer.h"
#include "journal_private.h"
#include "json_text.h"
#include "loopback.h"
#include "monotonic.h"
#include "random_bytes.h"

#define HEADER_SIZE 5
#define MAX_UNTRUSTED 4096
#define MAX_TRUSTED (16 * 1024 * 1024)	/* a READY with 750,000 bodies */
#define SEND_MS 3000			/* without progress, if nothing else is said */
#define CONNECT_MS MEMBER_SILENCE_MS
#define READ_SIZE (128 * 1024)

struct MemberChannel
{
	int			fd;
	SSL		   *ssl;
	Buffer		in;
	Buffer		out;			/* put, and not sent */
	size_t		max;
	int			send_ms;
	bool		drained;		/* nothing was left to read: wait first */
	bool		refused;
	char		error[300];
};

static void __attribute__((format(printf, 2, 3)))
fail(MemberChannel *c, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, args);
	va_end(args);
}

const char *
member_channel_error(const MemberChannel *c)
{
	return c->error;
}

/* ---------- addresses */

static struct addrinfo *
resolve(const char *address, bool passive, char **error)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
	struct addrinfo *list = NULL;
	char	   *host = address_host(address);
	int			rc = getaddrinfo(host, strrchr(address, ':') + 1, &hints, &list);	/* config.c has checked
																					 * it */

	free(host);
	if (rc == 0)
		return list;
	*error = xasprintf("could not find the address of \"%s\": %s", address, gai_strerror(rc));
	return NULL;
}

int
member_listen(const char *address)
{
	char	   *error;
	struct addrinfo *list = resolve(address, true, &error);
	int			one = 1;
	int			fd;

	if (list == NULL)
	{
		free(error);
		errno = EADDRNOTAVAIL;
		return -1;
	}
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
					bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0))
	{
		int			saved_errno = errno;

		close(fd);
		errno = saved_errno;
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
}

/* ---------- waiting */

/* false: time is up, or (errno) it can't wait. */
static bool
wait_until(const MemberChannel *c, short events, int64_t until)
{
	struct pollfd p = {c->fd, events, 0};
	int64_t		left;
	int			n;

	do
	{
		left = until - monotonic_ms();
		errno = ETIMEDOUT;
		n = poll(&p, 1, left > 0 ? (int) left : 0);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

static bool
wait_for(MemberChannel *c, short events, int64_t until)
{
	if (wait_until(c, events, until))
		return true;
	if (errno == ETIMEDOUT)
		fail(c, "the other side is silent");
	else
		fail(c, "could not wait: %s", strerror(errno));
	return false;
}

/* What OpenSSL wants after a call that has not succeeded; 0: it is lost. */
static short
wanted_by_tls(MemberChannel *c, int rc)
{
	switch (SSL_get_error(c->ssl, rc))
	{
		case SSL_ERROR_WANT_READ:
			return POLLIN;
		case SSL_ERROR_WANT_WRITE:
			return POLLOUT;
		case SSL_ERROR_ZERO_RETURN:
			fail(c, "the other side has closed the connection");
			return 0;
		default:
			tls_openssl_error(c->error, sizeof(c->error));
			if (c->error[0] == '\0')
				fail(c, "the connection was lost");
			return 0;
	}
}

/* > 0: so many bytes; 0: none now, *wanted says what to wait for; -1: lost. */
static ssize_t
read_some(MemberChannel *c, void *to, size_t size, short *wanted)
{
	ssize_t		n;

	*wanted = POLLIN;
	if (c->ssl != NULL)
	{
		ERR_clear_error();
		n = SSL_read(c->ssl, to, (int) size);
		c->drained = n > 0 && SSL_has_pending(c->ssl) == 0;
		if (n > 0)
			return n;
		*wanted = wanted_by_tls(c, (int) n);
		return *wanted != 0 ? 0 : -1;
	}
	n = recv(c->fd, to, size, 0);
	c->drained = n > 0 && (size_t) n < size;
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == 0)
		fail(c, "the other side has closed the connection");
	else
		fail(c, "the connection was lost: %s", strerror(errno));
	return -1;
}

/* The same for what is to be sent. */
static ssize_t
write_some(MemberChannel *c, short *wanted)
{
	const uint8_t *bytes = c->out.data + c->out.pos;
	size_t		len = c->out.len - c->out.pos;
	ssize_t		n;

	*wanted = POLLOUT;
	if (c->ssl != NULL)
	{
		ERR_clear_error();
		n = SSL_write(c->ssl, bytes, (int) len);
		if (n > 0)
			return n;
		*wanted = wanted_by_tls(c, (int) n);
		return *wanted != 0 ? 0 : -1;
	}
	n = send(c->fd, bytes, len, MSG_NOSIGNAL);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	fail(c, "the connection was lost: %s", strerror(errno));
	return -1;
}

/* ---------- beginning */

/* Held while the context of keys is looked up or replaced; who has begun with it keeps it. */
static pthread_mutex_t keys_lock = PTHREAD_MUTEX_INITIALIZER;

char *
member_keys_reload(MemberKeys *keys, const char *directory)
{
	char		why[TLS_WHY_SIZE];
	TlsContext *fresh = tls_context_load(directory, NULL, why);
	TlsContext *old;

	if (fresh == NULL)
		return xstrdup(why);
	pthread_mutex_lock(&keys_lock);
	old = keys->tls;
	keys->tls = fresh;
	pthread_mutex_unlock(&keys_lock);
	tls_context_free(old);
	return NULL;
}

/* NULL, and *clear says whether that is as it should be. */
static SSL *
begin_tls(const MemberKeys *keys, bool *clear)
{
	SSL		   *ssl;

	pthread_mutex_lock(&keys_lock);
	*clear = keys->tls == NULL;
	ssl = *clear ? NULL : SSL_new(tls_context_ssl(keys->tls));
	pthread_mutex_unlock(&keys_lock);
	return ssl;
}

static bool
shake_hands(MemberChannel *c, bool connecting)
{
	int64_t		until = monotonic_ms() + CONNECT_MS;
	const X509 *certificate;

	if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1)
	{
		fail(c, "OpenSSL cannot be used");
		return false;
	}
	SSL_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_set_read_ahead(c->ssl, 1);	/* a record is one read, not two */
	if (connecting)
		SSL_set_connect_state(c->ssl);
	else
		SSL_set_accept_state(c->ssl);
	for (;;)
	{
		int			rc;
		short		wanted;

		ERR_clear_error();
		rc = SSL_do_handshake(c->ssl);
		if (rc == 1)
			break;
		if ((wanted = wanted_by_tls(c, rc)) == 0 || !wait_for(c, wanted, until))
			return false;
	}
	certificate = SSL_get0_peer_certificate(c->ssl);
	if (certificate != NULL && tls_certificate_is_for(certificate, TLS_URI_REPLICATOR, strlen(TLS_URI_REPLICATOR)))
		return true;
	fail(c, "the other side's certificate is not a replicator's");
	return false;
}

static bool
check_clear(MemberChannel *c)
{
	struct sockaddr_storage address = {0};
	socklen_t	len = sizeof(address);

	if (getpeername(c->fd, (struct sockaddr *) &address, &len) == 0 && address_is_loopback(&address))
		return true;
	fail(c, "it would not be encrypted: tls_directory is not set");
	return false;
}

static MemberChannel *
begin(int fd, const MemberKeys *keys, bool connecting, char **error)
{
	MemberChannel *c = xcalloc(1, sizeof(MemberChannel));
	int			one = 1;
	bool		clear;

	c->fd = fd;
	c->max = MAX_UNTRUSTED;
	c->send_ms = SEND_MS;
	(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->ssl = begin_tls(keys, &clear);
	if (clear ? check_clear(c) : shake_hands(c, connecting))
		return c;
	*error = xstrdup(c->error);
	member_channel_close(c);
	return NULL;
}

static int
connect_to(const struct addrinfo *a)
{
	int			fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {fd, POLLOUT, 0};
	int			failed = 0;
	socklen_t	len = sizeof(failed);

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
		failed = errno;
	else if (poll(&p, 1, CONNECT_MS) <= 0)
		failed = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
		failed = errno;
	if (failed == 0)
		return fd;
	close(fd);
	errno = failed;
	return -1;
}

bool
member_is_there(const char *address)
{
	char	   *error;
	struct addrinfo *list = resolve(address, false, &error);
	int			fd = -1;

	if (list == NULL)
	{
		free(error);
		return false;
	}
	for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
		fd = connect_to(a);
	freeaddrinfo(list);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

MemberChannel *
member_channel_connect(const char *address, const MemberKeys *keys, char **error)
{
	struct addrinfo *list = resolve(address, false, error);
	MemberChannel *c = NULL;
	int			fd = -1;
	int			failed = 0;

	for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
	{
		fd = connect_to(a);
		failed = fd < 0 ? errno : 0;
	}
	if (list != NULL)
		freeaddrinfo(list);
	if (fd >= 0)
		c = begin(fd, keys, true, error);
	else if (list != NULL)
		*error = xasprintf("could not connect to \"%s\": %s", address, strerror(failed));
	errno = failed;
	return c;
}

MemberChannel *
member_channel_accept(int fd, const MemberKeys *keys, char **error)
{
	return begin(fd, keys, false, error);
}

void
member_channel_close(MemberChannel *c)
{
	if (c == NULL)
		return;
	SSL_free(c->ssl);
	close(c->fd);
	buffer_free(&c->in);
	buffer_free(&c->out);
	free(c);
}

bool
member_channel_is_closed(const MemberChannel *c)
{
	struct pollfd p = {c->fd, POLLRDHUP, 0};

	return poll(&p, 1, 0) > 0;
}

bool
member_channel_refused(const MemberChannel *c)
{
	return c->refused;
}

void
member_channel_wait_longer(MemberChannel *c, int ms)
{
	c->send_ms = ms;
}

void
member_channel_trust(MemberChannel *c)
{
	c->max = MAX_TRUSTED;
}

int
member_channel_fd(const MemberChannel *c)
{
	return c->fd;
}

/* ---------- messages */

void
member_channel_put(MemberChannel *c, MemberMessageType type, const uint64_t *numbers, int n, const void *data, size_t len)
{
	uint8_t		header[HEADER_SIZE];

	header[0] = (uint8_t) type;
	put_be32(header + 1, (uint32_t) ((size_t) n * 8 + len));
	buffer_reserve(&c->out, HEADER_SIZE + (size_t) n * 8 + len);
	buffer_append(&c->out, header, HEADER_SIZE);
	for (int i = 0; i < n; i++)
	{
		uint8_t		number[8];

		put_be64(number, numbers[i]);
		buffer_append(&c->out, number, 8);
	}
	if (len > 0)
		buffer_append(&c->out, data, len);
}

MemberResult
member_channel_push(MemberChannel *c)
{
	short		wanted;

	while (c->out.pos < c->out.len)
	{
		ssize_t		n = write_some(c, &wanted);

		if (n < 0)
			return MEMBER_LOST;
		if (n == 0)
			return MEMBER_NOTHING;
		buffer_consume(&c->out, (size_t) n);
	}
	return MEMBER_MESSAGE;
}

bool
member_channel_flush(MemberChannel *c)
{
	int64_t		until = 0;

	while (c->out.pos < c->out.len)
	{
		short		wanted;
		ssize_t		n = write_some(c, &wanted);

		if (n < 0)
			return false;
		if (n > 0)
			buffer_consume(&c->out, (size_t) n);
		if (n > 0 || until == 0)
			until = monotonic_ms() + c->send_ms;
		if (n == 0 && !wait_for(c, wanted, until))
			return false;
	}
	return true;
}

bool
member_channel_send(MemberChannel *c, MemberMessageType type, const uint64_t *numbers, int n, const void *data, size_t len)
{
	member_channel_put(c, type, numbers, n, data, len);
	return member_channel_flush(c);
}

bool
member_channel_send_json(MemberChannel *c, MemberMessageType type, json_t *object)
{
	char	   *text = json_dumps(object, JSON_COMPACT);
	bool		ok;

	if (text == NULL)
		abort();
	ok = member_channel_send(c, type, NULL, 0, text, strlen(text));
	free(text);
	json_decref(object);
	return ok;
}

/* Is a whole message there?  It is taken off. */
static MemberResult
take_message(MemberChannel *c, MemberMessage *m)
{
	size_t		there = c->in.len - c->in.pos;
	size_t		len;

	if (there < HEADER_SIZE)
		return MEMBER_NOTHING;
	len = get_be32(c->in.data + c->in.pos + 1);
	if (len > c->max)
	{
		fail(c, "a message of %zu bytes is longer than allowed", len);
		return MEMBER_LOST;
	}
	if (there < HEADER_SIZE + len)
		return MEMBER_NOTHING;
	m->type = (MemberMessageType) c->in.data[c->in.pos];
	m->payload = (LsSlice) {c->in.data + c->in.pos + HEADER_SIZE, len};
	c->in.pos += HEADER_SIZE + len;
	return MEMBER_MESSAGE;
}

/* What has been used goes; a message is never cut by it, as its slice is not valid any more. */
static void
make_room(MemberChannel *c)
{
	memmove(c->in.data, c->in.data + c->in.pos, c->in.len - c->in.pos);
	c->in.len -= c->in.pos;
	c->in.pos = 0;
	buffer_reserve(&c->in, READ_SIZE);
}

/* After a read that has emptied the socket there is one wait, not another read. */
MemberResult
member_channel_receive(MemberChannel *c, int timeout_ms, MemberMessage *m)
{
	int64_t		until = timeout_ms > 0 ? monotonic_ms() + timeout_ms : 0;
	MemberResult result;

	while ((result = take_message(c, m)) == MEMBER_NOTHING)
	{
		const bool	drained = c->drained;
		short		wanted = POLLIN;
		ssize_t		n = 0;

		c->drained = false;
		buffer_reserve(&c->in, READ_SIZE);
		if (c->in.pos > 0)
			make_room(c);
		if (!drained)
			n = read_some(c, c->in.data + c->in.len, READ_SIZE, &wanted);
		if (n < 0)
			return MEMBER_LOST;
		c->in.len += (size_t) n;
		if (n == 0 && (timeout_ms == 0 || !wait_until(c, wanted, until)))
			return MEMBER_NOTHING;
	}
	return result;
}

json_t *
member_channel_expect(MemberChannel *c, MemberMessageType type, int timeout_ms)
{
	MemberMessage m;
	MemberResult result = member_channel_receive(c, timeout_ms, &m);
	json_t	   *object = NULL;

	if (result == MEMBER_NOTHING)
		fail(c, "the other side did not answer within %d ms", timeout_ms);
	if (result != MEMBER_MESSAGE)
		return NULL;
	object = json_loadb((const char *) m.payload.data, m.payload.len, 0, NULL);
	if (json_is_object(object) && m.type == type)
		return object;
	if (json_is_object(object) && m.type == MEMBER_REFUSED)
	{
		c->refused = true;
		fail(c, "refused: %.250s", json_text_of(object, "error"));
	}
	else
		fail(c, "an unexpected message of type %d", (int) m.type);
	json_decref(object);
	return NULL;
}

bool
member_numbers(LsSlice *payload, uint64_t *numbers, int n)
{
	if (payload->len < (size_t) n * 8)
		return false;
	for (int i = 0; i < n; i++)
		numbers[i] = get_be64(payload->data + 8 * i);
	payload->data += 8 * n;
	payload->len -= (size_t) n * 8;
	return true;
}

/* ---------- proofs */

static void
to_hex(const uint8_t bytes[32], char text[MEMBER_NONCE_HEX])
{
	for (int i = 0; i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

bool
member_make_nonce(char nonce[MEMBER_NONCE_HEX])
{
	uint8_t		bytes[32];

	if (!random_bytes(bytes, sizeof(bytes)))
		return false;
	to_hex(bytes, nonce);
	return true;
}

void
member_role_of(char role[MEMBER_ROLE_SIZE], const char *nonce)
{
	snprintf(role, MEMBER_ROLE_SIZE, "standby%s%.64s", nonce[0] != '\0' ? " " : "", nonce);
}

bool
member_proof(MemberChannel *c, const MemberKeys *keys, const char *role, const char *standby, const char *standby_nonce,
			 const char *leader_nonce, char proof[MEMBER_NONCE_HEX])
{
	uint8_t		binding[32] = {0};
	uint8_t		bytes[32];
	unsigned int len = 0;
	char		binding_text[MEMBER_NONCE_HEX];
	char	   *text;
	bool		ok;

	if (c->ssl != NULL && SSL_export_keying_material(c->ssl, binding, sizeof(binding), "EXPORTER-Channel-Binding", 24, NULL, 0, 0) != 1)
		return false;
	to_hex(binding, binding_text);
	text = xasprintf("lockstep group 1\n%s\n%s\n%s\n%s\n%s\n", role, standby, standby_nonce, leader_nonce, binding_text);
	ok = HMAC(EVP_sha256(), keys->secret.data, (int) keys->secret.len, (const uint8_t *) text, strlen(text), bytes, &len) != NULL &&
		len == sizeof(bytes);
	free(text);
	if (ok)
		to_hex(bytes, proof);
	return ok;
}

bool
member_is_nonce(const char *nonce)
{
	return strlen(nonce) == MEMBER_NONCE_HEX - 1 && strspn(nonce, "0123456789abcdef") == MEMBER_NONCE_HEX - 1;
}

bool
member_same_proof(const char *a, const char *b)
{
	return strlen(a) == strlen(b) && CRYPTO_memcmp(a, b, strlen(a)) == 0;
}

bool
member_challenge(MemberChannel *c, const MemberKeys *keys, const char *name, const char *nonce, const char *of,
				 char own[MEMBER_NONCE_HEX], const char **trouble)
{
	char		expected[MEMBER_NONCE_HEX];
	char		role[MEMBER_ROLE_SIZE];
	json_t	   *challenge = NULL;
	bool		ok;

	member_role_of(role, of);
	ok = member_channel_send_json(c, MEMBER_HELLO, of[0] != '\0' ? json_pack("{s:s, s:s, s:s}", "name", name, "nonce", nonce, "of", of) :
								  json_pack("{s:s, s:s}", "name", name, "nonce", nonce)) &&
		(challenge = member_channel_expect(c, MEMBER_CHALLENGE, MEMBER_SILENCE_MS)) != NULL &&
		member_proof(c, keys, "leader", name, nonce, json_text_of(challenge, "nonce"), expected) &&
		member_proof(c, keys, role, name, nonce, json_text_of(challenge, "nonce"), own);
	if (ok && !member_same_proof(json_text_of(challenge, "proof"), expected))
	{
		*trouble = "it could not prove that it has the group's secret";
		ok = false;
	}
	json_decref(challenge);
	return ok;
}
