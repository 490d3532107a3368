/* internal.h: what the files of cluster/ share.  Nobody else includes it. */
#ifndef BROKERD_CLUSTER_INTERNAL_H
#define BROKERD_CLUSTER_INTERNAL_H

#include "brokerd/cluster/partition.h"
#include "brokerd/meta/meta.h"

struct PartitionTable
{
	PartitionOptions opt;
	PartitionTopic *by_name;
	PartitionTopic *by_id;
	Partition *dirty_head, *dirty_tail; /* figures changed since they were reported */
	int n_leading;
	Partition *logs_due;             /* their logs are to be made */
	int64_t make_logs_until_us;      /* in this turn of the loop; boot clock */
	uint64_t n_left;                 /* partitions that left this broker, and whose logs are still here */
	struct Replication *replication; /* NULL: not running */
};

/* partition_table.c */
/* What the image says of it; NULL when it does not know it. */
const MetaPartition *partition_image(const PartitionTable *t, const Partition *p);

/* partition.c */
int partition_effective_min_isr(const Partition *p); /* min.insync.replicas as it counts for its replicas */
void partition_fail_waiters(Partition *p, int16_t error);
void partition_wake_fetches(Partition *p); /* something that they may see, or not see any more, changed */
void partition_advance(PartitionTable *t, Partition *p);
void partition_mark_dirty(PartitionTable *t, Partition *p);

/* partition_event.c */
/* History for people: the event's details are the topic, the partition and `more`, which is ,"key":value,... */
void partition_event(Meta *meta, const Partition *p, const char *kind, const char *more);

/* log_config.c: the effective configs of a topic, as its logs and partitions use them. */
void topic_effective_config(PartitionTable *t, const MetaTopic *topic, PartitionTopic *out);
/* Which of its partitions' replicas are throttled here (throttle.h). */
void topic_mark_throttled(PartitionTable *t, const MetaTopic *topic, const PartitionTopic *out);

#endif
