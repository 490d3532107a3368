/*
 * ListOffsets (key 2), v0-10: offsets by time, and the special times: -1 latest, -2 earliest, -3 the record with
 * the greatest timestamp (v7), -4 earliest local (v8), -5 latest tiered (v9).  A lookup by time reads the log on a
 * reader thread; the answer goes when all have come.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"

enum
{
	TIME_LATEST = -1,
	TIME_EARLIEST = -2,
	TIME_MAX_TIMESTAMP = -3,
	TIME_EARLIEST_LOCAL = -4,
	TIME_LATEST_TIERED = -5
};

typedef struct ListOffsetsOp
{
	ApiCall *call;
	const ListOffsetsRequest *request;
	ListOffsetsResponse response;
	int n_waiting;
} ListOffsetsOp;

typedef struct ListOffsetsPart
{
	ListOffsetsOp *op;
	ListOffsetsResponseTopicsPartitions *out;
} ListOffsetsPart;

static void
set_offset(const ApiCall *call, ListOffsetsResponseTopicsPartitions *out, int64_t timestamp, int64_t offset,
		   int32_t leader_epoch)
{
	out->timestamp = timestamp;
	out->offset = offset;
	out->leader_epoch = leader_epoch;
	if (call->version == 0 && offset >= 0)
	{
		out->old_style_offsets = api_alloc((ApiCall *) (uintptr_t) call, sizeof(int64_t));
		out->old_style_offsets[0] = offset;
		out->n_old_style_offsets = 1;
	}
}

static void
on_time_found(void *ctx, int16_t error, int64_t offset, int64_t timestamp, int32_t leader_epoch)
{
	ListOffsetsPart *part = ctx;
	ListOffsetsOp *op = part->op;

	part->out->error_code = error;
	if (error == KERR_NONE)
		set_offset(op->call, part->out, offset < 0 ? -1 : timestamp, offset, offset < 0 ? -1 : leader_epoch);
	if (--op->n_waiting == 0)
		api_reply(op->call, &op->response);
}

/* A new leader knows less of the high watermark than the old one may have told: not before it has passed the
 * start of its own epoch (KIP-207). */
static int16_t
check_high_watermark(const ApiCall *call, const Partition *p)
{
	if (p->high_watermark >= p->epoch_start)
		return KERR_NONE;
	return call->version >= 5 ? KERR_OFFSET_NOT_AVAILABLE : KERR_LEADER_NOT_AVAILABLE;
}

/* The special times came one by one; a client of an older version cannot mean them. */
static bool
knows_time(int16_t version, int64_t timestamp)
{
	switch (timestamp)
	{
		case TIME_MAX_TIMESTAMP:
			return version >= 7;
		case TIME_EARLIEST_LOCAL:
			return version >= 8;
		case TIME_LATEST_TIERED:
			return version >= 9;
		default:
			return timestamp >= TIME_EARLIEST;
	}
}

static void
list_part(ListOffsetsOp *op, PartitionTopic *topic, const ListOffsetsRequestTopicsPartitions *in,
		  ListOffsetsResponseTopicsPartitions *out)
{
	ApiCall *call = op->call;
	bool committed = op->request->isolation_level == 1;
	int64_t end;
	Partition *p;
	ListOffsetsPart *part;

	out->partition_index = in->partition_index;
	out->n_old_style_offsets = 0;
	set_offset(call, out, -1, -1, -1);
	if (topic == NULL || in->partition_index < 0 || in->partition_index >= topic->n_partitions)
	{
		out->error_code = KERR_UNKNOWN_TOPIC_OR_PARTITION;
		return;
	}
	p = topic->partitions[in->partition_index];
	out->error_code = partition_check_leader(p, in->current_leader_epoch);
	if (out->error_code != KERR_NONE)
		return;
	if (!knows_time(call->version, in->timestamp))
	{
		out->error_code = KERR_UNSUPPORTED_VERSION;
		return;
	}
	end = committed ? partition_last_stable_offset(p) : partition_high_watermark(p);
	switch (in->timestamp)
	{
		case TIME_LATEST:
			out->error_code = check_high_watermark(call, p);
			if (out->error_code == KERR_NONE)
				set_offset(call, out, -1, end, p->leader_epoch);
			return;
		case TIME_EARLIEST:
		case TIME_EARLIEST_LOCAL:
		{
			int64_t start = log_start_offset(p->log);
			int32_t epoch = log_epoch_at(p->log, start);

			set_offset(call, out, -1, start, epoch >= 0 ? epoch : p->leader_epoch);
			return;
		}
		case TIME_LATEST_TIERED:
			return; /* nothing is tiered: -1 */
		default:
			break;
	}
	part = api_alloc(call, sizeof(*part));
	part->op = op;
	part->out = out;
	op->n_waiting++;
	if (in->timestamp == TIME_MAX_TIMESTAMP)
		log_find_max_timestamp(p->log, on_time_found, part);
	else
		log_find_time(p->log, in->timestamp, end, on_time_found, part);
}

void
list_offsets_handle(ApiCall *call)
{
	ListOffsetsOp *op = api_alloc(call, sizeof(*op));
	const ListOffsetsRequest *request = call->body;

	op->call = call;
	op->request = request;
	op->n_waiting = 1; /* this function */
	WIRE_INIT(ListOffsetsResponse, &op->response);
	op->response.topics = API_NEW(call, ListOffsetsResponseTopics, request->n_topics);
	op->response.n_topics = request->n_topics > 0 ? request->n_topics : 0;
	for (int32_t i = 0; i < op->response.n_topics; i++)
	{
		const ListOffsetsRequestTopics *in = &request->topics[i];
		ListOffsetsResponseTopics *out = &op->response.topics[i];
		PartitionTopic *topic = partitions_topic(call->broker->partitions, in->name);

		out->name = in->name;
		out->n_partitions = in->n_partitions > 0 ? in->n_partitions : 0;
		out->partitions = API_NEW(call, ListOffsetsResponseTopicsPartitions, in->n_partitions);
		for (int32_t j = 0; j < out->n_partitions; j++)
			list_part(op, topic, &in->partitions[j], &out->partitions[j]);
	}
	if (--op->n_waiting == 0)
		api_reply(call, &op->response);
}
