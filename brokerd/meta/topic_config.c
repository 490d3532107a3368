/*
 * topic_config.c: effective configuration values by layers.
 */
#include "brokerd/meta/topic_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/meta/image_internal.h"
#include "extension/min_isr.h"

static const ConfigKey table[] = {
#define CONFIG_KEY(name, scopes, type, unit, def, min, max, allowed, synonym, used, restart, doc)            \
	{name, scopes, type, unit, def, min, max, allowed, synonym, used, restart, doc},
#include "extension/config_keys.def"
};

#define TABLE_ROWS ((int) (sizeof(table) / sizeof(table[0])))

/* Older names of a broker's key, in the order in which Kafka asks them after the key itself. */
typedef struct OlderName
{
	const char *key;
	const char *name;
	int64_t factor;           /* from its unit to the key's */
	const char *default_text; /* Kafka's; NULL: none */
} OlderName;

static const OlderName older_names[] = {
	{"log.retention.ms", "log.retention.minutes", 60000, NULL},
	{"log.retention.ms", "log.retention.hours", 3600000, "168"},
	{"log.roll.ms", "log.roll.hours", 3600000, "168"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours", 3600000, "0"},
	/* Not an option of ours: what Kafka takes for flush.ms where nobody sets log.flush.interval.ms. */
	{"log.flush.interval.ms", "log.flush.scheduler.interval.ms", 1, "9223372036854775807"},
};

#define OLDER_NAMES ((int) (sizeof(older_names) / sizeof(older_names[0])))

struct TopicConfigs
{
	const BrokerConfig *config;
	const ConfigKey *sorted[TABLE_ROWS]; /* by name, then scopes */
	/* What the properties file says of each (for a topic's key: of its synonym), in the key's own unit.  Looked
	 * up once: a start with 10,000 topics asks for it 160,000 times. */
	const char *statics[TABLE_ROWS];
	char converted[TABLE_ROWS][TOPIC_CONFIG_TEXT];
};

/* ---- the table ---- */

static int
compare_rows(const void *a, const void *b)
{
	const ConfigKey *x = *(const ConfigKey *const *) a, *y = *(const ConfigKey *const *) b;
	int order = strcmp(x->name, y->name);

	return order != 0 ? order : x->scopes - y->scopes;
}

static const char *find_static(const TopicConfigs *configs, const char *key, char buf[TOPIC_CONFIG_TEXT]);

TopicConfigs *
topic_configs_new(const BrokerConfig *config)
{
	TopicConfigs *configs = meta_alloc(sizeof(*configs));

	configs->config = config;
	for (int i = 0; i < TABLE_ROWS; i++)
		configs->sorted[i] = &table[i];
	qsort(configs->sorted, TABLE_ROWS, sizeof(configs->sorted) / TABLE_ROWS, compare_rows);
	for (int i = 0; i < TABLE_ROWS; i++)
	{
		const ConfigKey *row = configs->sorted[i];
		const char *name = row->scopes == CFG_TOPIC ? row->synonym : row->name;

		if (name != NULL)
			configs->statics[i] = find_static(configs, name, configs->converted[i]);
	}
	return configs;
}

void
topic_configs_free(TopicConfigs *configs)
{
	free(configs);
}

int
topic_config_keys(const TopicConfigs *configs, int scope, const ConfigKey **out, int max)
{
	int n = 0;

	for (int i = 0; i < TABLE_ROWS; i++)
	{
		if ((configs->sorted[i]->scopes & scope) == 0)
			continue;
		if (n < max)
			out[n] = configs->sorted[i];
		n++;
	}
	return n;
}

/* Its place in `sorted`; -1: none. */
static int
find_row(const TopicConfigs *configs, int scope, const char *name)
{
	int low = 0, high = TABLE_ROWS;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (strcmp(configs->sorted[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	/* A name can have a row for topics and one for brokers. */
	for (; low < TABLE_ROWS && strcmp(configs->sorted[low]->name, name) == 0; low++)
		if ((configs->sorted[low]->scopes & scope) != 0)
			return low;
	return -1;
}

const ConfigKey *
topic_config_key(const TopicConfigs *configs, int scope, const char *name)
{
	int row = find_row(configs, scope, name);

	return row < 0 ? NULL : configs->sorted[row];
}

/* ---- one layer of a broker's key ---- */

/* The value in the properties file; NULL: not set there. */
static const char *
static_value(const TopicConfigs *configs, const char *name, char buf[TOPIC_CONFIG_TEXT])
{
	int id = config_option_id(name);

	if (id < 0 || !configs->config->set[id])
		return NULL;
	return config_value_text(configs->config, id, buf, TOPIC_CONFIG_TEXT);
}

static const char *
convert(const char *value, int64_t factor, char buf[TOPIC_CONFIG_TEXT])
{
	int64_t number = strtoll(value, NULL, 10);

	/* Any negative time means "for ever", which is written -1 in every unit. */
	if (number < 0)
		number = -1;
	else if (number > INT64_MAX / factor)
		number = INT64_MAX;
	else
		number *= factor;
	snprintf(buf, TOPIC_CONFIG_TEXT, "%" PRId64, number);
	return buf;
}

/* Of a key or one of its older names, in the key's unit. */
static const char *
find_static(const TopicConfigs *configs, const char *key, char buf[TOPIC_CONFIG_TEXT])
{
	const char *value = static_value(configs, key, buf);

	for (int i = 0; value == NULL && i < OLDER_NAMES; i++)
		if (strcmp(older_names[i].key, key) == 0)
		{
			char text[TOPIC_CONFIG_TEXT];
			const char *older = static_value(configs, older_names[i].name, text);

			if (older != NULL)
				value = convert(older, older_names[i].factor, buf);
		}
	return value;
}

/* Layers 2 and 3 of a broker's key. */
static const char *
find_dynamic(const TopicConfigs *configs, const MetaImage *image, const char *key, ConfigSource *source)
{
	const char *value = meta_image_broker_config(image, configs->config->node_id, key);

	*source = CONFIG_SOURCE_BROKER;
	if (value != NULL)
		return value;
	*source = CONFIG_SOURCE_CLUSTER;
	return meta_image_cluster_config(image, key);
}

/* ---- values ---- */

/* The table's, but for min.insync.replicas, which goes by the topic's replicas (those of partition 0). */
static const char *
topic_default(const MetaTopic *topic, const ConfigKey *row)
{
	const MetaPartition *first;

	if (topic == NULL || strcmp(row->name, "min.insync.replicas") != 0)
		return row->def;
	first = meta_topic_partition(topic, 0);
	return first != NULL && min_isr_of(-1, first->n_replicas, first->n_adding, first->n_removing) > 1
			   ? "2"
			   : row->def;
}

const char *
topic_config_text(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
				  const char *key, ConfigSource *source)
{
	int row = find_row(configs, CFG_TOPIC, key);
	const char *value = topic == NULL ? NULL : meta_topic_config(topic, key);
	ConfigSource from = CONFIG_SOURCE_TOPIC;

	if (row < 0)
		return NULL;
	if (value == NULL && configs->sorted[row]->synonym != NULL)
		value = find_dynamic(configs, image, configs->sorted[row]->synonym, &from);
	if (value == NULL)
	{
		from = CONFIG_SOURCE_STATIC;
		value = configs->statics[row];
	}
	if (value == NULL)
	{
		from = CONFIG_SOURCE_DEFAULT;
		value = topic_default(topic, configs->sorted[row]);
	}
	if (source != NULL)
		*source = from;
	return value;
}

const char *
broker_config_text(const TopicConfigs *configs, const MetaImage *image, const char *key, ConfigSource *source,
				   char buf[TOPIC_CONFIG_TEXT])
{
	int row = find_row(configs, CFG_CLUSTER | CFG_BROKER, key);
	const ConfigOption *option = config_find_option(key);
	ConfigSource from;
	const char *value;

	if (row < 0 && option == NULL)
		return NULL;
	value = find_dynamic(configs, image, key, &from);
	if (value == NULL)
	{
		from = CONFIG_SOURCE_STATIC;
		value = row >= 0 ? configs->statics[row] : find_static(configs, key, buf);
	}
	if (value == NULL)
	{
		from = CONFIG_SOURCE_DEFAULT;
		value = row >= 0 ? configs->sorted[row]->def : option->default_text;
	}
	if (source != NULL)
		*source = from;
	return value;
}

static int64_t
text_to_int(const char *text)
{
	return text == NULL ? 0 : strtoll(text, NULL, 10);
}

int64_t
topic_config_int(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic, const char *key)
{
	return text_to_int(topic_config_text(configs, image, topic, key, NULL));
}

static bool
text_is_true(const char *text)
{
	return text != NULL && strcmp(text, "true") == 0;
}

bool
topic_config_bool(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
				  const char *key)
{
	return text_is_true(topic_config_text(configs, image, topic, key, NULL));
}

double
topic_config_double(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic,
					const char *key)
{
	const char *text = topic_config_text(configs, image, topic, key, NULL);

	return text == NULL ? 0 : strtod(text, NULL);
}

bool
topic_config_has(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic, const char *key,
				 const char *item)
{
	const char *p = topic_config_text(configs, image, topic, key, NULL);
	size_t want = strlen(item);

	while (p != NULL && *p != '\0')
	{
		size_t len = strcspn(p, ",");

		if (len == want && strncmp(p, item, len) == 0)
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

int64_t
broker_config_int(const TopicConfigs *configs, const MetaImage *image, const char *key)
{
	char buf[TOPIC_CONFIG_TEXT];

	return text_to_int(broker_config_text(configs, image, key, NULL, buf));
}

bool
broker_config_bool(const TopicConfigs *configs, const MetaImage *image, const char *key)
{
	char buf[TOPIC_CONFIG_TEXT];

	return text_is_true(broker_config_text(configs, image, key, NULL, buf));
}

/* ---- the list of layers ---- */

static void
add_layer(ConfigLayer *out, int *n, const char *name, const char *value, ConfigSource source)
{
	if (value == NULL || *n == CONFIG_MAX_LAYERS)
		return;
	out[*n].name = name;
	out[*n].value = value;
	out[*n].source = source;
	(*n)++;
}

static void
add_static(const TopicConfigs *configs, ConfigLayer *out, int *n, const char *name)
{
	const char *value = *n == CONFIG_MAX_LAYERS ? NULL : static_value(configs, name, out[*n].text);

	add_layer(out, n, name, value, CONFIG_SOURCE_STATIC);
}

static const char *
default_of(const TopicConfigs *configs, const char *name)
{
	const ConfigOption *option = config_find_option(name);
	const ConfigKey *row;

	/* The option's row first: Kafka has no default for log.retention.ms, but for log.retention.hours. */
	if (option != NULL)
		return option->default_text;
	row = topic_config_key(configs, CFG_CLUSTER | CFG_BROKER, name);
	return row == NULL ? NULL : row->def;
}

int
topic_config_layers(const TopicConfigs *configs, const MetaImage *image, const MetaTopic *topic, int scope,
					const char *key, ConfigLayer out[CONFIG_MAX_LAYERS])
{
	const ConfigKey *row = topic_config_key(configs, scope, key);
	const char *name = scope == CFG_TOPIC ? (row == NULL ? NULL : row->synonym) : key;
	int n = 0;

	if (scope == CFG_TOPIC && topic != NULL)
		add_layer(out, &n, key, meta_topic_config(topic, key), CONFIG_SOURCE_TOPIC);
	if (name == NULL)
		return n;
	add_layer(out, &n, name, meta_image_broker_config(image, configs->config->node_id, name),
			  CONFIG_SOURCE_BROKER);
	add_layer(out, &n, name, meta_image_cluster_config(image, name), CONFIG_SOURCE_CLUSTER);
	add_static(configs, out, &n, name);
	for (int i = 0; i < OLDER_NAMES; i++)
		if (strcmp(older_names[i].key, name) == 0)
			add_static(configs, out, &n, older_names[i].name);
	add_layer(out, &n, name,
			  scope == CFG_TOPIC && strcmp(name, "min.insync.replicas") == 0 ? topic_default(topic, row)
																			 : default_of(configs, name),
			  CONFIG_SOURCE_DEFAULT);
	for (int i = 0; i < OLDER_NAMES; i++)
		if (strcmp(older_names[i].key, name) == 0)
			add_layer(out, &n, older_names[i].name, older_names[i].default_text, CONFIG_SOURCE_DEFAULT);
	return n;
}
