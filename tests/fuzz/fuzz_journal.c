/*
 * fuzz_journal.c
 *	  libFuzzer target: bytes of a journal segment, and the same bytes as a
 *	  record's body under a good checksum (which no fuzzer would find).
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "fuzz.h"
#include "journal_private.h"

static void
try_record(const uint8_t *data, size_t size)
{
	JournalRecord r;
	JournalRecord again;
	uint8_t    *bytes;
	size_t		used,
				len;

	if (journal_decode(data, size, &r, &used) != JOURNAL_OK)
		return;
	CHECK(used <= size);
	len = journal_encode(NULL, 0, &r);
	CHECK(len <= used);			/* fields that we don't know are gone */
	bytes = malloc(len);
	CHECK(journal_encode(bytes, len, &r) == len);
	CHECK(journal_decode(bytes, len, &again, &used) == JOURNAL_OK);
	CHECK(used == len && again.seq == r.seq && again.type == r.type &&
		  again.queries.len == r.queries.len && again.text.len == r.text.len &&
		  again.identity.pid == r.identity.pid && again.parent == r.parent &&
		  memcmp(&again.body, &r.body, sizeof(r.body)) == 0);
	free(bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *framed = malloc(RECORD_HEADER_SIZE + size);
	LsSlice		body;
	size_t		need;
	GroupMark	mark;

	if (record_frame(data, size, &body, &need) == JOURNAL_OK)
		group_decode(body, &mark);
	try_record(data, size);

	put_be32(framed, (uint32_t) size);
	put_be64(framed + 4, XXH3_64bits_withSeed(data, size, size));
	if (size > 0)
		memcpy(framed + RECORD_HEADER_SIZE, data, size);
	try_record(framed, RECORD_HEADER_SIZE + size);
	free(framed);
	return 0;
}
