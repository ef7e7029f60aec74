/*
 * session_seal.c
 *	  Encrypts what a session has to send.
 */
#include "session_private.h"

bool
session_seal(Session *s)
{
	if (!tls_is_ready(s->tls))
	{
		/* a refusal before the handshake is over is heard by nobody */
		buffer_free(&s->plain);
		return true;
	}
	while (s->plain.pos < s->plain.len)
	{
		size_t		left = s->plain.len - s->plain.pos;
		size_t		n = left < TLS_WRITE_MAX ? left : TLS_WRITE_MAX;
		const uint8_t *out;
		size_t		len;

		if (!tls_write(s->tls, s->plain.data + s->plain.pos, n))
			return false;
		len = tls_output(&out);
		buffer_append(&s->out, out, len);
		buffer_consume(&s->plain, n);
	}
	return true;
}
