/*
 * link_tls_handshake.c
 *	  TLS with the replicator: how it begins.
 *
 * The replicator proves that it is one by its certificate, and we that we are this node, before
 * a message is sent; the proofs of link_handshake.c are then bound to this connection.  The files
 * are read for each connection, so that new ones count at once.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
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

/* Of a TCP connection that has just been made.  Does not return if it can't be used. */
void
link_tls_begin(MonoTime deadline)
{
	if (ls_tls_directory[0] == '\0')
		return;
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
