/*
 * OffsetCommit (key 8), v0-9.  v1: generation and member; v6: leader epoch; v7: static members.  The coordinator
 * writes all partitions of a request in one transaction; those that do not exist or whose metadata is too long are
 * refused before.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"

typedef struct CommitOp
{
	GroupsCommit commit; /* first: call->op */
	OffsetCommitResponse response;
} CommitOp;

static void
reply(ApiCall *call, int16_t error)
{
	CommitOp *op = call->op;

	for (int32_t i = 0; i < op->response.n_topics; i++)
	{
		for (int32_t k = 0; k < op->response.topics[i].n_partitions; k++)
		{
			OffsetCommitResponseTopicsPartitions *p = &op->response.topics[i].partitions[k];

			/* What was refused before stays refused for its own reason. */
			if (p->error_code == KERR_NONE)
				p->error_code = error;
		}
	}
	api_reply(call, &op->response);
}

static int16_t
check_partition(ApiCall *call, const PartitionTopic *topic, const OffsetCommitRequestTopicsPartitions *in)
{
	if (topic == NULL || in->partition_index < 0 || in->partition_index >= topic->n_partitions)
		return KERR_UNKNOWN_TOPIC_OR_PARTITION;
	if (in->committed_metadata.len > call->broker->config->offset_metadata_max_bytes)
		return KERR_OFFSET_METADATA_TOO_LARGE;
	return KERR_NONE;
}

static void
take_topic(ApiCall *call, CommitOp *op, CommitRow *rows, const OffsetCommitRequestTopics *in,
		   OffsetCommitResponseTopics *out)
{
	const PartitionTopic *topic = partitions_topic(call->broker->partitions, in->name);
	int32_t n = in->n_partitions > 0 ? in->n_partitions : 0;

	out->name = in->name;
	out->partitions = API_NEW(call, OffsetCommitResponseTopicsPartitions, n);
	out->n_partitions = n;
	for (int32_t i = 0; i < n; i++)
	{
		const OffsetCommitRequestTopicsPartitions *p = &in->partitions[i];

		out->partitions[i].partition_index = p->partition_index;
		out->partitions[i].error_code = check_partition(call, topic, p);
		if (out->partitions[i].error_code != KERR_NONE)
			continue;
		rows[op->commit.row_count++] = (CommitRow){
			.topic_id = topic->id,
			.partition = p->partition_index,
			.offset = p->committed_offset,
			.leader_epoch = p->committed_leader_epoch,
			.metadata = p->committed_metadata.len < 0 ? WSTR_LIT("") : p->committed_metadata,
		};
	}
}

void
offset_commit_handle(ApiCall *call)
{
	const OffsetCommitRequest *request = call->body;
	CommitOp *op = api_alloc(call, sizeof(*op));
	int32_t n = request->n_topics > 0 ? request->n_topics : 0;
	size_t total = 0;
	CommitRow *rows;

	for (int32_t i = 0; i < n; i++)
		total += (size_t) (request->topics[i].n_partitions > 0 ? request->topics[i].n_partitions : 0);
	rows = api_alloc(call, total * sizeof(*rows));
	op->commit = (GroupsCommit){
		.check = {call->version, false, request->group_id, request->member_id, request->group_instance_id,
				  request->generation_id_or_member_epoch},
		.rows = rows,
		.done = reply,
	};
	call->op = op;
	WIRE_INIT(OffsetCommitResponse, &op->response);
	op->response.topics = API_NEW(call, OffsetCommitResponseTopics, n);
	op->response.n_topics = n;
	for (int32_t i = 0; i < n; i++)
		take_topic(call, op, rows, &request->topics[i], &op->response.topics[i]);
	groups_commit(call->broker->groups, call, &op->commit);
}
