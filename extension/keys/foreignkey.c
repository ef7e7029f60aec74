/*
 * foreignkey.c
 *	  Is a query one that a foreign key's own function runs?
 *
 * What such a query reads and locks needs no keys: capture.c makes those of the foreign key.
 * The server's functions that check foreign keys are replaced by ones that note that they
 * run.
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "foreignkey.h"
#include "patch.h"
#include "session.h"

/*
 * Executions that were going on when a foreign key's function was called, -1:
 * none is.  Its own query starts at that depth; what triggers read meanwhile
 * starts deeper.
 */
static int	foreign_key_depth = -1;

bool
foreignkey_starts_query(void)
{
	return foreign_key_depth >= 0 && nesting.executor == foreign_key_depth;
}

bool
foreignkey_runs_query(void)
{
	return foreign_key_depth >= 0 && nesting.executor == foreign_key_depth + 1;
}

void
foreignkey_at_xact_end(void)
{
	foreign_key_depth = -1;
}

#define FOREIGN_KEY_FUNCTIONS 12

static const Oid foreign_key_functions[FOREIGN_KEY_FUNCTIONS] = {
	F_RI_FKEY_CHECK_INS, F_RI_FKEY_CHECK_UPD,
	F_RI_FKEY_CASCADE_DEL, F_RI_FKEY_CASCADE_UPD,
	F_RI_FKEY_RESTRICT_DEL, F_RI_FKEY_RESTRICT_UPD,
	F_RI_FKEY_SETNULL_DEL, F_RI_FKEY_SETNULL_UPD,
	F_RI_FKEY_SETDEFAULT_DEL, F_RI_FKEY_SETDEFAULT_UPD,
	F_RI_FKEY_NOACTION_DEL, F_RI_FKEY_NOACTION_UPD
};

static PGFunction foreign_key_originals[FOREIGN_KEY_FUNCTIONS];

static Datum
foreign_key(FunctionCallInfo fcinfo, int i)
{
	Datum		result = (Datum) 0;
	int			outer = foreign_key_depth;

	foreign_key_depth = nesting.executor;
	PG_TRY();
	{
		result = foreign_key_originals[i] (fcinfo);
	}
	PG_FINALLY();
	{
		foreign_key_depth = outer;
	}
	PG_END_TRY();
	return result;
}

/* One for each, for a function in LANGUAGE internal may have another OID. */
#define FOREIGN_KEY(i) \
	static Datum foreign_key_##i(PG_FUNCTION_ARGS) { return foreign_key(fcinfo, i); }

FOREIGN_KEY(0)
FOREIGN_KEY(1)
FOREIGN_KEY(2)
FOREIGN_KEY(3)
FOREIGN_KEY(4)
FOREIGN_KEY(5)
FOREIGN_KEY(6)
FOREIGN_KEY(7)
FOREIGN_KEY(8)
FOREIGN_KEY(9)
FOREIGN_KEY(10)
FOREIGN_KEY(11)

static const PGFunction foreign_key_instead[FOREIGN_KEY_FUNCTIONS] = {
	foreign_key_0, foreign_key_1, foreign_key_2, foreign_key_3, foreign_key_4, foreign_key_5,
	foreign_key_6, foreign_key_7, foreign_key_8, foreign_key_9, foreign_key_10, foreign_key_11
};

void
foreignkey_replace_functions(void)
{
	for (int i = 0; i < FOREIGN_KEY_FUNCTIONS; i++)
		ls_replace_function(foreign_key_functions[i], foreign_key_instead[i],
							&foreign_key_originals[i], "that checks a foreign key");
}
