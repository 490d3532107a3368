/*
 * DeleteRecords (key 21), v0-2: raise the log start offset; -1 means the high watermark.  Answered when the new
 * start is on disk, with it as the low watermark.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"

typedef struct DeleteRecordsOp
{
	ApiCall *call;
	DeleteRecordsResponse response;
	struct DeleteRecordsPart *parts;
	int n_parts;
	int n_waiting;
	bool timing;
	ev_timer timeout;
} DeleteRecordsOp;

typedef struct DeleteRecordsPart
{
	PartitionWaiter waiter;
	DeleteRecordsOp *op;
	DeleteRecordsResponseTopicsPartitions *out;
	int64_t wanted;
} DeleteRecordsPart;

static void
finish_if_done(DeleteRecordsOp *op)
{
	if (op->n_waiting > 0)
		return;
	if (op->timing)
		ev_timer_stop(op->call->broker->loop, &op->timeout);
	api_reply(op->call, &op->response);
}

static void
on_moved(PartitionWaiter *w, int16_t error)
{
	DeleteRecordsPart *part = w->owner;
	Partition *p = w->partition;

	/* A waiter for "anything" is taken off by itself; p is NULL when the topic went. */
	if (error == KERR_NONE && p != NULL && p->leading && log_error(p->log) == NULL)
	{
		if (log_start_offset(p->log) < part->wanted)
			return;
		part->out->low_watermark = log_start_offset(p->log);
	}
	else
		part->out->error_code = error != KERR_NONE        ? error
								: p != NULL && p->leading ? KERR_KAFKA_STORAGE_ERROR
														  : KERR_NOT_LEADER_OR_FOLLOWER;
	partition_unwait(w);
	part->op->n_waiting--;
	finish_if_done(part->op);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	DeleteRecordsOp *op = timer->data;

	(void) loop;
	(void) revents;
	for (int i = 0; i < op->n_parts; i++)
		if (op->parts[i].waiter.partition != NULL)
		{
			partition_unwait(&op->parts[i].waiter);
			op->parts[i].out->error_code = KERR_REQUEST_TIMED_OUT;
		}
	op->n_waiting = 0;
	finish_if_done(op);
}

static void
delete_part(DeleteRecordsOp *op, DeleteRecordsPart *part, Partition *p, int64_t offset)
{
	if (p == NULL)
	{
		part->out->error_code = KERR_UNKNOWN_TOPIC_OR_PARTITION;
		return;
	}
	part->out->error_code = partition_check_leader(p, -1);
	if (part->out->error_code != KERR_NONE)
		return;
	if (p->topic->compacted && !p->topic->log_config.cleanup_delete)
	{
		part->out->error_code = KERR_POLICY_VIOLATION;
		return;
	}
	part->wanted = offset == -1 ? partition_high_watermark(p) : offset;
	if (part->wanted < 0 || part->wanted > partition_high_watermark(p))
	{
		part->out->error_code = KERR_OFFSET_OUT_OF_RANGE;
		return;
	}
	part->out->error_code = log_raise_start(p->log, part->wanted);
	if (part->out->error_code != KERR_NONE)
		return;
	if (log_start_offset(p->log) >= part->wanted)
	{
		part->out->low_watermark = log_start_offset(p->log);
		return;
	}
	part->waiter.wake = on_moved;
	part->waiter.owner = part;
	partition_wait(p, &part->waiter, WAIT_MORE, 0);
	op->n_waiting++;
}

void
delete_records_handle(ApiCall *call)
{
	const DeleteRecordsRequest *request = call->body;
	DeleteRecordsOp *op = api_alloc(call, sizeof(*op));
	int n = 0;

	op->call = call;
	WIRE_INIT(DeleteRecordsResponse, &op->response);
	for (int32_t i = 0; i < request->n_topics; i++)
		n += request->topics[i].n_partitions > 0 ? request->topics[i].n_partitions : 0;
	op->parts = api_alloc(call, sizeof(*op->parts) * (size_t) n);
	op->n_parts = n;
	op->response.topics = API_NEW(call, DeleteRecordsResponseTopics, request->n_topics);
	op->response.n_topics = request->n_topics > 0 ? request->n_topics : 0;
	n = 0;
	for (int32_t i = 0; i < op->response.n_topics; i++)
	{
		const DeleteRecordsRequestTopics *in = &request->topics[i];
		DeleteRecordsResponseTopics *out = &op->response.topics[i];

		out->name = in->name;
		out->n_partitions = in->n_partitions > 0 ? in->n_partitions : 0;
		out->partitions = API_NEW(call, DeleteRecordsResponseTopicsPartitions, in->n_partitions);
		for (int32_t j = 0; j < out->n_partitions; j++, n++)
		{
			out->partitions[j].partition_index = in->partitions[j].partition_index;
			out->partitions[j].low_watermark = -1;
			op->parts[n].op = op;
			op->parts[n].out = &out->partitions[j];
			delete_part(
				op, &op->parts[n],
				partitions_find(call->broker->partitions, in->name, in->partitions[j].partition_index),
				in->partitions[j].offset);
		}
	}
	if (op->n_waiting == 0)
	{
		api_reply(call, &op->response);
		return;
	}
	ev_timer_init(&op->timeout, on_timeout, request->timeout_ms > 0 ? request->timeout_ms / 1000. : 0., 0.);
	op->timeout.data = op;
	ev_timer_start(call->broker->loop, &op->timeout);
	op->timing = true;
}
