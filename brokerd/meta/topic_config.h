/*
 * topic_config.h: which value of a configuration key counts, and where it comes from.
 *
 * The layers, the first that has a value wins (Kafka's order and Kafka's source codes):
 *
 *     1 topic          override of the topic                               retention.ms
 *     2 broker         dynamic config of this broker                       log.retention.ms
 *     3 cluster        dynamic config of all brokers                       log.retention.ms
 *     4 static         the properties file                                 log.retention.ms, .minutes, .hours
 *     5 default        extension/config_keys.def                           604800000
 *
 * A topic's key takes its lower layers from its synonym, a key of the broker; some of those have older
 * synonyms in other units (hours, minutes), which a higher layer's .ms beats.
 *
 * Threads: loop thread (it reads the image).  Answers point into the image, the table, the BrokerConfig or the
 * caller's buffer, and are valid until the image changes.
 */
#ifndef BROKERD_META_TOPIC_CONFIG_H
#define BROKERD_META_TOPIC_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brokerd/base/config.h"
#include "brokerd/meta/image.h"
#include "extension/config_keys.h"

/* Kafka's codes in DescribeConfigs. */
typedef enum ConfigSource
{
	CONFIG_SOURCE_TOPIC = 1,
	CONFIG_SOURCE_BROKER = 2,
	CONFIG_SOURCE_CLUSTER = 3,
	CONFIG_SOURCE_STATIC = 4,
	CONFIG_SOURCE_DEFAULT = 5,
	CONFIG_SOURCE_GROUP = 8 /* of a group's keys, which have no other layer but the default */
} ConfigSource;

typedef struct TopicConfigs TopicConfigs;

/* Keeps `config`, which must live longer, and indexes the table of keys. */
TopicConfigs *topic_configs_new(const BrokerConfig *config);
void topic_configs_free(TopicConfigs *configs);

/* Every key of `scope` (CFG_TOPIC, CFG_CLUSTER, CFG_BROKER, CFG_GROUP), sorted by name; at most `max`, returns
 * how many there are. */
int topic_config_keys(const TopicConfigs *configs, int scope, const ConfigKey **out, int max);
const ConfigKey *topic_config_key(const TopicConfigs *configs, int scope, const char *name); /* NULL: none */

#define TOPIC_CONFIG_TEXT 32 /* a buffer for numbers that are converted */

/*
 * The value of a topic's key, converted to the key's own unit.  topic NULL: what a topic without overrides has.
 * NULL only for an unknown key; `source` may be NULL.
 */
const char *topic_config_text(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
							  const char *key, ConfigSource *source);
int64_t topic_config_int(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
						 const char *key);
bool topic_config_bool(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
					   const char *key);
double topic_config_double(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
						   const char *key);
/* `item` is one of a list: topic_config_has(..., "cleanup.policy", "compact"). */
bool topic_config_has(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
					  const char *key, const char *item);

/*
 * A broker's key: dynamic (this broker, cluster), static, default.  Knows the keys of config_keys.def and the
 * options of config_options.def; NULL: unknown, or without any value.
 */
const char *broker_config_text(const TopicConfigs *configs, const MetaImage *image, const char *key,
							   ConfigSource *source, char buf[TOPIC_CONFIG_TEXT]);
int64_t broker_config_int(const TopicConfigs *configs, const MetaImage *image, const char *key);
bool broker_config_bool(const TopicConfigs *configs, const MetaImage *image, const char *key);

/* One layer as DescribeConfigs lists it among the synonyms: its own name and its own unit. */
typedef struct ConfigLayer
{
	const char *name;
	const char *value;
	ConfigSource source;
	char text[TOPIC_CONFIG_TEXT];
} ConfigLayer;

#define CONFIG_MAX_LAYERS 16
/* From the one that counts down to the default; returns how many.  topic NULL and a broker's key: without layer
 * 1.  A topic's key without synonym and override has none. */
int topic_config_layers(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
						int scope, const char *key, ConfigLayer out[CONFIG_MAX_LAYERS]);

#endif
