/*
 * two_replicators.h
 *	  For tests of one replicator, r1 or r2, whose journal is in a directory of its own.
 */
#ifndef LOCKSTEP_TWO_REPLICATORS_H
#define LOCKSTEP_TWO_REPLICATORS_H

#include <dirent.h>
#include <unistd.h>

#include "unit.h"

#include "config.h"

/* name: of this one; r1 is at address, r2 nowhere. */
static inline void
two_replicators(Config *config, const char *name, char *directory, uint64_t segment_size, char *address)
{
	config->journal_directory = directory;
	config->journal_segment_size = segment_size;
	config->replicator_name = (char *) name;
	config->nreplicators = 2;
	snprintf(config->replicators[0].name, sizeof(config->replicators[0].name), "r1");
	snprintf(config->replicators[1].name, sizeof(config->replicators[1].name), "r2");
	config->replicators[0].address = address;
	config->replicators[1].address = (char *) "127.0.0.1:1";
}

/* With its files; 0, or -1. */
static inline int
remove_directory(const char *directory)
{
	DIR		   *d = opendir(directory);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		(void) unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	return rmdir(directory);
}

#endif
