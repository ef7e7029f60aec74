/*
 * random_bytes.h
 *	  Cryptographically strong random bytes.
 */
#ifndef LOCKSTEP_RANDOM_BYTES_H
#define LOCKSTEP_RANDOM_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false: there are none. */
extern bool random_bytes(uint8_t *buf, size_t len) __attribute__((warn_unused_result));

#endif
