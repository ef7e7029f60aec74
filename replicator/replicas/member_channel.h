/*
 * member_channel.h
 *	  A connection between two replicators of a group: messages, TLS, mutual proof of the secret.
 *
 * The calling thread waits, always with an end.  One thread for each channel.
 *
 * Message: u8 type, u32 length of the payload, payload.  Numbers are big-endian.
 *
 *	 standby				leader
 *	 HELLO name, nonce ->
 *							<- CHALLENGE nonce, proof
 *	 PROOF, what it has ->
 *							<- WELCOME epoch, where to go on
 *	 READY, where it is ->
 *							<- SEGMENT, DATA, BODY_NAME, SYNC ...
 *	 ACK ... ALIVE ->		<- ALIVE, DELETE, BODY_DELETE, KEY, NODES, HANDOVER, REFUSED
 *
 * The first five have a JSON object, the others numbers and bytes.  A second connection of a
 * standby is for the bodies of large transactions only:
 *
 *	 HELLO name, nonce, that of the first one ->
 *							<- CHALLENGE nonce, proof
 *	 PROOF ->				<- BODIES
 *	 BODY_THERE ->			<- BODY, BODY_END, BODY_DROP
 */
#ifndef LOCKSTEP_MEMBER_CHANNEL_H
#define LOCKSTEP_MEMBER_CHANNEL_H

#include <jansson.h>

#include "config.h"
#include "protocol.h"
#include "tls_context.h"

typedef enum MemberMessageType
{
	MEMBER_HELLO = 'h',
	MEMBER_CHALLENGE = 'c',
	MEMBER_PROOF = 'p',
	MEMBER_WELCOME = 'w',
	MEMBER_READY = 'r',
	MEMBER_REFUSED = 'e',		/* error */
	MEMBER_SEGMENT = 'S',		/* u64 first seq, u64 size to allocate: what
								 * follows is of it */
	MEMBER_DATA = 'D',			/* u64 offset, bytes */
	MEMBER_BODIES = 'O',		/* what follows are bodies */
	MEMBER_BODY = 'B',			/* u64 id, u64 offset, bytes: what it has
								 * behind them is not valid any more */
	MEMBER_BODY_END = 'E',		/* u64 id, u64 size: that was all, make it
								 * durable */
	MEMBER_BODY_THERE = 'T',	/* u64 id: it is on disk, as a part */
	MEMBER_BODY_DROP = 'U',		/* u64 id: it will never be needed */
	MEMBER_BODY_NAME = 'M',		/* u64 id, u64 size: what comes refers to it,
								 * it is the journal's from now on */
	MEMBER_SYNC = 'Y',			/* u64 index: answer ACK when all that came
								 * before is on disk */
	MEMBER_ACK = 'A',			/* u64 index, u64 bytes free on its disk */
	MEMBER_ALIVE = 'L',			/* from a standby: u64 bytes free on its disk,
								 * u64 Reach; from the leader: u64 1, if it is
								 * to try which nodes it reaches, or nothing */
	MEMBER_DELETE = 'X',		/* u64 seq: segments before this one */
	MEMBER_BODY_DELETE = 'Z',	/* u64 ids: bodies that no record refers to,
								 * behind the DELETE of those that did */
	MEMBER_KEY = 'K',			/* etcd's key, as text */
	MEMBER_NODES = 'N',			/* who of the nodes takes writes, as text; to
								 * those whose READY has "nodes" */
	MEMBER_HANDOVER = 'Q'		/* the leader has ended in order */
} MemberMessageType;

typedef struct MemberMessage
{
	MemberMessageType type;
	LsSlice		payload;		/* valid until the next call */
} MemberMessage;

/* What connections are protected by. */
typedef struct MemberKeys
{
	LsSlice		secret;
	TlsContext *tls;			/* NULL: in the clear, within this machine
								 * only */
} MemberKeys;

typedef enum MemberResult
{
	MEMBER_MESSAGE,
	MEMBER_NOTHING,				/* in time */
	MEMBER_LOST					/* member_channel_error() */
} MemberResult;

#define MEMBER_SILENCE_MS 800	/* of the other side: it is taken for dead */
#define MEMBER_ALIVE_MS 100
#define MEMBER_DATA_MAX (256 * 1024)

typedef struct MemberChannel MemberChannel;

/* address HOST:PORT; both: NULL: *error (malloc'ed).  connect: and errno. */
extern MemberChannel *member_channel_connect(const char *address, const MemberKeys *keys, char **error);
extern bool member_is_there(const char *address);	/* does somebody listen
													 * there? */

/* Connections that begin from now on use the files as they are now.  NULL, or the error (malloc'ed): the old ones stay. */
extern char *member_keys_reload(MemberKeys *keys, const char *directory);
extern MemberChannel *member_channel_accept(int fd, const MemberKeys *keys, char **error);	/* takes fd over */
extern void member_channel_close(MemberChannel *c);
extern bool member_channel_is_closed(const MemberChannel *c);	/* by the other side */
extern const char *member_channel_error(const MemberChannel *c);

/* To wait for, beside others: only if member_channel_receive(0) has found nothing since the last wait. */
extern int	member_channel_fd(const MemberChannel *c);

/*
 * A message, numbers, if any, then data, if any, goes with the next flush, which waits, or with
 * pushes, which do not: MEMBER_MESSAGE, everything has been sent; MEMBER_NOTHING, a part.
 */
extern void member_channel_put(MemberChannel *c, MemberMessageType type, const uint64_t *numbers, int n,
							   const void *data, size_t len);
extern bool member_channel_flush(MemberChannel *c);
extern MemberResult member_channel_push(MemberChannel *c);

/* Put and flush. */
extern bool member_channel_send(MemberChannel *c, MemberMessageType type, const uint64_t *numbers, int n,
								const void *data, size_t len);
extern bool member_channel_send_json(MemberChannel *c, MemberMessageType type, json_t *object); /* takes it over */

/* timeout_ms 0: what has come already. */
extern MemberResult member_channel_receive(MemberChannel *c, int timeout_ms, MemberMessage *m);

/* A certain type is expected; NULL: member_channel_error().  The object is the caller's. */
extern json_t *member_channel_expect(MemberChannel *c, MemberMessageType type, int timeout_ms);

/* Has it ended as the other side refused to go on? */
extern bool member_channel_refused(const MemberChannel *c);

/* From now on sending waits so long without progress. */
extern void member_channel_wait_longer(MemberChannel *c, int ms);

/* From now on longer messages are taken. */
extern void member_channel_trust(MemberChannel *c);

/*
 * The proof that `role` ("leader", "standby") knows the secret, as 64 hex digits, for this
 * connection and these nonces.
 */
#define MEMBER_NONCE_HEX 65
extern bool member_is_nonce(const char *nonce);
extern bool member_make_nonce(char nonce[MEMBER_NONCE_HEX]);
extern bool member_proof(MemberChannel *c, const MemberKeys *keys, const char *role, const char *standby, const char *standby_nonce,
						 const char *leader_nonce, char proof[MEMBER_NONCE_HEX]);

/* The role of a standby's connection for bodies, beside the one whose nonce that was; "": of this. */
#define MEMBER_ROLE_SIZE 80
extern void member_role_of(char role[MEMBER_ROLE_SIZE], const char *nonce);
extern bool member_same_proof(const char *a, const char *b);

/*
 * A standby's part up to its own proof, with the nonce it has made; of: member_role_of()'s.  false: the
 * connection is lost, or the leader, as *trouble says then, has proved nothing.
 */
extern bool member_challenge(MemberChannel *c, const MemberKeys *keys, const char *name, const char *nonce, const char *of,
							 char own[MEMBER_NONCE_HEX], const char **trouble);

/* Numbers of a payload; false: it is too short. */
extern bool member_numbers(LsSlice *payload, uint64_t *numbers, int n); /* takes them off */

/* Listen there; -1: errno. */
extern int	member_listen(const char *address);

#endif
