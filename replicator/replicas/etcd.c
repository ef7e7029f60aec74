/*
 * etcd.c
 *	  One key in etcd, by its HTTP/JSON gateway: see etcd.h.
 *
 * Keys and values are base64 there, 64-bit numbers are strings.  A range request without options
 * is linearizable; a transaction with a comparison of mod_revision is the compare-and-swap
 * (https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/).
 */
#include "etcd.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "config.h"

#define CONNECT_MS 400L
#define REQUEST_MS 1000L
#define ANSWER_MAX (1024 * 1024)

struct Etcd
{
	CURL	   *curl;
	char	  **endpoints;
	int			n;
	int			at;				/* the one that has answered */
	char	   *key;			/* base64 */
	char	   *tls_directory;
	struct curl_slist *headers;
	Buffer		answer;
	char		error[400];
};

/* ---------- base64 */

static char *
encode(const char *text)
{
	size_t		len = strlen(text);
	char	   *out = xmalloc(4 * ((len + 2) / 3) + 1);

	EVP_EncodeBlock((unsigned char *) out, (const unsigned char *) text, (int) len);
	return out;
}

/* NULL: it is not base64, or not text. */
static char *
decode(const char *base64)
{
	size_t		len = strlen(base64);
	char	   *out = xmalloc(len + 1);
	int			n = EVP_DecodeBlock((unsigned char *) out, (const unsigned char *) base64, (int) len);

	if (n >= 0 && len % 4 == 0)
	{
		/* what stands for "=" counts as zero bytes */
		out[n] = '\0';
		for (size_t i = len; i > 0 && base64[i - 1] == '='; i--)
			n--;
		out[n] = '\0';
		if (strlen(out) == (size_t) n)
			return out;
	}
	free(out);
	return NULL;
}

/* ---------- requests */

static size_t
on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
	Etcd	   *e = arg;

	if (e->answer.len + size * n > ANSWER_MAX)
		return 0;				/* ends the request */
	buffer_append(&e->answer, bytes, size * n);
	return size * n;
}

static void
set_option_path(Etcd *e, CURLoption option, const char *file)
{
	char	   *path = xasprintf("%s/%s", e->tls_directory, file);

	(void) curl_easy_setopt(e->curl, option, path);
	free(path);
}

static json_t *
parse_answer(Etcd *e, const char *endpoint)
{
	json_error_t why;
	json_t	   *answer;
	long		code = 0;

	(void) curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &code);
	answer = json_loadb(e->answer.data != NULL ? (const char *) e->answer.data : "", e->answer.len, 0, &why);
	if (code == 200 && json_is_object(answer))
		return answer;
	snprintf(e->error, sizeof(e->error), "%s answers %ld: %.200s", endpoint, code,
			 json_is_object(answer) && json_is_string(json_object_get(answer, "error")) ?
			 json_string_value(json_object_get(answer, "error")) : "not the JSON that is expected");
	json_decref(answer);
	return NULL;
}

static json_t *
ask_endpoint(Etcd *e, const char *endpoint, const char *path, const char *body)
{
	char	   *url = xasprintf("%s%s", endpoint, path);
	CURLcode	rc;

	e->answer.len = 0;
	(void) curl_easy_setopt(e->curl, CURLOPT_URL, url);
	(void) curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, body);
	rc = curl_easy_perform(e->curl);
	free(url);
	if (rc == CURLE_OK)
		return parse_answer(e, endpoint);
	snprintf(e->error, sizeof(e->error), "%s: %s", endpoint, curl_easy_strerror(rc));
	return NULL;
}

/* Of the first endpoint that answers; NULL: none does. */
static json_t *
ask(Etcd *e, const char *path, json_t *request)
{
	char	   *body = json_dumps(request, JSON_COMPACT);
	json_t	   *answer = NULL;

	if (body == NULL)
		abort();
	for (int i = 0; i < e->n && answer == NULL; i++)
	{
		answer = ask_endpoint(e, e->endpoints[e->at], path, body);
		if (answer == NULL)
			e->at = (e->at + 1) % e->n;
	}
	free(body);
	json_decref(request);
	return answer;
}

/* ---------- calls */

Etcd *
etcd_open(const char *endpoints, const char *key, const char *tls_directory)
{
	static bool begun;
	Etcd	   *e;

	if (!begun && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return NULL;
	begun = true;
	e = xcalloc(1, sizeof(Etcd));
	e->curl = curl_easy_init();
	if (e->curl == NULL)
	{
		free(e);
		return NULL;
	}
	e->endpoints = config_list(endpoints, &e->n);
	e->key = encode(key);
	e->tls_directory = xstrdup(tls_directory);
	e->headers = curl_slist_append(NULL, "Content-Type: application/json");
	(void) curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, e->headers);
	(void) curl_easy_setopt(e->curl, CURLOPT_WRITEFUNCTION, on_bytes);
	(void) curl_easy_setopt(e->curl, CURLOPT_WRITEDATA, e);
	(void) curl_easy_setopt(e->curl, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(e->curl, CURLOPT_NOPROXY, "*");
#if LIBCURL_VERSION_NUM >= 0x075500
	(void) curl_easy_setopt(e->curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	(void) curl_easy_setopt(e->curl, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	(void) curl_easy_setopt(e->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	(void) curl_easy_setopt(e->curl, CURLOPT_TIMEOUT_MS, REQUEST_MS);
	if (tls_directory[0] != '\0')
	{
		set_option_path(e, CURLOPT_CAINFO, "ca.pem");
#if LIBCURL_VERSION_NUM >= 0x075700
		/* else, for a day, it does not know an authority that was added */
		(void) curl_easy_setopt(e->curl, CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
		set_option_path(e, CURLOPT_SSLCERT, "cert.pem");
		set_option_path(e, CURLOPT_SSLKEY, "key.pem");
	}
	return e;
}

const char *
etcd_error(const Etcd *e)
{
	return e->error;
}

static int64_t
number_in(const json_t *object, const char *field)
{
	const char *text = json_string_value(json_object_get(object, field));

	return text != NULL ? strtoll(text, NULL, 10) : 0;
}

bool
etcd_read(Etcd *e, EtcdValue *value)
{
	json_t	   *answer = ask(e, "/v3/kv/range", json_pack("{s:s}", "key", e->key));
	const json_t *header = json_object_get(answer, "header");
	const json_t *kv = json_array_get(json_object_get(answer, "kvs"), 0);
	const char *cluster = json_string_value(json_object_get(header, "cluster_id"));
	const char *text;

	memset(value, 0, sizeof(EtcdValue));
	if (answer == NULL)
		return false;
	value->revision = number_in(header, "revision");
	value->cluster = cluster != NULL ? strtoull(cluster, NULL, 10) : 0;
	if (kv != NULL)
	{
		value->mod_revision = number_in(kv, "mod_revision");
		text = json_string_value(json_object_get(kv, "value"));
		value->text = decode(text != NULL ? text : "");
		if (value->text == NULL)
			value->text = xstrdup("");	/* as good as what is not text */
	}
	json_decref(answer);
	if (value->revision > 0 && value->cluster != 0 && (value->mod_revision != 0) == (value->text != NULL))
		return true;
	snprintf(e->error, sizeof(e->error), "%s answers something else than etcd's API v3", e->endpoints[e->at]);
	free(value->text);
	value->text = NULL;
	return false;
}

EtcdResult
etcd_swap(Etcd *e, int64_t mod_revision, const char *text)
{
	char		revision[24];
	char	   *encoded = encode(text);
	json_t	   *answer;
	bool		succeeded;

	snprintf(revision, sizeof(revision), "%" PRId64, mod_revision);
	answer = ask(e, "/v3/kv/txn",
				 json_pack("{s:[{s:s, s:s, s:s, s:s}], s:[{s:{s:s, s:s}}]}",
						   "compare", "key", e->key, "target", "MOD", "result", "EQUAL", "mod_revision", revision,
						   "success", "requestPut", "key", e->key, "value", encoded));
	free(encoded);
	if (answer == NULL)
		return ETCD_UNKNOWN;
	succeeded = json_is_true(json_object_get(answer, "succeeded"));
	json_decref(answer);
	return succeeded ? ETCD_DONE : ETCD_CONFLICT;
}
