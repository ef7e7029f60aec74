/*
 * fuzz_member.c
 *	  libFuzzer target: what a stranger can say at the port for replicators, and what can be written
 *	  into etcd's key.  The first byte chooses.
 */
#include <string.h>

#include "buffer.h"
#include "fuzz_group.h"
#include "group_key.h"

/* What is taken for a key is one: written, it reads the same. */
static void
fuzz_key(const char *text)
{
	GroupKey	key;
	GroupKey	again;
	char	   *written;

	if (!group_key_parse(text, &key))
		return;
	CHECK(key.n > 0 && key.n <= CONFIG_MAX_REPLICATORS && group_key_has(&key, key.leader));
	written = group_key_text(&key);
	CHECK(group_key_parse(written, &again) && group_key_same(&key, &again));
	free(written);
	again = group_key_taken_over(&key, "r1", 1);
	CHECK(again.epoch == key.epoch + 1 && again.n <= CONFIG_MAX_REPLICATORS);
	for (int i = 0; i < key.n; i++)
		group_key_remove(&again, key.in_sync[i]);
	CHECK(again.n == 0);
}

/* Messages of any type until the connection ends, as objects and as numbers. */
static void
fuzz_messages(MemberChannel *c)
{
	MemberMessage m;
	json_t	   *hello = member_channel_expect(c, MEMBER_HELLO, 0);
	int			n = 0;

	json_decref(hello);
	while (member_channel_receive(c, 0, &m) == MEMBER_MESSAGE)
	{
		LsSlice		rest = m.payload;
		uint64_t	numbers[4];

		while (member_numbers(&rest, numbers, 4))
			CHECK(rest.len <= m.payload.len);
		CHECK(++n < 4096);
	}
	CHECK(member_channel_error(c) != NULL);
}

/* Both ends of a connection. */
static void
connect_pair(int fd[2])
{
	static int	listener = -1;
	static struct sockaddr_in address;

	if (listener < 0)
		listener = listen_somewhere(&address);
	fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(fd[1], (struct sockaddr *) &address, sizeof(address)) == 0);
	fd[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(fd[0] >= 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const MemberKeys none = {0};
	MemberChannel *c;
	char	   *error = NULL;
	int			fd[2];

	if (size == 0)
		return 0;
	if (data[0] & 1)
	{
		char	   *text = xstrndup((const char *) data + 1, size - 1);

		fuzz_key(text);
		free(text);
		return 0;
	}
	connect_pair(fd);
	CHECK(write(fd[1], data + 1, size - 1) == (ssize_t) (size - 1));
	CHECK(shutdown(fd[1], SHUT_WR) == 0);
	c = member_channel_accept(fd[0], &none, &error);
	CHECK(c != NULL && error == NULL);
	fuzz_messages(c);
	reset(fd[0]);
	member_channel_close(c);
	reset(fd[1]);
	close(fd[1]);
	return 0;
}
