/*
 * ownwal.h
 *	  What has this transaction written to the WAL?
 */
#ifndef LOCKSTEP_OWNWAL_H
#define LOCKSTEP_OWNWAL_H

#include "access/xlogdefs.h"

/*
 * Where this backend's last record begins; Invalid: it has written none.  Costs nothing.
 */
extern XLogRecPtr ownwal_position(void);

/*
 * Has this transaction, since that position, written nothing but what reading
 * writes: pruned pages, hint bits?  False if that is not known.  Flushes and reads the WAL.
 */
extern bool ownwal_only_reads(XLogRecPtr since);

#endif							/* LOCKSTEP_OWNWAL_H */
