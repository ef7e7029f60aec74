/*
 * savepoints.c
 *	  The savepoints of the transaction, and the commands that set and end them.
 *
 * A transaction that another node's is waiting for is ended while its client is idle
 * (lockconflict.c), and an empty one takes its place.  The client believes that it is in the
 * old one, and may send ROLLBACK TO SAVEPOINT.  A driver that undoes a nested transaction
 * cannot cope with an error of that command.  So the new transaction gets the same savepoints.
 * PostgreSQL keeps their names to itself; here they are learned from the commands.
 *
 * A name is recorded when its subtransaction starts, at the nesting level of that.  ROLLBACK TO
 * starts one of the same name.  A level that is started or released takes all above it off the list.
 * An aborted one stays, as ROLLBACK TO is possible after an error.  Subtransactions without a
 * name (exception blocks of PL/pgSQL) are gone when the client is idle.
 */
#include "postgres.h"

#include <ctype.h>

#include "utils/memutils.h"

#include "savepoints.h"

typedef struct Savepoint
{
	int			level;
	char		name[NAMEDATALEN];
} Savepoint;

static Savepoint *savepoints = NULL;	/* a stack */
static int	nsavepoints = 0;
static int	capacity = 0;

/* Of the subtransaction that the command starts when it ends; "": none. */
static char starting[NAMEDATALEN] = "";

/* ---------- which there are */

void
savepoints_ran(const TransactionStmt *stmt)
{
	if (stmt->kind == TRANS_STMT_SAVEPOINT || stmt->kind == TRANS_STMT_ROLLBACK_TO)
		strlcpy(starting, stmt->savepoint_name, sizeof(starting));
}

static void
push(int level)
{
	if (nsavepoints == capacity)
	{
		int			wanted = Max(8, capacity * 2);
		Size		size = mul_size(wanted, sizeof(Savepoint));

		savepoints = savepoints == NULL ? MemoryContextAlloc(TopMemoryContext, size) :
			repalloc_huge(savepoints, size);
		capacity = wanted;
	}
	savepoints[nsavepoints].level = level;
	strlcpy(savepoints[nsavepoints].name, starting, NAMEDATALEN);
	nsavepoints++;
	starting[0] = '\0';
}

static void
pop_from(int level)
{
	while (nsavepoints > 0 && savepoints[nsavepoints - 1].level >= level)
		nsavepoints--;
}

void
savepoints_on_subxact(SubXactEvent event, int level)
{
	if (event != SUBXACT_EVENT_START_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	pop_from(level);
	if (event == SUBXACT_EVENT_START_SUB && starting[0] != '\0')
		push(level);
}

void
savepoints_at_xact_end(void)
{
	nsavepoints = 0;
	starting[0] = '\0';
}

List *
savepoints_names(void)
{
	List	   *names = NIL;

	for (int i = 0; i < nsavepoints; i++)
		names = lappend(names, pstrdup(savepoints[i].name));
	return names;
}

void
savepoints_set(List *names)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		StartTransactionCommand();
		DefineSavepoint(lfirst(lc));
		strlcpy(starting, lfirst(lc), sizeof(starting));
		CommitTransactionCommand();
	}
}

/* ---------- the text of a command */

static const char *
skip_line_comment(const char *s)
{
	while (*s != '\0' && *s != '\n' && *s != '\r')
		s++;
	return s;
}

/* They nest. */
static const char *
skip_block_comment(const char *s)
{
	int			depth = 0;

	do
	{
		if (s[0] == '/' && s[1] == '*')
		{
			depth++;
			s += 2;
		}
		else if (s[0] == '*' && s[1] == '/')
		{
			depth--;
			s += 2;
		}
		else if (*s != '\0')
			s++;
	} while (depth > 0 && *s != '\0');
	return s;
}

/* What lies between words, and between commands. */
static const char *
skip_space(const char *s)
{
	for (;;)
	{
		if (*s == ' ' || (*s >= '\t' && *s <= '\r') || *s == ';')
			s++;
		else if (s[0] == '-' && s[1] == '-')
			s = skip_line_comment(s);
		else if (s[0] == '/' && s[1] == '*')
			s = skip_block_comment(s);
		else
			return s;
	}
}

static const char *
skip_command(const char *s)
{
	bool		quoted = false;

	for (; *s != '\0' && (quoted || *s != ';'); s++)
		quoted ^= *s == '"';
	return s;
}

static bool
starts_with_word(const char *s, const char *word)
{
	size_t		len = strlen(word);

	return pg_strncasecmp(s, word, len) == 0 && (unsigned char) s[len] < 0x80 &&
		!isalnum((unsigned char) s[len]) && s[len] != '_' && s[len] != '$';
}

bool
savepoints_is_command(const char *text)
{
	static const char *const words[] = {"savepoint", "release", "rollback", "abort"};
	const char *s = skip_space(text);

	if (*s == '\0')
		return false;
	for (; *s != '\0'; s = skip_space(skip_command(s)))
	{
		bool		found = false;

		for (int i = 0; i < lengthof(words) && !found; i++)
			found = starts_with_word(s, words[i]);
		if (!found)
			return false;
	}
	return true;
}
