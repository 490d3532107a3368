/*
 * partition.h: what this broker knows of each partition: who leads it, its log when a replica is here, its
 * high watermark, and who waits for it to move.  Loop thread only.
 *
 * A table of topics (by name and by id) mirrors the metadata image; partitions_apply_topic() is the one
 * place where a change of the image becomes a change here: logs are created, leaderships begin and end.
 * Nothing is deleted because it is absent: a log goes only for a tombstone, and a log whose topic id
 * is another than PostgreSQL's is stray: kept and reported (hazards A7).
 */
#ifndef BROKERD_CLUSTER_PARTITION_H
#define BROKERD_CLUSTER_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "brokerd/base/config.h"
#include "brokerd/meta/image.h"
#include "brokerd/meta/topic_config.h"
#include "brokerd/storage/log.h"
#include "wire/types.h"

typedef struct Partition Partition;
typedef struct PartitionTopic PartitionTopic;
typedef struct PartitionTable PartitionTable;
typedef struct PartitionWaiter PartitionWaiter;
struct Leadership; /* leadership.h */
struct Follow;     /* fetcher.h */
struct Replication;

typedef enum WaitFor
{
	WAIT_SYNCED,    /* synced end >= offset: acks=1 */
	WAIT_COMMITTED, /* high watermark >= offset: acks=all */
	WAIT_MORE,      /* anything that a fetch may see moved; stays until partition_unwait() */
	WAIT_KINDS
} WaitFor;

/* Somebody who waits; the memory is the waiter's own (a request's arena). */
struct PartitionWaiter
{
	Partition *partition; /* NULL: not waiting */
	PartitionWaiter *prev, *next;
	WaitFor kind;
	int64_t offset;
	/* Called once for WAIT_SYNCED and WAIT_COMMITTED, after it left the list; each time for WAIT_MORE.
	 * `error` is KERR_NOT_LEADER_OR_FOLLOWER or KERR_KAFKA_STORAGE_ERROR when it cannot come any more. */
	void (*wake)(PartitionWaiter *w, int16_t error);
	void *owner;
};

struct Partition
{
	PartitionTopic *topic;
	int32_t index;
	int32_t leader; /* -1: none */
	int32_t leader_epoch;
	int32_t partition_epoch;
	int16_t isr_size;
	int16_t n_replicas;
	int16_t default_min_isr; /* by its replicas, where nobody has set one */
	bool is_replica;         /* this broker is one of its replicas */
	bool leading;            /* this broker is its leader */
	bool log_is_due;         /* its log is to be made in one of the next turns (partitions_make_logs) */
	bool stray;              /* a log of another topic id stands where ours should be */
	bool reported_failed;
	bool throttled_as_leader, throttled_as_follower; /* as the topic's configs say of this broker */
	Log *log;                                        /* NULL: not here, or it could not be made */
	int64_t high_watermark;
	int64_t epoch_start;     /* log end when this broker's leadership began */
	struct Leadership *lead; /* its followers, while this broker leads more than one replica; else NULL */
	struct Follow *follow;   /* how it follows its leader, while it does; else NULL */
	/* repair.c */
	int32_t
		out_epoch; /* leader epoch in which nothing counts on its log any more, as PostgreSQL said; 0 never */
	int32_t set_aside; /* logs of it that this process has set aside, the last one when (boot clock) */
	int64_t set_aside_ms;
	bool report_dirty;
	Partition *next_dirty;
	Partition *due_prev, *due_next; /* of those whose log is due */
	PartitionWaiter *waiters[WAIT_KINDS];
};

struct PartitionTopic
{
	WUuid id;
	char *name;
	int32_t name_len;
	int32_t n_partitions;
	Partition **partitions; /* n_partitions of them; each stays where it is while the topic lives */
	LogConfig log_config;
	int32_t min_isr; /* -1: nobody has set it */
	bool compacted;
	UT_hash_handle by_name;
	UT_hash_handle by_id;
};

typedef struct PartitionOptions
{
	int32_t node_id;
	const TopicConfigs *configs;
	MetaImage *image;
	LogManager *logs;
	int64_t
		make_logs_ms; /* that a turn of the loop may take for making logs; well below the session timeout */
} PartitionOptions;

PartitionTable *partitions_new(const PartitionOptions *opt);
void partitions_free(PartitionTable *t);

/*
 * From here on partitions that this broker leads have followers, and those that it does not lead follow
 * (replication.h).  NULL stops it.
 */
void partitions_set_replication(PartitionTable *t, struct Replication *replication);

/*
 * Making a log touches the disk, and an image can bring thousands: each turn of the loop makes as many as fit in
 * make_logs_ms, so heartbeats go on.  Call it once a turn; true = some are left.
 */
bool partitions_make_logs(PartitionTable *t);

/* The image changed for this topic. */
void partitions_apply_topic(PartitionTable *t, const MetaTopic *meta);
void partitions_apply_all(PartitionTable *t);
/* A tombstone: its logs go.  Returns how many went. */
int partitions_delete_topic(PartitionTable *t, const WUuid *id);
/* A decision took this broker's replica (replica_duties.h): its log goes. */
void partitions_drop_replica(PartitionTable *t, const WUuid *topic_id, int32_t partition);
/* PostgreSQL does not know it any more: its logs stay on disk, stray (hazards A7). */
void partitions_detach_topic(PartitionTable *t, const WUuid *id);
/* Dynamic configs of the cluster or this broker changed: every topic's effective values. */
void partitions_apply_configs(PartitionTable *t);

/* This broker's epoch is gone: it leads nothing until the image says so again (partitions_apply_all). */
void partitions_resign(PartitionTable *t);

/* From LogManagerOptions.on_change. */
void partitions_log_changed(PartitionTable *t, Log *log);

PartitionTopic *partitions_topic(PartitionTable *t, WStr name);
PartitionTopic *partitions_topic_by_id(PartitionTable *t, const WUuid *id);
/* NULL: no such topic or partition. */
Partition *partitions_find(PartitionTable *t, WStr name, int32_t index);
Partition *partitions_find_by_id(PartitionTable *t, const WUuid *topic_id, int32_t index);
PartitionTopic *partitions_next(PartitionTable *t, PartitionTopic *after); /* NULL starts */
int partitions_topic_count(const PartitionTable *t);
int partitions_leading(const PartitionTable *t);

/*
 * May this broker answer as leader, given the leader epoch that the client believes in (-1: none given)?
 * KERR_NONE, or FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, in
 * Kafka's order.
 */
int16_t partition_check_leader(const Partition *p, int32_t current_leader_epoch);
/* May it answer a consumer: as leader, or with `as_follower` as a follower, too (follower_read.h)? */
int16_t partition_check_reader(const Partition *p, int32_t current_leader_epoch, bool as_follower);
/* Appends as leader after making sure that the epoch's start is on disk (hazards A12). */
int16_t partition_append(Partition *p, LogAppend *append) __attribute__((warn_unused_result));
/* acks=all is refused before anything is written while the ISR is too small. */
bool partition_enough_replicas(const Partition *p);
int64_t partition_high_watermark(const Partition *p);
/* As far as consumers may read: the high watermark, which on a follower can be beyond what is in its files. */
int64_t partition_readable_end(const Partition *p);
int64_t partition_last_stable_offset(const Partition *p);

/* OffsetForLeaderEpoch as this leader answers it: the largest epoch <= `epoch` and its end; -1/-1 unknown. */
void partition_epoch_end(const Partition *p, int32_t epoch, int32_t *found, int64_t *end);

/*
 * Where the log of a fetcher and this one part (KIP-595's rule): `last_epoch` is the epoch of the last record
 * that it has, `offset` the next one it wants.  Unknown epochs give OFFSET_OUT_OF_RANGE.
 */
typedef struct Divergence
{
	bool diverged;
	int32_t epoch; /* the largest that both can have */
	int64_t end;   /* its end here */
} Divergence;
int16_t partition_divergence(const Partition *p, int32_t last_epoch, int64_t offset, Divergence *out);

/* WAIT_SYNCED and WAIT_COMMITTED: false when there is nothing to wait for, the offset is reached. */
bool partition_wait(Partition *p, PartitionWaiter *w, WaitFor kind, int64_t offset);
void partition_unwait(PartitionWaiter *w);

/* Partitions whose figures changed since they were reported; clears the list as it goes. NULL: none left. */
Partition *partitions_pop_dirty(PartitionTable *t);
/* The report did not arrive. */
void partitions_report_again(PartitionTable *t, Partition *p);

#endif
