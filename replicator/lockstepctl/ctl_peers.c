/*
 * ctl_peers.c
 *	  lockstepctl's own connections to the nodes: one query to all of them at
 *	  once, then their answers.
 *
 * Blocking; every thread has its own connections.  The sessions change nothing that is
 * replicated, and the form of their values does not depend on settings of roles or databases.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "conninfo.h"
#include "ctl_verify.h"

static const char session_options[] =
"-c role=none -c session_preload_libraries= -c local_preload_libraries= "
"-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 "
"-c idle_session_timeout=0 -c default_transaction_isolation=read\\ committed "
"-c default_transaction_read_only=off -c default_transaction_deferrable=off -c row_security=off -c jit=off -c search_path=pg_catalog "
"-c standard_conforming_strings=on -c client_min_messages=error -c enable_indexscan=off -c enable_indexonlyscan=off "
"-c enable_bitmapscan=off -c synchronous_commit=local -c client_connection_check_interval=1s "
"-c lockstep.replicate=off -c lockstep.causal_reads=off -c lockstep.max_staleness=-1";

const char *
peer_encoding(PGconn *conn)
{
	const char *encoding = PQparameterStatus(conn, "server_encoding");

	return encoding != NULL && strcmp(encoding, "SQL_ASCII") == 0 ? "SQL_ASCII" : "UTF8";
}

PGconn *
peer_connect(Verify *v, int node, const char *database)
{
	const char *keywords[] = {CONNINFO_ALIVE_KEYWORDS, "connect_timeout", "dbname", "dbname", "application_name", "options", NULL};
	const char *values[] = {CONNINFO_ALIVE_VALUES, CONNINFO_CONNECT_TIMEOUT, v->conninfos[node], database, "lockstepctl", session_options, NULL};
	PGconn	   *conn = PQconnectdbParams(keywords, values, 1);
	PGresult   *r;

	if (PQstatus(conn) != CONNECTION_OK)
	{
		(void) verify_fail(v, "could not connect to database \"%s\" of node %s: %s", database, v->names[node],
						   PQerrorMessage(conn));
		PQfinish(conn);
		return NULL;
	}
	if (PQserverVersion(conn) >= 170000)
		PQclear(PQexec(conn, "SET transaction_timeout = 0"));
	(void) PQsetClientEncoding(conn, peer_encoding(conn));
	r = PQexec(conn, "SELECT lockstep.verify_start()");
	if (PQresultStatus(r) != PGRES_TUPLES_OK)
	{
		(void) verify_fail(v, "node %s: %s", v->names[node], PQerrorMessage(conn));
		PQfinish(conn);
		conn = NULL;
	}
	PQclear(r);
	return conn;
}

bool
peers_open(Peers *p, Verify *v, const char *database)
{
	memset(p, 0, sizeof(*p));
	p->v = v;
	p->database = database;
	for (int i = 0; i < v->nnodes; i++)
	{
		p->conns[i] = peer_connect(v, i, database);
		if (p->conns[i] == NULL)
			return false;
	}
	return true;
}

void
peers_close(Peers *p)
{
	for (int i = 0; i < CONFIG_MAX_NODES; i++)
	{
		if (p->conns[i] != NULL)
			PQfinish(p->conns[i]);
		p->conns[i] = NULL;
	}
}

/* A failure is seen when the answer is read. */
void
peers_send(Peers *p, int node, const char *sql)
{
	(void) PQsendQuery(p->conns[node], sql);
}

static void
note_error(Answer *a, const char *message, const char *sqlstate)
{
	size_t		len = strlen(message);

	if (a->error != NULL)
		return;
	while (len > 0 && message[len - 1] == '\n')
		len--;
	a->error = xstrndup(message, len);
	snprintf(a->sqlstate, sizeof(a->sqlstate), "%s", sqlstate != NULL ? sqlstate : "08006");
}

void
peers_receive(Peers *p, int node, Answer *a)
{
	PGconn	   *conn = p->conns[node];
	PGresult   *r;
	bool		any = false;

	memset(a, 0, sizeof(*a));
	while ((r = PQgetResult(conn)) != NULL)
	{
		ExecStatusType status = PQresultStatus(r);

		any = true;
		if (status == PGRES_TUPLES_OK && a->n < ANSWER_MAX)
		{
			a->rows[a->n++] = r;
			continue;
		}
		if (status == PGRES_FATAL_ERROR)
			note_error(a, PQresultErrorMessage(r), PQresultErrorField(r, PG_DIAG_SQLSTATE));
		PQclear(r);
	}
	if (!any || PQstatus(conn) != CONNECTION_OK)
		note_error(a, PQerrorMessage(conn), NULL);
	if (PQstatus(conn) != CONNECTION_OK)
		(void) verify_fail(p->v, "node %s: %s", p->v->names[node], a->error);
}

void
answer_free(Answer *a)
{
	for (int i = 0; i < a->n; i++)
		PQclear(a->rows[i]);
	free(a->error);
	memset(a, 0, sizeof(*a));
}

void
answers_free(Answer *answers, int n)
{
	for (int i = 0; i < n; i++)
		answer_free(&answers[i]);
}

const char *
answer_value(const Answer *a, int result)
{
	if (result >= a->n || PQntuples(a->rows[result]) == 0)
		return "";
	return PQgetvalue(a->rows[result], 0, 0);
}

bool
peers_ask(Peers *p, const char *sql, Answer *answers)
{
	int			n = p->v->nnodes;
	bool		ok = true;

	for (int i = 0; i < n; i++)
		peers_send(p, i, sql);
	for (int i = 0; i < n; i++)
	{
		peers_receive(p, i, &answers[i]);
		if (answers[i].error != NULL)
			ok = verify_fail(p->v, "node %s: %s", p->v->names[i], answers[i].error);
	}
	if (!ok)
		answers_free(answers, n);
	return ok;
}
