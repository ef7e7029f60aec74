/*
 * random_bytes.c
 *	  Cryptographically strong random bytes, by OpenSSL.
 */
#include "random_bytes.h"

#include <openssl/rand.h>

bool
random_bytes(uint8_t *buf, size_t len)
{
	return RAND_bytes(buf, (int) len) == 1;
}
