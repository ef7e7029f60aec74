/*
 * stranded.h
 *	  A leader that reaches no node, while another replicator does, hands over.
 */
#ifndef LOCKSTEP_STRANDED_H
#define LOCKSTEP_STRANDED_H

/* Of a group only; hand_over: another replicator is to lead. */
extern void stranded_watch(void (*hand_over) (void));

#endif
