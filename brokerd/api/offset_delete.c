/* OffsetDelete (key 47), v0: forget offsets of topics that no member reads (KIP-496). */
#include <stdio.h>

#include "brokerd/api/common.h"
#include "brokerd/api/groups.h"
#include "brokerd/api/handlers.h"
#include "brokerd/meta/text.h"

typedef struct DeleteOp
{
	ApiCall *call;
	OffsetDeleteResponse response;
	bool gone; /* the client */
} DeleteOp;

static void
on_client_gone(ApiCall *call)
{
	((DeleteOp *) call->op)->gone = true;
}

static void
fail_rest(DeleteOp *op, int16_t error)
{
	for (int32_t i = 0; i < op->response.n_topics; i++)
	{
		for (int32_t k = 0; k < op->response.topics[i].n_partitions; k++)
		{
			if (op->response.topics[i].partitions[k].error_code == KERR_NONE)
				op->response.topics[i].partitions[k].error_code = error;
		}
	}
}

static void
on_deleted(void *ctx, const MetaResult *r)
{
	DeleteOp *op = ctx;
	MetaStatus status = meta_result_status(r);

	if (status == META_OK)
		fail_rest(op, (int16_t) meta_result_int(r, 0, 0));
	else
		fail_rest(op, status == META_ERROR ? meta_result_kafka_code(r) : KERR_COORDINATOR_NOT_AVAILABLE);
	op->call->cancelled = NULL;
	if (op->gone)
		api_no_reply(op->call);
	else
		api_reply(op->call, &op->response);
}

/* Fills the answer and the two array literals; how many partitions are to go. */
static int
take_topics(DeleteOp *op, const OffsetDeleteRequest *request, MetaText *ids, MetaText *partitions)
{
	ApiCall *call = op->call;
	GroupSet *set = groups_set(call->broker->groups);
	int wanted = 0;

	for (int32_t i = 0; i < op->response.n_topics; i++)
	{
		const OffsetDeleteRequestTopics *in = &request->topics[i];
		OffsetDeleteResponseTopics *out = &op->response.topics[i];
		const PartitionTopic *topic = partitions_topic(call->broker->partitions, in->name);
		bool read = group_subscribed(set, request->group_id, in->name);

		out->name = in->name;
		out->n_partitions = in->n_partitions > 0 ? in->n_partitions : 0;
		out->partitions = API_NEW(call, OffsetDeleteResponseTopicsPartitions, out->n_partitions);
		for (int32_t k = 0; k < out->n_partitions; k++)
		{
			int32_t index = in->partitions[k].partition_index;

			out->partitions[k].partition_index = index;
			if (topic == NULL || index < 0 || index >= topic->n_partitions)
				out->partitions[k].error_code = KERR_UNKNOWN_TOPIC_OR_PARTITION;
			else if (read)
				out->partitions[k].error_code = KERR_GROUP_SUBSCRIBED_TO_TOPIC;
			else
			{
				meta_text_puts(ids, wanted > 0 ? "," : "");
				meta_text_uuid(ids, &topic->id);
				meta_text_printf(partitions, "%s%d", wanted > 0 ? "," : "", index);
				wanted++;
			}
		}
	}
	return wanted;
}

void
offset_delete_handle(ApiCall *call)
{
	Groups *groups = call->broker->groups;
	const OffsetDeleteRequest *request = call->body;
	DeleteOp *op = api_alloc(call, sizeof(*op));
	MetaText ids = {0};
	MetaText partitions = {0};
	GroupsSlotText slot;
	const char *params[7] = {NULL};

	op->call = call;
	call->op = op;
	WIRE_INIT(OffsetDeleteResponse, &op->response);
	op->response.error_code = request->group_id.len <= 0
								  ? KERR_INVALID_GROUP_ID
								  : group_check_offset_delete(groups_set(groups), request->group_id);
	if (op->response.error_code != KERR_NONE)
	{
		api_reply(call, &op->response);
		return;
	}
	op->response.n_topics = request->n_topics > 0 ? request->n_topics : 0;
	op->response.topics = API_NEW(call, OffsetDeleteResponseTopics, op->response.n_topics);
	meta_text_puts(&ids, "{");
	meta_text_puts(&partitions, "{");
	if (take_topics(op, request, &ids, &partitions) == 0)
		api_reply(call, &op->response);
	else
	{
		meta_text_puts(&ids, "}");
		meta_text_puts(&partitions, "}");
		groups_slot_text(groups, request->group_id, &slot);
		params[2] = slot.slot;
		params[3] = slot.epoch;
		params[4] = api_printf(call, "%.*s", request->group_id.len, request->group_id.s).s;
		params[5] = meta_text_cstr(&ids);
		params[6] = meta_text_cstr(&partitions);
		call->cancelled = on_client_gone;
		meta_call(call->broker->meta, META_GROUP_DELETE_OFFSETS, params, 7, api_deadline(call, 5000),
				  on_deleted, op);
	}
	meta_text_free(&ids);
	meta_text_free(&partitions);
}
