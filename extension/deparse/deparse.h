/*
 * deparse.h
 *	  Changed rows -> queries in row form.  Private to capture.c, keyset.c and
 *	  relation.c, but for deparse_is_for_good().
 */
#ifndef LOCKSTEP_DEPARSE_H
#define LOCKSTEP_DEPARSE_H

#include "pgtime.h"

#include "relation.h"

/*
 * Between enter and leave the text of values depends on no setting of the
 * session.  leave also after an error.
 */
typedef struct LsTextSettings
{
	bool		changed;
	int			float_digits;
	int			date_style;
	int			interval_style;
	int			bytea_style;
	pg_tz	   *time_zone;
	int			guc_nest_level; /* 0: none opened */
} LsTextSettings;

extern int	deparse_type_needs(Oid type);	/* LS_NEEDS_... */
extern void deparse_init(void); /* _PG_init */
extern void deparse_enter(const LsRelation *r, LsTextSettings *saved);
extern void deparse_leave(const LsTextSettings *saved);
extern bool deparse_is_entered(void);

/* In between, for a moment, the session's own settings; NULL: they are in force. */
extern LsTextSettings *deparse_pause(void);
extern void deparse_go_on(const LsRelation *r, LsTextSettings *paused);

/* Texts of queries; they live as long as the relation's entry. */
extern const char *deparse_insert(LsRelation *r);
extern const char *deparse_copy(LsRelation *r);
extern LsSlice deparse_delete(LsRelation *r, bool for_good);	/* the row does not move
																 * to another partition */
extern const char *deparse_update(LsRelation *r, const LsColumnSet *set);

/* Is it the text of a DELETE, of one row or many, that was made for_good? */
extern bool deparse_is_for_good(const char *text, size_t len);

/*
 * The same for many rows of a relation with an identity: each parameter is an
 * array, of the values of a column (set NULL: DELETE).  And what stands between
 * the elements of each array, a byte per parameter, which is 0 if there can be none.
 */
extern void deparse_many(const LsRelation *r, const LsColumnSet *set, bool for_good, StringInfo text);
extern void deparse_delimiters(const LsRelation *r, const LsColumnSet *set, StringInfo delimiters);

/*
 * Append values as parameters, packed as in the protocol: of the columns that
 * an INSERT names, of those in the set, of the identity (the row's image when
 * there is none).  Each returns the number of parameters.
 */
extern uint32 deparse_settable(LsRelation *r, const Datum *values, const bool *nulls,
							   StringInfo out);
extern uint32 deparse_assigned(LsRelation *r, const LsColumnSet *set, const Datum *values,
							   const bool *nulls, StringInfo out);
extern uint32 deparse_identity(LsRelation *r, const Datum *values, const bool *nulls,
							   StringInfo out);

/* The image of a row without an identity, for its key. */
extern void deparse_image(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out);

/* After r->renew: its texts are made anew. */
extern void deparse_renew(LsRelation *r);

/* One row as a line of COPY's text format: its values, or given as packed parameters. */
extern void deparse_copy_row(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out);
extern void deparse_copy_line(const LsSlice *params, StringInfo out);

#endif							/* LOCKSTEP_DEPARSE_H */
