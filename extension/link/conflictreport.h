/*
 * conflictreport.h
 *	  Reporting to the replicator the conflicts that this node finds by itself.
 */
#ifndef LOCKSTEP_CONFLICTREPORT_H
#define LOCKSTEP_CONFLICTREPORT_H

#include "storage/itemptr.h"
#include "utils/elog.h"
#include "utils/relcache.h"

#include "protocol.h"

extern void conflictreport_note(LsConflictReason reason, const char *key, const char *detail);
extern void conflictreport_note_update(Relation rel, ItemPointer tid, TransactionId xid);
extern void conflictreport_explain(ErrorData *edata);
extern void conflictreport_at_xact_end(void);

#endif							/* LOCKSTEP_CONFLICTREPORT_H */
