/*
 * test_auth.c
 *	  Proves that the right secret is accepted and nothing else, and that a
 *	  secret file which can't be one is refused with its reason.
 */
#include "random_bytes.h"
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "auth.h"
#include "samples.h"

static char path[64];

static void
write_secret(const void *bytes, size_t len, mode_t mode)
{
	FILE	   *f;

	unlink(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void
assert_refused(const char *why)
{
	Secret		secret;
	char	   *wrong = auth_read_secret(path, &secret);

	assert_non_null(wrong);
	assert_non_null(strstr(wrong, why));
	assert_non_null(strstr(wrong, path));
	free(wrong);
}

static void
test_secret_file(void **state)
{
	Secret		secret;
	char		big[AUTH_MAX_SECRET + 2];

	memset(big, 's', sizeof(big));
	write_secret("0123456789abcdef\n", 17, 0600);
	assert_null(auth_read_secret(path, &secret));
	assert_int_equal(secret.len, 16);
	assert_memory_equal(secret.bytes, "0123456789abcdef", 16);
	write_secret("0123456789\0abcdef", 17, 0640);	/* any bytes, no newline */
	assert_null(auth_read_secret(path, &secret));
	assert_int_equal(secret.len, 17);
	big[AUTH_MAX_SECRET] = '\n';
	write_secret(big, AUTH_MAX_SECRET + 1, 0600);
	assert_null(auth_read_secret(path, &secret));
	assert_int_equal(secret.len, AUTH_MAX_SECRET);

	write_secret("0123456789abcde\n", 16, 0600);
	assert_refused("too short");
	write_secret("", 0, 0600);
	assert_refused("too short");
	write_secret(big, sizeof(big), 0600);
	assert_refused("too long");
	write_secret("0123456789abcdef\n", 17, 0644);
	assert_refused("accessible by everybody");
	unlink(path);
	assert_refused("No such file");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refused("not a regular file");
	rmdir(path);
}

static void
test_proof(void **state)
{
	Secret		secret = {.bytes = "0123456789abcdef",.len = 16};
	Secret		other = {.bytes = "0123456789abcdeg",.len = 16};
	LsSlice		key = {secret.bytes, secret.len};
	LsSlice		other_key = {other.bytes, other.len};
	LsHello		hello = sample_hello();
	LsSlice		nonce = SLICE("cccccccccccccccccccccccccccccccc");
	uint8_t		proof[LS_PROOF_SIZE];
	LsSlice		slice = {proof, sizeof(proof)};

	assert_true(auth_proof(key, "backend", &hello, nonce, proof));
	assert_true(auth_check(key, &hello, nonce, slice));
	assert_false(auth_check(other_key, &hello, nonce, slice));
	slice.len--;
	assert_false(auth_check(key, &hello, nonce, slice));
	slice.len++;
	hello.pid++;
	assert_false(auth_check(key, &hello, nonce, slice));
	hello.pid--;
	nonce = SLICE("cccccccccccccccccccccccccccccccd");
	assert_false(auth_check(key, &hello, nonce, slice));
	nonce = SLICE("cccccccccccccccccccccccccccccccc");
	for (size_t i = 0; i < sizeof(proof); i++)
	{
		proof[i] ^= 1;
		assert_false(auth_check(key, &hello, nonce, slice));
		proof[i] ^= 1;
	}
	assert_true(auth_proof(key, "replicator", &hello, nonce, proof));
	assert_false(auth_check(key, &hello, nonce, slice));	/* ours sent back to us */
}

static void
test_random(void **state)
{
	uint8_t		a[LS_NONCE_SIZE],
				b[LS_NONCE_SIZE];

	assert_true(random_bytes(a, sizeof(a)));
	assert_true(random_bytes(b, sizeof(b)));
	assert_memory_not_equal(a, b, sizeof(a));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secret_file),
		cmocka_unit_test(test_proof),
		cmocka_unit_test(test_random),
	};

	snprintf(path, sizeof(path), "/tmp/lockstep-test-auth-%d", (int) getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
