/*
 * writer.c
 *	  A client of the crash harness: changes rows for as long as it may, and
 *	  writes down what it was told.
 *
 *	writer CONNINFO NUMBER SEED LOG
 *
 * LOCKSTEP_SOAK_DDL says how many of 1000 transactions are DDL (4).
 * Ends at SIGTERM, when the transaction at hand is over.  Every transaction has
 * a number of its own, which it puts into the database:
 *
 *	 transfer	two accounts, a row in ledger, a row in entry
 *	 append		a row in entry, no transaction block
 *	 run		ROWS_OF_RUN rows in entry
 *	 savepoint	a row in entry, and -number, which is rolled back
 *	 ddl		a command that changes the schema, and a row in entry whose note
 *				says which table was made or dropped
 *
 * A line of the log is
 *
 *	 kind number rows result sqlstate token microseconds
 *
 * with a result of C (COMMIT succeeded), F (failed: it must not be there) or U
 * (nobody could say: 08007, or the connection was lost after COMMIT had been
 * sent).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ACCOUNTS 40
#define ROWS_OF_RUN 20
#define PER_WRITER INT64_C(1000000000)

typedef enum Result
{
	COMMITTED = 'C', FAILED = 'F', UNKNOWN = 'U'
} Result;

static volatile sig_atomic_t stop;
static PGconn *conn;
static int	log_fd;
static char sqlstate[6];
static char token[128];
static int	ddl_per_mille = 4;
static const char ask_token[] = "SELECT lockstep.transaction_token()";

static void
on_term(int signo)
{
	stop = 1;
}

static uint64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

static void
pause_ms(int ms)
{
	struct timespec t = {ms / 1000, (long) (ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

static int
pick(int n)
{
	return (int) (random() % n);
}

static void
ignore(void *arg, const char *message)
{
}

/* Until there is a connection, or an end. */
static bool
connected(const char *conninfo)
{
	static const char *const waits[] = {"executed", "executed", "executed", "ordered", "applied"};

	while (!stop)
	{
		char		command[64];
		PGresult   *r;
		bool		ok;

		if (conn != NULL && PQstatus(conn) == CONNECTION_OK)
			return true;
		if (conn != NULL)
			PQfinish(conn);
		conn = PQconnectdb(conninfo);
		PQsetNoticeProcessor(conn, ignore, NULL);
		snprintf(command, sizeof(command), "SET lockstep.commit_wait = %s", waits[pick(5)]);
		r = PQexec(conn, command);
		ok = PQresultStatus(r) == PGRES_COMMAND_OK;
		PQclear(r);
		if (ok)
			return true;
		pause_ms(50);
	}
	return false;
}

/* Runs one command.  What an error means depends on whether it was to commit. */
static Result
run(const char *command, bool commits)
{
	PGresult   *r = PQexec(conn, command);
	ExecStatusType status = PQresultStatus(r);
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	Result		result;

	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
	{
		if (status == PGRES_TUPLES_OK && strcmp(command, ask_token) == 0)
			snprintf(token, sizeof(token), "%s", PQgetvalue(r, 0, 0));
		/* COMMIT of a failed transaction says ROLLBACK */
		result = commits && strcmp(PQcmdStatus(r), "ROLLBACK") == 0 ? FAILED : COMMITTED;
		strcpy(sqlstate, "00000");
	}
	else
	{
		snprintf(sqlstate, sizeof(sqlstate), "%s", state != NULL ? state : "-----");
		result = commits && (PQstatus(conn) != CONNECTION_OK || state == NULL || strcmp(state, "08007") == 0) ? UNKNOWN : FAILED;
	}
	PQclear(r);
	return result;
}

static void
write_down(const char *kind, int64_t number, int rows, Result result, uint64_t us)
{
	char		line[256];
	int			len = snprintf(line, sizeof(line), "%s %" PRId64 " %d %c %s %s %" PRIu64 "\n", kind, number, rows,
							   (char) result, sqlstate, token[0] != '\0' ? token : "-", us);

	if (write(log_fd, line, (size_t) len) != len)
	{
		perror("writer: log");
		exit(1);
	}
}

static Result
in_block(const char *const *commands, int n)
{
	Result		result = run("BEGIN", false);

	if (result == COMMITTED)
		result = run(ask_token, false);
	for (int i = 0; i < n && result == COMMITTED; i++)
		result = run(commands[i], false);
	if (result != COMMITTED)
	{
		char		first[6];

		memcpy(first, sqlstate, sizeof(first));
		if (PQstatus(conn) == CONNECTION_OK)
			(void) run("ROLLBACK", false);
		memcpy(sqlstate, first, sizeof(first));
		return FAILED;
	}
	return run("COMMIT", true);
}

static Result
transfer(int64_t number)
{
	char		text[4][160];
	const char *commands[] = {text[0], text[1], text[2], text[3]};
	int			from = pick(ACCOUNTS);
	int			to = (from + 1 + pick(ACCOUNTS - 1)) % ACCOUNTS;
	int			amount = pick(100);

	snprintf(text[0], sizeof(text[0]), "UPDATE account SET balance = balance - %d WHERE id = %d", amount, from);
	snprintf(text[1], sizeof(text[1]), "UPDATE account SET balance = balance + %d WHERE id = %d", amount, to);
	snprintf(text[2], sizeof(text[2]), "INSERT INTO ledger VALUES (%" PRId64 ", %d, %d, %d)", number, from, to, amount);
	snprintf(text[3], sizeof(text[3]), "INSERT INTO entry VALUES (%" PRId64 ", 'transfer')", number);
	return in_block(commands, 4);
}

static Result
append(int64_t number)
{
	char		text[160];

	token[0] = '\0';
	snprintf(text, sizeof(text), "INSERT INTO entry VALUES (%" PRId64 ", 'append')", number);
	return run(text, true);
}

static Result
run_of_rows(int64_t number)
{
	char		text[160];
	const char *commands[] = {text};

	snprintf(text, sizeof(text), "INSERT INTO entry SELECT %" PRId64 ", 'run ' || i FROM generate_series(1, %d) i",
			 number, ROWS_OF_RUN);
	return in_block(commands, 1);
}

static Result
savepoint(int64_t number)
{
	char		text[2][160];
	const char *commands[] = {text[0], "SAVEPOINT s", text[1], "ROLLBACK TO s"};

	snprintf(text[0], sizeof(text[0]), "INSERT INTO entry VALUES (%" PRId64 ", 'kept')", number);
	snprintf(text[1], sizeof(text[1]), "INSERT INTO entry VALUES (%" PRId64 ", 'rolled back')", -number);
	return in_block(commands, 4);
}

/* On the tables that everybody writes, and on tables of its own. */
static Result
ddl(int64_t number)
{
	static int64_t made;		/* a table of ours, 0 = none */
	static int64_t index;		/* the number in an index' name, a column's name */
	static int64_t column;
	char		text[3][200] = {"", "", ""};
	const char *commands[] = {text[0], text[1], text[2]};
	int64_t    *kept = NULL;
	int64_t		keep = number;
	char		note[40] = "ddl";
	Result		result;

	switch (pick(5))
	{
		case 0:
			kept = &made;
			if (made != 0)
			{
				keep = 0;
				snprintf(note, sizeof(note), "drop %" PRId64, made);
				snprintf(text[0], sizeof(text[0]), "DROP TABLE made_%" PRId64, made);
				break;
			}
			strcpy(note, "create");
			snprintf(text[0], sizeof(text[0]), "CREATE TABLE made_%" PRId64 " (id int PRIMARY KEY, v text)", number);
			snprintf(text[1], sizeof(text[1]), "INSERT INTO made_%" PRId64 " SELECT i, i FROM generate_series(1, 5) i", number);
			break;
		case 1:
			snprintf(text[0], sizeof(text[0]), "ALTER TABLE entry ALTER note SET DEFAULT '%" PRId64 "'", number);
			break;
		case 2:
			kept = &index;
			snprintf(text[0], sizeof(text[0]), "DROP INDEX IF EXISTS ledger_%" PRId64, index);
			snprintf(text[1], sizeof(text[1]), "CREATE INDEX ledger_%" PRId64 " ON ledger (amount) WHERE source = 1", number);
			break;
		case 3:
			kept = &column;
			snprintf(text[0], sizeof(text[0]), "ALTER TABLE account DROP COLUMN IF EXISTS c_%" PRId64
					 ", ADD COLUMN c_%" PRId64 " text DEFAULT 'x'", column, number);
			break;
		default:
			strcpy(text[0], "TRUNCATE scratch");
			snprintf(text[1], sizeof(text[1]), "INSERT INTO scratch SELECT i, %" PRId64 " FROM generate_series(1, 3) i", number);
			break;
	}
	if (text[1][0] == '\0')
		strcpy(text[1], "SELECT 1");	/* libpq takes no empty command for a success */
	snprintf(text[2], sizeof(text[2]), "INSERT INTO entry VALUES (%" PRId64 ", '%s')", number, note);
	result = in_block(commands, 3);
	if (kept != NULL && result != FAILED)
		*kept = keep;
	if (strcmp(sqlstate, "42P01") == 0)
		made = 0;				/* its outcome was unknown: it is not there, or not
								 * yet */
	return result;
}

static void
one(int64_t number)
{
	const struct
	{
		const char *kind;
		int			below;
		int			rows;
		Result		(*run) (int64_t number);
	}			kinds[] = {
		{"ddl", ddl_per_mille, 1, ddl},
		{"transfer", 600, 1, transfer},
		{"append", 850, 1, append},
		{"run", 930, ROWS_OF_RUN, run_of_rows},
		{"savepoint", 1000, 1, savepoint},
	};
	int			dice = pick(1000);
	int			k = 0;
	uint64_t	start = now_us();
	Result		result;

	while (dice >= kinds[k].below)
		k++;
	token[0] = '\0';
	result = kinds[k].run(number);
	write_down(kinds[k].kind, number, kinds[k].rows, result, now_us() - start);
	if (strcmp(sqlstate, "57P03") == 0)
		pause_ms(20);			/* the node takes no writes */
}

int
main(int argc, char **argv)
{
	int64_t		number;
	struct sigaction sa = {.sa_handler = on_term};

	if (argc != 5)
	{
		fprintf(stderr, "usage: writer CONNINFO NUMBER SEED LOG\n");
		return 2;
	}
	if (getenv("LOCKSTEP_SOAK_DDL") != NULL)
		ddl_per_mille = atoi(getenv("LOCKSTEP_SOAK_DDL"));
	number = atoll(argv[2]) * PER_WRITER;
	srandom((unsigned) atol(argv[3]));
	log_fd = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (log_fd < 0)
	{
		perror("writer: log");
		return 1;
	}
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	while (connected(argv[1]))
		one(++number);
	if (conn != NULL)
		PQfinish(conn);
	return 0;
}
