/*
 * secret.h
 *	  The secret that the nodes share with the replicator.
 */
#ifndef LOCKSTEP_SECRET_H
#define LOCKSTEP_SECRET_H

#define SECRET_MIN 16
#define SECRET_MAX 1024

typedef struct Secret
{
	uint8		bytes[SECRET_MAX + 2];
	size_t		len;
} Secret;

/* Of lockstep.secret_file.  To be cleared by explicit_bzero(). */
extern void secret_read(Secret *secret);

/* The one before: of the file of that name with .old.  false: there is none. */
extern bool secret_read_old(Secret *secret);

#endif							/* LOCKSTEP_SECRET_H */
