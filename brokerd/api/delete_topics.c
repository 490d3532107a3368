/* DeleteTopics (key 20), v1-6; v5 error messages, v6 by topic id. */
#include "brokerd/api/admin.h"

static bool
all_gone(AdminOp *op)
{
	const DeleteTopicsResponse *response = op->response;

	for (int32_t i = 0; i < response->n_responses; i++)
		if (response->responses[i].error_code == KERR_NONE &&
			partitions_topic_by_id(op->call->broker->partitions, &response->responses[i].topic_id) != NULL)
			return false;
	return true;
}

static void
finish(AdminOp *op)
{
	api_reply(op->call, op->response);
}

static bool
is_row_of(const MetaResult *result, int r, const DeleteTopicsResponseResponses *out)
{
	WUuid id = meta_result_uuid(result, r, 1);

	if (out->name.len >= 0)
		return wstr_eq(wstr(meta_result_text(result, r, 0)), out->name);
	return wuuid_eq(&id, &out->topic_id);
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	DeleteTopicsResponse *response = op->response;

	for (int32_t i = 0; i < response->n_responses; i++)
	{
		DeleteTopicsResponseResponses *out = &response->responses[i];

		if (out->error_code != KERR_NONE)
			continue;
		if (meta_result_status(result) != META_OK)
		{
			out->error_code = admin_failure(op->call, result, &out->error_message);
			continue;
		}
		for (int r = 0; r < meta_result_rows(result); r++)
			if (is_row_of(result, r, out))
			{
				out->error_code = (int16_t) meta_result_int(result, r, 2);
				out->error_message = admin_text(op->call, result, r, 3);
				if (!meta_result_is_null(result, r, 1))
					out->topic_id = meta_result_uuid(result, r, 1);
				if (out->name.len < 0 && out->error_code == KERR_NONE)
					out->name = admin_text(op->call, result, r, 0);
				break;
			}
	}
	admin_settle(op);
}

/* v6 names a topic by its name or its id; older versions by name. */
static int32_t
list_asked(ApiCall *call, DeleteTopicsResponse *response)
{
	const DeleteTopicsRequest *request = call->body;
	int32_t n = call->version >= 6 ? request->n_topics : request->n_topic_names;

	response->responses = API_NEW(call, DeleteTopicsResponseResponses, n);
	response->n_responses = n > 0 ? n : 0;
	for (int32_t i = 0; i < response->n_responses; i++)
	{
		response->responses[i].name = call->version >= 6 ? request->topics[i].name : request->topic_names[i];
		if (call->version >= 6)
			response->responses[i].topic_id = request->topics[i].topic_id;
	}
	return response->n_responses;
}

/* Do both mean one topic: by name, by id, or the one by name and the other by its id? */
static bool
is_same_topic(const ApiCall *call, const DeleteTopicsResponseResponses *a,
			  const DeleteTopicsResponseResponses *b)
{
	const PartitionTopic *topic;

	if (a->name.len >= 0 && b->name.len >= 0)
		return wstr_eq(a->name, b->name);
	if (a->name.len < 0 && b->name.len < 0)
		return wuuid_eq(&a->topic_id, &b->topic_id);
	topic = partitions_topic(call->broker->partitions, a->name.len >= 0 ? a->name : b->name);
	return topic != NULL && wuuid_eq(&topic->id, a->name.len >= 0 ? &b->topic_id : &a->topic_id);
}

/* Each topic once: by name and id both, or twice, is the client's error and deletes nothing.  It is answered
 * at its first place. */
static void
refuse_malformed(const ApiCall *call, DeleteTopicsResponse *response, int32_t i)
{
	DeleteTopicsResponseResponses *out = &response->responses[i];
	bool has_id = !wuuid_is_zero(&out->topic_id);

	if (out->name.len >= 0 && has_id)
	{
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message = WSTR_LIT("You may not specify both topic name and topic id.");
		return;
	}
	if (out->name.len < 0 && !has_id)
	{
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message = WSTR_LIT("Neither topic name nor id were specified.");
		return;
	}
	for (int32_t j = i + 1; j < response->n_responses; j++)
	{
		DeleteTopicsResponseResponses *other = &response->responses[j];

		if (!is_same_topic(call, out, other))
			continue;
		out->error_code = KERR_INVALID_REQUEST;
		out->error_message = WSTR_LIT("The topic is named more than once.");
		if (out->name.len < 0)
			out->name = other->name;
		if (!has_id)
			out->topic_id = other->topic_id;
		response->n_responses--;
		memmove(other, other + 1, sizeof(*other) * (size_t) (response->n_responses - j));
		j--;
	}
}

void
delete_topics_handle(ApiCall *call)
{
	const DeleteTopicsRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	DeleteTopicsResponse *response = API_NEW(call, DeleteTopicsResponse, 1);
	int32_t n = list_asked(call, response);
	const char **names = api_alloc(call, sizeof(*names) * (size_t) n);
	WUuid *ids = api_alloc(call, sizeof(*ids) * (size_t) n);
	MetaRequester who;
	int asked = 0;

	op->call = call;
	op->response = response;
	op->settled = all_gone;
	op->finish = finish;
	for (int32_t i = 0; i < response->n_responses; i++)
	{
		DeleteTopicsResponseResponses *out = &response->responses[i];

		if (!call->broker->config->delete_topic_enable)
			out->error_code = KERR_TOPIC_DELETION_DISABLED;
		else
			refuse_malformed(call, response, i);
		if (out->error_code != KERR_NONE)
			continue;
		names[asked] =
			out->name.len >= 0 ? arena_strndup(call->arena, out->name.s, (size_t) out->name.len) : NULL;
		ids[asked++] = out->topic_id;
	}
	if (asked == 0)
	{
		api_reply(call, response);
		return;
	}
	api_requester(call, &who);
	meta_delete_topics(call->broker->meta, &who, names, ids, asked, api_deadline(call, request->timeout_ms),
					   on_result, op);
}
