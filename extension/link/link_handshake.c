/*
 * link_handshake.c
 *	  Connecting to the replicator, and mutual authentication.
 *
 *		H hello (names, boot, pid, our nonce)	->
 *										 <- C challenge (its nonce)
 *		A proof that we have the secret			->
 *										 <- W its proof, its generation
 *
 * If lockstep.tls_directory is set, these are encrypted (link_tls.c), and the proofs are for this
 * TLS connection only.
 *
 * Both sides prove that they have the shared secret by an HMAC over both nonces, and by another one
 * that they know the key of this server (serverkey.c), as soon as the replicator has asked for it.
 * No proof can be replayed; a false replicator learns nothing and gets no query.
 * lockstep.connect_timeout bounds the whole, except for name resolution, which blocks
 * inside libc.
 */
#include "postgres.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "common/cryptohash.h"
#include "common/hmac.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "cluster.h"
#include "compat.h"
#include "generation.h"
#include "guc.h"
#include "link_address.h"
#include "link_private.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "outcome.h"
#include "points.h"
#include "secret.h"
#include "serverkey.h"
#include "turn.h"
#include "xact.h"

/* What both sides sign, and with what. */
typedef struct Handshake
{
	const Secret *secret;
	const LsHello *hello;
	LsSlice		challenge;
} Handshake;

/* ---------- proofs */

/* HMAC-SHA-256 over what both sides sign; proof has LS_PROOF_SIZE bytes. */
static void
make_proof(const uint8_t *key, size_t key_len, const char *role, const Handshake *h, uint8_t *proof)
{
	uint8_t		text[LS_SIGNED_MAX];
	size_t		len = ls_signed_bytes(text, sizeof(text), role, h->hello, h->challenge);
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);
	bool		ok;

	ok = ctx != NULL && len <= sizeof(text) &&
		pg_hmac_init(ctx, key, key_len) >= 0 &&
		pg_hmac_update(ctx, text, len) >= 0 &&
		pg_hmac_final(ctx, proof, LS_PROOF_SIZE) >= 0;
	pg_hmac_free(ctx);
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute the proof for the replicator")));
}

static bool
is_proof(LsSlice given, const uint8_t *proof)
{
	uint8_t		differ = 0;

	if (given.len != LS_PROOF_SIZE)
		return false;
	for (int i = 0; i < LS_PROOF_SIZE; i++)
		differ |= given.data[i] ^ proof[i];
	return differ == 0;
}

/* ---------- who we are */

static void
fill_hello(LsHello *hello, uint8_t *nonce)
{
	if (!pg_strong_random(nonce, LS_NONCE_SIZE))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random nonce for the replicator")));
	hello->version = LS_PROTOCOL_VERSION;
	hello->node = ls_slice_of(ls_node_name);
	hello->database = ls_slice_of(get_database_name(MyDatabaseId));
	hello->cluster = ls_slice_of(cluster_identity());
	hello->boot = turn_boot_id();
	hello->pid = MyProcPid;
	hello->nonce.data = nonce;
	hello->nonce.len = LS_NONCE_SIZE;
	hello->application = ls_slice_of(application_name ? application_name : "");
	hello->role = ls_slice_of(GetUserNameFromId(GetAuthenticatedUserId(), true));
	hello->over = xact_last_finished();
}

/* ---------- the socket */

static void
set_tcp_options(pgsocket sock)
{
	int			on = 1;
	int			idle = 10;		/* seconds of silence before probing */
	int			interval = 5;
	int			probes = 3;
	unsigned int user_timeout = 30000;	/* ms that sent data may stay
										 * unacknowledged */

	/* Failure of these costs speed, not correctness. */
	(void) setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	(void) setsockopt(sock, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
}

/* Wait for the outcome of a connect that is under way. */
static bool
finish_connect(MonoTime deadline)
{
	for (;;)
	{
		struct pollfd p = {ls_link.sock, POLLOUT, 0};
		int			error = 0;
		socklen_t	len = sizeof(error);

		if (poll(&p, 1, 0) > 0)
		{
			if (getsockopt(ls_link.sock, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
				error = errno;
			errno = error;
			return error == 0;
		}
		if (mono_ms_left(deadline) == 0)
		{
			errno = ETIMEDOUT;
			return false;
		}
		link_wait(WL_SOCKET_WRITEABLE, mono_ms_left(deadline), PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Connect to one address.  False: closed again, errno says why. */
static bool
connect_address(const struct sockaddr *address, socklen_t len, MonoTime deadline)
{
	pgsocket	sock;
	int			saved_errno;

	if (!AcquireExternalFD())
		return false;
	sock = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock == PGINVALID_SOCKET)
	{
		ReleaseExternalFD();
		return false;
	}
	if (address->sa_family != AF_UNIX)
		set_tcp_options(sock);
	if (connect(sock, address, len) != 0 && errno != EINPROGRESS && errno != EINTR)
	{
		saved_errno = errno;
		closesocket(sock);
		ReleaseExternalFD();
		errno = saved_errno;
		return false;
	}
	link_adopt(sock);
	if (finish_connect(deadline))
		return true;
	saved_errno = errno;
	link_close();
	errno = saved_errno;
	return false;
}

static bool
connect_unix(const char *path, MonoTime deadline)
{
	struct sockaddr_un address;

	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	if (strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path))
	{
		errno = ENAMETOOLONG;
		return false;
	}
	return connect_address((struct sockaddr *) &address, sizeof(address), deadline);
}

/* Split "host:port" or "[host]:port", which address_list_check() has seen. */
static void
split_address(const char *text, char **host, char **port)
{
	char	   *copy = pstrdup(text);
	char	   *colon = strrchr(copy, ':');

	*colon = '\0';
	*port = colon + 1;
	*host = copy;
	if (copy[0] == '[' && colon[-1] == ']')
	{
		colon[-1] = '\0';
		*host = copy + 1;
	}
}

static bool
connect_tcp(const char *target, MonoTime deadline)
{
	struct addrinfo hints;
	struct addrinfo *addresses = NULL;
	char	   *host;
	char	   *port;
	int			rc;
	bool		connected = false;

	split_address(target, &host, &port);
	memset(&hints, 0, sizeof(hints));
	hints.ai_socktype = SOCK_STREAM;
	rc = getaddrinfo(host, port, &hints, &addresses);
	if (rc != 0)
	{
		link_lost("The name of \"%s\" could not be resolved: %s.", target, gai_strerror(rc));
		link_report_lost();
	}
	PG_TRY();
	{
		for (struct addrinfo *a = addresses; a != NULL && !connected; a = a->ai_next)
			connected = connect_address(a->ai_addr, a->ai_addrlen, deadline);
	}
	PG_FINALLY();
	{
		int			saved_errno = errno;

		freeaddrinfo(addresses);
		errno = saved_errno;
	}
	PG_END_TRY();
	return connected;
}

static void
connect_socket(const char *address, MonoTime deadline)
{
	bool		connected;

	ls_link.local = address[0] == '/';
	connected = ls_link.local ? connect_unix(address, deadline) : connect_tcp(address, deadline);
	if (!connected)
	{
		link_lost("Connecting to \"%s\" failed: %m.", address);
		link_report_lost();
	}
	if (!ls_link.local)
		link_tls_begin(deadline);
}

/* ---------- the handshake */

/* Wait for this message; any other one is a violation of the protocol. */
static LsSlice
expect(LsMsgType wanted, MonoTime deadline)
{
	LsMsgType	type;
	LsSlice		payload;

	for (;;)
	{
		if (link_has_message(link_receive(&type, &payload, mono_ms_left(deadline), PG_WAIT_EXTENSION)))
		{
			if (type == wanted)
				return payload;
			link_report_violation("unexpected message in the handshake");
		}
		CHECK_FOR_INTERRUPTS();
		if (mono_ms_left(deadline) == 0)
		{
			link_lost("It did not answer within %d ms.", ls_connect_timeout);
			link_report_lost();
		}
	}
}

static void
check_decoded(const char *wrong)
{
	if (wrong == NULL)
		return;
	link_report_violation(wrong);
}

/*
 * Is it the replicator that this node follows?  If so, the link is valid for as long as the node
 * follows it.
 */
static void
check_generation(const LsWelcome *welcome)
{
	Generation	theirs = {welcome->generation, welcome->run};
	Generation	ours;

	if (generation_begin_link(theirs))
		return;
	ours = turn_generation();
	ls_link.proven = false;		/* another one may lead */
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("the replicator is outdated"),
			 errdetail("It has generation %llu, run %016llx; node \"%s\" follows generation %llu, run %016llx.",
					   (unsigned long long) theirs.number, (unsigned long long) theirs.run, ls_node_name,
					   (unsigned long long) ours.number, (unsigned long long) ours.run),
			 errhint("Another replicator has been started on a copy of the journal: see lockstep.replicator, and \"Two replicators\" in docs/operating.md.")));
}

static void
send_proofs(const Handshake *h)
{
	uint8_t		proof[LS_PROOF_SIZE];
	uint8_t		server_proof[LS_PROOF_SIZE];
	uint8_t		message[LS_HEADER_SIZE + 128];
	LsProof		ours = {{proof, LS_PROOF_SIZE}, {server_proof, LS_PROOF_SIZE}};

	make_proof(h->secret->bytes, h->secret->len, "backend", h, proof);
	make_proof(serverkey(), LS_SERVER_KEY_SIZE, "backend", h, server_proof);
	link_send(message, ls_put_proof(message, sizeof(message), &ours));
}

/* By the secret; and by the key, if this server has been attached since its start, and we are not refused. */
static void
check_proofs(const Handshake *h, const LsWelcome *welcome)
{
	uint8_t		proof[LS_PROOF_SIZE];

	make_proof(h->secret->bytes, h->secret->len, "replicator", h, proof);
	if (!is_proof(welcome->proof, proof))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("the replicator could not prove that it has this cluster's secret"),
				 errhint("Something else may listen at lockstep.replicator, or the secrets differ.")));
	if (welcome->refused != 0 || !serverkey_is_told())
		return;
	make_proof(serverkey(), LS_SERVER_KEY_SIZE, "replicator", h, proof);
	if (!is_proof(welcome->server_proof, proof))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("the replicator could not prove that it has attached this server"),
				 errdetail("It has the cluster's secret, but not the key of this start of the server."),
				 errhint("Something else may listen at lockstep.replicator.")));
}

static void
handshake(const Secret *secret, MonoTime deadline)
{
	uint8_t		nonce[LS_NONCE_SIZE];
	uint8_t		challenge_nonce[LS_NONCE_SIZE];
	uint8_t		binding[TLS_BINDING_SIZE];
	uint8_t		message[LS_HEADER_SIZE + LS_MAX_HELLO];
	LsHello		hello;
	LsChallenge challenge;
	LsWelcome	welcome;
	Handshake	h = {secret, &hello, {challenge_nonce, LS_NONCE_SIZE}};

	fill_hello(&hello, nonce);
	hello.channel = (LsSlice) {binding, ls_link.tls != NULL && tls_binding(ls_link.tls, binding) ? sizeof(binding) : 0};
	link_send(message, ls_put_hello(message, sizeof(message), &hello));

	check_decoded(ls_get_challenge(expect(LS_MSG_CHALLENGE, deadline), &challenge));
	memcpy(challenge_nonce, challenge.nonce.data, LS_NONCE_SIZE);
	send_proofs(&h);

	check_decoded(ls_get_welcome(expect(LS_MSG_WELCOME, deadline), &welcome));
	check_proofs(&h, &welcome);
	ls_link.proven = true;
	ls_link.refused_for_now = welcome.refused == LS_REFUSED_FOR_NOW;
	if (welcome.refused != 0)
		(void) expect(LS_MSG_ERROR, deadline);	/* does not return */
	check_generation(&welcome);
}

static void
open_address(const char *address, const Secret *secret, MonoTime deadline)
{
	ls_link.proven = false;
	connect_socket(address, deadline);
	handshake(secret, deadline);
	outcome_take_secret(secret->bytes, secret->len);
}

/*
 * Could another address help?  Not if the one that leads has refused, or the statement is to end.
 * Otherwise the error is noted, and gone.
 */
static void
note_failure(const char *address, MemoryContext context, StringInfo reasons, ErrorData **lasting)
{
	ErrorData  *error;

	if (ls_link.proven || geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_ADMIN_SHUTDOWN)
		PG_RE_THROW();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	link_close();
	appendStringInfo(reasons, "%s%s: %s", reasons->len > 0 ? " " : "", address,
					 error->detail != NULL && ls_link.why.passing ? error->detail : error->message);
	if (ls_link.why.passing)
		FreeErrorData(error);
	else
		*lasting = error;
}

/* One that hangs must not use up the time of the others. */
static void
open_one_of(int n, const Secret *secret, MonoTime deadline)
{
	MemoryContext context = CurrentMemoryContext;
	StringInfoData reasons;
	ErrorData  *lasting = NULL;
	uint32		holdoff = InterruptHoldoffCount;
	int			first = link_address_first();

	initStringInfo(&reasons);
	for (int i = 0; i < n; i++)
	{
		int			place = (first + i) % n;
		char	   *address = link_address_at(place);
		long		share = mono_ms_left(deadline) / (n - i);

		ls_link.why.passing = false;
		PG_TRY();
		{
			open_address(address, secret, i == n - 1 ? deadline : mono_after(Max(share, 1)));
			ls_link.ready = true;
		}
		PG_CATCH();
		{
			link_address_failed(place);
			note_failure(address, context, &reasons, &lasting);
			InterruptHoldoffCount = holdoff;	/* an ERROR has reset it */
		}
		PG_END_TRY();
		if (ls_link.ready)
		{
			link_address_worked(place);
			ls_link.place = place;
			return;
		}
	}
	if (lasting != NULL)
		ReThrowError(lasting);
	link_lost("%s", reasons.data);
	link_report_lost();
}

static void
open_any(const Secret *secret, MonoTime deadline)
{
	int			n = link_address_count();

	ls_link.place = 0;
	if (n == 1)
		open_address(link_address_at(0), secret, deadline);
	else
		open_one_of(n, secret, deadline);
}

void
link_open_until(MonoTime deadline)
{
	Secret		secret;

	deadline = Min(deadline, mono_after(ls_connect_timeout));

	link_close();
	ls_link.why.passing = false;

	/* a standby has the name of its primary, and that node would be dropped */
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_CANNOT_CONNECT_NOW),
				 errmsg("this server is a standby of node \"%s\"", ls_node_name),
				 errdetail("A standby asks the replicator nothing."),
				 errhint("Connect to the node itself.")));
	secret_read(&secret);
	PG_TRY();
	{
		open_any(&secret, deadline);
	}
	PG_CATCH();
	{
		explicit_bzero(&secret, sizeof(secret));
		link_close();
		PG_RE_THROW();
	}
	PG_END_TRY();
	explicit_bzero(&secret, sizeof(secret));
	ls_link.ready = true;
	ls_link.number++;
	LS_POINT(LINKED);
}

void
link_open(void)
{
	link_open_until(mono_after(ls_connect_timeout));
}

void
link_connect(void)
{
	if (!link_is_alive(false))
		link_open();
}
