/*
 * attach_databases.h
 *	  Which databases a node that is attached should have, and which of those it has.
 *
 * A node has applied the journal up to some seq, and has the databases of that place: those that
 * CREATE DATABASE made later it lacks, those that DROP DATABASE removed later it still has, those that
 * ALTER DATABASE RENAME renamed later have their old names.  They are looked at before that seq is
 * known.
 */
#ifndef LOCKSTEP_ATTACH_DATABASES_H
#define LOCKSTEP_ATTACH_DATABASES_H

#include "database_event.h"
#include "dbcheck.h"

typedef struct Candidate
{
	char	   *name;			/* on the node */
	uint64_t	number;			/* 0: it came by lockstepctl database add */
	DbCheck    *check;			/* NULL: not looked at */
	bool		failed;
	DropReason	why;
} Candidate;

typedef struct Candidates
{
	Candidate  *all;
	int			n;
} Candidates;

typedef enum CandidateIs
{
	CANDIDATE_ATTACHED,			/* it is one of the node's databases */
	CANDIDATE_LATER,			/* it is complete when the node has come to
								 * its event */
	CANDIDATE_LEFT_OVER			/* the node should have dropped it */
} CandidateIs;

/* Of a cluster where no SQL command has ever changed the list: all of metadata.h. */
extern void candidates_of_metadata(Candidates *c);

/* Of a cluster without any: the server is looked at in that one. */
extern void candidates_of_maintenance(Candidates *c);

/* has: rows of OID and name of all of the node's databases. */
extern void candidates_of_node(Candidates *c, const PGresult *has);
extern void candidates_free(Candidates *c);
extern void candidates_remove(Candidates *c, int i);

/* May looking at it fail? */
extern bool candidate_is_doubtful(const Candidate *c);

/* Of a node that has applied so far. */
extern CandidateIs candidate_is(const Candidate *c, uint64_t applied);

/*
 * The right name of one that has a wrong one (only those that are attached are left); NULL: none.
 * *events_from: lowered to the seq of an event that the node has not done, though it has applied more.
 */
extern const char *candidates_misnamed(const Candidates *c, uint64_t applied, uint64_t *events_from);

/* One that the node must have, and has not (only those that are attached are left); NULL: none. */
extern const char *candidates_missing(const Candidates *c, uint64_t applied);

#endif
