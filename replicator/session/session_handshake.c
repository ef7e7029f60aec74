/*
 * session_handshake.c
 *	  Authentication: hello, challenge, proof, welcome.
 *
 * Only the protocol version of a hello is checked before the challenge; everything else
 * (names, cluster, state of the node) is checked after the proof, so that nothing is
 * disclosed without it.  (With TLS the certificate has to be the named node's, too.)  A refusal is sent to the backend with its SQLSTATE and logged,
 * and the connection is closed:
 *
 *	 08P01	another protocol version, messages out of order
 *	 28000	no proof of the secret, unknown node, another cluster
 *	 55000	a database that is not replicated
 *	 57P03	the node is not online
 *	 53300	the backend has a session already
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generation.h"
#include "log.h"
#include "membership.h"
#include "database_command.h"
#include "metadata.h"
#include "random_bytes.h"
#include "role_names.h"
#include "sequencer.h"
#include "session_private.h"

static const char *cluster;
static const Secret *secret;

void
handshake_init(const Config *config, const char *cluster_id, const Secret *s)
{
	cluster = cluster_id;
	secret = s;
}

static LsSlice
secret_key(void)
{
	return (LsSlice) {secret->bytes, secret->len};
}

static LsSlice
own_nonce(const Session *s)
{
	return (LsSlice) {s->nonce, LS_NONCE_SIZE};
}

static void
copy_name(char *to, size_t size, LsSlice from)
{
	size_t		len = from.len < size - 1 ? from.len : size - 1;

	if (len > 0)				/* data may be NULL then */
		memcpy(to, from.data, len);
	to[len] = '\0';
}

static void
handle_hello(Session *s, LsSlice payload)
{
	LsChallenge challenge;
	uint8_t		bytes[256];
	const char *wrong;

	/* the slices of hello have to stay */
	buffer_append(&s->hello_bytes, payload.data, payload.len);
	payload.data = s->hello_bytes.data;
	wrong = ls_get_hello(payload, &s->hello);
	if (!session_decoded(s, "hello", wrong))
		return;
	s->hello.channel = session_tls_binding(s);
	if (s->hello.version != LS_PROTOCOL_VERSION)
	{
		session_fail(s, "08P01", "Install the same version of lockstep everywhere.",
					 "the backend speaks protocol version %" PRIu32 ", the replicator %d",
					 s->hello.version, LS_PROTOCOL_VERSION);
		return;
	}
	if (!session_tls_is_node(s, s->hello.node))
		return;
	if (!random_bytes(s->nonce, LS_NONCE_SIZE))
	{
		session_fail(s, "58000", NULL, "the replicator has no random numbers");
		return;
	}
	challenge.version = LS_PROTOCOL_VERSION;
	challenge.nonce = own_nonce(s);
	unauthenticated_challenged(s);
	s->state = SESSION_PROOF;
	session_send(s, bytes, ls_put_challenge(bytes, sizeof(bytes), &challenge));
}

static bool
check_database(Session *s)
{
	const char *const *names;
	const char *closing;
	int			n;

	copy_name(s->database, sizeof(s->database), s->hello.database);
	closing = database_command_closes(s->database);
	if (closing != NULL)
	{
		session_fail(s, "55006", NULL, "database \"%s\" is being %s", s->database, closing);
		return false;
	}
	names = metadata_databases(&n);
	for (int i = 0; i < n; i++)
	{
		if (strcmp(names[i], s->database) == 0)
			return true;
	}
	session_fail(s, "55000", "Use lockstepctl database add, or drop the extension in it.",
				 "database \"%s\" is not replicated", s->database);
	return false;
}

/* It has the secret; does its node belong to this cluster? */
static bool
check_membership(Session *s)
{
	LsHello    *h = &s->hello;

	s->node = node_find(h->node);
	if (s->node < 0)
	{
		session_fail(s, "28000", "See node.NAME in replicator.conf and lockstep.node_name on the node.",
					 "the replicator knows no node \"%.*s\"", (int) h->node.len, (const char *) h->node.data);
		return false;
	}
	if (h->cluster.len == 0)
	{
		if (!check_database(s))
			return false;
		session_fail(s, "57P03", "The replicator attaches the node's database when it is replicated: see lockstepctl status.",
					 "this database belongs to no cluster yet");
		return false;
	}
	if (h->cluster.len != strlen(cluster) || memcmp(h->cluster.data, cluster, h->cluster.len) != 0)
	{
		session_fail(s, "28000", "lockstep.replicator of that node points to the wrong replicator, or the node comes from elsewhere.",
					 "this node belongs to another cluster");
		return false;
	}
	return true;
}

static bool
check_node_online(Session *s)
{
	NodeStatus	status = node_status(s->node);

	if (status.state == NODE_ONLINE && status.boot != s->boot)
	{
		if (!node_claimed(s->node, s->boot))
		{
			session_fail(s, "28000", "Set lockstep.node_name of this server: a clone needs a name of its own, and a line in replicator.conf.",
						 "another server is node \"%s\"", status.name);
			return false;
		}
		status = node_status(s->node);
	}
	if (status.state == NODE_ONLINE)
		return true;
	session_fail(s, "57P03", "Reads go on. See lockstepctl status.",
				 "node \"%s\" is not online (%s%s%s)", status.name, node_state_name(status.state),
				 status.reason[0] != '\0' ? ": " : "", status.reason);
	return false;
}

/* Who has read files of the node has the secret, but not the key of its server. */
static bool
check_server(Session *s, LsSlice proof)
{
	LsSlice		key = node_server_key(s->node);

	if (key.len == 0 || auth_check(key, &s->hello, own_nonce(s), proof))
		return true;
	session_fail(s, "28000", "Somebody else may have the cluster's secret: see SECURITY.md.",
				 "this is no backend of the server that is attached as node \"%s\"", node_name(s->node));
	return false;
}

/*
 * A backend has one session and one connection: an older one is dead, even if the network does
 * not know it yet, and so is a backend from before a restart of the server.
 */
static void
end_older(Session *s)
{
	Session    *other = session_table_find(s->node, s->pid);

	if (other != NULL)
		session_fail(other, "57P03", NULL, other->boot != s->boot ? "the server of this backend has restarted" :
					 "this backend has connected anew");
}

static bool
check_number(Session *s)
{
	if (sessions_count() < session_config->max_sessions)
		return true;
	session_fail(s, "53300", "Raise max_sessions of the replicator.",
				 "the replicator has %d sessions already", session_config->max_sessions);
	return false;
}

/* refused: an LsRefused, or 0 */
static bool
welcome(Session *s, uint64_t refused)
{
	uint8_t		proof[LS_PROOF_SIZE];
	uint8_t		server_proof[LS_PROOF_SIZE];
	LsSlice		server_key = refused == 0 ? node_server_key(s->node) : (LsSlice) {0};
	LsWelcome	m = {.proof = {proof, LS_PROOF_SIZE},.refused = refused};
	uint8_t		bytes[192];

	if (server_key.len > 0)
		m.server_proof = (LsSlice) {server_proof, sizeof(server_proof)};
	if (!auth_proof(secret_key(), "replicator", &s->hello, own_nonce(s), proof) ||
		(server_key.len > 0 && !auth_proof(server_key, "replicator", &s->hello, own_nonce(s), server_proof)))
	{
		s->before_refusal = NULL;
		session_fail(s, "58000", NULL, "the replicator could not compute its proof");
		return false;
	}
	if (refused == 0)
		node_generation(s->node, &m.generation, &m.run);
	session_send(s, bytes, ls_put_welcome(bytes, sizeof(bytes), &m));
	return true;
}

/* Is the node being attached, or its server just back from a restart? */
static bool
is_coming(const Session *s)
{
	NodeStatus	status;

	if (s->node < 0)
		return false;
	status = node_status(s->node);
	return status.state == NODE_JOINING || status.state == NODE_CATCHUP ||
		(status.state == NODE_DROPPED && !status.administrative && status.boot != s->boot);
}

/* The backend has proved that it has the secret; so must we, for its client to read why. */
static void
welcome_refused(Session *s)
{
	s->before_refusal = NULL;
	(void) welcome(s, is_coming(s) ? LS_REFUSED_FOR_NOW : LS_REFUSED);
}

static void
log_session(const Session *s)
{
	char	   *message;

	if (!log_is_on(session_config->log_sessions))
		return;
	message = xasprintf("session begins: database \"%s\", role \"%s\", application \"%s\", %s",
						s->database, s->role, s->application, s->tls != NULL ? "TLS" : "no TLS");
	log_event(session_config->log_sessions, "session", s->name, message, NULL, NULL);
	free(message);
}

static void
handle_proof(Session *s, LsSlice payload)
{
	LsProof		m;
	const char *wrong = ls_get_proof(payload, &m);

	if (!session_decoded(s, "proof", wrong))
		return;
	if (!auth_check(secret_key(), &s->hello, own_nonce(s), m.proof))
	{
		session_fail(s, "28000", "lockstep.secret_file of the node and secret_file of the replicator must have the same content.",
					 "the backend could not prove that it has the cluster's secret");
		return;
	}
	if (!session_tls_is_node(s, s->hello.node))
		return;					/* a reload has come between */
	s->proved = true;
	s->before_refusal = welcome_refused;
	s->boot = s->hello.boot;
	s->pid = s->hello.pid;
	if (!check_membership(s))
		return;
	snprintf(s->name, sizeof(s->name), "session %s/%" PRIu32, node_name(s->node), s->pid);
	if (!check_database(s) || !check_node_online(s) || !check_server(s, m.server_proof) || !check_number(s) || !welcome(s, 0))
		return;
	end_older(s);
	copy_name(s->application, sizeof(s->application), s->hello.application);
	s->role = role_name(s->hello.role);
	s->last_xcount = s->hello.over;
	buffer_free(&s->hello_bytes);
	memset(&s->hello, 0, sizeof(s->hello));
	loop_cancel(s->patience);
	s->patience = NULL;
	s->before_refusal = NULL;
	unauthenticated_remove(s);
	s->state = SESSION_READY;
	session_table_add(s);
	sequencer_node_waits((uint32_t) s->node);
	log_session(s);
}

void
handshake_message(Session *s, LsMsgType type, LsSlice payload)
{
	if (s->state == SESSION_HELLO && type == LS_MSG_HELLO)
		handle_hello(s, payload);
	else if (s->state == SESSION_PROOF && type == LS_MSG_PROOF)
		handle_proof(s, payload);
	else
		session_fail(s, "08P01", NULL, "unexpected message of type %c (%s) in the handshake", type, ls_message_name(type));
}
