/*
 * status_page.c
 *	  The status page as text (the Makefile makes status_page.inc of status_page.html), and its
 *	  policy.  HTTP thread.
 *
 * The policy names the style and the script by their hashes, so that nothing else runs in the
 * page, whatever names or errors are shown in it.
 */
#include "status_page.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* const char status_page[] */
#include "status_page.inc"

/* Of what stands between two tags; base64. */
static void
hash(const char *open, const char *close, char text[45])
{
	const char *from = strstr(status_page, open) + strlen(open);
	unsigned char digest[32];

	EVP_Digest(from, (size_t) (strstr(from, close) - from), digest, NULL, EVP_sha256(), NULL);
	EVP_EncodeBlock((unsigned char *) text, digest, sizeof(digest));
}

const char *
status_page_policy(void)
{
	static char policy[400];
	char		style[45];
	char		script[45];

	if (policy[0] == '\0')
	{
		hash("<style>", "</style>", style);
		hash("<script>", "</script>", script);
		snprintf(policy, sizeof(policy), "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; connect-src 'self'; "
				 "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", style, script);
	}
	return policy;
}
