/*
 * auth.h
 *	  The replicator's side of the handshake: both ends prove that they have
 *	  the same secret, by HMAC-SHA-256 over ls_signed_bytes().
 */
#ifndef LOCKSTEP_AUTH_H
#define LOCKSTEP_AUTH_H

#include "protocol.h"

#define AUTH_MIN_SECRET 16		/* bytes */
#define AUTH_MAX_SECRET 1024

typedef struct Secret
{
	uint8_t		bytes[AUTH_MAX_SECRET];
	size_t		len;
} Secret;

/*
 * Read the secret: the file's bytes without a trailing newline.  NULL, or why
 * it can't be used (malloc'ed): unreadable, too short, too long, not a regular
 * file, readable by all users.
 */
extern char *auth_read_secret(const char *path, Secret *secret);

/* Proof of role ("backend" or "replicator") for this handshake. */
extern bool auth_proof(LsSlice key, const char *role, const LsHello *hello,
					   LsSlice challenge_nonce, uint8_t proof[LS_PROOF_SIZE])
			__attribute__((warn_unused_result));

/* Is that the backend's proof?  Takes the same time whatever differs. */
extern bool auth_check(LsSlice key, const LsHello *hello,
					   LsSlice challenge_nonce, LsSlice proof)
			__attribute__((warn_unused_result));

#endif
