/*
 * repertoire.h
 *	  Are a value's characters those of the database's encoding?  Private to
 *	  deparsevalue.c, relation.c and xact.c.
 */
#ifndef LOCKSTEP_REPERTOIRE_H
#define LOCKSTEP_REPERTOIRE_H

#include "relation.h"

/* Are there texts in it that its output would cut off at a NUL byte? */
extern bool repertoire_hides_texts(Oid type);

/* The value of a column whose type hides texts. */
extern void repertoire_check_inside(const LsRelation *r, AttrNumber attnum, Datum value);

/* The text of a column's value that isn't plain; a query that isn't made of rows. */
extern void repertoire_check_text(const LsRelation *r, AttrNumber attnum, const char *text, size_t len);
extern void repertoire_check_query(const LsQuery *query);

/* Only ASCII, and no NUL: valid in every encoding of a server. */
static inline bool
repertoire_is_plain(const char *text, size_t len)
{
	const uint64 high = UINT64CONST(0x8080808080808080);
	uint64		other = 0;
	uint64		word;
	size_t		i;

	if (len < sizeof(word))
	{
		for (i = 0; i < len; i++)
		{
			if ((signed char) text[i] <= 0)
				return false;
		}
		return true;
	}
	/* a byte below 0x80 that is not 0 has its high bit after 0x7f was added */
	for (i = 0; i + sizeof(word) <= len; i += sizeof(word))
	{
		memcpy(&word, text + i, sizeof(word));
		other |= word | ~(word + ~high);
	}
	memcpy(&word, text + len - sizeof(word), sizeof(word));
	other |= word | ~(word + ~high);
	return (other & high) == 0;
}

#endif							/* LOCKSTEP_REPERTOIRE_H */
