/*
 * test_topic_config.c: which layer's value counts, and that the two tables of names agree.
 */
#include <stdlib.h>
#include <unistd.h>

#include "brokerd/meta/topic_config.h"
#include "regress/unit/tap.h"

static BrokerConfig config;
static MetaImage *image;
static MetaTopic *topic;
static TopicConfigs *configs;

/* With three replicas, of which `adding` are being added. */
static void
make_wide_topic(const char *json, uint8_t adding)
{
	uint8_t partition[60] = {0};
	MetaTopicRow row = {
		.name = "w", .name_len = 1, .id = {{2}}, .config_json = json, .partitions = partition};
	int at = 0;
	Err err = {0};

	partition[4 * 1 + 3] = 1; /* leader */
	partition[4 * 4 + 3] = 3; /* replicas */
	for (int i = 0; i < 3; i++)
		partition[4 * (5 + i) + 3] = (uint8_t) (1 + i);
	partition[4 * 8 + 3] = 1; /* ISR */
	partition[4 * 9 + 3] = 1;
	partition[4 * 10 + 3] = adding;
	for (at = 0; at < adding; at++)
		partition[4 * (11 + at) + 3] = (uint8_t) (2 + at);
	row.partitions_len = (size_t) (4 * (11 + adding + 2));
	ok(meta_image_apply_topic(image, &row, &err), "a topic of three replicas %s", err.text);
	topic = meta_image_topic(image, "w", 1);
	meta_image_forget_changes(image);
}

static void
make_topic(const char *json)
{
	static const uint8_t partition[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0,
										0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	MetaTopicRow row = {.name = "t",
						.name_len = 1,
						.id = {{1}},
						.config_json = json,
						.partitions = partition,
						.partitions_len = sizeof(partition)};
	Err err = {0};

	ok(meta_image_apply_topic(image, &row, &err), "a topic %s", err.text);
	topic = meta_image_topic(image, "t", 1);
	meta_image_forget_changes(image);
}

static void
set_static(const char *const *settings, int n)
{
	Err err = {0};

	topic_configs_free(configs);
	config_free(&config);
	if (!config_load(&config, NULL, settings, n, &err))
		printf("# %s\n", err.text);
	configs = topic_configs_new(&config);
}

static void
is_value(const char *key, const char *value, ConfigSource source, const char *what)
{
	ConfigSource from = CONFIG_SOURCE_DEFAULT;

	is_str(topic_config_text(configs, image, topic, key, &from), value, "%s = %s %s", key, value, what);
	is_int(from, source, "... by that layer");
}

static void
test_layers(void)
{
	const char *const base[] = {"node.id=1", "pg_broker.postgres=x", "log.retention.hours=24",
								"log.segment.bytes=2000000"};
	const char *const more[] = {"node.id=1", "pg_broker.postgres=x", "log.retention.hours=24",
								"log.retention.minutes=30", "log.roll.hours=1"};
	const char *const never[] = {"node.id=1", "pg_broker.postgres=x", "log.retention.hours=-1"};
	ConfigLayer layers[CONFIG_MAX_LAYERS];
	int n;

	set_static(base, 2);
	is_value("retention.ms", "604800000", CONFIG_SOURCE_DEFAULT, "by default");
	is_value("flush.messages", "9223372036854775807", CONFIG_SOURCE_DEFAULT, "by default");
	set_static(base, 4);
	is_value("retention.ms", "86400000", CONFIG_SOURCE_STATIC, "from hours in the file");
	is_value("segment.bytes", "2000000", CONFIG_SOURCE_STATIC, "from the file");
	set_static(more, 5);
	is_value("retention.ms", "1800000", CONFIG_SOURCE_STATIC, "minutes win over hours");
	is_value("segment.ms", "3600000", CONFIG_SOURCE_STATIC, "from hours");
	set_static(never, 3);
	is_value("retention.ms", "-1", CONFIG_SOURCE_STATIC, "-1 hours is for ever");
	set_static(base, 4);
	meta_image_configs_begin(image);
	meta_image_configs_add(image, -1, "log.retention.ms", "77");
	meta_image_configs_add(image, 1, "log.segment.bytes", "3000000");
	meta_image_configs_add(image, 2, "log.retention.ms", "99");
	meta_image_configs_end(image);
	is_value("retention.ms", "77", CONFIG_SOURCE_CLUSTER, "dynamic, of the cluster");
	is_value("segment.bytes", "3000000", CONFIG_SOURCE_BROKER, "dynamic, of this broker");
	make_topic("{\"retention.ms\": \"5\", \"cleanup.policy\": \"compact,delete\", "
			   "\"unclean.leader.election.enable\": \"true\"}");
	is_value("retention.ms", "5", CONFIG_SOURCE_TOPIC, "of the topic");
	is_int(topic_config_int(configs, image, topic, "retention.ms"), 5, "as a number");
	ok(topic_config_bool(configs, image, topic, "unclean.leader.election.enable"), "as a boolean");
	ok(topic_config_double(configs, image, topic, "min.cleanable.dirty.ratio") == 0.5, "as a fraction");
	ok(topic_config_has(configs, image, topic, "cleanup.policy", "delete") &&
		   !topic_config_has(configs, image, topic, "cleanup.policy", "del"),
	   "as a list");
	ok(topic_config_text(configs, image, topic, "no.such.key", NULL) == NULL, "an unknown key");

	n = topic_config_layers(configs, image, topic, CFG_TOPIC, "retention.ms", layers);
	ok(n == 4 && layers[0].source == CONFIG_SOURCE_TOPIC && layers[1].source == CONFIG_SOURCE_CLUSTER &&
		   layers[2].source == CONFIG_SOURCE_STATIC && layers[3].source == CONFIG_SOURCE_DEFAULT,
	   "the layers in order");
	ok(strcmp(layers[1].name, "log.retention.ms") == 0 &&
		   strcmp(layers[2].name, "log.retention.hours") == 0 && strcmp(layers[2].value, "24") == 0 &&
		   strcmp(layers[3].name, "log.retention.hours") == 0 && strcmp(layers[3].value, "168") == 0,
	   "... each by its own name, in its own unit");
	is_int(topic_config_layers(configs, image, topic, CFG_TOPIC, "remote.storage.enable", layers), 0,
		   "a key without synonym and override has none");
}

static void
test_broker(void)
{
	ConfigSource source;
	char buf[TOPIC_CONFIG_TEXT];
	ConfigLayer layers[CONFIG_MAX_LAYERS];
	int n;

	is_str(broker_config_text(configs, image, "log.segment.bytes", &source, buf), "3000000",
		   "a broker's key");
	is_int(source, CONFIG_SOURCE_BROKER, "... dynamic");
	is_str(broker_config_text(configs, image, "log.retention.hours", &source, buf), "24",
		   "an option that is no dynamic key");
	is_int(source, CONFIG_SOURCE_STATIC, "... static");
	is_int(broker_config_int(configs, image, "socket.request.max.bytes"), 104857600, "... by default");
	ok(broker_config_bool(configs, image, "auto.create.topics.enable"), "... as a boolean");
	ok(broker_config_text(configs, image, "pg_broker.postgres", &source, buf) == NULL,
	   "the connection string is never shown");
	ok(broker_config_text(configs, image, "no.such.key", &source, buf) == NULL, "an unknown one");
	n = topic_config_layers(configs, image, NULL, CFG_BROKER, "log.segment.bytes", layers);
	ok(n == 3 && layers[0].source == CONFIG_SOURCE_BROKER && strcmp(layers[1].value, "2000000") == 0 &&
		   strcmp(layers[2].value, "1073741824") == 0,
	   "its layers");
}

static const char *
same(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0) ? NULL : "differs";
}

/* What both tables know: one default, and the same question whether it can change while running. */
static void
test_tables(void)
{
	const ConfigKey *keys[256];
	int n = topic_config_keys(configs, CFG_CLUSTER | CFG_BROKER, keys, 256);
	bool agree = true, known = true, sorted = true, dynamic = true;

	for (int i = 0; i < n; i++)
	{
		const ConfigOption *o = config_find_option(keys[i]->name);
		/* Those with older names in other units have their default there. */
		bool older = o != NULL && o->default_text == NULL;

		sorted = sorted && (i == 0 || strcmp(keys[i - 1]->name, keys[i]->name) < 0);
		if (o == NULL || older)
			continue;
		if (same(o->default_text, keys[i]->def) != NULL || o->needs_restart != keys[i]->restart)
		{
			printf("# %s: config_options.def says %s%s, config_keys.def %s%s\n", keys[i]->name,
				   o->default_text, o->needs_restart ? ", restart" : "", keys[i]->def,
				   keys[i]->restart ? ", restart" : "");
			agree = false;
		}
	}
	ok(sorted, "keys come sorted");
	ok(agree, "config_options.def and config_keys.def agree");
	n = topic_config_keys(configs, CFG_TOPIC, keys, 256);
	for (int i = 0; i < n; i++)
		if (keys[i]->synonym != NULL &&
			topic_config_key(configs, CFG_CLUSTER | CFG_BROKER, keys[i]->synonym) == NULL)
		{
			printf("# %s has the synonym %s, which is no key of a broker\n", keys[i]->name, keys[i]->synonym);
			known = false;
		}
	ok(known, "every synonym of a topic's key is a broker's key");
	for (int i = 0; i < CONFIG_OPTION_COUNT; i++)
	{
		const ConfigOption *o = &config_options(&n)[i];

		if (!o->needs_restart && topic_config_key(configs, CFG_CLUSTER | CFG_BROKER, o->name) == NULL)
		{
			printf("# %s is dynamic by config_options.def and no key of config_keys.def\n", o->name);
			dynamic = false;
		}
	}
	ok(dynamic, "every option that changes without restart is a key");
}

/* Two of three, when nobody has said otherwise (hazards A1). */
static void
test_min_isr(void)
{
	const char *const base[] = {"node.id=1", "pg_broker.postgres=x"};
	const char *const more[] = {"node.id=1", "pg_broker.postgres=x", "min.insync.replicas=1"};
	ConfigLayer layers[CONFIG_MAX_LAYERS];

	set_static(base, 2);
	make_wide_topic(NULL, 0);
	is_value("min.insync.replicas", "2", CONFIG_SOURCE_DEFAULT, "three replicas");
	is_int(topic_config_layers(configs, image, topic, CFG_TOPIC, "min.insync.replicas", layers), 1,
		   "one layer");
	is_str(layers[0].value, "2", "which says so too");
	make_wide_topic(NULL, 2);
	is_value("min.insync.replicas", "1", CONFIG_SOURCE_DEFAULT, "growing from one to three");
	make_wide_topic("{\"min.insync.replicas\":\"3\"}", 0);
	is_value("min.insync.replicas", "3", CONFIG_SOURCE_TOPIC, "set for the topic");
	make_wide_topic("{}", 0);
	set_static(more, 3);
	is_value("min.insync.replicas", "1", CONFIG_SOURCE_STATIC, "set in the file, also to the default");
	set_static(base, 2);
	topic = NULL;
	is_value("min.insync.replicas", "1", CONFIG_SOURCE_DEFAULT, "a topic that is not there");
}

int
main(void)
{
	image = meta_image_new();
	config_init(&config);
	configs = topic_configs_new(&config);
	test_layers();
	test_broker();
	test_tables();
	test_min_isr();
	topic_configs_free(configs);
	config_free(&config);
	meta_image_free(image);
	return tap_done();
}
