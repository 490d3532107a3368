/* CreatePartitions (key 37), v0-3: raise a topic's number of partitions. */
#include "brokerd/api/admin.h"

static bool
all_grown(AdminOp *op)
{
	const CreatePartitionsRequest *request = op->call->body;
	const CreatePartitionsResponse *response = op->response;

	for (int32_t i = 0; i < response->n_results; i++)
		for (int32_t j = 0; response->results[i].error_code == KERR_NONE && j < request->n_topics; j++)
		{
			PartitionTopic *topic = partitions_topic(op->call->broker->partitions, request->topics[j].name);

			if (wstr_eq(request->topics[j].name, response->results[i].name) && topic != NULL &&
				topic->n_partitions < request->topics[j].count)
				return false;
		}
	return true;
}

/* Of a topic that is named more than once: the places before and behind `i` where it stands too. */
static void
count_others(const CreatePartitionsRequest *request, int32_t i, int32_t *before, int32_t *behind)
{
	*before = *behind = 0;
	for (int32_t j = 0; j < request->n_topics; j++)
		if (j != i && wstr_eq(request->topics[i].name, request->topics[j].name))
			++*(j < i ? before : behind);
}

/* What needs no look at the tables; SQL takes an empty assignment for none. */
static void
refuse_malformed(ApiCall *call, const CreatePartitionsRequestTopics *topic, bool is_twice,
				 CreatePartitionsResponseResults *out)
{
	const PartitionTopic *known = partitions_topic(call->broker->partitions, topic->name);

	if (is_twice)
	{
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message = WSTR_LIT("Duplicate topic name.");
	}
	else if (topic->n_assignments == 0 && known != NULL && topic->count > known->n_partitions)
	{
		out->error_code = KERR_INVALID_REPLICA_ASSIGNMENT;
		out->error_message =
			api_printf(call, "Increasing the number of partitions by %d but 0 assignments provided.",
					   topic->count - known->n_partitions);
	}
}

static void
finish(AdminOp *op)
{
	api_reply(op->call, op->response);
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	const CreatePartitionsRequest *request = op->call->body;
	CreatePartitionsResponse *response = op->response;

	for (int32_t i = 0; i < response->n_results; i++)
	{
		CreatePartitionsResponseResults *out = &response->results[i];

		if (out->error_code != KERR_NONE)
			continue;
		if (meta_result_status(result) != META_OK)
			out->error_code = admin_failure(op->call, result, &out->error_message);
		for (int r = 0; meta_result_status(result) == META_OK && r < meta_result_rows(result); r++)
			if (wstr_eq(wstr(meta_result_text(result, r, 0)), out->name))
			{
				out->error_code = (int16_t) meta_result_int(result, r, 1);
				out->error_message = admin_text(op->call, result, r, 2);
			}
	}
	if (request->validate_only)
		op->settled = NULL;
	admin_settle(op);
}

static void
write_topic(MetaText *json, const CreatePartitionsRequestTopics *topic)
{
	meta_text_puts(json, "{\"name\":");
	meta_text_json(json, topic->name.s, topic->name.len);
	meta_text_printf(json, ",\"count\":%d,\"assignment\":", topic->count);
	if (topic->n_assignments < 0)
		meta_text_puts(json, "null");
	else
	{
		meta_text_puts(json, "[");
		for (int32_t i = 0; i < topic->n_assignments; i++)
		{
			meta_text_puts(json, i > 0 ? ",[" : "[");
			for (int32_t j = 0; j < topic->assignments[i].n_broker_ids; j++)
				meta_text_printf(json, "%s%d", j > 0 ? "," : "", topic->assignments[i].broker_ids[j]);
			meta_text_puts(json, "]");
		}
		meta_text_puts(json, "]");
	}
	meta_text_puts(json, "}");
}

void
create_partitions_handle(ApiCall *call)
{
	const CreatePartitionsRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	CreatePartitionsResponse *response = API_NEW(call, CreatePartitionsResponse, 1);
	MetaText json = {0};
	MetaRequester who;
	int n = 0;

	op->call = call;
	op->response = response;
	op->settled = all_grown;
	op->finish = finish;
	response->results = API_NEW(call, CreatePartitionsResponseResults, request->n_topics);
	response->n_results = 0;
	meta_text_puts(&json, "[");
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		CreatePartitionsResponseResults *out = &response->results[response->n_results];
		int32_t before, behind;

		count_others(request, i, &before, &behind);
		if (before > 0)
			continue; /* answered at its first place */
		response->n_results++;
		out->name = request->topics[i].name;
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
		meta_create_partitions(call->broker->meta, &who, meta_text_cstr(&json), request->validate_only,
							   api_deadline(call, request->timeout_ms), on_result, op);
	}
	meta_text_free(&json);
}
