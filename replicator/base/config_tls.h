/*
 * config_tls.h
 *	  Is everything encrypted that has to be?
 */
#ifndef LOCKSTEP_CONFIG_TLS_H
#define LOCKSTEP_CONFIG_TLS_H


#include "config.h"

/*
 * NULL, or what would go in the clear and may not (malloc'ed); *hint: what to set.  Names of
 * listen_addresses are resolved.
 */
extern char *config_tls_check(const Config *c, const char **hint);

#endif
