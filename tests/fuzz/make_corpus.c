/*
 * make_corpus.c
 *	  Writes the seed corpus of the fuzz targets: one file for each sample
 *	  message, and for each type of journal record (whole, and its body alone).
 *	  Usage: make_corpus DIRECTORY, which has protocol/, journal/ and shown/.
 */
#include "../unit/samples.h"
#include "journal_private.h"

static void
write_seed(const char *dir, const char *kind, const char *name, const uint8_t *bytes, size_t len)
{
	char		path[4096];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s/%s", dir, kind, name);
	f = fopen(path, "w");
	if (f == NULL || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
	{
		perror(path);
		exit(1);
	}
}

static void
write_record(const char *dir, const char *name, const JournalRecord *r)
{
	uint8_t		bytes[SAMPLE_MAX];
	char		body[64];
	size_t		len = journal_encode(bytes, sizeof(bytes), r);

	snprintf(body, sizeof(body), "%s-body", name);
	write_seed(dir, "journal", name, bytes, len);
	write_seed(dir, "journal", body, bytes + RECORD_HEADER_SIZE, len - RECORD_HEADER_SIZE);
	write_seed(dir, "shown", body, bytes + RECORD_HEADER_SIZE, len - RECORD_HEADER_SIZE);
}

int
main(int argc, char **argv)
{
	size_t		n;
	Sample	   *samples = make_samples(&n);
	JournalRecord tx = {.type = RECORD_TRANSACTION,.seq = 9,.identity = {SLICE("n1"), 1, 2, 3},
	.database = SLICE("db"),.depends_on = 8,.time = 1790000000000000,.wait = LS_WAIT_EXECUTED};
	JournalRecord text = {.type = RECORD_DATABASE_ADDED,.seq = 9,.text = SLICE("db")};
	uint8_t		mark_bytes[GROUP_MARK_SIZE];
	GroupMark	mark = {64, 64};

	if (argc != 2)
	{
		fprintf(stderr, "usage: make_corpus DIRECTORY\n");
		return 2;
	}
	for (size_t i = 0; i < n; i++)
	{
		write_seed(argv[1], "protocol", samples[i].name, samples[i].bytes, samples[i].len);
		if (strcmp(samples[i].name, "query-row") == 0)
			tx.queries = (LsSlice) {samples[i].bytes, samples[i].len};
	}
	write_record(argv[1], "transaction", &tx);
	tx.parent = 0x5eed;
	write_record(argv[1], "transaction-with-parent", &tx);
	tx.parent = 0;
	tx.body = (BodyRef) {77, 4096, 12, 3};
	write_record(argv[1], "transaction-with-body", &tx);
	write_record(argv[1], "database-added", &text);
	text.type = RECORD_DATABASE_DROPPED;
	write_record(argv[1], "database-dropped", &text);
	text.type = RECORD_FINGERPRINT;
	write_record(argv[1], "fingerprint", &text);
	text.type = RECORD_LEASE;
	text.text = SLICE("31 t 7 2 dbpublic.s");
	write_record(argv[1], "lease", &text);
	text.type = RECORD_CHAIN;
	text.text = SLICE("0123456789abcdef");
	write_record(argv[1], "chain", &text);
	text.type = RECORD_GENERATION;
	text.text = SLICE("7 0123456789abcdef");
	write_record(argv[1], "generation", &text);
	text.type = RECORD_DATABASE_EVENT;
	text.text = SLICE("c 7 1 17\nxCREATE DATABASE xa\t1\n");
	write_record(argv[1], "database-event", &text);
	group_encode(mark_bytes, &mark);
	write_seed(argv[1], "journal", "group-mark", mark_bytes, sizeof(mark_bytes));
	free(samples);
	return 0;
}
