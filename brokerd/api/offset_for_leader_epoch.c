/* OffsetForLeaderEpoch (key 23), v2-4: where an epoch of the log ends (KIP-101, KIP-320). */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"

static void
find_end(ApiCall *call, WStr name, const OffsetForLeaderEpochRequestTopicsPartitions *in,
		 OffsetForLeaderEpochResponseTopicsPartitions *out)
{
	Partition *p = partitions_find(call->broker->partitions, name, in->partition);

	out->partition = in->partition;
	out->leader_epoch = -1;
	out->end_offset = -1;
	if (p == NULL)
	{
		out->error_code = KERR_UNKNOWN_TOPIC_OR_PARTITION;
		return;
	}
	out->error_code = partition_check_leader(p, in->current_leader_epoch);
	if (out->error_code == KERR_NONE)
		partition_epoch_end(p, in->leader_epoch, &out->leader_epoch, &out->end_offset);
}

void
offset_for_leader_epoch_handle(ApiCall *call)
{
	const OffsetForLeaderEpochRequest *request = call->body;
	OffsetForLeaderEpochResponse response;

	WIRE_INIT(OffsetForLeaderEpochResponse, &response);
	response.topics = API_NEW(call, OffsetForLeaderEpochResponseTopics, request->n_topics);
	response.n_topics = request->n_topics > 0 ? request->n_topics : 0;
	for (int32_t i = 0; i < response.n_topics; i++)
	{
		const OffsetForLeaderEpochRequestTopics *in = &request->topics[i];
		OffsetForLeaderEpochResponseTopics *out = &response.topics[i];

		out->topic = in->topic;
		out->n_partitions = in->n_partitions > 0 ? in->n_partitions : 0;
		out->partitions = API_NEW(call, OffsetForLeaderEpochResponseTopicsPartitions, in->n_partitions);
		for (int32_t j = 0; j < out->n_partitions; j++)
			find_end(call, in->topic, &in->partitions[j], &out->partitions[j]);
	}
	api_reply(call, &response);
}
