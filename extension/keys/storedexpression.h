/*
 * storedexpression.h
 *	  What a stored expression's value depends on beside its row.  Private to
 *	  relation.c, relkeys.c and ddl*.c.
 */
#ifndef LOCKSTEP_STOREDEXPRESSION_H
#define LOCKSTEP_STOREDEXPRESSION_H

#include "nodes/nodes.h"
#include "utils/relcache.h"

/*
 * An index's expressions (Anum_pg_index_indexprs) or predicate, as they were given;
 * NULL: it has none.  Those in the relation cache have been evaluated in part, with
 * the settings of that moment.
 */
extern Node *storedexpression_of_index(Relation index, int attribute);

/* Does it call a function that isn't built in?  (A list of them will do.) */
extern bool storedexpression_calls_users(Node *expression);

/*
 * May its value depend on the session's settings?  So do functions that are not
 * built in, as far as known, and a few that are.
 */
extern bool storedexpression_reads_settings(Node *expression);

/* Is a part of it, which reads settings, the same for all rows?  PostgreSQL evaluates it once. */
extern bool storedexpression_folds_settings(Node *expression);

/* Is it a type of OIDs that are written as names, or made of such? */
extern bool storedexpression_type_has_oids(Oid type);

/* Do OIDs of objects, or other things of this node's own, go into its value? */
extern bool storedexpression_has_oids(Node *expression);

#endif							/* LOCKSTEP_STOREDEXPRESSION_H */
