/* AlterPartitionReassignments (key 45), v0-1: move partitions to other replicas (KIP-455), null replicas cancel;
 * v1 may forbid another number of replicas. */
#include "brokerd/api/admin.h"

static void
finish(AdminOp *op)
{
	api_reply(op->call, op->response);
}

/* One row a partition, in the order of the request. */
static void
take_rows(AdminOp *op, const MetaResult *result)
{
	const AlterPartitionReassignmentsRequest *request = op->call->body;
	AlterPartitionReassignmentsResponse *response = op->response;
	int row = 0;

	response->responses = API_NEW(op->call, AlterPartitionReassignmentsResponseResponses, request->n_topics);
	response->n_responses = request->n_topics;
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		const AlterPartitionReassignmentsRequestTopics *asked = &request->topics[i];
		AlterPartitionReassignmentsResponseResponses *topic = &response->responses[i];

		topic->name = asked->name;
		topic->partitions =
			API_NEW(op->call, AlterPartitionReassignmentsResponseResponsesPartitions, asked->n_partitions);
		topic->n_partitions = asked->n_partitions;
		for (int32_t j = 0; j < asked->n_partitions; j++, row++)
		{
			topic->partitions[j].partition_index = asked->partitions[j].partition_index;
			topic->partitions[j].error_code = KERR_UNKNOWN_SERVER_ERROR;
			if (row >= meta_result_rows(result))
				continue;
			topic->partitions[j].error_code = (int16_t) meta_result_int(result, row, 2);
			topic->partitions[j].error_message = admin_text(op->call, result, row, 3);
		}
	}
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	AlterPartitionReassignmentsResponse *response = op->response;

	if (meta_result_status(result) == META_OK)
		take_rows(op, result);
	else
		response->error_code = admin_failure(op->call, result, &response->error_message);
	admin_settle(op);
}

static void
write_partition(MetaText *json, const AlterPartitionReassignmentsRequestTopicsPartitions *p)
{
	meta_text_printf(json, "{\"partition\":%d,\"replicas\":", p->partition_index);
	if (p->n_replicas < 0)
		meta_text_puts(json, "null");
	else
		meta_text_json_ints(json, p->replicas, p->n_replicas);
	meta_text_puts(json, "}");
}

static void
write_topics(MetaText *json, const AlterPartitionReassignmentsRequest *request)
{
	meta_text_puts(json, "[");
	for (int32_t i = 0; i < request->n_topics; i++)
	{
		const AlterPartitionReassignmentsRequestTopics *topic = &request->topics[i];

		meta_text_puts(json, i > 0 ? ",{\"name\":" : "{\"name\":");
		meta_text_json(json, topic->name.s, topic->name.len);
		meta_text_puts(json, ",\"partitions\":[");
		for (int32_t j = 0; j < topic->n_partitions; j++)
		{
			if (j > 0)
				meta_text_puts(json, ",");
			write_partition(json, &topic->partitions[j]);
		}
		meta_text_puts(json, "]}");
	}
	meta_text_puts(json, "]");
}

void
alter_partition_reassignments_handle(ApiCall *call)
{
	const AlterPartitionReassignmentsRequest *request = call->body;
	AlterPartitionReassignmentsResponse *response = API_NEW(call, AlterPartitionReassignmentsResponse, 1);
	AdminOp *op = api_alloc(call, sizeof(*op));
	MetaText json = {0};
	MetaRequester who;

	op->call = call;
	op->response = response;
	op->settled = NULL; /* what it asks for takes its time; ListPartitionReassignments shows it at once */
	op->finish = finish;
	response->allow_replication_factor_change = request->allow_replication_factor_change;
	write_topics(&json, request);
	api_requester(call, &who);
	meta_alter_reassignments(call->broker->meta, &who, request->allow_replication_factor_change,
							 meta_text_cstr(&json), api_deadline(call, request->timeout_ms), on_result, op);
	meta_text_free(&json);
}
