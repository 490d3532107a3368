/* ListPartitionReassignments (key 46), v0: what is being moved, of named partitions or of all (KIP-455). */
#include "brokerd/api/admin.h"

static int32_t *
take_ids(ApiCall *call, const MetaResult *result, int row, int column, int32_t *n)
{
	int32_t *ids;

	*n = meta_result_ints(result, row, column, NULL, 0);
	ids = api_alloc(call, sizeof(*ids) * (size_t) (*n + 1));
	(void) meta_result_ints(result, row, column, ids, *n);
	return ids;
}

static void
take_rows(ApiCall *call, const MetaResult *result, ListPartitionReassignmentsResponse *response)
{
	for (int r = 0; r < meta_result_rows(result); r++)
	{
		ListPartitionReassignmentsResponseTopicsPartitions *out =
			api_by_topic(call, &ListPartitionReassignmentsResponse_desc, response,
						 admin_text(call, result, r, 0), (int32_t) meta_result_int(result, r, 1));

		out->replicas = take_ids(call, result, r, 2, &out->n_replicas);
		out->adding_replicas = take_ids(call, result, r, 3, &out->n_adding_replicas);
		out->removing_replicas = take_ids(call, result, r, 4, &out->n_removing_replicas);
	}
}

static void
on_result(void *ctx, const MetaResult *result)
{
	ApiCall *call = ctx;
	ListPartitionReassignmentsResponse *response = API_NEW(call, ListPartitionReassignmentsResponse, 1);

	if (meta_result_status(result) == META_OK)
		take_rows(call, result, response);
	else
		response->error_code = admin_failure(call, result, &response->error_message);
	api_reply(call, response);
}

static void
write_topics(MetaText *json, const ListPartitionReassignmentsRequest *request)
{
	meta_text_puts(json, "[");
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		const ListPartitionReassignmentsRequestTopics *topic = &request->topics[i];

		meta_text_puts(json, i > 0 ? "," : "");
		admin_write_partitions(json, topic->name, topic->partition_indexes, topic->n_partition_indexes);
	}
	meta_text_puts(json, "]");
}

void
list_partition_reassignments_handle(ApiCall *call)
{
	const ListPartitionReassignmentsRequest *request = call->body;
	MetaText json = {0};

	if (request->n_topics >= 0)
		write_topics(&json, request);
	meta_list_reassignments(call->broker->meta, request->n_topics < 0 ? NULL : meta_text_cstr(&json),
							api_deadline(call, request->timeout_ms), on_result, call);
	meta_text_free(&json);
}
