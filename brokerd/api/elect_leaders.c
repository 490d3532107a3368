/* ElectLeaders (key 43), v0-2: preferred leaders, or (v1) an unclean one for partitions without a leader. */
#include "brokerd/api/admin.h"

enum
{
	ELECTION_PREFERRED = 0,
	ELECTION_TYPES = 2
};

/* Does the image show the preferred leaders that were elected?  An unclean leader is whoever was there. */
static bool
all_led(AdminOp *op)
{
	const ElectLeadersRequest *request = op->call->body;
	const ElectLeadersResponse *response = op->response;

	for (int32_t i = 0; i < response->n_replica_election_results; i++)
	{
		const ElectLeadersResponseReplicaElectionResults *topic = &response->replica_election_results[i];
		const MetaTopic *meta =
			meta_image_topic(meta_image(op->call->broker->meta), topic->topic.s, topic->topic.len);

		for (int32_t j = 0; meta != NULL && j < topic->n_partition_result; j++)
		{
			const MetaPartition *p = meta_topic_partition(meta, topic->partition_result[j].partition_id);

			if (topic->partition_result[j].error_code != KERR_NONE || p == NULL || p->n_replicas == 0)
				continue;
			if (request->election_type == ELECTION_PREFERRED ? p->leader != meta_partition_replicas(p)[0]
															 : p->leader < 0)
				return false;
		}
	}
	return true;
}

static void
finish(AdminOp *op)
{
	api_reply(op->call, op->response);
}

/* Rows come by topic, in the order in which the client named them. */
static void
take_rows(AdminOp *op, const MetaResult *result)
{
	ElectLeadersResponse *response = op->response;
	ElectLeadersResponseReplicaElectionResults *topic = NULL;
	int n = meta_result_rows(result);

	response->replica_election_results = API_NEW(op->call, ElectLeadersResponseReplicaElectionResults, n);
	response->n_replica_election_results = 0;
	for (int r = 0; r < n; r++)
	{
		ElectLeadersResponseReplicaElectionResultsPartitionResult *out;

		if (topic == NULL || !wstr_eq(wstr(meta_result_text(result, r, 0)), topic->topic))
		{
			topic = &response->replica_election_results[response->n_replica_election_results++];
			topic->topic = admin_text(op->call, result, r, 0);
			topic->partition_result =
				API_NEW(op->call, ElectLeadersResponseReplicaElectionResultsPartitionResult,
						admin_rows_alike(result, r));
			topic->n_partition_result = 0;
		}
		if (meta_result_is_null(result, r, 1))
			continue; /* there is nothing to say of it */
		out = &topic->partition_result[topic->n_partition_result++];
		out->partition_id = (int32_t) meta_result_int(result, r, 1);
		out->error_code = (int16_t) meta_result_int(result, r, 2);
		out->error_message = admin_text(op->call, result, r, 3);
	}
}

/* v0 has no error for the whole: each partition that was named gets it. */
static void
fail_each(AdminOp *op, int16_t code, WStr message)
{
	const ElectLeadersRequest *request = op->call->body;
	ElectLeadersResponse *response = op->response;

	response->error_code = code;
	if (op->call->version > 0 || request->n_topic_partitions <= 0)
		return;
	response->replica_election_results =
		API_NEW(op->call, ElectLeadersResponseReplicaElectionResults, request->n_topic_partitions);
	response->n_replica_election_results = request->n_topic_partitions;
	for (int32_t i = 0; i < request->n_topic_partitions; i++)
	{
		const ElectLeadersRequestTopicPartitions *asked = &request->topic_partitions[i];
		ElectLeadersResponseReplicaElectionResults *topic = &response->replica_election_results[i];

		topic->topic = asked->topic;
		topic->partition_result =
			API_NEW(op->call, ElectLeadersResponseReplicaElectionResultsPartitionResult, asked->n_partitions);
		topic->n_partition_result = asked->n_partitions;
		for (int32_t j = 0; j < asked->n_partitions; j++)
		{
			topic->partition_result[j].partition_id = asked->partitions[j];
			topic->partition_result[j].error_code = code;
			topic->partition_result[j].error_message = message;
		}
	}
}

static void
on_result(void *ctx, const MetaResult *result)
{
	AdminOp *op = ctx;
	WStr message = WSTR_NULL;

	if (meta_result_status(result) == META_OK)
		take_rows(op, result);
	else
	{
		int16_t code = admin_failure(op->call, result, &message);

		fail_each(op, code, message);
	}
	admin_settle(op);
}

static void
write_topics(MetaText *json, const ElectLeadersRequest *request)
{
	meta_text_puts(json, "[");
	for (int32_t i = 0; i < request->n_topic_partitions; i++)
	{
		const ElectLeadersRequestTopicPartitions *topic = &request->topic_partitions[i];

		meta_text_puts(json, i > 0 ? "," : "");
		admin_write_partitions(json, topic->topic, topic->partitions, topic->n_partitions);
	}
	meta_text_puts(json, "]");
}

void
elect_leaders_handle(ApiCall *call)
{
	const ElectLeadersRequest *request = call->body;
	AdminOp *op = api_alloc(call, sizeof(*op));
	MetaText json = {0};
	MetaRequester who;

	op->call = call;
	op->response = API_NEW(call, ElectLeadersResponse, 1);
	op->settled = all_led;
	op->finish = finish;
	if (request->election_type < 0 || request->election_type >= ELECTION_TYPES)
	{
		fail_each(op, KERR_INVALID_REQUEST, WSTR_LIT("The kind of election is unknown."));
		finish(op);
		return;
	}
	if (request->n_topic_partitions >= 0)
		write_topics(&json, request);
	api_requester(call, &who);
	meta_elect_leaders(call->broker->meta, &who, request->election_type,
					   request->n_topic_partitions < 0 ? NULL : meta_text_cstr(&json),
					   api_deadline(call, request->timeout_ms), on_result, op);
	meta_text_free(&json);
}
