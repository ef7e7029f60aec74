/*
 * protocol.h
 *	  The one definition of the wire format between a backend (extension/) and
 *	  the replicator, compiled into both.
 *
 * A message is one printable type byte, a 4 byte big-endian payload length
 * (the 5 header bytes not counted) and the payload: a sequence of fields, each
 * a tag byte, a 4 byte big-endian length and that many bytes.  Integers inside
 * a field are big-endian and have the width that the table below gives.  A
 * decoder skips unknown lower-case tags (so that the format can grow) and
 * refuses unknown upper-case ones (so that a change of meaning is noticed).  A
 * field given twice is an error, but for those marked "repeated".
 *
 * Encoders write into the caller's buffer and return the number of bytes that
 * the whole message takes, writing nothing if that is more than cap: call with
 * cap 0 to learn the size.  Decoders never allocate, never read outside the
 * payload, and hand out slices that point into it.  Neither does any I/O.
 *
 * Life of a connection (B backend, R replicator):
 *
 *	 B 'H' hello  ->            R: version, names and cluster id checked
 *	   <- 'C' challenge         R's nonce
 *	 B 'A' proof  ->            HMAC-SHA-256 over both nonces (see auth.h)
 *	   <- 'W' welcome           R's own proof: authentication is mutual; an error before
 *	                            it may come from any process; clients do not see its text
 *	 then, for each transaction that changes something:
 *	 B 'L' lock   ->            only before DDL, TRUNCATE, LOCK TABLE
 *	   <- 'l' granted
 *	 B 'B' unlock ->            the subtransaction that asked went away, no answer
 *	 B 'Q' query  ->            streamed, no answer
 *	 B 'R' rollback-to ->       a subtransaction went away, no answer
 *	 B 'P' ask    ->
 *	   <- 'V' verdict           'c' committed at seq, or 'r' rolled back + error
 *	   <- 'Y' applied           commit_wait = applied: every online peer has it
 *	 B 'D' withdraw ->          instead of waiting any longer
 *	   <- 'V' verdict           'w' withdrawn, or the decision that came first
 *	 B 'F' confirm ->           local commit done up to seq (also a field of 'P')
 *	 B 'Z' abandon ->           the transaction is rolled back, no answer
 *	 at any time but between 'P' and its verdict:
 *	 B 'N' now ->               how far has the cluster come?  (causal reads)
 *	   <- 'n' seq               the last decided transaction that any client may know of
 *	 B 'O' outcome ->           what became of a transaction, of whatever backend
 *	   <- 'o' outcome is
 *	   <- 'K' alive             every second, to who waits for an answer
 *	 B 'S' lease  ->            values of a sequence, or of another named thing
 *	   <- 's' leased
 *	 B 'U' single ->            a query that is ordered at once, whatever becomes
 *	   <- 'u' ordered           of the transaction in which it was run
 *	 B 'T' database ->          CREATE, DROP or ALTER DATABASE RENAME on all nodes
 *	   <- 't' database done
 *	 B 'I' facts ask ->         what the replicator knows, for people
 *	   <- 'i' facts
 *	 B 'J' report ->            a conflict that this node found by itself, no answer
 *	 at any time:
 *	   <- 'E' error             then the replicator closes the connection
 *
 * Version history: 1 (2026-11) first version; 'N', 'n', 'O', 'o', 'K',
 * 'S', 's', 'U', 'u', 'T', 't', 'I', 'i', 'J', 'B', the fields 'c' of 'V', 'N' of 'l', 'u' and 'x'
 * of 'H', 'd' of 'P', 'P' of 'Q', 'g' and 'r' of 'W', 'r' of 'T', 'd' and 'p' of 'L', and the form
 * 'p' of 'Q' were added.
 */
#ifndef LOCKSTEP_PROTOCOL_H
#define LOCKSTEP_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LS_PROTOCOL_VERSION 1
#define LS_HEADER_SIZE 5
#define LS_MAX_PAYLOAD (1u << 30)	/* after authentication */
#define LS_MAX_HELLO 4096		/* before it */
#define LS_MAX_NAME 63			/* node and database names, bytes */
#define LS_NONCE_SIZE 32
#define LS_PROOF_SIZE 32
#define LS_SERVER_KEY_SIZE 32
#define LS_SQLSTATE_SIZE 5
#define LS_MAX_PARAMS 65535
#define LS_ROWS_LEFT_OUT INT64_MAX	/* in place of a number: see
									 * extension/node/unlogged.c */
#define LS_MAX_TOGETHER 256		/* transactions that a node that catches up
								 * may commit as one */

typedef enum LsMsgType
{
	LS_MSG_HELLO = 'H',
	LS_MSG_CHALLENGE = 'C',
	LS_MSG_PROOF = 'A',
	LS_MSG_WELCOME = 'W',
	LS_MSG_LOCK = 'L',
	LS_MSG_GRANTED = 'l',
	LS_MSG_UNLOCK = 'B',
	LS_MSG_QUERY = 'Q',
	LS_MSG_ROLLBACK_TO = 'R',
	LS_MSG_ASK = 'P',
	LS_MSG_WITHDRAW = 'D',
	LS_MSG_VERDICT = 'V',
	LS_MSG_APPLIED = 'Y',
	LS_MSG_CONFIRM = 'F',
	LS_MSG_ABANDON = 'Z',
	LS_MSG_NOW = 'N',
	LS_MSG_SEQ = 'n',
	LS_MSG_ALIVE = 'K',
	LS_MSG_FATE = 'O',
	LS_MSG_FATE_IS = 'o',
	LS_MSG_LEASE = 'S',
	LS_MSG_LEASED = 's',
	LS_MSG_ALONE = 'U',
	LS_MSG_ORDERED = 'u',
	LS_MSG_DATABASE = 'T',
	LS_MSG_DATABASE_DONE = 't',
	LS_MSG_FACTS_ASK = 'I',
	LS_MSG_FACTS = 'i',
	LS_MSG_LOST = 'J',
	LS_MSG_ERROR = 'E'
} LsMsgType;

typedef enum LsSender
{
	LS_FROM_BACKEND,
	LS_FROM_REPLICATOR
} LsSender;

/* The table of messages in protocol.c. */
extern const char *ls_message_name(uint8_t type);	/* NULL: there is none */
extern LsSender ls_message_sender(LsMsgType type);
extern bool ls_message_is_late(LsMsgType type); /* may come when it is no
												 * longer awaited */

/* Bytes that are not owned. */
typedef struct LsSlice
{
	const uint8_t *data;
	size_t		len;
} LsSlice;

/* Of a C string; NULL gives no bytes. */
static inline LsSlice
ls_slice_of(const char *text)
{
	LsSlice		s = {(const uint8_t *) text, text != NULL ? strlen(text) : 0};

	return s;
}

/*
 * In the DETAIL of an error: parts that only those may see who may read these
 * tables (replicator/protocol/masked_text.c, extension/node/masking.c); without any table, only those
 * who may see everything.
 */
#define LS_MASK_BEGIN '\002'	/* the names of the tables follow */
#define LS_MASK_AND '\036'		/* between two of them */
#define LS_MASK_TEXT '\037'		/* the part follows */
#define LS_MASK_END '\003'

/*
 * Keys.  A row key stands for one value of one index (or one row of a table
 * without a key), a table key for a whole table, a database or "all DDL".
 * Conflicts: see ls_modes_conflict().
 */
typedef enum LsKeyMode
{
	LS_ROW_SHARE = 's',			/* a foreign key's parent; an inserted keyless
								 * row */
	LS_ROW_UPDATE = 'u',		/* updated, no column of a unique index
								 * changed */
	LS_ROW_EXCLUSIVE = 'x',		/* inserted, deleted, key changed */
	LS_ROW_LOCK = 'h',			/* locked FOR SHARE */
	LS_ROW_READ = 'r',			/* read by a SERIALIZABLE transaction */
	LS_TABLE_IS = 'i',			/* rows of it are referred to */
	LS_TABLE_IX = 'I',			/* rows of it are written */
	LS_TABLE_S = 'S',			/* read as a whole */
	LS_TABLE_X = 'X',			/* DDL, TRUNCATE, escalation */
	LS_TABLE_READ_ROWS = 'q',	/* rows of it are read (SERIALIZABLE) */
	LS_TABLE_READ = 'R'			/* the same, of any rows */
} LsKeyMode;

typedef struct LsKey
{
	uint64_t	hash;			/* of (database, table, index, values) */
	uint64_t	seen;			/* S: the origin had applied up to here when
								 * the fact behind the key became fixed */
	LsKeyMode	mode;
	LsSlice		name;			/* for people: schema.table and index; <= 255
								 * bytes */
} LsKey;

/* Form of a forwarded query. */
typedef enum LsForm
{
	LS_FORM_STATEMENT = 's',	/* as written by the user (parameters,
								 * settings) */
	LS_FORM_ROW = 'r',			/* one changed row */
	LS_FORM_KEYS = 'k',			/* nothing to execute: keys of what was read
								 * or locked */
	LS_FORM_COPY = 'c',			/* a run of inserted rows: text is COPY ...
								 * FROM STDIN, one parameter, COPY text format */
	LS_FORM_PIECE = 'p'			/* its one parameter is a part of the next
								 * query's params, which are too large for one
								 * message */
} LsForm;

/* Why a query was forwarded, and in this form.  ls_reason_text() has words. */
typedef enum LsReason
{
	LS_REASON_ROW_CHANGED = 'r',	/* rows are always exact */
	LS_REASON_ROW_RUN = 'n',	/* consecutive inserts into one table */
	LS_REASON_UTILITY = 'u',	/* utility command */
	LS_REASON_SHIPPABLE = 's',	/* self-contained, deterministic DML */
	LS_REASON_READ = 'k',		/* rows and tables that it read or locked */
	LS_REASON_SELECT_WROTE = 'w',	/* a SELECT that wrote WAL */
	LS_REASON_CALL = 'f',		/* a function whose effect is no row: NOTIFY,
								 * large objects */
	LS_REASON_SEQUENCE = 'q'	/* the position of a sequence; see lease.h */
} LsReason;

/* A transaction's name, unique for ever. */
typedef struct LsIdentity
{
	LsSlice		node;			/* name of the origin */
	uint64_t	boot;			/* random, per start of the server */
	uint32_t	pid;
	uint64_t	xcount;			/* counter of the session, from 1 */
} LsIdentity;

/* 'H' */
typedef struct LsHello
{
	uint32_t	version;		/* 'V' u32 */
	LsSlice		node;			/* 'N' text, 1..LS_MAX_NAME */
	LsSlice		database;		/* 'D' text, 1..LS_MAX_NAME */
	LsSlice		cluster;		/* 'C' text, identity of the cluster */
	uint64_t	boot;			/* 'B' u64 */
	uint32_t	pid;			/* 'P' u32, > 0 */
	LsSlice		nonce;			/* 'R' LS_NONCE_SIZE bytes */
	LsSlice		application;	/* 'a' text, optional: for status */
	LsSlice		role;			/* 'u' text, optional: who logged in; shares
								 * are by role */
	uint64_t	over;			/* 'x' u64, optional: transactions with
								 * numbers up to it are over, or will never
								 * come by this connection */
	LsSlice		channel;		/* not sent: what is this TLS connection's
								 * alone (RFC 9266); empty in the clear */
} LsHello;

/* 'C': 'V' u32 version, 'R' nonce */
typedef struct LsChallenge
{
	uint32_t	version;
	LsSlice		nonce;
} LsChallenge;

/* 'A' */
typedef struct LsProof
{
	LsSlice		proof;			/* 'A' LS_PROOF_SIZE bytes: it has the secret */
	LsSlice		server_proof;	/* 'k' optional, the same by the key of its
								 * server: see extension/node/serverkey.c */
} LsProof;

typedef enum LsRefused
{
	LS_REFUSED = 1,
	LS_REFUSED_FOR_NOW			/* its node is being attached: it may try
								 * again */
} LsRefused;

/*
 * 'W': as 'A', and which replicator it is: a backend takes nothing from one whose
 * generation is not the one that its node follows.
 */
typedef struct LsWelcome
{
	LsSlice		proof;
	uint64_t	generation;		/* 'g' u64, optional: 0 of an earlier version,
								 * or if the node knows of none */
	uint64_t	run;			/* 'r' u64, optional */
	uint64_t	refused;		/* 'R' u64, an LsRefused if not 0: the backend
								 * is refused, an error follows, and this
								 * proves whose it is */
	LsSlice		server_proof;	/* 'k' optional, as in 'A' */
} LsWelcome;

/* 'Q'.  Also, as they are, the statements of a journal record. */
typedef struct LsQuery
{
	uint64_t	xcount;			/* 'X' u64 */
	LsForm		form;			/* 'F' u8 */
	LsReason	reason;			/* 'W' u8 */
	LsSlice		text;			/* 'T' text, not empty */
	LsSlice		settings;		/* 'G' optional: name NUL value NUL ... */
	int64_t		rows;			/* 'N' i64: rows changed at the origin, -1 =
								 * any */
	uint32_t	nparams;
	LsSlice		params;			/* 'M' optional: per parameter i32 length (-1
								 * = NULL) and the text; ls_next_param() */
	uint32_t	nkeys;
	LsSlice		keys;			/* 'K' optional: per key u64 hash, u64 seen,
								 * u8 mode, u8 name length, name;
								 * ls_next_key() */
	bool		ddl;			/* 'U' u8 0/1: changes the catalogs */
	uint64_t	pieces;			/* 'P' u64, optional: bytes of its params,
								 * which came in pieces; of forms 'r' and 'c' */
} LsQuery;

/* So much of its params is one piece, at most. */
#define LS_PIECE_SIZE (128 * 1024)

/* How the text of a step of CREATE or DROP INDEX CONCURRENTLY begins: the sequencer knows
 * it by that. */
#define LS_INDEX_STEP "SELECT lockstep.apply_index("

/*
 * 'R': keep the first n statements of the transaction.  'B': keep what its first
 * n messages 'L' asked for, and give back the rest.  'X' u64, 'N' u64
 */
typedef struct LsRollbackTo
{
	uint64_t	xcount;
	uint64_t	keep;
} LsRollbackTo;

/* 'L': 'X' u64, 'K' keys as in 'Q' (no reads; 'q': not before who has asked for
 * the table), 'U' u8 wants the ddl lock, 'y' u64 (optional): 1 if the locks keep only
 * those waiting that request them, too, and no transaction that asks to commit; of the ddl
 * lock 'd' u64 (optional): the hash of the database that the command changes, 0 if it
 * changes what all have in common, 'p' u64 (optional): 1 if other such commands of the node
 * need not wait for it, nor it for them */
typedef struct LsLock
{
	uint64_t	xcount;
	uint32_t	nkeys;
	LsSlice		keys;
	bool		ddl;
	uint64_t	yields;
	uint64_t	scope;
	uint64_t	parallel;
} LsLock;

/*
 * 'l': 'X' u64, 'S' u64: go on when this node has applied up to it; 'N' u64: what
 * the first N messages 'L' of the transaction asked for is granted, as far as it
 * was not given back.  'n': 'X' and 'S', X being the number that 'N' gave.
 */
typedef struct LsGranted
{
	uint64_t	xcount;
	uint64_t	seq;
	uint64_t	asked;			/* of 'l' only */
} LsGranted;

typedef enum LsCommitWait
{
	LS_WAIT_ORDERED = 'o',
	LS_WAIT_EXECUTED = 'e',
	LS_WAIT_APPLIED = 'a'
} LsCommitWait;

/* 'P' */
typedef struct LsAsk
{
	uint64_t	xcount;			/* 'X' u64 */
	uint64_t	nstatements;	/* 'N' u64: must be what the replicator
								 * counted */
	LsCommitWait wait;			/* 'W' u8 */
	uint64_t	applied;		/* 'S' u64: highest turn passed on this node */
	uint64_t	confirmed;		/* 'F' u64: this session's last local commit,
								 * 0 none */
	uint64_t	took_ms;		/* 'd' u64, optional: since it began, if it is
								 * longer than LS_QUICK_MS */
	uint64_t	certain;		/* 'c' u64, optional: not 0 if no node that
								 * has the same data can refuse its rows */
	uint64_t	waited_for;		/* 'w' u64, optional: not 0 if another backend
								 * of its node waits until it ends */
} LsAsk;

#define LS_QUICK_MS 100

typedef enum LsOutcome
{
	LS_OUTCOME_COMMITTED = 'c', /* decided: it has a seq */
	LS_OUTCOME_ROLLED_BACK = 'r',	/* never decided: sqlstate, message ...
									 * say why */
	LS_OUTCOME_WITHDRAWN = 'w'	/* never decided, as the backend wished */
} LsOutcome;

/* Error fields, of 'E' and inside 'V': 'q' sqlstate, 'm' message, 'd' detail, 'h' hint */
typedef struct LsErrorFields
{
	LsSlice		sqlstate;		/* LS_SQLSTATE_SIZE bytes [0-9A-Z] */
	LsSlice		message;
	LsSlice		detail;			/* optional */
	LsSlice		hint;			/* optional */
} LsErrorFields;

/*
 * 'V': 'X' u64, 'O' u8, 'S' u64 (seq, committed only), 'c' u64 (chain, optional,
 * committed only), 'a' u64 (after, optional, rolled back only), 'k' (contended,
 * optional, not withdrawn), error fields (rolled back only)
 */
#define LS_MAX_CONTENDED 8
#define LS_CONTENDED_MS 5000	/* a row is contended for as long after nodes
								 * have fought over it, and a node that was
								 * told asks first for as long */
typedef struct LsVerdict
{
	uint64_t	xcount;
	LsOutcome	outcome;
	uint64_t	seq;
	uint64_t	chain;			/* what the journal's history is known by at
								 * seq (journal.h); 0: not told */
	uint64_t	after;			/* a retry loses again before this node has
								 * applied up to it; 0: not known */
	LsSlice		contended;		/* u64 each, at most LS_MAX_CONTENDED: hashes
								 * of its rows' keys that several nodes want */
	LsErrorFields error;
} LsVerdict;

/*
 * 'S': values of a named thing in the session's database, for this node.
 * Answers come in the order of the questions.
 */
#define LS_MAX_THING 511
typedef struct LsLease
{
	uint64_t	id;				/* 'X' u64: repeated in the answer */
	LsSlice		name;			/* 'N' text, 1..LS_MAX_THING */
	int64_t		increment;		/* 'I' i64, not 0 */
	int64_t		min;			/* 'L' i64 */
	int64_t		max;			/* 'H' i64 */
	bool		cycle;			/* 'C' u8 */
	int64_t		value;			/* 'V' i64: the position on this node: last
								 * value */
	bool		called;			/* 'Z' u8: it has been used */
	uint64_t	wanted;			/* 'W' u64: not fewer, if there are so many */
	uint64_t	applied;		/* 'S' u64: this node had applied up to here
								 * when it looked at all this */
	LsSlice		keys;			/* 'K' optional: keys as in 'Q', of a
								 * transaction that changes its position */
} LsLease;

/* 's': one of: values, none any more (count and seq 0), ask again later */
typedef struct LsLeased
{
	uint64_t	id;				/* 'X' u64 */
	int64_t		first;			/* 'F' i64 */
	uint64_t	count;			/* 'C' u64: first, first + increment, ... */
	uint64_t	seq;			/* 'S' u64: ask again when this is applied */
} LsLeased;

/* 'U' */
typedef struct LsSingleQuery
{
	uint64_t	id;				/* 'X' u64: an xcount of its own */
	LsSlice		query;			/* 'Q' a whole 'Q' message with that xcount */
} LsSingleQuery;

/* 'u': ordered at seq, or (seq 0) why not; error fields as in 'V' */
typedef struct LsOrdered
{
	uint64_t	id;				/* 'X' u64 */
	uint64_t	seq;			/* 'S' u64 */
	LsErrorFields error;
} LsOrdered;

typedef enum LsDatabaseKind
{
	LS_DATABASE_CREATE = 'c',
	LS_DATABASE_DROP = 'd',
	LS_DATABASE_RENAME = 'r'
} LsDatabaseKind;

/* 'T' */
typedef struct LsDatabase
{
	uint64_t	id;				/* 'X' u64: repeated in the answer */
	LsDatabaseKind kind;		/* 'K' u8 */
	LsSlice		name;			/* 'N' text, 1..LS_MAX_NAME */
	LsSlice		command;		/* 'Q' text: CREATE DATABASE with its options
								 * but the OID, in UTF-8; of RENAME: the new
								 * name; else empty */
	bool		force;			/* 'F' u8 0/1: its sessions are ended */
	bool		superuser;		/* 'S' u8 0/1: also those of superusers */
	LsSlice		role;			/* 'r' text: of DROP, who ends them; empty: a
								 * node that does not say */
} LsDatabase;

#define LS_MAX_DATABASE_COMMAND 65536

/* 't': done, or (error fields as in 'V') why not */
typedef struct LsDatabaseDone
{
	uint64_t	id;				/* 'X' u64 */
	LsErrorFields error;
} LsDatabaseDone;

/*
 * 'D' withdraw, 'Z' abandon: 'X' u64.  'Y' applied: 'X' u64.  'F' confirm: 'X' u64 =
 * seq.  'N' now: 'X' u64, a number by which the answer is known
 */
typedef struct LsNumber
{
	uint64_t	value;
} LsNumber;

/* 'O': what became of that transaction? */
typedef struct LsOutcomeQuestion
{
	LsIdentity	identity;		/* 'N' text, 'B' u64, 'P' u32, 'X' u64 */
	uint64_t	since;			/* 'S' u64: its origin had applied up to here
								 * when it began: its seq, if any, is higher */
	uint64_t	question;		/* 'Q' u64: repeated in the answer */
	bool		gave_up;		/* 'G' u8 0/1: its backend has rolled it back
								 * without knowing: if it isn't decided, it
								 * never will be */
} LsOutcomeQuestion;

typedef enum LsPastOutcome
{
	LS_PAST_COMMITTED = 'c',	/* decided at seq, durable */
	LS_PAST_ABORTED = 'r',		/* not decided, and never will be */
	LS_PAST_IN_PROGRESS = 'p',	/* open, or its record is being written */
	LS_PAST_UNKNOWN = 'u'		/* too long ago to be remembered */
} LsPastOutcome;

/*
 * 'o': 'Q' u64, 'O' u8, 'S' u64: of a decided one its seq; of any other the last
 * seq decided: a node that has applied that far has all that there is of it.
 */
typedef struct LsOutcomeAnswer
{
	uint64_t	question;
	LsPastOutcome fate;
	uint64_t	seq;
} LsOutcomeAnswer;

typedef enum LsFactsKind
{
	LS_FACTS_CONFLICTS = 'r',	/* the last ones: see
								 * replicator/sequencer/conflict_log.h */
	LS_FACTS_COUNTS = 'c',		/* how many of them, by table */
	LS_FACTS_WINNER = 'w',		/* node and pid of the transaction with a seq */
	LS_FACTS_WAITS = 'g',		/* who waits for whom: see
								 * replicator/waits/waits_rows.h */
	LS_FACTS_NODES = 'n',		/* the nodes, as lockstepctl shows them */
	LS_FACTS_EVENTS = 'e',		/* what has happened lately */
	LS_FACTS_LOCAL_CHANGE = 'l' /* the last seq decided before it is known
								 * that who asks commits a change of its node
								 * alone */
} LsFactsKind;

/* 'I' */
typedef struct LsFactsQuestion
{
	uint64_t	question;		/* 'Q' u64: repeated in the answer */
	LsFactsKind kind;			/* 'W' u8 */
	uint64_t	seq;			/* 's' u64, optional: of LS_FACTS_WINNER */
} LsFactsQuestion;

/* 'i': a table of texts; columns may be added at the end */
typedef struct LsFacts
{
	uint64_t	question;		/* 'Q' u64 */
	uint32_t	ncolumns;		/* 'C' u32, > 0 */
	uint32_t	ncells;
	LsSlice		cells;			/* 'M' optional: as params of 'Q', row by row */
} LsFacts;

typedef enum LsConflictReason
{
	LS_LOST_UPDATE = 'u',		/* PostgreSQL found a row changed by seq */
	LS_LOST_QUEUE = 'q',		/* waited too long for a row */
	LS_LOST_DOUBT = 'd'			/* ran while the outcome of another was not
								 * known */
} LsConflictReason;

/* 'J' */
typedef struct LsConflictReport
{
	uint64_t	xcount;			/* 'X' u64: number of the transaction that
								 * lost, 0: it has none */
	LsConflictReason reason;	/* 'R' u8 */
	uint64_t	seq;			/* 's' u64, optional: the winner's */
	LsSlice		key;			/* 'k' text, optional: as a key's name */
	LsSlice		detail;			/* 'd' text, optional */
} LsConflictReport;

/* Result of looking at the front of a receive buffer. */
typedef enum LsFrame
{
	LS_FRAME_OK,
	LS_FRAME_MORE,				/* not all of it has arrived */
	LS_FRAME_BAD				/* unknown type or larger than max_payload */
} LsFrame;

/*
 * Look at a buffer's front.  On LS_FRAME_OK *type and *payload are set and the
 * message takes LS_HEADER_SIZE + payload->len bytes.
 */
extern LsFrame ls_frame(const uint8_t *buf, size_t len, uint32_t max_payload,
						LsMsgType *type, LsSlice *payload);

/*
 * Encoders: bytes needed; the message is there only if they are <= cap, else what is in buf, up to
 * cap, is of no use.  SIZE_MAX when the message would be larger than LS_MAX_PAYLOAD.
 */
extern size_t ls_put_hello(uint8_t *buf, size_t cap, const LsHello *m);
extern size_t ls_put_challenge(uint8_t *buf, size_t cap, const LsChallenge *m);
extern size_t ls_put_proof(uint8_t *buf, size_t cap, const LsProof *m);
extern size_t ls_put_welcome(uint8_t *buf, size_t cap, const LsWelcome *m);
extern size_t ls_put_query(uint8_t *buf, size_t cap, const LsQuery *m);
extern size_t ls_put_rollback_to(uint8_t *buf, size_t cap, const LsRollbackTo *m);
extern size_t ls_put_unlock(uint8_t *buf, size_t cap, const LsRollbackTo *m);
extern size_t ls_put_lock(uint8_t *buf, size_t cap, const LsLock *m);
extern size_t ls_put_granted(uint8_t *buf, size_t cap, const LsGranted *m);
extern size_t ls_put_seq(uint8_t *buf, size_t cap, const LsGranted *m); /* LS_MSG_SEQ */
extern size_t ls_put_ask(uint8_t *buf, size_t cap, const LsAsk *m);
extern size_t ls_put_verdict(uint8_t *buf, size_t cap, const LsVerdict *m);
extern size_t ls_put_lease(uint8_t *buf, size_t cap, const LsLease *m);
extern size_t ls_put_leased(uint8_t *buf, size_t cap, const LsLeased *m);
extern size_t ls_put_single_query(uint8_t *buf, size_t cap, const LsSingleQuery *m);
extern size_t ls_put_database(uint8_t *buf, size_t cap, const LsDatabase *m);
extern size_t ls_put_database_done(uint8_t *buf, size_t cap, const LsDatabaseDone *m);
extern size_t ls_put_ordered(uint8_t *buf, size_t cap, const LsOrdered *m);
extern size_t ls_put_error(uint8_t *buf, size_t cap, const LsErrorFields *m);
extern size_t ls_put_outcome_question(uint8_t *buf, size_t cap, const LsOutcomeQuestion *m);
extern size_t ls_put_outcome_answer(uint8_t *buf, size_t cap, const LsOutcomeAnswer *m);
extern size_t ls_put_facts_question(uint8_t *buf, size_t cap, const LsFactsQuestion *m);
extern size_t ls_put_facts(uint8_t *buf, size_t cap, const LsFacts *m);
extern size_t ls_put_conflict_report(uint8_t *buf, size_t cap, const LsConflictReport *m);

/* type: LS_MSG_WITHDRAW, LS_MSG_ABANDON, LS_MSG_APPLIED, LS_MSG_CONFIRM, LS_MSG_NOW or
 * LS_MSG_ALIVE */
extern size_t ls_put_number(uint8_t *buf, size_t cap, LsMsgType type, uint64_t value);

/*
 * Decoders: NULL, or a static sentence saying what is wrong with the payload.
 * A missing mandatory field, a wrong width, a bad enum value, a malformed keys
 * or params field (they are walked once here, so that iterating can't fail)
 * are errors.
 */
extern const char *ls_get_hello(LsSlice payload, LsHello *m);
extern const char *ls_get_challenge(LsSlice payload, LsChallenge *m);
extern const char *ls_get_proof(LsSlice payload, LsProof *m);
extern const char *ls_get_welcome(LsSlice payload, LsWelcome *m);
extern const char *ls_get_query(LsSlice payload, LsQuery *m);

/*
 * One that has been accepted before: what is in it is not looked at again, nor are its
 * parameters and keys counted (nparams and nkeys are 0).  false: it is no such one;
 * whatever the bytes are, nothing outside of them is read, here or by ls_next_*().
 */
extern bool ls_take_query(LsSlice payload, LsQuery *m);
extern const char *ls_get_rollback_to(LsSlice payload, LsRollbackTo *m);	/* 'R' and 'B' */
extern const char *ls_get_lock(LsSlice payload, LsLock *m);
extern const char *ls_get_granted(LsSlice payload, LsGranted *m);	/* 'l' and 'n' */
extern const char *ls_get_ask(LsSlice payload, LsAsk *m);
extern const char *ls_get_verdict(LsSlice payload, LsVerdict *m);
extern const char *ls_get_lease(LsSlice payload, LsLease *m);
extern const char *ls_get_leased(LsSlice payload, LsLeased *m);
extern const char *ls_get_single_query(LsSlice payload, LsSingleQuery *m, LsQuery *query);
extern const char *ls_get_database(LsSlice payload, LsDatabase *m);
extern const char *ls_get_database_done(LsSlice payload, LsDatabaseDone *m);
extern const char *ls_get_ordered(LsSlice payload, LsOrdered *m);
extern const char *ls_get_error(LsSlice payload, LsErrorFields *m);
extern const char *ls_get_number(LsSlice payload, LsNumber *m);
extern const char *ls_get_outcome_question(LsSlice payload, LsOutcomeQuestion *m);
extern const char *ls_get_outcome_answer(LsSlice payload, LsOutcomeAnswer *m);
extern const char *ls_get_facts_question(LsSlice payload, LsFactsQuestion *m);
extern const char *ls_get_facts(LsSlice payload, LsFacts *m);
extern const char *ls_get_conflict_report(LsSlice payload, LsConflictReport *m);

/*
 * Packed lists.  ls_put_key/param append one element (bytes needed, written
 * only if <= cap); ls_next_* take one off the front of *rest and return false
 * at the end.  A NULL parameter has data == NULL.
 */
#define LS_MIN_KEY_SIZE 18
#define LS_MAX_KEY_SIZE (LS_MIN_KEY_SIZE + 255)
#define LS_PARAM_HEAD 4
extern size_t ls_put_key(uint8_t *buf, size_t cap, const LsKey *key);
extern size_t ls_put_param(uint8_t *buf, size_t cap, const char *text, size_t len); /* text NULL: NULL */
extern void ls_put_param_head(uint8_t *buf, uint32_t len);	/* of a text that stands
															 * LS_PARAM_HEAD further
															 * on */
extern bool ls_next_key(LsSlice *rest, LsKey *key);
extern bool ls_next_param(LsSlice *rest, LsSlice *param);
extern void ls_put_contended(uint8_t *buf, uint64_t hash);	/* 8 bytes */
extern bool ls_next_contended(LsSlice *rest, uint64_t *hash);
extern bool ls_next_setting(LsSlice *rest, LsSlice *name, LsSlice *value);

/*
 * The argument of lockstep.apply_transaction() and commit_transaction(): u64 each of
 * wait_for, first, seq and chain, then rows.
 */
typedef struct LsWork
{
	uint64_t	wait_for;		/* not before the node has applied it */
	uint64_t	first;			/* from this one to seq they are claimed; 0:
								 * not now */
	uint64_t	seq;			/* the transaction commits at it; 0: not
								 * decided yet */
	uint64_t	chain;			/* of the journal, with seq; 0: not known */
	LsSlice		rows;			/* a list of LsRow */
} LsWork;

#define LS_WORK_FIXED_SIZE 32	/* without rows, which come behind it */

extern void ls_put_work(uint8_t *buf, const LsWork *work);	/* the fixed part */
extern bool ls_get_work(LsSlice bytes, LsWork *work);	/* false: too short */

/*
 * A changed row: u32 length of the text (0: that of the row before), u32 length of
 * params, i64 rows, the text, params as in 'Q'.
 */
typedef struct LsRow
{
	LsSlice		text;			/* ls_next_row() leaves it, if there is none */
	int64_t		rows;			/* -1 = any */
	LsSlice		params;
} LsRow;

#define LS_ROW_FIXED_SIZE 16	/* without text and params */

extern size_t ls_put_row(uint8_t *buf, size_t cap, const LsRow *row);
extern bool ls_next_row(LsSlice *rest, LsRow *row);

/* Do two modes of one key exclude each other?  Row and table modes never meet. */
extern bool ls_modes_conflict(LsKeyMode a, LsKeyMode b);
extern bool ls_mode_is_table(LsKeyMode mode);

/*
 * Read modes are one-sided: who has read must not have missed a change, but
 * no later writer has missed the reader.
 */
extern bool ls_mode_is_read(LsKeyMode mode);
extern const char *ls_reason_text(LsReason reason);
extern const char *ls_form_text(LsForm form);	/* "statement", "row", "copy"
												 * ... */

/*
 * What both sides sign in the handshake: writes the bytes for the proof of
 * `role` ("backend" or "replicator") and returns their number, at most
 * LS_SIGNED_MAX.  The proof is HMAC-SHA-256(secret, these bytes).
 */
#define LS_SIGNED_MAX 512
extern size_t ls_signed_bytes(uint8_t *buf, size_t cap, const char *role,
							  const LsHello *hello, LsSlice challenge_nonce);

#endif							/* LOCKSTEP_PROTOCOL_H */
