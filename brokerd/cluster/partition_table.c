/* partition_table.c: the metadata image becomes partitions, logs and leaderships. */
#include "brokerd/cluster/internal.h"

#include <stdlib.h>
#include <utlist.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/fetcher.h"
#include "brokerd/cluster/leadership.h"
#include "brokerd/cluster/replication.h"
#include "extension/min_isr.h"
#include "wire/errors.h"

PartitionTable *
partitions_new(const PartitionOptions *opt)
{
	PartitionTable *t = calloc(1, sizeof(*t));

	if (t != NULL)
		t->opt = *opt;
	return t;
}

static void
free_topic(PartitionTable *t, PartitionTopic *topic)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a topic is in both tables */
	HASH_DELETE(by_name, t->by_name, topic);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	HASH_DELETE(by_id, t->by_id, topic);
	for (int32_t i = 0; i < topic->n_partitions; i++)
		free(topic->partitions[i]);
	free(topic->partitions);
	free(topic->name);
	free(topic);
}

static void
end_leadership(Partition *p)
{
	leadership_free(p->lead);
	p->lead = NULL;
}

/* What a partition does for others, and others for it, ends. */
static void
end_replication(Partition *p)
{
	end_leadership(p);
	fetcher_unfollow(p);
}

void
partitions_free(PartitionTable *t)
{
	PartitionTopic *topic, *tmp;

	HASH_ITER (by_name, t->by_name, topic, tmp)
	{
		for (int32_t i = 0; i < topic->n_partitions; i++)
			end_replication(topic->partitions[i]);
		free_topic(t, topic);
	}
	free(t);
}

PartitionTopic *
partitions_topic(PartitionTable *t, WStr name)
{
	PartitionTopic *topic = NULL;

	if (name.len > 0)
		HASH_FIND(by_name, t->by_name, name.s, (size_t) name.len, topic);
	return topic;
}

PartitionTopic *
partitions_topic_by_id(PartitionTable *t, const WUuid *id)
{
	PartitionTopic *topic;

	HASH_FIND(by_id, t->by_id, id, sizeof(*id), topic);
	return topic;
}

static Partition *
partition_of(const PartitionTopic *topic, int32_t index)
{
	return topic != NULL && index >= 0 && index < topic->n_partitions ? topic->partitions[index] : NULL;
}

Partition *
partitions_find(PartitionTable *t, WStr name, int32_t index)
{
	return partition_of(partitions_topic(t, name), index);
}

Partition *
partitions_find_by_id(PartitionTable *t, const WUuid *topic_id, int32_t index)
{
	return partition_of(partitions_topic_by_id(t, topic_id), index);
}

const MetaPartition *
partition_image(const PartitionTable *t, const Partition *p)
{
	const MetaTopic *topic = meta_image_topic_by_id(t->opt.image, &p->topic->id);

	return topic != NULL ? meta_topic_partition(topic, p->index) : NULL;
}

PartitionTopic *
partitions_next(PartitionTable *t, PartitionTopic *after)
{
	return after == NULL ? t->by_name : after->by_name.next;
}

int
partitions_leading(const PartitionTable *t)
{
	return t->n_leading;
}

static PartitionTopic *
add_topic(PartitionTable *t, const MetaTopic *meta)
{
	PartitionTopic *topic = calloc(1, sizeof(*topic));

	if (topic == NULL)
		return NULL;
	topic->id = meta->id;
	topic->name = strndup(meta->name, (size_t) meta->name_len);
	topic->name_len = meta->name_len;
	HASH_ADD_KEYPTR(by_name, t->by_name, topic->name, (size_t) topic->name_len, topic);
	HASH_ADD(by_id, t->by_id, id, sizeof(topic->id), topic);
	return topic;
}

/* The dirty list runs through the partitions' own memory; they leave it before that goes. */
static void
forget_dirty(PartitionTable *t, const PartitionTopic *topic)
{
	Partition *last = NULL;

	for (Partition **link = &t->dirty_head; *link != NULL;)
	{
		if ((*link)->topic == topic)
		{
			(*link)->report_dirty = false;
			*link = (*link)->next_dirty;
		}
		else
		{
			last = *link;
			link = &(*link)->next_dirty;
		}
	}
	t->dirty_tail = last;
}

/* Partitions are only ever added. */
static bool
grow_topic(PartitionTopic *topic, int32_t n)
{
	Partition **grown;

	if (n <= topic->n_partitions)
		return true;
	grown = realloc(topic->partitions, (size_t) n * sizeof(Partition *));
	if (grown == NULL)
		return false;
	topic->partitions = grown;
	for (; topic->n_partitions < n; topic->n_partitions++)
	{
		Partition *p = calloc(1, sizeof(*p));

		if (p == NULL)
			return false;
		p->topic = topic;
		p->index = topic->n_partitions;
		p->leader = p->leader_epoch = p->partition_epoch = -1;
		grown[topic->n_partitions] = p;
	}
	return true;
}

/* A log of this name that is another topic's. */
static bool
is_of_another(const Log *log, const PartitionTopic *topic)
{
	WUuid id = log_topic_id(log);

	return !wuuid_is_zero(&id) && !wuuid_eq(&id, &topic->id);
}

/* The log in the data directory that has the partition's name; that of a deleted topic makes room. */
static Log *
find_log(PartitionTable *t, const Partition *p)
{
	Log *log = log_manager_find(t->opt.logs, p->topic->name, p->topic->name_len, p->index);
	WUuid id;

	if (log == NULL || !is_of_another(log, p->topic))
		return log;
	/* The topic was deleted and made again while this broker was away. */
	id = log_topic_id(log);
	if (!meta_image_is_deleted(t->opt.image, &id))
		return log;
	log_manager_delete(t->opt.logs, log);
	return NULL;
}

static void
forget_due(PartitionTable *t, Partition *p)
{
	if (p->log_is_due)
		DL_DELETE2(t->logs_due, p, due_prev, due_next);
	p->log_is_due = false;
}

/* A replica belongs here: find its log, or make it, now or in one of the next turns. */
static void
ensure_log(PartitionTable *t, Partition *p)
{
	PartitionTopic *topic = p->topic;
	Err err;
	Log *log;

	if (p->log != NULL || p->stray)
		return;
	log = find_log(t, p);
	if (log != NULL && is_of_another(log, topic))
	{
		log_msg(
			LOG_ERROR, "cluster",
			"%s-%d: the log in the data directory belongs to another topic of that name; it is kept, and the "
			"partition stays offline here: move the folder away",
			topic->name, p->index);
		p->stray = true;
		return;
	}
	if (log == NULL && clock_boot_us() >= t->make_logs_until_us)
	{
		if (!p->log_is_due)
			DL_APPEND2(t->logs_due, p, due_prev, due_next);
		p->log_is_due = true;
		return;
	}
	forget_due(t, p);
	if (log == NULL)
		log = log_manager_create(t->opt.logs, topic->name, topic->name_len, p->index, &topic->id,
								 &topic->log_config, &err);
	if (log == NULL)
	{
		log_msg(LOG_ERROR, "cluster", "%s-%d: cannot make its log: %s", topic->name, p->index, err.text);
		return;
	}
	p->log = log;
	log_set_user(log, p);
	log_set_config(log, &topic->log_config);
	p->high_watermark = log_high_watermark(log);
}

static void
set_leading(PartitionTable *t, Partition *p, bool leading)
{
	if (p->leading == leading)
		return;
	p->leading = leading;
	t->n_leading += leading ? 1 : -1;
	if (leading && p->log != NULL)
		p->epoch_start = log_appended_end(p->log);
	if (!leading)
		partition_fail_waiters(p, KERR_NOT_LEADER_OR_FOLLOWER);
}

/*
 * A reply to this broker's own ISR change may be ahead of the image (hazards A2): what is older than what the
 * partition knows is no news.
 */
static bool
is_older(const Partition *p, const MetaPartition *meta)
{
	return meta->leader_epoch < p->leader_epoch ||
		   (meta->leader_epoch == p->leader_epoch && meta->partition_epoch < p->partition_epoch);
}

static void
apply_replication(PartitionTable *t, Partition *p, const MetaPartition *meta)
{
	if (t->replication == NULL)
		return;
	if (p->leading && meta->n_replicas > 1)
		leadership_apply(&p->lead, p, meta, t);
	else
		end_leadership(p);
	if (p->is_replica && !p->leading && p->log != NULL && !log_is_broken(p->log) && p->leader >= 0 &&
		p->leader != t->opt.node_id)
		fetcher_follow(t->replication->fetcher, p, meta_partition_in_isr(meta, t->opt.node_id));
	else
		fetcher_unfollow(p);
}

static void
apply_partition(PartitionTable *t, Partition *p, const MetaPartition *meta)
{
	bool leads = meta->leader == t->opt.node_id;

	if (meta->partition_epoch < 0 || is_older(p, meta))
		return;
	/* A leadership in a new epoch is another leadership, also when it is ours again. */
	if (meta->leader_epoch != p->leader_epoch)
	{
		set_leading(t, p, false);
		end_leadership(p);
	}
	p->leader = meta->leader;
	p->leader_epoch = meta->leader_epoch;
	p->partition_epoch = meta->partition_epoch;
	p->isr_size = meta->n_isr;
	p->n_replicas = meta->n_replicas;
	p->default_min_isr = (int16_t) min_isr_of(-1, meta->n_replicas, meta->n_adding, meta->n_removing);
	p->is_replica = meta_partition_has_replica(meta, t->opt.node_id);
	if (p->is_replica)
		ensure_log(t, p);
	else if (p->log != NULL)
		t->n_left++;
	else
		forget_due(t, p);
	set_leading(t, p, leads && p->is_replica);
	if (p->log != NULL)
		log_set_followed(p->log, p->leading && p->n_replicas > 1);
	apply_replication(t, p, meta);
	partition_advance(t, p);
}

bool
partitions_make_logs(PartitionTable *t)
{
	t->make_logs_until_us = clock_boot_us() + t->opt.make_logs_ms * 1000;
	while (t->logs_due != NULL && clock_boot_us() < t->make_logs_until_us)
	{
		Partition *p = t->logs_due;
		const MetaPartition *meta = partition_image(t, p);

		if (meta == NULL)
			forget_due(t, p);
		else
			apply_partition(t, p, meta);
		/* An image that is behind what the partition knows: not in a circle.  One for which the time was over
		 * only when its turn had come stays: it is the first of the next turn. */
		if (t->logs_due == p && clock_boot_us() < t->make_logs_until_us)
			forget_due(t, p);
	}
	return t->logs_due != NULL;
}

void
partitions_set_replication(PartitionTable *t, struct Replication *replication)
{
	for (PartitionTopic *topic = t->by_name; replication == NULL && topic != NULL;
		 topic = topic->by_name.next)
		for (int32_t i = 0; i < topic->n_partitions; i++)
			end_replication(topic->partitions[i]);
	t->replication = replication;
	if (replication != NULL)
		partitions_apply_all(t);
}

/* The topic leaves the table.  Its logs stay on disk, or go. */
static int
remove_topic(PartitionTable *t, PartitionTopic *topic, bool delete_logs)
{
	int n = 0;

	for (int32_t i = 0; i < topic->n_partitions; i++)
	{
		Partition *p = topic->partitions[i];

		set_leading(t, p, false);
		end_replication(p);
		forget_due(t, p);
		p->leader = -1;
		partition_fail_waiters(p, KERR_UNKNOWN_TOPIC_OR_PARTITION);
		while (p->waiters[WAIT_MORE] != NULL)
		{
			PartitionWaiter *w = p->waiters[WAIT_MORE];

			partition_unwait(w);
			w->wake(w, KERR_UNKNOWN_TOPIC_OR_PARTITION);
		}
		if (p->log == NULL)
			continue;
		log_set_user(p->log, NULL);
		if (delete_logs)
		{
			log_manager_delete(t->opt.logs, p->log);
			n++;
		}
		p->log = NULL;
	}
	forget_dirty(t, topic);
	free_topic(t, topic);
	return n;
}

void
partitions_apply_topic(PartitionTable *t, const MetaTopic *meta)
{
	PartitionTopic *topic = partitions_topic_by_id(t, &meta->id);

	if (topic == NULL)
	{
		PartitionTopic *same_name = partitions_topic(t, (WStr){meta->name, meta->name_len});

		/* A topic made again, read before the old one's tombstone; without a tombstone the logs stay. */
		if (same_name != NULL)
			remove_topic(t, same_name, meta_image_is_deleted(t->opt.image, &same_name->id));
		topic = add_topic(t, meta);
	}
	if (topic == NULL || !grow_topic(topic, meta->n_partitions))
	{
		log_msg(LOG_ERROR, "cluster", "out of memory for topic %s", meta->name);
		return;
	}
	topic_effective_config(t, meta, topic);
	topic_mark_throttled(t, meta, topic);
	for (int32_t i = 0; i < meta->n_partitions; i++)
	{
		Partition *p = topic->partitions[i];

		if (p->log != NULL)
			log_set_config(p->log, &topic->log_config);
		apply_partition(t, p, &meta->partitions[i]);
	}
}

void
partitions_apply_all(PartitionTable *t)
{
	for (MetaTopic *m = meta_image_next_topic(t->opt.image, NULL); m != NULL;
		 m = meta_image_next_topic(t->opt.image, m))
		partitions_apply_topic(t, m);
}

/*
 * What is known of followers stays: when the same leadership goes on, a change of the ISR that may yet land still
 * counts (hazards A2).
 */
void
partitions_resign(PartitionTable *t)
{
	for (PartitionTopic *topic = t->by_name; topic != NULL; topic = topic->by_name.next)
		for (int32_t i = 0; i < topic->n_partitions; i++)
			set_leading(t, topic->partitions[i], false);
}

void
partitions_apply_configs(PartitionTable *t)
{
	for (PartitionTopic *topic = t->by_name; topic != NULL; topic = topic->by_name.next)
	{
		const MetaTopic *meta = meta_image_topic_by_id(t->opt.image, &topic->id);

		if (meta == NULL)
			continue;
		topic_effective_config(t, meta, topic);
		for (int32_t i = 0; i < topic->n_partitions; i++)
			if (topic->partitions[i]->log != NULL)
			{
				log_set_config(topic->partitions[i]->log, &topic->log_config);
				partition_advance(t, topic->partitions[i]);
			}
	}
}

int
partitions_delete_topic(PartitionTable *t, const WUuid *id)
{
	PartitionTopic *topic = partitions_topic_by_id(t, id);

	return topic == NULL ? 0 : remove_topic(t, topic, true);
}

void
partitions_drop_replica(PartitionTable *t, const WUuid *topic_id, int32_t partition)
{
	PartitionTopic *topic = partitions_topic_by_id(t, topic_id);
	Partition *p = partition_of(topic, partition);
	Log *log;

	if (topic == NULL)
		return;
	log = p != NULL && p->log != NULL
			  ? p->log
			  : log_manager_find(t->opt.logs, topic->name, topic->name_len, partition);
	if (log == NULL || is_of_another(log, topic) || (p != NULL && p->is_replica))
		return;
	if (p != NULL)
	{
		end_replication(p);
		partition_fail_waiters(p, KERR_NOT_LEADER_OR_FOLLOWER);
		p->log = NULL;
	}
	log_set_user(log, NULL);
	log_manager_delete(t->opt.logs, log);
}

void
partitions_detach_topic(PartitionTable *t, const WUuid *id)
{
	PartitionTopic *topic = partitions_topic_by_id(t, id);

	if (topic == NULL)
		return;
	log_msg(LOG_WARNING, "cluster",
			"PostgreSQL does not know topic %s any more (an older backup?): its logs are kept", topic->name);
	remove_topic(t, topic, false);
}

int
partitions_topic_count(const PartitionTable *t)
{
	return (int) HASH_CNT(by_id, t->by_id);
}
