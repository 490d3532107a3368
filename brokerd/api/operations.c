#include "brokerd/api/operations.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "brokerd/meta/json.h"
#include "wire/errors.h"

typedef struct Operation
{
	struct Operation *prev, *next;
	Broker *broker;
	int64_t id;
	int32_t partition;
	int64_t wanted; /* log start offset */
	bool locating;  /* a reader thread looks for a time */
	bool dropped;   /* the broker stops: free it when the reader is done */
	PartitionWaiter waiter;
} Operation;

static void
forget(void *ctx, const MetaResult *result)
{
	Operation *op = ctx;

	/* Not told (PostgreSQL away): it will be given again, and is done at once then. */
	(void) result;
	DL_DELETE(op->broker->operations, op);
	free(op);
}

static void
finish(Operation *op, int64_t result, int16_t error)
{
	partition_unwait(&op->waiter);
	meta_finish_operation(op->broker->meta, op->id, op->partition, result, error,
						  error == KERR_NONE ? NULL : kerr_message(error), forget, op);
}

static void
on_moved(PartitionWaiter *w, int16_t error)
{
	Operation *op = w->owner;
	Partition *p = w->partition;

	if (error != KERR_NONE || p == NULL)
		finish(op, -1, error != KERR_NONE ? error : KERR_UNKNOWN_TOPIC_OR_PARTITION);
	else if (!p->leading)
		finish(op, -1, KERR_NOT_LEADER_OR_FOLLOWER);
	else if (log_start_offset(p->log) >= op->wanted)
		finish(op, log_start_offset(p->log), KERR_NONE);
	else if (log_error(p->log) != NULL)
		finish(op, -1, KERR_KAFKA_STORAGE_ERROR);
}

static Partition *
find_partition(Operation *op, const MetaOperation *asked)
{
	return partitions_find_by_id(op->broker->partitions, &asked->topic_id, asked->partition);
}

/* ---- group.locate: where a group that is reset goes ---- */

/* {"timestamp": n}, with ListOffsets' special times: -1 the end, -2 the start. */
static int64_t
read_timestamp(const char *args)
{
	MetaJson j = {.p = args};
	int64_t timestamp = -1;
	char *key;

	if (!meta_json_begin(&j, '{'))
		return timestamp;
	while ((key = meta_json_key(&j)) != NULL)
	{
		char *value = meta_json_scalar(&j);

		if (value != NULL && strcmp(key, "timestamp") == 0)
			timestamp = strtoll(value, NULL, 10);
		free(value);
		free(key);
	}
	return timestamp;
}

static void
on_located(void *ctx, int16_t error, int64_t offset, int64_t timestamp, int32_t leader_epoch)
{
	Operation *op = ctx;

	(void) timestamp;
	(void) leader_epoch;
	op->locating = false;
	if (op->dropped)
		free(op);
	else
		/* Nothing at or after that time: the end, as Kafka's tool does it. */
		finish(op, offset < 0 ? op->wanted : offset, error);
}

static void
locate(Operation *op, const MetaOperation *asked)
{
	Partition *p = find_partition(op, asked);
	int16_t error = p == NULL ? KERR_UNKNOWN_TOPIC_OR_PARTITION : partition_check_leader(p, -1);
	int64_t timestamp = read_timestamp(asked->args_json);

	if (error != KERR_NONE)
	{
		finish(op, -1, error);
		return;
	}
	op->wanted = p->high_watermark;
	if (timestamp == -2)
		finish(op, log_start_offset(p->log), KERR_NONE);
	else if (timestamp < 0)
		finish(op, op->wanted, KERR_NONE);
	else
	{
		op->locating = true;
		log_find_time(p->log, timestamp, op->wanted, on_located, op);
	}
}

/* ---- delete_records ---- */

static void
delete_records(Operation *op, const MetaOperation *asked)
{
	Partition *p = find_partition(op, asked);
	int16_t error;

	if (p == NULL)
	{
		finish(op, -1, KERR_UNKNOWN_TOPIC_OR_PARTITION);
		return;
	}
	error = partition_check_leader(p, -1);
	op->wanted = asked->before_offset < 0 ? p->high_watermark : asked->before_offset;
	if (error == KERR_NONE && op->wanted > p->high_watermark)
		error = KERR_OFFSET_OUT_OF_RANGE;
	if (error == KERR_NONE)
		error = log_raise_start(p->log, op->wanted);
	if (error != KERR_NONE)
	{
		finish(op, -1, error);
		return;
	}
	op->waiter.wake = on_moved;
	op->waiter.owner = op;
	partition_wait(p, &op->waiter, WAIT_MORE, 0);
	on_moved(&op->waiter, KERR_NONE);
}

static bool
under_way(const Broker *broker, const MetaOperation *asked)
{
	const Operation *op;

	DL_FOREACH (broker->operations, op)
		if (op->id == asked->id && op->partition == asked->partition)
			return true;
	return false;
}

void
operations_take(Broker *broker, const MetaOperation *operations, int n)
{
	for (int i = 0; i < n; i++)
	{
		Operation *op;

		bool is_locate = strcmp(operations[i].kind, "group.locate") == 0;

		if (under_way(broker, &operations[i]) ||
			(!is_locate && strcmp(operations[i].kind, "delete_records") != 0))
			continue;
		op = calloc(1, sizeof(*op));
		if (op == NULL)
			return; /* they come again */
		op->broker = broker;
		op->id = operations[i].id;
		op->partition = operations[i].partition;
		DL_APPEND(broker->operations, op);
		if (is_locate)
			locate(op, &operations[i]);
		else
			delete_records(op, &operations[i]);
	}
}

void
operations_free(Broker *broker)
{
	Operation *op, *next;

	DL_FOREACH_SAFE (broker->operations, op, next)
	{
		partition_unwait(&op->waiter);
		DL_DELETE(broker->operations, op);
		op->dropped = true;
		if (!op->locating)
			free(op);
	}
}
