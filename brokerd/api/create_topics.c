/*
 * CreateTopics (key 19), v2-7.  Names, counts, placement and configs are judged by the extension, which gives
 * the same sentences in SQL.  v5 returns the configs, v7 the topic id.
 */
#include "brokerd/api/admin.h"
#include "brokerd/api/config_entries.h"

/* Of a topic that is named more than once: the places before and behind `i` where it stands too. */
static void
count_others(const CreateTopicsRequest *request, int32_t i, int32_t *before, int32_t *behind)
{
	*before = *behind = 0;
	for (int32_t j = 0; j < request->n_topics; j++)
		if (j != i && wstr_eq(request->topics[i].name, request->topics[j].name))
			++*(j < i ? before : behind);
}

/* What the JSON for the extension cannot carry: a key twice, an absent value, a count beside an assignment. */
static int16_t
find_fault(const CreateTopicsRequestTopics *topic, WStr *message)
{
	for (int32_t i = 0; i < topic->n_assignments; i++)
		for (int32_t j = 0; j < i; j++)
			if (topic->assignments[i].partition_index == topic->assignments[j].partition_index)
			{
				*message = WSTR_LIT("A partition is assigned twice.");
				return KERR_INVALID_REPLICA_ASSIGNMENT;
			}
	if (topic->n_assignments > 0 && (topic->num_partitions != -1 || topic->replication_factor != -1))
	{
		*message =
			WSTR_LIT("With an assignment, the number of partitions and the replication factor must be -1.");
		return KERR_INVALID_REQUEST;
	}
	for (int32_t i = 0; i < topic->n_configs; i++)
		if (topic->configs[i].value.len < 0)
		{
			*message = WSTR_LIT("A config has no value.");
			return KERR_INVALID_CONFIG;
		}
	return KERR_NONE;
}

/* Names come first: who asks for a topic that is there already learns just that. */
static void
refuse_malformed(ApiCall *call, const CreateTopicsRequestTopics *topic, bool is_twice,
				 CreateTopicsResponseTopics *out)
{
	if (is_twice)
	{
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message = WSTR_LIT("Duplicate topic name.");
	}
	else if (topic_name_fault(topic->name) == NULL &&
			 partitions_topic(call->broker->partitions, topic->name) == NULL)
		out->error_code = find_fault(topic, &out->error_message);
}

static const CreateTopicsRequestTopics *
find_asked(const CreateTopicsRequest *request, WStr name)
{
	for (int32_t i = 0; i < request->n_topics; i++)
		if (wstr_eq(request->topics[i].name, name))
			return &request->topics[i];
	return NULL;
}

static void
write_assignment(MetaText *json, const CreateTopicsRequestTopics *topic)
{
	if (topic->n_assignments <= 0)
		return;
	meta_text_puts(json, ",\"assignment\":{");
	for (int32_t i = 0; i < topic->n_assignments; i++)
	{
		const CreateTopicsRequestTopicsAssignments *a = &topic->assignments[i];

		meta_text_printf(json, "%s\"%d\":[", i > 0 ? "," : "", a->partition_index);
		for (int32_t j = 0; j < a->n_broker_ids; j++)
			meta_text_printf(json, "%s%d", j > 0 ? "," : "", a->broker_ids[j]);
		meta_text_puts(json, "]");
	}
	meta_text_puts(json, "}");
}

static void
write_topic(MetaText *json, const CreateTopicsRequestTopics *topic)
{
	meta_text_puts(json, "{\"name\":");
	meta_text_json(json, topic->name.s, topic->name.len);
	meta_text_printf(json, ",\"partitions\":%d,\"replication_factor\":%d", topic->num_partitions,
					 topic->replication_factor);
	write_assignment(json, topic);
	meta_text_puts(json, ",\"config\":{");
	for (int32_t i = 0; i < topic->n_configs; i++)
	{
		if (i > 0)
			meta_text_puts(json, ",");
		meta_text_json(json, topic->configs[i].name.s, topic->configs[i].name.len);
		meta_text_puts(json, ":");
		meta_text_json(json, topic->configs[i].value.s, topic->configs[i].value.len);
	}
	meta_text_puts(json, "}}");
}

static bool
all_there(AdminOp *op)
{
	const CreateTopicsResponse *response = op->response;

	for (int32_t i = 0; i < response->n_topics; i++)
		if (response->topics[i].error_code == KERR_NONE &&
			partitions_topic_by_id(op->call->broker->partitions, &response->topics[i].topic_id) == NULL)
			return false;
	return true;
}

/* What a created topic was given, by its own configs and what it inherits. */
static void
fill_configs(ApiCall *call, const CreateTopicsRequestTopics *asked, CreateTopicsResponseTopics *out)
{
	int32_t n;
	ConfigEntry *entries = config_entries_of_topic(call, out->name, &n);

	out->configs = API_NEW(call, CreateTopicsResponseTopicsConfigs, n);
	out->n_configs = n;
	for (int32_t i = 0; i < n; i++)
	{
		CreateTopicsResponseTopicsConfigs *c = &out->configs[i];

		c->name = entries[i].name;
		c->value = entries[i].value;
		c->config_source = entries[i].source;
		c->read_only = false;
		c->is_sensitive = false;
		/* Only validated: the topic is not there to be asked. */
		for (int32_t j = 0; asked != NULL && j < asked->n_configs; j++)
			if (wstr_eq(asked->configs[j].name, c->name))
			{
				c->value = asked->configs[j].value;
				c->config_source = CONFIG_SOURCE_TOPIC;
			}
	}
}

static void
finish(AdminOp *op)
{
	CreateTopicsResponse *response = op->response;
	const CreateTopicsRequest *request = op->call->body;

	for (int32_t i = 0; i < response->n_topics; i++)
		if (response->topics[i].error_code == KERR_NONE && op->call->version >= 5)
			fill_configs(op->call, find_asked(request, response->topics[i].name), &response->topics[i]);
	api_reply(op->call, response);
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	CreateTopicsResponse *response = op->response;
	const CreateTopicsRequest *request = op->call->body;
	bool ok = meta_result_status(result) == META_OK;

	for (int32_t i = 0; i < response->n_topics; i++)
	{
		CreateTopicsResponseTopics *out = &response->topics[i];

		if (out->error_code != KERR_NONE)
			continue;
		if (!ok)
		{
			out->error_code = admin_failure(op->call, result, &out->error_message);
			continue;
		}
		for (int r = 0; r < meta_result_rows(result); r++)
		{
			if (!wstr_eq(wstr(meta_result_text(result, r, 0)), out->name))
				continue;
			out->topic_id = meta_result_uuid(result, r, 1);
			out->error_code = (int16_t) meta_result_int(result, r, 2);
			out->error_message = admin_text(op->call, result, r, 3);
			if (out->error_code == KERR_NONE)
			{
				out->num_partitions = (int32_t) meta_result_int(result, r, 4);
				out->replication_factor = (int16_t) meta_result_int(result, r, 5);
			}
		}
	}
	if (request->validate_only)
		op->settled = NULL;
	admin_settle(op);
}

void
create_topics_handle(ApiCall *call)
{
	const CreateTopicsRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	CreateTopicsResponse *response = API_NEW(call, CreateTopicsResponse, 1);
	MetaText json = {0};
	MetaRequester who;
	int n = 0;

	op->call = call;
	op->response = response;
	op->settled = all_there;
	op->finish = finish;
	response->topics = API_NEW(call, CreateTopicsResponseTopics, request->n_topics);
	response->n_topics = 0;
	meta_text_puts(&json, "[");
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		CreateTopicsResponseTopics *out = &response->topics[response->n_topics];
		int32_t before, behind;

		count_others(request, i, &before, &behind);
		if (before > 0)
			continue; /* answered at its first place */
		response->n_topics++;
		out->name = request->topics[i].name;
		out->num_partitions = -1;
		out->replication_factor = -1;
		out->n_configs = 0;
		refuse_malformed(call, &request->topics[i], behind > 0, out);
		if (out->error_code != KERR_NONE)
			continue;
		if (n++ > 0)
			meta_text_puts(&json, ",");
		write_topic(&json, &request->topics[i]);
	}
	meta_text_puts(&json, "]");
	if (n == 0)
		api_reply(call, response);
	else
	{
		api_requester(call, &who);
		meta_create_topics(call->broker->meta, &who, meta_text_cstr(&json), request->validate_only,
						   api_deadline(call, request->timeout_ms), on_result, op);
	}
	meta_text_free(&json);
}
