/*
 * config_sql.c: the table of configuration keys and the rules for values and names, as SQL functions.
 */
#include "pgb.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "topic_name.h"

static const int all_scopes[] = {CFG_TOPIC, CFG_CLUSTER, CFG_BROKER, CFG_GROUP};

static int
scope_of(const char *name)
{
	int i;

	for (i = 0; i < lengthof(all_scopes); i++)
		if (strcmp(config_scope_name(all_scopes[i]), name) == 0)
			return all_scopes[i];
	elog(ERROR, "unknown scope \"%s\"", name);
	return 0;
}

void
pgb_fault(const ConfigFault *fault)
{
	ereport(ERROR, errcode(PGB_ERRCODE('0', '4', '0')), errmsg("%s", fault->message),
			fault->detail[0] != '\0' ? errdetail("%s", fault->detail) : 0,
			fault->hint[0] != '\0' ? errhint("%s", fault->hint) : 0);
	pg_unreachable();
}

PG_FUNCTION_INFO_V1(pgb_config_check_1);
Datum
pgb_config_check_1(PG_FUNCTION_ARGS)
{
	int scope = scope_of(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	const ConfigKey *key;
	ConfigFault fault;
	char *kept = palloc(CONFIG_VALUE_MAX);

	key = config_key_require(text_to_cstring(PG_GETARG_TEXT_PP(1)), scope, &fault);
	if (key == NULL ||
		!config_value_check(key, text_to_cstring(PG_GETARG_TEXT_PP(2)), PG_GETARG_BOOL(3), kept, &fault))
		pgb_fault(&fault);
	PG_RETURN_TEXT_P(cstring_to_text(kept));
}

/* For rows that are kept already: a key that is gone from the table is shown as it is. */
static const ConfigKey *
find_key(FunctionCallInfo fcinfo)
{
	return config_key_find(text_to_cstring(PG_GETARG_TEXT_PP(1)),
						   scope_of(text_to_cstring(PG_GETARG_TEXT_PP(0))));
}

PG_FUNCTION_INFO_V1(pgb_config_pretty_1);
Datum
pgb_config_pretty_1(PG_FUNCTION_ARGS)
{
	const ConfigKey *key = find_key(fcinfo);
	char *kept = text_to_cstring(PG_GETARG_TEXT_PP(2));
	char out[CONFIG_VALUE_MAX];

	PG_RETURN_TEXT_P(cstring_to_text(key != NULL ? config_value_pretty(key, kept, out, sizeof(out)) : kept));
}

PG_FUNCTION_INFO_V1(pgb_config_unused_1);
Datum
pgb_config_unused_1(PG_FUNCTION_ARGS)
{
	const ConfigKey *key = find_key(fcinfo);
	const char *why = key != NULL ? config_value_unused(key, text_to_cstring(PG_GETARG_TEXT_PP(2))) : NULL;

	if (why == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(why));
}

static void
put_text(Datum *values, bool *nulls, int i, const char *s)
{
	nulls[i] = s == NULL;
	values[i] = s != NULL ? CStringGetTextDatum(s) : (Datum) 0;
}

PG_FUNCTION_INFO_V1(pgb_config_table_1);
Datum
pgb_config_table_1(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char allowed[256];
	int i, s;

	InitMaterializedSRF(fcinfo, 0);
	for (i = 0; i < config_keys_count; i++)
		for (s = 0; s < lengthof(all_scopes); s++)
		{
			const ConfigKey *key = &config_keys[i];
			Datum values[10];
			bool nulls[10] = {false};

			if ((key->scopes & all_scopes[s]) == 0)
				continue;
			put_text(values, nulls, 0, key->name);
			put_text(values, nulls, 1, config_scope_name(all_scopes[s]));
			put_text(values, nulls, 2, config_type_name(key->type));
			put_text(values, nulls, 3, config_unit_name(key->unit));
			put_text(values, nulls, 4, key->def);
			put_text(values, nulls, 5, config_key_allowed(key, allowed, sizeof(allowed)));
			put_text(values, nulls, 6, key->synonym);
			values[7] = BoolGetDatum(key->used);
			values[8] = BoolGetDatum(key->restart);
			put_text(values, nulls, 9, key->doc);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(pgb_check_topic_name_1);
Datum
pgb_check_topic_name_1(PG_FUNCTION_ARGS)
{
	char why[1024];

	if (!topic_name_check(text_to_cstring(PG_GETARG_TEXT_PP(0)), why, sizeof(why)))
		ereport(ERROR, errcode(PGB_ERRCODE('0', '1', '7')), errmsg("%s", why));
	PG_RETURN_VOID();
}
