/*
 * points.c
 *	  What happens at a hand-over point in a test.
 *
 * Orders are files in a directory, named after a point, with one line:
 *
 *	 kill [N]		   SIGKILL to this process, when the point is reached for the
 *					   Nth time (first)
 *	 kill all [N]	   to its parent, too (the postmaster)
 *	 wait [N]		   stay there for as long as the file POINT.taken is there
 *	 delay MS [N]	   stay there for so long
 *
 * The first process that reaches the point takes the order, by renaming its file to POINT.taken;
 * so a test sees that the point was reached.  A file "random", read once, makes each thread
 * pause occasionally: "SEED PER_MILLE MAX_MS".
 *
 * Compiled into the replicator and into tests/fault, which is how backends come
 * here.  No state but the above, and no lock: a point may be anywhere.
 */
#include "points.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 5
#define PATH_SIZE 1024

bool		points_armed;

static char directory[PATH_SIZE / 2];
static pid_t parent;
static unsigned long seed;
static unsigned int per_mille;
static unsigned int max_ms;
static __thread uint64_t random_state;

static void
sleep_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) != 0)
		;
}

/* One line of a file; false: there is none. */
static bool
read_line(const char *path, char *line, int size)
{
	FILE	   *f = fopen(path, "re");
	bool		ok;

	if (f == NULL)
		return false;
	ok = fgets(line, size, f) != NULL;
	fclose(f);
	return ok;
}

void
points_begin(const char *dir, pid_t also)
{
	char		path[PATH_SIZE];
	char		line[100];

	snprintf(directory, sizeof(directory), "%s", dir);
	snprintf(path, sizeof(path), "%s/random", directory);
	if (!read_line(path, line, sizeof(line)) ||
		sscanf(line, "%lu %u %u", &seed, &per_mille, &max_ms) != 3)
		per_mille = 0;
	parent = also;
	points_armed = true;
}

/* ---------- orders */

/* Not this time: the order remains, for one time less. */
static void
put_back(const char *path, const char *taken, const char *what, int left)
{
	char		fresh[PATH_SIZE + 8];
	FILE	   *f;

	snprintf(fresh, sizeof(fresh), "%s.fresh", path);
	f = fopen(fresh, "we");
	if (f == NULL)
		abort();
	fprintf(f, "%s %d\n", what, left);
	fclose(f);
	unlink(taken);
	if (rename(fresh, path) != 0)
		abort();
}

static void
obey(const char *path, const char *taken)
{
	char		line[100];
	char		what[40];
	int			nth = 1;
	int			ms = 0;

	if (!read_line(taken, line, sizeof(line)))
		return;
	if (sscanf(line, "delay %d %d", &ms, &nth) >= 1)
		snprintf(what, sizeof(what), "delay %d", ms);
	else if (strncmp(line, "kill all", 8) == 0)
	{
		strcpy(what, "kill all");
		(void) sscanf(line, "kill all %d", &nth);
	}
	else
		(void) sscanf(line, "%30s %d", what, &nth);
	if (nth > 1)
	{
		put_back(path, taken, what, nth - 1);
		return;
	}
	if (strcmp(what, "wait") == 0)
	{
		while (access(taken, F_OK) == 0)
			sleep_ms(WAIT_MS);
	}
	else if (strncmp(what, "kill", 4) == 0)
	{
		if (what[4] != '\0' && parent > 0)
			kill(parent, SIGKILL);
		kill(getpid(), SIGKILL);
		for (;;)
			pause();
	}
	else
		sleep_ms(ms);
}

/* ---------- at random */

static uint64_t
next_random(void)
{
	if (random_state == 0)
		random_state = (seed + (uint64_t) gettid()) * UINT64_C(0x9E3779B97F4A7C15) | 1;
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

void
point_reached(const char *name)
{
	char		path[PATH_SIZE];
	char		taken[PATH_SIZE];

	if (!points_armed)
		return;
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	snprintf(taken, sizeof(taken), "%s/%s.taken", directory, name);
	if (rename(path, taken) == 0)
		obey(path, taken);
	else if (per_mille > 0 && max_ms > 0 && next_random() % 1000 < per_mille)
		sleep_ms((long) (next_random() % max_ms) + 1);
}
