/*
 * DescribeConfigs (key 32), v1-4: effective values with where they come from, synonyms (v1), types and docs (v3).
 * Answered from the image and the table of keys.  Topics, brokers (this one, or "" for the cluster's defaults),
 * groups.  What is set of groups is no part of the image, since no broker acts on it: PostgreSQL is asked.
 */
#include "brokerd/api/admin.h"
#include "brokerd/api/common.h"
#include "brokerd/api/config_entries.h"
#include "brokerd/api/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum
{
	RESOURCE_TOPIC = 2,
	RESOURCE_BROKER = 4,
	RESOURCE_GROUP = 32,
	GROUPS_TIMEOUT_MS = 10000
};

typedef DescribeConfigsResponseResultsConfigs Entry;

static bool
is_asked(const DescribeConfigsRequestResources *resource, const char *name)
{
	if (resource->n_configuration_keys <= 0) /* Kafka: an empty list is no restriction either */
		return true;
	for (int32_t i = 0; i < resource->n_configuration_keys; i++)
		if (wstr_eq(resource->configuration_keys[i], wstr(name)))
			return true;
	return false;
}

/* Kafka's numbers for types: BOOLEAN 1, STRING 2, INT 3, SHORT 4, LONG 5, DOUBLE 6, LIST 7. */
static int8_t
type_code(ConfigType type)
{
	static const int8_t codes[] = {
		[CFG_BOOL] = 1, [CFG_STRING] = 2, [CFG_INT] = 3, [CFG_LONG] = 5, [CFG_DOUBLE] = 6, [CFG_LIST] = 7};

	return codes[type];
}

static void
fill_synonyms(ApiCall *call, const MetaTopic *topic, int scope, const char *key, Entry *out)
{
	ConfigLayer layers[CONFIG_MAX_LAYERS];
	int n =
		topic_config_layers(call->broker->configs, meta_image(call->broker->meta), topic, scope, key, layers);

	out->synonyms = API_NEW(call, DescribeConfigsResponseResultsConfigsSynonyms, n);
	out->n_synonyms = n;
	for (int i = 0; i < n; i++)
	{
		out->synonyms[i].name = wstr(layers[i].name);
		out->synonyms[i].value = api_copy(call, layers[i].value);
		out->synonyms[i].source = (int8_t) layers[i].source;
	}
}

static void
fill_entry(ApiCall *call, const ConfigKey *key, Entry *out)
{
	const DescribeConfigsRequest *request = call->body;

	out->name = wstr(key->name);
	out->read_only = false;
	out->is_sensitive = false;
	out->config_type = type_code(key->type);
	out->n_synonyms = 0;
	if (request->include_documentation)
		out->documentation = wstr(key->doc);
}

static void
describe_topic(ApiCall *call, const DescribeConfigsRequestResources *in, DescribeConfigsResponseResults *out)
{
	const DescribeConfigsRequest *request = call->body;
	const MetaTopic *topic =
		in->resource_name.len > 0
			? meta_image_topic(meta_image(call->broker->meta), in->resource_name.s, in->resource_name.len)
			: NULL;
	ConfigEntry *entries;
	int32_t n;

	if (topic_name_fault(in->resource_name) != NULL)
	{
		out->error_code = KERR_INVALID_TOPIC_EXCEPTION;
		out->error_message =
			api_printf(call, "Topic name is invalid: %s", topic_name_fault(in->resource_name));
		return;
	}
	if (topic == NULL)
	{
		out->error_code = KERR_UNKNOWN_TOPIC_OR_PARTITION;
		out->error_message = wstr(kerr_message(out->error_code));
		return;
	}
	entries = config_entries_of_topic(call, in->resource_name, &n);
	out->configs = API_NEW(call, DescribeConfigsResponseResultsConfigs, n);
	for (int32_t i = 0; i < n; i++)
	{
		Entry *entry;

		if (!is_asked(in, entries[i].key->name))
			continue;
		entry = &out->configs[out->n_configs++];
		fill_entry(call, entries[i].key, entry);
		entry->value = entries[i].value;
		entry->config_source = entries[i].source;
		if (request->include_synonyms)
			fill_synonyms(call, topic, CFG_TOPIC, entries[i].key->name, entry);
	}
}

/* One dynamic key of a broker or of the cluster's defaults; of the latter only what is set, as Kafka shows them. */
static void
describe_broker_key(ApiCall *call, const ConfigKey *key, bool cluster, DescribeConfigsResponseResults *out)
{
	const DescribeConfigsRequest *request = call->body;
	MetaImage *image = meta_image(call->broker->meta);
	ConfigSource source = CONFIG_SOURCE_DEFAULT;
	char text[TOPIC_CONFIG_TEXT];
	const char *value = cluster ? meta_image_cluster_config(image, key->name)
								: broker_config_text(call->broker->configs, image, key->name, &source, text);
	Entry *entry;

	if (cluster && value == NULL)
		return;
	entry = &out->configs[out->n_configs++];
	fill_entry(call, key, entry);
	entry->value = api_copy(call, value);
	entry->read_only = key->restart;
	entry->config_source = cluster ? CONFIG_SOURCE_CLUSTER : (int8_t) source;
	if (request->include_synonyms)
		fill_synonyms(call, NULL, cluster ? CFG_CLUSTER : CFG_BROKER, key->name, entry);
}

/* An option of the properties file that no dynamic key overrides: read only; secrets without their value. */
static void
describe_static_option(ApiCall *call, int id, DescribeConfigsResponseResults *out)
{
	static const int8_t types[] = {
		[OPTION_INT] = 3,    [OPTION_LONG] = 5, [OPTION_DOUBLE] = 6, [OPTION_BOOL] = 1,
		[OPTION_STRING] = 2, [OPTION_LIST] = 7, [OPTION_SECRET] = 9};
	const DescribeConfigsRequest *request = call->body;
	const BrokerConfig *config = call->broker->config;
	int n;
	const ConfigOption *option = &config_options(&n)[id];
	char text[TOPIC_CONFIG_TEXT];
	Entry *entry = &out->configs[out->n_configs++];

	entry->name = wstr(option->name);
	entry->is_sensitive = option->type == OPTION_SECRET;
	entry->value =
		entry->is_sensitive ? WSTR_NULL : api_copy(call, config_value_text(config, id, text, sizeof(text)));
	entry->read_only = true;
	entry->config_source = config->set[id] ? CONFIG_SOURCE_STATIC : CONFIG_SOURCE_DEFAULT;
	entry->config_type = types[option->type];
	entry->n_synonyms = 0;
	if (request->include_synonyms)
	{
		entry->synonyms = API_NEW(call, DescribeConfigsResponseResultsConfigsSynonyms, 2);
		entry->synonyms[entry->n_synonyms++] =
			(DescribeConfigsResponseResultsConfigsSynonyms){entry->name, entry->value, entry->config_source};
		if (config->set[id] && option->default_text != NULL && !entry->is_sensitive)
			entry->synonyms[entry->n_synonyms++] = (DescribeConfigsResponseResultsConfigsSynonyms){
				entry->name, wstr(option->default_text), CONFIG_SOURCE_DEFAULT};
	}
	if (request->include_documentation)
		entry->documentation = wstr(option->doc);
}

/* "" is the defaults of all brokers; a number is that broker, which must be this one. */
static void
describe_broker(ApiCall *call, const DescribeConfigsRequestResources *in, DescribeConfigsResponseResults *out)
{
	const TopicConfigs *configs = call->broker->configs;
	bool cluster = in->resource_name.len <= 0;
	int scope = cluster ? CFG_CLUSTER : CFG_BROKER;
	int n = topic_config_keys(configs, scope, NULL, 0);
	int n_options;
	const ConfigOption *options = config_options(&n_options);
	const ConfigKey **keys = api_alloc(call, sizeof(*keys) * (size_t) n);
	char id[16];

	snprintf(id, sizeof(id), "%d", call->broker->config->node_id);
	if (!cluster && !wstr_eq(in->resource_name, wstr(id)))
	{
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message =
			api_printf(call, "Unexpected broker id, expected %s or empty string, but received %.*s", id,
					   in->resource_name.len, in->resource_name.s);
		return;
	}
	topic_config_keys(configs, scope, keys, n);
	out->configs = API_NEW(call, DescribeConfigsResponseResultsConfigs, n + n_options);
	for (int i = 0; i < n; i++)
		if (is_asked(in, keys[i]->name))
			describe_broker_key(call, keys[i], cluster, out);
	for (int i = 0; i < n_options && !cluster; i++)
		if (is_asked(in, options[i].name) && topic_config_key(configs, CFG_BROKER, options[i].name) == NULL)
			describe_static_option(call, i, out);
}

/* ---- groups ---- */

/* What is set, or NULL. */
static const char *
group_value(const MetaResult *set, WStr group_id, const char *key)
{
	for (int r = 0; r < meta_result_rows(set); r++)
	{
		if (strcmp(meta_result_text(set, r, 1), key) == 0 &&
			wstr_eq(wstr(meta_result_text(set, r, 0)), group_id))
			return meta_result_text(set, r, 2);
	}
	return NULL;
}

static void
describe_group(ApiCall *call, const MetaResult *set, const DescribeConfigsRequestResources *in,
			   DescribeConfigsResponseResults *out)
{
	const DescribeConfigsRequest *request = call->body;
	const TopicConfigs *configs = call->broker->configs;
	int n = topic_config_keys(configs, CFG_GROUP, NULL, 0);
	const ConfigKey **keys = api_alloc(call, sizeof(*keys) * (size_t) n);

	topic_config_keys(configs, CFG_GROUP, keys, n);
	out->configs = API_NEW(call, DescribeConfigsResponseResultsConfigs, n);
	for (int i = 0; i < n; i++)
	{
		const char *value = group_value(set, in->resource_name, keys[i]->name);
		Entry *entry;

		if (!is_asked(in, keys[i]->name))
			continue;
		entry = &out->configs[out->n_configs++];
		fill_entry(call, keys[i], entry);
		entry->value = api_copy(call, value != NULL ? value : keys[i]->def);
		entry->config_source = value != NULL ? CONFIG_SOURCE_GROUP : CONFIG_SOURCE_DEFAULT;
		if (!request->include_synonyms)
			continue;
		entry->synonyms = API_NEW(call, DescribeConfigsResponseResultsConfigsSynonyms, 1);
		entry->synonyms[entry->n_synonyms++] =
			(DescribeConfigsResponseResultsConfigsSynonyms){entry->name, entry->value, entry->config_source};
	}
}

static bool
is_named_group(const DescribeConfigsRequestResources *in)
{
	return in->resource_type == RESOURCE_GROUP && in->resource_name.len > 0;
}

static void
on_groups(void *ctx, const MetaResult *set)
{
	ApiCall *call = ctx;
	const DescribeConfigsRequest *request = call->body;
	DescribeConfigsResponse *response = call->op;

	for (int32_t i = 0; i < response->n_results; i++)
	{
		DescribeConfigsResponseResults *out = &response->results[i];

		if (!is_named_group(&request->resources[i]))
			continue;
		if (meta_result_status(set) == META_OK)
			describe_group(call, set, &request->resources[i], out);
		else
			out->error_code = admin_failure(call, set, &out->error_message);
	}
	api_reply(call, response);
}

/* Asks for what is set of the groups that are named; false: none is. */
static bool
ask_for_groups(ApiCall *call)
{
	const DescribeConfigsRequest *request = call->body;
	MetaText ids = {0};
	const char *params[1];
	bool any = false;

	meta_text_puts(&ids, "{");
	for (int32_t i = 0; i < request->n_resources; i++)
	{
		const DescribeConfigsRequestResources *in = &request->resources[i];

		/* PostgreSQL's text has no byte 0: such a group has no configs. */
		if (!is_named_group(in) || memchr(in->resource_name.s, 0, (size_t) in->resource_name.len) != NULL)
			continue;
		meta_text_puts(&ids, any ? "," : "");
		meta_text_element(&ids, api_printf(call, "%.*s", in->resource_name.len, in->resource_name.s).s);
		any = true;
	}
	meta_text_puts(&ids, "}");
	params[0] = meta_text_cstr(&ids);
	if (any)
		meta_call(call->broker->meta, META_GROUP_CONFIGS, params, 1, api_deadline(call, GROUPS_TIMEOUT_MS),
				  on_groups, call);
	meta_text_free(&ids);
	return any;
}

void
describe_configs_handle(ApiCall *call)
{
	const DescribeConfigsRequest *request = call->body;
	DescribeConfigsResponse *response = api_alloc(call, sizeof(*response));

	WIRE_INIT(DescribeConfigsResponse, response);
	response->results = API_NEW(call, DescribeConfigsResponseResults, request->n_resources);
	response->n_results = request->n_resources > 0 ? request->n_resources : 0;
	for (int32_t i = 0; i < response->n_results; i++)
	{
		const DescribeConfigsRequestResources *in = &request->resources[i];
		DescribeConfigsResponseResults *out = &response->results[i];

		out->resource_type = in->resource_type;
		out->resource_name = in->resource_name;
		out->n_configs = 0;
		if (in->resource_type == RESOURCE_TOPIC)
			describe_topic(call, in, out);
		else if (in->resource_type == RESOURCE_BROKER)
			describe_broker(call, in, out);
		else if (in->resource_type == RESOURCE_GROUP && in->resource_name.len <= 0)
		{
			out->error_code = KERR_INVALID_REQUEST;
			out->error_message = WSTR_LIT("Group name must not be empty");
		}
		else if (in->resource_type != RESOURCE_GROUP)
		{
			out->error_code = KERR_INVALID_REQUEST;
			out->error_message = WSTR_LIT("Configs of this kind of resource are not kept here.");
		}
	}
	call->op = response;
	if (!ask_for_groups(call))
		api_reply(call, response);
}
