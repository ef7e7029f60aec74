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

#include "capture.h"
#include "lockstep.h"
#include "pack.h"
#include "sessionsettings.h"
#include "statementtext.h"
#include "tokens.h"
#include "xact.h"

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

		/* character without a length is character(1) */
		appendStringInfo(out, "($%d::%s)", number,
						 format_type_extended(params->params[number - 1].ptype, -1,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
		copied = tokens.at + 1 + strspn(text + tokens.at + 1, "0123456789");
	}
	tokens_end(&tokens);
	appendStringInfoString(out, text + copied);
}

static void
append_params(StringInfo out, ParamListInfo params)
{
	int			level = NewGUCNestLevel();
	int			i;

	/* what is read in the same way under any setting */
	(void) set_config_option("extra_float_digits", "3", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("DateStyle", "ISO", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	for (i = 0; i < params->numParams; i++)
	{
		ParamExternData *param = &params->params[i];
		Oid			output;
		bool		is_varlena;
		char	   *text;

		if (param->isnull || !OidIsValid(param->ptype))
		{
			pack_param(out, NULL, 0);
			continue;
		}
		getTypeOutputInfo(param->ptype, &output, &is_varlena);
		text = OidOutputFunctionCall(output, param->value);
		pack_param(out, text, strlen(text));
	}
	AtEOXact_GUC(true, level);
}

void
statement_forward(QueryDesc *desc, LsReason reason, int64 rows, const LsKey *keys, int nkeys)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = reason,.rows = rows};
	char	   *source = statementtext_cut(desc->sourceText, desc->plannedstmt->stmt_location,
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
	sessionsettings_append(&settings);

	query.text = ls_slice_of_buffer(&text);
	query.params = ls_slice_of_buffer(&params);
	query.settings = ls_slice_of_buffer(&settings);
	for (i = 0; i < nkeys; i++)
		pack_key(&packed, &keys[i]);
	query.nkeys = nkeys;
	query.keys = ls_slice_of_buffer(&packed);
	capture_flush();
	xact_forward(&query);
}
