/*
 * test_querytext.c
 *	  Queries as they are shown: values in the place of parameters, the row of a
 *	  run, nothing too long, nothing of what others write.
 */
#include "unit.h"

#include "querytext.h"

static uint8_t params[1024];
static uint8_t keys[1024];
static LsQuery query;

static void
row(const char *text, LsForm form)
{
	memset(&query, 0, sizeof(query));
	query.form = form;
	query.text = ls_slice_of(text);
	query.params.data = params;
	query.keys.data = keys;
}

static void
param(const char *text)
{
	query.params.len += ls_put_param(params + query.params.len, sizeof(params) - query.params.len,
									 text, text != NULL ? strlen(text) : 0);
	query.nparams++;
}

static LsKey
key(uint64_t hash, const char *name, LsKeyMode mode)
{
	LsKey		k = {hash, 0, mode, ls_slice_of(name)};

	query.keys.len += ls_put_key(keys + query.keys.len, sizeof(keys) - query.keys.len, &k);
	query.nkeys++;
	return k;
}

static void
shows(const LsKey *k, bool own, const char *expected)
{
	char	   *text = query_shown(&query, k, own);

	assert_string_equal(text, expected);
	free(text);
}

static void
values(void **state)
{
	row("UPDATE ONLY public.t SET v = $1, w = $2 WHERE a OPERATOR(pg_catalog.=) $3::pg_catalog.int4 AND b OPERATOR(public.=) $4::pg_catalog.\"char\"", LS_FORM_ROW);
	param("7");
	param(NULL);
	param("1");
	param("x\ny");
	shows(NULL, true, "UPDATE ONLY public.t SET v = '7', w = NULL WHERE a = '1' AND b OPERATOR(public.=) 'x y'");
	shows(NULL, false, "UPDATE ONLY public.t SET v = $1, w = $2 WHERE a = '1' AND b OPERATOR(public.=) 'x y'");
	query.params.len = 0;		/* fewer than the text says: as they are */
	shows(NULL, true, "UPDATE ONLY public.t SET v = $1, w = $2 WHERE a = $3 AND b OPERATOR(public.=) $4");
}

static void
whole_rows(void **state)
{
	row("DELETE FROM ONLY public.t WHERE ctid OPERATOR(pg_catalog.=) COALESCE((SELECT x.ctid FROM ONLY public.t x WHERE "
		"(x.a OPERATOR(pg_catalog.=) $1::pg_catalog.int4) IS NOT FALSE AND x.* OPERATOR(pg_catalog.*=) "
		"ROW($1::pg_catalog.int4, $2::pg_catalog.text)::public.t LIMIT 1), NULL)", LS_FORM_ROW);
	param("1");
	param(NULL);
	shows(NULL, false, "DELETE FROM ONLY public.t WHERE the row is ('1', NULL)");
}

/* Runs of changes: extension/capture/batch.c. */
static void
runs_of_changes(void **state)
{
	LsKey		k;

	row("UPDATE ONLY public.t AS x SET v = u.c1 FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), "
		"pg_catalog.unnest($2::pg_catalog.int4[])) AS u(c1, c2) WHERE x.id OPERATOR(pg_catalog.=) u.c2", LS_FORM_ROW);
	param("{\"a,\",NULL,\"b \\\"c\\\"\",\"\"}");
	param("{\"1\",\"2\",\"3\",\"4\"}");
	query.rows = 4;
	for (uint64_t i = 1; i <= 4; i++)
		k = key(i, "public.t_pkey", LS_ROW_EXCLUSIVE);
	k.hash = 1;
	shows(&k, true, "UPDATE ONLY public.t SET v = 'a,' WHERE id = '1'");
	k.hash = 2;
	shows(&k, true, "UPDATE ONLY public.t SET v = NULL WHERE id = '2'");
	k.hash = 3;
	shows(&k, true, "UPDATE ONLY public.t SET v = 'b \"c\"' WHERE id = '3'");
	k.hash = 4;
	shows(&k, true, "UPDATE ONLY public.t SET v = '' WHERE id = '4'");
	k.hash = 5;
	shows(&k, true, "UPDATE ONLY public.t SET v = $1 WHERE id = $2");
	shows(&k, false, "UPDATE ONLY public.t SET v = $1 WHERE id = $2");
	shows(NULL, true, "UPDATE ONLY public.t SET v = $1 WHERE id = $2");

	query.text = ls_slice_of("DELETE FROM ONLY public.t AS x USING ROWS FROM (pg_catalog.unnest($2::pg_catalog.int4[])) AS u(c2) "
							 "WHERE x.id OPERATOR(pg_catalog.=) u.c2 AND x.b OPERATOR(pg_catalog.=) u.c1");
	k.hash = 1;
	shows(&k, true, "DELETE FROM ONLY public.t WHERE id = '1' AND b = 'a,'");
	query.params.len = 0;
	param("{\"cut");
	param("{");
	shows(&k, true, "DELETE FROM ONLY public.t WHERE id = NULL AND b = 'cu'");
}

static void
long_ones(void **state)
{
	char		text[600];
	char	   *shown;

	memset(text, 'v', sizeof(text));
	strcpy(text + 500, " WHERE id = $1");
	row(text, LS_FORM_ROW);
	param("\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244x\303\244\303\244");
	shown = query_shown(&query, NULL, true);
	assert_true(strlen(shown) < 300);
	assert_non_null(strstr(shown, "v... WHERE id = '"));
	/* not in the middle of a character */
	assert_non_null(strstr(shown, "x...'"));
	free(shown);
	row(text, LS_FORM_STATEMENT);
	shown = query_shown(&query, NULL, true);
	assert_true(strlen(shown) < 200);
	free(shown);
}

static void
runs(void **state)
{
	LsKey		second;
	LsKey		other;

	row("COPY public.t (id, u) FROM STDIN", LS_FORM_COPY);
	query.rows = 3;
	param("1\ta\n2\tb\n3\t\\N\n");
	key(99, "public.t", LS_TABLE_IX);
	key(1, "public.t t_pkey", LS_ROW_EXCLUSIVE);
	key(11, "public.t t_u_key", LS_ROW_EXCLUSIVE);
	second = key(2, "public.t t_pkey", LS_ROW_EXCLUSIVE);
	other = key(12, "public.t t_u_key", LS_ROW_EXCLUSIVE);
	key(3, "public.t t_pkey", LS_ROW_EXCLUSIVE);
	shows(&second, true, "COPY public.t (id, u) FROM STDIN: 2 b");
	/* a NULL has no key: which row it is can't be told */
	shows(&other, true, "COPY public.t (id, u) FROM STDIN");
	shows(&second, false, "COPY public.t (id, u) FROM STDIN");
}

static void
nothing(void **state)
{
	memset(&query, 0, sizeof(query));
	shows(NULL, true, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(whole_rows),
		cmocka_unit_test(runs_of_changes),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(runs),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
