/* log_config.c: the effective configs of a topic, as its logs and partitions use them. */
#include "brokerd/cluster/internal.h"
#include "brokerd/cluster/throttle.h"

/* Kafka's numbers are checked where they are set; what is kept in 32 bits is clamped all the same. */
static int32_t
to_int32(int64_t v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t) v;
}

void
topic_effective_config(PartitionTable *t, const MetaTopic *topic, PartitionTopic *out)
{
	const TopicConfigs *configs = t->opt.configs;
	const MetaImage *image = t->opt.image;
	LogConfig *c = &out->log_config;
	ConfigSource min_isr_from = CONFIG_SOURCE_DEFAULT;

#define LONG_OF(key) topic_config_int(configs, image, topic, key)
#define INT_OF(key)  to_int32(LONG_OF(key))
	log_config_default(c);
	c->segment_bytes = INT_OF("segment.bytes");
	c->segment_ms = LONG_OF("segment.ms");
	c->segment_jitter_ms = LONG_OF("segment.jitter.ms");
	c->segment_index_bytes = INT_OF("segment.index.bytes");
	c->index_interval_bytes = INT_OF("index.interval.bytes");
	c->retention_ms = LONG_OF("retention.ms");
	c->retention_bytes = LONG_OF("retention.bytes");
	c->cleanup_delete = topic_config_has(configs, image, topic, "cleanup.policy", "delete");
	c->cleanup_compact = topic_config_has(configs, image, topic, "cleanup.policy", "compact");
	c->min_dirty_ratio = topic_config_double(configs, image, topic, "min.cleanable.dirty.ratio");
	c->min_compaction_lag_ms = LONG_OF("min.compaction.lag.ms");
	c->max_compaction_lag_ms = LONG_OF("max.compaction.lag.ms");
	c->delete_retention_ms = LONG_OF("delete.retention.ms");
	c->max_message_bytes = INT_OF("max.message.bytes");
	c->flush_messages = LONG_OF("flush.messages");
	c->flush_ms = LONG_OF("flush.ms");
	c->file_delete_delay_ms = LONG_OF("file.delete.delay.ms");
	c->log_append_time = strcmp(topic_config_text(configs, image, topic, "message.timestamp.type", NULL),
								"LogAppendTime") == 0;
	c->timestamp_before_max_ms = LONG_OF("message.timestamp.before.max.ms");
	c->timestamp_after_max_ms = LONG_OF("message.timestamp.after.max.ms");
	(void) topic_config_text(configs, image, topic, "min.insync.replicas", &min_isr_from);
	out->min_isr = min_isr_from == CONFIG_SOURCE_DEFAULT ? -1 : INT_OF("min.insync.replicas");
	out->compacted = c->cleanup_compact;
#undef INT_OF
#undef LONG_OF
}

static void
mark_listed(const PartitionTopic *out, const char *list, int32_t me, bool as_leader)
{
	int32_t partition, broker;

	while (throttle_next_replica(&list, &partition, &broker))
	{
		Partition *p = broker == me && partition < out->n_partitions ? out->partitions[partition] : NULL;

		if (p == NULL)
			continue;
		if (as_leader)
			p->throttled_as_leader = true;
		else
			p->throttled_as_follower = true;
	}
}

void
topic_mark_throttled(PartitionTable *t, const MetaTopic *topic, const PartitionTopic *out)
{
	const char *leader = meta_topic_config(topic, "leader.replication.throttled.replicas");
	const char *follower = meta_topic_config(topic, "follower.replication.throttled.replicas");
	bool as_leader = leader != NULL && throttle_is_of_all(leader);
	bool as_follower = follower != NULL && throttle_is_of_all(follower);

	for (int32_t i = 0; i < out->n_partitions; i++)
	{
		out->partitions[i]->throttled_as_leader = as_leader;
		out->partitions[i]->throttled_as_follower = as_follower;
	}
	if (leader != NULL)
		mark_listed(out, leader, t->opt.node_id, true);
	if (follower != NULL)
		mark_listed(out, follower, t->opt.node_id, false);
}
