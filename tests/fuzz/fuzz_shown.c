/*
 * fuzz_shown.c
 *	  libFuzzer target: a record of the journal, under a good checksum, and its queries, as people are
 *	  shown them: by lockstepctl journal as text and as JSON, and in details of conflicts.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ctl.h"
#include "fuzz.h"
#include "journal_private.h"
#include "querytext.h"

static void
show_query(const LsQuery *q)
{
	LsSlice		rest = q->keys;
	LsKey		key = {0};
	bool		has_key = ls_next_key(&rest, &key);

	for (int own = 0; own <= 1; own++)
	{
		char	   *shown = query_shown(q, has_key ? &key : NULL, own);

		CHECK(shown != NULL && strchr(shown, '\n') == NULL);
		free(shown);
	}
}

static void
show_queries(LsSlice queries)
{
	LsMsgType	type;
	LsSlice		payload;
	LsQuery		q;

	while (ls_frame(queries.data, queries.len, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		if (type == LS_MSG_QUERY && ls_get_query(payload, &q) == NULL)
			show_query(&q);
		queries.data += LS_HEADER_SIZE + payload.len;
		queries.len -= LS_HEADER_SIZE + payload.len;
	}
}

static void
print_all(const JournalRecord *r)
{
	for (int keys = 0; keys <= 1; keys++)
	{
		char	   *text = NULL;
		size_t		len = 0;
		FILE	   *f = open_memstream(&text, &len);
		json_t	   *json;

		print_record(f, "/nonexistent", r, keys);
		CHECK(fclose(f) == 0);
		free(text);
		f = open_memstream(&text, &len);
		print_record_json(f, "/nonexistent", r, keys);
		CHECK(fclose(f) == 0);
		json = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
		CHECK(json_is_object(json));
		json_decref(json);
		free(text);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *framed = malloc(RECORD_HEADER_SIZE + size);
	JournalRecord r;
	size_t		used;

	put_be32(framed, (uint32_t) size);
	put_be64(framed + 4, XXH3_64bits_withSeed(data, size, size));
	if (size > 0)
		memcpy(framed + RECORD_HEADER_SIZE, data, size);
	if (journal_decode(framed, RECORD_HEADER_SIZE + size, &r, &used) == JOURNAL_OK)
	{
		show_queries(r.queries);
		print_all(&r);
	}
	free(framed);
	return 0;
}
