/*
 * link_tls_handshake.c
 *	  TLS with the replicator: how it begins.
 *
 * The replicator proves that it is one by its certificate, and we that we are this node, before
 * a message is sent; the proofs of link_handshake.c are then bound to this connection.  The files
 * are read for each connection, so that new ones count at once.
 */
#include "postgres.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bswap.h"
#include "storage/latch.h"

#include "guc.h"
#include "link_private.h"
#include "lockstep.h"
#include "ls_link.h"

static void
begin(void)
{
	char		why[TLS_WHY_SIZE];
	TlsContext *context = tls_context_load(ls_tls_directory, ls_node_name, why);

	if (context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("this node cannot use its certificates for the replicator"),
				 errdetail_internal("In lockstep.tls_directory: %s.", why),
				 errhint("\"lockstepctl certs\" makes them: see \"TLS\" in docs/operating.md.")));
	ls_link.tls = tls_begin(context);
	tls_context_free(context);
	if (ls_link.tls == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("OpenSSL has no memory for a connection to the replicator")));
	(void) link_tls_open(ls_link.tls, &ls_link.in, &ls_link.out, &ls_link.ended);	/* its first words */
}

static bool
is_within_machine(void)
{
	struct sockaddr_storage peer;
	socklen_t	len = sizeof(peer);
	const struct in6_addr *six = &((struct sockaddr_in6 *) &peer)->sin6_addr;

	if (getpeername(ls_link.sock, (struct sockaddr *) &peer, &len) != 0)
		return false;
	if (peer.ss_family == AF_INET)
		return pg_ntoh32(((struct sockaddr_in *) &peer)->sin_addr.s_addr) >> 24 == 127;
	return peer.ss_family == AF_INET6 &&
		(IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

/* Nothing is said in the clear, unless the operator allows it. */
static void
check_clear(void)
{
	if (ls_require_tls == LS_REQUIRE_TLS_REMOTE && is_within_machine())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("the connection to the replicator would not be encrypted"),
			 errdetail("lockstep.replicator is \"%s\", and lockstep.tls_directory is not set.", ls_replicator),
			 errhint("Set lockstep.tls_directory on the node and tls_directory in replicator.conf (\"lockstepctl certs\" makes certificates); if the replicator is on this machine, lockstep.require_tls = remote does without, or a Unix socket.")));
}

/* Of a TCP connection that has just been made.  Does not return if it can't be used. */
void
link_tls_begin(MonoTime deadline)
{
	link_tls_note_files();
	if (ls_tls_directory[0] == '\0')
	{
		check_clear();
		return;
	}
	begin();
	while (!tls_is_ready(ls_link.tls))
	{
		if (!link_flush_some())
			link_report_lost();
		if (ls_link.ended)
		{
			if (tls_error(ls_link.tls)[0] != '\0')
				link_lost_by_tls();
			else
				link_lost("It closed the connection instead of answering by TLS.");
			link_report_lost();
		}
		if (mono_ms_left(deadline) == 0)
		{
			link_lost("It did not answer by TLS within %d ms.", ls_connect_timeout);
			link_report_lost();
		}
		link_wait(WL_SOCKET_READABLE | (ls_link.out.len > 0 ? WL_SOCKET_WRITEABLE : 0), mono_ms_left(deadline), PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
	}
}
