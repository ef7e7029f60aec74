/*
 * test_ctl.c
 *	  Proves what lockstepctl prints: aligned tables of the replicator's facts,
 *	  and the journal, transaction by transaction, without control characters
 *	  from clients, without cutting characters in two, from any seq on.
 */
#include <unistd.h>

#include "unit.h"

#include "buffer.h"
#include "ctl.h"
#include "metrics.h"
#include "journal.h"
#include "log.h"

#define SLICE(text) ((LsSlice) {(const uint8_t *) (text), strlen(text)})

/* ---------- tables */

static void
assert_printed(void (*format) (FILE *out, const json_t *answer), const char *json, const char *expected)
{
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);
	json_t	   *answer = json_loads(json, 0, NULL);

	assert_non_null(answer);
	format(out, answer);
	fclose(out);
	json_decref(answer);
	assert_string_equal(text, expected);
	free(text);
}

static void
nodes_are_aligned(void **state)
{
	assert_printed(format_nodes,
				   "{\"nodes\": ["
				   "{\"name\": \"n1\", \"state\": \"online\", \"state_ms\": 412345, \"applied\": 12345678, \"lag\": 0, \"silent_ms\": 412, \"waiting\": 2, \"sessions\": 3, \"reason\": \"\"},"
				   "{\"name\": \"berlin\", \"state\": \"dropped\", \"state_ms\": 90061000, \"applied\": 9, \"lag\": 12345669, \"silent_ms\": null, \"waiting\": 0, \"sessions\": 0,"
				   " \"reason\": \"disk full\"}]}",
				   "node    state      for   applied       lag  silent  waiting  sessions  reason\n"
				   "n1      online   6 min  12345678         0   0.4 s        2         3  \n"
				   "berlin  dropped   25 h         9  12345669                0         0  disk full\n");
}

static void
waits_name_silent_nodes(void **state)
{
	assert_printed(format_waits, "{\"nodes\": [{\"name\": \"n1\", \"silent_ms\": 900, \"waiting\": 0}], \"waits\": []}",
				   "nothing waits\n");
	assert_printed(format_waits, "{\"nodes\": [{\"name\": \"n2\", \"silent_ms\": 3100, \"waiting\": 4}], \"waits\": ["
				   "{\"node\": \"n1\", \"pid\": 7, \"for_ms\": 3000, \"waits\": \"for a node that executes it\", \"at_node\": \"n2\"}]}",
				   "node n2 has been silent for 3.1 s, and 4 transactions wait for it\n"
				   "node  pid  seq    for  waits                        node  pid  seq  on  object\n"
				   "n1      7       3.0 s  for a node that executes it                  n2  \n");
}

/* Every line of a metric has its name first, and a number last. */
static void
metrics_are_lines(void **state)
{
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);
	json_t	   *answer = json_loads("{\"nodes\": [{\"name\": \"n1\", \"state\": \"online\", \"applied\": 12, \"administrative\": false},"
									"{\"name\": \"n2\", \"state\": \"dropped\", \"applied\": 9, \"administrative\": true}],"
									"\"counters\": {\"committed\": 7}, \"journal\": {\"failing\": \"disk full\"}}", 0, NULL);

	metrics_print(out, answer);
	fclose(out);
	json_decref(answer);
	assert_non_null(strstr(text, "\nlockstep_node_state{node=\"n1\",state=\"online\"} 1\n"));
	assert_non_null(strstr(text, "\nlockstep_node_state{node=\"n2\",state=\"online\"} 0\n"));
	assert_non_null(strstr(text, "\nlockstep_node_applied_seq{node=\"n2\"} 9\n"));
	assert_non_null(strstr(text, "\nlockstep_node_dropped_by_command{node=\"n1\"} 0\n"));
	assert_non_null(strstr(text, "\nlockstep_node_dropped_by_command{node=\"n2\"} 1\n"));
	assert_non_null(strstr(text, "\n# TYPE lockstep_committed_total counter\nlockstep_committed_total 7\n"));
	assert_non_null(strstr(text, "\nlockstep_journal_failing 1\n"));
	free(text);
}

static void
status_has_everything(void **state)
{
	assert_printed(format_status,
				   "{\"nodes\": [], \"databases\": [\"a\", \"b\"], \"cluster\": \"c\", \"pid\": 42,"
				   "\"counters\": {\"committed\": 7, \"conflicts\": 1, \"peer_errors\": 2, \"withdrawn\": 3, \"reserved_now\": 4},"
				   "\"journal\": {\"directory\": \"/j\", \"first\": 1, \"last\": 7, \"syncs\": 5}}",
				   "node  state  for  applied  lag  silent  waiting  sessions  reason\n"
				   "\n"
				   "databases:    a, b\n"
				   "transactions: 7 committed, 1 conflicts, 2 peer errors, 3 withdrawn, 4 in flight\n"
				   "journal:      seq 1 to 7, 5 syncs, in /j\n"
				   "cluster:      c, replicator process 42\n");
}

/* What is wrong stands in front, each with what to do. */
static void
status_says_what_to_do(void **state)
{
	assert_printed(format_status,
				   "{\"nodes\": [{\"name\": \"n1\", \"state\": \"online\", \"silent_ms\": 2000, \"hint\": \"Look at it.\"},"
				   "{\"name\": \"n2\", \"state\": \"dropped\", \"cause\": \"hung\", \"hint\": \"Look there.\"}],"
				   "\"journal\": {\"failing\": \"no space\"},"
				   "\"group\": {\"leader\": \"r1\", \"epoch\": 2, \"trouble\": \"could not read etcd's key\", \"members\": [{\"name\": \"r1\", \"state\": \"leader\"}, {\"name\": \"r2\", \"state\": \"not connected\"}]}}",
				   "node  state    for  applied  lag  silent  waiting  sessions  reason\n"
				   "n1    online                       2.0 s                     \n"
				   "n2    dropped                                                \n"
				   "\nnode n1 does not answer:\n  hint:      Look at it.\n"
				   "\nnode n2 is dropped (hung):\n  hint:      Look there.\n"
				   "\nno transaction is taken: the journal cannot be written: no space\n"
				   "  hint:      Make room on its disk, or mend it; it is tried again every second, and nothing is lost.\n"
				   "\ncould not read etcd's key:\n"
				   "  hint:      Start etcd, or mend the way to it. The leader goes on, but no other replicator can take over meanwhile.\n"
				   "\nreplicator r2 is not connected:\n"
				   "  hint:      Is it running on its machine, and what does its log say? Does it reach the leader?\n"
				   "\n"
				   "databases:    none (lockstepctl database add NAME)\n"
				   "transactions: 0 committed, 0 conflicts, 0 peer errors, 0 withdrawn, 0 in flight\n"
				   "journal:      seq 0 to 0, 0 syncs, in \n"
				   "replicators:  r1 leads (epoch 2), r2: not connected\n"
				   "cluster:      , replicator process 0\n");
}

/* Another version's answer: nothing of what we look for. */
static void
missing_facts_do_no_harm(void **state)
{
	assert_printed(format_nodes, "{}", "node  state  for  applied  lag  silent  waiting  sessions  reason\n");
	assert_printed(format_config, "{\"settings\": [{}]}", "name  value  description\n             \n");
	assert_printed(format_status, "{}",
				   "node  state  for  applied  lag  silent  waiting  sessions  reason\n"
				   "\n"
				   "databases:    none (lockstepctl database add NAME)\n"
				   "transactions: 0 committed, 0 conflicts, 0 peer errors, 0 withdrawn, 0 in flight\n"
				   "journal:      seq 0 to 0, 0 syncs, in \n"
				   "cluster:      , replicator process 0\n");
}

/* ---------- journal */

static char directory[] = "/tmp/lockstep_test_ctl_XXXXXX";

/* One 'Q' with two parameters, a setting and a key. */
static size_t
put_query(uint8_t *buf, size_t cap, const char *text)
{
	uint8_t		params[200];
	uint8_t		keys[200];
	size_t		nparams;
	LsKey		key = {.hash = 0xabcdef,.seen = 3,.mode = LS_ROW_EXCLUSIVE,.name = SLICE("public.t t_pkey")};
	LsQuery		q = {.xcount = 3,.form = LS_FORM_ROW,.reason = LS_REASON_ROW_CHANGED,.text = SLICE(text),
	.rows = 1,.nparams = 2,.nkeys = 1};

	nparams = ls_put_param(params, sizeof(params), "O'Neill\n", 8);
	nparams += ls_put_param(params + nparams, sizeof(params) - nparams, NULL, 0);
	q.params = (LsSlice) {params, nparams};
	q.keys = (LsSlice) {keys, ls_put_key(keys, sizeof(keys), &key)};
	q.settings = (LsSlice) {(const uint8_t *) "TimeZone\0UTC", 13};
	return ls_put_query(buf, cap, &q);
}

static void
append_transaction(Journal *j, uint64_t seq, const char *query)
{
	uint8_t		queries[2000];
	uint8_t		record[4000];
	LsSlice		slice = {record, 0};
	JournalRecord r = {.type = RECORD_TRANSACTION,.seq = seq,
		.identity = {SLICE("n1"), 0xc0ffee, 4711, 3},
	.database = SLICE("app"),.depends_on = seq - 1,.time = 1795248902345678,.wait = LS_WAIT_EXECUTED};

	r.queries = (LsSlice) {queries, put_query(queries, sizeof(queries), query)};
	slice.len = journal_encode(record, sizeof(record), &r);
	assert_int_equal(journal_append(j, &slice, 1, seq), JOURNAL_OK);
	assert_int_equal(journal_sync(j), JOURNAL_OK);
}

static int
make_journal(void **state)
{
	char		cluster[33];
	const char *error;
	Journal    *j;
	uint8_t		record[200];
	LsSlice		slice = {record, 0};
	JournalRecord r = {.type = RECORD_DATABASE_ADDED,.time = 1795248902000001,.text = SLICE("app")};

	log_open(NULL, LOG_ERROR);
	if (mkdtemp(directory) == NULL)
		return 1;
	j = journal_open(directory, true, 1024 * 1024, cluster, &error);
	if (j == NULL)
		return 1;
	slice.len = journal_encode(record, sizeof(record), &r);
	if (journal_append(j, &slice, 1, 0) != JOURNAL_OK)
		return 1;
	append_transaction(j, 1, "INSERT INTO public.t (a, b)\n\tVALUES ($1, $2)");
	append_transaction(j, 2, "SELECT '\x1b[31m'");
	append_transaction(j, 3, "DELETE FROM public.t WHERE a = $1");
	journal_close(j);
	return 0;
}

static int
remove_journal(void **state)
{
	char	   *command = xasprintf("rm -rf %s", directory);
	int			rc = system(command);

	free(command);
	return rc;
}

static char *
printed(const JournalOptions *options)
{
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);

	assert_int_equal(print_journal(out, options), CTL_OK);
	fclose(out);
	return text;
}

static void
journal_is_readable(void **state)
{
	JournalOptions options = {.directory = directory,.limit = 1};
	char	   *text = printed(&options);

	assert_string_equal(text,
						"after seq 0  2026-11-21 08:15:02.000001 UTC  database added: app\n"
						"seq 1  2026-11-21 08:15:02.345678 UTC  n1/4711  database app\n"
						"  boot 0000000000c0ffee, transaction 3 of its session, depends on 0, wait executed, chain b64e25d45460b8c1\n"
						"  1  row, 1 row: INSERT INTO public.t (a, b)  VALUES ($1, $2)\n"
						"       set TimeZone = 'UTC'\n"
						"       $1 = 'O'Neill ', $2 = NULL\n");
	free(text);
}

static void
journal_is_readable_for_programs(void **state)
{
	JournalOptions options = {.directory = directory,.limit = 1,.json = true,.keys = true};
	char	   *text = printed(&options);
	size_t		first_line = strcspn(text, "\n");
	json_t	   *metadata = json_loadb(text, first_line, 0, NULL);
	json_t	   *tx = json_loads(text + first_line + 1, 0, NULL);
	json_t	   *query = json_array_get(json_object_get(tx, "queries"), 0);

	assert_string_equal(json_string_value(json_object_get(metadata, "what")), "database added");
	assert_string_equal(json_string_value(json_object_get(metadata, "text")), "app");
	assert_string_equal(json_string_value(json_object_get(tx, "time")), "2026-11-21T08:15:02.345678Z");
	assert_int_equal(json_integer_value(json_object_get(tx, "seq")), 1);
	assert_int_equal(json_integer_value(json_object_get(tx, "pid")), 4711);
	assert_string_equal(json_string_value(json_object_get(tx, "wait")), "executed");
	assert_int_equal(json_array_size(json_object_get(tx, "queries")), 1);
	assert_string_equal(json_string_value(json_object_get(json_object_get(query, "settings"), "TimeZone")), "UTC");
	assert_int_equal(json_array_size(json_object_get(query, "params")), 2);
	assert_true(json_is_null(json_array_get(json_object_get(query, "params"), 1)));
	assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(query, "keys"), 0), "hash")),
						"0000000000abcdef");
	json_decref(metadata);
	json_decref(tx);
	free(text);
}

static void
journal_begins_where_told(void **state)
{
	JournalOptions options = {.directory = directory,.from = 3,.keys = true};
	char	   *text = printed(&options);

	assert_string_equal(text,
						"seq 3  2026-11-21 08:15:02.345678 UTC  n1/4711  database app\n"
						"  boot 0000000000c0ffee, transaction 3 of its session, depends on 2, wait executed, chain d5f984e135ab46d8\n"
						"  1  row, 1 row: DELETE FROM public.t WHERE a = $1\n"
						"       set TimeZone = 'UTC'\n"
						"       $1 = 'O'Neill ', $2 = NULL\n"
						"       key public.t t_pkey  mode x  seen 3  hash 0000000000abcdef\n");
	free(text);
}

static void
terminal_is_safe(void **state)
{
	JournalOptions options = {.directory = directory,.from = 2,.limit = 1};
	char	   *text = printed(&options);

	assert_null(strchr(text, 0x1b));
	assert_non_null(strstr(text, "SELECT ' [31m'"));
	free(text);
}

static void
print_one(const char *query, char **text)
{
	uint8_t		queries[2000];
	size_t		len;
	FILE	   *out = open_memstream(text, &len);
	JournalRecord r = {.type = RECORD_TRANSACTION,.seq = 1,.identity = {SLICE("n1"), 1, 2, 3},
	.database = SLICE("app"),.wait = LS_WAIT_APPLIED};

	r.queries = (LsSlice) {queries, put_query(queries, sizeof(queries), query)};
	print_record(out, "/nonexistent", &r, false);
	fclose(out);
}

static void
long_text_is_cut_between_characters(void **state)
{
	char		query[1000] = "x";
	char	   *text;

	for (int i = 0; i < 300; i++)
		strcat(query, "\xc3\xa4");	/* a-umlaut: two bytes */
	print_one(query, &text);
	assert_non_null(strstr(text, "\xc3\xa4... (601 bytes)\n"));
	assert_null(strstr(text, "\xc3."));
	free(text);
}

static void
broken_queries_are_said_to_be(void **state)
{
	char	   *text = NULL;
	size_t		len;
	FILE	   *out = open_memstream(&text, &len);
	JournalRecord r = {.type = RECORD_TRANSACTION,.seq = 1,.identity = {SLICE("n1"), 1, 2, 3},
	.database = SLICE("app"),.wait = LS_WAIT_ORDERED};

	r.queries = (LsSlice) {(const uint8_t *) "Q\0\0\0\0rest", 9};
	print_record(out, "/nonexistent", &r, true);
	fclose(out);
	assert_non_null(strstr(text, "  1  cannot be read: "));
	assert_non_null(strstr(text, "  4 bytes more cannot be read\n"));
	free(text);
}

static void
missing_journal_is_an_error(void **state)
{
	JournalOptions options = {.directory = "/nonexistent"};

	assert_int_equal(print_journal(stdout, &options), CTL_FAILED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_are_lines),
		cmocka_unit_test(waits_name_silent_nodes),
		cmocka_unit_test(nodes_are_aligned),
		cmocka_unit_test(status_has_everything),
		cmocka_unit_test(status_says_what_to_do),
		cmocka_unit_test(missing_facts_do_no_harm),
		cmocka_unit_test(journal_is_readable),
		cmocka_unit_test(journal_is_readable_for_programs),
		cmocka_unit_test(journal_begins_where_told),
		cmocka_unit_test(terminal_is_safe),
		cmocka_unit_test(long_text_is_cut_between_characters),
		cmocka_unit_test(broken_queries_are_said_to_be),
		cmocka_unit_test(missing_journal_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_journal, remove_journal);
}
