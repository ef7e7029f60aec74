/*
 * sequence_restart.c
 *	  Which sequences with new storage begin anew, and which go on where they were.
 *
 * ALTER SEQUENCE gives the sequence new storage, as RESTART and TRUNCATE ... RESTART IDENTITY do.
 * But without RESTART its position is what all nodes together have handed out, not what this
 * node's page says.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "growing.h"
#include "sequence.h"
#include "sequence_private.h"

typedef struct Restart
{
	Oid			relid;
	SubTransactionId subid;		/* those of its children are higher */
} Restart;

static Restart *restarts = NULL;
static int	nrestarts = 0;
static int	max_restarts = 0;

void
sequence_note_restart(Oid relid)
{
	restarts = ls_with_room(restarts, nrestarts, &max_restarts, sizeof(Restart));
	restarts[nrestarts++] = (Restart) {relid, GetCurrentSubTransactionId()};
}

void
sequence_note_alter(const AlterSeqStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		Oid			relid;

		if (strcmp(lfirst_node(DefElem, lc)->defname, "restart") != 0)
			continue;
		relid = RangeVarGetRelid(stmt->sequence, NoLock, true);
		if (OidIsValid(relid))
			sequence_note_restart(relid);
	}
}

void
sequence_restart_on_subxact_abort(SubTransactionId subid)
{
	while (nrestarts > 0 && restarts[nrestarts - 1].subid >= subid)
		nrestarts--;
}

void
sequence_forget_restarts(void)
{
	nrestarts = 0;
}

bool
sequence_goes_on(Relation rel)
{
	if (!sequence_is_new(rel) || rel->rd_createSubid != InvalidSubTransactionId)
		return false;
	for (int i = 0; i < nrestarts; i++)
	{
		if (restarts[i].relid == RelationGetRelid(rel))
			return false;
	}
	return true;
}
