/* log_config.c: the effective configs of a topic, as its logs and partitions use them. */
#include "brokerd/cluster/internal.h"

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
