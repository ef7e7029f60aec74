/*
 * fuzz_group.h
 *	  What the targets about two replicators of a group share: connections over loopback (members talk
 *	  in the clear over that only), r1 who leads, r2 who follows, a directory for the journal.
 */
#ifndef LOCKSTEP_FUZZ_GROUP_H
#define LOCKSTEP_FUZZ_GROUP_H

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <signal.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "config.h"
#include "fuzz.h"
#include "log.h"
#include "member_channel.h"

#define CLUSTER "0123456789abcdef0123456789abcdef"
#define SEGMENT_SIZE (1024 * 1024)

static const MemberKeys keys = {{(const uint8_t *) "a secret of the group", 21}, NULL};
static char directory[] = "/dev/shm/lockstep_fuzz_XXXXXX";
static Config config;

/* Threads that are not joined may still use what OpenSSL would free at the end. */
__attribute__((constructor)) static void
leave_openssl_alone(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

/* On a port that nobody has. */
static inline int
listen_somewhere(struct sockaddr_in *at)
{
	socklen_t	len = sizeof(*at);
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in) {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(bind(fd, (struct sockaddr *) at, len) == 0 && listen(fd, 1) == 0);
	CHECK(getsockname(fd, (struct sockaddr *) at, &len) == 0);
	return fd;
}

/* Nothing of the connection is left in the kernel when it is closed, so that ports don't run out. */
static inline void
reset(int fd)
{
	const struct linger now = {1, 0};

	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
}

static inline void
empty_directory(void)
{
	DIR		   *d = opendir(directory);
	struct dirent *e;

	CHECK(d != NULL);
	while ((e = readdir(d)) != NULL)
	{
		if (e->d_name[0] != '.')
			CHECK(unlinkat(dirfd(d), e->d_name, 0) == 0);
	}
	closedir(d);
}

static inline void
leave(void)
{
	empty_directory();
	rmdir(directory);
}

/* As the member of that name; address: of r1. */
static inline void
begin_member(const char *name, char *address)
{
	struct rlimit limit = {SEGMENT_SIZE, SEGMENT_SIZE};

	log_open("/dev/null", LOG_ERROR);
	signal(SIGXFSZ, SIG_IGN);	/* the other one may ask for terabytes */
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(mkdtemp(directory) != NULL);
	atexit(leave);
	config.journal_directory = directory;
	config.journal_segment_size = SEGMENT_SIZE;
	config.replicator_name = (char *) name;
	config.nreplicators = 2;
	snprintf(config.replicators[0].name, sizeof(config.replicators[0].name), "r1");
	snprintf(config.replicators[1].name, sizeof(config.replicators[1].name), "r2");
	config.replicators[0].address = address;
	config.replicators[1].address = (char *) "127.0.0.1:1";
}

#endif
