/*
 * Produce (key 0), v3-13.
 *
 *     frame ─▶ each partition: leader? enough replicas? ─▶ partition_append() ─▶ writer ─▶ group commit
 *                     │ error: its code, nothing written; the         │
 *                     │ same for what comes behind (refused.h)        │
 *                     ▼                                               ▼ synced (acks=1), committed (acks=all)
 *               answered when every partition has its result, or the client's timeout ends
 *
 * v7 zstd; v8 record errors and messages; v9 flexible; v10 leader hints (KIP-951); v13 topic ids.
 * Batches are stamped in place and written from the frame, so the request lives until storage is done with it.
 */
#include "brokerd/api/common.h"
#include "brokerd/api/handlers.h"
#include "brokerd/base/clock.h"
#include "brokerd/cluster/replication.h"
#include "wire/batch.h"

enum
{
	LOOK_AGAIN_MS = 100 /* behind the timeout, while this broker is alone: has somebody joined? */
};

typedef struct ProduceOp ProduceOp;

typedef struct ProducePart
{
	PartitionWaiter waiter;
	ProduceOp *op;
	ProduceResponseResponsesPartitionResponses *out;
	const ProduceRequestTopicData *topic;
	const WRecords *records;
	bool late; /* the timeout is over and others had not confirmed */
} ProducePart;

struct ProduceOp
{
	ApiCall *call;
	const ProduceRequest *request;
	ProduceResponse response;
	LeaderHints hints;
	ProducePart *parts;
	int n_parts;
	int n_waiting;
	bool timing;
	ev_timer timeout;
};

static void
on_written(void *owner)
{
	net_request_unref(owner);
}

static void
finish(ProduceOp *op)
{
	ApiCall *call = op->call;

	if (op->timing)
		ev_timer_stop(call->broker->loop, &op->timeout);
	op->timing = false;
	if (op->hints.n > 0)
	{
		op->response.node_endpoints = API_NEW(call, ProduceResponseNodeEndpoints, op->hints.n);
		for (int32_t i = 0; i < op->hints.n; i++)
		{
			const MetaEndpoint *end = common_endpoint(call, op->hints.ids[i]);
			const MetaBroker *broker = meta_image_broker(meta_image(call->broker->meta), op->hints.ids[i]);

			if (end == NULL)
				continue;
			op->response.node_endpoints[op->response.n_node_endpoints++] =
				(ProduceResponseNodeEndpoints){.node_id = op->hints.ids[i],
											   .host = wstr(end->host),
											   .port = end->port,
											   .rack = wstr(broker->rack)};
		}
	}
	api_reply(call, &op->response);
}

static void
fail_part(ProduceOp *op, ProduceResponseResponsesPartitionResponses *out, int16_t error, const char *message)
{
	(void) op;
	out->error_code = error;
	out->base_offset = -1;
	out->log_append_time_ms = -1;
	out->log_start_offset = -1;
	if (message != NULL)
		out->error_message = wstr(message);
}

/* What producers with an id are told apart by; of whatever else producer_id is below 0. */
static SentBatch
sent_batch(const ProducePart *part)
{
	const uint8_t *b = part->records->p;
	SentBatch sent = {.partition = part->out->index, .producer_id = BATCH_NO_PRODUCER_ID};

	if (part->records->len < BATCH_HEADER_SIZE || batch_magic(b) != 2)
		return sent;
	sent.topic = refused_topic(part->topic->name, &part->topic->topic_id);
	sent.producer_id = batch_producer_id(b);
	sent.epoch = batch_producer_epoch(b);
	sent.sequence = batch_base_sequence(b);
	return sent;
}

/* What comes behind it from the same producer is not to be written before it. */
static void
note_refused(const ProducePart *part, int16_t error)
{
	SentBatch sent = sent_batch(part);

	refused_note(&part->op->call->broker->refused, &sent, error, clock_boot_ms());
}

static int16_t
check_behind(const ProducePart *part)
{
	Refused *refused = &part->op->call->broker->refused;
	SentBatch sent;

	if (refused->by_key == NULL)
		return KERR_NONE;
	sent = sent_batch(part);
	return refused_behind(refused, &sent, clock_boot_ms());
}

static void
on_reached(PartitionWaiter *w, int16_t error)
{
	ProducePart *part = w->owner;
	ProduceOp *op = part->op;

	if (error == KERR_NONE && part->late)
		error = KERR_REQUEST_TIMED_OUT;
	if (error != KERR_NONE)
	{
		note_refused(part, error);
		fail_part(op, part->out, error, NULL);
	}
	if (--op->n_waiting == 0)
		finish(op);
}

static void
start_timeout(ProduceOp *op, double seconds)
{
	ev_timer_set(&op->timeout, seconds, 0.);
	ev_timer_start(op->call->broker->loop, &op->timeout);
	op->timing = true;
}

/*
 * The timeout is for the other replicas (as in Kafka): what they have not confirmed fails, though the records
 * are in the log and may yet be replicated.  What this broker itself has not synced yet is waited for.
 *
 * Only the high watermark acknowledges.  That this broker is alone in the ISR does not: below min.insync.replicas others may
 * lead in its place, without these records.  Where it may be alone, they are committed once they are on its disk,
 * or somebody joins and has to confirm them: that is looked at again.
 */
static void
on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	ProduceOp *op = timer->data;
	bool again = false;

	(void) loop;
	(void) revents;
	op->timing = false;
	for (int i = 0; i < op->n_parts; i++)
	{
		ProducePart *part = &op->parts[i];
		Partition *p = part->waiter.partition;

		if (p == NULL || part->waiter.kind != WAIT_COMMITTED)
			continue;
		if (p->isr_size == 1 && partition_enough_replicas(p))
		{
			again = true;
			continue;
		}
		partition_unwait(&part->waiter);
		part->late = true;
		if (!partition_wait(p, &part->waiter, WAIT_SYNCED, part->waiter.offset))
		{
			op->n_waiting--;
			fail_part(op, part->out, KERR_REQUEST_TIMED_OUT, NULL);
		}
	}
	if (op->n_waiting == 0)
		finish(op);
	else if (again)
		start_timeout(op, LOOK_AGAIN_MS / 1000.);
}

/* What the version of the request forbids, before the log looks at the batch. */
static int16_t
check_records(const ApiCall *call, const WRecords *records, const char **message)
{
	if (records->len <= 0)
	{
		*message = "a Produce request must have one record batch for each partition";
		return KERR_INVALID_RECORD;
	}
	if (call->version < 7 && records->len >= BATCH_HEADER_SIZE &&
		(batch_attributes(records->p) & BATCH_CODEC_MASK) == COMPRESSION_ZSTD)
	{
		*message = "zstd needs Produce version 7";
		return KERR_UNSUPPORTED_COMPRESSION_TYPE;
	}
	return KERR_NONE;
}

/* Kafka tells where the log starts with an error that comes of what is in it or in the batch, not with one of the
 * frame, of a limit or of the disk. */
static bool
tells_log_start(int16_t error, const WRecords *records)
{
	switch (error)
	{
		case KERR_CORRUPT_MESSAGE:
		case KERR_MESSAGE_TOO_LARGE:
		case KERR_RECORD_LIST_TOO_LARGE:
		case KERR_KAFKA_STORAGE_ERROR:
			return false;
		case KERR_INVALID_RECORD:
			return records->len >= BATCH_HEADER_SIZE && batch_magic(records->p) == 2 &&
				   batch_size(records->p) == records->len;
		default:
			return true;
	}
}

/* A record that made its batch be refused; the list doubles in the arena. */
static void
on_record_error(void *ctx, int32_t index, const char *message)
{
	ProducePart *part = ctx;
	ProduceResponseResponsesPartitionResponses *out = part->out;
	int32_t n = out->n_record_errors > 0 ? out->n_record_errors : 0;

	if ((n & (n - 1)) == 0)
	{
		ProduceResponseResponsesPartitionResponsesRecordErrors *grown = API_NEW(
			part->op->call, ProduceResponseResponsesPartitionResponsesRecordErrors, n > 0 ? n * 2 : 1);

		if (n > 0)
			memcpy(grown, out->record_errors, sizeof(*grown) * (size_t) n);
		out->record_errors = grown;
	}
	out->record_errors[n].batch_index = index;
	out->record_errors[n].batch_index_error_message = wstr(message);
	out->n_record_errors = n + 1;
}

/* KERR_NONE: it may be written to *p as far as we know without looking at it. */
static int16_t
check_partition(const ProduceOp *op, const PartitionTopic *topic, int16_t topic_error, int32_t index,
				Partition **p)
{
	int16_t acks = op->request->acks;
	int16_t error;

	if (topic == NULL)
		return topic_error;
	if (index < 0 || index >= topic->n_partitions)
		return KERR_UNKNOWN_TOPIC_OR_PARTITION;
	*p = topic->partitions[index];
	error = partition_check_leader(*p, -1);
	if (error == KERR_NONE && acks == -1 && !partition_enough_replicas(*p))
		error = KERR_NOT_ENOUGH_REPLICAS;
	/* With other replicas somebody may lead in its place by now (hazards A11). */
	if (error == KERR_NONE && acks != -1 && (*p)->n_replicas > 1 &&
		!replication_may_ack_alone(op->call->broker->replication))
		error = KERR_NOT_LEADER_OR_FOLLOWER;
	return error;
}

static void
produce_part(ProduceOp *op, ProducePart *part, PartitionTopic *topic, int16_t topic_error, WRecords *records)
{
	ApiCall *call = op->call;
	ProduceResponseResponsesPartitionResponses *out = part->out;
	const char *message = NULL;
	Partition *p = NULL;
	LogAppend append = {0};
	int16_t error = check_partition(op, topic, topic_error, out->index, &p);

	if (error != KERR_NONE)
		note_refused(part, error);
	else
		error = check_behind(part);
	if (error == KERR_NONE)
		error = check_records(call, records, &message);
	if (error != KERR_NONE)
	{
		/* Between giving up and hearing who leads now, there is nobody to name. */
		if (error == KERR_NOT_LEADER_OR_FOLLOWER && p != NULL && common_add_hint(call, &op->hints, p->leader))
		{
			out->current_leader.leader_id = p->leader;
			out->current_leader.leader_epoch = p->leader_epoch;
		}
		fail_part(op, out, error, message);
		return;
	}

	append.records = call->req->frame + (records->p - call->req->frame);
	append.len = records->len;
	append.release = on_written;
	append.owner = call->req;
	append.record_error = on_record_error;
	append.record_error_ctx = part;
	net_request_ref(call->req);
	error = partition_append(p, &append);
	if (error != KERR_NONE)
	{
		net_request_unref(call->req);
		note_refused(part, error);
		fail_part(op, out, error, append.message);
		if (tells_log_start(error, records))
			out->log_start_offset = append.log_start_offset;
		return;
	}
	out->base_offset = append.base_offset;
	out->log_append_time_ms = append.log_append_time_ms;
	out->log_start_offset = append.log_start_offset;
	if (op->request->acks == 0)
		return;
	part->waiter.wake = on_reached;
	part->waiter.owner = part;
	if (partition_wait(p, &part->waiter, op->request->acks == 1 ? WAIT_SYNCED : WAIT_COMMITTED,
					   append.end_offset))
		op->n_waiting++;
}

static void
produce_all(ProduceOp *op)
{
	ApiCall *call = op->call;
	const ProduceRequest *request = op->request;
	bool by_id = call->version >= 13;
	int n = 0;

	for (int32_t i = 0; i < request->n_topic_data; i++)
		n += request->topic_data[i].n_partition_data > 0 ? request->topic_data[i].n_partition_data : 0;
	op->parts = api_alloc(call, sizeof(*op->parts) * (size_t) n);
	op->n_parts = n;
	op->response.responses = API_NEW(call, ProduceResponseResponses, request->n_topic_data);
	op->response.n_responses = request->n_topic_data > 0 ? request->n_topic_data : 0;
	n = 0;
	for (int32_t i = 0; i < request->n_topic_data; i++)
	{
		const ProduceRequestTopicData *in = &request->topic_data[i];
		ProduceResponseResponses *out = &op->response.responses[i];
		int16_t error;
		PartitionTopic *topic = common_find_topic(call, in->name, &in->topic_id, by_id, &error);

		out->name = in->name;
		out->topic_id = in->topic_id;
		out->n_partition_responses = in->n_partition_data > 0 ? in->n_partition_data : 0;
		out->partition_responses =
			API_NEW(call, ProduceResponseResponsesPartitionResponses, in->n_partition_data);
		for (int32_t j = 0; j < out->n_partition_responses; j++, n++)
		{
			op->parts[n].op = op;
			op->parts[n].out = &out->partition_responses[j];
			op->parts[n].out->index = in->partition_data[j].index;
			op->parts[n].topic = in;
			op->parts[n].records = &in->partition_data[j].records;
			if (request->acks < -1 || request->acks > 1)
				fail_part(op, op->parts[n].out, KERR_INVALID_REQUIRED_ACKS, NULL);
			else
				produce_part(op, &op->parts[n], topic, error, &in->partition_data[j].records);
		}
	}
}

static bool
any_error(const ProduceOp *op)
{
	for (int i = 0; i < op->n_parts; i++)
		if (op->parts[i].out->error_code != KERR_NONE)
			return true;
	return false;
}

void
produce_handle(ApiCall *call)
{
	ProduceOp *op = api_alloc(call, sizeof(*op));

	op->call = call;
	op->request = call->body;
	WIRE_INIT(ProduceResponse, &op->response);
	produce_all(op);
	if (op->request->acks == 0)
	{
		/* There is no answer to carry an error: closing the connection makes the client look again. */
		if (any_error(op))
			api_abort(call);
		else
			api_no_reply(call);
		return;
	}
	if (op->n_waiting == 0)
	{
		finish(op);
		return;
	}
	call->op = op;
	ev_init(&op->timeout, on_timeout);
	op->timeout.data = op;
	start_timeout(op, op->request->timeout_ms > 0 ? op->request->timeout_ms / 1000. : 0.);
}
