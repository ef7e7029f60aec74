/*
 * http_server.c
 *	  libmicrohttpd: its one thread, its connections, start and stop.
 *
 * Connections are bounded in number, in all and from one address, in time and in memory; one that is
 * silent for TIMEOUT_S is closed.  A request has no body: what announces one is refused, and
 * its connection closed.
 */
#include "http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffer.h"
#include "http_access.h"
#include "http_pages.h"
#include "http_snapshot.h"
#include "http_standby.h"
#include "log.h"
#include "loopback.h"

#define MAX_OF_ADDRESS 256
#define TIMEOUT_S 5
#define MEMORY_OF_CONNECTION 16384
#define MAX_PEM (1024 * 1024)
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3"
#define METHODS "GET, HEAD, OPTIONS"

static struct MHD_Daemon *server;
static Secret token;			/* len 0: none */
static atomic_bool running;		/* the library has been started */
static bool leading;			/* the loop makes snapshots */
static char complaint[256];		/* of the library, before */

/* ---------- one request */

static void
add_header(struct MHD_Response *response, const char *name, const char *value)
{
	(void) MHD_add_response_header(response, name, value);	/* no memory: it is sent
															 * without */
}

static enum MHD_Result
send_answer(struct MHD_Connection *connection, const HttpAnswer *a)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(a->len, (void *) a->text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (response == NULL)
		return MHD_NO;
	add_header(response, "Content-Type", a->type);
	add_header(response, "Cache-Control", "no-store");
	add_header(response, "X-Content-Type-Options", "nosniff");
	add_header(response, "Referrer-Policy", "no-referrer");
	add_header(response, "Content-Security-Policy", a->policy);
	if (a->status == MHD_HTTP_UNAUTHORIZED)
		add_header(response, "WWW-Authenticate", "Basic realm=\"lockstep\"");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		add_header(response, "Allow", METHODS);
	result = MHD_queue_response(connection, (unsigned) a->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result
refuse(struct MHD_Connection *connection, int status, const char *text)
{
	HttpAnswer	a = {.status = status,.type = "text/plain; charset=utf-8",.text = text,.len = strlen(text),
	.policy = "default-src 'none'"};

	return send_answer(connection, &a);
}

static const char *
header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool
has_body(struct MHD_Connection *connection)
{
	const char *length = header(connection, "Content-Length");

	return header(connection, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* The library calls it twice for a request: with its head, and when it is complete. */
static enum MHD_Result
on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
		   const char *version, const char *data, size_t *size, void **state)
{
	static char head_is_read;
	HttpArguments arguments;
	HttpAnswer	a;

	if (*state == NULL)
	{
		*state = &head_is_read;
		if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "OPTIONS") != 0)
			return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only " METHODS "\n");
		if (has_body(connection))
			return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "a request has no body\n");
		return MHD_YES;
	}
	if (*size != 0)
		return MHD_NO;
	if (token.len > 0 && !http_has_token(&token, header(connection, "Authorization")))
		return refuse(connection, MHD_HTTP_UNAUTHORIZED, "the token is missing or wrong\n");
	if (token.len == 0 && !http_host_is_local(header(connection, "Host")))
		return refuse(connection, MHD_HTTP_FORBIDDEN, "without http_token_file this host is localhost, or a number\n");
	arguments.lag = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "lag");
	arguments.draining = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "draining");
	a = http_page(url, &arguments);
	return send_answer(connection, &a);
}

/* Clients cause most of it: a closed connection, a handshake without end. */
static void __attribute__((format(printf, 2, 0)))
on_complaint(void *arg, const char *fmt, va_list args)
{
	char		text[256];

	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\r\n")] = '\0';
	if (!running)
		snprintf(complaint, sizeof(complaint), "%s", text);
	log_message(LOG_DEBUG, "http", "%s", text);
}

/* ---------- settings */

/* Zero-terminated.  private: only its owner may read it. */
static char *
read_pem(const char *setting, const char *path, bool private, char **text)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	Buffer		b = {0};
	ssize_t		n;

	if (fd < 0 || fstat(fd, &st) != 0)
	{
		char	   *error = xasprintf("could not open file \"%s\" of %s: %s", path, setting, strerror(errno));

		if (fd >= 0)
			close(fd);
		return error;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_PEM || (private && (st.st_mode & S_IRWXO)))
	{
		close(fd);
		if (private && (st.st_mode & S_IRWXO))
			return xasprintf("file \"%s\" of %s is accessible by everybody; its permissions should be u=rw (0600) or u=rw,g=r (0640)",
							 path, setting);
		return xasprintf("file \"%s\" of %s is not a regular file of at most 1 MB", path, setting);
	}
	buffer_reserve(&b, MAX_PEM + 1);
	while (b.len < MAX_PEM && ((n = read(fd, b.data + b.len, MAX_PEM - b.len)) > 0 || (n < 0 && errno == EINTR)))
		b.len += n > 0 ? (size_t) n : 0;
	close(fd);
	b.data[b.len] = '\0';
	*text = (char *) b.data;
	return NULL;
}

typedef struct Settings
{
	struct sockaddr_storage address;
	socklen_t	len;
	char	   *certificate;	/* NULL: no TLS */
	char	   *key;
	Secret		token;
} Settings;

static void
settings_free(Settings *s)
{
	free(s->certificate);
	if (s->key != NULL)
		explicit_bzero(s->key, strlen(s->key));
	free(s->key);
	explicit_bzero(&s->token, sizeof(s->token));
}

/* A token is sent in a header, so it is a word. */
static char *
read_token(const char *path, Secret *to)
{
	char	   *error = auth_read_secret(path, to);

	for (size_t i = 0; error == NULL && i < to->len; i++)
	{
		if (to->bytes[i] <= ' ' || to->bytes[i] > '~')
			error = xasprintf("file \"%s\" of http_token_file has other characters than printable ASCII", path);
	}
	return error;
}

static char *
read_settings(const Config *c, Settings *s, const char **hint)
{
	bool		tls = c->http_certificate[0] != '\0';
	char	   *error = http_resolve(c->http_listen, &s->address, &s->len);

	if (error != NULL)
		return error;
	if (tls != (c->http_key[0] != '\0'))
		return xstrdup("of \"http_certificate\" and \"http_key\" one is set: they belong together");
	if (!address_is_loopback(&s->address) && (!tls || c->http_token_file[0] == '\0'))
	{
		*hint = "Set them, or let http_listen be a loopback address, such as 127.0.0.1:8432.";
		return xasprintf("http_listen = '%s' can be reached from other machines, and http_certificate, http_key and "
						 "http_token_file are not all set", c->http_listen);
	}
	if (tls && ((error = read_pem("http_certificate", c->http_certificate, false, &s->certificate)) != NULL ||
				(error = read_pem("http_key", c->http_key, true, &s->key)) != NULL))
		return error;
	if (c->http_token_file[0] != '\0')
		error = read_token(c->http_token_file, &s->token);
	return error;
}

char *
http_check(const Config *config, const char **hint)
{
	Settings	s = {0};
	char	   *error;

	*hint = NULL;
	if (config->http_listen[0] == '\0')
		return NULL;
	error = read_settings(config, &s, hint);
	settings_free(&s);
	return error;
}

/* ---------- start and stop */

static int
open_socket(const Settings *s)
{
	int			fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int			on = 1;

	if (fd < 0)
		return -1;
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *) &s->address, s->len) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	close(fd);
	return -1;
}

static struct MHD_Daemon *
start_library(const Settings *s, int fd)
{
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, s->certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) TLS_PRIORITIES},
		{MHD_OPTION_END, 0, NULL}
	};
	unsigned	flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG;

	if (s->certificate != NULL)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, NULL,
							MHD_OPTION_EXTERNAL_LOGGER, on_complaint, NULL,
							MHD_OPTION_LISTEN_SOCKET, fd,
							MHD_OPTION_CONNECTION_LIMIT, (unsigned) HTTP_MAX_CONNECTIONS,
							MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned) MAX_OF_ADDRESS,
							MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) TIMEOUT_S,
							MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) MEMORY_OF_CONNECTION,
							MHD_OPTION_STRICT_FOR_CLIENT, 1,
							MHD_OPTION_ARRAY, tls,
							MHD_OPTION_END);
}

static char *
start(const Config *config, const Settings *s)
{
	int			fd = open_socket(s);

	if (fd < 0)
		return xasprintf("could not listen on %s for HTTP: %s", config->http_listen, strerror(errno));
	token = s->token;
	http_pages_begin(config->journal_directory);
	complaint[0] = '\0';
	server = start_library(s, fd);
	running = server != NULL;
	if (running)
		return NULL;
	close(fd);
	return xasprintf("could not start HTTP on %s: %s", config->http_listen,
					 complaint[0] != '\0' ? complaint : strerror(errno));
}

char *
http_start(const Config *config, const char **hint)
{
	Settings	s = {0};
	char	   *error;

	*hint = NULL;
	if (config->http_listen[0] == '\0')
		return NULL;
	error = read_settings(config, &s, hint);
	if (error == NULL)
		error = start(config, &s);
	if (error == NULL)
		log_message(LOG_NOTICE, "http", "listening on %s://%s/", s.certificate != NULL ? "https" : "http", config->http_listen);
	settings_free(&s);
	return error;
}

char *
http_lead(const Config *config)
{
	char	   *error;

	if (server == NULL)
		return NULL;
	if ((error = snapshots_begin(token.len > 0)) != NULL)
		return error;
	leading = true;
	if (config->nreplicators > 0)
		snapshots_review(standby_review);
	http_pages_lead();
	return NULL;
}

void
http_stop(void)
{
	if (server == NULL)
		return;
	if (leading)
		snapshots_wake();
	MHD_stop_daemon(server);
	server = NULL;
	running = false;
	if (leading)
	{
		snapshots_review(NULL);
		snapshots_end();
	}
	leading = false;
	explicit_bzero(&token, sizeof(token));
}
