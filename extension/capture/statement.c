/*
 * statement.c
 *	  A query in statement form: its own text, parameters and settings.
 *
 * A parameter travels as text, and its type in the query's text, as a cast: the
 * other node must not guess another one.
 */
#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "ddl.h"
#include "tokens.h"

/* Append text with ($n::type) for each $n. */
static void
append_typed(StringInfo out, const char *text, ParamListInfo params)
{
	Tokens		tokens;
	int			copied = 0;

	tokens_begin(&tokens, text);
	while (tokens_next(&tokens))
	{
		int			number = tokens.kind == TOKEN_PARAM ? tokens.value.ival : 0;

		if (number < 1 || number > params->numParams)
			continue;
		appendBinaryStringInfo(out, text + copied, tokens.at - copied);
		appendStringInfo(out, "($%d::%s)", number,
						 format_type_be_qualified(params->params[number - 1].ptype));
		copied = tokens.at + 1 + strspn(text + tokens.at + 1, "0123456789");
	}
	tokens_end(&tokens);
	appendStringInfoString(out, text + copied);
}

Node *
statement_parse(const char *text)
{
	List	   *parsed = raw_parser(text, RAW_PARSE_DEFAULT);

	return list_length(parsed) == 1 ? linitial_node(RawStmt, parsed)->stmt : NULL;
}

void
statement_pack_param(StringInfo out, const char *text, size_t len)
{
	size_t		size = ls_put_param(NULL, 0, text, len);

	enlargeStringInfo(out, (int) Min(size, MaxAllocSize));
	ls_put_param((uint8_t *) out->data + out->len, size, text, len);
	out->len += (int) size;
}

void
statement_pack_key(StringInfo out, const LsKey *key)
{
	enlargeStringInfo(out, LS_MAX_KEY_SIZE);
	out->len += (int) ls_put_key((uint8_t *) out->data + out->len, LS_MAX_KEY_SIZE, key);
}

static void
append_params(StringInfo out, ParamListInfo params)
{
	int			level = NewGUCNestLevel();
	int			i;

	(void) set_config_option("extra_float_digits", "3", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	for (i = 0; i < params->numParams; i++)
	{
		ParamExternData *param = &params->params[i];
		Oid			output;
		bool		is_varlena;
		char	   *text;

		if (param->isnull || !OidIsValid(param->ptype))
		{
			statement_pack_param(out, NULL, 0);
			continue;
		}
		getTypeOutputInfo(param->ptype, &output, &is_varlena);
		text = OidOutputFunctionCall(output, param->value);
		statement_pack_param(out, text, strlen(text));
	}
	AtEOXact_GUC(true, level);
}

void
statement_forward(QueryDesc *desc, LsReason reason, int64 rows, const LsKey *keys, int nkeys)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = reason,.rows = rows};
	char	   *source = ddl_statement_text(desc->sourceText, desc->plannedstmt->stmt_location,
											desc->plannedstmt->stmt_len);
	StringInfoData text;
	StringInfoData params;
	StringInfoData settings;
	StringInfoData packed;
	int			i;

	initStringInfo(&text);
	initStringInfo(&params);
	initStringInfo(&settings);
	initStringInfo(&packed);
	if (desc->params != NULL && desc->params->numParams > 0)
	{
		append_typed(&text, source, desc->params);
		append_params(&params, desc->params);
		query.nparams = desc->params->numParams;
	}
	else
		appendStringInfoString(&text, source);
	settings_append(&settings);

	query.text = ls_slice_of_buffer(&text);
	query.params = ls_slice_of_buffer(&params);
	query.settings = ls_slice_of_buffer(&settings);
	for (i = 0; i < nkeys; i++)
		statement_pack_key(&packed, &keys[i]);
	query.nkeys = nkeys;
	query.keys = ls_slice_of_buffer(&packed);
	capture_flush();
	xact_forward(&query);
}
