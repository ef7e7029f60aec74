/*
 * link_private.h
 *	  What link.c (bytes and messages) and link_handshake.c (connecting, mutual
 *	  authentication) share.  No other file includes it.
 */
#ifndef LOCKSTEP_LINK_PRIVATE_H
#define LOCKSTEP_LINK_PRIVATE_H

#include "storage/latch.h"

#include "datatype/timestamp.h"

#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "tls_channel.h"

/* Why the connection was lost, in the words for the client. */
typedef struct LinkWhy
{
	char		sqlstate[LS_SQLSTATE_SIZE + 1];
	char		message[512];
	char		detail[1024];
	char		hint[512];
	bool		passing;		/* it may soon be possible to connect */
} LinkWhy;

typedef struct LinkState
{
	pgsocket	sock;
	bool		ready;			/* both sides are authenticated */
	bool		proven;			/* the replicator is */
	bool		local;			/* by a Unix socket */
	int			place;			/* of its address in lockstep.replicator */
	bool		refused_for_now;	/* by the welcome */
	uint64		number;			/* of connections so far that were ready */
	WaitEventSet *set;			/* socket, latch, postmaster death */
	int			position;		/* of the socket in it */
	uint32		events;			/* that the socket is waited for */
	StringInfoData in;			/* received */
	size_t		consumed;		/* of it handed out */
	MonoTime	heard;			/* when a message was received or sent last */
	bool		spared;			/* the message that has begun has been given
								 * more time */
	bool		ended;			/* nothing more will arrive, because of ... */
	int			end_errno;		/* 0: end of file */
	StringInfoData out;			/* not sent yet; encrypted, if tls */
	TlsChannel *tls;			/* NULL: in the clear */
	LinkWhy		why;
	MemoryContext context;
} LinkState;

extern LinkState ls_link;

extern void link_adopt(pgsocket sock);
extern bool link_flush_some(void);	/* false: lost */
extern void link_wait(uint32 events, long timeout_ms, uint32 wait_event);
extern LinkResult link_lost(const char *fmt,...) pg_attribute_printf(1, 2);

/* As link_lost(), with OpenSSL's reason. */
extern LinkResult link_lost_by_tls(void);

/* ---------- in link_tls.c */

/* Decrypts what was fed, and returns how much was appended to in; what is to be sent goes to out. */
extern size_t link_tls_open(TlsChannel *t, StringInfo in, StringInfo out, bool *ended);

/* As recv(); what it appends to in may be less, or (EAGAIN) nothing. */
extern ssize_t link_tls_receive(TlsChannel *t, pgsocket sock, StringInfo in, StringInfo out, bool *ended);

/* At most TLS_WRITE_MAX bytes.  False: tls_error(). */
extern bool link_tls_seal(TlsChannel *t, const char *data, size_t len, StringInfo out);

/* ---------- in link_tls_handshake.c */

/* Of a TCP connection that has just been made; does not return if it can't be used. */
extern void link_tls_begin(MonoTime deadline);

/* ---------- in link_tls_files.c */

extern void link_tls_note_files(void);	/* a connection begins */

/* By a reload since then; in a transaction that the replicator knows: and it is not trusted any more. */
extern bool link_tls_is_outdated(TlsChannel *t, bool in_transaction);

#endif							/* LOCKSTEP_LINK_PRIVATE_H */
