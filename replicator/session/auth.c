/*
 * auth.c
 *	  Secret file and proofs, by OpenSSL.
 *
 * The secret never leaves this process and no proof can be replayed: each side signs the nonce
 * that the other chose for this connection.  A proof names the role that made it, so that it
 * cannot be returned as the other side's.  The key of a proof is the secret, or that of the node's
 * server, which is in no file.  Stateless; any thread.
 */
#include "auth.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"

/* Is the open file one that may hold a secret?  NULL, or why not. */
static char *
check_secret_file(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return xasprintf("could not stat secret file \"%s\": %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return xasprintf("secret file \"%s\" is not a regular file", path);
	if (st.st_mode & S_IRWXO)
		return xasprintf("secret file \"%s\" is accessible by everybody; its permissions should be u=rw (0600) or u=rw,g=r (0640)",
						 path);
	return NULL;
}

static char *
read_secret_bytes(int fd, const char *path, Secret *secret)
{
	uint8_t		bytes[AUTH_MAX_SECRET + 2]; /* a newline and one too many */
	size_t		len = 0;
	char	   *wrong = NULL;

	while (len < sizeof(bytes))
	{
		ssize_t		n = read(fd, bytes + len, sizeof(bytes) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return xasprintf("could not read secret file \"%s\": %s", path, strerror(errno));
		if (n == 0)
			break;
		len += (size_t) n;
	}
	if (len > 0 && bytes[len - 1] == '\n')
		len--;
	if (len < AUTH_MIN_SECRET)
		wrong = xasprintf("secret file \"%s\" is too short: it must have at least %d bytes",
						  path, AUTH_MIN_SECRET);
	else if (len > AUTH_MAX_SECRET)
		wrong = xasprintf("secret file \"%s\" is too long: it may have at most %d bytes",
						  path, AUTH_MAX_SECRET);
	else
	{
		memcpy(secret->bytes, bytes, len);
		secret->len = len;
	}
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return wrong;
}

char *
auth_read_secret(const char *path, Secret *secret)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char	   *wrong;

	memset(secret, 0, sizeof(*secret));
	if (fd < 0)
		return xasprintf("could not open secret file \"%s\": %s", path, strerror(errno));
	wrong = check_secret_file(fd, path);
	if (wrong == NULL)
		wrong = read_secret_bytes(fd, path, secret);
	close(fd);
	return wrong;
}

bool
auth_proof(LsSlice key, const char *role, const LsHello *hello,
		   LsSlice challenge_nonce, uint8_t proof[LS_PROOF_SIZE])
{
	uint8_t		signed_bytes[LS_SIGNED_MAX];
	unsigned int proof_len = 0;
	size_t		len;

	len = ls_signed_bytes(signed_bytes, sizeof(signed_bytes), role, hello, challenge_nonce);
	if (len > sizeof(signed_bytes))
		return false;
	return HMAC(EVP_sha256(), key.data, (int) key.len,
				signed_bytes, len, proof, &proof_len) != NULL &&
		proof_len == LS_PROOF_SIZE;
}

bool
auth_check(LsSlice key, const LsHello *hello, LsSlice challenge_nonce, LsSlice proof)
{
	uint8_t		expected[LS_PROOF_SIZE];

	return proof.len == LS_PROOF_SIZE &&
		auth_proof(key, "backend", hello, challenge_nonce, expected) &&
		CRYPTO_memcmp(expected, proof.data, LS_PROOF_SIZE) == 0;
}
