/*
 * fuzz_config.c
 *	  libFuzzer target: replicator.conf.  Each is refused with a reason or makes settings that can
 *	  be shown and that a reload can take over.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"

static Config *
load(const char *path)
{
	char	   *error;
	Config	   *c = config_load(path, &error);

	CHECK((c == NULL) == (error != NULL));
	free(error);
	return c;
}

static void
show_all(const Config *c)
{
	const char *value;
	const char *help;

	for (int i = 0; config_show(c, i, &value, &help) != NULL; i++)
		CHECK(value != NULL && help != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int	fd = -1;
	char		path[64];
	Config	   *c;

	if (fd < 0)
		fd = memfd_create("replicator.conf", 0);
	CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t) size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	c = load(path);
	if (c != NULL)
	{
		Config	   *again = load(path);

		CHECK(again != NULL);
		show_all(c);
		free(config_reload(c, again));
		config_free(again);
		config_free(c);
	}
	return 0;
}
