/*
 * inval.h
 *	  Invalidations of the catalogs reach other sessions before the turn is passed.
 */
#ifndef LOCKSTEP_INVAL_H
#define LOCKSTEP_INVAL_H

extern void inval_collect(void);	/* before the commit record */
extern void inval_send(void);	/* after it, before turn_pass() */
extern void inval_forget(void); /* it was rolled back */

#endif							/* LOCKSTEP_INVAL_H */
