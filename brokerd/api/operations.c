#include "brokerd/api/operations.h"

#include <stdlib.h>
#include <utlist.h>

#include "wire/errors.h"

typedef struct Operation
{
	struct Operation *prev, *next;
	Broker *broker;
	int64_t id;
	int32_t partition;
	int64_t wanted; /* log start offset */
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

static void
delete_records(Operation *op, const MetaOperation *asked)
{
	PartitionTopic *topic = partitions_topic_by_id(op->broker->partitions, &asked->topic_id);
	Partition *p = topic != NULL && asked->partition >= 0 && asked->partition < topic->n_partitions
					   ? &topic->partitions[asked->partition]
					   : NULL;
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

		if (under_way(broker, &operations[i]) || strcmp(operations[i].kind, "delete_records") != 0)
			continue;
		op = calloc(1, sizeof(*op));
		if (op == NULL)
			return; /* they come again */
		op->broker = broker;
		op->id = operations[i].id;
		op->partition = operations[i].partition;
		DL_APPEND(broker->operations, op);
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
		free(op);
	}
}
