/*
 * keytable.h
 *	  What the certifier remembers of each key.  Private to certify.c,
 *	  certify_locks.c and keytable.c; certify.h says what it is for.
 *
 * Row modes and table modes never meet, so a key of one kind has its own entry
 * even if the hash is the same, and the modes are small numbers within a kind.
 */
#ifndef LOCKSTEP_KEYTABLE_H
#define LOCKSTEP_KEYTABLE_H

#include "certify.h"

#define KEY_MODES 6				/* of one kind: s u x h r, or IS IX S X R q */
#define KEY_WRITE_MODES 4		/* of them, those that history remembers */

struct Reservation;
struct LockQueue;

/* Transactions decided with one mode of a key. */
typedef struct Decided
{
	uint64_t	seq;			/* the highest, 0 = none remembered */
	uint64_t	other_seq;		/* the highest of any origin but that one's */
	uint8_t		origin;
	uint8_t		other_origin;
} Decided;

/* A reserved transaction that has the key. */
typedef struct Holder
{
	struct Reservation *reservation;
	uint32_t	item;			/* index of the key there */
	uint8_t		origin;
	uint8_t		modes;			/* bit per mode */
} Holder;

typedef struct Key
{
	uint64_t	hash;
	bool		is_table;
	uint32_t	nholders;
	uint32_t	holders_cap;
	uint32_t	fought_ms;		/* when several origins wanted it last, by
								 * Certifier.now_ms; 0: never */
	Holder	   *holders;		/* first_holder, or malloc'ed when there are
								 * more */
	Holder		first_holder;
	uint32_t	held[KEY_MODES];	/* how many holders have the mode */
	Decided		decided[KEY_WRITE_MODES];
	struct LockQueue *locks;	/* requested first; NULL: none */
	struct Key *next_free;
} Key;

/* Index into held and decided. */
static inline unsigned
key_mode_index(LsKeyMode mode)
{
	switch (mode)
	{
		case LS_ROW_SHARE:
		case LS_TABLE_IS:
			return 0;
		case LS_ROW_UPDATE:
		case LS_TABLE_IX:
			return 1;
		case LS_ROW_EXCLUSIVE:
		case LS_TABLE_S:
			return 2;
		case LS_ROW_LOCK:
		case LS_TABLE_X:
			return 3;
		case LS_ROW_READ:
		case LS_TABLE_READ:
			return 4;
		case LS_TABLE_READ_ROWS:
			return 5;
	}
	return 3;
}

typedef struct KeySlot
{
	uint64_t	hash;
	Key		   *key;			/* NULL: empty */
} KeySlot;

typedef struct KeySlab KeySlab;

/* Open addressing, linear probing, a power of two of slots, at most half full. */
typedef struct KeyTable
{
	KeySlot    *slots;
	size_t		nslots;
	unsigned	shift;			/* 64 - log2(nslots) */
	size_t		nkeys;
	size_t		sweep;			/* slot to look at next */
	Key		   *free_keys;
	KeySlab    *slabs;
} KeyTable;

extern void keytable_init(KeyTable *t);
extern void keytable_free(KeyTable *t);

/* Keys have stable addresses until they are swept. */
extern Key *keytable_find(const KeyTable *t, uint64_t hash, bool is_table);
extern Key *keytable_insert(KeyTable *t, uint64_t hash, bool is_table); /* not there yet */
extern void keytable_prefetch(const KeyTable *t, uint64_t hash);

/* Look at n slots and drop the keys that no transaction holds and whose decided
 * transactions are all at or below floor. */
extern void keytable_sweep(KeyTable *t, size_t n, uint64_t floor);

extern void key_init(Key *key, uint64_t hash, bool is_table);
extern void key_release(Key *key);	/* free what it owns */
extern Holder *key_add_holder(Key *key);
extern void key_decided(Key *key, unsigned mode, uint64_t seq, OriginId origin);
extern uint64_t key_highest(const Key *key);	/* seq of any mode */

#endif
